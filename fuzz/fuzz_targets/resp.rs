//! Our reader of Redis's protocol against the driver's: the same values, and the same opinion of what
//! is incomplete or no protocol at all.
//!
//! The first byte says how the rest comes: in pieces of so many bytes.
#![no_main]

use bytes::BytesMut;
use libfuzzer_sys::fuzz_target;
use redis::{Value, ValueCodec};
use syncguard::backend::redis::fuzzing::{MAX_BYTES, MAX_DEPTH, read_value};
use tokio_util::codec::Decoder;

fuzz_target!(|data: &[u8]| {
    let Some((size, bytes)) = data.split_first() else {
        return;
    };
    let pieces = || bytes.chunks(usize::from(*size).max(1));
    if !is_for_both(bytes) {
        // It must at least not harm us.
        let _ = read_value(bytes);
        return;
    }
    let (mut ours, mut theirs) = (Ours::default(), Theirs::default());
    for piece in pieces() {
        let (our_view, mut their_view) = (ours.read(piece), theirs.read(piece));
        if our_view == Read::Garbage && their_view.is_incomplete() {
            // They may notice later, but not make a value of it.
            their_view = theirs.read(&b"\r\n".repeat(4));
        }
        assert_eq!(our_view, their_view);
        if our_view == Read::Garbage {
            return;
        }
    }
});

#[derive(Debug, PartialEq)]
enum Read {
    /// `complete`: there is nothing after them.
    Values {
        values: Vec<Value>,
        complete: bool,
    },
    Garbage,
}

impl Read {
    fn is_incomplete(&self) -> bool {
        matches!(
            self,
            Self::Values {
                complete: false,
                ..
            }
        )
    }
}

#[derive(Default)]
struct Ours(Vec<u8>);

impl Ours {
    fn read(&mut self, piece: &[u8]) -> Read {
        self.0.extend_from_slice(piece);
        let mut values = Vec::new();
        let mut rest = self.0.as_slice();
        loop {
            match read_value(rest) {
                Ok(Some((value, after))) => {
                    values.push(value);
                    rest = after;
                }
                Ok(None) => break,
                Err(_) => return Read::Garbage,
            }
        }
        self.0 = rest.to_vec();
        let complete = self.0.is_empty();
        Read::Values { values, complete }
    }
}

#[derive(Default)]
struct Theirs {
    input: BytesMut,
    codec: ValueCodec,
    inside: bool,
}

impl Theirs {
    fn read(&mut self, piece: &[u8]) -> Read {
        self.input.extend_from_slice(piece);
        let mut values = Vec::new();
        while !self.input.is_empty() {
            // What it knows of an incomplete value it takes out of the input.
            self.inside = true;
            match self.codec.decode(&mut self.input) {
                Ok(Some(value)) => {
                    values.push(value);
                    self.inside = false;
                }
                Ok(None) => break,
                Err(_) => return Read::Garbage,
            }
        }
        let complete = !self.inside;
        Read::Values { values, complete }
    }
}

/// Whether both read it alike: it is none of the newer protocol, whose rare kinds of values the driver
/// reads for us, and neither too deep nor too long for us.
fn is_for_both(bytes: &[u8]) -> bool {
    let long = bytes
        .split(|byte| !byte.is_ascii_digit())
        .any(|digits| digits.len() >= MAX_BYTES.to_string().len());
    let newer = bytes.iter().any(|byte| b"%|~_,#!=(>".contains(byte));
    let lists = bytes.iter().filter(|byte| **byte == b'*').count();
    !long && !newer && lists < MAX_DEPTH
}
