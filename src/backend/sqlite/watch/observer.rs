//! The thread that sees commits.
//!
//! `PRAGMA data_version` changes with every commit of another connection. After a change the holders
//! of all watched keys are looked up, and otherwise only those of keys that somebody began to wait for.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::pace::{LOOK_COST, Pace, Seen};
use super::signal::Signal;
use super::{Shared, StoredKey};
use crate::backend::sqlite::error::is_busy;
use crate::backend::sqlite::file::LockFile;
use crate::backend::sqlite::occupancy::Occupancy;
use crate::lock::time::system_now_ms;

/// How long the file stays open after the last watch. Waiters come and go.
const IDLE_TIMEOUT: Duration = Duration::from_secs(2);
/// The longest pause between two looks where the system reports writes to the file.
const MAX_PAUSE_WITH_REPORTS: Duration = Duration::from_millis(250);
/// The longest pause where it does not.
const MAX_PAUSE_WITHOUT_REPORTS: Duration = LOOK_COST;
/// The pause before the file is opened again if that failed.
const REOPEN_AFTER: Duration = Duration::from_secs(1);

pub(super) struct Observer {
    shared: Arc<Shared>,
    signal: Signal,
    pace: Pace,
    view: Option<View>,
}

/// The open file, and its version at the last look.
struct View {
    file: LockFile,
    version: Option<i64>,
}

impl Observer {
    pub(super) fn new(shared: Arc<Shared>, signal: Signal) -> Self {
        Self {
            shared,
            signal,
            pace: Pace::new(),
            view: None,
        }
    }

    /// Runs until no key has been watched for [`IDLE_TIMEOUT`], or the backend is closed.
    pub(super) fn run(mut self) {
        loop {
            let (is_closed, is_idle) = {
                let state = self.shared.state.lock();
                (state.keys.is_closed(), state.keys.is_empty())
            };
            if is_closed {
                return;
            }
            if !is_idle {
                self.look();
            } else if !self.signal.wait(IDLE_TIMEOUT, IDLE_TIMEOUT).by_handle {
                // The file is closed before anybody may think that the thread has ended.
                self.view = None;
                if self.shared.stop_if_unwatched() {
                    return;
                }
            }
        }
    }

    fn look(&mut self) {
        let started = Instant::now();
        let shared = Arc::clone(&self.shared);
        let max_pause = match self.view() {
            Some(view) => {
                match view.look(&shared) {
                    Ok(seen) => self.pace.seen(seen),
                    // The next look tries again.
                    Err(error) if is_busy(&error) => {}
                    Err(_) => self.view = None,
                }
                if self.signal.reports_writes() {
                    MAX_PAUSE_WITH_REPORTS
                } else {
                    MAX_PAUSE_WITHOUT_REPORTS
                }
            }
            None => REOPEN_AFTER,
        };
        let (least, most) = self.pace.after(started.elapsed(), max_pause);
        if self.signal.wait(least, most).by_write {
            self.pace.write_reported();
        }
    }

    fn view(&mut self) -> Option<&mut View> {
        self.view.take_if(|view| !view.file.is_usable());
        if self.view.is_none() {
            let file = LockFile::open(&self.shared.settings).ok()?;
            self.signal.watch_file(&file.path);
            self.view = Some(View {
                file,
                version: None,
            });
        }
        self.view.as_mut()
    }
}

impl View {
    fn look(&mut self, shared: &Shared) -> rusqlite::Result<Seen> {
        let version: i64 = self
            .file
            .db
            .prepare_cached("PRAGMA data_version")?
            .query_row([], |row| row.get(0))?;
        // A commit between this line and the lookup is seen now, and once more by the next look.
        let has_commit = self.version != Some(version);
        let keys = shared.keys_to_look_up(has_commit);
        let occupancies = self.look_up(&keys)?;
        self.version = Some(version);
        let mut has_woken = false;
        for (key, occupancy) in std::iter::zip(&keys, occupancies) {
            has_woken |= shared.note(key, occupancy);
        }
        Ok(match (has_woken, has_commit) {
            (true, _) => Seen::Change,
            (false, true) => Seen::Commit,
            (false, false) => Seen::Nothing,
        })
    }

    fn look_up(&self, keys: &[StoredKey]) -> rusqlite::Result<Vec<Option<Occupancy>>> {
        if keys.is_empty() {
            return Ok(Vec::new());
        }
        let now_ms = system_now_ms();
        let transaction = self.file.db.unchecked_transaction()?;
        keys.iter()
            .map(|key| Occupancy::of(&transaction, key, now_ms))
            .collect()
    }
}
