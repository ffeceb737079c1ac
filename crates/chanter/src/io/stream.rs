//! Byte streams: TCP and Unix.

use std::fmt;
use std::io::{self, IoSlice, Read, Write};
use std::net::{Shutdown, SocketAddr};
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_io::{AsyncRead, AsyncWrite};
use socket2::{Domain, Protocol, Socket, Type};

use super::source::{Readiness, Source};

/// `$drains`: a read that takes less than it has room for takes all there is.
/// Unix sockets stop short of descriptors that are passed along.
macro_rules! stream {
    ($(#[$doc:meta])* $name:ident, $std:ty, drains: $drains:literal) => {
        $(#[$doc])*
        pub struct $name {
            source: Source<$std>,
        }

        impl $name {
            /// Takes over a connected socket, and makes it non-blocking.
            ///
            /// # Errors
            /// Outside of a machine, or if the OS refuses.
            pub fn from_std(socket: $std) -> io::Result<Self> {
                socket.set_nonblocking(true)?;
                Ok(Self { source: Source::new(socket)? })
            }

            /// The event that bytes (or the end, or an error) can be read.
            pub fn readable(&self) -> Readiness {
                self.source.readable()
            }

            /// The event that bytes can be written.
            pub fn writable(&self) -> Readiness {
                self.source.writable()
            }

            /// Reads what is there.
            ///
            /// # Errors
            /// `WouldBlock` if nothing is there; then wait for [`readable`](Self::readable).
            pub fn try_read(&self, buffer: &mut [u8]) -> io::Result<usize> {
                self.source.try_read_bytes(buffer.len(), $drains, || self.source.socket().read(buffer))
            }

            /// Writes what fits.
            ///
            /// # Errors
            /// `WouldBlock` if nothing fits; then wait for [`writable`](Self::writable).
            pub fn try_write(&self, buffer: &[u8]) -> io::Result<usize> {
                self.source.try_io(true, || self.source.socket().write(buffer))
            }

            /// Shuts one direction down, or both.
            ///
            /// # Errors
            /// Errors of the OS.
            pub fn shutdown(&self, how: Shutdown) -> io::Result<()> {
                self.source.socket().shutdown(how)
            }

            /// Reads into memory that need not be initialized.
            #[cfg(feature = "hyper")]
            pub(crate) fn poll_read_uninit(
                &self,
                cx: &mut Context<'_>,
                space: &mut [std::mem::MaybeUninit<u8>],
            ) -> Poll<io::Result<usize>> {
                let socket = socket2::SockRef::from(self.source.socket());
                self.source.poll_read_bytes(cx, space.len(), $drains, || socket.recv(space))
            }

            /// The socket itself.
            pub fn as_std(&self) -> &$std {
                self.source.socket()
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.source.socket().fmt(f)
            }
        }

        impl AsyncRead for $name {
            fn poll_read(
                self: Pin<&mut Self>,
                cx: &mut Context<'_>,
                buffer: &mut [u8],
            ) -> Poll<io::Result<usize>> {
                let socket = self.source.socket();
                self.source.poll_read_bytes(cx, buffer.len(), $drains, || (&*socket).read(buffer))
            }
        }

        impl AsyncWrite for $name {
            fn poll_write(
                self: Pin<&mut Self>,
                cx: &mut Context<'_>,
                buffer: &[u8],
            ) -> Poll<io::Result<usize>> {
                self.source.poll_write_io(cx, || self.source.socket().write(buffer))
            }

            fn poll_write_vectored(
                self: Pin<&mut Self>,
                cx: &mut Context<'_>,
                buffers: &[IoSlice<'_>],
            ) -> Poll<io::Result<usize>> {
                self.source.poll_write_io(cx, || self.source.socket().write_vectored(buffers))
            }

            fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
                Poll::Ready(Ok(()))
            }

            fn poll_close(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
                match self.source.socket().shutdown(Shutdown::Write) {
                    Err(error) if error.kind() == io::ErrorKind::NotConnected => Poll::Ready(Ok(())),
                    result => Poll::Ready(result),
                }
            }
        }
    };
}

stream! {
    /// A TCP connection.
    ///
    /// Reads and writes through `futures_io`, and through `hyper::rt` with the
    /// feature `hyper`.
    TcpStream, std::net::TcpStream, drains: true
}

#[cfg(unix)]
stream! {
    /// A Unix stream connection.
    UnixStream, std::os::unix::net::UnixStream, drains: false
}

impl TcpStream {
    /// Connects to `address`.
    ///
    /// **Cancel safety.** If the future is dropped, the attempt is abandoned.
    ///
    /// # Errors
    /// Outside of a machine, or if the connection fails.
    pub async fn connect(address: SocketAddr) -> io::Result<Self> {
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
        socket.set_nonblocking(true)?;
        match socket.connect(&address.into()) {
            Ok(()) => (),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => (),
            #[cfg(unix)]
            Err(error) if error.raw_os_error() == Some(libc::EINPROGRESS) => (),
            Err(error) => return Err(error),
        }
        let stream = Self { source: Source::new(std::net::TcpStream::from(socket))? };
        std::future::poll_fn(|cx| {
            stream.source.poll_write_io(cx, || {
                if let Some(error) = stream.as_std().take_error()? {
                    return Err(error);
                }
                match stream.as_std().peer_addr() {
                    Err(error) if error.kind() == io::ErrorKind::NotConnected => {
                        Err(io::ErrorKind::WouldBlock.into())
                    }
                    other => other,
                }
            })
        })
        .await?;
        Ok(stream)
    }

    /// Address of the other end.
    ///
    /// # Errors
    /// Errors of the OS.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.as_std().peer_addr()
    }

    /// This end's address.
    ///
    /// # Errors
    /// Errors of the OS.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.as_std().local_addr()
    }

    /// Sends small writes at once (`TCP_NODELAY`).
    ///
    /// # Errors
    /// Errors of the OS.
    pub fn set_nodelay(&self, nodelay: bool) -> io::Result<()> {
        self.as_std().set_nodelay(nodelay)
    }
}

#[cfg(unix)]
impl UnixStream {
    /// Two connected streams.
    ///
    /// # Errors
    /// Outside of a machine, or if the OS refuses.
    pub fn pair() -> io::Result<(Self, Self)> {
        let (left, right) = std::os::unix::net::UnixStream::pair()?;
        Ok((Self::from_std(left)?, Self::from_std(right)?))
    }

    /// Connects to the socket at `path`. Unix sockets connect at once, or
    /// fail.
    ///
    /// # Errors
    /// Outside of a machine, or if the connection fails.
    pub fn connect(path: impl AsRef<std::path::Path>) -> io::Result<Self> {
        Self::from_std(std::os::unix::net::UnixStream::connect(path)?)
    }
}
