//! The facade to what differs between systems: looking beneath a directory, opening what was found, and
//! reading without waiting for a disk. The only folder of the crate with `cfg` on systems.
//!
//! A path is *looked at* first ([`Found`]) and opened afterwards. To open a named pipe lets its writer go on, and to
//! open a device can do anything. So neither is opened in order to learn its kind.

pub(crate) mod walk;

#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "linux")]
pub(crate) use linux::{Found, is_own_disk, look_beneath, read_now};

#[cfg(not(target_os = "linux"))]
mod other;
#[cfg(not(target_os = "linux"))]
pub(crate) use other::{Found, is_own_disk, look_beneath, read_now};

use rustix::fs::{FileType, Stat};
use rustix::io::Errno;

/// Waits that a call may make.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wait {
    /// Nothing: only what memory holds of the served directory's own file system.
    /// Otherwise [`NotFound::WouldWait`] or [`NotFound::Elsewhere`].
    Never,
    /// The disk of that file system, and no other: whatever lies on another is [`NotFound::Elsewhere`].
    OwnDisk,
    /// Anything, a server that no longer answers included.
    Anything,
}

/// The places to which symbolic links may lead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Links {
    /// Places beneath the served directory.
    Inside,
    /// Anywhere.
    Anywhere,
}

/// The reason why [`look_beneath`] found nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NotFound {
    /// The answer is not in memory: ask again with [`Wait::OwnDisk`].
    #[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "there is no way to ask"))]
    WouldWait,
    /// The path leads to another file system, or passes through a symbolic link that this call does not
    /// follow. The link may still lead to a place beneath the directory: [`walk`] can tell.
    Elsewhere,
    /// The system said no.
    Failed(Errno),
}

fn kind(stat: &Stat) -> FileType {
    FileType::from_raw_mode(stat.st_mode)
}
