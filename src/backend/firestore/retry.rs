//! Repeats attempts within one operation. Firestore keeps commits apart by failing those that collide,
//! and a server may be away for a moment.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::error::{Failure, contention};
use super::session::Session;
use crate::error::Result;

const FIRST_DELAY: Duration = Duration::from_millis(10);
/// Each of these failures means that another commit succeeded, so losing this often is unlikely.
const MAX_CHANGED: u32 = 20;
const MAX_CHANGED_DELAY: Duration = Duration::from_millis(100);
/// After these failures possibly no commit succeeded.
const MAX_CONTENDED: u32 = 8;
const MAX_CONTENDED_DELAY: Duration = Duration::from_secs(1);

impl Session<'_> {
    /// Repeats `attempt` while its failure may pass.
    pub(super) async fn retry<T, F>(&self, mut attempt: impl FnMut() -> F) -> Result<T>
    where
        F: Future<Output = Result<T, Failure>>,
    {
        let (mut changed, mut contended) = (0, 0);
        loop {
            let (may_retry, delay) = match attempt().await {
                Ok(done) => return Ok(done),
                Err(Failure::Failed(error)) => return Err(error),
                Err(Failure::Away(error)) => {
                    self.reconnect(error).await?;
                    continue;
                }
                Err(Failure::Changed) => {
                    changed += 1;
                    let delay = match changed {
                        // The next read will most likely find the key locked.
                        1 => Duration::ZERO,
                        _ => back_off(changed, MAX_CHANGED_DELAY),
                    };
                    (changed < MAX_CHANGED, delay)
                }
                Err(Failure::Contended) => {
                    contended += 1;
                    let delay = back_off(contended, MAX_CONTENDED_DELAY);
                    (contended < MAX_CONTENDED, delay)
                }
            };
            if !may_retry || Instant::now() + delay >= self.deadline() {
                return Err(contention());
            }
            if !delay.is_zero() {
                sleep(delay).await;
            }
        }
    }
}

pub(super) fn back_off(failures: u32, max: Duration) -> Duration {
    let doubled = FIRST_DELAY * 2_u32.pow(failures.min(10));
    doubled.min(max).mul_f64(rand::random_range(0.5..1.0))
}
