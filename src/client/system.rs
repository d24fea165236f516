//! The host for real: the system's clock and the threads of the runtime.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::time::sleep;

use super::host::{Host, Moment};
use crate::lock::time::boot_time;

/// The runtime's timers stand still while the machine is suspended. So somebody looks at the clock
/// that does not, as long as anyone sleeps, and wakes all of them when it has jumped.
const LOOK_EVERY: Duration = Duration::from_secs(1);
const JUMP: Duration = Duration::from_millis(100);

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
    let mut lead = suspended();
    loop {
        sleep(LOOK_EVERY).await;
        let now = suspended();
        if now > lead + JUMP {
            sleepers.jumped.notify_waiters();
        }
        lead = now;
        if sleepers.count.load(Ordering::SeqCst) == 0 {
            sleepers.watched.store(false, Ordering::SeqCst);
            // Somebody may have come just before, and relied on this one.
            let taken_over = sleepers.count.load(Ordering::SeqCst) == 0
                || sleepers.watched.swap(true, Ordering::SeqCst);
            if taken_over {
                return;
            }
        }
    }
}

/// How much further the clock is that counts suspend.
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
    async fn a_jump_of_the_clock_is_noticed_by_those_asleep() {
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
