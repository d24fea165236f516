use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use futures_util::future::BoxFuture;
use shuttle::sync::Mutex;
use shuttle::thread::{self, JoinHandle};

use crate::client::host::{Host, Moment};
use crate::client::parked::{Outside, Parked, turn};
use crate::sync::Handle;

/// What an operation waits for, and who to tell.
#[derive(Default)]
struct Mail {
    letters: usize,
    reader: Option<Waker>,
    is_read: bool,
}

type Mailbox = Arc<Mutex<Mail>>;

fn send(mail: &Mailbox) {
    let reader = {
        let mut mail = mail.lock().unwrap();
        mail.letters += 1;
        mail.reader.clone()
    };
    if let Some(reader) = reader {
        reader.wake();
    }
}

async fn read(mail: Mailbox, letters: usize) {
    poll_fn(|context| {
        let mut mail = mail.lock().unwrap();
        mail.reader = Some(context.waker().clone());
        if mail.letters < letters {
            return Poll::Pending;
        }
        mail.is_read = true;
        Poll::Ready(())
    })
    .await;
}

/// Runs what is left to it on threads of its own.
#[derive(Default)]
struct Threads(Mutex<Vec<JoinHandle<()>>>);

impl Host for Threads {
    fn now(&self) -> Moment {
        Moment::after_start(Duration::ZERO)
    }

    fn sleep_until(&self, _moment: Moment) -> BoxFuture<'static, ()> {
        Box::pin(std::future::ready(()))
    }

    fn spawn(&self, task: BoxFuture<'static, ()>) {
        let thread = thread::spawn(|| shuttle::future::block_on(task));
        self.0.lock().unwrap().push(thread);
    }
}

/// Polled once and then left, as the callers of an operation do.
fn start(mail: &Mailbox, letters: usize, host: &Arc<Threads>, outside: Outside) {
    let parked = Parked::new(Arc::clone(host) as _, Handle, outside);
    let mut operation: BoxFuture<'static, ()> = Box::pin(read(Arc::clone(mail), letters));
    let waker = Waker::from(Arc::clone(&parked));
    let polled = operation.as_mut().poll(&mut Context::from_waker(&waker));
    if polled.is_pending() {
        parked.park(operation);
    }
}

fn sender(mail: &Mailbox) -> JoinHandle<()> {
    let mail = Arc::clone(mail);
    thread::spawn(move || send(&mail))
}

fn check(mail: &Mailbox, host: &Threads) {
    let threads = std::mem::take(&mut *host.0.lock().unwrap());
    for thread in threads {
        thread.join().unwrap();
    }
    assert!(mail.lock().unwrap().is_read, "a wake-up was lost");
}

/// Wherever it comes: before it is parked, while it is polled, or by two threads at once.
pub fn no_wake_up_is_lost(outside: bool) {
    let outside = if outside {
        Outside::Host
    } else {
        Outside::Waker
    };
    let (mail, host) = (Mailbox::default(), Arc::default());
    let senders = [sender(&mail), sender(&mail)];
    start(&mail, 2, &host, outside);
    for sender in senders {
        sender.join().unwrap();
    }
    check(&mail, &host);
}

/// The same while a turn of the event loop wakes it too.
pub fn no_wake_up_is_lost_in_a_turn() {
    let (mail, host) = (Mailbox::default(), Arc::default());
    let other = sender(&mail);
    turn(0, &Handle, || {
        start(&mail, 2, &host, Outside::Host);
        send(&mail);
    });
    other.join().unwrap();
    check(&mail, &host);
}
