use std::sync::atomic::AtomicUsize;

use super::super::outbox::{CELLS, Receipts};
use super::*;

#[test]
fn a_lock_that_cannot_be_delivered_is_released() {
    let mut cells = Box::new([0.0; CELLS]);
    let outbox = Arc::new(Outbox::new(0, Receipts::in_memory(&mut cells), || {}));
    // Outside Node.js every call of N-API fails.
    let recipient = Recipient {
        env: ptr::null_mut(),
        function: ptr::null_mut(),
        outbox: Arc::clone(&outbox),
    };
    let released = Arc::new(AtomicUsize::new(0));
    for id in 1..=3 * MAX_REPLIES_PER_CALL {
        let released = Arc::clone(&released);
        let release = move || {
            released.fetch_add(1, Ordering::Relaxed);
        };
        let reply: Reply = format!("1{id}").into();
        let reply = reply.or_else(release);
        outbox.queue.push(id as u64, reply);
    }
    recipient.deliver(usize::MAX, CalledFrom::Callback);
    assert_eq!(released.load(Ordering::Relaxed), MAX_REPLIES_PER_CALL);
    outbox.end();
    assert_eq!(released.load(Ordering::Relaxed), 3 * MAX_REPLIES_PER_CALL);
}
