//! A connection of any kind.

use std::io::{self, ErrorKind};
use std::net::{Shutdown, SocketAddr};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream as StdUnixStream;
use std::path::Path;

use chanter::io::{Readiness, TcpListener, TcpStream, UnixListener, UnixStream};

use super::tls::{Session, Tls};
use crate::launcher::Address;

pub(super) enum Stream {
    Unix(UnixStream),
    Tcp(TcpStream),
    Tls(Box<Session>),
}

/// Makes the same call on any kind of connection.
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
            Address::Unix(path) => connect_unix(path).and_then(UnixStream::from_std).map(Self::Unix),
            Address::Tcp(address) => Self::tcp(TcpStream::connect(*address).await?),
        }
    }

    /// Puts TLS above TCP, on the side that has connected to `address`. A Unix socket stays as it is, as it does not
    /// leave the machine.
    pub(super) async fn secure_to(self, tls: Option<&Tls>, address: &Address) -> io::Result<Self> {
        match (self, tls, address) {
            (Self::Tcp(stream), Some(tls), Address::Tcp(address)) => {
                Ok(Self::Tls(Box::new(tls.connect(stream, *address).await?)))
            }
            (stream, ..) => Ok(stream),
        }
    }

    /// Puts TLS above TCP, on the side that has accepted the connection.
    pub(super) async fn secure(self, tls: Option<&Tls>) -> io::Result<Self> {
        match (self, tls) {
            (Self::Tcp(stream), Some(tls)) => Ok(Self::Tls(Box::new(tls.accept(stream).await?))),
            (stream, _) => Ok(stream),
        }
    }

    /// Whether the OS always reports the end of the other process, because it is on this machine. Silence then means
    /// nothing.
    pub(super) fn tells_of_its_end(&self) -> bool {
        matches!(self, Self::Unix(_))
    }

    #[cfg(test)]
    pub(super) fn unix(socket: std::os::unix::net::UnixStream) -> io::Result<Self> {
        UnixStream::from_std(socket).map(Self::Unix)
    }

    fn tcp(stream: TcpStream) -> io::Result<Self> {
        // Frames are written whole, so waiting for more bytes gains nothing.
        stream.set_nodelay(true)?;
        Ok(Self::Tcp(stream))
    }

    /// The address from which this end has connected, if that is one of TCP.
    pub(super) fn local_addr(&self) -> Option<SocketAddr> {
        match self {
            Self::Tcp(stream) => stream.local_addr().ok(),
            Self::Unix(_) | Self::Tls(_) => None,
        }
    }

    pub(super) fn readable(&self) -> Readiness {
        either!(self, stream => stream.readable())
    }

    pub(super) fn writable(&self) -> Readiness {
        either!(self, stream => stream.writable())
    }

    /// Reads the bytes that are there; `WouldBlock` if there are none.
    pub(super) fn try_read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        uninterrupted(|| either!(self, stream => stream.try_read(buffer)))
    }

    /// Writes the bytes that fit; `WouldBlock` if none do.
    pub(super) fn try_write(&self, buffer: &[u8]) -> io::Result<usize> {
        uninterrupted(|| either!(self, stream => stream.try_write(buffer)))
    }

    /// Flushes bytes that wait in this process; `WouldBlock` if some still do.
    pub(super) fn try_flush(&self) -> io::Result<()> {
        match self {
            Self::Tls(session) => session.flush(),
            Self::Unix(_) | Self::Tcp(_) => Ok(()),
        }
    }

    /// Shuts the connection down, so that both ends see its end. It may have been shut down before.
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

/// The abstract name that a path stands for, if it begins with `@`.
fn abstract_name(path: &Path) -> Option<&[u8]> {
    path.as_os_str().as_bytes().strip_prefix(b"@")
}

fn connect_unix(path: &Path) -> io::Result<StdUnixStream> {
    match abstract_name(path) {
        Some(name) => abstracts::connect(name),
        None => StdUnixStream::connect(path),
    }
}

/// Abstract names of Unix sockets, which Linux has.
#[cfg(any(target_os = "linux", target_os = "android"))]
mod abstracts {
    use std::io;
    #[cfg(target_os = "android")]
    use std::os::android::net::SocketAddrExt;
    use std::os::fd::AsFd;
    #[cfg(target_os = "linux")]
    use std::os::linux::net::SocketAddrExt;
    use std::os::unix::net::{SocketAddr, UnixStream};

    pub(super) fn connect(name: &[u8]) -> io::Result<UnixStream> {
        UnixStream::connect_addr(&SocketAddr::from_abstract_name(name)?)
    }

    /// Whether the process at the other end belongs to this user or to root. No folder protects an abstract name from
    /// other users.
    pub(super) fn is_ours(stream: &impl AsFd) -> bool {
        let theirs = rustix::net::sockopt::socket_peercred(stream).map(|credentials| credentials.uid);
        theirs.is_ok_and(|uid| uid.is_root() || uid == rustix::process::geteuid())
    }
}

/// Other systems have no abstract names.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
mod abstracts {
    use std::io;
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    pub(super) fn connect(_name: &[u8]) -> io::Result<UnixStream> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(super) fn is_ours(_stream: &impl AsFd) -> bool {
        false
    }
}

/// A socket that accepts connections.
pub(super) enum Listener {
    Unix(UnixListener),
    /// A Unix socket with an abstract name.
    Abstract(UnixListener),
    Tcp(TcpListener),
}

impl Listener {
    /// Takes over a socket that listens at `address`.
    pub(super) fn new(socket: OwnedFd, address: &Address) -> io::Result<Self> {
        match address {
            Address::Unix(path) => {
                let listener = UnixListener::from_std(socket.into());
                listener.map(if abstract_name(path).is_some() { Self::Abstract } else { Self::Unix })
            }
            Address::Tcp(_) => TcpListener::from_std(socket.into()).map(Self::Tcp),
        }
    }

    pub(super) async fn accept(&self) -> io::Result<Stream> {
        match self {
            Self::Unix(listener) => listener.accept().await.map(Stream::Unix),
            Self::Abstract(listener) => loop {
                let stream = listener.accept().await?;
                if abstracts::is_ours(stream.as_std()) {
                    return Ok(Stream::Unix(stream));
                }
            },
            Self::Tcp(listener) => Stream::tcp(listener.accept().await?.0),
        }
    }
}
