//! Looking beneath a directory one name at a time, following no link: slower than `openat2`, but it
//! works everywhere and is just as safe.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Component, Path};

use rustix::fs::{FileType, Mode, OFlags, openat};
use rustix::io::Errno;

use super::Found;

/// Looks at `path` beneath `root`. Every component has to be an ordinary name, and none may be a symbolic link when
/// it is looked at. Each is looked up in the directory that was opened before it. So it gains nothing to replace one
/// by a link in the meantime.
pub(crate) fn look(root: BorrowedFd<'_>, path: &Path) -> Result<Found, Errno> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::DIRECTORY;
    let mut at: Option<OwnedFd> = None;
    let mut last = Path::new(".");
    let mut components = path.components().peekable();
    while let Some(component) = components.next() {
        let Component::Normal(name) = component else {
            return Err(Errno::ACCESS);
        };
        if components.peek().is_none() {
            last = Path::new(name);
        } else {
            let from = at.as_ref().map_or(root, |fd| fd.as_fd());
            let next = openat(from, name, flags, Mode::empty())?;
            at = Some(next);
        }
    }
    let found = Found::entry(at.as_ref().map_or(root, |fd| fd.as_fd()), last)?;
    if found.kind == FileType::Symlink { Err(Errno::LOOP) } else { Ok(found) }
}
