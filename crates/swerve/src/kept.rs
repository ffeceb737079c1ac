//! Small files that are kept in memory, for as long as they are what their paths lead to.
//!
//! Each request looks at its path, which opens, reads and waits for nothing ([`Wait::Never`](crate::platform::Wait)).
//! If that finds the file that was read, with the length and the times that it had then, what was read
//! is the answer. The look stays beneath the served directory (TREE-1), so a file that was moved out of it
//! is not answered from memory either; and on the file system of the served directory, so only files of that
//! one are kept, and only if its disk is this machine's (TREE-2).
//!
//! A file is kept only if it had been left alone for a while when it was read: a change
//! right afterwards might have the same time. So a kept file is as new as its entity tag, which is made of the same
//! [`Identity`]. What changes a file without its time is a shared mapping: the time is that of
//! the first write to each clean page, and later writes to it show in nothing. So what was read serves for
//! [`AGE`], and is then read again: no answer is older than that.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use bytes::Bytes;
use quick_cache::sync::Cache;
use quick_cache::{OptionsBuilder, Weighter};

use crate::facts::Facts;
use crate::identity::Identity;

/// How long what was read is answered with before it is read again.
const AGE: Duration = Duration::from_secs(1);
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
    /// Before it was read.
    read: Instant,
    pub(crate) facts: Facts,
    pub(crate) bytes: Bytes,
}

#[derive(Clone)]
struct Weight;

impl Weighter<Box<[u8]>, Arc<Kept>> for Weight {
    fn weight(&self, path: &Box<[u8]>, kept: &Arc<Kept>) -> u64 {
        OVERHEAD + path.len() as u64 + kept.bytes.len() as u64
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

    /// What is kept of the file at `path`, which was found to be this one.
    pub(crate) fn find(&self, path: &Path, identity: &Identity) -> Option<Arc<Kept>> {
        let files = self.files.as_ref()?;
        let key = path.as_os_str().as_bytes();
        let kept = files.get(key)?;
        if kept.identity == *identity && kept.read.elapsed() < AGE {
            return Some(kept);
        }
        files.remove(key);
        None
    }

    /// Keeps all the `bytes` of the file at `path`, which was this one before they were read. That was
    /// not before `began`, which is `now` of another clock.
    pub(crate) fn keep(
        &self,
        path: &Path,
        identity: Identity,
        (now, began): (SystemTime, Instant),
        facts: &Facts,
        bytes: &[u8],
    ) {
        if let Some(files) = self.files.as_ref().filter(|_| identity.was_quiet(now)) {
            // Of its own size: buffers are lent, and are larger.
            let bytes = Bytes::copy_from_slice(bytes);
            files.insert(
                path.as_os_str().as_bytes().into(),
                Arc::new(Kept { identity, read: began, facts: facts.clone(), bytes }),
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identity::tests::SOME;

    /// A file that was read so long ago.
    fn kept(most: u64, content: &[u8], age: Duration) -> KeptFiles {
        let files = KeptFiles::new(most);
        let later = SystemTime::now();
        let began = Instant::now().checked_sub(age).unwrap();
        let facts = Facts::new(Path::new("file"), &SOME, later);
        files.keep(Path::new("file"), SOME, (later, began), &facts, content);
        files
    }

    fn found(files: &KeptFiles, identity: &Identity) -> Option<Bytes> {
        files.find(Path::new("file"), identity).map(|kept| kept.bytes.clone())
    }

    #[test]
    fn a_file_that_stays_is_found() {
        // As if it had been read in an hour: the test may take long.
        let files = KeptFiles::new(1 << 20);
        let later = (SystemTime::now(), Instant::now() + Duration::from_secs(3600));
        files.keep(Path::new("file"), SOME, later, &Facts::new(Path::new("file"), &SOME, later.0), b"old");
        for _ in 0..3 {
            assert_eq!(found(&files, &SOME).as_deref(), Some(&b"old"[..]));
        }
        assert!(files.find(Path::new("other"), &SOME).is_none());
    }

    #[test]
    fn what_is_old_is_read_again() {
        assert_eq!(found(&kept(1 << 20, b"old", AGE), &SOME), None);
    }

    #[test]
    fn any_change_is_seen() {
        for changed in [
            Identity { device: 9, ..SOME },
            Identity { inode: 9, ..SOME },
            Identity { len: 9, ..SOME },
            Identity { modified: (100, 6), ..SOME },
            Identity { changed: (100, 6), ..SOME },
        ] {
            assert_eq!(found(&kept(1 << 20, b"old", Duration::ZERO), &changed), None, "{changed:?}");
        }
    }

    #[test]
    fn nothing_is_kept_without_room() {
        assert_eq!(found(&kept(0, b"old", Duration::ZERO), &SOME), None);
        assert_eq!(found(&kept(4096, &[0; 8192], Duration::ZERO), &SOME), None);
    }

    #[test]
    fn what_has_just_changed_is_not_kept() {
        let files = KeptFiles::new(1 << 20);
        let now = SystemTime::now();
        let seconds = now.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs() as i64;
        let young = Identity { changed: (seconds - 1, 0), ..SOME };
        let facts = Facts::new(Path::new("file"), &young, now);
        files.keep(
            Path::new("file"),
            young,
            (now, Instant::now() + Duration::from_secs(3600)),
            &facts,
            b"new",
        );
        assert_eq!(found(&files, &young), None);
    }
}
