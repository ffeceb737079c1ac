//! Pollers: where a virtual processor learns which of its sockets are ready, and where it sleeps.
//!
//! Every poller is edge-triggered and has the same shape: `add` and `delete` sockets, `wait` for what
//! happens to them, `notify` to end a wait or the next one. This is the only place of the folder that
//! differs between systems:
//!
//! - `epoll` (Linux) makes one system call a wait;
//! - `portable` (elsewhere) is the crate `polling`;
//! - `asleep` (under Miri) watches nothing.

#[cfg(miri)]
mod asleep;
#[cfg(all(target_os = "linux", not(miri)))]
mod epoll;
#[cfg(not(any(target_os = "linux", miri)))]
mod portable;

#[cfg(miri)]
pub(super) use asleep::{Events, Poller};
#[cfg(all(target_os = "linux", not(miri)))]
pub(super) use epoll::{Events, Poller};
#[cfg(not(any(target_os = "linux", miri)))]
pub(super) use portable::{Events, Poller};

/// Readiness of one socket.
#[cfg_attr(miri, allow(dead_code, reason = "nothing happens"))]
#[derive(Clone, Copy, Debug)]
pub(super) struct Happening {
    /// The key that it was added under.
    pub(super) key: usize,
    pub(super) readable: bool,
    pub(super) writable: bool,
    /// A read that takes less than it has room for may leave something behind, and no further edge tells of it. It
    /// may be the end (the other side is shut), an error, or the bytes behind urgent data. (A read stops at
    /// urgent data.) A poller that cannot know says `true`.
    pub(super) outlasts_short_read: bool,
}

#[cfg(all(test, not(loom)))]
mod tests;
