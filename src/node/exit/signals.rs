//! The two ways in which a process on Unix ends: by `exit()`, or by a signal that nobody handles.
//!
//! A signal handler may do next to nothing, so it wakes a thread that releases the locks, and waits for
//! it. Meanwhile the thread that the signal interrupted, which is usually JavaScript's, does not run: no
//! function continues with a lock that is being released. Then the action that was there before us is
//! restored and the signal is raised again, so that the process ends exactly as without us.
//!
//! The interrupted thread may hold what the release needs: the memory allocator's mutex, or the write
//! lock of an SQLite file in the middle of a transaction. So the handler waits in slices of
//! [`WAIT_SLICE`]. After each it lets the thread run for [`RUN_SLICE`], and a second thread raises the
//! signal again.
//!
//! We never replace a handler of the application. A handler that is installed after ours replaces ours.
//! In process 1 there is no handler of ours, because signals without a handler do not end it.

use std::ffi::c_int;
use std::io::{PipeReader, PipeWriter, Read, Write, pipe};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use std::{ptr, thread};

use super::{MAX_EXIT_DELAY, release_held};

/// The signals that end a process by default, and that people and supervisors send.
const SIGNALS: [c_int; 3] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP];

/// How often our handlers are installed again. The application may have replaced them with handlers of its
/// own, and then removed those.
const INSTALL_EVERY: Duration = Duration::from_secs(1);

/// How long the handler keeps the interrupted thread from running at a time. Most releases take less.
const WAIT_SLICE: Duration = Duration::from_millis(25);

/// How long the interrupted thread runs between two slices: enough to finish a small transaction.
const RUN_SLICE: Duration = Duration::from_millis(2);

/// What a signal handler needs. All of it exists before a handler is installed.
struct Exit {
    start: Instant,
    /// A byte written here starts the release.
    begin: RawFd,
    /// A byte written here raises the signal again after [`RUN_SLICE`].
    resume: RawFd,
    /// Can be read when the release is done.
    done: RawFd,
}

static EXIT: OnceLock<Option<Exit>> = OnceLock::new();
static IS_ENDING: AtomicBool = AtomicBool::new(false);
/// The signal that ends the process. 0 if there was none so far.
static ENDING_SIGNAL: AtomicI32 = AtomicI32::new(0);
/// Milliseconds since [`Exit::start`] at which the process ends, released or not.
static END_AT: AtomicU64 = AtomicU64::new(0);
/// Whether the next signal is the one that [`raise_on_request`] raises, and not one from outside.
static IS_RAISED_AGAIN: AtomicBool = AtomicBool::new(false);
/// When the handlers were last installed, in milliseconds since [`Exit::start`] plus 1. 0 before that.
static INSTALLED_AT: AtomicU64 = AtomicU64::new(0);

/// Arranges that locks are released when the process ends. Must be called before a lock is held.
pub(super) fn prepare() {
    let Some(exit) = EXIT.get_or_init(start) else {
        return;
    };
    let now = exit.start.elapsed().as_millis() as u64 + 1;
    let before = INSTALLED_AT.load(Ordering::Relaxed);
    let is_due = before == 0 || now - before.min(now) > INSTALL_EVERY.as_millis() as u64;
    // If several threads get here, only one of them installs the handlers.
    let order = Ordering::Relaxed;
    if is_due
        && !outlives_signals()
        && INSTALLED_AT
            .compare_exchange(before, now, order, order)
            .is_ok()
    {
        SIGNALS.into_iter().for_each(install);
    }
}

/// Returns whether the process continues after a signal that nobody handles. Process 1, such as the main
/// process of a container, does: the kernel applies no default action to it. So it must keep its locks.
fn outlives_signals() -> bool {
    std::process::id() == 1
}

