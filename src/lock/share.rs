//! The rules by which holders share a key.

use super::LockId;

/// Whether a lock shares its key with others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Access {
    /// The lock has the key for itself. This is the lock of the specification.
    #[default]
    Exclusive,
    /// The lock shares the key with other shared holders. The attempt succeeds if fewer than `limit` of
    /// them are live. [`UNLIMITED`] stands for any number.
    Shared { limit: u32 },
}

/// The limit of readers, which share a key with any number of others.
pub const UNLIMITED: u32 = u32::MAX;

impl Access {
    /// Returns whether an attempt may succeed beside this number of other live holders.
    pub fn admits(self, holders: u32) -> bool {
        match self {
            Self::Exclusive => holders == 0,
            Self::Shared { limit } => holders < limit,
        }
    }

    pub fn is_shared(self) -> bool {
        matches!(self, Self::Shared { .. })
    }
}

/// A shared holder's share of its key, as the store granted it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Share {
    /// The smallest number, from 0, that no other live holder had at the time of the grant.
    pub slot: u32,
    /// The number of live holders that the key had at that time, including this one.
    pub holders: u32,
}

/// How long a waiting writer's mark keeps new readers out, unless the writer renews it.
pub const MARK_LEASE_MS: u64 = 2000;

/// The mark of an exclusive waiter in a shared record. New shared attempts are refused while it is
/// live, so that a writer is not kept waiting by readers that come and go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark {
    /// The waiter's own id, by which it removes the mark.
    pub id: LockId,
    pub until_ms: u64,
}

impl Mark {
    pub fn new(id: LockId, now_ms: u64) -> Self {
        Self {
            id,
            until_ms: now_ms.saturating_add(MARK_LEASE_MS),
        }
    }

    pub fn is_live(&self, now_ms: u64) -> bool {
        self.until_ms > now_ms
    }
}

/// Returns the smallest slot, from 0, that is not among these.
pub fn smallest_free_slot(taken: impl Iterator<Item = u32>) -> u32 {
    let mut taken: Vec<u32> = taken.collect();
    taken.sort_unstable();
    let mut free = 0;
    for slot in taken {
        match slot.cmp(&free) {
            std::cmp::Ordering::Less => {}
            std::cmp::Ordering::Equal => free += 1,
            std::cmp::Ordering::Greater => break,
        }
    }
    free
}

/// Returns when a shared attempt with this limit is admitted, if the live holders have these expiries. None
/// if it is admitted now.
pub fn admitted_at(expiries: impl Iterator<Item = u64>, limit: u32) -> Option<u64> {
    let mut expiries: Vec<u64> = expiries.collect();
    let limit = usize::try_from(limit).unwrap_or(usize::MAX).max(1);
    let excess = expiries.len().checked_sub(limit)?;
    let (_, at, _) = expiries.select_nth_unstable(excess);
    Some(*at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smallest_slot_that_nobody_has() {
        let free = |taken: &[u32]| smallest_free_slot(taken.iter().copied());
        assert_eq!(free(&[]), 0);
        assert_eq!(free(&[0, 1, 2]), 3);
        assert_eq!(free(&[2, 0]), 1);
        assert_eq!(free(&[5, 1, 1]), 0);
        assert_eq!(free(&[0, 0, 1]), 2);
    }

    #[test]
    fn a_full_key_admits_the_next_holder_when_enough_have_expired() {
        let at = |expiries: &[u64], limit| admitted_at(expiries.iter().copied(), limit);
        assert_eq!(at(&[], 1), None);
        assert_eq!(at(&[30, 10], 3), None);
        assert_eq!(at(&[30, 10], 2), Some(10));
        // The limit was higher before: two holders have to leave.
        assert_eq!(at(&[30, 10, 20], 2), Some(20));
        assert_eq!(at(&[30, 10, 20], 1), Some(30));
        assert_eq!(at(&[30, 10, 20], UNLIMITED), None);
    }

    #[test]
    fn a_mark_is_live_for_its_lease() {
        let mark = Mark::new(LockId::generate(), 1000);
        assert!(mark.is_live(1000 + MARK_LEASE_MS - 1));
        assert!(!mark.is_live(1000 + MARK_LEASE_MS));
    }
}
