//! Requests over one connection.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use futures_util::future::poll_fn;
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Cmd, ProtocolVersion, PushInfo, RedisConnectionInfo, Value};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{Notify, broadcast};
use tokio_util::sync::CancellationToken;

use super::bounded::Bounded;
use super::driver::Driver;
use super::watchdog::{self, Watchdog};
use crate::backend::redis::config::Node;
use crate::backend::redis::error;
use crate::backend::redis::lane::LaneSlot;
use crate::error::Result;

/// Requests that may wait to be written. More than that wait for their turn.
const QUEUE: usize = 1 << 16;

/// Pushes that a slow listener may fall behind with. It learns of it.
const PUSHES: usize = 1 << 10;

pub(crate) struct Connection {
    node: Node,
    /// How long an answer may take.
    limit: Duration,
    multiplexed: MultiplexedConnection,
    driver: Arc<Driver>,
    watchdog: Arc<Watchdog>,
    /// From time to time while anybody waits.
    tick: Arc<Notify>,
    /// What the server pushes, if it is to track what is read.
    pushes: Option<broadcast::Sender<PushInfo>>,
    /// The same server's, for requests of the event loop.
    lane: Arc<LaneSlot>,
    /// Cancelled when the connection is over, and to end it.
    over: CancellationToken,
    opened: Instant,
    answered_after_ms: AtomicU64,
    gone_silent: AtomicBool,
}

impl Connection {
    /// One that tracks needs a server that knows HELLO.
    pub(crate) async fn open<S>(
        node: &Node,
        stream: S,
        limit: Duration,
        tracks: bool,
    ) -> Result<Self>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        // Timeouts and the greeting are ours: the driver's own greeting hides why it failed.
        let mut greeting = RedisConnectionInfo::default().set_skip_set_lib_name();
        let mut config = AsyncConnectionConfig::new()
            .set_response_timeout(None)
            .set_pipeline_buffer_size(QUEUE);
        let pushes = tracks.then(|| broadcast::Sender::new(PUSHES));
        if let Some(pushes) = pushes.clone() {
            // It insists on a greeting, but HELLO is all that it says.
            greeting = greeting.set_protocol(ProtocolVersion::RESP3);
            config = config.set_push_sender(pushes);
        }
        let (multiplexed, driver) =
            MultiplexedConnection::new_with_config(&greeting, Bounded::new(stream), config)
                .await
                .map_err(|cause| error::from_connection(&cause))?;
        let driver = Driver::new(driver);
        let watchdog = Arc::new(Watchdog::default());
        let tick = Arc::new(Notify::new());
        let over = CancellationToken::new();
        tokio::spawn({
            let (driver, over) = (Arc::clone(&driver), over.clone());
            async move {
                driver.run().await;
                over.cancel();
            }
        });
        tokio::spawn({
            let (driver, watchdog, over) =
                (Arc::clone(&driver), Arc::clone(&watchdog), over.clone());
            let tick = Arc::clone(&tick);
            async move {
                let ticking = watchdog.run(watchdog::pause_of(limit), || tick.notify_waiters());
                over.run_until_cancelled(ticking).await;
                driver.end();
            }
        });
        Ok(Self {
            node: node.clone(),
            limit,
            multiplexed,
            driver,
            watchdog,
            tick,
            pushes,
            lane: Arc::default(),
            over,
            opened: Instant::now(),
            answered_after_ms: AtomicU64::new(0),
            gone_silent: AtomicBool::new(false),
        })
    }

    /// The server's answer, which may be an error of its own.
    pub(crate) async fn ask(&self, command: &Cmd) -> Result<Value> {
        let limit = self.limit;
        let started = Instant::now();
        let mut fresh = self.watchdog.started();
        let _ended = Ended(&self.watchdog);
        let mut multiplexed = self.multiplexed.clone();
        let mut request = pin!(multiplexed.send_packed_command(command));
        let answer = poll_fn(|context| {
            // With others in flight the I/O thread is awake, and writes for all of them at once.
            if std::mem::take(&mut fresh) {
                self.driver.start(request.as_mut(), context)
            } else {
                request.as_mut().poll(context)
            }
        });
        let answer = tokio::select! {
            biased;
            answer = answer => Some(answer),
            () = self.until_over(started, limit) => None,
        };
        match answer {
            Some(Ok(value)) => {
                self.answered_after_ms
                    .store(self.age_ms(), Ordering::Relaxed);
                Ok(value)
            }
            Some(Err(_)) if self.gone_silent.load(Ordering::Relaxed) => {
                Err(error::silent().outcome_unknown())
            }
            Some(Err(cause)) => Err(error::from_connection(&cause)),
            None => {
                // Slow is not silent: while answers come, the connection is good.
                let quiet_ms = self
                    .age_ms()
                    .saturating_sub(self.answered_after_ms.load(Ordering::Relaxed));
                if Duration::from_millis(quiet_ms + 1) >= limit {
                    self.gone_silent.store(true, Ordering::Relaxed);
                    self.over.cancel();
                }
                Err(error::silent().outcome_unknown())
            }
        }
    }

    pub(crate) fn lane(&self) -> Arc<LaneSlot> {
        Arc::clone(&self.lane)
    }

    /// What the server pushes from now on.
    pub(crate) fn pushes(&self) -> Option<broadcast::Receiver<PushInfo>> {
        self.pushes.as_ref().map(broadcast::Sender::subscribe)
    }

    pub(crate) fn node(&self) -> &Node {
        &self.node
    }

    /// Returns some time after `limit` has passed since `started`.
    async fn until_over(&self, started: Instant, limit: Duration) {
        loop {
            self.tick.notified().await;
            if started.elapsed() >= limit {
                return;
            }
        }
    }

    pub(crate) fn is_over(&self) -> bool {
        self.over.is_cancelled()
    }

    /// Cancelled when the connection is over.
    pub(crate) fn over(&self) -> CancellationToken {
        self.over.clone()
    }

    pub(crate) fn end(&self) {
        self.over.cancel();
    }

    /// Gives up the stream without a word to the server.
    pub(crate) fn let_go(&self) {
        self.driver.end();
    }

    fn age_ms(&self) -> u64 {
        u64::try_from(self.opened.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}

struct Ended<'a>(&'a Watchdog);

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        self.0.ended();
    }
}

/// The last user of a connection that was replaced ends it.
impl Drop for Connection {
    fn drop(&mut self) {
        self.over.cancel();
    }
}
