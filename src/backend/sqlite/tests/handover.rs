//! Hand-over of a lock between processes: no release is missed, waiters are notified quickly, and waiting
//! costs little processor time.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tokio::time::{sleep, timeout};

use super::*;
use crate::backend::Watch;

const KEY: &str = "k";
/// Far longer than a notification takes, even on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// Acquires the lock as a waiter does: tries, waits until it is notified, and tries again. Returns the
/// number of attempts, too.
async fn acquire(backend: &SqliteBackend, watch: &mut Box<dyn Watch>) -> (LockId, usize) {
    let lock = request(KEY);
    let mut attempts = 1;
    while granted(backend.acquire(&lock).await.unwrap()).is_none() {
        timeout(PATIENCE, watch.changed())
            .await
            .expect("not notified");
        attempts += 1;
    }
    (lock.lock_id, attempts)
}

/// Waits for a random time. A sleep would be too coarse to hit the moments between an attempt and the
/// wait.
fn spin(up_to: Duration) {
    let end = Instant::now() + up_to.mul_f64(rand::random());
    while Instant::now() < end {
        std::hint::spin_loop();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_release_is_missed() {
    const ROUNDS: usize = 2000;
    let dir = TestDir::new();
    let (holder, waiter) = (Arc::new(backend(&dir.file())), backend(&dir.file()));
    let mut watch = waiter.watch(&Key::new(KEY).unwrap()).unwrap();
    let mut most = 0;
    for _ in 0..ROUNDS {
        let lock = request(KEY);
        assert!(granted(holder.acquire(&lock).await.unwrap()).is_some());
        let releasing = Arc::clone(&holder);
        let released = tokio::spawn(async move {
            spin(Duration::from_micros(500));
            releasing.release(lock.lock_id.into()).await
        });
        let (ours, attempts) = acquire(&waiter, &mut watch).await;
        assert_eq!(released.await.unwrap(), Ok(ReleaseOutcome::Released));
        waiter.release(ours.into()).await.unwrap();
        most = most.max(attempts);
    }
    // One notification of the release, and perhaps one of an earlier release.
    assert!(most <= 3, "{most}");
    holder.close().await;
    waiter.close().await;
}

const ROLE: &str = "SYNCGUARD_TEST_ROLE";
const FILE: &str = "SYNCGUARD_TEST_FILE";

/// The body of another process, which is this program with only this test to run.
#[tokio::test]
async fn other_process() {
    let Ok(role) = std::env::var(ROLE) else {
        return;
    };
    let backend = backend(Path::new(&std::env::var_os(FILE).unwrap()));
    match role.as_str() {
        "holder" => hold(&backend).await,
        #[cfg(target_os = "linux")]
        "waiter" => wait(&backend).await,
        role => panic!("{role}"),
    }
    backend.close().await;
}

struct Other {
    process: Child,
    commands: ChildStdin,
    /// Standard error, because standard output belongs to the test harness.
    answers: BufReader<std::process::ChildStderr>,
}

impl Other {
    fn start(role: &str, file: &Path) -> Self {
        let mut process = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "backend::sqlite::tests::handover::other_process"])
            .arg("--nocapture")
            .env(ROLE, role)
            .env(FILE, file)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        Self {
            commands: process.stdin.take().unwrap(),
            answers: BufReader::new(process.stderr.take().unwrap()),
            process,
        }
    }

    fn command(&mut self) {
        self.commands.write_all(b"\n").unwrap();
    }

    fn answer(&mut self) -> u128 {
        let mut line = String::new();
        self.answers.read_line(&mut line).unwrap();
        line.trim().parse().expect(&line)
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn now() -> u128 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap()
        .as_nanos()
}

/// Acquires the lock and reports it. Releases it on command, and reports the time of the reply.
async fn hold(backend: &SqliteBackend) {
    let mut commands = std::io::stdin().lines();
    loop {
        let lock = request(KEY);
        assert!(granted(backend.acquire(&lock).await.unwrap()).is_some());
        eprintln!("0");
        if commands.next().is_none() {
            return;
        }
        backend.release(lock.lock_id.into()).await.unwrap();
        eprintln!("{}", now());
        commands.next();
    }
}

#[tokio::test]
async fn a_waiter_in_another_process_is_notified_quickly() {
    const ROUNDS: usize = 200;
    let dir = TestDir::new();
    let waiter = backend(&dir.file());
    let mut watch = waiter.watch(&Key::new(KEY).unwrap()).unwrap();
    let mut other = Other::start("holder", &dir.file());
    let mut delays = Vec::new();
    for _ in 0..ROUNDS {
        other.answer();
        assert!(granted(waiter.acquire(&request(KEY)).await.unwrap()).is_none());
        let waits = timeout(PATIENCE, async {
            watch.changed().await;
            now()
        });
        let (notified, ()) = tokio::join!(waits, async {
            sleep(Duration::from_millis(rand::random_range(0..60))).await;
            other.command();
        });
        let notified = notified.expect("not notified");
        let released = other.answer();
        delays.push(notified.saturating_sub(released) / 1000);
        let (ours, _) = acquire(&waiter, &mut watch).await;
        waiter.release(ours.into()).await.unwrap();
        other.command();
    }
    delays.sort_unstable();
    println!(
        "notified after the releaser's reply: p50 {} µs, p90 {} µs, p99 {} µs, max {} µs",
        delays[ROUNDS / 2],
        delays[ROUNDS * 9 / 10],
        delays[ROUNDS * 99 / 100],
        delays[ROUNDS - 1]
    );
    // Without notifications the engine's back-off would take a second.
    assert!(delays[ROUNDS / 2] < 100_000);
    waiter.close().await;
}

/// Waits forever, and reports its processor time on command.
#[cfg(target_os = "linux")]
async fn wait(backend: &SqliteBackend) {
    let mut watch = backend.watch(&Key::new(KEY).unwrap()).unwrap();
    tokio::spawn(async move {
        watch.changed().await;
        panic!("notified");
    });
    // The cost of the beginning is not counted.
    sleep(Duration::from_millis(500)).await;
    for _ in 0..2 {
        eprintln!("{}", processor_time());
        let command =
            tokio::task::spawn_blocking(|| std::io::stdin().read_line(&mut String::new()));
        command.await.unwrap().unwrap();
    }
}

/// Returns the processor time of all threads of this process, in nanoseconds.
#[cfg(target_os = "linux")]
fn processor_time() -> u64 {
    std::fs::read_dir("/proc/self/task")
        .unwrap()
        .map(|task| std::fs::read_to_string(task.unwrap().path().join("schedstat")).unwrap())
        .map(|times| times.split(' ').next().unwrap().parse::<u64>().unwrap())
        .sum()
}

/// Returns the share of a core that a waiting process used while `load` ran.
#[cfg(target_os = "linux")]
async fn cost_of_waiting(file: &Path, load: impl Future<Output = ()>) -> f64 {
    let mut other = Other::start("waiter", file);
    let before = other.answer();
    let started = Instant::now();
    load.await;
    let took = started.elapsed();
    other.command();
    let used = other.answer() - before;
    used as f64 / took.as_nanos() as f64
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn waiting_costs_less_than_a_hundredth_of_a_core() {
    const SPAN: Duration = Duration::from_secs(2);
    let dir = TestDir::new();
    let file = dir.file();
    let holder = backend(&file);
    holder.acquire(&request(KEY)).await.unwrap();
    let quiet = cost_of_waiting(&file, sleep(SPAN)).await;
    let other_keys = async {
        let end = Instant::now() + SPAN;
        while Instant::now() < end {
            let lock = request("other");
            holder.acquire(&lock).await.unwrap();
            holder.release(lock.lock_id.into()).await.unwrap();
        }
    };
    let busy = cost_of_waiting(&file, other_keys).await;
    println!("share of a core: {quiet:.5} on a quiet file, {busy:.5} on a busy one");
    assert!(quiet < 0.01, "{quiet}");
    // An optimised build stays below a hundredth here, too. Looking at every commit would take half a core.
    assert!(busy < 0.05, "{busy}");
    holder.close().await;
}
