//! Repeats the attempts of an operation. Firestore keeps commits apart by failing those that collide,
//! and a server may be away for a moment.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout_at};

use super::attempt::Attempt;
use super::connections::Connections;
use super::error::{Failure, contention};
use crate::backend::backoff::Backoff;
use crate::error::Result;

const FIRST_DELAY: Duration = Duration::from_millis(10);
/// An operation gives up after this many [`Failure::Changed`]. Each normally means that another commit
/// succeeded, so reaching this limit is unlikely.
pub(super) const MAX_CHANGED: u32 = 20;
const MAX_CHANGED_DELAY: Duration = Duration::from_millis(100);
/// An operation gives up after this many failures that may mean that no commit succeeded.
const MAX_CONTENDED: u32 = 8;
const MAX_CONTENDED_DELAY: Duration = Duration::from_secs(1);

impl Connections {
    /// Runs an operation: repeats `attempt` while its failure may pass.
    ///
    /// While the server is away, the operation waits for up to `connectTimeoutMs`. This time does not
    /// count towards its deadline.
    pub(super) async fn run<'a, T, F>(&'a self, attempt: impl FnMut(Attempt<'a>) -> F) -> Result<T>
    where
        F: Future<Output = Result<T, Failure>>,
    {
        self.run_against(MAX_CHANGED, attempt).await
    }

    /// Like [`run`](Self::run), but gives up when documents have changed meanwhile `max_changed` times.
    pub(super) async fn run_against<'a, T, F>(
        &'a self,
        max_changed: u32,
        mut attempt: impl FnMut(Attempt<'a>) -> F,
    ) -> Result<T>
    where
        F: Future<Output = Result<T, Failure>>,
    {
        let patience = self.config.connect_timeout();
        let mut connection = self.connection_since(Instant::now()).await?;
        let mut deadline = Instant::now() + self.config.operation_timeout();
        let (mut changed, mut contended, mut away) = (0, 0, None);
        loop {
            let asked = Instant::now();
            let tried = attempt(Attempt {
                connections: self,
                connection: Arc::clone(&connection),
                deadline,
            });
            let (may_retry, delay) = match tried.await {
                Ok(done) => return Ok(done),
                Err(Failure::Failed(error)) => return Err(error),
                Err(Failure::Away(error)) => {
                    let started = Instant::now();
                    let (since, backoff) =
                        away.get_or_insert_with(|| (started, Backoff::new(patience)));
                    if timeout_at(*since + patience, backoff.wait()).await.is_err() {
                        return Err(self.gave_up(error, *since));
                    }
                    connection = self.connection_since(*since).await?;
                    deadline += started.elapsed();
                    continue;
                }
                Err(Failure::Changed) => {
                    changed += 1;
                    let delay = match changed {
                        // The next read will most likely find the key locked.
                        1 => Duration::ZERO,
                        // Those who share a key go on writing. The longer an attempt takes, the more
                        // of them meet.
                        _ => (asked.elapsed() * changed)
                            .min(MAX_CHANGED_DELAY)
                            .mul_f64(rand::random_range(0.0..1.0)),
                    };
                    (changed < max_changed, delay)
                }
                Err(Failure::Contended) => {
                    contended += 1;
                    let delay = back_off(contended, MAX_CONTENDED_DELAY);
                    (contended < MAX_CONTENDED, delay)
                }
            };
            if !may_retry || Instant::now() + delay >= deadline {
                return Err(contention());
            }
            if !delay.is_zero() {
                sleep(delay).await;
            }
        }
    }
}

fn back_off(failures: u32, max: Duration) -> Duration {
    let doubled = FIRST_DELAY * 2_u32.pow(failures.min(10));
    doubled.min(max).mul_f64(rand::random_range(0.5..1.0))
}
