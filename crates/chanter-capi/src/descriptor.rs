//! Descriptors in choices.

use std::ffi::c_int;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{FromRawFd, OwnedFd};

use chanter::base::Descriptor;

use crate::door::Done;

/// Watches a descriptor for one wait. `None`: it is a file, which is always ready.
pub(crate) fn watch(descriptor: u64) -> Done<Option<Descriptor>> {
    let number = c_int::try_from(descriptor).map_err(|_| libc::EINVAL)?;
    // The close of a copy would free the program's locks of a file, so a file is not copied.
    if is_file(number)? {
        return Ok(None);
    }
    // A descriptor of our own: the program may wait for its own one several times at once.
    // SAFETY: the call makes a new descriptor, or fails.
    let copy = unsafe { libc::fcntl(number, libc::F_DUPFD_CLOEXEC, 0) };
    if copy < 0 {
        return Err(code(&io::Error::last_os_error()));
    }
    // SAFETY: the descriptor is new, and nobody else has it.
    let copy = unsafe { OwnedFd::from_raw_fd(copy) };
    match Descriptor::new(copy) {
        Ok(watched) => Ok(Some(watched)),
        Err(error) if error.raw_os_error() == Some(libc::EPERM) => Ok(None),
        Err(error) => Err(code(&error)),
    }
}

/// Whether a descriptor is of a file or a directory, which the system's poller does not watch.
fn is_file(number: c_int) -> Done<bool> {
    let mut status = MaybeUninit::<libc::stat>::uninit();
    // SAFETY: the call writes the record, or fails.
    if unsafe { libc::fstat(number, status.as_mut_ptr()) } != 0 {
        return Err(code(&io::Error::last_os_error()));
    }
    // SAFETY: the call has written the record.
    let status = unsafe { status.assume_init() };
    Ok(matches!(status.st_mode & libc::S_IFMT, libc::S_IFREG | libc::S_IFDIR))
}

/// The code of an error; without one, no machine runs the caller.
fn code(error: &io::Error) -> c_int {
    match error.raw_os_error() {
        Some(libc::EBADF) => libc::EINVAL,
        Some(other) => other,
        None => libc::ESRCH,
    }
}
