//! Questions that the core asks JavaScript, and the answers.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use serde::Deserialize;
use serde_json::Value;
use tokio::sync::oneshot;

use super::outbox::Outbox;
use crate::error::{Error, ErrorCode, Result};
use crate::foreign::{Foreign, Thrown};

type Answer = oneshot::Sender<Result<Value>>;

pub(super) struct Questions {
    outbox: Arc<Outbox>,
    /// The questions without an answer so far. None if JavaScript has ended.
    open: Mutex<Option<HashMap<u64, Answer>>>,
}

/// A value that JavaScript threw, and keeps under a number.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Failure {
    code: ErrorCode,
    message: String,
    thrown: u64,
    #[serde(default)]
    outcome_unknown: bool,
}

impl Questions {
    pub fn new(outbox: Arc<Outbox>) -> Self {
        Self {
            outbox,
            open: Mutex::new(Some(HashMap::new())),
        }
    }

    /// Returns an object that asks the JavaScript object with this number. If it `is_kept`, JavaScript
    /// keeps the object alive until the result is dropped.
    pub fn to(self: &Arc<Self>, number: u64, is_kept: bool) -> Arc<dyn Foreign> {
        Arc::new(Target {
            questions: Arc::clone(self),
            number,
            is_kept,
        })
    }

    pub fn answer(&self, question: u64, ok: bool, json: &str) {
        let Some(answer) = self
            .open
            .lock()
            .as_mut()
            .and_then(|open| open.remove(&question))
        else {
            return;
        };
        let unreadable = || {
            Error::internal(
                "JavaScript answered a question of the native addon in an unknown form. Install syncguard again",
            )
        };
        let result = if ok {
            serde_json::from_str(json).map_err(|_| unreadable())
        } else {
            Err(match serde_json::from_str(json) {
                Ok(failure) => self.error(failure),
                Err(_) => unreadable(),
            })
        };
        // The operation that asked may no longer exist.
        let _ = answer.send(result);
    }

    fn error(&self, failure: Failure) -> Error {
        let outbox = Arc::clone(&self.outbox);
        let forget = move |number: u64| outbox.message('F', &number.to_string());
        let error =
            Error::new(failure.code, failure.message).thrown(Thrown::new(failure.thrown, forget));
        Error {
            outcome_unknown: failure.outcome_unknown,
            ..error
        }
    }

    /// Fails all open questions, because no answer will come.
    pub fn end(&self) {
        let unanswered = self.open.lock().take();
        drop(unanswered);
    }
}

struct Target {
    questions: Arc<Questions>,
    number: u64,
    is_kept: bool,
}

impl Foreign for Target {
    fn ask(&self, question: Value) -> BoxFuture<'static, Result<Value>> {
        let (answer, answered) = oneshot::channel();
        let id = self.questions.outbox.next_id();
        if let Some(open) = self.questions.open.lock().as_mut() {
            open.insert(id, answer);
        }
        let text = format!("{id},{},{question}", self.number);
        self.questions.outbox.message('Q', &text);
        Box::pin(async move {
            let gone = || {
                Err(Error::internal(
                    "The JavaScript context ended before the operation did",
                ))
            };
            answered.await.unwrap_or_else(|_| gone())
        })
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        if self.is_kept {
            let outbox = &self.questions.outbox;
            outbox.message('D', &self.number.to_string());
        }
    }
}
