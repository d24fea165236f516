//! Colliding with others is Firestore's way to keep commits apart; a few more tries are part of
//! one operation.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::error::{Failure, contention};
use crate::error::Result;

const MAX_TRIES: u32 = 10;
const FIRST_DELAY: Duration = Duration::from_millis(10);
const MAX_DELAY: Duration = Duration::from_secs(1);

pub struct Tries {
    deadline: Instant,
    failed: u32,
}

impl Tries {
    pub fn until(deadline: Instant) -> Self {
        Self {
            deadline,
            failed: 0,
        }
    }

    /// Waits before the next try; an error when there should be none.
    pub async fn again(&mut self, failure: Failure) -> Result<()> {
        self.failed += 1;
        let delay = match failure {
            Failure::Failed(error) => return Err(error),
            // Somebody else was faster: a new look will most likely find the key locked.
            Failure::Changed if self.failed == 1 => Duration::ZERO,
            Failure::Changed | Failure::Contended => {
                let doubled = FIRST_DELAY * 2_u32.pow(self.failed.min(10));
                doubled.min(MAX_DELAY).mul_f64(rand::random_range(0.5..1.0))
            }
        };
        if self.failed >= MAX_TRIES || Instant::now() + delay >= self.deadline {
            return Err(contention());
        }
        if !delay.is_zero() {
            sleep(delay).await;
        }
        Ok(())
    }
}
