//! The receiver's side of the pull queue: INV-PULL's rules.

use std::collections::VecDeque;
use std::sync::Arc;

use super::super::sync::{AtomicU64, Ordering, order};
use super::{Info, Link, MOST_SLOTS, Memory, NEXT, NOTHING, NUMBER, Slot, free, is_before, stamp};

/// The result of a look for the next piece.
#[derive(Debug)]
pub(crate) enum Found<'a> {
    /// A piece, and the process that sent it. It stays in its slot until the receiver looks for the next one.
    Piece(usize, Piece<'a>),
    /// Nothing.
    Nothing,
    /// A link is missing: its sender is about to write it, or has died or was stopped before it could.
    Waits,
    /// The links lead astray: the receiver must [scan](Incoming::scan).
    Astray,
}

/// A piece in its slot.
pub(crate) struct Piece<'a> {
    pub(crate) slot: &'a Slot,
    /// Description of the piece. `None`: it is invalid.
    pub(crate) info: Option<Info>,
}

impl Piece<'_> {
    /// Appends its bytes.
    #[inline]
    pub(crate) fn copy_to(&self, bytes: &mut Vec<u8>) {
        if let Some(info) = self.info {
            self.slot.body.read(info.length, bytes);
        }
    }
}

impl std::fmt::Debug for Piece<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Piece").field("info", &self.info).finish_non_exhaustive()
    }
}

/// The watched places: the slot of the next piece of each process, as the [bits](Link::bits) of a link, or nothing if
/// that piece will be linked. Only the thread that takes pieces writes here.
///
/// Other threads look whether a piece is there before they sleep. They may read an old place. Then the piece of that
/// place is still published; or it was freed, after the next place was written here, and they look again. And the
/// last thread to fall asleep has seen all that the others have done before they fell asleep.
pub(crate) struct Watches {
    me: usize,
    places: Vec<AtomicU64>,
}

impl Watches {
    /// Whether a piece was published in a watched place.
    #[inline]
    pub(crate) fn has_work(&self, memory: &impl Memory) -> bool {
        self.places.iter().any(|place| {
            let mut bits = place.load(Ordering::Relaxed);
            while bits != NOTHING {
                let Some(link) = Link::of_bits(bits, memory) else { return false };
                // ORDER: INV-NOTIFY, the sleeper's side. The Acquire in it: if the slot was freed, the next place is
                // seen.
                let state = memory.slot(link.process, link.slot).state.load(order::notify_look());
                if state == stamp(self.me, link.number) {
                    // The piece is taken soon.
                    let slot = memory.slot(link.process, link.slot);
                    slot.body.fetch_to_read(slot.info.load(Ordering::Relaxed) as u32 as usize);
                    return true;
                }
                match place.load(Ordering::Relaxed) {
                    same if same == bits => return false,
                    next => bits = next,
                }
            }
            false
        })
    }
}

/// A process's receiving side. The thread that takes pieces has it exclusively.
pub(crate) struct Incoming {
    me: usize,
    /// Number of the next piece from each process.
    expected: Vec<u64>,
    /// The piece taken last by following links, not freed yet, as its link leads to the next.
    cursor: Option<Link>,
    /// Pieces that a scan has found, in order.
    scanned: VecDeque<Link>,
    /// The piece taken last from a scan or a watched place, not freed yet.
    served: Option<Link>,
    watches: Arc<Watches>,
    /// Process whose piece is looked for first. The turn of linked pieces comes after all processes.
    turn: usize,
    freed: Vec<usize>,
    /// Processes in whose slots a scan has found an invalid state.
    odd: Vec<usize>,
    #[cfg(test)]
    pub(crate) rules: Rules,
}

/// The rules that the receiver follows.
#[cfg(test)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules {
    pub(crate) numbers: bool,
    pub(crate) scans: bool,
    pub(crate) passes: bool,
}

