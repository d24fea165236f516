//! Maps that are asked in every operation. Keys come from outside: the hash has a seed of its own
//! in each process, and is several times cheaper than the standard one.

use std::collections::HashMap;

#[cfg(not(test))]
pub type FastMap<K, V> = HashMap<K, V, foldhash::fast::RandomState>;

/// Always in the same order, so that what a test has seen can be seen again.
#[cfg(test)]
pub type FastMap<K, V> = HashMap<K, V, foldhash::fast::FixedState>;
