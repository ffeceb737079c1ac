//! The wire: a TCP stream as hyper wants it, which tells the [`Meter`] what passes.

use std::io;
use std::net::Shutdown;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::Bytes;
use chanter::io::TcpStream;
use chanter::prelude::*;
use hyper::rt::{Read, ReadBufCursor, Write};

use crate::meter::Meter;
use crate::stop::Stop;

/// How long a client has to close after us, and how much it may still say. Closing over bytes that
/// were not read resets the connection, and a reset that overtakes our last answer destroys it.
const LINGER: Duration = Duration::from_secs(1);
const MOST_SWALLOWED: usize = 1 << 20;

/// See the module.
pub(crate) struct Wire {
    stream: TcpStream,
    /// Bytes that were read before hyper came.
    first: Bytes,
    meter: Arc<Meter>,
}

impl Wire {
    /// `first` has been read from `stream` already.
    pub(crate) fn new(stream: TcpStream, first: Bytes, meter: Arc<Meter>) -> Wire {
        Wire { stream, first, meter }
    }

    /// The stream, to go on without hyper.
    pub(crate) fn into_inner(self) -> TcpStream {
        self.stream
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
            buffer.put_slice(&self.first.split_to(n));
            self.meter.heard();
            return Poll::Ready(Ok(()));
        }
        let read = Read::poll_read(Pin::new(&mut self.stream), cx, buffer);
        // The end of the stream counts as a byte here; nothing waits for a request after it.
        if let Poll::Ready(Ok(())) = read {
            self.meter.heard();
        }
        read
    }
}

impl Wire {
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
pub(crate) async fn linger(wire: Wire, stop: &Stop) {
    let Wire { stream, .. } = wire;
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

/// A last word outside HTTP's course of request and answer. One attempt: a socket that has no room
/// for a line has no reader either.
pub(crate) fn last_word(wire: Wire, word: &'static [u8]) -> Wire {
    let _ = wire.stream.try_write(word);
    let _ = wire.stream.shutdown(Shutdown::Write);
    wire
}

/// What can be read at once; empty at the end of the stream, `None` if there is nothing yet.
pub(crate) fn read_available(stream: &TcpStream) -> io::Result<Option<Bytes>> {
    let mut bytes = [0; 4096];
    match stream.try_read(&mut bytes) {
        Ok(n) => Ok(Some(Bytes::copy_from_slice(&bytes[..n]))),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
        Err(error) => Err(error),
    }
}
