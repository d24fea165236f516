use std::sync::atomic::AtomicUsize;

use super::super::outbox::{CELLS, Receipts};
use super::*;

#[test]
fn what_cannot_be_delivered_is_given_back() {
    let mut cells = Box::new([0.0; CELLS]);
    let outbox = Arc::new(Outbox::new(0, Receipts::in_memory(&mut cells), || {}));
    // Outside Node.js every call of N-API fails.
    let recipient = Recipient {
        env: ptr::null_mut(),
        function: ptr::null_mut(),
        outbox: Arc::clone(&outbox),
    };
    let given_back = Arc::new(AtomicUsize::new(0));
    for id in 1..=3 * AT_ONCE {
        let given_back = Arc::clone(&given_back);
        let give_back = move || {
            given_back.fetch_add(1, Ordering::Relaxed);
        };
        let reply: Reply = format!("1{id}").into();
        let reply = reply.or_else(give_back);
        outbox.queue.push(id as u64, reply);
    }
    recipient.deliver(usize::MAX, CalledFrom::Callback);
    assert_eq!(given_back.load(Ordering::Relaxed), AT_ONCE);
    outbox.end();
    assert_eq!(given_back.load(Ordering::Relaxed), 3 * AT_ONCE);
}
