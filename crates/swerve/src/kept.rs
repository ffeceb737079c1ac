//! Small files that are kept in memory, for as long as they are what their paths lead to.
//!
//! Each request looks at its path, with one call (`fstatat`) instead of the four that open, look, read and close.
//! If that finds the file that was read, with the length and the times that it had then, what was read
//! is the answer. A file is kept only if it had been left alone for a while when it was read: a change
//! right afterwards might have the same time. So a kept file is as new as its entity tag, which is made of length and
//! time as well. What changes a file behind the system's back (a shared mapping whose pages are
//! dirty already) shows in both when the system notices.
//!
//! Invariant TREE-1 holds: what is kept was opened beneath the served directory, and nothing else
//! is ever answered with.

use std::fs::Metadata;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use quick_cache::sync::Cache;
use quick_cache::{OptionsBuilder, Weighter};

use crate::facts::Facts;
use crate::tree::Tree;

/// How long a file must have been left alone when it is read. File systems have clocks of up to two
/// seconds a tick.
const QUIET: Duration = Duration::from_secs(2);
/// What a file takes beside its bytes and its name, roughly.
const OVERHEAD: u64 = 1536;
/// A guess, to reserve room: the mean size of a file that is kept.
const TYPICAL: u64 = 16 * 1024;

/// The files that are kept, by path.
pub(crate) struct KeptFiles {
    /// `None`: nothing is.
    files: Option<Cache<Box<[u8]>, Arc<Kept>, Weight>>,
}

/// One of them.
pub(crate) struct Kept {
    identity: Identity,
    pub(crate) facts: Facts,
    pub(crate) bytes: Bytes,
}

/// What tells a file, and a version of it, from all others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Identity {
    device: u64,
    inode: u64,
    len: u64,
    /// Seconds and nanoseconds: when its contents changed, and when anything of it did.
    modified: (i64, i64),
    changed: (i64, i64),
}

#[derive(Clone)]
struct Weight;

impl Weighter<Box<[u8]>, Arc<Kept>> for Weight {
    fn weight(&self, path: &Box<[u8]>, kept: &Arc<Kept>) -> u64 {
        OVERHEAD + path.len() as u64 + kept.bytes.len() as u64
    }
}

impl Identity {
    #[allow(clippy::unnecessary_cast, reason = "the fields differ between systems")]
    pub(crate) fn of_stat(stat: &rustix::fs::Stat) -> Identity {
        Identity {
            device: stat.st_dev as u64,
            inode: stat.st_ino as u64,
            len: stat.st_size as u64,
            modified: (stat.st_mtime as i64, stat.st_mtime_nsec as i64),
            changed: (stat.st_ctime as i64, stat.st_ctime_nsec as i64),
        }
    }

