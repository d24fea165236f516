//! Credentials that the program provides for each connection: a password function of pg or postgres.js,
//! or a `credentialsProvider` of node-redis. IAM users need them, because their passwords expire after
//! minutes.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde::Deserialize;
use serde_json::json;

use crate::error::{Error, ErrorCode, Result};
use crate::foreign::Foreign;

/// Asks the program. Clones ask the same function.
#[derive(Clone)]
pub struct CredentialsProvider {
    program: Arc<dyn Foreign>,
    /// Whether the last question is still unanswered.
    unanswered: Arc<AtomicBool>,
}

/// The credentials for a server. Never printed.
#[derive(Deserialize)]
pub struct Credentials {
    #[serde(default)]
    pub username: Option<String>,
    #[serde(default)]
    pub password: Option<String>,
}

impl CredentialsProvider {
    pub fn new(program: Arc<dyn Foreign>) -> Self {
        Self {
            program,
            unanswered: Arc::default(),
        }
    }

    /// Asks the program. The caller limits the time, because the answer needs the program's event loop,
    /// which may be blocked.
    pub async fn ask(&self) -> Result<Credentials> {
        self.unanswered.store(true, Ordering::Relaxed);
        let answer = self.program.ask(json!({ "op": "credentials" })).await;
        self.unanswered.store(false, Ordering::Relaxed);
        serde_json::from_value(answer?).map_err(|_| {
            let message = "The function for credentials returned something unexpected";
            Error::new(ErrorCode::AuthFailed, message)
        })
    }

    /// Returns the error for a connection that timed out, if unanswered questions are the reason.
    pub fn timed_out(&self) -> Option<Error> {
        self.unanswered.load(Ordering::Relaxed).then(|| {
            Error::timeout(
                "The function for credentials did not answer in time: it hangs, or the event loop \
                 is blocked",
            )
        })
    }
}

/// Passwords are never printed.
impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Credentials(…)")
    }
}

impl fmt::Debug for CredentialsProvider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CredentialsProvider(…)")
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;
    use futures_util::future::BoxFuture;
    use serde_json::Value;

    use super::*;

    struct Program(Option<Value>);

    impl Foreign for Program {
        fn ask(&self, question: Value) -> BoxFuture<'static, Result<Value>> {
            assert_eq!(question, json!({ "op": "credentials" }));
            match self.0.clone() {
                Some(answer) => Box::pin(async { Ok(answer) }),
                None => Box::pin(std::future::pending()),
            }
        }
    }

    fn asked(answer: Value) -> Result<Credentials> {
        let provider = CredentialsProvider::new(Arc::new(Program(Some(answer))));
        let answer = provider.ask().now_or_never().unwrap();
        assert!(provider.timed_out().is_none());
        answer
    }

    #[test]
    fn answers_are_read_and_never_printed() {
        let found = asked(json!({ "username": "me", "password": "hunter2" })).unwrap();
        assert_eq!(found.username.as_deref(), Some("me"));
        assert_eq!(found.password.as_deref(), Some("hunter2"));
        assert!(!format!("{found:?}").contains("hunter2"));
        assert!(asked(json!({})).unwrap().password.is_none());
        let error = asked(json!({ "password": 5 })).unwrap_err();
        assert_eq!(error.code, ErrorCode::AuthFailed);
    }

    #[test]
    fn a_function_that_does_not_answer_is_the_reason() {
        let provider = CredentialsProvider::new(Arc::new(Program(None)));
        assert!(provider.ask().now_or_never().is_none());
        assert!(provider.timed_out().is_some());
    }
}
