//! What the scripts answer.

use std::time::Duration;

use redis::{FromRedisValue, Value};
use serde::Deserialize;

use super::keys::Keyspace;
use crate::backend::redis::error;
use crate::backend::{AcquireOutcome, ExtendOutcome, LockRecord, Miss, Page, ReleaseOutcome};
use crate::error::{Error, Result};
use crate::lock::ttl::MAX_TTL_MS;
use crate::lock::{Fence, LockId};

pub(crate) fn acquired(reply: Value) -> Result<AcquireOutcome> {
    match reply {
        Value::Int(left @ ..0) => Ok(AcquireOutcome::Locked {
            // Whatever somebody else may have stored as its end.
            free_in: Some(Duration::from_millis(left.unsigned_abs().min(MAX_TTL_MS))),
        }),
        // If this cannot be read there may be a lock all the same.
        reply => granted(reply).map_err(Error::outcome_unknown),
    }
}

fn granted(reply: Value) -> Result<AcquireOutcome> {
    let (1, fence, expires_at_ms) = read::<(i64, String, u64)>(reply)? else {
        return Err(error::unexpected_reply());
    };
    Ok(AcquireOutcome::Acquired {
        fence: Fence::parse(&fence)?,
        expires_at_ms,
    })
}

pub(crate) fn released(reply: Value) -> Result<ReleaseOutcome> {
    match reply {
        Value::Int(1) => Ok(ReleaseOutcome::Released),
        reply => Ok(ReleaseOutcome::Missed(missed(reply)?)),
    }
}

pub(crate) fn extended(reply: Value) -> Result<ExtendOutcome> {
    match reply {
        Value::Array(_) => {
            let (_, expires_at_ms): (i64, u64) = read(reply)?;
            Ok(ExtendOutcome::Extended { expires_at_ms })
        }
        reply => Ok(ExtendOutcome::Missed(missed(reply)?)),
    }
}

fn missed(reply: Value) -> Result<Miss> {
    match reply {
        Value::Int(-2) => Ok(Miss::Expired),
        Value::Int(0 | -1) => Ok(Miss::NotFound),
        _ => Err(error::unexpected_reply()),
    }
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Presence {
    Locked,
    Free,
    /// Expired long ago, and still there.
    Stale(LockId),
}

pub(crate) fn presence(reply: Value) -> Result<Presence> {
    match reply {
        Value::Int(1) => Ok(Presence::Locked),
        Value::Int(0) => Ok(Presence::Free),
        reply => {
            let text: String = read(reply)?;
            Ok(LockId::parse(&text).map_or(Presence::Free, Presence::Stale))
        }
    }
}

pub(crate) fn taken_away(reply: Value) -> Result<bool> {
    match reply {
        Value::Int(1) => Ok(true),
        Value::Int(0) => Ok(false),
        _ => Err(error::unexpected_reply()),
    }
}

/// As stored. Fields that others may have added are left alone.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Stored {
    lock_id: String,
    expires_at_ms: f64,
    acquired_at_ms: f64,
    key: String,
    fence: String,
}

pub(crate) fn found(reply: Value) -> Result<Option<LockRecord>> {
    let Some(json) = read::<Option<Vec<u8>>>(reply)? else {
        return Ok(None);
    };
    record(&json).map(Some)
}

fn record(json: &[u8]) -> Result<LockRecord> {
    let not_a_lock = || {
        Error::internal(
            "What is stored under this key is not a lock: something else writes under keyPrefix",
        )
    };
    let stored: Stored = serde_json::from_slice(json).map_err(|_| not_a_lock())?;
    Ok(LockRecord {
        lock_id: LockId::parse(&stored.lock_id).map_err(|_| not_a_lock())?,
        key: stored.key,
        // A float becomes the nearest integer that there is.
        expires_at_ms: stored.expires_at_ms as u64,
        acquired_at_ms: stored.acquired_at_ms as u64,
        fence: Fence::parse(&stored.fence)?,
    })
}

/// Of what was found under our names, those that really are locks.
pub(crate) fn page(reply: Value, keyspace: &Keyspace) -> Result<Page> {
    let mut values = read::<Vec<Vec<u8>>>(reply)?.into_iter();
    let next = values.next().ok_or_else(error::unexpected_reply)?;
    let next = String::from_utf8(next).map_err(|_| error::unexpected_reply())?;
    let mut locks = Vec::new();
    while let (Some(name), Some(stored)) = (values.next(), values.next()) {
        if let Ok(lock) = record(&stored)
            && str::from_utf8(&name).is_ok_and(|name| keyspace.is_name_of(name, &lock.key))
        {
            locks.push(lock);
        }
    }
    Ok(Page {
        locks,
        next: (next != "0").then_some(next),
    })
}

fn read<T: FromRedisValue>(value: Value) -> Result<T> {
    T::from_redis_value(value).map_err(|_| error::unexpected_reply())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nonsense_is_an_error() {
        let nonsense = || Value::SimpleString("nonsense".to_owned());
        let fence = || Value::SimpleString("000000000000001".to_owned());
        for no_grant in [
            nonsense(),
            Value::Int(0),
            Value::Int(1),
            Value::Array(vec![Value::Int(1), Value::Int(2)]),
            Value::Array(vec![Value::Int(2), fence(), Value::Int(3)]),
            Value::Array(vec![Value::Int(1), Value::Int(7), Value::Int(3)]),
        ] {
            assert!(acquired(no_grant).unwrap_err().outcome_unknown);
        }
        assert!(released(nonsense()).is_err());
        assert!(extended(nonsense()).is_err());
        assert!(extended(Value::Array(vec![nonsense()])).is_err());
        assert!(found(Value::BulkString(b"{}".to_vec())).is_err());
        assert_eq!(presence(nonsense()).unwrap(), Presence::Free);
        assert!(presence(Value::Nil).is_err());
    }

    #[test]
    fn how_long_it_is_locked_is_a_sane_time() {
        for (reply, ms) in [(-1, 1), (-5000, 5000), (i64::MIN, MAX_TTL_MS)] {
            let free_in = Some(Duration::from_millis(ms));
            let locked = acquired(Value::Int(reply)).unwrap();
            assert_eq!(locked, AcquireOutcome::Locked { free_in });
        }
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
    }
}
