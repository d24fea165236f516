//! Lock ids: 16 bytes of a CSPRNG as 22 characters of base64url. These have room for four more bits, in
//! which a backend may encode where the lock is stored.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use crate::error::{Error, Result};

pub const LOCK_ID_LENGTH: usize = 22;

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

const IS_BASE64URL: [bool; 256] = {
    let mut valid = [false; 256];
    let mut at = 0;
    while at < ALPHABET.len() {
        valid[ALPHABET[at] as usize] = true;
        at += 1;
    }
    valid
};

/// The four bits of the last character that are not random.
const SPARE: usize = 0b1111;

#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LockId([u8; LOCK_ID_LENGTH]);

impl LockId {
    pub fn generate() -> Self {
        Self::from_bytes(rand::random())
    }

    /// Makes the id of these bytes, which must not be predictable.
    pub fn from_bytes(random: [u8; 16]) -> Self {
        let mut id = [b'A'; LOCK_ID_LENGTH];
        // 16 bytes make 22 characters, so the slice is never too small.
        let _ = URL_SAFE_NO_PAD.encode_slice(random, &mut id);
        Self(id)
    }

    pub fn parse(text: &str) -> Result<Self> {
        match <[u8; LOCK_ID_LENGTH]>::try_from(text.as_bytes()) {
            Ok(id)
                if id
                    .iter()
                    .fold(true, |ok, byte| ok & IS_BASE64URL[usize::from(*byte)]) =>
            {
                Ok(Self(id))
            }
            _ => Err(Error::invalid_argument(
                "Invalid lockId format: expected the 22 base64url characters that acquire() returned",
            )),
        }
    }

    /// Returns the four bits of the last character that are not random.
    pub fn spare_bits(&self) -> usize {
        self.last() & SPARE
    }

    pub fn with_spare_bits(mut self, bits: usize) -> Self {
        self.0[LOCK_ID_LENGTH - 1] = ALPHABET[(self.last() & !SPARE) | (bits & SPARE)];
        self
    }

    fn last(&self) -> usize {
        let last = self.0[LOCK_ID_LENGTH - 1];
        ALPHABET.iter().position(|c| *c == last).unwrap_or_default()
    }

    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).unwrap_or_default()
    }
}

/// A lockId is a capability, so it is never printed.
impl std::fmt::Debug for LockId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("LockId(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn generated_ids_are_valid_and_differ() {
        let ids: std::collections::HashSet<_> = (0..1000).map(|_| LockId::generate()).collect();
        assert_eq!(ids.len(), 1000);
        for id in ids {
            assert_eq!(LockId::parse(id.as_str()).unwrap(), id);
        }
    }

    #[test]
    fn spare_bits_leave_the_random_ones_alone() {
        for _ in 0..100 {
            let id = LockId::generate();
            assert_eq!(id.spare_bits(), 0);
            for bits in 0..16 {
                let marked = id.with_spare_bits(bits);
                assert_eq!(LockId::parse(marked.as_str()).unwrap().spare_bits(), bits);
                assert_eq!(marked.with_spare_bits(0), id);
            }
        }
    }

    proptest! {
        #[test]
        fn parses_exactly_the_specified_format(text in "[A-Za-z0-9_=+/ é-]{20,24}") {
            let valid = text.len() == 22
                && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-');
            prop_assert_eq!(LockId::parse(&text).is_ok(), valid);
        }
    }
}
