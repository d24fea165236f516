//! Programs that clean temp directories must not delete the file while it is open.

use std::os::unix::fs::MetadataExt;
use std::time::Duration;

use rustix::fs::{FlockOperation, Mode, OFlags, flock, open};

use super::*;

/// Returns whether `systemd-tmpfiles` would clean the directory. It skips one that it cannot lock.
fn may_clean(directory: &Path) -> bool {
    let directory = open(directory, OFlags::RDONLY, Mode::empty()).unwrap();
    flock(&directory, FlockOperation::NonBlockingLockExclusive).is_ok()
}

fn age(path: &Path) {
    let touched = std::process::Command::new("touch")
        .args(["-d", "2001-01-01"])
        .arg(path)
        .status()
        .unwrap();
    assert!(touched.success());
}

#[tokio::test]
async fn a_file_in_the_temp_directory_is_protected_while_it_is_open() {
    let user = User::new().without_home();
    let settings = Settings {
        refresh_every: Duration::from_millis(5),
        ..user.settings()
    };
    let backend = SqliteBackend::new(settings);
    take(&backend, "k").await.unwrap();
    let file = user.temp_file();
    let directory = file.parent().unwrap().to_owned();
    assert!(!may_clean(&directory));
    // The files look new although no operation uses them.
    for name in ["locks.db", "locks.db-wal", "locks.db-shm"] {
        let path = directory.join(name);
        age(&path);
        let is_new = async {
            while fs::metadata(&path).unwrap().mtime() < 1_500_000_000 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(60), is_new)
            .await
            .unwrap();
    }
    backend.close().await;
    assert!(may_clean(&directory));
}

#[tokio::test]
async fn the_note_for_the_previous_version_is_protected_while_the_file_is_open() {
    let user = User::new();
    let backend = user.backend();
    take(&backend, "k").await.unwrap();
    let directory = user.temp_file().parent().unwrap().to_owned();
    assert!(!may_clean(&directory));
    backend.close().await;
    assert!(may_clean(&directory));
}
