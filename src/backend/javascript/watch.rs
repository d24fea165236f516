//! A watch of the program's own backend. It needs no registry, because the program is asked for each
//! watch.

use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use futures_util::future::BoxFuture;
use serde_json::{Value, json};

use crate::backend::Watch;
use crate::error::Result;
use crate::foreign::Foreign;
use crate::lock::Key;

static NEXT: AtomicU64 = AtomicU64::new(1);

pub(super) struct JavascriptWatch {
    program: Arc<dyn Foreign>,
    key: Key,
    number: u64,
    asked: Option<BoxFuture<'static, Result<Value>>>,
}

impl JavascriptWatch {
    pub fn new(program: Arc<dyn Foreign>, key: Key) -> Self {
        Self {
            program,
            key,
            number: NEXT.fetch_add(1, Ordering::Relaxed),
            asked: None,
        }
    }
}

#[async_trait]
impl Watch for JavascriptWatch {
    async fn changed(&mut self) {
        let asked = self.asked.get_or_insert_with(|| {
            self.program.ask(json!({
                "op": "watch",
                "key": self.key.as_str(),
                "number": self.number,
            }))
        });
        match asked.await {
            Ok(_) => self.asked = None,
            // The program cannot notify, so the back-off has to do.
            Err(_) => {
                self.asked = Some(Box::pin(pending()));
                pending().await
            }
        }
    }
}

impl Drop for JavascriptWatch {
    fn drop(&mut self) {
        if self.asked.is_some() {
            drop(
                self.program
                    .ask(json!({ "op": "unwatch", "number": self.number })),
            );
        }
    }
}
