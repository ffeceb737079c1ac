//! Systems without `openat2`: every path goes through [`walk`](super::walk), and every call to a thread
//! that may wait for anything.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, FileType, Mode, OFlags, fstat, openat, statat};
use rustix::io::Errno;

use super::{Links, NotFound, Wait};
use crate::identity::Identity;

/// Target of a path when it was looked at.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) kind: FileType,
    pub(crate) identity: Identity,
    /// Its directory and its name there; for a directory, itself and nothing.
    place: (OwnedFd, OsString),
}

impl Found {
    /// Looks at the entry `name` of a directory, following no link.
    pub(super) fn entry(directory: BorrowedFd<'_>, name: &Path) -> Result<Found, Errno> {
        let stat = statat(directory, name, AtFlags::SYMLINK_NOFOLLOW)?;
        let (kind, identity) = (super::kind(&stat), Identity::of(&stat));
        let place = if kind == FileType::Directory {
            let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::DIRECTORY;
            (openat(directory, name, flags, Mode::empty())?, OsString::new())
        } else {
            (directory.try_clone_to_owned().map_err(|_| Errno::MFILE)?, name.into())
        };
        Ok(Found { kind, identity, place })
    }

    /// Looks at the entry `name` of this directory, following no link.
    pub(crate) fn look_at_entry(&self, name: &Path, _wait: Wait) -> Result<Found, NotFound> {
        Found::entry(self.place.0.as_fd(), name).map_err(NotFound::Failed)
    }

    /// Opens the file for reading, if it is still the one that was looked at.
    pub(crate) fn open(&self, _root: BorrowedFd<'_>, _path: &Path, _links: Links) -> Result<File, Errno> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
        let file = openat(&self.place.0, &self.place.1, flags, Mode::empty())?;
        let now = Identity::of(&fstat(&file)?);
        if (now.device, now.inode) != (self.identity.device, self.identity.inode) {
            return Err(Errno::AGAIN);
        }
        Ok(file.into())
    }

    /// The directory, for those who read its entries.
    pub(crate) fn as_directory(&self) -> BorrowedFd<'_> {
        self.place.0.as_fd()
    }
}

/// Finds nothing: leaves it to [`walk`](super::walk).
pub(crate) fn look_beneath(
    _root: BorrowedFd<'_>,
    _path: &Path,
    _wait: Wait,
    _links: Links,
) -> Result<Found, NotFound> {
    Err(NotFound::Elsewhere)
}

/// Always `None`: there is no way to ask.
pub(crate) fn read_now(_file: &File, _buffer: &mut [u8], _offset: u64) -> Option<io::Result<usize>> {
    None
}

/// Whether a directory is on our own disk: always `false`, as there is no way to look without waiting.
pub(crate) fn is_own_disk(_directory: BorrowedFd<'_>) -> bool {
    false
}
