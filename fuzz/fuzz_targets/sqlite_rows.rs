//! Rows of SQLite that something else has written, into tables without any rule. The input is
//! `[lock, counter, now, holders]` in JSON: the columns of a lock or a shared record, those of its fence
//! counter, the time, and those of each holder. A list of numbers is a text of these bytes.
#![no_main]

use std::cell::RefCell;

use libfuzzer_sys::fuzz_target;
use rusqlite::types::Value;
use rusqlite::{Connection, ToSql, params_from_iter};
use serde_json::Value as Json;
use syncguard::backend::sqlite::fuzzing as sqlite;
use syncguard::backend::{AcquireOutcome, AcquireRequest, LookupQuery};
use syncguard::lock::fence::FENCE_MAX;
use syncguard::lock::{Access, Key, LockId, Ttl};

const KEY: &str = "key";
const LOCK_ID: &str = "AAAAAAAAAAAAAAAAAAAAAA";

thread_local! {
    static DATABASE: RefCell<Connection> = RefCell::new(open());
}

fn open() -> Connection {
    let lax = ["STRICT, ", " NOT NULL", " TEXT", " INTEGER"]
        .iter()
        .fold(sqlite::SCHEMA.to_owned(), |schema, rule| {
            schema.replace(rule, "")
        });
    let database = Connection::open_in_memory().unwrap();
    database.execute_batch(&lax).unwrap();
    database
}

type Rows = (Vec<Json>, Vec<Json>, u64, Vec<Vec<Json>>);

fuzz_target!(|data: &[u8]| {
    let Ok((lock, counter, now_ms, holders)) = serde_json::from_slice::<Rows>(data) else {
        return;
    };
    DATABASE.with_borrow_mut(|database| {
        let written = database.transaction().unwrap();
        if insert(&written, "syncguard_locks", 6, lock)
            && insert(&written, "syncguard_fence_counters", 3, counter)
            && holders
                .into_iter()
                .all(|holder| insert(&written, "syncguard_holders", 7, holder))
        {
            use_all(&written, now_ms);
        }
    });
});

fn insert(database: &Connection, table: &str, columns: usize, row: Vec<Json>) -> bool {
    if row.len() != columns {
        return row.is_empty();
    }
    let values: Vec<_> = row.into_iter().map(value).collect();
    let places: Vec<_> = values
        .iter()
        .map(|value| match value {
            Value::Blob(_) => "CAST(? AS TEXT)",
            _ => "?",
        })
        .collect();
    let sql = format!("INSERT INTO {table} VALUES ({})", places.join(","));
    let values = params_from_iter(values.iter().map(|value| value as &dyn ToSql));
    // A key may be there twice, which no writer can do.
    database
        .prepare_cached(&sql)
        .unwrap()
        .execute(values)
        .is_ok()
}

fn value(json: Json) -> Value {
    match json {
        Json::Null => Value::Null,
        Json::Bool(value) => Value::Integer(value.into()),
        Json::Number(number) => number.as_i64().map_or_else(
            || Value::Real(number.as_f64().unwrap_or(0.0)),
            Value::Integer,
        ),
        Json::String(text) => Value::Text(text),
        Json::Array(bytes) => Value::Blob(
            bytes
                .iter()
                .filter_map(|byte| u8::try_from(byte.as_u64()?).ok())
                .collect(),
        ),
        Json::Object(_) => Value::Blob(b"{}".to_vec()),
    }
}

fn use_all(database: &Connection, now_ms: u64) {
    let key = Key::new(KEY).unwrap();
    let lock_id = LockId::parse(LOCK_ID).unwrap();
    let ttl = Ttl::from_number(1000.0).unwrap();
    let _ = sqlite::is_locked(database, &key, now_ms);
    for query in [LookupQuery::Key(key.clone()), LookupQuery::LockId(lock_id)] {
        if let Ok(Some(record)) = sqlite::lookup(database, &query, now_ms) {
            assert!(record.fence.value() <= FENCE_MAX);
        }
    }
    let _ = sqlite::list(database, now_ms);
    let _ = sqlite::extend(database, lock_id, ttl, now_ms);
    let mark = LockId::parse("EEEEEEEEEEEEEEEEEEEEEE").unwrap();
    let access = [Access::Shared { limit: 2 }, Access::Exclusive];
    for (access, id) in access.into_iter().zip(["F", "B"]) {
        let before = fence(database);
        let request = request(access, &id.repeat(22), mark);
        if let Ok(AcquireOutcome::Acquired { fence, share, .. }) =
            sqlite::acquire(database, &request, now_ms)
        {
            assert_eq!(share.is_some(), access.is_shared());
            assert!(fence.value() <= FENCE_MAX);
            if let Some(Value::Integer(before)) = before {
                assert!(
                    i64::try_from(fence.value()).unwrap() > before,
                    "a fence came again"
                );
            }
        }
    }
    let _ = sqlite::unmark(database, &key, mark, now_ms);
    let _ = sqlite::release(database, lock_id, now_ms);
    let _ = sqlite::force_release(database, &key, now_ms);
    let _ = sqlite::sweep(database, now_ms);
}

fn request(access: Access, lock_id: &str, mark: LockId) -> AcquireRequest {
    AcquireRequest {
        key: Key::new(KEY).unwrap(),
        lock_id: LockId::parse(lock_id).unwrap(),
        ttl: Ttl::from_number(1000.0).unwrap(),
        label: None,
        caller: 0,
        access,
        mark: (!access.is_shared()).then_some(mark),
    }
}

fn fence(database: &Connection) -> Option<Value> {
    let sql = "SELECT fence FROM syncguard_fence_counters WHERE fence_key = 'fence:key'";
    let mut select = database.prepare_cached(sql).unwrap();
    select.query_row([], |row| row.get(0)).ok()
}
