//! The hash that stands for a key or a lockId in diagnostics.

use sha2::{Digest, Sha256};

use super::key::nfc;

/// Returns the first 24 hex characters of the SHA-256 of the NFC form.
pub fn hash_key(value: &str) -> String {
    hex(&Sha256::digest(nfc(value).as_bytes())[..12])
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    let mut hex = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        hex.push(char::from_digit(u32::from(byte >> 4), 16).unwrap_or('0'));
        hex.push(char::from_digit(u32::from(byte & 15), 16).unwrap_or('0'));
    }
    hex
}

#[cfg(test)]
mod tests {
    use super::hash_key;

    #[test]
    fn is_sha256_of_the_nfc_form() {
        assert_eq!(hash_key("abc"), "ba7816bf8f01cfea414140de");
        assert_eq!(hash_key("e\u{301}"), hash_key("é"));
    }
}
