//! Reads the answers of the scripts.

use std::time::Duration;

use redis::{FromRedisValue, Value};

use super::keys::Keyspace;
use super::record;
use crate::backend::redis::error;
use crate::backend::{
    AcquireOutcome, ExtendOutcome, Holder, LockRecord, Miss, Page, ReleaseOutcome,
};
use crate::error::{Error, Result};
use crate::lock::ttl::MAX_TTL_MS;
use crate::lock::{Fence, HolderLabel, Share};

/// Reads the answer to an acquire.
pub(crate) fn acquired(reply: Value) -> Result<AcquireOutcome> {
    let outcome = match fields(&reply) {
        [] if number(&reply) == Some(0) => Ok(AcquireOutcome::Locked(None)),
        [decision, left_ms, expires_at_ms, more @ ..]
            if number(decision) == Some(0) && more.len() <= 2 =>
        {
            locked(left_ms, expires_at_ms, more)
        }
        [decision, fence, expires_at_ms, share @ ..] if number(decision) == Some(1) => {
            granted(fence, expires_at_ms, share)
        }
        _ => Err(error::unexpected_reply()),
    };
    // An answer that cannot be read may have granted the lock.
    outcome.map_err(Error::outcome_unknown)
}

fn granted(fence: &Value, expires_at_ms: &Value, share: &[Value]) -> Result<AcquireOutcome> {
    let expires_at_ms = u64::try_from(integer(expires_at_ms)?);
    let share = match share {
        [] => None,
        [slot, holders] => Some(Share {
            slot: count(slot)?,
            holders: count(holders)?,
        }),
        _ => return Err(error::unexpected_reply()),
    };
    Ok(AcquireOutcome::Acquired {
        fence: Fence::parse(&read::<String>(fence.clone())?)?,
        expires_at_ms: expires_at_ms.map_err(|_| error::unexpected_reply())?,
        share,
    })
}

/// Reads a refusal. `more` is the holder's label, and whether the key is shared, if the answer says so.
fn locked(left_ms: &Value, expires_at_ms: &Value, more: &[Value]) -> Result<AcquireOutcome> {
    let label: Option<String> = more.first().and_then(|label| read(label.clone()).ok());
    Ok(AcquireOutcome::Locked(Some(Holder {
        free_in: Duration::from_millis(integer(left_ms)?.unsigned_abs().min(MAX_TTL_MS)),
        // Other programs may have stored any number here.
        expires_at_ms: integer(expires_at_ms)?.unsigned_abs(),
        is_shared: more.get(1).and_then(number) == Some(1),
        label: label.and_then(|label| HolderLabel::from_stored(&label)),
    })))
}

pub(crate) fn released(reply: Value) -> Result<ReleaseOutcome> {
    match number(&reply) {
        Some(1) => Ok(ReleaseOutcome::Released),
        code => Ok(ReleaseOutcome::Missed(missed(code)?)),
    }
}

pub(crate) fn extended(reply: Value) -> Result<ExtendOutcome> {
    match reply {
        Value::Array(_) => match read(reply)? {
            (1i64, expires_at_ms) => Ok(ExtendOutcome::Extended { expires_at_ms }),
            _ => Err(error::unexpected_reply()),
        },
        reply => Ok(ExtendOutcome::Missed(missed(number(&reply))?)),
    }
}

fn missed(code: Option<i64>) -> Result<Miss> {
    match code {
        Some(-2) => Ok(Miss::Expired),
        Some(0 | -1) => Ok(Miss::NotFound),
        _ => Err(error::unexpected_reply()),
    }
}

/// Reads an answer that is 1 or 0.
pub(crate) fn yes_or_no(reply: Value) -> Result<bool> {
    match number(&reply) {
        Some(1) => Ok(true),
        Some(0) => Ok(false),
        _ => Err(error::unexpected_reply()),
    }
}

/// Reads the answer to a lookup: a lock, or one of several holders and their number.
pub(crate) fn found(reply: Value) -> Result<Option<LockRecord>> {
    let (json, holders) = match fields(&reply) {
        [json, holders] => (read::<Vec<u8>>(json.clone())?, Some(count(holders)?)),
        _ => match read::<Option<Vec<u8>>>(reply)? {
            Some(json) => (json, None),
            None => return Ok(None),
        },
    };
    let mut locks = record::locks(&json, holders)?.into_iter();
    match (locks.next(), locks.next()) {
        (Some(lock), None) => Ok(Some(lock)),
        _ => Err(error::unexpected_reply()),
    }
}

/// A page of the list of a shard.
pub(crate) struct Listed {
    pub(crate) page: Page,
    /// The names of shared records that are too long for a page.
    pub(crate) unread: Vec<String>,
}

