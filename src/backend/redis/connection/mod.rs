//! One connection to a server, on either reactor.
//!
//! A request is written by whoever makes it, and the reactor reads the answers: Node's event loop
//! for what JavaScript asks, tokio for the rest. [`pipeline`] is what is in flight, [`resp`] the
//! protocol, and [`shared_script`] lets requests that are written together share a script.

mod pipeline;
pub(super) mod resp;
mod shared_script;

use std::net::TcpStream;
use std::sync::{Arc, OnceLock};
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
use crate::net::tokio::IoThreads;
use crate::net::watchdog;
use pipeline::{Answers, Pipeline};

/// How often a caller looks again for something that nobody announces.
const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// An answer that nobody has read for so long is read by another thread: the event loop may be busy,
/// and what depends on the answer, such as the next heartbeat, must not wait for it.
const UNREAD_LIMIT: Duration = Duration::from_millis(50);

/// Push messages that a slow reader may leave unread. It is told if it misses some.
const MAX_UNREAD_PUSHES: usize = 1 << 10;

#[derive(Clone, Copy)]
pub(crate) struct Settings {
    /// How long an answer may take.
    pub(crate) limit: Duration,
    /// Whether requests may share a script. In a cluster the keys of a script must be of one slot.
    pub(crate) shares_scripts: bool,
    /// Whether the server will push messages.
    pub(crate) gets_pushes: bool,
}

pub(crate) enum Request<'a> {
    Command(&'a [&'a [u8]]),
    /// By the script's hash where the server has the script. It may share a script with others.
    Script(&'a Call<'a>),
    /// Carries the script's text, which the server then remembers.
    ScriptText(&'a Call<'a>),
}

/// None if the request shared a script with others and was refused together with them: it was not
/// run, and has to be made again with its own text.
pub(crate) type Answer = oneshot::Receiver<Result<Option<Value>>>;

/// Ends with its last owner.
pub(crate) struct Connection(Arc<Served>);

/// The part that the reactor has.
struct Served {
    node: Node,
    reactor: Arc<dyn EventLoop>,
    limit: Duration,
    /// Cancelled when the connection is over, and to end it.
    over: CancellationToken,
    /// Cancelled when it breaks.
    partner: OnceLock<CancellationToken>,
    pipeline: Mutex<Pipeline>,
}

impl Connection {
    /// Over a socket that `event_loop` serves, or else tokio.
    pub(crate) fn open(
        node: &Node,
        socket: Socket,
        event_loop: Option<Arc<dyn EventLoop>>,
        settings: Settings,
    ) -> Self {
        let is_on_tokio = event_loop.is_none();
        let reactor = event_loop.unwrap_or_else(|| Arc::new(IoThreads::new(socket.stream())));
        let pushes = settings
            .gets_pushes
            .then(|| broadcast::Sender::new(MAX_UNREAD_PUSHES));
        let served = Arc::new(Served {
            node: node.clone(),
            reactor: Arc::clone(&reactor),
            limit: settings.limit,
            over: CancellationToken::new(),
            partner: OnceLock::new(),
            pipeline: Mutex::new(Pipeline::new(
                socket,
                is_on_tokio,
                settings.shares_scripts,
                pushes,
            )),
        });
        reactor.watch(Arc::clone(&served) as Arc<dyn Watched>);
        tokio::spawn({
            let served = Arc::clone(&served);
            async move {
                let over = served.over.clone();
                over.run_until_cancelled(served.watch_time()).await;
                served.end();
            }
        });
        Self(served)
    }

    /// Makes the request, if it is made on the reactor's own thread. None if it has to go over
    /// another connection.
    pub(crate) fn send(&self, call: &Call<'_>) -> Option<Answer> {
        self.0.start(&Request::Script(call), false)
    }

    /// Returns the server's answer, which may be an error of its own.
    pub(crate) async fn ask(&self, command: &[&[u8]]) -> Result<Value> {
        self.answer(&Request::Command(command))
            .await?
            .ok_or_else(error::not_redis)
    }

    /// The same for a script. None as in [`Answer`].
    pub(crate) async fn call(&self, call: &Call<'_>) -> Result<Option<Value>> {
        self.answer(&Request::Script(call)).await
    }

    /// The same for a server that may not have the script.
    pub(crate) async fn call_with_text(&self, call: &Call<'_>) -> Result<Value> {
        self.answer(&Request::ScriptText(call))
            .await?
            .ok_or_else(error::not_redis)
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
            // As many requests are in flight as may be.
            if Instant::now() >= give_up {
                return Err(error::silent());
            }
            sleep(LOOK_AGAIN).await;
        }
    }

    /// What the server pushes from now on.
    pub(crate) fn pushes(&self) -> Option<broadcast::Receiver<PushInfo>> {
        self.0.pipeline.lock().pushes()
    }

    pub(crate) fn node(&self) -> &Node {
        &self.0.node
    }

    /// Cancels `partner` when this connection breaks: if one connection fails, both are dropped, so
    /// that no caller is told of two losses.
    pub(crate) fn cancel_when_broken(&self, partner: CancellationToken) {
        let partner = self.0.partner.get_or_init(|| partner);
        if self.is_over() {
            partner.cancel();
        }
    }

    pub(crate) fn is_over(&self) -> bool {
        self.0.over.is_cancelled()
    }

    /// Cancelled when the connection is over.
    pub(crate) fn over(&self) -> CancellationToken {
        self.0.over.clone()
    }

    pub(crate) fn end(&self) {
        self.0.over.cancel();
    }

    /// Ends it when all requests are answered or have timed out.
    pub(crate) async fn retire(&self) {
        let give_up = Instant::now() + self.0.limit;
        while self.0.pipeline.lock().is_waiting() && Instant::now() < give_up {
            sleep(LOOK_AGAIN).await;
        }
        self.end();
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.end();
    }
}

impl Served {
    /// Writes the request, or has it written soon. None if the connection cannot take it. One that
    /// is not for `any_thread` is only taken on the reactor's own.
    fn start(&self, request: &Request<'_>, any_thread: bool) -> Option<Answer> {
        let here = self.reactor.is_here();
        let mut pipeline = self.pipeline.lock();
        // What undoes a request that timed out must not overtake it.
        let is_for_us = here || any_thread || pipeline.has_timed_out_requests();
        if !is_for_us || pipeline.is_full() || self.over.is_cancelled() {
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
        // Only now: an answer that came in time is not late because it is read late.
        if let Err(failure) = read.and_then(|()| pipeline.time_out(self.limit, answers)) {
            answers.append(&mut self.fail(pipeline, failure));
        }
    }

    /// Does what the reactor's thread may have no time for.
    async fn watch_time(&self) {
        let watchdog = self.pipeline.lock().watchdog();
        let tick = || {
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
        };
        let pause = watchdog::pause_of(self.limit).min(UNREAD_LIMIT);
        watchdog.run(pause, tick).await;
    }
}

/// Must not be called while the pipeline is locked: a caller that gets its answer may go on at once,
/// and make another request.
fn deliver(answers: Answers) {
    for (waiting, answer) in answers {
        // The caller may be gone.
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
