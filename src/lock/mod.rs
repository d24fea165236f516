//! What a lock is, without any I/O: keys, ids, labels, fences, liveness, retry delays, shared keys.

pub mod fence;
pub mod hash;
pub mod id;
pub mod key;
pub mod label;
pub mod retry;
pub mod share;
pub mod time;
pub mod ttl;

pub use fence::Fence;
pub use id::LockId;
pub use key::Key;
pub use label::HolderLabel;
pub use share::{Access, Share};
pub use ttl::Ttl;
