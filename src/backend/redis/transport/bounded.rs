//! A stream of replies, none of which may be too large. The driver would read one of any size into
//! memory, and takes the end of the stream inside of one for a fault of the protocol.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::backend::redis::error::NotRedis;

/// The largest that we ask for is the map of a cluster's slots, which can be in thousands of parts.
const MAX_REPLY_BYTES: usize = 4 << 20;
/// Errors are the longest lines. Short also because the driver looks for the end from the start again
/// whenever there is more.
const MAX_LINE_BYTES: usize = 1 << 14;

pub(crate) struct Bounded<S> {
    stream: S,
    reply: Reply,
}

impl<S> Bounded<S> {
    pub(crate) fn new(stream: S) -> Self {
        let reply = Reply::default();
        Self { stream, reply }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Bounded<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buffer.filled().len();
        ready!(Pin::new(&mut this.stream).poll_read(context, buffer))?;
        let read = &buffer.filled()[before..];
        if read.is_empty() && this.reply.has_begun() {
            return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into()));
        }
        let followed = this.reply.follow(read);
        Poll::Ready(followed.map_err(|cause| io::Error::new(io::ErrorKind::InvalidData, cause)))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Bounded<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().stream).poll_write(context, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(context)
    }
}

/// The reply that is being read, as far as its size goes.
#[derive(Default)]
pub(in crate::backend::redis) struct Reply {
    bytes: usize,
    /// Values that are not complete yet.
    missing: usize,
    /// How much of the current value's text is still to come.
    text: usize,
    /// The first line of the current value so far.
    head: Vec<u8>,
}

impl Reply {
    pub(in crate::backend::redis) fn has_begun(&self) -> bool {
        self.bytes > 0
    }

    pub(in crate::backend::redis) fn follow(&mut self, mut bytes: &[u8]) -> Result<(), NotRedis> {
        while !bytes.is_empty() {
            let used = if self.text > 0 {
                self.skip_text(bytes)
            } else {
                self.read_line(bytes)?
            };
            bytes = &bytes[used..];
            self.bytes += used;
            if self.bytes > MAX_REPLY_BYTES {
                return Err(NotRedis);
            }
            if self.missing == 0 {
                self.bytes = 0;
            }
        }
        Ok(())
    }

    fn skip_text(&mut self, bytes: &[u8]) -> usize {
        let used = self.text.min(bytes.len());
        self.text -= used;
        if self.text == 0 {
            self.missing -= 1;
        }
        used
    }

    fn read_line(&mut self, bytes: &[u8]) -> Result<usize, NotRedis> {
        if !self.has_begun() {
            self.missing = 1;
        }
        let end = bytes.iter().position(|b| *b == b'\n');
        let used = end.map_or(bytes.len(), |end| end + 1);
        if self.head.len() + used > MAX_LINE_BYTES {
            return Err(NotRedis);
        }
        self.head.extend_from_slice(&bytes[..used]);
        if self.head.ends_with(b"\r\n") {
            self.read_head()?;
            self.head.clear();
        }
        Ok(used)
    }

    fn read_head(&mut self) -> Result<(), NotRedis> {
        let (kind, rest) = self.head.split_first().ok_or(NotRedis)?;
        let said = str::from_utf8(rest)
            .ok()
            .and_then(|text| text.trim().parse::<i64>().ok());
        let number = || {
            said.and_then(|number| usize::try_from(number).ok())
                .filter(|number| *number <= MAX_REPLY_BYTES)
                .ok_or(NotRedis)
        };
        let nothing = said.is_some_and(|number| number < 0);
        let parts = match kind {
            b'$' | b'*' | b'~' if nothing => 0,
            b'$' | b'!' | b'=' => {
                self.text = number()? + "\r\n".len();
                return Ok(());
            }
            b'*' | b'~' | b'>' => number()?,
            b'%' => 2 * number()?,
            b'|' => 2 * number()? + 1,
            b'+' | b'-' | b':' | b'_' | b',' | b'#' | b'(' => 0,
            _ => return Err(NotRedis),
        };
        self.missing = self.missing.saturating_add(parts) - 1;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const REPLIES: [&str; 8] = [
        "+OK\r\n",
        "-ERR no\r\n",
        ":-12\r\n",
        "$-1\r\n",
        "$4\r\n\r\n\r\n\r\n",
        "*0\r\n",
        "*3\r\n:1\r\n*2\r\n$0\r\n\r\n+a\r\n*-1\r\n",
        "|1\r\n+a\r\n%2\r\n,1.5\r\n#t\r\n~1\r\n_\r\n(12\r\n>1\r\n=5\r\ntxt:a\r\n",
    ];

    proptest! {
        #[test]
        fn knows_where_replies_end(
            which in proptest::collection::vec(0..REPLIES.len(), 1..4),
            at_once in 1usize..20,
        ) {
            let bytes: Vec<u8> = which.iter().flat_map(|i| REPLIES[*i].bytes()).collect();
            let mut reply = Reply::default();
            for part in bytes.chunks(at_once) {
                prop_assert!(reply.follow(part).is_ok());
            }
            prop_assert!(!reply.has_begun());
        }

        #[test]
        fn nonsense_is_no_panic(bytes in proptest::collection::vec("[*$%|0-9\\-\r\n]", 0..40)) {
            let mut reply = Reply::default();
            for part in bytes {
                if reply.follow(part.as_bytes()).is_err() {
                    break;
                }
            }
        }
    }

    #[test]
    fn each_part_of_a_reply_is_missed() {
        for text in REPLIES {
            for end in 1..text.len() {
                let mut reply = Reply::default();
                assert!(reply.follow(&text.as_bytes()[..end]).is_ok());
                assert!(reply.has_begun(), "{text:?} {end}");
            }
        }
    }

    #[test]
    fn what_is_too_large_is_refused_as_soon_as_it_shows() {
        for text in [
            "$570000000\r\n",
            "*570000000\r\n",
            "$99999999999999999999\r\n",
            "=-1\r\n",
            "HTTP/1.1 400\r\n",
        ] {
            assert!(Reply::default().follow(text.as_bytes()).is_err(), "{text}");
        }
        let mut line = Reply::default();
        assert!(line.follow(b"+").is_ok());
        assert!(line.follow(&[b'x'; MAX_LINE_BYTES - 1]).is_ok());
        assert!(line.follow(b"x").is_err());
        let mut list = Reply::default();
        assert!(list.follow(b"*4000000\r\n").is_ok());
        assert!(
            list.follow(&b":1\r\n".repeat(MAX_REPLY_BYTES / 4 - 3))
                .is_ok()
        );
        assert!(list.follow(b":1\r\n").is_err());
    }
}
