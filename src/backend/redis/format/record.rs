//! Reads the stored data of locks.

use serde::Deserialize;
use serde_json::Value as Json;

use crate::backend::LockRecord;
use crate::error::{Error, Result};
use crate::lock::{Fence, HolderLabel, LockId, Share};

/// What a shared record contains, and no other record of ours does.
const SHARED: &[u8] = b"\"holders\":[";
/// Longer than what precedes the holders in a record.
const MAX_HEAD_BYTES: usize = 4096;

/// The stored JSON. Other programs may have added fields.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Stored {
    lock_id: String,
    expires_at_ms: f64,
    acquired_at_ms: f64,
    key: String,
    fence: String,
    /// Other programs may have stored any value here.
    #[serde(default)]
    holder_label: Json,
    /// Other programs may have stored any value here, too.
    #[serde(default)]
    holders: Json,
}

/// A holder in a shared record.
#[derive(Deserialize)]
struct StoredHolder {
    lock_id: String,
    expires_at_ms: f64,
    slot: u32,
    acquired_at_ms: f64,
    fence: u64,
    label: String,
}

/// Reads a lock, or those of all holders that share the key. They count as `holders`, or as many as there
/// are.
pub(crate) fn locks(json: &[u8], holders: Option<u32>) -> Result<Vec<LockRecord>> {
    let stored: Stored = serde_json::from_slice(json).map_err(|_| not_a_lock())?;
    match Vec::<StoredHolder>::deserialize(&stored.holders) {
        Ok(shared) => {
            let count = holders.unwrap_or(u32::try_from(shared.len()).unwrap_or(u32::MAX));
            let share = |holder| stored.share(holder, count);
            shared.into_iter().map(share).collect()
        }
        Err(_) => Ok(vec![stored.exclusive()?]),
    }
}

/// Returns whether the data is, or begins like, a shared record.
pub(crate) fn is_shared(stored: &[u8]) -> bool {
    start_of_holders(stored).is_some()
}

fn start_of_holders(stored: &[u8]) -> Option<usize> {
    let head = &stored[..stored.len().min(MAX_HEAD_BYTES)];
    head.windows(SHARED.len()).position(|part| part == SHARED)
}

fn not_a_lock() -> Error {
    Error::internal("The value under this key is not a lock: something else writes under keyPrefix")
}

impl Stored {
    fn exclusive(self) -> Result<LockRecord> {
        Ok(LockRecord {
            lock_id: LockId::parse(&self.lock_id).map_err(|_| not_a_lock())?,
            key: self.key,
            // The conversion rounds, and limits what does not fit.
            expires_at_ms: self.expires_at_ms as u64,
            acquired_at_ms: self.acquired_at_ms as u64,
            fence: Fence::parse(&self.fence)?,
            label: self
                .holder_label
                .as_str()
                .and_then(HolderLabel::from_stored),
            share: None,
        })
    }

    fn share(&self, holder: StoredHolder, holders: u32) -> Result<LockRecord> {
        Ok(LockRecord {
            lock_id: LockId::parse(&holder.lock_id).map_err(|_| not_a_lock())?,
            key: self.key.clone(),
            expires_at_ms: holder.expires_at_ms as u64,
            acquired_at_ms: holder.acquired_at_ms as u64,
            fence: Fence::from_stored(holder.fence)?,
            label: HolderLabel::from_stored(&holder.label),
            share: Some(Share {
                slot: holder.slot,
                holders,
            }),
        })
    }
}

/// Tells two states of a shared record apart, if an attempt may succeed in the later one although it was
/// refused in the earlier one. Holders that come, heartbeats and marks make no difference.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Generation {
    /// The lockId of the record.
    record: String,
    /// How many holders and marks have left it.
    freed: u64,
}

