//! Where writes are not heard.

use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use super::Heard;

#[derive(Default)]
struct State {
    rung: Mutex<bool>,
    changed: Condvar,
}

pub(crate) struct Bell(Arc<State>);

impl Bell {
    pub(crate) fn ring(&self) {
        *self.0.rung.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.0.changed.notify_one();
    }
}

pub(crate) struct Signal(Arc<State>);

impl Signal {
    pub(crate) fn new() -> std::io::Result<(Bell, Self)> {
        let state = Arc::<State>::default();
        Ok((Bell(Arc::clone(&state)), Self(state)))
    }

    pub(crate) fn follow(&mut self, _file: &Path) {}

    pub(crate) fn hears_writes(&self) -> bool {
        false
    }

    pub(crate) fn wait(&mut self, _least: Duration, most: Duration) -> Heard {
        let rung = self.0.rung.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut rung, _) = self
            .0
            .changed
            .wait_timeout_while(rung, most, |rung| !*rung)
            .unwrap_or_else(PoisonError::into_inner);
        Heard {
            bell: std::mem::take(&mut *rung),
            write: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn the_bell_is_heard_and_a_ring_before_the_wait_too() {
        let (bell, mut signal) = Signal::new().unwrap();
        bell.ring();
        assert!(signal.wait(LONG, LONG).bell);
        let short = Duration::from_millis(1);
        assert!(!signal.wait(short, short).bell);
        let ringing = std::thread::spawn(move || bell.ring());
        assert!(signal.wait(Duration::ZERO, LONG).bell);
        ringing.join().unwrap();
        signal.follow(Path::new("/"));
        assert!(!signal.hears_writes());
    }
}
