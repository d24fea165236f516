//! A second connection to the server, for requests made on the thread of the caller's event loop
//! and served there: no other thread takes part. Waking one often costs more than the request.
//!
//! It only speeds up what the [`link`](super::transport::link) can do as well: it is made when the link is up,
//! they end together, and what it cannot take goes over the link.
//!
//! [`wire`] is its socket, [`resp`] the protocol on it; [`together`]: requests that share a script.

pub(super) mod resp;
mod together;
pub(super) mod wire;

use std::collections::VecDeque;
use std::net::TcpStream;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use redis::{ServerErrorKind, Value};
use tokio::sync::oneshot;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::backend::redis::error;
use crate::backend::redis::format::scripts::{Call, Script};
use crate::backend::redis::transport::watchdog::{self, Watchdog};
use crate::error::{Error, Result};
use crate::event_loop::{Event, EventLoop, Interest, Watched};
use together::Together;
use wire::Wire;

/// Requests that may wait for their answers.
const MOST_WAITING: usize = 1 << 16;

const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// After so long another thread reads the answers: the loop's may be busy, and what depends on an
/// answer, such as the next heartbeat, must not wait for it.
const BUSY: Duration = Duration::from_millis(50);

pub(crate) struct Lane {
    /// The one of the wire.
    socket: Arc<TcpStream>,
    home: Arc<dyn EventLoop>,
    limit: Duration,
    watchdog: Watchdog,
    over: CancellationToken,
    /// The link's. When this connection breaks, that one is not to be trusted either: who was told
    /// of one loss shall not meet another.
    link_over: CancellationToken,
    state: Mutex<State>,
}

/// Where a connection keeps its lane, when it has one.
#[derive(Default)]
pub(crate) struct LaneSlot {
    lane: Mutex<Option<Arc<Lane>>>,
    claimed: AtomicBool,
}

impl LaneSlot {
    /// Sends the call; nothing when it has to go another way.
    pub(crate) fn send(&self, call: &Call<'_>) -> Option<Answer> {
        self.lock().as_ref()?.send(call)
    }

    /// Whether nobody has done so: then the caller is to make one.
    pub(crate) fn claim(&self) -> bool {
        !self.claimed.swap(true, Ordering::Relaxed)
    }

    pub(crate) fn set(&self, lane: Arc<Lane>) {
        *self.lock() = Some(lane);
    }

    pub(crate) fn take(&self) -> Option<Arc<Lane>> {
        self.lock().take()
    }

    fn lock(&self) -> MutexGuard<'_, Option<Arc<Lane>>> {
        self.lane.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct State {
    wire: Wire,
    /// Whether several requests may share a script.
    joins: bool,
    /// Not yet written: those of `gathered` requests.
    together: Together,
    output: Vec<u8>,
    gathered: usize,
    /// As many are written together: callers that were answered together often ask again together.
    part: usize,
    /// Scripts that went this way: the server remembers them. Were it asked for others by their
    /// hash, the second try would wait for this thread, which may be busy by then.
    known: Vec<&'static Script>,
    /// Read, but not yet a whole reply.
    input: Vec<u8>,
    /// In the order in which the server will answer.
    waiting: VecDeque<Request>,
    /// How many of them each answer of the server is for.
    replies: VecDeque<usize>,
    /// How many of them nobody waits for any more, as their time was up.
    given_up: usize,
    answered: Instant,
}

impl State {
    fn add(&mut self, call: &Call<'_>) {
        if self.joins && Together::takes(call) {
            if self.together.is_full() {
                self.join();
            }
            self.together.add(call);
        } else {
            self.join();
            let is_known = remembers(&mut self.known, call.script);
            resp::write_call(&mut self.output, call, is_known);
            self.replies.push_back(1);
        }
    }

    /// Those who could share a script do so.
    fn join(&mut self) {
        let known = &mut self.known;
        let calls = self
            .together
            .write(&mut self.output, |script| remembers(known, script));
        if calls > 0 {
            self.replies.push_back(calls);
        }
    }