/// Starts the threads that the handlers need. None if the system refuses a thread or a pipe. Locks then
/// expire by their TTL.
fn start() -> Option<Exit> {
    let (release_requests, begin) = pipe().ok()?;
    let (raise_requests, resume) = pipe().ok()?;
    let (done, report_done) = pipe().ok()?;
    let exit = Exit {
        start: Instant::now(),
        begin: begin.as_raw_fd(),
        resume: resume.as_raw_fd(),
        done: done.as_raw_fd(),
    };
    spawn(move || release_on_request(release_requests, report_done))?;
    spawn(move || raise_on_request(raise_requests))?;
    // The handlers need these ends for as long as the process lives.
    std::mem::forget((begin, resume, done));
    // SAFETY: the function exists for as long as the process, because an addon is never unloaded while
    // its threads run.
    unsafe { libc::atexit(on_exit) };
    Some(exit)
}

fn spawn(run: impl FnOnce() + Send + 'static) -> Option<()> {
    let run = move || {
        block_signals();
        run();
    };
    let thread = thread::Builder::new().name("syncguard-exit".to_owned());
    thread.spawn(run).ok().map(drop)
}

/// Keeps the handler from interrupting this thread, on which the release may depend.
pub(crate) fn block_signals() {
    let mut set = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: the first call initialises the set; all are given valid pointers.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        for signal in SIGNALS {
            libc::sigaddset(set.as_mut_ptr(), signal);
        }
        libc::pthread_sigmask(libc::SIG_BLOCK, set.as_ptr(), ptr::null_mut());
    }
}

/// Waits for a byte from the handler, and releases all locks.
fn release_on_request(mut requests: PipeReader, mut report_done: PipeWriter) {
    if requests.read_exact(&mut [0]).is_ok() {
        release_held();
        let _ = report_done.write_all(&[1]);
    }
}

/// Raises the signal again after each byte from the handler and a [`RUN_SLICE`]. Must not call anything that
/// needs a mutex, because the interrupted thread may hold it.
fn raise_on_request(mut requests: PipeReader) {
    while requests.read_exact(&mut [0]).is_ok() {
        thread::sleep(RUN_SLICE);
        IS_RAISED_AGAIN.store(true, Ordering::SeqCst);
        // SAFETY: both functions take only numbers.
        unsafe { libc::kill(libc::getpid(), ENDING_SIGNAL.load(Ordering::SeqCst)) };
    }
}

/// Called by `exit()`: JavaScript has ended, or has called `process.exit()`.
extern "C" fn on_exit() {
    if !IS_ENDING.swap(true, Ordering::SeqCst) {
        release_held();
        return;
    }
    // JavaScript got here while it ran between two slices. The signal came first, so it ends the process.
    let signal = ENDING_SIGNAL.load(Ordering::SeqCst);
    if let (Some(Some(exit)), true) = (EXIT.get(), signal != 0) {
        while !is_over(exit) {}
        raise(signal);
    }
}

/// Replaces the default action of the signal with our handler. Any other handler stays in force.
fn install(signal: c_int) {
    let mut ours = empty_action();
    ours.sa_sigaction = on_signal as *const () as usize;
    ours.sa_flags = libc::SA_RESTART;
    let mut before = MaybeUninit::<libc::sigaction>::uninit();
    // SAFETY: both pointers are valid for the call. The previous action is returned in the same step. A
    // handler that the application installs at this moment is either returned here, or replaces ours.
    if unsafe { libc::sigaction(signal, &ours, before.as_mut_ptr()) } != 0 {
        return;
    }
    // SAFETY: the call succeeded, so it has written the previous action.
    let before = unsafe { before.assume_init() };
    if before.sa_sigaction == ours.sa_sigaction {
        return;
    }
    if is_default(&before) {
        restorable(signal).store(before.sa_sigaction, Ordering::Release);
        return;
    }
    // SAFETY: this action was in force until now.
    unsafe { libc::sigaction(signal, &before, ptr::null_mut()) };
}

