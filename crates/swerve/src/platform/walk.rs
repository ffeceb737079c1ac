//! Opening beneath a directory one name at a time, following no link: slower than `openat2`, but it
//! works everywhere and is just as safe.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Component, Path};

use rustix::fs::{Mode, OFlags, openat};
use rustix::io::Errno;

/// Opens `path` beneath `root`. Every component has to be an ordinary name, and none may be a
/// symbolic link at the moment it is opened: each is looked up in the directory that was opened
/// before it, so replacing one by a link in the meantime gains nothing.
pub(crate) fn open(root: BorrowedFd<'_>, path: &Path) -> Result<OwnedFd, Errno> {
    let common = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let mut at: Option<OwnedFd> = None;
    let mut components = path.components().peekable();
    if components.peek().is_none() {
        return openat(root, ".", common | OFlags::DIRECTORY, Mode::empty());
    }
    while let Some(component) = components.next() {
        let Component::Normal(name) = component else {
            return Err(Errno::ACCESS);
        };
        let kind =
            if components.peek().is_some() { OFlags::DIRECTORY } else { OFlags::NONBLOCK | OFlags::NOCTTY };
        let from = at.as_ref().map_or(root, |fd| fd.as_fd());
        let next = openat(from, name, common | kind, Mode::empty())?;
        at = Some(next);
    }
    at.ok_or(Errno::NOENT)
}