    /// Whether all is written.
    fn write(&mut self) -> bool {
        self.join();
        self.gathered = 0;
        self.wire.write(&mut self.output)
    }
}

/// Whether the server has the script. If not, it will after this request.
fn remembers(known: &mut Vec<&'static Script>, script: &'static Script) -> bool {
    let is_known = known.iter().any(|known| ptr::eq(*known, script));
    if !is_known {
        known.push(script);
    }
    is_known
}

/// Whether the server has forgotten the script.
fn is_unknown(answer: &Value) -> bool {
    matches!(answer, Value::ServerError(error) if error.kind() == Some(ServerErrorKind::NoScript))
}

struct Request {
    /// Nothing when it was given up.
    answer: Option<Asker>,
    since: Instant,
}

/// Nothing when the request has to be made again, for itself. The server has not done it.
pub(crate) type Answer = oneshot::Receiver<Result<Option<Value>>>;
type Asker = oneshot::Sender<Result<Option<Value>>>;
type Answers = Vec<(Asker, Result<Option<Value>>)>;

impl Lane {
    /// The server at the other end must have been greeted.
    pub(crate) fn open(
        wire: Wire,
        home: Arc<dyn EventLoop>,
        limit: Duration,
        link_over: CancellationToken,
        joins: bool,
    ) -> Arc<Self> {
        let lane = Arc::new(Self {
            socket: Arc::clone(&wire.socket),
            home: Arc::clone(&home),
            limit,
            watchdog: Watchdog::default(),
            over: CancellationToken::new(),
            link_over,
            state: Mutex::new(State {
                wire,
                joins,
                together: Together::default(),
                output: Vec::new(),
                gathered: 0,
                part: 1,
                known: Vec::new(),
                input: Vec::new(),
                waiting: VecDeque::new(),
                replies: VecDeque::new(),
                given_up: 0,
                answered: Instant::now(),
            }),
        });
        home.watch(Arc::clone(&lane) as Arc<dyn Watched>);
        tokio::spawn({
            let over = lane.over.clone();
            let lane = Arc::clone(&lane);
            async move { over.run_until_cancelled(lane.watch_time()).await }
        });
        lane
    }

    fn send(&self, call: &Call<'_>) -> Option<Answer> {
        let here = self.home.is_here();
        let mut state = self.lock();
        // What undoes a request that was given up must not overtake it.
        if !here && state.given_up == 0 {
            return None;
        }
        if self.over.is_cancelled() || state.waiting.len() >= MOST_WAITING {
            return None;
        }
        let (answer, answered) = oneshot::channel();
        state.add(call);
        state.gathered += 1;
        state.waiting.push_back(Request {
            answer: Some(answer),
            since: Instant::now(),
        });
        self.watchdog.started();
        let wait_for_more = here && self.home.is_gathering() && state.gathered < state.part;
        if !wait_for_more && !state.write() {
            self.home.nudge();
        }
        Some(answered)
    }

    /// Ends it when all who wait are answered, or their time is up.
    pub(crate) async fn retire(&self) {
        let give_up = Instant::now() + self.limit;
        while !self.lock().waiting.is_empty() && Instant::now() < give_up {
            sleep(LOOK_AGAIN).await;
        }
        self.end();
    }

    fn end(&self) {
        let lost = self.fail(&mut self.lock(), error::lost().outcome_unknown());
        deliver(lost);
        self.home.nudge();
    }

    /// Reads what is there. Whether anything was.
    fn read(&self, state: &mut State, answers: &mut Answers) -> Result<bool> {
        let before = state.input.len();
        let read = state.wire.read(&mut state.input);
        let came = state.input.len() > before;
        if came {
            state.answered = Instant::now();
        }
        self.take_answers(state, answers)?;
        read.map_err(|cause| error::lost().cause(cause).outcome_unknown())?;
        Ok(came)
    }

    /// Reads up to what broke the connection, which fails.
    fn read_to_the_end(&self, state: &mut State, answers: &mut Answers) -> Result<bool> {
        while self.read(state, answers)? {}
        Err(error::lost().outcome_unknown())
    }

