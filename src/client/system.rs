//! The real host: the system's clock and the threads of the runtime.

use std::mem;
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::time::sleep;

use super::host::{Host, Moment};
use crate::lock::time::boot_time;
use crate::net::ticker::Ticker;

/// How often to check whether the machine was suspended. The runtime's timers stand still during a suspend.
/// So the clocks are compared while anything sleeps, and all sleepers are woken after a suspend.
const SUSPEND_CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// A suspend that is shorter than this is ignored.
const MIN_SUSPEND: Duration = Duration::from_millis(100);

pub struct SystemHost {
    runtime: Handle,
    /// Compares the clocks while anything sleeps.
    suspend_check: Ticker,
    resumed: Arc<Notify>,
}

impl SystemHost {
    pub fn new(runtime: Handle) -> Self {
        let resumed = Arc::new(Notify::new());
        let suspend_check = Ticker::new(SUSPEND_CHECK_INTERVAL, {
            let (resumed, seen) = (Arc::clone(&resumed), Mutex::new(suspended()));
            move || {
                let now = suspended();
                let before = mem::replace(&mut *seen.lock(), now);
                if now > before + MIN_SUSPEND {
                    resumed.notify_waiters();
                }
            }
        });
        Self {
            runtime,
            suspend_check,
            resumed,
        }
    }
}

impl Host for SystemHost {
    fn now(&self) -> Moment {
        Moment::after_start(boot_time())
    }

    fn sleep_until(&self, moment: Moment) -> BoxFuture<'static, ()> {
        let _runtime = self.runtime.enter();
        let checking = self.suspend_check.start();
        let resumed = Arc::clone(&self.resumed);
        Box::pin(async move {
            let _checking = checking;
            loop {
                let resumed = resumed.notified();
                let left = moment.since_start().saturating_sub(boot_time());
                if left.is_zero() {
                    return;
                }
                tokio::select! {
                    () = sleep(left) => {}
                    () = resumed => {}
                }
            }
        })
    }

    fn spawn(&self, task: BoxFuture<'static, ()>) {
        self.runtime.spawn(task);
    }
}

/// Returns for how long the machine has been suspended since the first call.
fn suspended() -> Duration {
    static START: LazyLock<(Duration, Instant)> = LazyLock::new(|| (boot_time(), Instant::now()));
    let (boot, instant) = *START;
    boot_time()
        .saturating_sub(boot)
        .saturating_sub(instant.elapsed())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn sleeps_as_long_as_asked() {
        let host = SystemHost::new(Handle::current());
        let until = host.now() + Duration::from_millis(30);
        host.sleep_until(until).await;
        assert!(host.now() >= until);
    }

    #[tokio::test]
    async fn sleepers_look_at_the_clock_again_after_a_suspend() {
        let host = SystemHost::new(Handle::current());
        let past = host.now();
        let sleeping = tokio::spawn(host.sleep_until(past + Duration::from_secs(3600)));
        tokio::task::yield_now().await;
        host.resumed.notify_waiters();
        tokio::task::yield_now().await;
        assert!(
            !sleeping.is_finished(),
            "it looks at the clock, and sleeps on"
        );
        sleeping.abort();
    }
}
