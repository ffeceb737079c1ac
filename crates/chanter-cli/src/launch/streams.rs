//! The launcher's own standard streams. It shares them with its parent, which may have made them non-blocking: then they are
//! waited for here.

use std::io;
use std::os::fd::AsFd;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

/// Writes all of it. Blocks the OS thread until somebody has taken it.
///
/// # Errors
/// Errors of the OS.
pub(super) fn write_all(to: impl AsFd, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match nix::unistd::write(&to, bytes) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => bytes = &bytes[written..],
            Err(Errno::EINTR) => {}
            Err(Errno::EAGAIN) => wait(&to, PollFlags::POLLOUT)?,
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Reads what is there; 0 at the end. Blocks the OS thread until something is.
///
/// # Errors
/// Errors of the OS.
pub(super) fn read(from: impl AsFd, buffer: &mut [u8]) -> io::Result<usize> {
    loop {
        match nix::unistd::read(&from, buffer) {
            Err(Errno::EINTR) => {}
            Err(Errno::EAGAIN) => wait(&from, PollFlags::POLLIN)?,
            read => return Ok(read?),
        }
    }
}

/// Waits until a call would not say that it would block; or was interrupted.
fn wait(for_it: &impl AsFd, what: PollFlags) -> io::Result<()> {
    match poll(&mut [PollFd::new(for_it.as_fd(), what)], PollTimeout::NONE) {
        Ok(_) | Err(Errno::EINTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