/// Reads a page of the list of a shard. Skips values that are not locks although their
/// names look like a lock's.
pub(crate) fn page(reply: Value, space: &Keyspace) -> Result<Listed> {
    let (next, mut values) = scanned(reply)?;
    let now_ms = values.next().and_then(|now| digits(&now));
    let now_ms = now_ms.ok_or_else(error::unexpected_reply)?;
    let (mut locks, mut unread) = (Vec::new(), Vec::new());
    while let (Some(name), Some(stored)) = (values.next(), values.next()) {
        let Ok(name) = String::from_utf8(name) else {
            continue;
        };
        match live_locks(&stored, now_ms) {
            Ok(mut live) if is_lock_of(space, &name, &live) => locks.append(&mut live),
            Ok(_) => {}
            Err(_) if record::is_shared(&stored) => unread.push(name),
            Err(_) => {}
        }
    }
    let next = (next != "0").then_some(next);
    let page = Page { locks, next };
    Ok(Listed { page, unread })
}

/// Reads a shared record that was too long for a page. Empty if it is gone, or is none.
pub(crate) fn holders(reply: Value, space: &Keyspace, name: &str) -> Result<Vec<LockRecord>> {
    let Some((now_ms, stored)) = read::<Option<(Vec<u8>, Vec<u8>)>>(reply)? else {
        return Ok(Vec::new());
    };
    let now_ms = digits(&now_ms).ok_or_else(error::unexpected_reply)?;
    let live = live_locks(&stored, now_ms).unwrap_or_default();
    Ok(if is_lock_of(space, name, &live) {
        live
    } else {
        Vec::new()
    })
}

/// Reads the locks in stored data. The script has checked that an exclusive one is live.
fn live_locks(stored: &[u8], now_ms: u64) -> Result<Vec<LockRecord>> {
    let mut locks = record::locks(stored, None)?;
    locks.retain(|lock| lock.share.is_none() || lock.expires_at_ms > now_ms);
    let live = u32::try_from(locks.len()).unwrap_or(u32::MAX);
    for share in locks.iter_mut().filter_map(|lock| lock.share.as_mut()) {
        share.holders = live;
    }
    Ok(locks)
}

/// Returns whether the locks, which have the same key, are stored under its name.
fn is_lock_of(space: &Keyspace, name: &str, locks: &[LockRecord]) -> bool {
    locks
        .first()
        .is_some_and(|lock| space.is_name_of(name, &lock.key))
}

/// Returns the next cursor, and the prefixes that were found. A prefix that is no text cannot be ours.
pub(crate) fn prefixes(reply: Value) -> Result<(String, Vec<String>)> {
    let (next, values) = scanned(reply)?;
    let prefixes = values.filter_map(|value| String::from_utf8(value).ok());
    Ok((next, prefixes.collect()))
}

/// Returns the next cursor, and what was found.
fn scanned(reply: Value) -> Result<(String, impl Iterator<Item = Vec<u8>>)> {
    let mut values = read::<Vec<Vec<u8>>>(reply)?.into_iter();
    let next = values.next().and_then(|next| String::from_utf8(next).ok());
    Ok((next.ok_or_else(error::unexpected_reply)?, values))
}

/// Returns the values of an array. Empty for any other reply.
fn fields(reply: &Value) -> &[Value] {
    match reply {
        Value::Array(fields) => fields,
        _ => &[],
    }
}

fn integer(value: &Value) -> Result<i64> {
    number(value).ok_or_else(error::unexpected_reply)
}

fn count(value: &Value) -> Result<u32> {
    u32::try_from(integer(value)?).map_err(|_| error::unexpected_reply())
}

fn digits(text: &[u8]) -> Option<u64> {
    str::from_utf8(text).ok()?.parse().ok()
}

/// Returns a number. Some clients turn all numbers into texts.
fn number(reply: &Value) -> Option<i64> {
    match reply {
        Value::Int(number) => Some(*number),
        Value::BulkString(text) => str::from_utf8(text).ok()?.parse().ok(),
        _ => None,
    }
}

