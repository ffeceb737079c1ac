//! The served tree: the one door through which files are opened.
//!
//! Invariant TREE-1: what is opened lies beneath the served directory *at the moment it is opened*.
//! It is not checked and then opened; the opening itself cannot leave. Links that stay inside are
//! followed, an absolute one too.

use std::ffi::OsString;
use std::fs::{File, Metadata};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, statat};
use rustix::io::Errno;

use crate::clock::unix_seconds;
use crate::kept::Identity;
use crate::listing::{MOST_ROWS, Row};
use crate::platform::{NotOpened, Wait, open_beneath, walk};
use crate::target::can_be_asked_for;

/// A directory and everything beneath it, held open: renaming it does not change what is served.
#[derive(Debug)]
pub(crate) struct Tree {
    root: OwnedFd,
    /// Where `root` was, without links: to recognise links that lead back inside.
    canonical: PathBuf,
}

/// Something that can be served.
#[derive(Debug)]
pub(crate) enum Node {
    /// A regular file.
    File(File, Metadata),
    /// A directory.
    Directory(OwnedFd),
}

/// Why something cannot be served.
#[derive(Debug)]
pub(crate) enum Refusal {
    /// The answer has to come from a disk: ask again with [`Wait::Allowed`].
    WouldWait,
    /// There is no such thing.
    NotFound,
    /// It is not ours to show: it lies elsewhere, may not be read, or is neither file nor directory.
    Forbidden,
    /// Out of descriptors, or out of luck with renames: later it may work.
    Busy,
    /// The system failed.
    Failed(io::Error),
}

impl From<Errno> for Refusal {
    fn from(errno: Errno) -> Refusal {
        match errno {
            Errno::NOENT | Errno::NOTDIR | Errno::NAMETOOLONG => Refusal::NotFound,
            Errno::ACCESS | Errno::PERM | Errno::LOOP | Errno::XDEV => Refusal::Forbidden,
            // Sockets and devices without a driver.
            Errno::NXIO | Errno::NODEV => Refusal::Forbidden,
            Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::AGAIN | Errno::INTR => Refusal::Busy,
            other => Refusal::Failed(other.into()),
        }
    }
}

impl Tree {
    /// Opens the directory to serve.
    pub(crate) fn new(directory: &Path) -> io::Result<Tree> {
        let canonical = directory.canonicalize()?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::open(&canonical, flags, Mode::empty())?;
        Ok(Tree { root, canonical })
    }

    /// Opens what a relative path of ordinary names leads to.
    pub(crate) fn open(&self, path: &Path, wait: Wait) -> Result<Node, Refusal> {
        let fd = match open_beneath(self.root.as_fd(), path, wait) {
            Ok(fd) => fd,
            Err(NotOpened::WouldWait) => return Err(Refusal::WouldWait),
            Err(NotOpened::Elsewhere) if wait == Wait::Never => {
                return Err(Refusal::WouldWait);
            }
            Err(NotOpened::Elsewhere) => self.open_resolved(path)?,
            Err(NotOpened::Failed(errno)) => return Err(errno.into()),
        };
        let file = File::from(fd);
        let metadata = file.metadata().map_err(Refusal::Failed)?;
        if metadata.is_file() {
            Ok(Node::File(file, metadata))
        } else if metadata.is_dir() {
            Ok(Node::Directory(file.into()))
        } else {
            Err(Refusal::Forbidden)
        }
    }

    /// What a relative path leads to now, without opening it. Says nothing of whether that lies beneath the
    /// served directory.
    pub(crate) fn look(&self, path: &Path) -> Option<Identity> {
        statat(&self.root, path, AtFlags::empty()).ok().map(|stat| Identity::of_stat(&stat))
    }

    /// Resolves the links first, then opens the result following none, so that a link swapped in
    /// between is not followed either.
    fn open_resolved(&self, path: &Path) -> Result<OwnedFd, Refusal> {
        let resolved = self
            .canonical
            .join(path)
            .canonicalize()
            .map_err(|error| Errno::from_io_error(&error).map_or(Refusal::NotFound, Refusal::from))?;
        let inside = resolved.strip_prefix(&self.canonical).map_err(|_| Refusal::Forbidden)?;
        Ok(walk::open(self.root.as_fd(), inside)?)
    }

    /// The entries of an opened directory that a request could name and would be served; and whether
    /// there were more than a page holds. `path` is where it lies. Waits for the disk.
    pub(crate) fn rows(&self, directory: OwnedFd, path: &Path) -> io::Result<(Vec<Row>, bool)> {
        let mut rows = Vec::new();
        let mut entries = Dir::new(directory)?;
        while let Some(entry) = entries.read() {
            let entry = entry?;
            let name = entry.file_name();
            if matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            let Ok(stat) = statat(entries.fd()?, name, AtFlags::SYMLINK_NOFOLLOW) else {
                continue; // removed meanwhile
            };
            let name = OsString::from_vec(name.to_bytes().to_vec());
            if !can_be_asked_for(Path::new(&name)) {
                continue;
            }
            #[allow(clippy::unnecessary_cast, reason = "the fields differ between systems")]
            let row = match FileType::from_raw_mode(stat.st_mode) {
                FileType::RegularFile => {
                    let (len, modified) = (Some(stat.st_size as u64), stat.st_mtime as i64);
                    Row { name, len, modified }
                }
                FileType::Directory => Row { name, len: None, modified: stat.st_mtime as i64 },
                // Through the same door as a request: nothing is said of a target that is outside.
                FileType::Symlink => match self.open(&path.join(&name), Wait::Allowed) {
                    Ok(Node::File(_, metadata)) => Row {
                        name,
                        len: Some(metadata.len()),
                        modified: metadata.modified().map_or(0, unix_seconds),
                    },
                    Ok(Node::Directory(_)) => Row { name, len: None, modified: stat.st_mtime as i64 },
                    Err(_) => continue,
                },
                _ => continue,
            };
            if rows.len() == MOST_ROWS {
                return Ok((rows, true));
            }
            rows.push(row);
        }
        Ok((rows, false))
    }
}

#[cfg(test)]
mod tests;
