//! The default file moves from the temp directory to the home directory.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use rusqlite::Connection;

use super::*;
use crate::error::ErrorCode;

/// Returns whether the previous version, which knows schema 1, would refuse the file.
fn previous_version_refuses(file: &Path) -> bool {
    let db = Connection::open(file).unwrap();
    let number = |pragma| db.pragma_query_value(None, pragma, |row| row.get::<_, i64>(0));
    number("application_id").unwrap() == 0x5347_6c6b && number("user_version").unwrap() > 1
}

#[tokio::test]
async fn the_file_is_in_the_home_directory_and_the_previous_version_is_refused() {
    let user = User::new();
    let backend = user.backend();
    assert_eq!(take(&backend, "k").await.unwrap().1, 1);
    assert!(user.home_file().exists());
    assert!(previous_version_refuses(&user.temp_file()));
    let other = user.backend();
    assert!(take(&other, "k").await.is_none());
    backend.close().await;
    other.close().await;

    let error = refusal(&user.previous()).await;
    assert_eq!(error.code, ErrorCode::InvalidArgument);
    let home = user.home_file();
    assert!(
        error.message.contains(home.to_str().unwrap()),
        "{}",
        error.message
    );
}

#[cfg(unix)]
#[tokio::test]
async fn no_lock_is_moved_to_a_file_that_is_refused() {
    use crate::backend::sqlite::file::system::{FileSystem, tests::fake};

    let user = User::new();
    let previous = user.previous();
    take(&previous, "held").await.unwrap();
    previous.close().await;
    // The state directory is a mount of a network file system.
    let mount = user.home_file().ancestors().nth(2).unwrap().to_owned();
    fs::create_dir_all(&mount).unwrap();
    fake(&mount, FileSystem::Network("NFS".to_owned()));

    let error = refusal(&user.backend()).await;
    assert!(error.message.contains("is on NFS"), "{}", error.message);
    assert!(!user.home_file().exists());
    assert!(!previous_version_refuses(&user.temp_file()));
    let previous = user.previous();
    assert!(take(&previous, "held").await.is_none());
    previous.close().await;
}

#[tokio::test]
async fn the_locks_and_fences_of_the_previous_version_are_moved() {
    let user = User::new();
    let previous = user.previous();
    for _ in 0..3 {
        let (lock, _) = take(&previous, "counted").await.unwrap();
        previous.release(lock.lock_id.into()).await.unwrap();
    }
    // Its process ends without a release.
    let (held, _) = take(&previous, "held").await.unwrap();
    previous.close().await;

    let backend = user.backend();
    assert_eq!(take(&backend, "counted").await.unwrap().1, 4);
    assert!(take(&backend, "held").await.is_none());
    let released = backend.release(held.lock_id.into()).await.unwrap();
    assert_eq!(released, ReleaseOutcome::Released);
    assert_eq!(take(&backend, "held").await.unwrap().1, 2);
    assert!(previous_version_refuses(&user.temp_file()));
    backend.close().await;
}

/// Processes of this version have used the file in the temp directory, while it was open in another.
#[tokio::test]
async fn shares_are_moved_with_their_record() {
    let user = User::new();
    let previous = user.previous();
    let reader = || AcquireRequest {
        access: crate::lock::Access::Shared { limit: 3 },
        ..request("shared")
    };
    let readers = [reader(), reader()];
    for reader in &readers {
        assert!(granted(previous.acquire(reader).await.unwrap()).is_some());
    }
    previous.close().await;

    let backend = user.backend();
    assert!(take(&backend, "shared").await.is_none());
    assert!(previous_version_refuses(&user.temp_file()));
    let third = reader();
    assert_eq!(
        granted(backend.acquire(&third).await.unwrap())
            .unwrap()
            .value(),
        3
    );
    assert!(granted(backend.acquire(&reader()).await.unwrap()).is_none());
    for reader in readers.iter().chain([&third]) {
        let released = backend.release(reader.lock_id.into()).await.unwrap();
        assert_eq!(released, ReleaseOutcome::Released);
    }
    assert_eq!(take(&backend, "shared").await.unwrap().1, 4);
    backend.close().await;
    let error = refusal(&user.previous()).await;
    assert!(error.message.contains("home"), "{}", error.message);
}

#[tokio::test]
async fn a_file_that_the_previous_version_has_open_stays_the_file() {
    let user = User::new();
    let previous = user.previous();
    let (held, _) = take(&previous, "k").await.unwrap();
    let backend = user.backend();
    // A process with another temp directory uses it, too.
    let elsewhere = user.with_temp("elsewhere");
    let elsewhere = elsewhere.backend();
    for new in [&backend, &elsewhere] {
        assert!(take(new, "k").await.is_none());
    }
    // The process of the previous version is not affected.
    previous.extend(held.lock_id, ttl(60_000)).await.unwrap();
    previous.release(held.lock_id.into()).await.unwrap();
    assert_eq!(take(&elsewhere, "k").await.unwrap().1, 2);
    assert!(take(&previous, "k").await.is_none());
    previous.close().await;
    // It stays the file while any process has it open.
    let another = user.backend();
    assert!(take(&another, "k").await.is_none());
    assert!(!previous_version_refuses(&user.temp_file()));
    for new in [backend, elsewhere, another] {
        new.close().await;
    }

    let last = user.backend();
    assert!(take(&last, "k").await.is_none());
    assert_eq!(take(&last, "other").await.unwrap().1, 1);
    assert!(previous_version_refuses(&user.temp_file()));
    last.close().await;
}

