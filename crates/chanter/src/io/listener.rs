//! Listeners, whose accept is an event.
//!
//! A connection that was accepted must not be lost when another branch of a
//! choice wins. So a thread of the listener's own accepts, and offers each
//! connection on a rendezvous channel: [`TcpListener::accept`] receives from
//! it. At most one connection is accepted ahead; the rest wait in the OS.

use std::fmt;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::os::fd::{AsFd, AsRawFd};
use std::sync::Arc;
use std::time::Duration;

use socket2::{Domain, Protocol, Socket, Type};

use super::source::Source;
use super::stream::TcpStream;
#[cfg(unix)]
use super::stream::UnixStream;
use crate::channel::{Closed, Receiver, RecvEvent, Sender, channel};
use crate::event::after::after;
use crate::event::{Event, Wrap, choose, into_future};
use crate::thread::spawn_parasite;

/// Number of connections that the OS keeps for us.
const BACKLOG: i32 = 4096;

/// A TCP socket that listens.
pub struct TcpListener {
    inner: Listener<std::net::TcpListener, (TcpStream, SocketAddr)>,
}

struct Listener<S: AsFd, C> {
    source: Arc<Source<S>>,
    connections: Receiver<io::Result<C>>,
    /// Dropped with the listener: the accepting thread then ends.
    _open: Sender<()>,
}

impl<S, C> Listener<S, C>
where
    S: AsFd + AsRawFd + Send + Sync + 'static,
    C: Send + 'static,
{
    fn new(socket: S, accept: fn(&S) -> io::Result<C>) -> io::Result<Self> {
        let source = Arc::new(Source::new(socket)?);
        let (tx, connections) = channel();
        let (open, closing) = channel();
        spawn_parasite(accept_all(Arc::clone(&source), accept, tx, closing));
        Ok(Self { source, connections, _open: open })
    }
}

/// Accepts until the listener is closed, and nobody waits any more.
async fn accept_all<S: AsFd + AsRawFd, C>(
    source: Arc<Source<S>>,
    accept: fn(&S) -> io::Result<C>,
    connections: Sender<io::Result<C>>,
    closing: Receiver<()>,
) {
    let mut is_open = true;
    loop {
        // Waits for readiness as an event, so that closing is noticed.
        let connection = loop {
            // In the end the OS has the word: the poller may not have been asked.
            let tried = match is_open {
                true => source.try_io(false, || accept(source.socket())),
                false => accept(source.socket()),
            };
            match tried {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    if !is_open {
                        // The port is given up before anybody hears of the end.
                        drop(source);
                        return;
                    }
                    let readable = source.readable().wrap(|ready| ready.is_ok());
                    is_open = choose((readable, closing.recv().wrap(|_| false))).await;
                }
                Err(error) if is_transient(&error) => (),
                result => break result,
            }
        };
        let failed = connection.is_err();
        if connections.send(connection).await.is_err() {
            return;
        }
        if failed {
            // Out of descriptors, say: the OS would refuse again at once.
            after(Duration::from_millis(10)).await;
        }
    }
}

/// Whether the connection failed before it was accepted, which is no failure of the listener.
fn is_transient(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset, Interrupted};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset | Interrupted)
}

impl TcpListener {
    /// Listens on the first of `addresses` that can be bound.
    ///
    /// # Errors
    /// Outside of a machine, or if none can be bound.
    pub fn bind(addresses: impl ToSocketAddrs) -> io::Result<Self> {
        let mut last = io::Error::new(io::ErrorKind::InvalidInput, "no address to listen on");
        for address in addresses.to_socket_addrs()? {
            match bind_one(address) {
                Ok(socket) => return Self::from_std(socket),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    /// Takes over a listening socket, and makes it non-blocking.
    ///
    /// # Errors
    /// Outside of a machine, or if the OS refuses.
    pub fn from_std(socket: std::net::TcpListener) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        let inner = Listener::new(socket, |socket| {
            let (stream, peer) = socket.accept()?;
            Ok((TcpStream::from_std(stream)?, peer))
        })?;
        Ok(Self { inner })
    }

    /// The event of a new connection.
    ///
    /// It commits to an error if the OS cannot accept a connection (out of descriptors, say). The
    /// listener goes on. If it is not chosen, no connection is lost.
    pub fn accept(&self) -> Accept<'_, (TcpStream, SocketAddr)> {
        Accept { connection: self.inner.connections.recv() }
    }

    /// Stops listening, without the loss of a connection. The returned receiver hands out the connections that wait
    /// in the OS, and is closed after the last one. Connections that come meanwhile may be among them. If the
    /// receiver is dropped, the rest is refused.
    pub fn close(self) -> Receiver<io::Result<(TcpStream, SocketAddr)>> {
        // The accepting thread ends when it finds the queue empty; then nobody holds the socket.
        self.inner.connections
    }

    /// The address on which the listener listens.
    ///
    /// # Errors
    /// Errors of the OS.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.inner.source.socket().local_addr()
    }
}

fn bind_one(address: SocketAddr) -> io::Result<std::net::TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    // A restarted server gets its port back at once.
    #[cfg(unix)]
    socket.set_reuse_address(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

impl fmt::Debug for TcpListener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.source.socket().fmt(f)
    }
}

/// A Unix socket that listens.
#[cfg(unix)]
pub struct UnixListener {
    inner: Listener<std::os::unix::net::UnixListener, UnixStream>,
}

#[cfg(unix)]
impl UnixListener {
    /// Listens on a new socket at `path`.
    ///
    /// # Errors
    /// Outside of a machine, or if `path` cannot be bound.
    pub fn bind(path: impl AsRef<std::path::Path>) -> io::Result<Self> {
        Self::from_std(std::os::unix::net::UnixListener::bind(path)?)
    }

    /// Takes over a listening socket, and makes it non-blocking.
    ///
    /// # Errors
    /// Outside of a machine, or if the OS refuses.
    pub fn from_std(socket: std::os::unix::net::UnixListener) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        let inner = Listener::new(socket, |socket| UnixStream::from_std(socket.accept()?.0))?;
        Ok(Self { inner })
    }

    /// The event of a new connection; see [`TcpListener::accept`].
    pub fn accept(&self) -> Accept<'_, UnixStream> {
        Accept { connection: self.inner.connections.recv() }
    }
}

#[cfg(unix)]
impl fmt::Debug for UnixListener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.source.socket().fmt(f)
    }
}

/// The event of a new connection; see [`TcpListener::accept`].
#[derive(Debug)]
#[must_use = "events do nothing unless synchronized"]
pub struct Accept<'a, C> {
    connection: RecvEvent<'a, io::Result<C>>,
}

impl<C> Clone for Accept<'_, C> {
    fn clone(&self) -> Self {
        Self { connection: self.connection.clone() }
    }
}

into_future!(['a, C] Accept<'a, C>, io::Result<C>);

type Received<C> = Result<io::Result<C>, Closed>;

// SAFETY: the branch is that of `Wrap`, which keeps the contract.
unsafe impl<'a, C> Event for Accept<'a, C> {
    type Branch = <Wrap<RecvEvent<'a, io::Result<C>>, fn(Received<C>) -> io::Result<C>> as Event>::Branch;

    fn into_branch(self) -> Self::Branch {
        let accepted: fn(Received<C>) -> io::Result<C> =
            |received| received.unwrap_or_else(|Closed| Err(io::Error::other("the listener is closed")));
        self.connection.wrap(accepted).into_branch()
    }
}
