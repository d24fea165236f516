//! For systems that do not report writes.

use parking_lot::{Condvar, Mutex};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::Woken;

#[derive(Default)]
struct State {
    woken: Mutex<bool>,
    changed: Condvar,
}

pub(crate) struct WakeHandle(Arc<State>);

impl WakeHandle {
    pub(crate) fn wake(&self) {
        *self.0.woken.lock() = true;
        self.0.changed.notify_one();
    }
}

pub(crate) struct Signal(Arc<State>);

impl Signal {
    pub(crate) fn new() -> std::io::Result<(WakeHandle, Self)> {
        let state = Arc::<State>::default();
        Ok((WakeHandle(Arc::clone(&state)), Self(state)))
    }

    pub(crate) fn watch_file(&mut self, _file: &Path) {}

    pub(crate) fn reports_writes(&self) -> bool {
        false
    }

    pub(crate) fn wait(&mut self, _least: Duration, most: Duration) -> Woken {
        let mut woken = self.0.woken.lock();
        let changed = &self.0.changed;
        changed.wait_while_for(&mut woken, |woken| !*woken, most);
        Woken {
            by_handle: std::mem::take(&mut *woken),
            by_write: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn a_wake_up_before_the_wait_counts_too() {
        let (handle, mut signal) = Signal::new().unwrap();
        handle.wake();
        assert!(signal.wait(LONG, LONG).by_handle);
        let short = Duration::from_millis(1);
        assert!(!signal.wait(short, short).by_handle);
        let waking = std::thread::spawn(move || handle.wake());
        assert!(signal.wait(Duration::ZERO, LONG).by_handle);
        waking.join().unwrap();
        signal.watch_file(Path::new("/"));
        assert!(!signal.reports_writes());
    }
}
