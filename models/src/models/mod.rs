mod parked;
mod queue;
mod ticker;

pub use parked::{no_wake_up_is_lost, no_wake_up_is_lost_in_a_turn};
pub use queue::{
    a_cancelled_reply_is_never_delivered, every_reply_is_brought, the_end_leaves_no_reply_behind,
};
pub use ticker::a_ticker_in_use_ticks;
