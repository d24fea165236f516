//! What the core asks of JavaScript, and the answers.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::future::BoxFuture;
use serde::Deserialize;
use serde_json::Value;
use tokio::sync::oneshot;

use super::bridge::Completions;
use crate::error::{Error, ErrorCode, Result};
use crate::foreign::{Foreign, Thrown};

type Answer = oneshot::Sender<Result<Value>>;

pub(super) struct Questions {
    completions: Arc<Completions>,
    /// Nothing when nobody is there to answer any more.
    open: Mutex<Option<HashMap<u64, Answer>>>,
}

/// What JavaScript says of something that it threw, and keeps under a number.
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
    pub fn new(completions: Arc<Completions>) -> Self {
        Self {
            completions,
            open: Mutex::new(Some(HashMap::new())),
        }
    }

    /// Questions to the thing that JavaScript knows by this number.
    pub fn to(self: &Arc<Self>, target: u64) -> Arc<dyn Foreign> {
        Arc::new(Target {
            questions: Arc::clone(self),
            target,
        })
    }

    pub fn answer(&self, question: u64, ok: bool, json: &str) {
        let Some(answer) = self.open().as_mut().and_then(|open| open.remove(&question)) else {
            return;
        };
        let unreadable = || Error::internal("The answer of the program could not be read");
        let result = if ok {
            serde_json::from_str(json).map_err(|_| unreadable())
        } else {
            Err(match serde_json::from_str(json) {
                Ok(failure) => self.error(failure),
                Err(_) => unreadable(),
            })
        };
        // Who asked may be gone.
        let _ = answer.send(result);
    }

    fn error(&self, failure: Failure) -> Error {
        let completions = Arc::clone(&self.completions);
        let forget = move |number: u64| completions.message('F', &number.to_string());
        let error =
            Error::new(failure.code, failure.message).thrown(Thrown::new(failure.thrown, forget));
        Error {
            outcome_unknown: failure.outcome_unknown,
            ..error
        }
    }

    /// Who waits for an answer learns that none will come.
    pub fn end(&self) {
        let unanswered = self.open().take();
        drop(unanswered);
    }

    fn open(&self) -> MutexGuard<'_, Option<HashMap<u64, Answer>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Target {
    questions: Arc<Questions>,
    target: u64,
}

impl Foreign for Target {
    fn ask(&self, question: Value) -> BoxFuture<'static, Result<Value>> {
        let (answer, answered) = oneshot::channel();
        let id = self.questions.completions.next_id();
        if let Some(open) = self.questions.open().as_mut() {
            open.insert(id, answer);
        }
        let text = format!("{id},{},{question}", self.target);
        self.questions.completions.message('Q', &text);
        Box::pin(async move {
            let gone = || Err(Error::internal("The JavaScript context has ended"));
            answered.await.unwrap_or_else(|_| gone())
        })
    }
}
