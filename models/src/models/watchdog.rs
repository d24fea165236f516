use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use shuttle::future::block_on;
use shuttle::sync::atomic::{AtomicBool, Ordering};
use shuttle::thread;

use crate::watchdog::{Watchdog, pause_of};

/// However it falls asleep meanwhile: else nobody would ever tell the one who waits.
pub fn who_waits_is_watched() {
    let watchdog = Arc::new(Watchdog::default());
    let caller = thread::spawn({
        let watchdog = Arc::clone(&watchdog);
        move || {
            watchdog.started();
            watchdog.ended();
            watchdog.started();
        }
    });
    let ticked = AtomicBool::new(false);
    block_on(async {
        let tick = || ticked.store(true, Ordering::SeqCst);
        let mut run = pin!(watchdog.run(pause_of(Duration::ZERO), tick));
        poll_fn(|context| {
            let _ = run.as_mut().poll(context);
            if ticked.load(Ordering::SeqCst) {
                Poll::Ready(())
            } else {
                Poll::Pending
            }
        })
        .await;
    });
    caller.join().unwrap();
}
