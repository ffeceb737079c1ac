//! The ends of a child's pipes, as streams.

use std::fmt;
use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_io::{AsyncRead, AsyncWrite};

use crate::io::{Readiness, Source};

fn unblocked(pipe: OwnedFd) -> io::Result<OwnedFd> {
    // A flag of the descriptor, whatever it is a descriptor of. The child's end
    // has its own.
    socket2::SockRef::from(&pipe).set_nonblocking(true)?;
    Ok(pipe)
}

/// A child's standard input. Dropped or closed, the child sees the end of it.
pub struct ChildStdin {
    source: Option<Source<PipeWriter>>,
}

impl ChildStdin {
    pub(super) fn new(pipe: OwnedFd) -> io::Result<Self> {
        Ok(Self { source: Some(Source::new(PipeWriter::from(unblocked(pipe)?))?) })
    }

    fn source(&self) -> io::Result<&Source<PipeWriter>> {
        self.source.as_ref().ok_or_else(|| io::ErrorKind::BrokenPipe.into())
    }

    /// The event that bytes can be written.
    ///
    /// # Errors
    /// It has been closed.
    pub fn writable(&self) -> io::Result<Readiness> {
        Ok(self.source()?.writable())
    }

    /// Writes what fits.
    ///
    /// # Errors
    /// `WouldBlock` if nothing does; then wait for [`writable`](Self::writable).
    pub fn try_write(&self, buffer: &[u8]) -> io::Result<usize> {
        let source = self.source()?;
        source.try_io(true, || source.socket().write(buffer))
    }
}

impl AsyncWrite for ChildStdin {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &[u8]) -> Poll<io::Result<usize>> {
        let source = self.source()?;
        source.poll_write_io(cx, || source.socket().write(buffer))
    }

    fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_close(mut self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.source = None;
        Poll::Ready(Ok(()))
    }
}

impl fmt::Debug for ChildStdin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChildStdin").field("open", &self.source.is_some()).finish()
    }
}

/// A child's standard output, or its standard error.
pub struct ChildOutput {
    source: Source<PipeReader>,
}

impl ChildOutput {
    pub(super) fn new(pipe: OwnedFd) -> io::Result<Self> {
        Ok(Self { source: Source::new(PipeReader::from(unblocked(pipe)?))? })
    }

    /// The event that bytes (or the end, or an error) can be read.
    pub fn readable(&self) -> Readiness {
        self.source.readable()
    }

    /// Reads what is there.
    ///
    /// # Errors
    /// `WouldBlock` if nothing is; then wait for [`readable`](Self::readable).
    pub fn try_read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        self.source.try_io(false, || self.source.socket().read(buffer))
    }
}

impl AsyncRead for ChildOutput {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        self.source.poll_read_io(cx, || self.source.socket().read(buffer))
    }
}

impl fmt::Debug for ChildOutput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ChildOutput(..)")
    }
}
