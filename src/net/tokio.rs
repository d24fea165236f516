//! Tokio's I/O threads as a reactor.

use std::sync::Arc;

use tokio::sync::Notify;

use super::event_loop::{Event, EventLoop, Interest, Watched};
use super::socket::Stream;

/// Serves one stream on tokio's I/O threads, even while the program's own threads are busy.
pub(crate) struct IoThreads {
    stream: Arc<Stream>,
    nudged: Arc<Notify>,
}

impl IoThreads {
    pub(crate) fn new(stream: Arc<Stream>) -> Self {
        Self {
            stream,
            nudged: Arc::default(),
        }
    }
}

impl EventLoop for IoThreads {
    /// Any thread may write.
    fn is_here(&self) -> bool {
        true
    }

    /// An I/O thread writes what was gathered by the time that it runs.
    fn is_gathering(&self) -> bool {
        self.nudge();
        true
    }

    fn watch(&self, socket: Arc<dyn Watched>) {
        let (stream, nudged) = (Arc::clone(&self.stream), Arc::clone(&self.nudged));
        tokio::spawn(async move {
            let mut interest = Interest::Read;
            while interest != Interest::Nothing {
                let event = tokio::select! {
                    ready = stream.ready(interest) => match ready {
                        Ok(()) => Event::Ready,
                        Err(_) => Event::Broken,
                    },
                    () = nudged.notified() => Event::Gathered,
                };
                interest = socket.turn(event);
                if event == Event::Broken && interest != Interest::Nothing {
                    socket.close();
                    return;
                }
            }
        });
    }

    fn nudge(&self) {
        self.nudged.notify_one();
    }
}
