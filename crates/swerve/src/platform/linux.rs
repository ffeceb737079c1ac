//! Linux: the kernel itself refuses to resolve a path out of a directory (`openat2`), so there is no
//! moment between a check and a use.

use std::fs::File;
use std::io::{self, IoSliceMut};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::Path;

use rustix::fs::{Mode, OFlags, ResolveFlags, fstatfs, openat2};
use rustix::io::{Errno, ReadWriteFlags, preadv2};

use super::{NotOpened, Wait};

/// A rename anywhere on the system can disturb a resolution; the kernel then asks for another try.
const TRIES: usize = 16;

/// Opens `path` for reading, beneath `root` and nowhere else.
pub(crate) fn open_beneath(root: BorrowedFd<'_>, path: &Path, wait: Wait) -> Result<OwnedFd, NotOpened> {
    let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
    // NONBLOCK: opening a named pipe must not wait for its writer.
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOCTTY | OFlags::NONBLOCK;
    let mut resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    if wait == Wait::Never {
        resolve |= ResolveFlags::CACHED;
    }
    let mut tries = TRIES;
    loop {
        tries -= 1;
        return match openat2(root, path, flags, Mode::empty(), resolve) {
            Ok(fd) => Ok(fd),
            Err(Errno::XDEV) => Err(NotOpened::Elsewhere),
            // Older than 5.12 (no CACHED), or no answer in memory.
            Err(Errno::AGAIN | Errno::INVAL) if wait == Wait::Never => Err(NotOpened::WouldWait),
            Err(Errno::AGAIN | Errno::INTR) if tries > 0 => continue,
            // Older than 5.6, or a sandbox that does not know the call.
            Err(Errno::NOSYS | Errno::PERM) => Err(NotOpened::Elsewhere),
            Err(errno) => Err(NotOpened::Failed(errno)),
        };
    }
}

/// Reads from the page cache. `None`: the bytes are not there, or this file system cannot tell.
pub(crate) fn read_now(file: &File, buffer: &mut [u8], offset: u64) -> Option<io::Result<usize>> {
    let read = preadv2(file, &mut [IoSliceMut::new(buffer)], offset, ReadWriteFlags::NOWAIT);
    match read {
        Ok(n) => Some(Ok(n)),
        Err(Errno::OPNOTSUPP) if is_in_memory(file) => Some(file.read_at(buffer, offset)),
        Err(Errno::AGAIN | Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL | Errno::INTR) => None,
        Err(errno) => Some(Err(errno.into())),
    }
}

/// Whether the file lies in a file system that has no disk.
fn is_in_memory(file: &File) -> bool {
    /// `TMPFS_MAGIC` and `RAMFS_MAGIC` of `linux/magic.h`.
    const MEMORY: [u64; 2] = [0x0102_1994, 0x8584_58f6];
    fstatfs(file).is_ok_and(|found| MEMORY.contains(&(found.f_type as u64)))
}
