//! Small files that are kept in memory, for as long as they are what their paths lead to.
//!
//! Before a kept file is answered with, its path is looked at, which opens, reads and waits for nothing
//! ([`Wait::Never`](crate::platform::Wait)). If the look finds the same file, with the same length and times, the
//! kept bytes are the answer. They also answer the requests of a short while after it (`Config::kept_for`), since a
//! look costs a quarter of a request. The look stays beneath the served directory (TREE-1), so a file that was moved
//! out of it is not answered from memory. It also stays on the file system of the served directory. So only files of
//! this file system are kept, and only if its disk is this machine's (TREE-2).
//!
//! A file is kept only if it had been left alone for a while when it was read: a change
//! right afterwards might have the same time. So a kept file is as new as its entity tag, which is made of the same
//! [`Identity`]. A shared mapping changes a file without its time. The time is that of the first write to each clean
//! page, and later writes leave no trace. So what was read serves for
//! [`AGE`], and is then read again: no answer is older than that.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant, SystemTime};

use bytes::Bytes;
use quick_cache::sync::Cache;
use quick_cache::{OptionsBuilder, Weighter};

use crate::facts::Facts;
use crate::identity::Identity;

/// Time that the content which was read answers requests. Then it is read again.
const AGE: Duration = Duration::from_secs(1);
/// Rough memory of a file beside its bytes and its name.
const OVERHEAD: u64 = 1536;
/// A guess, to reserve room: the mean size of a file that is kept.
const TYPICAL: u64 = 16 * 1024;

/// The files that are kept, by path.
pub(crate) struct KeptFiles {
    /// `None`: nothing is.
    files: Option<Cache<Box<[u8]>, Arc<Kept>, Weight>>,
    /// Time that a look at a file is good for.
    good_for: Duration,
}

/// A kept file.
pub(crate) struct Kept {
    identity: Identity,
    /// Time just before it was read.
    read: Instant,
    /// Time when it was last found unchanged, in nanoseconds after it was read. Relaxed accesses suffice: what is
    /// read because of it was there before the file was kept.
    looked: AtomicU64,
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

impl Kept {
    /// Time since it was read; `None` if that is too long.
    fn age(&self, now: Instant) -> Option<Duration> {
        Some(now.saturating_duration_since(self.read)).filter(|age| *age < AGE)
    }
}

impl KeptFiles {
    /// Keeps at most this number of bytes; none with 0. A look at a file is good for so long.
    pub(crate) fn new(most: u64, good_for: Duration) -> KeptFiles {
        let options = OptionsBuilder::new()
            .estimated_items_capacity((most / TYPICAL) as usize)
            .weight_capacity(most)
            .build();
        let make = |options| Cache::with_options(options, Weight, Default::default(), Default::default());
        KeptFiles { files: options.ok().filter(|_| most > 0).map(make), good_for }
    }

    /// The kept file at `path`, if it was looked at a short while before `now`.
    pub(crate) fn fresh(&self, path: &Path, now: Instant) -> Option<Arc<Kept>> {
        let kept = self.files.as_ref()?.get(path.as_os_str().as_bytes())?;
        let looked = Duration::from_nanos(kept.looked.load(Relaxed));
        let is_fresh = kept.age(now)? < looked + self.good_for;
        is_fresh.then_some(kept)
    }

    /// The kept file at `path`, if it is the one that was found now.
    pub(crate) fn find(&self, path: &Path, identity: &Identity, now: Instant) -> Option<Arc<Kept>> {
        let files = self.files.as_ref()?;
        let key = path.as_os_str().as_bytes();
        let kept = files.get(key)?;
        match kept.age(now) {
            Some(age) if kept.identity == *identity => {
                // `AGE` in nanoseconds fits many times over.
                kept.looked.fetch_max(age.as_nanos() as u64, Relaxed);
                Some(kept)
            }
            _ => {
                files.remove(key);
                None
            }
        }
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
                Arc::new(Kept {
                    identity,
                    read: began,
                    looked: AtomicU64::new(0),
                    facts: facts.clone(),
                    bytes,
                }),
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identity::tests::SOME;

    const GOOD_FOR: Duration = Duration::from_millis(100);

    /// A file that was read at `began`.
    fn kept(most: u64, content: &[u8], began: Instant) -> KeptFiles {
        let files = KeptFiles::new(most, GOOD_FOR);
        let now = SystemTime::now();
        let facts = Facts::new(Path::new("file"), &SOME, now);
        files.keep(Path::new("file"), SOME, (now, began), &facts, content);
        files
    }

    fn found(files: &KeptFiles, identity: &Identity, now: Instant) -> Option<Bytes> {
        files.find(Path::new("file"), identity, now).map(|kept| kept.bytes.clone())
    }

    #[test]
    fn a_file_that_stays_is_found_until_it_is_old() {
        let began = Instant::now();
        let files = kept(1 << 20, b"old", began);
        for part in 0..3 {
            assert_eq!(found(&files, &SOME, began + AGE / 4 * part).as_deref(), Some(&b"old"[..]));
        }
        assert!(files.find(Path::new("other"), &SOME, began).is_none());
        assert_eq!(found(&files, &SOME, began + AGE), None);
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
            let began = Instant::now();
            let files = kept(1 << 20, b"old", began);
            assert_eq!(found(&files, &changed, began), None, "{changed:?}");
            assert!(files.fresh(Path::new("file"), began).is_none(), "it is kept no longer");
        }
    }

    /// A look is good for a while, and a file that is never looked at again is not answered with.
    #[test]
    fn a_look_is_good_for_a_while() {
        let began = Instant::now();
        let files = kept(1 << 20, b"old", began);
        let is_fresh = |now| files.fresh(Path::new("file"), now).is_some();
        let moment = Duration::from_nanos(1);
        assert!(is_fresh(began) && is_fresh(began + GOOD_FOR - moment) && !is_fresh(began + GOOD_FOR));
        assert!(found(&files, &SOME, began + GOOD_FOR).is_some());
        assert!(is_fresh(began + 2 * GOOD_FOR - moment) && !is_fresh(began + 2 * GOOD_FOR));
        // However often it is looked at, it is read again in the end.
        assert!(found(&files, &SOME, began + AGE - moment).is_some());
        assert!(is_fresh(began + AGE - moment) && !is_fresh(began + AGE));
    }

    #[test]
    fn nothing_is_kept_without_room() {
        let began = Instant::now();
        for files in [kept(0, b"old", began), kept(4096, &[0; 8192], began)] {
            assert_eq!(found(&files, &SOME, began), None);
        }
    }

    #[test]
    fn what_has_just_changed_is_not_kept() {
        let (files, began) = (KeptFiles::new(1 << 20, GOOD_FOR), Instant::now());
        let now = SystemTime::now();
        let seconds = now.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs() as i64;
        let young = Identity { changed: (seconds - 1, 0), ..SOME };
        let facts = Facts::new(Path::new("file"), &young, now);
        files.keep(Path::new("file"), young, (now, began), &facts, b"new");
        assert_eq!(found(&files, &young, began), None);
    }
}