/// The temp directory was emptied while no process of this version was running.
#[tokio::test]
async fn a_previous_version_that_found_no_note_is_noticed() {
    let user = User::new();
    let backend = user.backend();
    let (lock, _) = take(&backend, "k").await.unwrap();
    backend.release(lock.lock_id.into()).await.unwrap();
    backend.close().await;
    fs::remove_dir_all(user.temp_file().parent().unwrap()).unwrap();

    let previous = user.previous();
    for _ in 0..5 {
        let (lock, _) = take(&previous, "k").await.unwrap();
        previous.release(lock.lock_id.into()).await.unwrap();
    }
    let error = refusal(&user.backend()).await;
    assert_eq!(error.code, ErrorCode::ServiceUnavailable);
    for part in [user.temp_file(), user.home_file()] {
        let part = part.file_name().unwrap().to_str().unwrap().to_owned();
        assert!(error.message.contains(&part), "{}", error.message);
    }
    assert!(
        error.message.contains("Stop or update"),
        "{}",
        error.message
    );
    previous.close().await;

    let backend = user.backend();
    assert_eq!(take(&backend, "k").await.unwrap().1, 6);
    backend.close().await;
}

#[tokio::test]
async fn a_process_that_finds_two_files_in_use_is_refused() {
    let user = User::new();
    let other = user.with_temp("other");
    let (one, two) = (user.previous(), other.previous());
    take(&one, "k").await.unwrap();
    take(&two, "k").await.unwrap();
    let backend = user.backend();
    assert!(take(&backend, "k").await.is_none());
    let error = refusal(&other.backend()).await;
    assert_eq!(error.code, ErrorCode::ServiceUnavailable);
    two.close().await;
    // The file that is still in use is chosen.
    let backend_of_other = other.backend();
    assert_eq!(take(&backend_of_other, "new").await.unwrap().1, 1);
    assert!(take(&backend, "new").await.is_none());
    for open in [one, backend, backend_of_other] {
        open.close().await;
    }
}

#[tokio::test]
async fn without_a_home_directory_the_file_of_the_previous_version_is_used() {
    let user = User::new().without_home();
    let (previous, backend) = (user.previous(), user.backend());
    take(&previous, "k").await.unwrap();
    assert!(take(&backend, "k").await.is_none());
    previous.close().await;
    backend.close().await;
}

/// An example is a service that cannot see the home directory while a cron job can.
#[tokio::test]
async fn a_process_that_cannot_see_the_home_directory_is_refused() {
    let user = User::new();
    let backend = user.backend();
    take(&backend, "k").await.unwrap();
    backend.close().await;
    let home = user.home_file();
    let error = refusal(&user.without_home().backend()).await;
    assert_eq!(error.code, ErrorCode::InvalidArgument);
    for part in [
        home.to_str().unwrap(),
        "does not exist",
        "SYNCGUARD_STATE_DIR",
    ] {
        assert!(error.message.contains(part), "{}", error.message);
    }
}

/// Processes of both versions start and end. One at a time holds the lock, and its fences increase.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn both_versions_exclude_each_other_while_the_file_moves() {
    for _ in 0..10 {
        let user = Arc::new(User::new());
        let (inside, last) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let state = Arc::new((inside, last));
        let tasks: Vec<_> = (0..8)
            .map(|n| {
                let (user, state) = (Arc::clone(&user), Arc::clone(&state));
                tokio::spawn(async move {
                    tokio::time::sleep(Duration::from_millis(rand::random_range(0..30))).await;
                    let is_previous = n % 2 == 0;
                    let backend = if is_previous {
                        user.previous()
                    } else {
                        user.backend()
                    };
                    let rounds = work(&backend, &state, is_previous).await;
                    backend.close().await;
                    rounds
                })
            })
            .collect();
        for (n, task) in tasks.into_iter().enumerate() {
            let rounds = task.await.unwrap();
            assert!(rounds == ROUNDS || n % 2 == 0);
        }
        let backend = user.backend();
        let (_, fence) = take(&backend, "k").await.unwrap();
        assert_eq!(fence, state.1.load(Ordering::SeqCst) as u64 + 1);
        backend.close().await;
    }
}

const ROUNDS: usize = 10;

/// Holds the lock [`ROUNDS`] times. A process of the previous version ends once it is refused.
async fn work(
    backend: &SqliteBackend,
    (inside, last): &(AtomicUsize, AtomicUsize),
    is_previous: bool,
) -> usize {
    let mut rounds = 0;
    while rounds < ROUNDS {
        let lock = request("k");
        match backend.acquire(&lock).await {
            Ok(AcquireOutcome::Acquired { fence, .. }) => {
                assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
                tokio::task::yield_now().await;
                let fence = usize::try_from(fence.value()).unwrap();
                assert!(last.swap(fence, Ordering::SeqCst) < fence);
                inside.fetch_sub(1, Ordering::SeqCst);
                backend.release(lock.lock_id.into()).await.unwrap();
                rounds += 1;
            }
            Ok(AcquireOutcome::Locked(_)) => {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            Err(error) if is_previous && error.code == ErrorCode::InvalidArgument => break,
            Err(error) => panic!("{error:?}"),
        }
    }
    rounds
}
