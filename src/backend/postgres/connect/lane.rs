//! A connection that the program's event loop serves. A request that is made on its thread is
//! written there, and goes on there when it is answered: waking another thread, twice, takes about
//! as long as the server takes for its answer.

use std::future::poll_fn;
use std::net::TcpStream;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::wire::Wire;
use crate::event_loop::{Event, EventLoop, Interest, Watched};

/// Moves what can be moved at once. Ready when the connection is over.
pub(super) type Mover = Box<dyn FnMut(&mut Context<'_>) -> Poll<()> + Send>;

/// After so long an answer is looked for by another thread: the loop's may be busy, and what depends
/// on the answer, such as the next heartbeat, must not wait for it.
const BUSY: Duration = Duration::from_millis(50);

pub(super) struct Lane {
    me: Weak<Self>,
    home: Arc<dyn EventLoop>,
    socket: Arc<TcpStream>,
    wire: Wire,
    /// Nothing when the connection is over.
    mover: Mutex<Option<Mover>>,
    /// There is something to move.
    woken: AtomicBool,
    /// Somebody will look whether there is.
    attended: AtomicBool,
}

impl Lane {
    /// The wire must have left the runtime.
    pub(super) fn open(
        home: Arc<dyn EventLoop>,
        socket: Arc<TcpStream>,
        wire: Wire,
        mover: Mover,
    ) -> Arc<Self> {
        let lane = Arc::new_cyclic(|me| Self {
            me: Weak::clone(me),
            home: Arc::clone(&home),
            socket,
            wire,
            mover: Mutex::new(Some(mover)),
            woken: AtomicBool::new(false),
            attended: AtomicBool::new(false),
        });
        home.watch(Arc::clone(&lane) as Arc<dyn Watched>);
        lane
    }

    /// Runs a request over this connection, one at a time.
    pub(super) async fn run<T>(&self, request: impl Future<Output = T>) -> T {
        let mut request = pin!(request);
        let mut look = pin!(sleep(BUSY));
        let mut is_sent = false;
        poll_fn(|cx| {
            self.attend(|| {
                let answer = request.as_mut().poll(cx);
                if answer.is_ready() {
                    return answer;
                }
                while look.as_mut().poll(cx).is_ready() {
                    look.as_mut().reset(Instant::now() + BUSY);
                }
                let elsewhere = !self.home.is_here();
                if elsewhere {
                    // The loop's thread may be busy for long.
                    self.wire.may_be_readable();
                }
                if elsewhere || !is_sent || self.woken.load(SeqCst) {
                    is_sent = true;
                    self.move_all();
                    if self.wire.is_full() {
                        self.home.nudge();
                    }
                }
                match elsewhere {
                    true => request.as_mut().poll(cx),
                    false => Poll::Pending,
                }
            })
        })
        .await
    }

    /// Notices what has come meanwhile.
    pub(super) fn look(&self) {
        self.wire.may_be_readable();
        self.attend(|| self.move_all());
    }

    pub(super) fn end(&self) {
        // Who waits for an answer is told when this is dropped.
        drop(self.lock().take());
        self.home.nudge();
    }

    fn attend<T>(&self, work: impl FnOnce() -> T) -> T {
        self.attended.store(true, SeqCst);
        let done = work();
        self.attended.store(false, SeqCst);
        if self.woken.load(SeqCst) {
            self.home.nudge();
        }
        done
    }

    /// Whether the connection is still there.
    fn move_all(&self) -> bool {
        let Some(me) = self.me.upgrade() else {
            return false;
        };
        let waker = Waker::from(me);
        let mut context = Context::from_waker(&waker);
        let mut mover = self.lock();
        while let Some(all) = mover.as_mut() {
            self.woken.store(false, SeqCst);
            if all(&mut context).is_ready() {
                *mover = None;
            } else if !self.woken.load(SeqCst) {
                return true;
            }
        }
        self.woken.store(false, SeqCst);
        false
    }

    fn lock(&self) -> MutexGuard<'_, Option<Mover>> {
        self.mover.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Wake for Lane {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.woken.store(true, SeqCst);
        if !self.attended.load(SeqCst) {
            self.home.nudge();
        }
    }
}

impl Watched for Lane {
    fn socket(&self) -> Arc<TcpStream> {
        Arc::clone(&self.socket)
    }

    fn turn(&self, event: Event) -> Interest {
        if event != Event::Gathered {
            self.wire.may_be_readable();
        }
        if !self.attend(|| self.move_all()) {
            Interest::Nothing
        } else if self.wire.is_full() {
            Interest::ReadAndWrite
        } else {
            Interest::Read
        }
    }

    fn close(&self) {
        self.end();
    }
}
