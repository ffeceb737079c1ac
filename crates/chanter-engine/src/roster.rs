//! The processes of a cluster, each with a value: a table that grows, and in which nothing moves.
//!
//! Processes that were there at the start are found in one step. Those that have joined later are in chunks, each twice as
//! long as the one before, so a value stays where it is while others are added. A process that has gone keeps its value, as its
//! number is never used again.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::by_peer::ByPeer;
use crate::engine::ProcessId;

/// Length of the first chunk.
const CHUNK: usize = 64;
/// Number of chunks.
const CHUNKS: usize = 15;
/// Number of processes that may join a cluster during the life of one of its processes: two million.
#[cfg(test)]
const MOST_LATER: u32 = (CHUNK * ((1 << CHUNKS) - 1)) as u32;

type Chunk<V> = OnceLock<Box<[OnceLock<Box<V>>]>>;

pub struct Roster<V> {
    first: ByPeer<V>,
    /// One more than the highest number at the start.
    first_end: u32,
    later: [Chunk<V>; CHUNKS],
    /// One more than the highest number.
    end: AtomicU32,
}

impl<V> FromIterator<(ProcessId, V)> for Roster<V> {
    fn from_iter<I: IntoIterator<Item = (ProcessId, V)>>(iter: I) -> Self {
        let first: ByPeer<V> = iter.into_iter().collect();
        let end = first.peers().last().map_or(0, |peer| peer.0 + 1);
        Self { first, first_end: end, later: [const { OnceLock::new() }; CHUNKS], end: AtomicU32::new(end) }
    }
}

/// The chunk of a later process, and the index there.
fn place(later: usize) -> (usize, usize) {
    let chunk = (later / CHUNK + 1).ilog2() as usize;
    (chunk, later - CHUNK * ((1 << chunk) - 1))
}

impl<V> Roster<V> {
    #[inline(always)]
    pub fn get(&self, peer: ProcessId) -> Option<&V> {
        match self.first.get(peer) {
            None => self.get_later(peer),
            found => found,
        }
    }

    #[cold]
    fn get_later(&self, peer: ProcessId) -> Option<&V> {
        let (chunk, at) = place(peer.0.checked_sub(self.first_end)? as usize);
        self.later.get(chunk)?.get()?[at].get().map(|value| &**value)
    }

    /// Adds a process that has joined, and returns whether it is new. False: it is there, its number is below those of
    /// the start, or there are too many.
    pub fn add(&self, peer: ProcessId, value: V) -> bool {
        let Some(later) = peer.0.checked_sub(self.first_end) else { return false };
        let (chunk, at) = place(later as usize);
        let Some(slots) = self.later.get(chunk) else { return false };
        let slots = slots.get_or_init(|| (0..CHUNK << chunk).map(|_| OnceLock::new()).collect());
        let is_new = slots[at].set(Box::new(value)).is_ok();
        // ORDER: Release pairs with the Acquire in `end`: a thread that sees the number finds the value.
        self.end.fetch_max(peer.0 + 1, Ordering::Release);
        is_new
    }

    /// One more than the highest number that a process has or had.
    pub fn end(&self) -> u32 {
        // ORDER: Acquire pairs with the Release in `add`.
        self.end.load(Ordering::Acquire)
    }

    /// Whether a process of that number was there before this table, or was skipped: it has no value here, and never will
    /// be there.
    pub fn is_past(&self, peer: ProcessId) -> bool {
        peer.0 < self.first_end && self.first.get(peer).is_none()
    }

    /// In the order of their numbers.
    pub fn iter(&self) -> impl Iterator<Item = (ProcessId, &V)> {
        let later = (self.first_end..self.end()).map(ProcessId);
        self.first.iter().chain(later.filter_map(|peer| Some((peer, self.get_later(peer)?))))
    }

    pub fn peers(&self) -> impl Iterator<Item = ProcessId> {
        self.iter().map(|(peer, _)| peer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_joins_is_found_beside_the_first() {
        let roster: Roster<u32> = [0, 1, 5].map(|number| (ProcessId(number), number)).into_iter().collect();
        assert_eq!((roster.end(), roster.get(ProcessId(5)), roster.get(ProcessId(6))), (6, Some(&5), None));
        assert!(
            roster.is_past(ProcessId(3)) && !roster.is_past(ProcessId(5)) && !roster.is_past(ProcessId(6))
        );
        assert!(!roster.add(ProcessId(3), 3), "its number is below those of the start");
        let joined: Vec<u32> = (6..3000).filter(|number| number % 7 != 0).collect();
        for number in joined.iter().rev() {
            assert!(roster.add(ProcessId(*number), *number));
            assert!(!roster.add(ProcessId(*number), 0), "a number is given once");
        }
        assert!(
            (6..3000)
                .all(|number| roster.get(ProcessId(number)).copied() == (number % 7 != 0).then_some(number))
        );
        let all: Vec<u32> = [0, 1, 5].into_iter().chain(joined).collect();
        assert_eq!(roster.iter().map(|(_, value)| *value).collect::<Vec<_>>(), all);
        assert_eq!(roster.peers().map(|peer| peer.0).collect::<Vec<_>>(), all);
        assert_eq!(roster.end(), 3000);
    }

    #[test]
    fn the_chunks_have_an_end() {
        let roster: Roster<u8> = [(ProcessId(0), 0)].into_iter().collect();
        assert!(roster.add(ProcessId(MOST_LATER), 1) && !roster.add(ProcessId(MOST_LATER + 1), 1));
        assert!(!roster.add(ProcessId(u32::MAX), 1) && roster.get(ProcessId(u32::MAX)).is_none());
        assert_eq!(roster.end(), MOST_LATER + 1);
    }
}
