//! The limits on requests of one process to another at a time.
//!
//! Both processes count. The caller counts a request from before it is sent until its answer has arrived. The server
//! counts it from its arrival until before its answer is sent. So requests within the caller's bound are within the
//! server's, and a process over the bound has not counted.

use crate::engine::ProcessId;

/// Requests of a process that may be under way to another one, and their bytes. A request that is longer than all these bytes is *long*. One long
/// request may be under way beside the others. (A thread that waits for the end of another one has a request under way.)
pub(super) const MOST_REQUESTS: u32 = 1 << 14;
pub(super) const MOST_BYTES: u64 = 4 << 20;

/// The requests that are under way.
///
/// Room depends on the set of requests that are under way, not on their order. Where there is room beside a set, there is
/// room beside each part of it. The server's set is a part of the caller's. So the server has room for each request that the caller lets go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Load {
    requests: u32,
    /// Bytes of the requests that are not long.
    bytes: u64,
    has_long: bool,
}

/// Whether a request of that many bytes is long.
fn is_long(bytes: u64) -> bool {
    bytes > MOST_BYTES
}

impl Load {
    /// Adds a request of `bytes` bytes. False if there is no room for it.
    #[must_use]
    pub(super) fn add(&mut self, bytes: usize) -> bool {
        let bytes = bytes as u64;
        let has_room = self.requests < MOST_REQUESTS
            && if is_long(bytes) { !self.has_long } else { self.bytes + bytes <= MOST_BYTES };
        if has_room {
            self.requests += 1;
            if is_long(bytes) {
                self.has_long = true;
            } else {
                self.bytes += bytes;
            }
        }
        has_room
    }

    /// Removes a request of `bytes` bytes that was added and has ended.
    pub(super) fn remove(&mut self, bytes: usize) {
        let bytes = bytes as u64;
        self.requests -= 1;
        if is_long(bytes) {
            self.has_long = false;
        } else {
            self.bytes -= bytes;
        }
    }
}

/// The loads of all processes, `N` of each, indexed by their numbers, which are few and consecutive.
#[derive(Debug)]
pub(super) struct Loads<const N: usize>(Vec<[Load; N]>);

impl<const N: usize> Default for Loads<N> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<const N: usize> Loads<N> {
    /// A load of an existing process.
    pub(super) fn of(&mut self, peer: ProcessId, which: usize) -> &mut Load {
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
        (0..MOST_REQUESTS - 2).for_each(|_| assert!(load.add(256)));
        assert!(!load.add(MOST_BYTES as usize), "over the bytes");
        assert!(load.add(512) && !load.add(1), "over the bytes");
        assert!(load.add(0));
        assert!(!load.add(0), "over the requests");
    }

    /// One long request goes beside others. An object that moves has a lease under way, and that request never ends.
    #[test]
    fn a_long_one_goes_beside_others() {
        let mut load = Load::default();
        assert!(load.add(8));
        assert!(load.add(usize::MAX >> 1), "beside others");
        assert!(!load.add(MOST_BYTES as usize + 1), "one at a time");
        assert!(load.add(MOST_BYTES as usize - 8), "others go on");
        assert!(!load.add(1));
        load.remove(usize::MAX >> 1);
        assert!(load.add(MOST_BYTES as usize + 1));
    }

    /// With any set that one side lets in, the other side lets in each part of it, in any order.
    #[test]
    fn the_order_does_not_count() {
        let lengths =
            [1, MOST_BYTES as usize / 2, MOST_BYTES as usize + 1, 8 << 20, MOST_BYTES as usize / 2 - 1];
        let orders = (0..5_usize.pow(5)).map(|mut n| {
            std::array::from_fn::<usize, 5, _>(|_| {
                let digit = n % 5;
                n /= 5;
                digit
            })
        });
        for order in orders {
            let mut caller = Load::default();
            let let_in: Vec<usize> =
                order.into_iter().map(|at| lengths[at]).filter(|bytes| caller.add(*bytes)).collect();
            for skipped in 0..=let_in.len() {
                let mut server = Load::default();
                let some = let_in.iter().enumerate().rev().filter(|(at, _)| *at != skipped);
                some.for_each(|(_, bytes)| assert!(server.add(*bytes), "{let_in:?} without {skipped}"));
            }
        }
    }
}
