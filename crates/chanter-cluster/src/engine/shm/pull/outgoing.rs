//! The sender's side of the pull queue.

use std::collections::VecDeque;

use super::super::sync::{Ordering, order, point};
use super::{Info, LANES, Link, Memory, NOTHING, NUMBER, SlotsNeeded, free, next_bits, stamp};

/// How many slots a process may have published for one receiver, in each lane; and how many free ones are kept for the first lane.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Quota {
    pub(crate) lanes: [usize; LANES],
    pub(crate) reserve: usize,
    /// Each piece names the slot of the next one. Receivers watch it.
    pub(crate) names_next: bool,
}

/// A process's side as a sender. Whoever sends has it for himself.
pub(crate) struct Outgoing {
    me: usize,
    quota: Quota,
    free: Vec<usize>,
    links: Vec<Sent>,
    /// Who has left, and takes what was sent before, or not.
    left: Vec<usize>,
}

/// If a receiver has not freed so many, it is looked whether it has.
const SOME: usize = 2;

/// What was sent to one receiver.
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
    /// There is no slot for it.
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
        // The first cache line last: the receiver may watch it.
        filled.body.write_rest(bytes);
        // A late link to what was in it before may overwrite this: it is a hint.
        filled.next.store(NOTHING, Ordering::Relaxed);
        filled.info.store(info.bits() | next_bits(next), Ordering::Relaxed);
        filled.body.write_first(bytes);
        if point("pull.filled") {
            return Ok(());
        }
        if named.is_some() {
            // ORDER: Release: as below. Sequentially consistent: INV-NOTIFY, the sender's side.
            filled.state.store(stamp(to, number), order::pull_publish_watched());
            if let Some(next) = next {
                filled.body.give_away(bytes.len());
                memory.slot(self.me, next).body.fetch(bytes.len());
            }
            let _ = point("pull.published");
            // Now nobody waits for this process: slots are looked after before they are lacked. One at a time, which was fetched when
            // the last message was sent.
            if link.published[info.lane].len() > SOME {
                self.take_one_back(memory, to, info.lane);
                if let Some((oldest, _)) = self.links[to].published[info.lane].front() {
                    memory.slot(self.me, *oldest).fetch_state();
                }
            }
            return Ok(());
        }
        // ORDER: Release: who sees the stamp sees what was filled in.
        filled.state.store(stamp(to, number), order::pull_publish());
        if point("pull.published") {
            return Ok(());
        }
        let port = memory.port(to);
        let link = Link { process: self.me, slot, number };
        // ORDER: INV-NOTIFY, the sender's side. Release, in it: a receiver that empties the tail sees what was published;
        // Acquire, in it: the slot that was there is as its sender has published it, so that the link is not overwritten.
        let last = port.tail.swap(link.bits(), order::pull_swap());
        if point("pull.swapped") {
            return Ok(());
        }
        let place = match Link::of_bits(last, memory) {
            Some(last) => &memory.slot(last.process, last.slot).next,
            None => &port.first,
        };
        // ORDER: Release: who follows the link finds the slot published. (If not, it would scan.)
        place.store(link.bits(), Ordering::Release);
        let _ = point("pull.linked");
        Ok(())
    }

    /// The number of the last piece that was published for that receiver.
    #[inline]
    pub(crate) fn number(&self, to: usize) -> u64 {
        self.links[to].number
    }

    /// Looks for a slot.
    ///
    /// # Errors
    /// There is none.
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
            // Others may have taken something.
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

    /// Takes slots back that the receiver has freed. It frees them in the order of their numbers.
    fn take_back(&mut self, memory: &impl Memory, to: usize, lane: usize) {
        while self.take_one_back(memory, to, lane) {}
    }

    /// Takes the one back that was published first, if it was freed. Whether it was.
    #[inline(always)]
    fn take_one_back(&mut self, memory: &impl Memory, to: usize, lane: usize) -> bool {
        let published = &mut self.links[to].published[lane];
        let Some(&(slot, number)) = published.front() else { return false };
        // ORDER: Acquire: the receiver has read what is overwritten next. Sequentially consistent: INV-NOTIFY, for room.
        if memory.slot(self.me, slot).state.load(order::pull_reuse()) == stamp(to, number) {
            return false;
        }
        published.pop_front();
        self.free.push(slot);
        true
    }

    /// The receiver has left, and perhaps still takes what was sent to it: as long as there are slots without those.
    pub(crate) fn has_left(&mut self, receiver: usize) {
        self.left.push(receiver);
    }

    /// The receiver has gone: takes all slots back that were published for it.
    pub(crate) fn forget(&mut self, memory: &impl Memory, to: usize) {
        self.free.extend(self.links[to].named.take());
        for (slot, number) in self.links[to].published.iter_mut().flat_map(std::mem::take) {
            // It may be about to free it.
            free(memory, Link { process: self.me, slot, number }, to);
            self.free.push(slot);
        }
    }
}
