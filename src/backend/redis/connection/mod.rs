//! One connection to a server, on either reactor.
//!
//! The thread that makes a request writes it, and the reactor reads the answers: Node's event loop for
//! requests of JavaScript, tokio for the others. [`pipeline`] keeps the requests that are in flight,
//! [`resp`] is the protocol, and [`shared_script`] lets requests that are written together share a
//! script.

mod pipeline;
pub(super) mod resp;
mod shared_script;

use std::net::TcpStream;
use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use redis::{PushInfo, Value};
use tokio::sync::{broadcast, oneshot};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::config::Node;
use super::error;
use super::format::scripts::Call;
use crate::error::{Error, Result};
use crate::net::event_loop::{Event, EventLoop, Interest, Watched};
use crate::net::socket::{Socket, Stream};
use crate::net::ticker::{Ticker, interval_for};
use crate::net::tokio::IoThreads;
use pipeline::{Answers, Pipeline};

/// How often a caller checks a condition that has no notification.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// After this time, another thread reads the answers that the reactor has not read. The event loop may
/// be busy, and what depends on an answer, such as the next heartbeat, must not wait for it.
const UNREAD_LIMIT: Duration = Duration::from_millis(50);

/// The number of push messages that a slow reader may leave unread. It learns if it misses more.
const MAX_UNREAD_PUSHES: usize = 1 << 10;

#[derive(Clone, Copy)]
pub(crate) struct Settings {
    /// How long the server may take to answer.
    pub(crate) limit: Duration,
    /// Whether requests may share a script. In a cluster the keys of a script must be of one slot.
    pub(crate) shares_scripts: bool,
    /// Whether the server will push messages.
    pub(crate) gets_pushes: bool,
}

pub(crate) enum Request<'a> {
    Command(&'a [&'a [u8]]),
    /// Carries the script's hash if the server knows the script. May share a script with others.
    Script(&'a Call<'a>),
}

/// The answer is None if the request shared a script with others and the server refused that script:
/// the request was not run, and has to be repeated with its own text.
pub(crate) type Answer = oneshot::Receiver<Result<Option<Value>>>;

/// A connection. Dropping it ends it.
pub(crate) struct Connection(Arc<Served>);

/// The part of a connection that the reactor serves.
struct Served {
    node: Node,
    reactor: Arc<dyn EventLoop>,
    limit: Duration,
    /// Cancelled when the connection is over. Cancelling it ends the connection.
    over: CancellationToken,
    /// Cancelled when the connection breaks.
    partner: OnceLock<CancellationToken>,
    pipeline: Mutex<Pipeline>,
}

impl Connection {
    /// Opens a connection over a socket. `event_loop` serves it, or tokio if there is none.
    pub(crate) fn open(
        node: &Node,
        socket: Socket,
        event_loop: Option<Arc<dyn EventLoop>>,
        settings: Settings,
    ) -> Self {
        let reactor = event_loop.unwrap_or_else(|| Arc::new(IoThreads::new(socket.stream())));
        let pushes = settings
            .gets_pushes
            .then(|| broadcast::Sender::new(MAX_UNREAD_PUSHES));
        let served = Arc::new_cyclic(|served: &Weak<Served>| {
            let interval = interval_for(settings.limit).min(UNREAD_LIMIT);
            let served = Weak::clone(served);
            let ticker = Ticker::new(interval, move || {
                if let Some(served) = served.upgrade() {
                    served.tick();
                }
            });
            Served {
                node: node.clone(),
                reactor: Arc::clone(&reactor),
                limit: settings.limit,
                over: CancellationToken::new(),
                partner: OnceLock::new(),
                pipeline: Mutex::new(Pipeline::new(
                    socket,
                    ticker,
                    settings.shares_scripts,
                    pushes,
                )),
            }
        });
        reactor.watch(Arc::clone(&served) as Arc<dyn Watched>);
        tokio::spawn({
            let served = Arc::clone(&served);
            async move {
                served.over.cancelled().await;
                served.end();
            }
        });
        Self(served)
    }

    /// Sends the call, if this is the reactor's own thread. None if it has to use another connection.
    pub(crate) fn send(&self, call: &Call<'_>) -> Option<Answer> {
        self.0.start(&Request::Script(call), false)
    }

    /// Sends a command and returns the answer, which may be an error of the server.
    pub(crate) async fn ask(&self, command: &[&[u8]]) -> Result<Value> {
        self.answer(&Request::Command(command))
            .await?
            .ok_or_else(error::not_redis)
    }

    /// Like `ask`, for a script.
    pub(crate) async fn call(&self, call: &Call<'_>) -> Result<Value> {
        match self.answer(&Request::Script(call)).await? {
            Some(answer) if !is_unknown_script(&answer) => Ok(answer),
            _ => self.call_with_text(call).await,
        }
    }

    /// Like `call`, for a script that the server does not know, or that was not run.
    pub(crate) async fn call_with_text(&self, call: &Call<'_>) -> Result<Value> {
        let keys = call.keys.len().to_string();
        let words = ["EVAL", call.script.text, &keys];
        let words = words.iter().chain(call.keys).chain(call.args);
        let words: Vec<&[u8]> = words.map(|word| word.as_bytes()).collect();
        self.ask(&words).await
    }

