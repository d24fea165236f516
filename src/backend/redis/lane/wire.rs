//! A socket that does not block, with or without TLS on it.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;

use rustls::ClientConnection;

use crate::event_loop::{MOST_READS, until_done};

const READ_BYTES: usize = 1 << 14;

/// Requests are written in parts: the server works on one while the next is made.
const PARTS: usize = 4;
/// A smaller one does not make up for what its first request waits.
const SMALLEST_PART: usize = 3;
const LARGEST_PART: usize = 16;
/// With TLS each part is a record, which costs the server as much as a request does: one for all,
/// as long as it fits.
const LARGEST_TLS_PART: usize = 64;

pub(crate) struct Wire {
    /// What is read comes here first.
    buffer: Box<[u8]>,
    /// A stream socket of any family: only what all of them can do is used.
    pub(crate) socket: Arc<TcpStream>,
    tls: Option<Box<ClientConnection>>,
}

impl Wire {
    pub(crate) fn new(socket: TcpStream, tls: Option<Box<ClientConnection>>) -> Self {
        Self {
            buffer: vec![0; READ_BYTES].into(),
            socket: Arc::new(socket),
            tls,
        }
    }

    /// How many requests should be written at once where there are so many under way.
    pub(crate) fn part_of(&self, under_way: usize) -> usize {
        match self.tls {
            None if under_way < PARTS * SMALLEST_PART => 1,
            None => (under_way / PARTS).min(LARGEST_PART),
            Some(_) => under_way.clamp(1, LARGEST_TLS_PART),
        }
    }

    /// Appends what is there to `input`. There may be more; the end of the stream is an error.
    pub(crate) fn read(&mut self, input: &mut Vec<u8>) -> io::Result<()> {
        for _ in 0..MOST_READS {
            let read = match &mut self.tls {
                None => read_plain(&self.socket, &mut self.buffer, input),
                Some(tls) => read_tls(&self.socket, tls, input),
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

    /// Writes `output` as far as it goes. Whether nothing is left; a broken connection shows when
    /// it is read.
    pub(crate) fn write(&mut self, output: &mut Vec<u8>) -> bool {
        match &mut self.tls {
            None => {
                let mut written = 0;
                while written < output.len() {
                    match until_done(|| (&*self.socket).write(&output[written..])) {
                        Ok(more @ 1..) => written += more,
                        _ => break,
                    }
                }
                output.drain(..written);
                output.is_empty()
            }
            Some(tls) => {
                // Into its buffer, which has no limit.
                let _ = tls.writer().write_all(output);
                output.clear();
                while tls.wants_write() {
                    match until_done(|| tls.write_tls(&mut &*self.socket)) {
                        Ok(1..) => {}
                        _ => return false,
                    }
                }
                true
            }
        }
    }
}

/// Whether there may be more.
fn read_plain(mut socket: &TcpStream, buffer: &mut [u8], input: &mut Vec<u8>) -> io::Result<bool> {
    match until_done(|| socket.read(buffer))? {
        0 => Err(io::ErrorKind::UnexpectedEof.into()),
        bytes => {
            input.extend_from_slice(&buffer[..bytes]);
            Ok(bytes == buffer.len())
        }
    }
}

fn read_tls(
    mut socket: &TcpStream,
    tls: &mut ClientConnection,
    input: &mut Vec<u8>,
) -> io::Result<bool> {
    let read = until_done(|| tls.read_tls(&mut socket))?;
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
