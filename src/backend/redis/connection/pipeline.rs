//! The requests of a connection that are in flight, and the bytes to write and to read.

use std::collections::VecDeque;
use std::ptr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use redis::{PushInfo, Value};
use tokio::sync::{broadcast, oneshot};

use super::shared_script::{self, SharedScript};
use super::{Answer, Request, is_unknown_script, resp};
use crate::backend::redis::config::Node;
use crate::backend::redis::error;
use crate::backend::redis::format::scripts::Script;
use crate::error::{Error, Result};
use crate::net::socket::{Socket, Stream};
use crate::net::ticker::{Ticker, Ticking};

/// The limit of requests in flight.
const MAX_IN_FLIGHT: usize = 1 << 16;

/// The number of parts in which the requests in flight are written, so that the server works on one part
/// while the next one is made.
const PARTS: usize = 4;
/// A smaller part saves less time than its first request loses by waiting.
const MIN_PART: usize = 3;
const MAX_PART: usize = 16;
/// The limit of a part that has all requests. With TLS each part is a record, which costs the server as
/// much as a request does. On tokio an I/O thread writes the requests as they come.
const MAX_LARGE_PART: usize = 64;

pub(super) struct Pipeline {
    socket: Socket,
    /// Ticks while requests are in flight.
    ticker: Ticker,
    shares_scripts: bool,
    has_large_parts: bool,
    /// Requests that are not yet written. They follow those in `output`.
    shared: SharedScript,
    output: Vec<u8>,
    /// The number of requests in `shared` and `output`.
    gathered: usize,
    /// The number of requests to write together. Callers that were answered together often ask again
    /// together.
    part: usize,
    /// The scripts that were sent over this connection, so that the server knows them.
    known: Vec<&'static Script>,
    /// The bytes of a reply that has not arrived completely.
    input: Vec<u8>,
    /// In the order in which the server will answer.
    in_flight: VecDeque<InFlight>,
    /// The number of requests that each of the next replies will answer.
    replies: VecDeque<usize>,
    /// The number of requests in flight that have timed out.
    timed_out: usize,
    last_read: Instant,
    pushes: Option<broadcast::Sender<PushInfo>>,
    /// Why the connection is over.
    failure: Option<Error>,
}

struct InFlight {
    /// None if the request has timed out.
    caller: Option<Caller>,
    since: Instant,
    _ticking: Ticking,
}

type Caller = oneshot::Sender<Result<Option<Value>>>;
pub(super) type Answers = Vec<(Caller, Result<Option<Value>>)>;

impl Pipeline {
    pub(super) fn new(
        socket: Socket,
        ticker: Ticker,
        shares_scripts: bool,
        pushes: Option<broadcast::Sender<PushInfo>>,
    ) -> Self {
        let is_on_event_loop = matches!(&*socket.stream(), Stream::EventLoop(_));
        Self {
            has_large_parts: !is_on_event_loop || socket.uses_tls(),
            socket,
            ticker,
            shares_scripts,
            shared: SharedScript::default(),
            output: Vec::new(),
            gathered: 0,
            part: 1,
            known: Vec::new(),
            input: Vec::new(),
            in_flight: VecDeque::new(),
            replies: VecDeque::new(),
            timed_out: 0,
            last_read: Instant::now(),
            pushes,
            failure: None,
        }
    }

    pub(super) fn stream(&self) -> Arc<Stream> {
        self.socket.stream()
    }

    pub(super) fn pushes(&self) -> Option<broadcast::Receiver<PushInfo>> {
        self.pushes.as_ref().map(broadcast::Sender::subscribe)
    }

    pub(super) fn failure(&self) -> Error {
        let failure = self.failure.clone();
        failure.unwrap_or_else(|| error::lost().outcome_unknown())
    }

    pub(super) fn is_waiting(&self) -> bool {
        !self.in_flight.is_empty()
    }

    pub(super) fn is_full(&self) -> bool {
        self.in_flight.len() >= MAX_IN_FLIGHT
    }

    /// Whether the server may still run a request that has timed out.
    pub(super) fn has_timed_out_requests(&self) -> bool {
        self.timed_out > 0
    }

    /// Whether nothing was read for this time, although a request has waited for as long.
    pub(super) fn is_unanswered_for(&self, limit: Duration) -> bool {
        let oldest = self.in_flight.front();
        oldest.is_some_and(|request| request.since.elapsed() >= limit)
            && self.last_read.elapsed() >= limit
    }

    /// Adds a request to what is to be written next.
    pub(super) fn add(&mut self, request: &Request<'_>) -> Answer {
        match request {
            Request::Script(call) if self.shares_scripts && SharedScript::takes(call) => {
                if self.shared.is_full() {
                    self.close_shared_script();
                }
                self.shared.add(call);
            }
            request => {
                self.close_shared_script();
                match request {
                    Request::Command(command) => resp::write_command(&mut self.output, command),
                    Request::Script(call) => {
                        let is_known = remember(&mut self.known, call.script);
                        resp::write_call(&mut self.output, call, is_known);
                    }
                }
                self.replies.push_back(1);
            }
        }
        self.gathered += 1;
        let (caller, answer) = oneshot::channel();
        self.in_flight.push_back(InFlight {
            caller: Some(caller),
            since: Instant::now(),
            _ticking: self.ticker.start(),
        });
        answer
    }