    fn of(metadata: &Metadata) -> Identity {
        Identity {
            device: metadata.dev(),
            inode: metadata.ino(),
            len: metadata.len(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }

    /// Whether the file had been left alone for a while at `now`.
    fn was_quiet(&self, now: SystemTime) -> bool {
        let now = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs() as i64;
        self.modified.0.max(self.changed.0) + (QUIET.as_secs() as i64) < now
    }
}

impl KeptFiles {
    /// Keeps at most so many bytes; none with 0.
    pub(crate) fn new(most: u64) -> KeptFiles {
        let options = OptionsBuilder::new()
            .estimated_items_capacity((most / TYPICAL) as usize)
            .weight_capacity(most)
            .build();
        let make = |options| Cache::with_options(options, Weight, Default::default(), Default::default());
        KeptFiles { files: options.ok().filter(|_| most > 0).map(make) }
    }

    /// What is kept of the file that `path` leads to now.
    pub(crate) fn find(&self, tree: &Tree, path: &Path) -> Option<Arc<Kept>> {
        let files = self.files.as_ref()?;
        let key = path.as_os_str().as_bytes();
        let kept = files.get(key)?;
        if tree.look(path) == Some(kept.identity) {
            return Some(kept);
        }
        files.remove(key);
        None
    }

    /// Keeps all the `bytes` of the file at `path`, which had this `metadata` before they were read, at `now`.
    pub(crate) fn keep(
        &self,
        path: &Path,
        metadata: &Metadata,
        now: SystemTime,
        facts: &Facts,
        bytes: &[u8],
    ) {
        let identity = Identity::of(metadata);
        if let Some(files) = self.files.as_ref().filter(|_| identity.was_quiet(now)) {
            // Of its own size: buffers are lent, and are larger.
            let bytes = Bytes::copy_from_slice(bytes);
            files.insert(
                path.as_os_str().as_bytes().into(),
                Arc::new(Kept { identity, facts: facts.clone(), bytes }),
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_just_changed_is_not_quiet() {
        let at = |seconds| UNIX_EPOCH + Duration::from_secs(seconds);
        let identity = |modified, changed| Identity {
            device: 1,
            inode: 1,
            len: 1,
            modified: (modified, 999_999_999),
            changed: (changed, 0),
        };
        assert!(identity(100, 100).was_quiet(at(103)));
        assert!(!identity(100, 100).was_quiet(at(102)));
        assert!(!identity(100, 102).was_quiet(at(103)), "renamed, say");
        assert!(!identity(200, 100).was_quiet(at(103)), "from the future");
    }

    /// A file that was old when it was kept.
    fn kept(most: u64, content: &[u8]) -> (tempfile::TempDir, Tree, KeptFiles) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        std::fs::write(&path, content).unwrap();
        let files = KeptFiles::new(most);
        let later = SystemTime::now() + Duration::from_secs(10);
        let metadata = path.metadata().unwrap();
        let facts = Facts::new(&path, metadata.len(), metadata.modified().ok(), later);
        files.keep(Path::new("file"), &metadata, later, &facts, content);
        // The clock of the file system has to tick before a change can be seen.
        std::thread::sleep(Duration::from_millis(30));
        let tree = Tree::new(directory.path()).unwrap();
        (directory, tree, files)
    }

    fn found(files: &KeptFiles, tree: &Tree) -> Option<Bytes> {
        files.find(tree, Path::new("file")).map(|kept| kept.bytes.clone())
    }

    #[test]
    fn a_file_that_stays_is_found() {
        let (_directory, tree, files) = kept(1 << 20, b"old");
        for _ in 0..3 {
            assert_eq!(found(&files, &tree).as_deref(), Some(&b"old"[..]));
        }
        assert!(files.find(&tree, Path::new("other")).is_none());
    }

    #[test]
    fn a_change_is_seen() {
        use std::fs;
        type Change = fn(&Path);
        let changes: [(&str, Change); 5] = [
            ("written", |path| fs::write(path, b"new").unwrap()),
            ("written, and dated back", |path| {
                let before = path.metadata().unwrap().modified().unwrap();
                fs::write(path, b"new").unwrap();
                fs::File::options().write(true).open(path).unwrap().set_modified(before).unwrap();
            }),
            ("replaced", |path| {
                fs::write(path.with_extension("next"), b"new").unwrap();
                fs::rename(path.with_extension("next"), path).unwrap();
            }),
            ("removed", |path| fs::remove_file(path).unwrap()),
            ("a link elsewhere", |path| {
                fs::remove_file(path).unwrap();
                std::os::unix::fs::symlink("/etc/passwd", path).unwrap();
            }),
        ];
        for (name, change) in changes {
            let (directory, tree, files) = kept(1 << 20, b"old");
            change(&directory.path().join("file"));
            assert_eq!(found(&files, &tree), None, "{name}");
        }
    }

    #[test]
    fn nothing_is_kept_without_room() {
        let (_directory, tree, files) = kept(0, b"old");
        assert_eq!(found(&files, &tree), None);
        let (_directory, tree, files) = kept(4096, &[0; 8192]);
        assert_eq!(found(&files, &tree), None);
    }
}
