//! The wire: a TCP stream as hyper wants it, which tells the [`Meter`] what passes.

use std::io;
use std::mem::MaybeUninit;
use std::net::Shutdown;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use bytes::Bytes;
use chanter::io::TcpStream;
use chanter::prelude::*;
use hyper::rt::{Read, ReadBuf, ReadBufCursor, Write};

use crate::meter::Meter;
use crate::stop::Stop;

/// Time that a client has to close after us, and number of bytes that it may still say. Closing over bytes that
/// were not read resets the connection, and a reset that overtakes our last answer destroys it.
const LINGER: Duration = Duration::from_secs(1);
const MOST_SWALLOWED: usize = 1 << 20;

/// Number of bytes that are read at a time.
const AT_ONCE: usize = 4096;

/// A TCP stream that tells a [`Meter`] what passes.
pub(crate) struct Wire {
    stream: TcpStream,
    /// Bytes that were read before hyper came.
    first: Bytes,
    /// End of the bytes that hyper has been given.
    tail: Tail,
    meter: Arc<Meter>,
}

/// The last bytes of a stream: do they end the head of a request?
#[derive(Debug, Default)]
struct Tail {
    last: [u8; 4],
}

impl Tail {
    fn append(&mut self, bytes: &[u8]) {
        let bytes = &bytes[bytes.len().saturating_sub(4)..];
        self.last.rotate_left(bytes.len());
        self.last[4 - bytes.len()..].copy_from_slice(bytes);
    }

    /// Whether a head ends here: it ends in an empty line, and nothing but its end does. Lines may end in a
    /// mere line feed (RFC 9112, 2.2).
    fn ends_a_head(&self) -> bool {
        self.last.ends_with(b"\n\n") || self.last.ends_with(b"\n\r\n")
    }
}

impl Wire {
    /// Makes a wire of `stream`, from which `first` has been read already.
    pub(crate) fn new(stream: TcpStream, first: Bytes, meter: Arc<Meter>) -> Wire {
        Wire { stream, first, tail: Tail::default(), meter }
    }

    /// Returns the stream, to go on without hyper, and the bytes that were read from it and not given to hyper.
    pub(crate) fn into_inner(self) -> (TcpStream, Bytes) {
        (self.stream, self.first)
    }
}

impl Read for Wire {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        mut buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        if !self.first.is_empty() {
            let n = self.first.len().min(buffer.remaining());
            let bytes = self.first.split_to(n);
            buffer.put_slice(&bytes);
            self.heard(&bytes);
            return Poll::Ready(Ok(()));
        }
        let mut space = [MaybeUninit::uninit(); AT_ONCE];
        let most = buffer.remaining().min(AT_ONCE);
        let mut space = ReadBuf::uninit(&mut space[..most]);
        ready!(Read::poll_read(Pin::new(&mut self.stream), cx, space.unfilled()))?;
        buffer.put_slice(space.filled());
        self.heard(space.filled());
        Poll::Ready(Ok(()))
    }
}

impl Wire {
    /// Hyper has been given these. The end of the stream (none) counts as a byte; nothing waits for a request
    /// after it.
    fn heard(&mut self, bytes: &[u8]) {
        self.tail.append(bytes);
        self.meter.heard(self.tail.ends_a_head());
    }

    fn measured(&self, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        self.meter.wrote(written.is_ready());
        written
    }
}

impl Write for Wire {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Write::poll_write(Pin::new(&mut self.stream), cx, bytes);
        self.measured(written)
    }

    fn is_write_vectored(&self) -> bool {
        Write::is_write_vectored(&self.stream)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Write::poll_write_vectored(Pin::new(&mut self.stream), cx, slices);
        self.measured(written)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Write::poll_flush(Pin::new(&mut self.stream), cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Write::poll_shutdown(Pin::new(&mut self.stream), cx)
    }
}

/// Waits, in reason, for the client to close a connection whose other side is shut.
pub(crate) async fn linger(stream: TcpStream, stop: &Stop) {
    let patience = Instant::now() + LINGER;
    let mut swallowed = 0;
    while swallowed < MOST_SWALLOWED {
        let more = choose((
            stream.readable().wrap(|readable| readable.is_ok()),
            stop.halted().wrap(|()| false),
            at(patience).wrap(|()| false),
        ));
        if !more.await {
            return;
        }
        match read_available(&stream) {
            Ok(Some(bytes)) if !bytes.is_empty() => swallowed += bytes.len(),
            Ok(None) => {}
            Ok(Some(_)) | Err(_) => return,
        }
    }
}

/// A last word (or none) outside HTTP's course of request and answer. One attempt: a socket that has no room
/// for a line has no reader either.
pub(crate) fn last_word(stream: &TcpStream, word: &'static [u8]) {
    if !word.is_empty() {
        let _ = stream.try_write(word);
    }
    let _ = stream.shutdown(Shutdown::Write);
}

/// Bytes that can be read at once: empty at the end of the stream, `None` if there are none yet.
pub(crate) fn read_available(stream: &TcpStream) -> io::Result<Option<Bytes>> {
    let mut bytes = [0; AT_ONCE];
    match stream.try_read(&mut bytes) {
        Ok(n) => Ok(Some(Bytes::copy_from_slice(&bytes[..n]))),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
        Err(error) => Err(error),
    }
}
