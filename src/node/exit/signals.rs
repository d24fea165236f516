//! How a process on Unix ends: by `exit()`, or by a signal that nobody handles.
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

use std::ffi::c_int;
use std::io::{PipeReader, PipeWriter, Read, Write, pipe};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use std::{ptr, thread};

use super::{PATIENCE, release_held};

/// Those that end a process by default, and that people and supervisors send.
const SIGNALS: [c_int; 3] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP];

/// How often our handlers are installed again: the application may have removed a handler of its own,
/// and with it ours that it had replaced.
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
/// The signal that ends the process; 0 before there was one.
static ENDING_SIGNAL: AtomicI32 = AtomicI32::new(0);
/// Milliseconds since [`Exit::start`] at which the process ends, released or not.
static END_AT: AtomicU64 = AtomicU64::new(0);
/// Whether the next signal is the one that [`resume_when_told`] raises, and not one from outside.
static IS_RAISED_AGAIN: AtomicBool = AtomicBool::new(false);
/// Milliseconds since [`Exit::start`], plus 1.
static INSTALLED_AT: AtomicU64 = AtomicU64::new(0);

/// Arranges that locks are released when the process ends. To be called before a lock is held.
pub(super) fn prepare() {
    let Some(exit) = EXIT.get_or_init(start) else {
        return;
    };
    let now = exit.start.elapsed().as_millis() as u64 + 1;
    let before = INSTALLED_AT.load(Ordering::Relaxed);
    let is_due = before == 0 || now - before.min(now) > INSTALL_EVERY.as_millis() as u64;
    // One thread does it.
    let order = Ordering::Relaxed;
    if is_due
        && INSTALLED_AT
            .compare_exchange(before, now, order, order)
            .is_ok()
    {
        SIGNALS.into_iter().for_each(install);
    }
}

/// None if the system refuses a thread or a pipe: then locks end by their TTL.
fn start() -> Option<Exit> {
    let (wait_for_signal, begin) = pipe().ok()?;
    let (wait_for_slice, resume) = pipe().ok()?;
    let (done, tell_done) = pipe().ok()?;
    let exit = Exit {
        start: Instant::now(),
        begin: begin.as_raw_fd(),
        resume: resume.as_raw_fd(),
        done: done.as_raw_fd(),
    };
    spawn(move || release_when_told(wait_for_signal, tell_done))?;
    spawn(move || resume_when_told(wait_for_slice))?;
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

/// Keeps the handler away from this thread, on which the release may depend.
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

fn release_when_told(mut wait_for_signal: PipeReader, mut tell_done: PipeWriter) {
    if wait_for_signal.read_exact(&mut [0]).is_ok() {
        release_held();
        let _ = tell_done.write_all(&[1]);
    }
}

/// Calls nothing that needs a mutex: the interrupted thread may hold any.
fn resume_when_told(mut wait_for_slice: PipeReader) {
    while wait_for_slice.read_exact(&mut [0]).is_ok() {
        thread::sleep(RUN_SLICE);
        IS_RAISED_AGAIN.store(true, Ordering::SeqCst);
        // SAFETY: takes numbers only.
        unsafe { libc::kill(libc::getpid(), ENDING_SIGNAL.load(Ordering::SeqCst)) };
    }
}

/// JavaScript has ended, or called `process.exit()`.
extern "C" fn on_exit() {
    if !IS_ENDING.swap(true, Ordering::SeqCst) {
        release_held();
        return;
    }
    // JavaScript got here in a slice between two waits. The signal came first, so it ends the process.
    let signal = ENDING_SIGNAL.load(Ordering::SeqCst);
    if let (Some(Some(exit)), true) = (EXIT.get(), signal != 0) {
        while !is_over(exit) {}
        raise(signal);
    }
}

/// Takes the place of the default action, and of nothing else.
fn install(signal: c_int) {
    let mut ours = empty_action();
    ours.sa_sigaction = on_signal as *const () as usize;
    ours.sa_flags = libc::SA_RESTART;
    let mut before = MaybeUninit::<libc::sigaction>::uninit();
    // SAFETY: both are valid for the call. The action before is returned in the same step, so that a
    // handler of the application that comes at this very moment is seen, here or by replacing ours.
    if unsafe { libc::sigaction(signal, &ours, before.as_mut_ptr()) } != 0 {
        return;
    }
    // SAFETY: the call succeeded, so it filled it in.
    let before = unsafe { before.assume_init() };
    if before.sa_sigaction == ours.sa_sigaction {
        return;
    }
    if is_default(&before) {
        restorable(signal).store(before.sa_sigaction, Ordering::Release);
        return;
    }
    // SAFETY: it was in force until now.
    unsafe { libc::sigaction(signal, &before, ptr::null_mut()) };
}

/// Whether the signal ends the process: by the system's action, or by the handler that Node.js itself
/// installs when it starts. That one restores the terminal and raises the signal again; it is taken for
/// one call (`SA_RESETHAND`), and unlike handlers of programs, which libuv makes, without `SA_RESTART`.
fn is_default(action: &libc::sigaction) -> bool {
    let is_nodes_own =
        action.sa_flags & libc::SA_RESETHAND != 0 && action.sa_flags & libc::SA_RESTART == 0;
    action.sa_sigaction == libc::SIG_DFL || is_nodes_own
}

/// The handler that was there before ours, as a number.
fn restorable(signal: c_int) -> &'static AtomicUsize {
    static BEFORE: [AtomicUsize; SIGNALS.len()] =
        [const { AtomicUsize::new(libc::SIG_DFL) }; SIGNALS.len()];
    let index = SIGNALS.iter().position(|known| *known == signal);
    &BEFORE[index.unwrap_or(0)]
}

/// Calls nothing that is not safe in a signal handler: atomics, the clock, `write`, `poll`, `sigaction`,
/// `kill`.
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
        let end_at = exit.start.elapsed() + PATIENCE;
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
    // SAFETY: as above. The interrupted code continues, and may be about to read it.
    unsafe { *errno = errno_before };
}

/// Waits for the release, for one slice. True if it is done, or its time is over.
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
    // SAFETY: the descriptor is never closed, and the byte outlives the call. A pipe that is full needs
    // no other byte.
    unsafe { libc::write(descriptor, [1u8].as_ptr().cast(), 1) };
}

/// Ends the process as the signal would have without us.
fn raise(signal: c_int) {
    let mut before = empty_action();
    before.sa_sigaction = restorable(signal).load(Ordering::Acquire);
    before.sa_flags = libc::SA_RESETHAND;
    // SAFETY: the action was in force before ours. In our handler the signal is blocked until that
    // returns, and then ends the process.
    unsafe {
        libc::sigaction(signal, &before, ptr::null_mut());
        libc::kill(libc::getpid(), signal);
    }
}

fn errno() -> *mut c_int {
    // SAFETY: returns the calling thread's own, which is always valid.
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
    // SAFETY: a structure of numbers, for which zero is the default action, with an empty mask.
    unsafe { MaybeUninit::zeroed().assume_init() }
}
