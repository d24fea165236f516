//! Tests with the system's libuv, on a loop that the test runs itself.

use std::cell::RefCell;
use std::io::{Read, Write};
use std::net::TcpListener;

use libloading::os::unix::{RTLD_GLOBAL, RTLD_NOW};

use super::*;

const UV_RUN_DEFAULT: c_int = 0;
const UV_RUN_ONCE: c_int = 1;
const UV_RUN_NOWAIT: c_int = 2;
const UV_TIMER: c_int = 13;
const PATIENCE_MS: u64 = 20_000;

/// Loads libuv for the whole process, as in a program that is built on it.
pub(super) fn library() -> Option<Library> {
    let names = [
        "libuv.so.1",
        "libuv.1.dylib",
        "/opt/homebrew/lib/libuv.1.dylib",
    ];
    // SAFETY: libuv does nothing when it is loaded.
    let open = |name| unsafe { Library::open(Some(name), RTLD_NOW | RTLD_GLOBAL) };
    names.into_iter().find_map(|name| open(name).ok())
}

fn uv() -> &'static Uv {
    UV.as_ref().expect("libuv 1 is needed (Debian: libuv1)")
}

/// # Safety
/// `F` must be libuv's own signature of the function.
unsafe fn function<F: Copy>(name: &str) -> F {
    // SAFETY: as the caller guarantees.
    *unsafe { uv()._library.get(name.as_bytes()) }.unwrap()
}

type OnLoop = unsafe extern "C" fn(Loop) -> c_int;

/// A loop with a timer, which keeps it running and limits every wait.
struct TestLoop {
    memory: *mut [u128],
    timer: *mut [u128],
}

impl TestLoop {
    fn new() -> Self {
        // SAFETY: libuv's own signatures. Both are as large as libuv asks for, and stay where they
        // are until the loop is closed.
        unsafe {
            let loop_size: unsafe extern "C" fn() -> usize = function("uv_loop_size");
            let loop_init: OnLoop = function("uv_loop_init");
            let timer_init: unsafe extern "C" fn(Loop, Handle) -> c_int = function("uv_timer_init");
            let timer_start: unsafe extern "C" fn(Handle, OnClosed, u64, u64) -> c_int =
                function("uv_timer_start");
            let memory = zeroed(loop_size());
            let timer = zeroed((uv().handle_size)(UV_TIMER));
            assert_eq!(loop_init(memory.cast()), 0);
            assert_eq!(timer_init(memory.cast(), timer.cast()), 0);
            assert_eq!(timer_start(timer.cast(), ignore, PATIENCE_MS, 0), 0);
            Self { memory, timer }
        }
    }

    fn watch(&self, socket: &Arc<TcpStream>, on_event: impl Fn(Event) + 'static) -> Option<Poll> {
        // SAFETY: this thread runs the loop, until every handle is closed.
        unsafe { Poll::new(self.memory.cast(), Arc::clone(socket), on_event) }
    }

    fn run(&self, mode: c_int) {
        // SAFETY: libuv's own signature; the loop is initialised, and not running.
        unsafe {
            let run: unsafe extern "C" fn(Loop, c_int) -> c_int = function("uv_run");
            run(self.memory.cast(), mode);
        }
    }

    /// Runs everything that is due.
    fn settle(&self) {
        for _ in 0..3 {
            self.run(UV_RUN_NOWAIT);
        }
    }

    /// Returns whether anything but the timer keeps the loop running.
    fn is_needed(&self) -> bool {
        // SAFETY: libuv's own signatures; the timer and the loop are initialised.
        unsafe {
            let stop: unsafe extern "C" fn(Handle) -> c_int = function("uv_timer_stop");
            let is_alive: OnLoop = function("uv_loop_alive");
            stop(self.timer.cast());
            is_alive(self.memory.cast()) != 0
        }
    }
}

impl Drop for TestLoop {
    fn drop(&mut self) {
        // SAFETY: libuv's own signature. The timer is closed once, and libuv is done with both when
        // the loop could be closed.
        unsafe {
            (uv().close)(self.timer.cast(), ignore);
            self.run(UV_RUN_DEFAULT);
            let loop_close: OnLoop = function("uv_loop_close");
            let closed = loop_close(self.memory.cast());
            if !std::thread::panicking() {
                assert_eq!(closed, 0, "a handle was not closed");
                drop(Box::from_raw(self.memory));
                drop(Box::from_raw(self.timer));
            }
        }
    }
}

fn zeroed(bytes: usize) -> *mut [u128] {
    Box::into_raw(vec![0; bytes.div_ceil(size_of::<u128>())].into_boxed_slice())
}

unsafe extern "C" fn ignore(_: Handle) {}

fn connected() -> (Arc<TcpStream>, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let socket = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    (Arc::new(socket), listener.accept().unwrap().0)
}

#[derive(Clone, Default)]
struct Seen(Rc<RefCell<Vec<Event>>>);

impl Seen {
    fn note(&self) -> impl Fn(Event) + use<> {
        let seen = self.clone();
        move |event| seen.0.borrow_mut().push(event)
    }

    fn take(&self) -> Vec<Event> {
        self.0.take()
    }

    /// Returns whether libuv may still call the function.
    fn is_expecting(&self) -> bool {
        Rc::strong_count(&self.0) > 1
    }
}

