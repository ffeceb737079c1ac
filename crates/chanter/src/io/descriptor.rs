//! A descriptor of another library, whose readiness is watched. The base of the C interface.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use super::source::{Readiness, Source};

/// A descriptor that a reactor watches. The caller reads and writes it.
pub struct Descriptor(Source<OwnedFd>);

impl Descriptor {
    /// Watches a descriptor, by the poller of the current virtual processor.
    ///
    /// # Errors
    /// Outside of a machine, or if the system's poller cannot watch the descriptor.
    pub fn new(descriptor: OwnedFd) -> io::Result<Self> {
        Source::new(descriptor).map(Self)
    }

    /// The event that the descriptor can be written, or read. It is ready at once only if it is so now.
    pub fn ready(&self, write: bool) -> Readiness {
        let socket = self.0.socket();
        // An edge that comes meanwhile stays.
        drop(self.0.try_io(write, || is_ready(socket, write)));
        if write { self.0.writable() } else { self.0.readable() }
    }
}

fn is_ready(descriptor: &impl AsFd, write: bool) -> io::Result<()> {
    let events = if write { libc::POLLOUT } else { libc::POLLIN };
    let mut asked = libc::pollfd { fd: descriptor.as_fd().as_raw_fd(), events, revents: 0 };
    // SAFETY: `asked` is one record, and the call does not wait.
    match unsafe { libc::poll(&raw mut asked, 1, 0) } {
        0 => Err(io::ErrorKind::WouldBlock.into()),
        _ => Ok(()),
    }
}
