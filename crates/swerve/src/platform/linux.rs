//! Linux: the kernel itself refuses to resolve a path out of a directory (`openat2`), so there is no
//! moment between a check and a use.

use std::fs::File;
use std::io::{self, IoSliceMut};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::Path;

use rustix::fs::{CWD, FileType, Mode, OFlags, ResolveFlags, fstat, fstatfs, openat, openat2};
use rustix::io::{Errno, ReadWriteFlags, preadv2};

use super::{Links, NotFound, Wait};
use crate::identity::Identity;

/// A rename anywhere on the system can disturb a resolution; the kernel then asks for another try.
const TRIES: usize = 16;

/// Flags with which files are opened. A pipe that took the file's place must not be waited for.
const READ: OFlags = OFlags::RDONLY.union(OFlags::CLOEXEC).union(OFlags::NOCTTY).union(OFlags::NONBLOCK);

/// Target of a path when it was looked at: held, and not opened (`O_PATH`).
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) kind: FileType,
    pub(crate) identity: Identity,
    handle: OwnedFd,
}

impl Found {
    fn of(handle: OwnedFd) -> Result<Found, Errno> {
        let stat = fstat(&handle)?;
        Ok(Found { kind: super::kind(&stat), identity: Identity::of(&stat), handle })
    }

    /// Looks at the entry `name` of a directory, following no link, on whatever file system it is.
    pub(super) fn entry(directory: BorrowedFd<'_>, name: &Path) -> Result<Found, Errno> {
        let flags = OFlags::PATH | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        Found::of(openat(directory, name, flags, Mode::empty())?)
    }

    /// Looks at the entry `name` of this directory, following no link, and (with [`Wait::OwnDisk`]) not
    /// leaving its file system.
    pub(crate) fn look_at_entry(&self, name: &Path, wait: Wait) -> Result<Found, NotFound> {
        if wait == Wait::Anything {
            return Found::entry(self.handle.as_fd(), name).map_err(NotFound::Failed);
        }
        look(self.handle.as_fd(), name, OFlags::NOFOLLOW, wait, Links::Inside)
    }

    /// Opens the file for reading: this one, whatever `path` beneath `root`, by which it was found, leads to
    /// by now. `links` as when it was found.
    pub(crate) fn open(&self, root: BorrowedFd<'_>, path: &Path, links: Links) -> Result<File, Errno> {
        // A handle has no call of its own for this: its entry in `/proc` leads to the very file.
        let entry = format!("/proc/self/fd/{}", self.handle.as_raw_fd());
        match openat(CWD, entry, READ, Mode::empty()) {
            // No `/proc`: a file that was removed would still be found there.
            Err(Errno::NOENT) => self.open_by_name(root, path, links),
            opened => Ok(File::from(opened?)),
        }
    }

    fn open_by_name(&self, root: BorrowedFd<'_>, path: &Path, links: Links) -> Result<File, Errno> {
        let file = openat2(root, path, READ, Mode::empty(), resolution(links))?;
        let now = Identity::of(&fstat(&file)?);
        let is_same = (now.device, now.inode) == (self.identity.device, self.identity.inode);
        if is_same { Ok(file.into()) } else { Err(Errno::AGAIN) }
    }

    /// The directory, for those who read its entries.
    pub(crate) fn as_directory(&self) -> BorrowedFd<'_> {
        self.handle.as_fd()
    }
}

/// Looks at `path`, beneath `root` and nowhere else, or where its links lead.
pub(crate) fn look_beneath(
    root: BorrowedFd<'_>,
    path: &Path,
    wait: Wait,
    links: Links,
) -> Result<Found, NotFound> {
    let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
    look(root, path, OFlags::empty(), wait, links)
}

fn resolution(links: Links) -> ResolveFlags {
    ResolveFlags::NO_MAGICLINKS
        | match links {
            Links::Inside => ResolveFlags::BENEATH,
            Links::Anywhere => ResolveFlags::empty(),
        }
}

