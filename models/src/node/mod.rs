#[path = "../../../src/node/queue.rs"]
mod queue;
pub mod reply;

pub use queue::Queue;
