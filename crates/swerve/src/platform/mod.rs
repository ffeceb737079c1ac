//! The facade to what differs between systems: opening beneath a directory, and reading without
//! waiting for a disk. The only folder of the crate with `cfg` on systems.

pub(crate) mod walk;

#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "linux")]
pub(crate) use linux::{open_beneath, read_now};

#[cfg(not(target_os = "linux"))]
mod other;
#[cfg(not(target_os = "linux"))]
pub(crate) use other::{open_beneath, read_now};

use rustix::io::Errno;

/// Whether a call may wait for a disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wait {
    /// Only what memory holds; otherwise [`NotOpened::WouldWait`].
    Never,
    /// As long as it takes.
    Allowed,
}

/// Why [`open_beneath`] opened nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NotOpened {
    /// The answer is not in memory: ask again with [`Wait::Allowed`].
    WouldWait,
    /// The path passes through a symbolic link that this call does not follow. The link may still
    /// lead to a place beneath the directory: [`walk`] can tell.
    Elsewhere,
    /// The system said no.
    Failed(Errno),
}
