//! The protocol as far as scripts need it. Lean, because it runs on the caller's thread.

use redis::Value;

use crate::backend::redis::error;
use crate::backend::redis::format::scripts::{Call, Script};
use crate::error::Result;

/// Deeper than any of our replies.
pub(crate) const MAX_DEPTH: usize = 4;
const END: &[u8] = b"\r\n";
/// For so many values room is made before they are there.
const MOST_ROOM: usize = 16;
/// Larger than any of them: a page of locks is the largest.
pub(crate) const MAX_BYTES: usize = 1 << 20;

/// Appends the call: by its script's hash when the server knows the script, else with its text.
pub(crate) fn write_call(out: &mut Vec<u8>, call: &Call<'_>, is_known: bool) {
    let (keys, args) = (call.keys, call.args.lean);
    write_start(out, call.script, is_known, keys.len(), args.len());
    for value in keys.iter().chain(args) {
        write_text(out, value);
    }
}

/// What stands before so many keys and arguments.
pub(super) fn write_start(
    out: &mut Vec<u8>,
    script: &Script,
    is_known: bool,
    keys: usize,
    args: usize,
) {
    write_header(out, b'*', 3 + keys + args);
    if is_known {
        out.extend_from_slice(b"$7\r\nEVALSHA\r\n");
        write_text(out, &script.lean.hash);
    } else {
        out.extend_from_slice(b"$4\r\nEVAL\r\n");
        write_text(out, script.lean.text);
    }
    write_number(out, keys);
}

pub(super) fn write_number(out: &mut Vec<u8>, number: usize) {
    let mut digits = [0; 20];
    let digits = decimal(number, &mut digits);
    write_header(out, b'$', digits.len());
    out.extend_from_slice(digits);
    out.extend_from_slice(END);
}

pub(super) fn write_text(out: &mut Vec<u8>, text: &str) {
    write_header(out, b'$', text.len());
    out.extend_from_slice(text.as_bytes());
    out.extend_from_slice(b"\r\n");
}

fn write_header(out: &mut Vec<u8>, kind: u8, number: usize) {
    out.push(kind);
    out.extend_from_slice(decimal(number, &mut [0; 20]));
    out.extend_from_slice(b"\r\n");
}

fn decimal(mut number: usize, digits: &mut [u8; 20]) -> &[u8] {
    let mut start = digits.len();
    loop {
        start -= 1;
        digits[start] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            return &digits[start..];
        }
    }
}

/// The first reply in `bytes` and what is left after it; nothing when it is not complete.
pub(crate) fn read_value(bytes: &[u8]) -> Result<Option<(Value, &[u8])>> {
    read(bytes, 0)
}

fn read(bytes: &[u8], depth: usize) -> Result<Option<(Value, &[u8])>> {
    // What is not of the protocol may have no end of line.
    if !matches!(bytes.first(), None | Some(b':' | b'+' | b'-' | b'$' | b'*')) {
        return Err(error::not_redis());
    }
    let Some((line, rest)) = split_line(bytes) else {
        return Ok(None);
    };
    let (kind, text) = line.split_first().ok_or_else(error::not_redis)?;
    let value = match kind {
        b':' => Value::Int(number(text)?),
        // The driver knows the kinds of errors.
        b'+' | b'-' => {
            redis::parse_redis_value(&bytes[..line.len() + 2]).map_err(|_| error::not_redis())?
        }
        b'$' => {
            let Some(length) = size(text)? else {
                return Ok(Some((Value::Nil, rest)));
            };
            let Some((text, end)) = rest.split_at_checked(length) else {
                return Ok(None);
            };
            return match end.strip_prefix(END) {
                Some(rest) => Ok(Some((Value::BulkString(text.to_vec()), rest))),
                None if END.starts_with(end) => Ok(None),
                None => Err(error::not_redis()),
            };
        }
        b'*' => {
            let Some(count) = size(text)? else {
                return Ok(Some((Value::Nil, rest)));
            };
            if depth == MAX_DEPTH {
                return Err(error::not_redis());
            }
            let mut values = Vec::with_capacity(count.min(MOST_ROOM));
            let mut rest = rest;
            for _ in 0..count {
                let Some((value, after)) = read(rest, depth + 1)? else {
                    return Ok(None);
                };
                values.push(value);
                rest = after;
            }
            return Ok(Some((Value::Array(values), rest)));
        }
        _ => return Err(error::not_redis()),
    };
    Ok(Some((value, rest)))
}