    async fn answer(&self, request: &Request<'_>) -> Result<Option<Value>> {
        let give_up = Instant::now() + self.0.limit;
        loop {
            if let Some(answer) = self.0.start(request, true) {
                let lost = || error::lost().outcome_unknown();
                return answer.await.map_err(|_| lost())?;
            }
            if self.is_over() {
                return Err(self.0.pipeline.lock().failure());
            }
            // The limit of requests in flight is reached.
            if Instant::now() >= give_up {
                return Err(error::silent());
            }
            sleep(POLL_INTERVAL).await;
        }
    }

    /// Returns what the server pushes from now on.
    pub(crate) fn pushes(&self) -> Option<broadcast::Receiver<PushInfo>> {
        self.0.pipeline.lock().pushes()
    }

    pub(crate) fn node(&self) -> &Node {
        &self.0.node
    }

    /// Cancels `partner` when this connection breaks. If one of two connections fails, both are dropped,
    /// so that a caller that meets one loss does not meet another.
    pub(crate) fn cancel_when_broken(&self, partner: CancellationToken) {
        let partner = self.0.partner.get_or_init(|| partner);
        if self.is_over() {
            partner.cancel();
        }
    }

    pub(crate) fn is_over(&self) -> bool {
        self.0.over.is_cancelled()
    }

    /// Returns a token that is cancelled when the connection is over.
    pub(crate) fn over(&self) -> CancellationToken {
        self.0.over.clone()
    }

    pub(crate) fn end(&self) {
        self.0.over.cancel();
    }

    /// Ends the connection when all requests are answered or have timed out.
    pub(crate) async fn retire(&self) {
        let give_up = Instant::now() + self.0.limit;
        while self.0.pipeline.lock().is_waiting() && Instant::now() < give_up {
            sleep(POLL_INTERVAL).await;
        }
        self.end();
    }
}

/// Returns whether the server has forgotten the script, and so did nothing.
pub(super) fn is_unknown_script(answer: &Value) -> bool {
    matches!(answer, Value::ServerError(error) if error::code_of(error) == "NOSCRIPT")
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.end();
    }
}

impl Served {
    /// Writes the request, or has it written soon. None if the connection cannot accept it. Unless
    /// `any_thread` is set, only the reactor's own thread may make requests.
    fn start(&self, request: &Request<'_>, any_thread: bool) -> Option<Answer> {
        let here = self.reactor.is_here();
        let mut pipeline = self.pipeline.lock();
        // The undo of a request that timed out must not overtake that request.
        let may_start = here || any_thread || pipeline.has_timed_out_requests();
        if !may_start || pipeline.is_full() || self.over.is_cancelled() {
            return None;
        }
        let answer = pipeline.add(request);
        let waits_for_more = here && pipeline.has_room_for_more() && self.reactor.is_gathering();
        if !waits_for_more && !pipeline.write() {
            self.reactor.nudge();
        }
        Some(answer)
    }

    fn end(&self) {
        let lost = self.fail(&mut self.pipeline.lock(), error::lost().outcome_unknown());
        deliver(lost);
        self.reactor.nudge();
    }

    #[must_use]
    fn fail(&self, pipeline: &mut Pipeline, failure: Error) -> Answers {
        self.over.cancel();
        pipeline.fail(failure)
    }

    fn read(&self, pipeline: &mut Pipeline, event: Event, answers: &mut Answers) {
        let read = match event {
            Event::Gathered => return,
            Event::Ready => pipeline.read(&self.node, answers).map(drop),
            Event::Broken => pipeline.read_to_the_end(&self.node, answers),
        };
        // Answers are read first: one that came in time is not late because it is read late.
        if let Err(failure) = read.and_then(|()| pipeline.time_out(self.limit, answers)) {
            answers.append(&mut self.fail(pipeline, failure));
        }
    }

    /// Watches the time-outs, and reads and writes if the reactor's thread is too busy.
    fn tick(&self) {
        let mut pipeline = self.pipeline.lock();
        let mut done = pipeline.write();
        let is_unread = pipeline.is_unanswered_for(UNREAD_LIMIT);
        drop(pipeline);
        if is_unread {
            done = self.turn(Event::Ready) == Interest::Read;
        }
        if !done {
            self.reactor.nudge();
        }
    }
}

/// Hands the answers to their callers. The pipeline must not be locked, because a caller may continue at
/// once and make another request.
fn deliver(answers: Answers) {
    for (waiting, answer) in answers {
        // The caller may have given up.
        let _ = waiting.send(answer);
    }
}

impl Watched for Served {
    fn socket(&self) -> Option<Arc<TcpStream>> {
        match &*self.pipeline.lock().stream() {
            Stream::EventLoop(stream) => Some(Arc::clone(stream)),
            _ => None,
        }
    }

    fn turn(&self, event: Event) -> Interest {
        let mut answers = Vec::new();
        let mut pipeline = self.pipeline.lock();
        let was_up = !self.over.is_cancelled();
        if was_up {
            self.read(&mut pipeline, event, &mut answers);
        }
        pipeline.expect_as_many_as(answers.len());
        let is_written = pipeline.write();
        drop(pipeline);
        let is_over = self.over.is_cancelled();
        if was_up
            && is_over
            && let Some(partner) = self.partner.get()
        {
            partner.cancel();
        }
        deliver(answers);
        if is_over {
            Interest::Nothing
        } else if is_written {
            Interest::Read
        } else {
            Interest::ReadAndWrite
        }
    }

    fn close(&self) {
        self.end();
    }
}