/// Returns the generation of a shared record. None if the data is something else.
pub(crate) fn generation(stored: &[u8]) -> Option<Generation> {
    let head = str::from_utf8(&stored[..start_of_holders(stored)?]).ok()?;
    let (record, _) = head.strip_prefix("{\"lockId\":\"")?.split_once('"')?;
    let (_, freed) = head.rsplit_once("\"freed\":")?;
    Some(Generation {
        record: record.to_owned(),
        freed: freed.strip_suffix(',')?.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "AAAAAAAAAAAAAAAAAAAAAA";
    const OTHER: &str = "BBBBBBBBBBBBBBBBBBBBBB";

    fn json(more: &str) -> String {
        format!(
            r#"{{"lockId":"{ID}","expiresAtMs":9,"acquiredAtMs":1,"key":"k","fence":"000000000000007"{more}}}"#
        )
    }

    #[test]
    fn a_shared_record_is_a_lock_for_each_holder() {
        let stored = json(&format!(
            r#","mark":["x",5],"freed":3,"holders":[["{OTHER}",8,1,2,6,"a\u005b\"b\""],["{ID}",1.2e1,0,3,7,""]]"#
        ));
        let found = locks(stored.as_bytes(), None).unwrap();
        assert_eq!(found.len(), 2);
        assert_eq!(found[0].lock_id.as_str(), OTHER);
        assert_eq!((found[0].expires_at_ms, found[0].acquired_at_ms), (8, 2));
        assert_eq!(found[0].fence.value(), 6);
        let label = found[0].label.as_ref().map(HolderLabel::as_str);
        assert_eq!(label, Some(r#"a["b""#));
        assert_eq!(
            found[0].share,
            Some(Share {
                slot: 1,
                holders: 2
            })
        );
        assert_eq!((found[1].expires_at_ms, &found[1].label), (12, &None));
        let counted = locks(stored.as_bytes(), Some(9)).unwrap();
        assert_eq!(
            counted[1].share,
            Some(Share {
                slot: 0,
                holders: 9
            })
        );
        assert!(
            locks(json(r#","freed":0,"holders":[]"#).as_bytes(), None)
                .unwrap()
                .is_empty()
        );
    }

    #[test]
    fn another_field_of_that_name_is_none_of_ours() {
        for holders in [
            "null",
            "1",
            r#""x""#,
            "{}",
            "[1]",
            r#"[["x"]]"#,
            "[[1,2,3,4,5,6]]",
        ] {
            let stored = json(&format!(r#","holders":{holders}"#));
            let found = locks(stored.as_bytes(), None).unwrap();
            assert_eq!(found.len(), 1, "{holders}");
            assert_eq!(found[0].share, None);
            assert_eq!(generation(stored.as_bytes()), None);
        }
    }

    #[test]
    fn holders_that_cannot_be_ours_are_refused() {
        for holder in [
            r#"["short",8,1,2,6,""]"#.to_owned(),
            format!(r#"["{ID}",8,1,2,900000000000001,""]"#),
        ] {
            let stored = json(&format!(r#","holders":[{holder}]"#));
            assert!(locks(stored.as_bytes(), None).is_err(), "{holder}");
        }
    }

    #[test]
    fn a_generation_ends_when_a_holder_or_a_mark_leaves() {
        let of = |more: &str| generation(json(more).as_bytes());
        let first = of(r#","freed":1,"holders":[["a",1,0,1,1,""]]"#);
        assert!(first.is_some());
        assert_eq!(first, of(r#","mark":["x",5],"freed":1,"holders":[]"#));
        assert_ne!(first, of(r#","freed":2,"holders":[]"#));
        let replaced = json(r#","freed":1,"holders":[]"#).replace(ID, OTHER);
        assert_ne!(first, generation(replaced.as_bytes()));
        // A record that is cut off has one, and so can be recognised.
        let long = json(&format!(r#","freed":1,"holders":[{}]"#, " ".repeat(9000)));
        assert_eq!(first, generation(&long.as_bytes()[..300]));
        assert!(is_shared(&long.as_bytes()[..300]));
        for exclusive in ["", r#","holders":5"#, r#","freed":1"#] {
            assert_eq!(of(exclusive), None);
        }
        for damaged in [
            r#","freed":-1,"holders":["#,
            r#","freed":1 ,"holders":["#,
            r#","holders":["#,
        ] {
            assert_eq!(of(damaged), None);
        }
        assert_eq!(generation(b"\xff\"freed\":1,\"holders\":["), None);
        // A key cannot forge it.
        let forged = json("").replace("\"k\"", r#""\"freed\":1,\"holders\":[""#);
        assert_eq!(generation(forged.as_bytes()), None);
    }
}
