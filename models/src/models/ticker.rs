use std::sync::Arc;
use std::time::Duration;

use shuttle::future::{block_on, yield_now};
use shuttle::sync::atomic::{AtomicBool, Ordering};
use shuttle::thread;

use crate::ticker::Ticker;

/// Even if the last user comes while the ticker stops: nothing else would start it again.
pub fn a_ticker_in_use_ticks() {
    let ticked = Arc::new(AtomicBool::new(false));
    let ticker = Ticker::new(Duration::ZERO, {
        let ticked = Arc::clone(&ticked);
        move || ticked.store(true, Ordering::SeqCst)
    });
    let user = thread::spawn(move || {
        drop(ticker.start());
        ticked.store(false, Ordering::SeqCst);
        let ticking = ticker.start();
        block_on(async {
            while !ticked.load(Ordering::SeqCst) {
                yield_now().await;
            }
        });
        drop(ticking);
    });
    user.join().unwrap();
}
