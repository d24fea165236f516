use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use shuttle::sync::mpsc;
use shuttle::thread;

use crate::node::Queue;
use crate::node::reply::Reply;
use crate::sync::CancellationToken;

/// A reply that nobody is woken for stays where it is for ever.
pub fn every_reply_is_brought() {
    const THREADS: u64 = 2;
    const EACH: u64 = 2;
    let queue = Arc::new(Queue::default());
    let (wake, woken) = mpsc::channel();
    for id in 0..THREADS {
        let (queue, wake) = (Arc::clone(&queue), wake.clone());
        thread::spawn(move || {
            for _ in 0..EACH {
                if queue.push(id, Reply::nothing()) {
                    wake.send(()).unwrap();
                }
            }
        });
    }
    drop(wake);
    let mut brought = 0;
    while brought < THREADS * EACH {
        woken.recv().expect("nobody was woken for the rest");
        brought += queue.take(usize::MAX).len() as u64;
    }
}

/// The lock that it is about would be nobody's: it must be known that it was not taken.
pub fn a_cancelled_reply_is_never_delivered() {
    const ID: u64 = 7;
    let queue = Arc::new(Queue::default());
    let unclaimed = Arc::new(AtomicBool::new(false));
    queue.start(ID, CancellationToken);
    let operation = thread::spawn({
        let (queue, reply) = (Arc::clone(&queue), Reply::new(Arc::clone(&unclaimed)));
        move || {
            queue.finish(ID, reply);
        }
    });
    queue.cancel(ID);
    let early = queue.take(usize::MAX);
    operation.join().unwrap();
    let replies: Vec<_> = early.into_iter().chain(queue.take(usize::MAX)).collect();
    assert_eq!(replies.len(), 1);
    for (_, reply) in replies {
        assert!(!reply.deliver(), "delivered after it was cancelled");
    }
    assert!(unclaimed.load(Ordering::Relaxed));
}

/// A reply that comes when JavaScript has ended, or just before, is given back.
pub fn the_end_leaves_no_reply_behind() {
    let queue = Arc::new(Queue::default());
    let unclaimed = [(); 2].map(|()| Arc::new(AtomicBool::new(false)));
    let operations = [0, 1].map(|id| {
        let (queue, reply) = (Arc::clone(&queue), Reply::new(Arc::clone(&unclaimed[id])));
        thread::spawn(move || {
            queue.finish(id as u64, reply);
        })
    });
    queue.end();
    for operation in operations {
        operation.join().unwrap();
    }
    assert!(unclaimed.iter().all(|it| it.load(Ordering::Relaxed)));
    assert!(queue.take(usize::MAX).is_empty());
}
