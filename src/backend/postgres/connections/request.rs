//! Kinds of requests: how soon each must be served, and whether it may be sent twice.

use tokio::sync::Semaphore;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RequestKind {
    Acquire,
    Extend,
    Release,
    Read,
    Maintenance,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Priority {
    Normal,
    /// A lock that is held depends on it.
    Urgent,
}

impl RequestKind {
    pub(super) fn priority(self) -> Priority {
        match self {
            Self::Extend | Self::Release => Priority::Urgent,
            Self::Acquire | Self::Read | Self::Maintenance => Priority::Normal,
        }
    }

    /// Whether the request can be sent again if its answer is lost, as doing it twice is as good as
    /// once. A second release would report that there is no such lock.
    pub(super) fn is_repeatable(self) -> bool {
        matches!(self, Self::Extend | Self::Read)
    }
}

/// Limits how many requests retry at the same time because another session holds a database lock.
/// The others wait until one of them ends, so that most connections stay free for requests that are
/// not blocked.
pub(super) struct BlockedRetries {
    normal: Semaphore,
    urgent: Semaphore,
}

impl BlockedRetries {
    pub(super) fn new(connections: usize) -> Self {
        Self {
            normal: Semaphore::new((connections / 2).max(1)),
            urgent: Semaphore::new(1),
        }
    }

    pub(super) fn of(&self, kind: RequestKind) -> &Semaphore {
        match kind.priority() {
            Priority::Normal => &self.normal,
            Priority::Urgent => &self.urgent,
        }
    }
}