/// Returns whether the signal ends the process: by the system's action, or by the handler that Node.js
/// itself installs when it starts. That handler restores the terminal and raises the signal again. It is
/// installed for one call (`SA_RESETHAND`) and without `SA_RESTART`, unlike the handlers of programs, which
/// libuv installs.
fn is_default(action: &libc::sigaction) -> bool {
    let is_nodes_own =
        action.sa_flags & libc::SA_RESETHAND != 0 && action.sa_flags & libc::SA_RESTART == 0;
    action.sa_sigaction == libc::SIG_DFL || is_nodes_own
}

/// Returns where the handler that ours has replaced is stored, as a number.
fn restorable(signal: c_int) -> &'static AtomicUsize {
    static BEFORE: [AtomicUsize; SIGNALS.len()] =
        [const { AtomicUsize::new(libc::SIG_DFL) }; SIGNALS.len()];
    let index = SIGNALS.iter().position(|known| *known == signal);
    &BEFORE[index.unwrap_or(0)]
}

/// Handles a signal. Uses only what is safe in a signal handler: atomics, the clock, `write`, `poll`,
/// `sigaction` and `kill`.
extern "C" fn on_signal(signal: c_int) {
    let errno = errno();
    // SAFETY: the location belongs to this thread.
    let errno_before = unsafe { *errno };
    let Some(Some(exit)) = EXIT.get() else {
        return raise(signal);
    };
    let is_first = !IS_ENDING.swap(true, Ordering::SeqCst);
    if is_first {
        ENDING_SIGNAL.store(signal, Ordering::SeqCst);
        let end_at = exit.start.elapsed() + MAX_EXIT_DELAY;
        END_AT.store(end_at.as_millis() as u64, Ordering::SeqCst);
        write_byte(exit.begin);
    } else if !IS_RAISED_AGAIN.swap(false, Ordering::SeqCst) {
        // Whoever sends a second signal does not want to wait.
        return raise(signal);
    }
    if is_over(exit) {
        return raise(signal);
    }
    write_byte(exit.resume);
    // SAFETY: as above. The interrupted code continues, and may be about to read `errno`.
    unsafe { *errno = errno_before };
}

/// Waits for the release, for one slice. Returns whether it is done, or its time is over.
fn is_over(exit: &Exit) -> bool {
    let mut done = libc::pollfd {
        fd: exit.done,
        events: libc::POLLIN,
        revents: 0,
    };
    // SAFETY: the descriptor is never closed, and the structure outlives the call.
    let is_done = unsafe { libc::poll(&mut done, 1, WAIT_SLICE.as_millis() as c_int) } > 0;
    is_done || exit.start.elapsed().as_millis() as u64 >= END_AT.load(Ordering::SeqCst)
}

fn write_byte(descriptor: RawFd) {
    // SAFETY: the descriptor is never closed, and the byte outlives the call. If the pipe is full, the
    // reader has enough bytes.
    unsafe { libc::write(descriptor, [1u8].as_ptr().cast(), 1) };
}

/// Ends the process as the signal would without our handler.
fn raise(signal: c_int) {
    let mut before = empty_action();
    before.sa_sigaction = restorable(signal).load(Ordering::Acquire);
    before.sa_flags = libc::SA_RESETHAND;
    // SAFETY: the action was in force before ours. While our handler runs, the signal is blocked. It ends
    // the process when the handler returns.
    unsafe {
        libc::sigaction(signal, &before, ptr::null_mut());
        libc::kill(libc::getpid(), signal);
    }
}

fn errno() -> *mut c_int {
    // SAFETY: the function returns the address for the calling thread, which is always valid.
    #[cfg(target_os = "linux")]
    unsafe {
        libc::__errno_location()
    }
    // SAFETY: as above.
    #[cfg(target_os = "macos")]
    unsafe {
        libc::__error()
    }
}

fn empty_action() -> libc::sigaction {
    // SAFETY: this is a structure of numbers. All zeros mean the default action with an empty mask.
    unsafe { MaybeUninit::zeroed().assume_init() }
}