fn look(
    root: BorrowedFd<'_>,
    path: &Path,
    flags: OFlags,
    wait: Wait,
    links: Links,
) -> Result<Found, NotFound> {
    let flags = OFlags::PATH | OFlags::CLOEXEC | flags;
    let resolve = resolution(links)
        | match wait {
            Wait::Never => ResolveFlags::CACHED | ResolveFlags::NO_XDEV,
            Wait::OwnDisk => ResolveFlags::NO_XDEV,
            Wait::Anything => ResolveFlags::empty(),
        };
    let mut tries = TRIES;
    loop {
        tries -= 1;
        return match openat2(root, path, flags, Mode::empty(), resolve) {
            Ok(handle) => Found::of(handle).map_err(NotFound::Failed),
            Err(Errno::XDEV) => Err(NotFound::Elsewhere),
            // Older than 5.12 (no CACHED), or no answer in memory.
            Err(Errno::AGAIN | Errno::INVAL) if wait == Wait::Never => Err(NotFound::WouldWait),
            Err(Errno::AGAIN | Errno::INTR) if tries > 0 => continue,
            // Older than 5.6, or a sandbox that does not know the call.
            Err(Errno::NOSYS | Errno::PERM) => Err(NotFound::Elsewhere),
            Err(errno) => Err(NotFound::Failed(errno)),
        };
    }
}

/// Reads from the page cache. `None`: the bytes are not there, or this file system or this system cannot tell.
/// A plain read finds out what is wrong if something is.
///
/// Only for files on the served directory's own disk ([`is_own_disk`]): another file system might wait.
pub(crate) fn read_now(file: &File, buffer: &mut [u8], offset: u64) -> Option<io::Result<usize>> {
    let read = preadv2(file, &mut [IoSliceMut::new(buffer)], offset, ReadWriteFlags::NOWAIT);
    match read {
        Ok(n) => Some(Ok(n)),
        Err(Errno::OPNOTSUPP) if lies_in(file, &MEMORY) => Some(file.read_at(buffer, offset)),
        // Whatever else it is: no page, no such call, or a sandbox that refuses it (EPERM, EACCES).
        Err(_) => None,
    }
}

/// Whether a file system answers by itself, from memory or from a disk of this machine. On the others (NFS,
/// SMB, FUSE, 9P and whatever is not known here) any call may wait for a server that never answers.
pub(crate) fn is_own_disk(directory: BorrowedFd<'_>) -> bool {
    lies_in(directory, &MEMORY) || lies_in(directory, &DISKS)
}

fn lies_in(file: impl AsFd, file_systems: &[u64]) -> bool {
    // The field's width differs between processors, and its upper half may be a copied sign.
    fstatfs(file).is_ok_and(|found| file_systems.contains(&(found.f_type as u64 & 0xffff_ffff)))
}

/// `TMPFS_MAGIC` and `RAMFS_MAGIC` of `linux/magic.h`.
const MEMORY: [u64; 2] = [0x0102_1994, 0x8584_58f6];

/// The file systems of disks, by their magic numbers.
const DISKS: [u64; 20] = [
    0xef53,      // ext2, ext3, ext4
    0x5846_5342, // xfs
    0x9123_683e, // btrfs
    0x794c_7630, // overlayfs: its layers are taken to be disks
    0x2fc1_2fc1, // zfs
    0xca45_1a4e, // bcachefs
    0xf2f5_2010, // f2fs
    0x7371_7368, // squashfs
    0xe0f5_e1e2, // erofs
    0x28cd_3d45, // cramfs
    0x9660,      // iso9660
    0x1501_3346, // udf
    0x4d44,      // vfat
    0x2011_bab0, // exfat
    0x7366_746e, // ntfs3
    0x482b,      // hfsplus
    0x5265_4973, // reiserfs
    0x3153_464a, // jfs
    0x3434,      // nilfs2
    0x7275,      // romfs
];

#[cfg(test)]
mod tests {
    use super::*;

    /// Where there is no `/proc`, a file is opened by its name, and is the one that was found or none.
    #[test]
    fn opening_by_name_opens_nothing_else() {
        let dir = tempfile::TempDir::new().unwrap();
        let root = File::open(dir.path()).unwrap();
        let name = Path::new("file");
        std::fs::write(dir.path().join(name), "one").unwrap();
        let found = look_beneath(root.as_fd(), name, Wait::OwnDisk, Links::Inside).unwrap();
        found.open_by_name(root.as_fd(), name, Links::Inside).unwrap();
        std::fs::write(dir.path().join("next"), "two").unwrap();
        std::fs::rename(dir.path().join("next"), dir.path().join(name)).unwrap();
        let by_name = found.open_by_name(root.as_fd(), name, Links::Inside);
        assert_eq!(by_name.unwrap_err(), Errno::AGAIN);
        let opened = found.open(root.as_fd(), name, Links::Inside).unwrap();
        assert_eq!(std::io::read_to_string(opened).unwrap(), "one");
    }
}