/// Converts a value of a reply to `T`. Fails if it has another form.
pub(crate) fn read<T: FromRedisValue>(value: Value) -> Result<T> {
    T::from_redis_value(value).map_err(|_| error::unexpected_reply())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nonsense_is_an_error() {
        let nonsense = || Value::SimpleString("nonsense".to_owned());
        let text = |text: &str| Value::BulkString(text.as_bytes().to_vec());
        let fence = || text("000000000000001");
        let too_large = || text("900000000000001");
        for no_grant in [
            nonsense(),
            Value::Nil,
            Value::Int(1),
            Value::Int(-1),
            text("1"),
            Value::Array(vec![]),
            Value::Array(vec![Value::Int(1), Value::Int(2)]),
            Value::Array(vec![Value::Int(2), fence(), Value::Int(3)]),
            Value::Array(vec![Value::Int(0), Value::Nil, Value::Int(3)]),
            Value::Array(vec![Value::Int(0), Value::Int(2), Value::Nil]),
            Value::Array(vec![
                Value::Int(0),
                Value::Int(2),
                Value::Int(3),
                fence(),
                Value::Int(1),
                Value::Int(1),
            ]),
            Value::Array(vec![Value::Int(1), fence(), Value::Int(3), Value::Int(0)]),
            Value::Array(vec![
                Value::Int(1),
                fence(),
                Value::Int(3),
                Value::Int(-1),
                Value::Int(1),
            ]),
            Value::Array(vec![Value::Int(1), Value::Int(7), Value::Int(3)]),
            Value::Array(vec![Value::Int(1), fence(), Value::Nil]),
            Value::Array(vec![Value::Int(1), too_large(), Value::Int(3)]),
        ] {
            let error = acquired(no_grant).unwrap_err();
            assert!(error.outcome_unknown);
        }
        let no_list = ["0", "k"].map(|text| Value::BulkString(text.into()));
        for nonsense in [nonsense(), Value::Array(no_list.into())] {
            assert!(page(nonsense, &Keyspace::new("p", "").unwrap()).is_err());
        }
        for nonsense in [nonsense(), Value::Nil, Value::Int(2), Value::Array(vec![])] {
            assert!(released(nonsense.clone()).is_err());
            assert!(extended(nonsense.clone()).is_err());
            assert!(yes_or_no(nonsense).is_err());
        }
        assert!(extended(Value::Int(1)).is_err());
        assert!(extended(Value::Array(vec![Value::Int(0), Value::Int(5)])).is_err());
        assert!(found(Value::BulkString(b"{}".to_vec())).is_err());
        assert!(found(Value::Int(1)).is_err());
    }

    #[test]
    fn a_share_has_a_slot_and_the_number_of_holders() {
        let text = |text: &str| Value::BulkString(text.as_bytes().to_vec());
        let grant = |slot, holders| {
            let parts = [
                Value::Int(1),
                text("000000000000007"),
                Value::Int(9),
                slot,
                holders,
            ];
            match acquired(Value::Array(parts.into())).unwrap() {
                AcquireOutcome::Acquired { share, .. } => share,
                other => panic!("{other:?}"),
            }
        };
        let share = Some(Share {
            slot: 2,
            holders: 3,
        });
        assert_eq!(grant(Value::Int(2), Value::Int(3)), share);
        assert_eq!(grant(text("2"), text("3")), share);

        let refused = [0, 5, 7].map(Value::Int).into_iter();
        let refused = refused.chain([text(""), Value::Int(1)]).collect();
        let holder = Holder {
            free_in: Duration::from_millis(5),
            expires_at_ms: 7,
            is_shared: true,
            label: None,
        };
        let locked = acquired(Value::Array(refused)).unwrap();
        assert_eq!(locked, AcquireOutcome::Locked(Some(holder)));
    }

    #[test]
    fn the_list_has_live_holders_only() {
        let text = |text: &str| Value::BulkString(text.as_bytes().to_vec());
        let id = |letter: &str| letter.repeat(22);
        let stored = |key: &str| {
            let (a, b) = (id("A"), id("B"));
            format!(
                r#"{{"lockId":"{a}","expiresAtMs":9,"acquiredAtMs":1,"key":"{key}","fence":"000000000000007","freed":0,"holders":[["{a}",5,0,1,6,""],["{b}",9,1,2,7,""]]}}"#
            )
        };
        let space = Keyspace::new("p", "").unwrap();
        let long = stored("long");
        let long = &long[..long.len() - 20];
        let reply = [
            "0",
            "5",
            "k",
            &stored("k"),
            "copy",
            &stored("k"),
            "long",
            long,
        ]
        .map(text);
        let Listed { page, unread } = page(Value::Array(reply.into()), &space).unwrap();
        let share = Some(Share {
            slot: 1,
            holders: 1,
        });
        assert_eq!(page.locks.len(), 1);
        assert_eq!((page.locks[0].share, page.next), (share, None));
        assert_eq!(unread, ["long"]);

        let read = |now: &str, stored: &str| {
            holders(Value::Array([now, stored].map(text).into()), &space, "k")
        };
        assert_eq!(read("4", &stored("k")).unwrap().len(), 2);
        for (now, stored) in [("9", &*stored("k")), ("4", &stored("other")), ("4", "{}")] {
            assert!(read(now, stored).unwrap().is_empty());
        }
        assert!(read("x", &stored("k")).is_err());
        assert!(holders(Value::Nil, &space, "k").unwrap().is_empty());
    }

    #[test]
    fn numbers_may_be_texts() {
        let text = |text: &str| Value::BulkString(text.as_bytes().to_vec());
        assert_eq!(acquired(text("0")).unwrap(), AcquireOutcome::Locked(None));
        let parts = vec![text("1"), text("000000000000007"), text("1700000000000")];
        let granted = acquired(Value::Array(parts)).unwrap();
        assert!(matches!(
            granted,
            AcquireOutcome::Acquired { fence, expires_at_ms: 1_700_000_000_000, .. } if fence.value() == 7
        ));
        assert_eq!(released(text("1")).unwrap(), ReleaseOutcome::Released);
        let missed = ReleaseOutcome::Missed(Miss::Expired);
        assert_eq!(released(text("-2")).unwrap(), missed);
        let extended = extended(Value::Array(vec![text("1"), text("5")])).unwrap();
        assert_eq!(extended, ExtendOutcome::Extended { expires_at_ms: 5 });
        assert!(yes_or_no(text("1")).unwrap());
    }

    #[test]
    fn how_long_it_is_locked_is_a_sane_time() {
        for (left, ms) in [(1, 1), (-5000, 5000), (i64::MIN, MAX_TTL_MS)] {
            let reply = Value::Array(vec![Value::Int(0), Value::Int(left), Value::Int(7)]);
            let holder = Holder {
                free_in: Duration::from_millis(ms),
                expires_at_ms: 7,
                is_shared: false,
                label: None,
            };
            let locked = acquired(reply).unwrap();
            assert_eq!(locked, AcquireOutcome::Locked(Some(holder)));
        }
    }

    #[test]
    fn a_refusal_may_name_the_holder() {
        let text = |text: &str| Value::BulkString(text.as_bytes().to_vec());
        let label_of = |fields: &[Value]| match acquired(Value::Array(fields.into())) {
            Ok(AcquireOutcome::Locked(Some(holder))) => {
                assert_eq!(holder.free_in, Duration::from_millis(5));
                assert_eq!(holder.expires_at_ms, 7);
                holder.label
            }
            other => panic!("{other:?}"),
        };
        let (five, seven) = (Value::Int(5), Value::Int(7));
        for (stored, label) in [("web-1:42", Some("web-1:42")), ("a\nb", None), ("", None)] {
            let label = label.and_then(HolderLabel::from_stored);
            let refusal = [Value::Int(0), five.clone(), seven.clone(), text(stored)];
            assert_eq!(label_of(&refusal), label);
            assert_eq!(label_of(&refusal[..3]), None);
        }
        // A grant has none, and nothing comes after it.
        let grant = vec![
            Value::Int(1),
            text("000000000000007"),
            seven,
            text("web-1:42"),
        ];
        assert!(acquired(Value::Array(grant)).is_err());
    }

    #[test]
    fn reads_what_other_implementations_store() {
        let json = br#"{ "fence": "000000000000007", "extra": [1], "key": "k\/\u00e9",
            "acquiredAtMs": 1.7e12, "expiresAtMs": 1700000005000, "lockId": "AAAAAAAAAAAAAAAAAAAAAA" }"#;
        let record = found(Value::BulkString(json.to_vec())).unwrap().unwrap();
        assert_eq!(record.key, "k/é");
        assert_eq!(record.acquired_at_ms, 1_700_000_000_000);
        assert_eq!(record.expires_at_ms, 1_700_000_005_000);
        assert_eq!(record.fence.value(), 7);
        assert_eq!(record.label, None);
    }

    #[test]
    fn a_label_is_read_if_it_is_one() {
        for (stored, label) in [
            (r#""web-1:42""#, Some("web-1:42")),
            (r#""a\u001bb""#, None),
            ("7", None),
            ("null", None),
            ("[]", None),
        ] {
            let json = format!(
                r#"{{"lockId":"AAAAAAAAAAAAAAAAAAAAAA","expiresAtMs":5,"acquiredAtMs":1,"key":"k","holderLabel":{stored},"fence":"000000000000007"}}"#
            );
            let record = found(Value::BulkString(json.into_bytes()))
                .unwrap()
                .unwrap();
            assert_eq!(record.label.as_ref().map(HolderLabel::as_str), label);
        }
    }
}
