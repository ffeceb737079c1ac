//! The served tree: the one door through which files are opened.
//!
//! Invariant TREE-1: what is served lies beneath the served directory *at the moment it is looked at*.
//! It is not checked and then opened; the looking itself cannot leave, and what it found is what is opened.
//! Links that stay inside are followed, an absolute one too. ([`Links::Anywhere`] lifts this for symbolic links,
//! and for nothing else: no request names its way out.)
//!
//! Invariant TREE-2: a call with [`Wait::Never`] waits for nothing, and one with [`Wait::OwnDisk`] for nothing
//! but the disk of the served directory. So the former are for virtual processors. Three things see to it. A path is
//! resolved from memory (`RESOLVE_CACHED`), and stays on the file system of the served directory (`RESOLVE_NO_XDEV`).
//! That one is known to answer by itself ([`is_own_disk`]), or every call needs [`Wait::Anything`]. A link, a mounted
//! server, an automount: whatever the tree comes to hold
//! while it is served, these calls never touch it.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Dir, FileType, Mode, OFlags, openat};
use rustix::io::Errno;

use crate::platform::{Found, Links, NotFound, Wait, is_own_disk, look_beneath, walk};
use crate::target::can_be_asked_for;

/// A directory and everything beneath it, held open: renaming it does not change what is served.
#[derive(Debug)]
pub(crate) struct Tree {
    root: OwnedFd,
    /// Path of `root` without links, by which links that lead back inside are recognised.
    canonical: PathBuf,
    /// Whether `root` lies on a disk of this machine.
    is_own: bool,
    /// Whether names that begin with a dot are served.
    hidden: bool,
    links: Links,
}

/// The reason why something cannot be served.
#[derive(Debug)]
pub(crate) enum Refusal {
    /// The answer has to come from the disk: ask again with [`Wait::OwnDisk`].
    WouldWait,
    /// The answer has to come from elsewhere: ask again with [`Wait::Anything`].
    Elsewhere,
    /// There is no such thing.
    NotFound,
    /// It is not ours to show: it lies elsewhere, may not be read, or is neither file nor directory.
    Forbidden,
    /// Out of descriptors, or out of luck with renames, or too many wait already: later it may work.
    Busy,
    /// The file system has not answered in time.
    Late,
    /// The system failed.
    Failed(io::Error),
}

impl From<Errno> for Refusal {
    fn from(errno: Errno) -> Refusal {
        match errno {
            Errno::NOENT | Errno::NOTDIR | Errno::NAMETOOLONG => Refusal::NotFound,
            // A name that this file system cannot have: with a backslash on FAT, say.
            Errno::INVAL | Errno::ILSEQ => Refusal::NotFound,
            Errno::ACCESS | Errno::PERM | Errno::LOOP | Errno::XDEV => Refusal::Forbidden,
            // Sockets and devices without a driver.
            Errno::NXIO | Errno::NODEV => Refusal::Forbidden,
            Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::AGAIN | Errno::INTR => Refusal::Busy,
            Errno::TIMEDOUT => Refusal::Late,
            other => Refusal::Failed(other.into()),
        }
    }
}

impl From<NotFound> for Refusal {
    fn from(not_found: NotFound) -> Refusal {
        match not_found {
            NotFound::WouldWait => Refusal::WouldWait,
            NotFound::Elsewhere => Refusal::Elsewhere,
            NotFound::Failed(errno) => errno.into(),
        }
    }
}

/// The entry of a directory, as a scan finds it. In the order of a listing: directories first, then by name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Entry {
    /// Whether it is no directory, as its directory says: a link to a directory is none.
    pub(crate) is_no_directory: bool,
    pub(crate) name: OsString,
    /// Whether it may be a link, so that only a look can tell whether it is served.
    pub(crate) may_be_link: bool,
}

impl Tree {
    /// Opens the directory to serve; `hidden`: with names that begin with a dot.
    pub(crate) fn new(directory: &Path, hidden: bool, links: Links) -> io::Result<Tree> {
        let canonical = directory.canonicalize()?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::open(&canonical, flags, Mode::empty())?;
        let is_own = is_own_disk(root.as_fd());
        Ok(Tree { root, canonical, is_own, hidden, links })
    }

    /// Target of a relative path of ordinary names: a regular file or a directory.
    pub(crate) fn look(&self, path: &Path, wait: Wait) -> Result<Found, Refusal> {
        if wait != Wait::Anything && !self.is_own {
            return Err(Refusal::Elsewhere);
        }
        match look_beneath(self.root.as_fd(), path, wait, self.links) {
            Err(NotFound::Elsewhere) if wait == Wait::Anything => self.look_resolved(path),
            found => servable(found?),
        }
    }

    /// Opens the file that was found at `path`. Waits for whatever looking at it could have waited for.
    pub(crate) fn open(&self, found: &Found, path: &Path) -> Result<File, Refusal> {
        Ok(found.open(self.root.as_fd(), path, self.links)?)
    }

