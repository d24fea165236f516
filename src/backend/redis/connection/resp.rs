//! The protocol of Redis. It runs on the JavaScript thread, so common values are read here, and only
//! rare ones are left to the driver.

use redis::{PushKind, Value};

use crate::backend::redis::error;
use crate::backend::redis::format::scripts::{Call, Script};
use crate::error::Result;

/// Deeper than any reply to a request of ours.
pub(crate) const MAX_DEPTH: usize = 5;
/// Larger than any reply to a request of ours. The largest is the map of a cluster's slots, which may
/// have thousands of parts.
pub(crate) const MAX_BYTES: usize = 4 << 20;
/// The longest lines are errors.
const MAX_LINE_BYTES: usize = 1 << 14;
/// The number of values for which memory is reserved before they arrive.
const MAX_RESERVED: usize = 16;
const END: &[u8] = b"\r\n";

/// Appends a command that consists of these words.
pub(crate) fn write_command(out: &mut Vec<u8>, words: &[&[u8]]) {
    write_header(out, b'*', words.len());
    for word in words {
        write_text(out, word);
    }
}

/// Appends a call. `is_known` sends the script's hash, because the server knows the script. Otherwise
/// the script's text is sent.
pub(crate) fn write_call(out: &mut Vec<u8>, call: &Call<'_>, is_known: bool) {
    let (keys, args) = (call.keys, call.args);
    write_start(out, call.script, is_known, keys.len(), args.len());
    for value in keys.iter().chain(args) {
        write_text(out, value);
    }
}

/// Appends what precedes the keys and arguments of a call.
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
        write_text(out, &script.hash);
    } else {
        out.extend_from_slice(b"$4\r\nEVAL\r\n");
        write_text(out, script.text);
    }
    write_number(out, keys);
}

pub(super) fn write_number(out: &mut Vec<u8>, number: usize) {
    write_text(out, itoa::Buffer::new().format(number));
}

pub(super) fn write_text(out: &mut Vec<u8>, text: impl AsRef<[u8]>) {
    let bytes = text.as_ref();
    write_header(out, b'$', bytes.len());
    out.extend_from_slice(bytes);
    out.extend_from_slice(END);
}

fn write_header(out: &mut Vec<u8>, kind: u8, number: usize) {
    out.push(kind);
    out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
    out.extend_from_slice(END);
}

/// Returns the first reply in `bytes`, and the rest. None if the reply is not complete.
pub(crate) fn read_value(bytes: &[u8]) -> Result<Option<(Value, &[u8])>> {
    read(bytes, 0)
}

fn read(bytes: &[u8], depth: usize) -> Result<Option<(Value, &[u8])>> {
    // Check this first: data of another protocol may contain no end of line.
    let Some(kind) = bytes.first() else {
        return Ok(None);
    };
    if !b":+-$*%~>_,#(".contains(kind) {
        return Err(error::not_redis());
    }
    let Some((line, rest)) = split_line(bytes)? else {
        return Ok(None);
    };
    let text = &line[1..];
    let size = match kind {
        b':' => return Ok(Some((Value::Int(number(text)?), rest))),
        b'$' | b'*' | b'~' | b'%' | b'>' => size(text)?,
        _ => {
            let value = &bytes[..bytes.len() - rest.len()];
            return Ok(Some((read_by_driver(value)?, rest)));
        }
    };
    match (kind, size) {
        (b'$' | b'*', None) => Ok(Some((Value::Nil, rest))),
        (_, None) => Err(error::not_redis()),
        (b'$', Some(length)) => {
            let bulk = split_bulk(rest, length)?;
            Ok(bulk.map(|(text, rest)| (Value::BulkString(text.to_vec()), rest)))
        }
        (kind, Some(count)) => {
            // The only map is the answer to HELLO, which nobody reads.
            let count = if *kind == b'%' { 2 * count } else { count };
            let Some((values, rest)) = read_all(rest, count, depth)? else {
                return Ok(None);
            };
            let is_push = *kind == b'>';
            let value = if is_push {
                push_of(values)?
            } else {
                Value::Array(values)
            };
            Ok(Some((value, rest)))
        }
    }
}

fn read_all(mut rest: &[u8], count: usize, depth: usize) -> Result<Option<(Vec<Value>, &[u8])>> {
    if depth == MAX_DEPTH {
        return Err(error::not_redis());
    }
    let mut values = Vec::with_capacity(count.min(MAX_RESERVED));
    for _ in 0..count {
        let Some((value, after)) = read(rest, depth + 1)? else {
            return Ok(None);
        };
        values.push(value);
        rest = after;
    }
    Ok(Some((values, rest)))
}