    /// Moves the requests that share a script to `output`.
    fn close_shared_script(&mut self) {
        let known = &mut self.known;
        let requests = self
            .shared
            .write(&mut self.output, |script| remember(known, script));
        if requests > 0 {
            self.replies.push_back(requests);
        }
    }

    /// Whether the next request may wait for others, to be written with them.
    pub(super) fn has_room_for_more(&self) -> bool {
        self.gathered < self.part
    }

    /// Adapts the next part to the number of requests that were answered together.
    pub(super) fn expect_as_many_as(&mut self, answered: usize) {
        if answered > 0 {
            let in_flight = answered + self.in_flight.len();
            self.part = if self.has_large_parts {
                in_flight.clamp(1, MAX_LARGE_PART)
            } else if in_flight < PARTS * MIN_PART {
                1
            } else {
                (in_flight / PARTS).min(MAX_PART)
            };
        }
    }

    /// Writes what the socket accepts. Returns whether nothing is left.
    pub(super) fn write(&mut self) -> bool {
        self.close_shared_script();
        self.gathered = 0;
        self.socket.write(&mut self.output)
    }

    /// Reads what has arrived. Returns whether anything has.
    pub(super) fn read(&mut self, node: &Node, answers: &mut Answers) -> Result<bool> {
        let before = self.input.len();
        let read = self.socket.read(&mut self.input);
        let has_come = self.input.len() > before;
        if has_come {
            self.last_read = Instant::now();
            self.take_answers(answers)?;
        }
        read.map_err(|cause| error::broken(node, &cause))?;
        Ok(has_come)
    }

    /// Reads all answers that arrived before the connection broke. Always returns an error.
    pub(super) fn read_to_the_end(&mut self, node: &Node, answers: &mut Answers) -> Result<()> {
        while self.read(node, answers)? {}
        Err(error::lost().outcome_unknown())
    }

    fn take_answers(&mut self, answers: &mut Answers) -> Result<()> {
        let mut rest = self.input.as_slice();
        while let Some((value, after)) = resp::read_value(rest)? {
            rest = after;
            if let Value::Push { kind, data } = value {
                let pushes = self.pushes.as_ref().ok_or_else(error::not_redis)?;
                // The receiver may not exist yet.
                let _ = pushes.send(PushInfo { kind, data });
                continue;
            }
            if is_unknown_script(&value) {
                self.known.clear();
            }
            let mut take = |value| {
                // After an answer without a request, it is unknown which requests the next ones answer.
                let request = self.in_flight.pop_front().ok_or_else(error::not_redis)?;
                match request.caller {
                    Some(caller) => answers.push((caller, Ok(value))),
                    None => self.timed_out -= 1,
                }
                Ok(())
            };
            match self.replies.pop_front() {
                None | Some(1) => take(Some(value))?,
                Some(requests) => shared_script::answers(requests, value)?
                    .into_iter()
                    .try_for_each(take)?,
            }
        }
        if rest.len() > resp::MAX_BYTES {
            return Err(error::not_redis());
        }
        let used = self.input.len() - rest.len();
        self.input.drain(..used);
        Ok(())
    }

    /// Fails the requests that have waited too long. An error if the server has gone silent.
    pub(super) fn time_out(&mut self, limit: Duration, answers: &mut Answers) -> Result<()> {
        let is_late = |request: &InFlight| request.since.elapsed() >= limit;
        if !self.in_flight.front().is_some_and(is_late) {
            return Ok(());
        }
        // While other answers come, the server is slow but not silent, and the connection is good.
        if self.last_read.elapsed() >= limit {
            return Err(error::silent().outcome_unknown());
        }
        // The requests stay in the queue, because their answers may still come.
        let late = self
            .in_flight
            .iter_mut()
            .take_while(|request| is_late(request));
        for request in late {
            if let Some(caller) = request.caller.take() {
                self.timed_out += 1;
                answers.push((caller, Err(error::silent().outcome_unknown())));
            }
        }
        Ok(())
    }

    /// Fails all requests. The connection accepts no more.
    #[must_use]
    pub(super) fn fail(&mut self, failure: Error) -> Answers {
        self.output.clear();
        self.shared = SharedScript::default();
        self.replies.clear();
        let lost = self
            .in_flight
            .drain(..)
            .filter_map(|request| request.caller);
        let lost = lost.map(|caller| (caller, Err(failure.clone()))).collect();
        self.failure.get_or_insert(failure);
        lost
    }
}

/// Returns whether the server knows the script. If not, it does after this request.
fn remember(known: &mut Vec<&'static Script>, script: &'static Script) -> bool {
    let is_known = known.iter().any(|known| ptr::eq(*known, script));
    if !is_known {
        known.push(script);
    }
    is_known
}
