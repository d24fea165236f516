//! Describes which database is used, and whether this host's clock agrees with the server's.

use super::clock::{ALLOWED_OFFSET_MS, Offset};
use super::config::FirestoreConfig;
use crate::backend::report::Finding;

/// `offset` is `None` if the server's answer carried no time.
pub(super) fn findings(
    config: &FirestoreConfig,
    place: &str,
    offset: Option<Offset>,
) -> Vec<Finding> {
    let server = Finding::ok(
        "server",
        format!("{place}, database {}", config.database_id()),
    );
    let clock = match offset {
        None => Finding::ok("clock", "the server does not tell its time"),
        Some(Offset { ms: 0, .. }) => Finding::ok("clock", "agrees with the server's"),
        Some(Offset { ms, direction }) => {
            let found = Finding::ok(
                "clock",
                format!("at least {ms} ms {direction} the server's"),
            );
            if ms <= ALLOWED_OFFSET_MS {
                found
            } else {
                found.error(format!(
                    "locks are only safe while all hosts agree within {ALLOWED_OFFSET_MS} ms: \
                     synchronise the clock (NTP)"
                ))
            }
        }
    };
    vec![server, clock]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::report::Verdict;

    #[test]
    fn a_wrong_clock_is_an_error() {
        let config: FirestoreConfig = serde_json::from_str("{}").unwrap();
        let clock = |ms| {
            let offset = Offset {
                ms,
                direction: "behind",
            };
            findings(&config, "Firestore", Some(offset)).remove(1)
        };
        assert_eq!(clock(0).verdict, Verdict::Ok);
        assert_eq!(clock(ALLOWED_OFFSET_MS).verdict, Verdict::Ok);
        assert_eq!(clock(ALLOWED_OFFSET_MS + 1).verdict, Verdict::Error);
        assert_eq!(clock(700).value, "at least 700 ms behind the server's");
    }
}