/// Reads a push message, which begins with its kind.
fn push_of(mut values: Vec<Value>) -> Result<Value> {
    if values.is_empty() {
        return Err(error::not_redis());
    }
    let kind = match values.remove(0) {
        Value::BulkString(kind) => String::from_utf8_lossy(&kind).into_owned(),
        Value::SimpleString(kind) => kind,
        _ => return Err(error::not_redis()),
    };
    let kind = match kind.as_str() {
        "invalidate" => PushKind::Invalidate,
        _ => PushKind::Other(kind),
    };
    Ok(Value::Push { kind, data: values })
}

/// Reads an error, or a rare kind of value.
fn read_by_driver(value: &[u8]) -> Result<Value> {
    redis::parse_redis_value(value).map_err(|_| error::not_redis())
}

/// Returns the text that follows its length, and the rest. None if the text is not complete.
fn split_bulk(bytes: &[u8], length: usize) -> Result<Option<(&[u8], &[u8])>> {
    let Some((text, end)) = bytes.split_at_checked(length) else {
        return Ok(None);
    };
    match end.strip_prefix(END) {
        Some(rest) => Ok(Some((text, rest))),
        None if END.starts_with(end) => Ok(None),
        None => Err(error::not_redis()),
    }
}

/// Returns the first line, without its end, and the rest. None if the line is not complete.
fn split_line(bytes: &[u8]) -> Result<Option<(&[u8], &[u8])>> {
    let start = &bytes[..bytes.len().min(MAX_LINE_BYTES)];
    match start.windows(2).position(|pair| pair == END) {
        Some(end) => Ok(Some((&bytes[..end], &bytes[end + 2..]))),
        None if bytes.len() >= MAX_LINE_BYTES => Err(error::not_redis()),
        None => Ok(None),
    }
}

fn number(text: &[u8]) -> Result<i64> {
    let text = std::str::from_utf8(text).map_err(|_| error::not_redis())?;
    text.trim().parse().map_err(|_| error::not_redis())
}

/// Reads a length. None if it is negative, which means a nil value.
fn size(text: &[u8]) -> Result<Option<usize>> {
    match usize::try_from(number(text)?) {
        Ok(size) if size > MAX_BYTES => Err(error::not_redis()),
        size => Ok(size.ok()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::redis::format::scripts;
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
        for size in ["4194305", "9223372036854775807", "99999999999999999999"] {
            assert!(read_value(format!("${size}\r\n").as_bytes()).is_err());
            assert!(read_value(format!("*{size}\r\n").as_bytes()).is_err());
        }
    }

    #[test]
    fn replies_of_the_newer_protocol_are_read_as_the_driver_reads_them() {
        for text in [
            "_\r\n",
            "#t\r\n",
            ",1.5\r\n",
            "(12\r\n",
            ">2\r\n$10\r\ninvalidate\r\n*1\r\n$1\r\nk\r\n",
        ] {
            let value = redis::parse_redis_value(text.as_bytes()).unwrap();
            let Ok(Some((read, b""))) = read_value(text.as_bytes()) else {
                panic!("not read: {text:?}");
            };
            assert_eq!(read, value);
            for end in 0..text.len() {
                assert!(matches!(read_value(&text.as_bytes()[..end]), Ok(None)));
            }
        }
        let map = b"%2\r\n+a\r\n:1\r\n$1\r\nb\r\n*1\r\n_\r\n";
        let fields = b"*4\r\n+a\r\n:1\r\n$1\r\nb\r\n*1\r\n_\r\n";
        assert_eq!(read_value(map), read_value(fields));
        for nonsense in [">0\r\n", ">1\r\n:1\r\n", "%-1\r\n", "=5\r\ntxt:a\r\n"] {
            assert!(read_value(nonsense.as_bytes()).is_err(), "{nonsense:?}");
        }
    }

    #[test]
    fn a_line_has_an_end() {
        let line = [b"+".as_slice(), &[b'x'; MAX_LINE_BYTES - 2]].concat();
        assert!(matches!(read_value(&line), Ok(None)));
        assert!(read_value(&[line.as_slice(), b"x"].concat()).is_err());
    }

    #[test]
    fn calls_are_written_as_the_driver_writes_them() {
        let call = Call {
            script: &scripts::ACQUIRE,
            keys: &["lock", "", "é"],
            args: &["0123456789"],
        };
        let (text, hash) = (call.script.text, call.script.hash.as_str());
        for (is_known, name, script) in [(true, "EVALSHA", hash), (false, "EVAL", text)] {
            let mut out = Vec::new();
            write_call(&mut out, &call, is_known);
            let mut command = redis::cmd(name);
            command.arg(script).arg(call.keys.len());
            command.arg(call.keys).arg(call.args);
            assert_eq!(out, command.get_packed_command());
        }
        let mut out = Vec::new();
        write_command(&mut out, &[b"GET", b"key"]);
        assert_eq!(out, redis::cmd("GET").arg("key").get_packed_command());
    }
}