impl Incoming {
    pub(crate) fn new(me: usize, memory: &impl Memory) -> Self {
        Self {
            me,
            expected: vec![1; memory.processes()],
            cursor: None,
            scanned: VecDeque::new(),
            served: None,
            watches: Arc::new(Watches {
                me,
                places: (0..memory.processes()).map(|_| AtomicU64::new(NOTHING)).collect(),
            }),
            turn: 0,
            freed: Vec::new(),
            odd: Vec::new(),
            #[cfg(test)]
            rules: Rules { numbers: true, scans: true, passes: true },
        }
    }

    /// The places that it watches.
    pub(crate) fn watches(&self) -> Arc<Watches> {
        Arc::clone(&self.watches)
    }

    /// Takes the next piece. All processes have their turns, and so have linked pieces.
    // Inlined with its callees, so that the result lies in registers.
    #[inline(always)]
    pub(crate) fn take<'a>(&mut self, memory: &'a impl Memory) -> Found<'a> {
        if let Some(link) = self.served.take() {
            self.free(memory, link);
        }
        while let Some(link) = self.scanned.pop_front() {
            if self.accepts(memory, link) {
                self.served = Some(link);
                return self.found(memory, link);
            }
        }
        let last = self.watches.places.len();
        let (mut turn, mut waits) = (self.turn, false);
        for _ in 0..=last {
            let from = turn;
            turn = if from == last { 0 } else { from + 1 };
            match self.watches.places.get(from) {
                Some(place) => {
                    let place = place.load(Ordering::Relaxed);
                    if place != NOTHING
                        && let Some(link) = Link::of_bits(place, memory)
                        && self.accepts(memory, link)
                    {
                        (self.turn, self.served) = (turn, Some(link));
                        return self.found(memory, link);
                    }
                }
                None if self.has_links(memory) => match self.follow(memory) {
                    Found::Nothing => {}
                    Found::Waits => waits = true,
                    found => {
                        self.turn = turn;
                        return found;
                    }
                },
                None => {}
            }
        }
        if waits { Found::Waits } else { Found::Nothing }
    }

    /// Whether a piece is linked, or about to be.
    #[inline(always)]
    fn has_links(&self, memory: &impl Memory) -> bool {
        let port = memory.port(self.me);
        // ORDER: Relaxed: `follow` looks again, and acquires.
        self.cursor.is_some() || port.first.load(Ordering::Relaxed) != NOTHING || port.has_work()
    }

    /// Takes the next linked piece.
    #[inline(never)]
    fn follow<'a>(&mut self, memory: &'a impl Memory) -> Found<'a> {
        let port = memory.port(self.me);
        loop {
            let bits = match self.cursor {
                None => {
                    // ORDER: Acquire pairs with the Release of the link: the slot to which it leads is published.
                    let first = port.first.load(Ordering::Acquire);
                    if first == NOTHING {
                        return if port.has_work() { Found::Waits } else { Found::Nothing };
                    }
                    // No sender writes it again before the tail was empty. If a late one does, its link is only a
                    // hint.
                    port.first.store(NOTHING, Ordering::Relaxed);
                    first
                }
                Some(link) => {
                    // ORDER: Acquire pairs with the Release of the link: the slot to which it leads is published.
                    let next = memory.slot(link.process, link.slot).next.load(Ordering::Acquire);
                    if next != NOTHING {
                        self.free(memory, link);
                        self.cursor = None;
                        next
                    } else if port
                        .tail
                        // ORDER: Release, for the sender that finds the tail empty and links to `first`, which this
                        // process has emptied.
                        .compare_exchange(link.bits(), NOTHING, order::pull_empty(), Ordering::Relaxed)
                        .is_ok()
                    {
                        self.free(memory, link);
                        self.cursor = None;
                        continue;
                    } else {
                        return Found::Waits;
                    }
                }
            };
            let Some(link) = Link::of_bits(bits, memory) else { return Found::Astray };
            if !self.accepts(memory, link) {
                #[cfg(test)]
                if !self.rules.passes {
                    return Found::Waits;
                }
                return Found::Astray;
            }
            self.cursor = Some(link);
            return self.found(memory, link);
        }
    }

    /// Frees a slot whose piece was read.
    fn free(&mut self, memory: &impl Memory, link: Link) {
        free(memory, link, self.me);
        if !self.freed.contains(&link.process) {
            self.freed.push(link.process);
        }
    }

    /// Takes the list of processes whose slots were freed since the last call.
    pub(crate) fn freed(&mut self) -> impl Iterator<Item = usize> {
        self.freed.drain(..)
    }

    /// Rule 1: whether `link` leads to the next piece of its sender. If so, the piece counts as taken.
    fn accepts(&mut self, memory: &impl Memory, link: Link) -> bool {
        let slot = memory.slot(link.process, link.slot);
        // ORDER: Acquire pairs with the Release of the publication: the slot's content is seen.
        let is_published = slot.state.load(order::pull_take()) == stamp(self.me, link.number);
        let expected = &mut self.expected[link.process];
        #[cfg(test)]
        if !self.rules.numbers {
            return true;
        }
        if link.process == self.me || !is_published || link.number != *expected {
            return false;
        }
        *expected = (*expected + 1) & NUMBER;
        true
    }

    /// Returns a piece that was taken. The slot that it names for the next piece is watched from now on.
    #[inline(always)]
    fn found<'a>(&self, memory: &'a impl Memory, link: Link) -> Found<'a> {
        let slot = memory.slot(link.process, link.slot);
        let bits = slot.info.load(Ordering::Relaxed);
        let next = match bits >> NEXT {
            0 => NOTHING,
            // Readers check this link.
            next => Link {
                process: link.process,
                slot: (next as usize - 1) & (MOST_SLOTS - 1),
                number: self.expected[link.process],
            }
            .bits(),
        };
        // ORDER: Relaxed: readers cope with old places, as `Watches` explains.
        self.watches.places[link.process].store(next, Ordering::Relaxed);
        Found::Piece(link.process, Piece { slot, info: Info::of_bits(bits & ((1 << NEXT) - 1)) })
    }

    /// Rule 2: forgets all links, and looks at all slots.
    pub(crate) fn scan(&mut self, memory: &impl Memory) {
        #[cfg(test)]
        if !self.rules.scans {
            return;
        }
        if let Some(link) = self.served.take() {
            self.free(memory, link);
        }
        let port = memory.port(self.me);
        port.first.store(NOTHING, Ordering::Relaxed);
        // ORDER: Acquire: every piece whose swap came before is seen. Release, for the sender that finds the tail
        // empty and links to `first`, which this process has emptied.
        port.tail.swap(NOTHING, order::pull_scan());
        // Rule 3: slots are freed at once.
        if let Some(link) = self.cursor.take() {
            self.free(memory, link);
        }
        self.scanned.clear();
        let mut found = Vec::new();
        for process in (0..memory.processes()).filter(|process| *process != self.me) {
            for slot in 0..memory.slots() {
                // ORDER: Acquire pairs with the Release of the publication. `accepts` looks again.
                let state = memory.slot(process, slot).state.load(order::pull_take());
                let number = state & NUMBER;
                if state == stamp(self.me, number) {
                    if is_before(number, self.expected[process]) {
                        // The slot of a taken piece is free, so this state is invalid.
                        self.odd.push(process);
                        continue;
                    }
                    let ahead = number.wrapping_sub(self.expected[process]) & NUMBER;
                    found.push((process, ahead, Link { process, slot, number }));
                }
            }
        }
        found.sort_unstable_by_key(|(process, ahead, _)| (*process, *ahead));
        self.scanned.extend(found.into_iter().map(|(.., link)| link));
    }

    /// Whether scans have found an invalid state.
    #[inline]
    pub(crate) fn is_odd(&self) -> bool {
        !self.odd.is_empty()
    }

    /// Takes the list of processes in whose slots scans have found an invalid state since the last call.
    pub(crate) fn odd(&mut self) -> impl Iterator<Item = usize> {
        self.odd.drain(..)
    }

    /// The number of the next piece from that process.
    pub(crate) fn expected(&self, from: usize) -> u64 {
        self.expected[from]
    }

    /// Whether pieces are left that the last scan has found.
    pub(crate) fn is_scanning(&self) -> bool {
        !self.scanned.is_empty()
    }
}
