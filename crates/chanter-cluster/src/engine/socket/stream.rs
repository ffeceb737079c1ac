//! A connection, of any kind.

use std::io::{self, ErrorKind};
use std::net::Shutdown;
use std::os::fd::OwnedFd;

use chanter::io::{Readiness, TcpListener, TcpStream, UnixListener, UnixStream};

use super::tls::{Session, Tls};
use crate::launcher::Address;

pub(super) enum Stream {
    Unix(UnixStream),
    Tcp(TcpStream),
    Tls(Box<Session>),
}

/// The same call on any kind.
macro_rules! either {
    ($of:expr, $stream:ident => $call:expr) => {
        match $of {
            Stream::Unix($stream) => $call,
            Stream::Tcp($stream) => $call,
            Stream::Tls($stream) => $call,
        }
    };
}

impl Stream {
    pub(super) async fn connect(address: &Address) -> io::Result<Self> {
        match address {
            Address::Unix(path) => UnixStream::connect(path).map(Self::Unix),
            Address::Tcp(address) => Self::tcp(TcpStream::connect(*address).await?),
        }
    }

    /// Puts TLS above TCP, for the one who has connected to that address. A Unix socket stays as it is: it leads nowhere else.
    pub(super) async fn secure_to(self, tls: Option<&Tls>, address: &Address) -> io::Result<Self> {
        match (self, tls, address) {
            (Self::Tcp(stream), Some(tls), Address::Tcp(address)) => {
                Ok(Self::Tls(Box::new(tls.connect(stream, *address).await?)))
            }
            (stream, ..) => Ok(stream),
        }
    }

    /// The same, for the one who has accepted it.
    pub(super) async fn secure(self, tls: Option<&Tls>) -> io::Result<Self> {
        match (self, tls) {
            (Self::Tcp(stream), Some(tls)) => Ok(Self::Tls(Box::new(tls.accept(stream).await?))),
            (stream, _) => Ok(stream),
        }
    }

    /// Whether the OS tells of the end of the other process, whatever happens: it is on this machine. Silence says nothing then.
    pub(super) fn tells_of_its_end(&self) -> bool {
        matches!(self, Self::Unix(_))
    }

    #[cfg(test)]
    pub(super) fn unix(socket: std::os::unix::net::UnixStream) -> io::Result<Self> {
        UnixStream::from_std(socket).map(Self::Unix)
    }

    fn tcp(stream: TcpStream) -> io::Result<Self> {
        // Frames are whole when they are written: nothing is gained by waiting for more.
        stream.set_nodelay(true)?;
        Ok(Self::Tcp(stream))
    }

    pub(super) fn readable(&self) -> Readiness {
        either!(self, stream => stream.readable())
    }

    pub(super) fn writable(&self) -> Readiness {
        either!(self, stream => stream.writable())
    }

    /// Reads what is there; `WouldBlock` if nothing is.
    pub(super) fn try_read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        uninterrupted(|| either!(self, stream => stream.try_read(buffer)))
    }

    /// Writes what fits; `WouldBlock` if nothing does.
    pub(super) fn try_write(&self, buffer: &[u8]) -> io::Result<usize> {
        uninterrupted(|| either!(self, stream => stream.try_write(buffer)))
    }

    /// Nothing that was written waits in this process; `WouldBlock` if something does.
    pub(super) fn try_flush(&self) -> io::Result<()> {
        match self {
            Self::Tls(session) => session.flush(),
            Self::Unix(_) | Self::Tcp(_) => Ok(()),
        }
    }

    /// Both ends see the end of it. It may have been shut down before.
    pub(super) fn shutdown(&self, how: Shutdown) {
        let _ = either!(self, stream => stream.shutdown(how));
    }

    pub(super) async fn read_exact(&self, mut buffer: &mut [u8]) -> io::Result<()> {
        while !buffer.is_empty() {
            match self.try_read(buffer) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(read) => buffer = &mut buffer[read..],
                Err(error) if error.kind() == ErrorKind::WouldBlock => self.readable().await?,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    pub(super) async fn write_all(&self, mut buffer: &[u8]) -> io::Result<()> {
        while !buffer.is_empty() {
            match self.try_write(buffer) {
                Ok(written) => buffer = &buffer[written..],
                Err(error) if error.kind() == ErrorKind::WouldBlock => self.writable().await?,
                Err(error) => return Err(error),
            }
        }
        loop {
            match self.try_flush() {
                Err(error) if error.kind() == ErrorKind::WouldBlock => self.writable().await?,
                flushed => return flushed,
            }
        }
    }
}

fn uninterrupted(mut call: impl FnMut() -> io::Result<usize>) -> io::Result<usize> {
    loop {
        match call() {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}

/// Where connections come.
pub(super) enum Listener {
    Unix(UnixListener),
    Tcp(TcpListener),
}

impl Listener {
    /// Takes a socket over that listens at `address`.
    pub(super) fn new(socket: OwnedFd, address: &Address) -> io::Result<Self> {
        match address {
            Address::Unix(_) => UnixListener::from_std(socket.into()).map(Self::Unix),
            Address::Tcp(_) => TcpListener::from_std(socket.into()).map(Self::Tcp),
        }
    }

    pub(super) async fn accept(&self) -> io::Result<Stream> {
        match self {
            Self::Unix(listener) => listener.accept().await.map(Stream::Unix),
            Self::Tcp(listener) => Stream::tcp(listener.accept().await?.0),
        }
    }
}
