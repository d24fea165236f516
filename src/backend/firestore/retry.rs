//! Repeats calls within one operation. Firestore keeps commits apart by failing those that collide, and
//! a server may be away for a moment.

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

pub(super) struct Tries<'a> {
    session: &'a Session<'a>,
    changed: u32,
    contended: u32,
}

impl<'a> Tries<'a> {
    pub(super) fn of(session: &'a Session<'a>) -> Self {
        Self {
            session,
            changed: 0,
            contended: 0,
        }
    }

    /// Waits before the next try. Returns an error if there should be none.
    pub(super) async fn again(&mut self, failure: Failure) -> Result<()> {
        let (more, delay) = match failure {
            Failure::Failed(error) => return Err(error),
            Failure::Away(error) => return self.session.reconnect(error).await,
            // The next read will most likely find the key locked.
            Failure::Changed if self.changed == 0 => {
                self.changed = 1;
                (true, Duration::ZERO)
            }
            Failure::Changed => {
                self.changed += 1;
                let delay = back_off(self.changed, MAX_CHANGED_DELAY);
                (self.changed < MAX_CHANGED, delay)
            }
            Failure::Contended => {
                self.contended += 1;
                let delay = back_off(self.contended, MAX_CONTENDED_DELAY);
                (self.contended < MAX_CONTENDED, delay)
            }
        };
        if !more || Instant::now() + delay >= self.session.deadline() {
            return Err(contention());
        }
        if !delay.is_zero() {
            sleep(delay).await;
        }
        Ok(())
    }
}

pub(super) fn back_off(failed: u32, most: Duration) -> Duration {
    let doubled = FIRST_DELAY * 2_u32.pow(failed.min(10));
    doubled.min(most).mul_f64(rand::random_range(0.5..1.0))
}
