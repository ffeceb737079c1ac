//! The sender's side of the pull queue.

use std::collections::VecDeque;

use super::super::sync::{Ordering, order, point};
use super::{Info, LANES, Link, Memory, NOTHING, NUMBER, SlotsNeeded, free, next_bits, stamp};

/// Limits of a sender: the slots that it may have published for one receiver, by lane, and the free slots kept for
/// the first lane.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Quota {
    pub(crate) lanes: [usize; LANES],
    pub(crate) reserve: usize,
    /// Whether each piece names the slot of the next one, which the receiver watches.
    pub(crate) names_next: bool,
}

/// The sending side of a process. Only the thread that sends uses it.
pub(crate) struct Outgoing {
    me: usize,
    quota: Quota,
    free: Vec<usize>,
    links: Vec<Sent>,
    /// Receivers that have left. They may or may not take pieces sent before.
    left: Vec<usize>,
}

/// Number of slots published for a receiver, above which a send checks whether one was freed.
const SOME: usize = 2;

/// The pieces sent to one receiver.
#[derive(Default)]
struct Sent {
    pub(crate) number: u64,
    /// The slot that the last piece has named.
    named: Option<usize>,
    /// Slots that were published and are not known to be free again, oldest first, and their numbers.
    published: [VecDeque<(usize, u64)>; LANES],
}

impl Outgoing {
    pub(crate) fn new(me: usize, quota: Quota, memory: &impl Memory) -> Self {
        Self {
            me,
            quota,
            free: (0..memory.slots()).rev().collect(),
            links: (0..memory.processes()).map(|_| Sent::default()).collect(),
            left: Vec::new(),
        }
    }

    /// Sends a piece.
    ///
    /// # Errors
    /// There is no slot for the piece.
    pub(crate) fn send(
        &mut self,
        memory: &impl Memory,
        to: usize,
        info: Info,
        bytes: &[u8],
    ) -> Result<(), SlotsNeeded> {
        let is_at_hand = {
            let link = &self.links[to];
            link.named.is_some() && link.published[info.lane].len() < self.quota.lanes[info.lane]
        };
        if !is_at_hand {
            self.find_slots(memory, to, info.lane)?;
        }
        let link = &mut self.links[to];
        let named = link.named.take();
        let Some(slot) = named.or_else(|| self.free.pop()) else { return Err(SlotsNeeded::ANYONE) };
        let next = if self.quota.names_next && self.free.len() > self.quota.reserve {
            self.free.pop()
        } else {
            None
        };
        link.named = next;
        link.number = (link.number + 1) & NUMBER;
        let number = link.number;
        link.published[info.lane].push_back((slot, number));
        let filled = memory.slot(self.me, slot);
        // The first cache line comes last, as the receiver may watch it.
        filled.body.write_rest(bytes);
        // A late link behind the slot's last piece may overwrite this; it is only a hint.
        filled.next.store(NOTHING, Ordering::Relaxed);
        filled.info.store(info.bits() | next_bits(next), Ordering::Relaxed);
        filled.body.write_first(bytes);
        if point("pull.filled") {
            return Ok(());
        }
        if named.is_some() {
            // ORDER: Release: a receiver that sees the stamp sees the content. Sequentially consistent: INV-NOTIFY,
            // the sender's side.
            filled.state.store(stamp(to, number), order::pull_publish_watched());
            if let Some(next) = next {
                filled.body.give_away(bytes.len());
                memory.slot(self.me, next).body.fetch(bytes.len());
            }
            let _ = point("pull.published");
            // No process waits for this process now, so slots are taken back before they are needed. One is taken at
            // a time; its state was fetched when the last message was sent.
            if link.published[info.lane].len() > SOME {
                self.take_one_back(memory, to, info.lane);
                if let Some((oldest, _)) = self.links[to].published[info.lane].front() {
                    memory.slot(self.me, *oldest).fetch_state();
                }
            }
            return Ok(());
        }
        // ORDER: Release: a receiver that sees the stamp sees the content.
        filled.state.store(stamp(to, number), order::pull_publish());
        if point("pull.published") {
            return Ok(());
        }
        let port = memory.port(to);
        let link = Link { process: self.me, slot, number };
        // ORDER: INV-NOTIFY, the sender's side. The Release in it: a receiver that empties the tail sees the
        // published piece. The Acquire in it: the slot that was there is seen as its sender has published it, so that
        // the link is not overwritten.
        let last = port.tail.swap(link.bits(), order::pull_swap());
        if point("pull.swapped") {
            return Ok(());
        }
        let place = match Link::of_bits(last, memory) {
            Some(last) => &memory.slot(last.process, last.slot).next,
            None => &port.first,
        };
        // ORDER: Release: a receiver that follows the link finds the slot published. (If not, it would scan.)
        place.store(link.bits(), Ordering::Release);
        let _ = point("pull.linked");
        Ok(())
    }

    /// Number of the last piece published for the receiver `to`.
    #[inline]
    pub(crate) fn number(&self, to: usize) -> u64 {
        self.links[to].number
    }

    /// Makes sure that there is a slot for a piece.
    ///
    /// # Errors
    /// There is no slot.
    pub(crate) fn find_slots(
        &mut self,
        memory: &impl Memory,
        to: usize,
        lane: usize,
    ) -> Result<(), SlotsNeeded> {
        let reserve = if lane == 0 { 0 } else { self.quota.reserve };
        if self.links[to].published[lane].len() >= self.quota.lanes[lane] {
            self.take_back(memory, to, lane);
            if self.links[to].published[lane].len() >= self.quota.lanes[lane] {
                return Err(SlotsNeeded::of(to));
            }
        }
        if self.links[to].named.is_some() {
            return Ok(());
        }
        if self.free.len() <= reserve {
            // Other receivers may have freed slots.
            for to in 0..memory.processes() {
                (0..LANES).for_each(|lane| self.take_back(memory, to, lane));
            }
        }
        if self.free.len() <= reserve {
            for left in std::mem::take(&mut self.left) {
                self.forget(memory, left);
            }
        }
        if self.free.len() > reserve { Ok(()) } else { Err(SlotsNeeded::ANYONE) }
    }

    /// Takes back the slots that the receiver has freed. It frees them in the order of their numbers.
    fn take_back(&mut self, memory: &impl Memory, to: usize, lane: usize) {
        while self.take_one_back(memory, to, lane) {}
    }

    /// Takes back the slot that was published first, if it was freed, and returns whether it was.
    #[inline(always)]
    fn take_one_back(&mut self, memory: &impl Memory, to: usize, lane: usize) -> bool {
        let published = &mut self.links[to].published[lane];
        let Some(&(slot, number)) = published.front() else { return false };
        // ORDER: Acquire: the receiver has read the content that is overwritten next. Sequentially consistent:
        // INV-NOTIFY, for room.
        if memory.slot(self.me, slot).state.load(order::pull_reuse()) == stamp(to, number) {
            return false;
        }
        published.pop_front();
        self.free.push(slot);
        true
    }

    /// Notes that a receiver has left. It may still take pieces sent before, so its slots are kept until others run
    /// out.
    pub(crate) fn has_left(&mut self, receiver: usize) {
        self.left.push(receiver);
    }

    /// Takes back all slots published for a receiver that has gone.
    pub(crate) fn forget(&mut self, memory: &impl Memory, to: usize) {
        self.free.extend(self.links[to].named.take());
        for (slot, number) in self.links[to].published.iter_mut().flat_map(std::mem::take) {
            // The receiver may be about to free the slot.
            free(memory, Link { process: self.me, slot, number }, to);
            self.free.push(slot);
        }
    }
}
