//! The receiver's side of the pull queue: INV-PULL's rules.

use std::collections::VecDeque;
use std::sync::Arc;

use super::super::sync::{AtomicU64, Ordering, order};
use super::{Info, Link, MOST_SLOTS, Memory, NEXT, NOTHING, NUMBER, Slot, free, is_before, stamp};

/// What a receiver has found.
#[derive(Debug)]
pub(crate) enum Found<'a> {
    /// A piece from that process. It stays in its place until the receiver looks for the next one.
    Piece(usize, Piece<'a>),
    /// Nothing.
    Nothing,
    /// Somebody is about to link what he has sent; or has died, or was stopped, before he could.
    Waits,
    /// The links lead astray: the receiver must [scan](Incoming::scan).
    Astray,
}

/// What lies in a slot.
pub(crate) struct Piece<'a> {
    slot: &'a Slot,
    /// `None`: it makes no sense.
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

/// Where the next piece of each process will lie: the [bits](Link::bits) of a link, or nothing if it will be linked. Only who
/// takes writes here.
///
/// Others look whether something is there, before they sleep. They may see what was here before: then the piece that was to
/// come there is published still, or it was freed, after the next place was written here, and they look again. And the last one
/// that falls asleep has seen what all others have done before they did.
pub(crate) struct Watches {
    me: usize,
    places: Vec<AtomicU64>,
}

impl Watches {
    /// Whether something was published in a place that is watched.
    #[inline]
    pub(crate) fn has_work(&self, memory: &impl Memory) -> bool {
        self.places.iter().any(|place| {
            let mut bits = place.load(Ordering::Relaxed);
            while bits != NOTHING {
                let Some(link) = Link::of_bits(bits, memory) else { return false };
                // ORDER: INV-NOTIFY, the sleeper's side. Acquire, in it: if it was freed, the next place is seen.
                let state = memory.slot(link.process, link.slot).state.load(order::notify_look());
                if state == stamp(self.me, link.number) {
                    // It is taken soon.
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

/// A process's side as a receiver. Whoever takes has it for himself.
pub(crate) struct Incoming {
    me: usize,
    /// The number of the next piece from each process.
    expected: Vec<u64>,
    /// What was taken last by following links, and is not freed: its link leads to the next.
    cursor: Option<Link>,
    /// What a scan has found.
    scanned: VecDeque<Link>,
    /// What was taken last of that, and is not freed.
    served: Option<Link>,
    watches: Arc<Watches>,
    /// Which process's piece is looked for first: what is linked, after all of them.
    turn: usize,
    freed: Vec<usize>,
    /// In whose slots a scan has found what makes no sense.
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

    /// What it watches.
    pub(crate) fn watches(&self) -> Arc<Watches> {
        Arc::clone(&self.watches)
    }

    /// The next piece. All processes have their turns, and so has what is linked.
    // In the caller, as is what it calls: so what was found lies in registers.
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

    /// Whether something is linked, or about to be.
    #[inline(always)]
    fn has_links(&self, memory: &impl Memory) -> bool {
        let port = memory.port(self.me);
        // ORDER: Relaxed: `follow` looks again, and acquires.
        self.cursor.is_some() || port.first.load(Ordering::Relaxed) != NOTHING || port.has_work()
    }

    /// The next piece that is linked.
    #[inline(never)]
    fn follow<'a>(&mut self, memory: &'a impl Memory) -> Found<'a> {
        let port = memory.port(self.me);
        loop {
            let bits = match self.cursor {
                None => {
                    // ORDER: Acquire: what it leads to is published.
                    let first = port.first.load(Ordering::Acquire);
                    if first == NOTHING {
                        return if port.has_work() { Found::Waits } else { Found::Nothing };
                    }
                    // Nobody writes it again before the tail was empty; and if somebody late does, it is a hint.
                    port.first.store(NOTHING, Ordering::Relaxed);
                    first
                }
                Some(link) => {
                    // ORDER: as above.
                    let next = memory.slot(link.process, link.slot).next.load(Ordering::Acquire);
                    if next != NOTHING {
                        self.free(memory, link);
                        self.cursor = None;
                        next
                    } else if port
                        .tail
                        // ORDER: Release, to who finds it empty and links to `first`: this process has emptied that.
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

    /// That was read.
    fn free(&mut self, memory: &impl Memory, link: Link) {
        free(memory, link, self.me);
        if !self.freed.contains(&link.process) {
            self.freed.push(link.process);
        }
    }

    /// Of whom slots were freed since this was asked.
    pub(crate) fn freed(&mut self) -> impl Iterator<Item = usize> {
        self.freed.drain(..)
    }

    /// Rule 1: whether that is the next piece of its sender; then it counts as taken.
    fn accepts(&mut self, memory: &impl Memory, link: Link) -> bool {
        let slot = memory.slot(link.process, link.slot);
        // ORDER: Acquire: pairs with the publication.
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

    /// That was taken: from now on the place is watched in which it says that the next one will lie.
    #[inline(always)]
    fn found<'a>(&self, memory: &'a impl Memory, link: Link) -> Found<'a> {
        let slot = memory.slot(link.process, link.slot);
        let bits = slot.info.load(Ordering::Relaxed);
        let next = match bits >> NEXT {
            0 => NOTHING,
            // Who reads this checks it.
            next => Link {
                process: link.process,
                slot: (next as usize - 1) & (MOST_SLOTS - 1),
                number: self.expected[link.process],
            }
            .bits(),
        };
        // ORDER: Relaxed: see `Watches`.
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
        // ORDER: Acquire: everything is seen whose swap came before. Release: as in `take`.
        port.tail.swap(NOTHING, order::pull_scan());
        // Rule 3.
        if let Some(link) = self.cursor.take() {
            self.free(memory, link);
        }
        self.scanned.clear();
        let mut found = Vec::new();
        for process in (0..memory.processes()).filter(|process| *process != self.me) {
            for slot in 0..memory.slots() {
                // ORDER: as in `accepts`, which looks again.
                let state = memory.slot(process, slot).state.load(order::pull_take());
                let number = state & NUMBER;
                if state == stamp(self.me, number) {
                    if is_before(number, self.expected[process]) {
                        // What was taken is free, and stays so.
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

    /// Whether scans have found what makes no sense.
    #[inline]
    pub(crate) fn is_odd(&self) -> bool {
        !self.odd.is_empty()
    }

    /// In whose slots scans have found what makes no sense, since this was asked.
    pub(crate) fn odd(&mut self) -> impl Iterator<Item = usize> {
        self.odd.drain(..)
    }

    /// The number of the next piece from that process.
    pub(crate) fn expected(&self, from: usize) -> u64 {
        self.expected[from]
    }

    /// Whether there is more of what the last scan has found.
    pub(crate) fn is_scanning(&self) -> bool {
        !self.scanned.is_empty()
    }
}
