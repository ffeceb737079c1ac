//! How much one process may ask of another at a time.
//!
//! Both count. The caller counts a request from before it is sent until its answer has come, the server from its arrival
//! until before its answer is sent: so what is within the caller's bound is within the server's, and whoever is over that
//! has not counted.

use crate::engine::Peer;

/// So many requests of a process, with so many bytes, may be under way to another one. A single one may be longer.
/// (Who waits for a thread's end has one under way.)
pub(super) const MOST_REQUESTS: u32 = 1 << 14;
pub(super) const MOST_BYTES: u64 = 4 << 20;

/// The requests that are under way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Load {
    requests: u32,
    bytes: u64,
}

impl Load {
    /// One more of that length. False: there is no room for it.
    #[must_use]
    pub(super) fn add(&mut self, bytes: usize) -> bool {
        let bytes = bytes as u64;
        let has_room = self.requests == 0
            || self.requests < MOST_REQUESTS && self.bytes.saturating_add(bytes) <= MOST_BYTES;
        if has_room {
            self.requests += 1;
            self.bytes += bytes;
        }
        has_room
    }

    /// One of that length, which was added, has ended.
    pub(super) fn remove(&mut self, bytes: usize) {
        self.requests -= 1;
        self.bytes -= bytes as u64;
    }
}

/// The loads of all processes, `N` of each, by their numbers: those are few, and follow each other.
#[derive(Debug)]
pub(super) struct Loads<const N: usize>(Vec<[Load; N]>);

impl<const N: usize> Default for Loads<N> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<const N: usize> Loads<N> {
    /// One of a process that there is.
    pub(super) fn of(&mut self, peer: Peer, which: usize) -> &mut Load {
        let at = peer.0 as usize;
        if at >= self.0.len() {
            self.0.resize(at + 1, [Load::default(); N]);
        }
        &mut self.0[at][which]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_load_is_bounded() {
        let mut load = Load::default();
        assert!(load.add(usize::MAX >> 1), "one alone may be longer");
        assert!(!load.add(0));
        load.remove(usize::MAX >> 1);
        (0..MOST_REQUESTS).for_each(|_| assert!(load.add(256)));
        assert!(!load.add(0));
        load.remove(256);
        assert!(!load.add(257), "over the bytes");
        assert!(load.add(256));
    }
}