    /// Resolves the links first, then looks at the result following none, so that a link swapped in
    /// between is not followed either.
    fn look_resolved(&self, path: &Path) -> Result<Found, Refusal> {
        let resolved = self
            .canonical
            .join(path)
            .canonicalize()
            .map_err(|error| Errno::from_io_error(&error).map_or(Refusal::NotFound, Refusal::from))?;
        let found = match (resolved.strip_prefix(&self.canonical), self.links) {
            (Ok(inside), _) => walk::look(self.root.as_fd(), inside)?,
            (Err(_), Links::Inside) => return Err(Refusal::Forbidden),
            (Err(_), Links::Anywhere) => {
                let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
                let top = rustix::fs::open("/", flags, Mode::empty())?;
                walk::look(top.as_fd(), resolved.strip_prefix("/").unwrap_or(&resolved))?
            }
        };
        servable(found)
    }

    /// The shortest beginning of a path that leaves the served directory's file system. Never waits.
    pub(crate) fn way_out<'a>(&self, path: &'a Path) -> &'a Path {
        let mut beginnings: Vec<&Path> = path.ancestors().collect();
        beginnings.reverse();
        let stays = |path: &&&Path| self.look(path, Wait::Never).is_ok();
        beginnings.iter().find(|path| !stays(path)).unwrap_or(&path)
    }

    /// Entries of the directory at `path` behind a given one, in the order of a listing, that a request could name
    /// and get. Returns as many as fit in `room` bytes, and whether there are more.
    pub(crate) fn entries(
        &self,
        directory: &Found,
        path: &Path,
        after: Option<&Entry>,
        room: usize,
        wait: Wait,
    ) -> io::Result<(Vec<Entry>, bool)> {
        let mut first = First::new(room);
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let mut entries = Dir::new(openat(directory.as_directory(), ".", flags, Mode::empty())?)?;
        while let Some(entry) = entries.read() {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if name == b"." || name == b".." || !can_be_asked_for(path, name, self.hidden) {
                continue;
            }
            let name = OsString::from_vec(name.to_vec());
            let kind = match entry.file_type() {
                // The directory does not say: ask the entry itself, if that is quick.
                FileType::Unknown if wait == Wait::Anything => FileType::Symlink,
                FileType::Unknown => match directory.look_at_entry(Path::new(&name), wait) {
                    Ok(found) => found.kind,
                    Err(NotFound::Elsewhere) => FileType::Symlink,
                    Err(_) => continue,
                },
                kind => kind,
            };
            let entry = match kind {
                FileType::Directory | FileType::RegularFile | FileType::Symlink => Entry {
                    is_no_directory: kind != FileType::Directory,
                    name,
                    may_be_link: kind == FileType::Symlink,
                },
                _ => continue,
            };
            if after.is_none_or(|after| entry > *after) {
                first.insert(entry);
            }
        }
        Ok(first.into_sorted())
    }

    /// Kind of an entry of the directory at `path`, or of its target. With [`Refusal::Elsewhere`]: [`Tree::look`] at
    /// it,
    /// with [`Wait::Anything`].
    pub(crate) fn look_at_entry(
        &self,
        directory: &Found,
        path: &Path,
        name: &Path,
        wait: Wait,
    ) -> Result<Found, Refusal> {
        match directory.look_at_entry(name, wait) {
            // Through the same door as a request: nothing is said of a target that is outside.
            Ok(found) if found.kind == FileType::Symlink => self.look(&path.join(name), wait),
            found => Ok(found?),
        }
    }
}

/// Only files and directories are: pipes, sockets and devices are not even opened.
fn servable(found: Found) -> Result<Found, Refusal> {
    match found.kind {
        FileType::RegularFile | FileType::Directory => Ok(found),
        _ => Err(Refusal::Forbidden),
    }
}

/// The first of many entries, in a bounded room.
struct First {
    entries: std::collections::BinaryHeap<Entry>,
    used: usize,
    room: usize,
    more: bool,
}

impl First {
    /// Rough memory of an entry beside its name.
    const OVERHEAD: usize = 64;

    fn new(room: usize) -> First {
        First { entries: Default::default(), used: 0, room, more: false }
    }

    fn size(entry: &Entry) -> usize {
        First::OVERHEAD + entry.name.len()
    }

    fn insert(&mut self, entry: Entry) {
        // Once some had to go, those after the last that stayed would have had to go as well.
        if self.more && self.entries.peek().is_some_and(|last| entry > *last) {
            return;
        }
        self.used += First::size(&entry);
        self.entries.push(entry);
        while self.used > self.room && self.entries.len() > 1 {
            self.more = true;
            self.used -= self.entries.pop().map_or(0, |last| First::size(&last));
        }
    }

    fn into_sorted(self) -> (Vec<Entry>, bool) {
        (self.entries.into_sorted_vec(), self.more)
    }
}

#[cfg(test)]
mod tests;
