//! A socket that does not block, plain or with TLS.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;

use rustls::ClientConnection;

use super::event_loop::{Interest, MAX_READS_PER_TURN, until_done};

const READ_BYTES: usize = 1 << 14;

/// A stream that belongs to one reactor.
pub(crate) enum Stream {
    Tcp(tokio::net::TcpStream),
    #[cfg(unix)]
    Unix(tokio::net::UnixStream),
    /// A stream socket of any family, which the program's event loop watches. Only operations that all families
    /// have in common are used.
    EventLoop(Arc<TcpStream>),
}

impl Stream {
    /// Takes the stream from tokio, so that the program's event loop can watch it.
    pub(crate) fn for_event_loop(self) -> io::Result<Self> {
        Ok(Self::EventLoop(match self {
            Self::Tcp(stream) => Arc::new(stream.into_std()?),
            #[cfg(unix)]
            Self::Unix(stream) => {
                let stream = std::os::fd::OwnedFd::from(stream.into_std()?);
                Arc::new(TcpStream::from(stream))
            }
            Self::EventLoop(stream) => stream,
        }))
    }

    /// Waits until tokio finds the stream ready. Never returns for one that the event loop watches.
    pub(super) async fn ready(&self, interest: Interest) -> io::Result<()> {
        let interest = match interest {
            Interest::ReadAndWrite => {
                tokio::io::Interest::READABLE.add(tokio::io::Interest::WRITABLE)
            }
            Interest::Read | Interest::Nothing => tokio::io::Interest::READABLE,
        };
        match self {
            Self::Tcp(stream) => stream.ready(interest).await.map(drop),
            #[cfg(unix)]
            Self::Unix(stream) => stream.ready(interest).await.map(drop),
            Self::EventLoop(_) => std::future::pending().await,
        }
    }
}

impl Read for &Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        until_done(|| match self {
            Stream::Tcp(stream) => stream.try_read(buffer),
            #[cfg(unix)]
            Stream::Unix(stream) => stream.try_read(buffer),
            Stream::EventLoop(stream) => (&**stream).read(buffer),
        })
    }
}

impl Write for &Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        until_done(|| match self {
            Stream::Tcp(stream) => stream.try_write(bytes),
            #[cfg(unix)]
            Stream::Unix(stream) => stream.try_write(bytes),
            Stream::EventLoop(stream) => (&**stream).write(bytes),
        })
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A stream with its buffers, and with TLS if the connection uses it.
pub(crate) struct Socket {
    /// Receives the bytes that are read from a plain stream.
    buffer: Box<[u8]>,
    stream: Arc<Stream>,
    tls: Option<Box<ClientConnection>>,
}

impl Socket {
    /// Creates a socket. The handshake of `tls` is complete.
    pub(crate) fn new(stream: Stream, mut tls: Option<Box<ClientConnection>>) -> Self {
        if let Some(tls) = &mut tls {
            // No limit is needed, because the caller limits what is in flight.
            tls.set_buffer_limit(None);
        }
        Self {
            buffer: vec![0; READ_BYTES].into(),
            stream: Arc::new(stream),
            tls,
        }
    }

    pub(crate) fn stream(&self) -> Arc<Stream> {
        Arc::clone(&self.stream)
    }

    pub(crate) fn uses_tls(&self) -> bool {
        self.tls.is_some()
    }

    /// Appends what has arrived to `input`. More may be left. The end of the stream is an error.
    pub(crate) fn read(&mut self, input: &mut Vec<u8>) -> io::Result<()> {
        for _ in 0..MAX_READS_PER_TURN {
            let read = match &mut self.tls {
                None => read_plain(&self.stream, &mut self.buffer, input),
                Some(tls) => read_tls(&self.stream, tls, input),
            };
            match read {
                Ok(true) => {}
                Ok(false) => return Ok(()),
                Err(cause) if cause.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(cause) => return Err(cause),
            }
        }
        Ok(())
    }

    /// Writes as much of `output` as possible. Returns whether all of it is written. A broken connection is
    /// noticed by the next read.
    pub(crate) fn write(&mut self, output: &mut Vec<u8>) -> bool {
        let mut stream = &*self.stream;
        match &mut self.tls {
            None => {
                let mut written = 0;
                while written < output.len() {
                    match stream.write(&output[written..]) {
                        Ok(more @ 1..) => written += more,
                        _ => break,
                    }
                }
                output.drain(..written);
                output.is_empty()
            }
            Some(tls) => {
                // This writes into a buffer without a limit, so it cannot fail.
                let _ = tls.writer().write_all(output);
                output.clear();
                while tls.wants_write() {
                    match tls.write_tls(&mut stream) {
                        Ok(1..) => {}
                        _ => return false,
                    }
                }
                true
            }
        }
    }
}

/// Returns whether there may be more to read.
fn read_plain(mut stream: &Stream, buffer: &mut [u8], input: &mut Vec<u8>) -> io::Result<bool> {
    match stream.read(buffer)? {
        0 => Err(io::ErrorKind::UnexpectedEof.into()),
        bytes => {
            input.extend_from_slice(&buffer[..bytes]);
            Ok(bytes == buffer.len())
        }
    }
}

fn read_tls(
    mut stream: &Stream,
    tls: &mut ClientConnection,
    input: &mut Vec<u8>,
) -> io::Result<bool> {
    let read = tls.read_tls(&mut stream)?;
    let state = tls
        .process_new_packets()
        .map_err(|cause| io::Error::new(io::ErrorKind::InvalidData, cause))?;
    let before = input.len();
    input.resize(before + state.plaintext_bytes_to_read(), 0);
    tls.reader().read_exact(&mut input[before..])?;
    if read == 0 || state.peer_has_closed() {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(true)
}
