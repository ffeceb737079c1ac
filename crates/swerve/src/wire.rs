//! The wire: a TCP stream as hyper wants it, which tells the [`Meter`] what passes.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use chanter::io::TcpStream;
use chanter::prelude::*;
use futures_io::{AsyncRead, AsyncWrite};
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
    meter: Arc<Meter>,
}

impl Wire {
    pub(crate) fn new(stream: TcpStream, meter: Arc<Meter>) -> Wire {
        Wire { stream, meter }
    }
}

impl Read for Wire {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
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
    let Wire { mut stream, .. } = wire;
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
        let mut bytes = vec![0; 4096]; // not in the frame, which every idle connection keeps
        match read_if_ready(&mut stream, &mut bytes).await {
            Some(Ok(0) | Err(_)) => return,
            Some(Ok(n)) => swallowed += n,
            None => {}
        }
    }
}

/// A last word outside HTTP's course of request and answer; a client that does not listen loses it.
pub(crate) async fn last_word(wire: Wire, word: &'static [u8]) -> Wire {
    let Wire { mut stream, meter } = wire;
    poll_fn(|cx| {
        // One attempt: a socket that has no room for a line has no reader either.
        let _ = AsyncWrite::poll_write(Pin::new(&mut stream), cx, word);
        let _ = AsyncWrite::poll_close(Pin::new(&mut stream), cx);
        Poll::Ready(())
    })
    .await;
    Wire { stream, meter }
}

/// Reads what is there. `None`: nothing was, and readiness was a rumour: wait for it again.
pub(crate) async fn read_if_ready<S>(stream: &mut S, bytes: &mut [u8]) -> Option<io::Result<usize>>
where
    S: AsyncRead + Unpin,
{
    poll_fn(|cx| match AsyncRead::poll_read(Pin::new(&mut *stream), cx, bytes) {
        Poll::Pending => Poll::Ready(None),
        Poll::Ready(read) => Poll::Ready(Some(read)),
    })
    .await
}
