//! The keys that were released recently.

/// How many releases are remembered: usually more than happen while an attempt is in flight.
const CAPACITY: usize = 512;

/// Counts releases, so that a caller whose attempt was refused can tell whether the key was released
/// since it asked. It keeps a ring with the hashes of the last released keys, and not a count for each
/// key: keys that nobody uses any more must not take memory.
pub(super) struct Releases {
    count: u64,
    hashes: Box<[u64]>,
}

impl Default for Releases {
    fn default() -> Self {
        Self {
            count: 0,
            hashes: vec![0; CAPACITY].into_boxed_slice(),
        }
    }
}

impl Releases {
    /// The number of releases so far.
    pub fn count(&self) -> u64 {
        self.count
    }

    pub fn add(&mut self, hash: u64) {
        self.hashes[slot(self.count)] = hash;
        self.count += 1;
    }

    /// Whether a key with this hash was released since the number was `count`. Also true if the ring
    /// does not reach back that far: an unnecessary attempt is harmless, a missing one is not.
    pub fn includes(&self, hash: u64, count: u64) -> bool {
        self.count - count > CAPACITY as u64
            || (count..self.count).any(|number| self.hashes[slot(number)] == hash)
    }
}

fn slot(number: u64) -> usize {
    (number % CAPACITY as u64) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tells_which_keys_were_released_since() {
        let mut releases = Releases::default();
        releases.add(1);
        let then = releases.count();
        assert!(!releases.includes(1, then));
        releases.add(2);
        assert!(!releases.includes(1, then));
        assert!(releases.includes(2, then));
        releases.add(1);
        assert!(releases.includes(1, then));
    }

    #[test]
    fn assumes_a_release_where_it_has_forgotten() {
        let mut releases = Releases::default();
        let then = releases.count();
        for _ in 0..CAPACITY {
            releases.add(2);
        }
        assert!(!releases.includes(1, then));
        releases.add(2);
        assert!(releases.includes(1, then));
        assert!(!releases.includes(1, then + 1));
    }
}