#[test]
fn what_can_be_read_is_told_until_it_is_read() {
    let (uv_loop, seen) = (TestLoop::new(), Seen::default());
    let (socket, mut peer) = connected();
    let _poll = uv_loop.watch(&socket, seen.note()).unwrap();
    uv_loop.settle();
    assert_eq!(seen.take(), []);
    peer.write_all(b"x").unwrap();
    for _ in 0..2 {
        uv_loop.run(UV_RUN_ONCE);
        assert_eq!(seen.take(), [Event::Ready]);
    }
    (&*socket).read_exact(&mut [0]).unwrap();
    uv_loop.settle();
    assert_eq!(seen.take(), []);
}

#[test]
fn the_end_of_the_stream_can_be_read() {
    let (uv_loop, seen) = (TestLoop::new(), Seen::default());
    let (socket, peer) = connected();
    let _poll = uv_loop.watch(&socket, seen.note()).unwrap();
    drop(peer);
    uv_loop.run(UV_RUN_ONCE);
    assert_eq!(seen.take(), [Event::Ready]);
}

/// On systems other than Linux, a reset can be read as the end of the stream.
#[cfg(target_os = "linux")]
#[test]
fn a_reset_is_reported_once_although_there_is_something_to_read() {
    let (uv_loop, seen) = (TestLoop::new(), Seen::default());
    let (socket, mut peer) = connected();
    let _poll = uv_loop.watch(&socket, seen.note()).unwrap();
    (&*socket).write_all(b"never read").unwrap();
    peer.write_all(b"x").unwrap();
    drop(peer);
    uv_loop.run(UV_RUN_ONCE);
    uv_loop.settle();
    assert_eq!(seen.take(), [Event::Broken]);
    (&*socket).read_exact(&mut [0]).unwrap();
}

#[test]
fn room_to_write_is_told_only_when_asked_for() {
    let (uv_loop, seen) = (TestLoop::new(), Seen::default());
    let (socket, _peer) = connected();
    let poll = uv_loop.watch(&socket, seen.note()).unwrap();
    assert!(poll.listen(true));
    uv_loop.run(UV_RUN_ONCE);
    assert_eq!(seen.take(), [Event::Ready]);
    assert!(poll.listen(false));
    uv_loop.settle();
    assert_eq!(seen.take(), []);
}

#[test]
fn what_a_handle_needs_is_kept_until_libuv_has_closed_it() {
    let (uv_loop, seen) = (TestLoop::new(), Seen::default());
    let (socket, mut peer) = connected();
    let poll = uv_loop.watch(&socket, seen.note()).unwrap();
    peer.write_all(b"x").unwrap();
    drop(poll);
    assert!(seen.is_expecting());
    assert_eq!(Arc::strong_count(&socket), 2);
    uv_loop.settle();
    assert_eq!(seen.take(), []);
    assert!(!seen.is_expecting());
    assert_eq!(Arc::strong_count(&socket), 1);
}

#[test]
fn it_may_be_dropped_when_it_is_called() {
    let (uv_loop, seen) = (TestLoop::new(), Seen::default());
    let (socket, peer) = connected();
    let slot: Rc<RefCell<Option<Poll>>> = Rc::default();
    let (note, own) = (seen.note(), Rc::clone(&slot));
    let poll = uv_loop.watch(&socket, move |event| {
        drop(own.take());
        note(event);
    });
    slot.replace(poll);
    drop(peer);
    uv_loop.run(UV_RUN_ONCE);
    uv_loop.settle();
    assert_eq!(seen.take(), [Event::Ready]);
    assert!(!seen.is_expecting());
}

#[test]
fn a_panic_stays_in_the_callback() {
    struct PanicsWhenDropped(Seen);
    impl Drop for PanicsWhenDropped {
        fn drop(&mut self) {
            self.0.note()(Event::Gathered);
            panic!("on purpose");
        }
    }
    let (uv_loop, seen) = (TestLoop::new(), Seen::default());
    let (socket, peer) = connected();
    let (note, worse) = (seen.note(), PanicsWhenDropped(seen.clone()));
    let poll = uv_loop.watch(&socket, move |event| {
        let _owned = &worse;
        note(event);
        panic!("on purpose");
    });
    drop(peer);
    for _ in 0..2 {
        uv_loop.run(UV_RUN_ONCE);
        assert_eq!(seen.take(), [Event::Ready]);
    }
    drop(poll);
    uv_loop.settle();
    assert_eq!(seen.take(), [Event::Gathered]);
    assert_eq!(Arc::strong_count(&socket), 1);
}

#[test]
fn a_socket_that_libuv_refuses_is_let_go() {
    let (uv_loop, first, second) = (TestLoop::new(), Seen::default(), Seen::default());
    let (socket, peer) = connected();
    let _poll = uv_loop.watch(&socket, first.note()).unwrap();
    // libuv does not watch a socket twice.
    assert!(uv_loop.watch(&socket, second.note()).is_none());
    assert!(!second.is_expecting());
    assert_eq!(Arc::strong_count(&socket), 2);
    drop(peer);
    uv_loop.run(UV_RUN_ONCE);
    assert_eq!(first.take(), [Event::Ready]);
}

#[test]
fn it_does_not_keep_the_program_running() {
    let uv_loop = TestLoop::new();
    let (socket, _peer) = connected();
    let _poll = uv_loop.watch(&socket, |_| {}).unwrap();
    assert!(!uv_loop.is_needed());
}

#[test]
fn libuv_alone_does_not_make_a_program_node() {
    uv();
    // All functions of libuv are found, so only this check prevents that they are called.
    assert!(Uv::load(Library::this()).is_some());
    assert!(!is_node(&Library::this()));
}
