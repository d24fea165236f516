//! The options of all backends: the name of one in the first line, then JSON. `s3cret` stands for a password:
//! no message may show it.
#![no_main]

use libfuzzer_sys::fuzz_target;
use serde::de::DeserializeOwned;
use syncguard::backend::memory::MemoryConfig;
use syncguard::backend::{firestore, postgres, redis, sqlite};
use syncguard::error::{Error, Result};

fuzz_target!(|input: &str| {
    let Some((kind, json)) = input.split_once('\n') else {
        return;
    };
    // These name files, which would be read.
    if json.contains("ssl") || json.contains('\\') {
        return;
    }
    let checked = match kind {
        "firestore" => read(json).and_then(|it| firestore::fuzzing::check_options(&it)),
        "memory" => read::<MemoryConfig>(json).map(drop),
        "postgres" => read(json).and_then(postgres::fuzzing::check_options),
        "redis" => read(json).and_then(|it| redis::fuzzing::check_options(&it)),
        "redis-client" => read(json).and_then(|it| redis::fuzzing::check_client_options(&it)),
        "sqlite" => read(json).and_then(sqlite::fuzzing::check_options),
        _ => return,
    };
    let Err(error) = checked else {
        return;
    };
    let in_password =
        json.matches("s3cret").count() == json.matches("\"password\":\"s3cret").count();
    assert!(
        !in_password || !format!("{error:?}").contains("s3cret"),
        "{error:?}"
    );
});

fn read<T: DeserializeOwned>(json: &str) -> Result<T> {
    serde_json::from_str(json).map_err(|error| Error::invalid_argument(error.to_string()))
}
