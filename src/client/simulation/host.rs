//! A machine, as its engine sees it.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;

use super::random::Random;
use super::world::{START, World};
use crate::client::host::{Host, Moment};

pub(super) struct SimulatedHost {
    pub world: Arc<World>,
    pub machine: usize,
    /// How far its clock is ahead of the world's.
    pub ahead: Duration,
}

impl Host for SimulatedHost {
    fn now(&self) -> Moment {
        self.world.now() + self.ahead
    }

    fn sleep_until(&self, moment: Moment) -> BoxFuture<'static, ()> {
        let until = Moment::after_start(moment.since(START + self.ahead));
        Box::pin(self.world.sleep_until(self.machine, until))
    }

    fn spawn(&self, task: BoxFuture<'static, ()>) {
        self.world.spawn(self.machine, task);
    }

    fn random(&self) -> f64 {
        self.world.draw(Random::fraction)
    }

    fn random_bytes(&self) -> [u8; 16] {
        let mut bytes = [0; 16];
        self.world.draw(|random| {
            bytes[..8].copy_from_slice(&random.next().to_le_bytes());
            bytes[8..].copy_from_slice(&random.next().to_le_bytes());
        });
        bytes
    }
}
