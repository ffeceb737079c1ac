//! Identities of files, and of their versions.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Time without a change after which a file is called quiet. File systems have clocks of up to two
/// seconds a tick, and a change within the tick of the one before has the same time.
pub(crate) const QUIET: Duration = Duration::from_secs(2);

/// A version of a file. Entity tags are made of it, and what is kept in memory is known by it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) device: u64,
    pub(crate) inode: u64,
    pub(crate) len: u64,
    /// Seconds and nanoseconds: when its contents changed. Anybody who may write the file can set it.
    pub(crate) modified: (i64, i64),
    /// Time of the last change of anything of the file, its other time included. Nobody can set it.
    pub(crate) changed: (i64, i64),
}

impl Identity {
    #[allow(clippy::unnecessary_cast, reason = "the fields differ between systems")]
    pub(crate) fn of(stat: &rustix::fs::Stat) -> Identity {
        Identity {
            device: stat.st_dev as u64,
            inode: stat.st_ino as u64,
            len: stat.st_size as u64,
            modified: (stat.st_mtime as i64, stat.st_mtime_nsec as i64),
            changed: (stat.st_ctime as i64, stat.st_ctime_nsec as i64),
        }
    }

    /// Time of the last change of its contents; `None` before 1970.
    pub(crate) fn modified(&self) -> Option<SystemTime> {
        let seconds = u64::try_from(self.modified.0).ok()?;
        UNIX_EPOCH.checked_add(Duration::new(seconds, self.modified.1 as u32))
    }

    /// Whether the file had been left alone for a while at `now`.
    pub(crate) fn was_quiet(&self, now: SystemTime) -> bool {
        let now = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs() as i64;
        self.modified.0.max(self.changed.0).saturating_add(QUIET.as_secs() as i64) < now
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A version of some file.
    pub(crate) const SOME: Identity =
        Identity { device: 1, inode: 2, len: 10, modified: (100, 5), changed: (100, 5) };

    #[test]
    fn what_has_just_changed_is_not_quiet() {
        let at = |seconds| UNIX_EPOCH + Duration::from_secs(seconds);
        let identity =
            |modified, changed| Identity { modified: (modified, 999_999_999), changed: (changed, 0), ..SOME };
        assert!(identity(100, 100).was_quiet(at(103)));
        assert!(!identity(100, 100).was_quiet(at(102)));
        assert!(!identity(100, 102).was_quiet(at(103)), "renamed, say");
        assert!(!identity(200, 100).was_quiet(at(103)), "from the future");
    }
}
