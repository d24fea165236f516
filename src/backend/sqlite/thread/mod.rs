//! A thread that runs operations on a connection to the file, and the callers' side of it: callers hand
//! their operations over and wait for the answers without blocking.

mod queue;
mod service;
mod shared_connection;

use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::mpsc::{self, Sender};
use std::thread;
use std::time::{Duration, Instant};

use rusqlite::Connection;
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::config::Settings;
use super::error::stuck;
pub(super) use super::file::Access;
use super::store::Sql;
use crate::error::{Error, Result};
use queue::JobQueue;
use service::Service;
use shared_connection::SharedConnection;

/// The thread answers within the operation's timeout. If it has not answered this much later, it is
/// stuck in a system call, because the disk hangs.
const STUCK_AFTER: Duration = Duration::from_millis(500);

/// An operation on its way to an answer.
trait Work: Send {
    /// Runs the operation and keeps its outcome until the transaction is committed. May be called again
    /// after a rollback.
    fn run(&mut self, db: &Connection, now_ms: u64) -> Sql<()>;
    /// Answers with the failure, or else with the outcome of the last run.
    fn answer(self: Box<Self>, failure: Option<&Error>);
}

struct Operation<F, T> {
    run: F,
    outcome: Option<T>,
    reply: oneshot::Sender<Result<T>>,
}

impl<F, T> Work for Operation<F, T>
where
    F: FnMut(&Connection, u64) -> Sql<T> + Send,
    T: Send,
{
    fn run(&mut self, db: &Connection, now_ms: u64) -> Sql<()> {
        self.outcome = Some((self.run)(db, now_ms)?);
        Ok(())
    }

    fn answer(self: Box<Self>, failure: Option<&Error>) {
        let outcome = match failure {
            Some(error) => Some(Err(error.clone())),
            None => self.outcome.map(Ok),
        };
        if let Some(outcome) = outcome {
            // The receiver is gone if the caller has timed out.
            let _ = self.reply.send(outcome);
        }
    }
}

struct Job {
    /// When it is too late to begin.
    deadline: Instant,
    /// Whether the answer waits until the disk has what was written.
    syncs: bool,
    work: Box<dyn Work>,
}

enum State {
    Idle,
    Running {
        jobs: Sender<Job>,
        ended: oneshot::Receiver<()>,
    },
    Closed,
}

/// The callers' side. The thread starts with the first operation that needs it, and ends when this is
/// dropped.
pub(super) struct Worker {
    connection: Arc<SharedConnection>,
    state: Mutex<State>,
}

impl Worker {
    pub(super) fn new(access: Access, settings: Settings) -> Self {
        Self {
            connection: Arc::new(SharedConnection::new(access, settings)),
            state: Mutex::new(State::Idle),
        }
    }

    /// Runs the operation. With `syncs` the answer waits until its writes are on the disk.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        syncs: bool,
        mut run: impl FnMut(&Connection, u64) -> Sql<T> + Send + 'static,
    ) -> Result<T> {
        let SharedConnection {
            access, settings, ..
        } = &*self.connection;
        if *access == Access::Write
            && !syncs
            && let Some(outcome) = self.connection.run_here(&mut run)
        {
            return outcome;
        }
        let limit = settings.operation_timeout;
        let (reply, answer) = oneshot::channel();
        self.submit(Job {
            deadline: Instant::now() + limit,
            syncs,
            work: Box::new(Operation {
                run,
                outcome: None,
                reply,
            }),
        })?;
        match timeout(limit + STUCK_AFTER, answer).await {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(_)) => Err(thread_ended().outcome_unknown()),
            Err(_) => Err(stuck(&settings.location)),
        }
    }

    fn submit(&self, job: Job) -> Result<()> {
        let mut state = self.state.lock();
        if matches!(*state, State::Idle) {
            *state = self.start()?;
        }
        self.connection.set_idle(false);
        match &*state {
            State::Running { jobs, .. } => jobs.send(job).map_err(|_| thread_ended()),
            State::Idle | State::Closed => Err(Error::invalid_argument(
                "This backend is closed: create a new one",
            )),
        }
    }

    fn start(&self) -> Result<State> {
        let (jobs, incoming) = mpsc::channel();
        let (end, ended) = oneshot::channel();
        let mut service = Service::new(Arc::clone(&self.connection), JobQueue::new(incoming));
        thread::Builder::new()
            .name("syncguard-sqlite".to_owned())
            .spawn(move || {
                service.serve();
                drop(service);
                let _ = end.send(());
            })
            .map_err(|error| {
                Error::unavailable("The thread of the SQLite backend cannot be started")
                    .cause(error)
            })?;
        Ok(State::Running { jobs, ended })
    }

    /// Returns when the file is closed, or when that takes too long.
    pub(super) async fn close(&self) {
        let state = std::mem::replace(&mut *self.state.lock(), State::Closed);
        if let State::Running { jobs, ended } = state {
            drop(jobs);
            let _ = timeout(self.connection.settings.operation_timeout, ended).await;
        }
    }
}

fn thread_ended() -> Error {
    Error::internal(
        "The thread of the SQLite backend has ended, which is a bug in SyncGuard. Create a new backend",
    )
}
