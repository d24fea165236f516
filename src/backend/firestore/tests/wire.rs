//! A proxy in front of the emulator whose connections a test can cut.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;

use super::sleep_ms;

pub(super) struct Wire {
    pub(super) address: String,
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    server: Mutex<String>,
    cut: Mutex<CancellationToken>,
    is_down: AtomicBool,
    connections: AtomicUsize,
}

impl Wire {
    pub(super) async fn to(server: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let state = Arc::new(State::default());
        tokio::spawn(serve(listener, Arc::clone(&state)));
        let wire = Self { address, state };
        wire.lead_to(server);
        wire
    }

    /// Sends new connections to this server.
    pub(super) fn lead_to(&self, server: &str) {
        *self.state.server.lock().unwrap() = server.to_owned();
    }

    /// Ends all connections.
    pub(super) fn cut(&self) {
        std::mem::take(&mut *self.state.cut.lock().unwrap()).cancel();
    }

    /// While the wire is down, it closes every new connection at once.
    pub(super) fn set_down(&self, is_down: bool) {
        self.state.is_down.store(is_down, Ordering::SeqCst);
        self.cut();
    }

    pub(super) async fn until_unused(&self) {
        while self.state.connections.load(Ordering::SeqCst) > 0 {
            sleep_ms(5).await;
        }
    }
}

async fn serve(listener: TcpListener, state: Arc<State>) {
    loop {
        let (mut near, _) = listener.accept().await.unwrap();
        if state.is_down.load(Ordering::SeqCst) {
            continue;
        }
        let server = state.server.lock().unwrap().clone();
        let mut far = TcpStream::connect(server).await.unwrap();
        let cut = state.cut.lock().unwrap().clone();
        let state = Arc::clone(&state);
        tokio::spawn(async move {
            state.connections.fetch_add(1, Ordering::SeqCst);
            let copying = copy_bidirectional(&mut near, &mut far);
            cut.run_until_cancelled(copying).await;
            state.connections.fetch_sub(1, Ordering::SeqCst);
        });
    }
}
