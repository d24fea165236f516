//! The thread that sees commits.
//!
//! `PRAGMA data_version` changes with every commit of another connection. When it did, the locks
//! of all waiters are looked up; else only those of waiters that came since.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::pace::{PRICE, Pace, Seen};
use super::signal::Signal;
use super::{Shared, Waiter};
use crate::backend::sqlite::error::is_busy;
use crate::backend::sqlite::file::LockFile;
use crate::backend::sqlite::store;
use crate::lock::time::system_now_ms;

/// Waiters come and go: the file stays open for so long after the last one.
const LINGER: Duration = Duration::from_secs(2);
/// The longest time between two looks, where writes are heard and where they are not.
const HEARING: Duration = Duration::from_millis(250);
const DEAF: Duration = PRICE;
/// And when the file cannot be opened.
const LOCKED_OUT: Duration = Duration::from_secs(1);

pub(super) struct Lookout {
    shared: Arc<Shared>,
    signal: Signal,
    pace: Pace,
    view: Option<View>,
}

/// The open file, and what was last seen of it.
struct View {
    file: LockFile,
    version: Option<i64>,
}

impl Lookout {
    pub(super) fn new(shared: Arc<Shared>, signal: Signal) -> Self {
        Self {
            shared,
            signal,
            pace: Pace::new(),
            view: None,
        }
    }

    /// Until nobody waits any more.
    pub(super) fn run(mut self) {
        while let Some(waiting) = self.shared.waiting() {
            if !waiting.is_empty() {
                self.look(&waiting);
            } else if !self.signal.wait(LINGER, LINGER).bell {
                // Before anybody may think that the thread is gone.
                self.view = None;
                if self.shared.dismiss() {
                    return;
                }
            }
        }
    }

    fn look(&mut self, waiting: &[Arc<Waiter>]) {
        let started = Instant::now();
        let longest = match self.view() {
            Some(view) => {
                match view.look(waiting) {
                    Ok(seen) => self.pace.seen(seen),
                    // Next time, then.
                    Err(error) if is_busy(&error) => {}
                    Err(_) => self.view = None,
                }
                if self.signal.hears_writes() {
                    HEARING
                } else {
                    DEAF
                }
            }
            None => LOCKED_OUT,
        };
        let (least, most) = self.pace.after(started.elapsed(), longest);
        if self.signal.wait(least, most).write {
            self.pace.heard();
        }
    }

    fn view(&mut self) -> Option<&mut View> {
        if self
            .view
            .as_ref()
            .is_some_and(|view| !view.file.is_current())
        {
            self.view = None;
        }
        if self.view.is_none() {
            let file = LockFile::open(self.shared.settings.path.as_deref()).ok()?;
            self.signal.follow(&file.path);
            self.view = Some(View {
                file,
                version: None,
            });
        }
        self.view.as_mut()
    }
}

impl View {
    fn look(&mut self, waiting: &[Arc<Waiter>]) -> rusqlite::Result<Seen> {
        let version: i64 = self
            .file
            .db
            .prepare_cached("PRAGMA data_version")?
            .query_row([], |row| row.get(0))?;
        // A commit between this and the reading below is seen, and seen again next time.
        let committed = self.version != Some(version);
        let wanted: Vec<_> = waiting
            .iter()
            .filter(|waiter| waiter.wants_look(committed))
            .collect();
        let holders = self.holders(&wanted)?;
        self.version = Some(version);
        let mut told = false;
        for (waiter, holder) in std::iter::zip(wanted, holders) {
            told |= waiter.tell(holder);
        }
        Ok(match (told, committed) {
            (true, _) => Seen::Change,
            (false, true) => Seen::Commit,
            (false, false) => Seen::Nothing,
        })
    }

    fn holders(&self, waiters: &[&Arc<Waiter>]) -> rusqlite::Result<Vec<Option<String>>> {
        if waiters.is_empty() {
            return Ok(Vec::new());
        }
        let now_ms = system_now_ms();
        let transaction = self.file.db.unchecked_transaction()?;
        waiters
            .iter()
            .map(|waiter| store::holder(&transaction, &waiter.key, now_ms))
            .collect()
    }
}