fn split_line(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = bytes.windows(2).position(|pair| pair == END)?;
    Some((&bytes[..end], &bytes[end + 2..]))
}

fn number(text: &[u8]) -> Result<i64> {
    let text = std::str::from_utf8(text).map_err(|_| error::not_redis())?;
    text.trim().parse().map_err(|_| error::not_redis())
}

/// Nothing when it is negative.
fn size(text: &[u8]) -> Result<Option<usize>> {
    match usize::try_from(number(text)?) {
        Ok(size) if size > MAX_BYTES => Err(error::not_redis()),
        size => Ok(size.ok()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::redis::format::scripts::{self, Args};
    use proptest::prelude::*;

    fn wire(value: &Value, out: &mut Vec<u8>) {
        match value {
            Value::Int(number) => out.extend(format!(":{number}\r\n").bytes()),
            Value::Nil => out.extend(b"$-1\r\n"),
            Value::BulkString(bytes) => {
                out.extend(format!("${}\r\n", bytes.len()).bytes());
                out.extend(bytes);
                out.extend(b"\r\n");
            }
            Value::SimpleString(text) => out.extend(format!("+{text}\r\n").bytes()),
            Value::Array(values) => {
                out.extend(format!("*{}\r\n", values.len()).bytes());
                values.iter().for_each(|value| wire(value, out));
            }
            _ => unreachable!("not among the values made here"),
        }
    }

    fn values() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            any::<i64>().prop_map(Value::Int),
            Just(Value::Nil),
            proptest::collection::vec(any::<u8>(), 0..40).prop_map(Value::BulkString),
            "[a-zA-Z ]{0,9}".prop_map(Value::SimpleString),
        ];
        leaf.prop_recursive(3, 16, 4, |inner| {
            proptest::collection::vec(inner, 0..4).prop_map(Value::Array)
        })
    }

    proptest! {
        #[test]
        fn reads_what_the_driver_reads(value in values(), more in ".{0,3}") {
            let mut bytes = Vec::new();
            wire(&value, &mut bytes);
            prop_assert_eq!(redis::parse_redis_value(&bytes).unwrap(), value.clone());
            for end in 0..bytes.len() {
                prop_assert!(matches!(read_value(&bytes[..end]), Ok(None)));
            }
            bytes.extend(more.bytes());
            let Ok(Some((read, rest))) = read_value(&bytes) else { panic!("not read") };
            prop_assert_eq!(read, value);
            prop_assert_eq!(rest, more.as_bytes());
        }

        #[test]
        fn nonsense_is_no_panic(bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
            let _ = read_value(&bytes);
        }
    }

    #[test]
    fn errors_are_read_by_the_driver() {
        let Ok(Some((Value::ServerError(error), b"rest"))) = read_value(b"-NOSCRIPT x\r\nrest")
        else {
            panic!("no error");
        };
        assert_eq!(error.kind(), Some(redis::ServerErrorKind::NoScript));
    }

    #[test]
    fn what_is_too_deep_or_too_long_is_refused() {
        assert!(read_value(&b"*1\r\n".repeat(1000)).is_err());
        assert!(read_value(format!("${MAX_BYTES}\r\n").as_bytes()).is_ok());
        for size in ["1048577", "9223372036854775807", "99999999999999999999"] {
            assert!(read_value(format!("${size}\r\n").as_bytes()).is_err());
            assert!(read_value(format!("*{size}\r\n").as_bytes()).is_err());
        }
    }

    #[test]
    fn calls_are_written_as_the_driver_writes_them() {
        let call = Call {
            script: &scripts::ACQUIRE,
            keys: &["lock", "", "é"],
            args: Args::same(&["0123456789"]),
        };
        for (is_known, command) in [(true, call.by_hash()), (false, call.by_text())] {
            let mut out = Vec::new();
            write_call(&mut out, &call, is_known);
            assert_eq!(out, command.get_packed_command());
        }
    }
}
