//! The real host: the system's clock and the threads of the runtime.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::time::sleep;

use super::host::{Host, Moment};
use crate::lock::time::boot_time;

/// How often a suspend of the machine is looked for. The runtime's timers stand still during one, so
/// while anything sleeps, a task compares clocks and wakes all sleepers after a suspend.
const SUSPEND_CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// A suspend that is shorter than this is ignored.
const MIN_SUSPEND: Duration = Duration::from_millis(100);

pub struct SystemHost {
    runtime: Handle,
    sleepers: Arc<Sleepers>,
}

#[derive(Default)]
struct Sleepers {
    count: AtomicUsize,
    watched: AtomicBool,
    jumped: Notify,
}

impl SystemHost {
    pub fn new(runtime: Handle) -> Self {
        Self {
            runtime,
            sleepers: Arc::default(),
        }
    }
}

impl Host for SystemHost {
    fn now(&self) -> Moment {
        Moment::after_start(boot_time())
    }

    fn sleep_until(&self, moment: Moment) -> BoxFuture<'static, ()> {
        let asleep = Asleep::new(Arc::clone(&self.sleepers), &self.runtime);
        Box::pin(async move {
            loop {
                let jumped = asleep.0.jumped.notified();
                let left = moment.since_start().saturating_sub(boot_time());
                if left.is_zero() {
                    return;
                }
                tokio::select! {
                    () = sleep(left) => {}
                    () = jumped => {}
                }
            }
        })
    }

    fn spawn(&self, task: BoxFuture<'static, ()>) {
        self.runtime.spawn(task);
    }
}

struct Asleep(Arc<Sleepers>);

impl Asleep {
    fn new(sleepers: Arc<Sleepers>, runtime: &Handle) -> Self {
        sleepers.count.fetch_add(1, Ordering::SeqCst);
        if !sleepers.watched.swap(true, Ordering::SeqCst) {
            runtime.spawn(watch(Arc::clone(&sleepers)));
        }
        Self(sleepers)
    }
}

impl Drop for Asleep {
    fn drop(&mut self) {
        self.0.count.fetch_sub(1, Ordering::SeqCst);
    }
}

async fn watch(sleepers: Arc<Sleepers>) {
    let mut before = suspended();
    loop {
        sleep(SUSPEND_CHECK_INTERVAL).await;
        let now = suspended();
        if now > before + MIN_SUSPEND {
            sleepers.jumped.notify_waiters();
        }
        before = now;
        if sleepers.count.load(Ordering::SeqCst) == 0 {
            sleepers.watched.store(false, Ordering::SeqCst);
            // A sleeper may have come just before, and relied on this task.
            let is_done = sleepers.count.load(Ordering::SeqCst) == 0
                || sleepers.watched.swap(true, Ordering::SeqCst);
            if is_done {
                return;
            }
        }
    }
}

/// How long the machine has been suspended since the first call.
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
        assert_eq!(host.sleepers.count.load(Ordering::SeqCst), 0);
    }

    #[tokio::test]
    async fn sleepers_look_at_the_clock_again_after_a_suspend() {
        let host = SystemHost::new(Handle::current());
        let past = host.now();
        let sleeping = tokio::spawn(host.sleep_until(past + Duration::from_secs(3600)));
        tokio::task::yield_now().await;
        host.sleepers.jumped.notify_waiters();
        tokio::task::yield_now().await;
        assert!(
            !sleeping.is_finished(),
            "it looks at the clock, and sleeps on"
        );
        sleeping.abort();
        let _ = sleeping.await;
        assert_eq!(host.sleepers.count.load(Ordering::SeqCst), 0);
    }
}
