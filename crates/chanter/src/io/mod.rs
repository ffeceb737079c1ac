//! I/O as events.
//!
//! Each virtual processor sleeps in its own poller, so that I/O wakes no other processor. A socket belongs to the
//! virtual processor on which it was made, until threads that stay on another one poll it. Its streams may be used
//! from any thread and executor.
//!
//! Sockets are made on a thread of a machine, or inside of `block_on`.

#[cfg(unix)]
pub(crate) mod descriptor;
mod listener;
mod source;
mod stream;

pub use listener::TcpListener;
#[cfg(unix)]
pub use listener::UnixListener;
pub use source::Readiness;
#[cfg(unix)]
pub(crate) use source::Source;
pub use stream::TcpStream;
#[cfg(unix)]
pub use stream::UnixStream;

/// The event that a listener has a new connection; see
/// [`TcpListener::accept`].
pub use listener::Accept;