    fn take_answers(&self, state: &mut State, answers: &mut Answers) -> Result<()> {
        let mut rest = state.input.as_slice();
        while let Some((value, after)) = resp::read_value(rest)? {
            rest = after;
            let mut take = |value| {
                // An answer to no question: whose the next one is cannot be known.
                let request = state.waiting.pop_front().ok_or_else(error::not_redis)?;
                self.watchdog.ended();
                match request.answer {
                    Some(answer) => answers.push((answer, Ok(value))),
                    None => state.given_up -= 1,
                }
                Ok(())
            };
            if is_unknown(&value) {
                state.known.clear();
            }
            match state.replies.pop_front() {
                None | Some(1) => take(Some(value))?,
                Some(calls) => together::answers(calls, value)?
                    .into_iter()
                    .try_for_each(take)?,
            }
        }
        if rest.len() > resp::MAX_BYTES {
            return Err(error::not_redis());
        }
        let used = state.input.len() - rest.len();
        state.input.drain(..used);
        Ok(())
    }

    /// Fails those who waited too long; all when the server has gone silent.
    fn expire(&self, state: &mut State, answers: &mut Answers) {
        let late = |request: &Request| request.since.elapsed() >= self.limit;
        if !state.waiting.front().is_some_and(late) {
            return;
        }
        // Slow is not silent: while answers come, the connection is good.
        if state.answered.elapsed() >= self.limit {
            answers.append(&mut self.fail(state, error::silent().outcome_unknown()));
            return;
        }
        // Their places are kept for the answers that may still come.
        for request in state.waiting.iter_mut().take_while(|request| late(request)) {
            if let Some(answer) = request.answer.take() {
                state.given_up += 1;
                answers.push((answer, Err(error::silent().outcome_unknown())));
            }
        }
    }

    /// Ends it.
    #[must_use]
    fn fail(&self, state: &mut State, failure: Error) -> Answers {
        self.over.cancel();
        state.output.clear();
        state.together = Together::default();
        state.replies.clear();
        let lost = state.waiting.drain(..).filter_map(|request| {
            self.watchdog.ended();
            request.answer
        });
        lost.map(|answer| (answer, Err(failure.clone()))).collect()
    }

    /// Does what the loop's thread may have no time for.
    async fn watch_time(&self) {
        let tick = || {
            let mut state = self.lock();
            let mut done = state.write();
            let oldest = state.waiting.front();
            let unread = oldest.is_some_and(|request| request.since.elapsed() >= BUSY)
                && state.answered.elapsed() >= BUSY;
            drop(state);
            if unread {
                done = self.turn(Event::Ready) == Interest::Read;
            }
            if !done {
                self.home.nudge();
            }
        };
        let pause = watchdog::pause_of(self.limit).min(BUSY);
        self.watchdog.run(pause, tick).await;
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Not while the state is locked: who waits for an answer may go on at once, and send again.
fn deliver(answers: Answers) {
    for (waiting, answer) in answers {
        // Whoever asked may be gone.
        let _ = waiting.send(answer);
    }
}

impl Watched for Lane {
    fn socket(&self) -> Arc<TcpStream> {
        Arc::clone(&self.socket)
    }

    fn turn(&self, event: Event) -> Interest {
        let mut answers = Vec::new();
        let mut state = self.lock();
        let going = !self.over.is_cancelled();
        if event != Event::Gathered && going {
            let read = match event {
                Event::Broken => self.read_to_the_end(&mut state, &mut answers),
                _ => self.read(&mut state, &mut answers),
            };
            match read {
                // Only now: what came in time is not late because it is read late.
                Ok(_) => self.expire(&mut state, &mut answers),
                Err(failure) => answers.append(&mut self.fail(&mut state, failure)),
            }
        }
        if !answers.is_empty() {
            state.part = state.wire.part_of(answers.len() + state.waiting.len());
        }
        let written = state.write();
        drop(state);
        if going && self.over.is_cancelled() {
            self.link_over.cancel();
        }
        deliver(answers);
        if self.over.is_cancelled() {
            Interest::Nothing
        } else if written {
            Interest::Read
        } else {
            Interest::ReadAndWrite
        }
    }

    fn close(&self) {
        self.end();
    }
}
