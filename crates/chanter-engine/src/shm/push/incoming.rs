//! The receiver's side of push.

use std::sync::Arc;

use super::super::pull::{Found, Info, LANES, Memory, NUMBER, Piece};
use super::super::sync::{AtomicU64, Ordering, order};
use super::{Filled, Place, ring};

/// The places at which the receiver looks next. Only the thread that takes pieces writes here. Others look whether a
/// piece is there before they sleep, as in [`Watches`](super::pull::Watches).
pub(crate) struct Places {
    me: usize,
    /// The next position of each lane.
    next: [AtomicU64; LANES],
    /// The claim of each process that was passed over, as the [bits](Place::bits) of its place, or 0.
    passed: Vec<AtomicU64>,
    /// Number of passed claims.
    count: AtomicU64,
}

impl Places {
    /// Whether a piece was published or claimed at a place, or a passed claim was published.
    #[inline]
    pub(crate) fn has_work(&self, memory: &impl Memory) -> bool {
        (0..LANES).any(|lane| {
            loop {
                let place = self.next(lane);
                // ORDER: INV-NOTIFY, the sleeper's side. The Acquire in it: if the slot was freed, the next place is
                // seen.
                let bits = place.slot(memory, self.me).state.load(order::notify_look());
                if bits == place.free(memory) {
                    return false;
                }
                if self.next(lane) == place {
                    return !self.is_held(memory, place);
                }
            }
        }) || self.is_passed_published(memory)
    }

    fn next(&self, lane: usize) -> Place {
        // ORDER: Relaxed: readers cope with old places, as `Watches` explains.
        Place { lane, position: self.next[lane].load(Ordering::Relaxed) }
    }

    fn passed(&self, by: usize) -> Option<Place> {
        Place::of_bits(self.passed[by].load(Ordering::Relaxed))
    }

    /// Whether a claim of the lap before, which was passed over, still has the slot of a place.
    fn is_held(&self, memory: &impl Memory, place: Place) -> bool {
        let position = place.position.wrapping_sub(ring(memory.slots(), place.lane).1 as u64);
        let before = Place { position, ..place };
        self.count.load(Ordering::Relaxed) > 0
            && (0..self.passed.len()).any(|by| self.passed(by) == Some(before))
    }

    /// Whether a claim that was passed over is published by now.
    #[cold]
    fn is_passed_published_now(&self, memory: &impl Memory) -> bool {
        (0..self.passed.len()).filter_map(|by| self.passed(by)).any(|place| {
            // ORDER: INV-NOTIFY, the sleeper's side.
            let bits = place.slot(memory, self.me).state.load(order::notify_look());
            !Filled::of_bits(bits, place, memory).is_some_and(|filled| filled.is_claimed)
        })
    }

    fn is_passed_published(&self, memory: &impl Memory) -> bool {
        self.count.load(Ordering::Relaxed) > 0 && self.is_passed_published_now(memory)
    }
}

/// A process's receiving side. The thread that takes pieces has it exclusively.
pub(crate) struct Incoming {
    me: usize,
    /// Number of the next piece from each process, by lane.
    expected: Vec<[u64; LANES]>,
    /// Number of the next piece of all lanes together.
    taken: Vec<u64>,
    places: Arc<Places>,
    /// The lane that is looked at first.
    turn: usize,
    /// The piece taken last, not freed yet.
    served: Option<Place>,
    /// Whether slots were freed since the senders were told.
    has_freed: bool,
    /// Positions before which a scan has found pieces.
    scanned: [u64; LANES],
    /// Processes of which a piece was destroyed.
    odd: Vec<usize>,
}

/// The content of a place.
enum At {
    Piece(Filled),
    Claim(Filled),
    Nothing,
    /// A slot that a scan has passed over.
    Skipped,
    Nonsense,
}

impl Incoming {
    pub(crate) fn new(me: usize, memory: &impl Memory) -> Self {
        let processes = memory.processes();
        Self {
            me,
            expected: vec![[1; LANES]; processes],
            taken: vec![1; processes],
            places: Arc::new(Places {
                me,
                next: Default::default(),
                passed: (0..processes).map(|_| AtomicU64::new(0)).collect(),
                count: AtomicU64::new(0),
            }),
            turn: 0,
            served: None,
            has_freed: false,
            scanned: [0; LANES],
            odd: Vec::new(),
        }
    }

    /// The places at which it looks.
    pub(crate) fn places(&self) -> Arc<Places> {
        Arc::clone(&self.places)
    }

    fn at(&self, memory: &impl Memory, place: Place) -> At {
        // ORDER: Acquire pairs with the Release of the publication: the slot's content is seen.
        let bits = place.slot(memory, self.me).state.load(order::push_take());
        match Filled::of_bits(bits, place, memory) {
            Some(filled) if filled.sender == self.me => At::Nonsense,
            Some(filled) if filled.is_claimed => At::Claim(filled),
            Some(filled) => At::Piece(filled),
            None if bits == place.free(memory) => At::Nothing,
            None if bits == place.freed(memory) => At::Skipped,
            None if self.places.is_held(memory, place) => At::Nothing,
            None => At::Nonsense,
        }
    }

    /// Takes the next piece. All lanes have their turns.
    #[inline]
    pub(crate) fn take<'a>(&mut self, memory: &'a impl Memory) -> Found<'a> {
        if let Some(place) = self.served.take() {
            self.free(memory, place);
        }
        if let Some(found) = self.take_passed(memory) {
            return found;
        }
        for _ in 0..LANES {
            let lane = self.turn;
            self.turn = (lane + 1) % LANES;
            loop {
                let place = self.places.next(lane);
                let at = self.at(memory, place);
                // A passed claim of the same sender was published before this.
                if let At::Claim(filled) | At::Piece(filled) = at
                    && self.places.passed(filled.sender).is_some()
                    && let Some(found) = self.take_passed(memory)
                {
                    self.turn = lane;
                    return found;
                }
                match at {
                    At::Nothing => break,
                    At::Skipped => self.go_on_from(place),
                    At::Claim(filled) => self.pass(memory, place, filled.sender),
                    At::Piece(filled) => {
                        self.go_on_from(place);
                        if self.accepts(place, filled) {
                            return self.found(memory, place, filled);
                        }
                        self.free(memory, place);
                        return Found::Astray;
                    }
                    At::Nonsense => {
                        self.go_on_from(place);
                        self.free(memory, place);
                        return Found::Astray;
                    }
                }
            }
        }
        Found::Nothing
    }

    /// Takes a piece whose claim was passed over.
    fn take_passed<'a>(&mut self, memory: &'a impl Memory) -> Option<Found<'a>> {
        if !self.places.is_passed_published(memory) {
            return None;
        }
        for by in 0..self.expected.len() {
            let Some(place) = self.places.passed(by) else { continue };
            match self.at(memory, place) {
                At::Claim(_) => {}
                At::Piece(filled) if filled.sender == by && self.accepts(place, filled) => {
                    self.forget_passed(by);
                    return Some(self.found(memory, place, filled));
                }
                _ => {
                    self.forget_passed(by);
                    self.free(memory, place);
                    self.odd.push(by);
                }
            }
        }
        None
    }

    fn found<'a>(&mut self, memory: &'a impl Memory, place: Place, filled: Filled) -> Found<'a> {
        self.served = Some(place);
        let slot = place.slot(memory, self.me);
        // The lane that a message claims is the lane of its ring.
        let info = Info::of_bits(slot.info.load(Ordering::Relaxed)).filter(|info| info.lane == place.lane);
        Found::Piece(filled.sender, Piece { slot, info })
    }

    /// Whether a piece is the next of its sender and lane. If so, it counts as taken; otherwise a piece before it was
    /// destroyed.
    fn accepts(&mut self, place: Place, filled: Filled) -> bool {
        let expected = &mut self.expected[filled.sender][place.lane];
        if filled.number != *expected {
            self.odd.push(filled.sender);
            return false;
        }
        *expected = (*expected + 1) & NUMBER;
        let taken = &mut self.taken[filled.sender];
        *taken = (*taken + 1) & NUMBER;
        true
    }

    fn go_on_from(&self, place: Place) {
        // ORDER: Relaxed: readers cope with old places.
        self.places.next[place.lane].store(place.position.wrapping_add(1), Ordering::Relaxed);
    }

    /// Frees a slot for the next lap.
    fn free(&mut self, memory: &impl Memory, place: Place) {
        // ORDER: Release: all reads of the slot come before it is filled again. Sequentially consistent: INV-NOTIFY,
        // for room.
        place.slot(memory, self.me).state.store(place.freed(memory), order::push_free());
        self.has_freed = true;
    }

    /// Passes over a claim. A process has one at a time, so another one is nonsense.
    #[cold]
    fn pass(&mut self, memory: &impl Memory, place: Place, by: usize) {
        if self.places.passed(by).is_some() {
            self.go_on_from(place);
            self.free(memory, place);
            self.odd.push(by);
            return;
        }
        // ORDER: Relaxed, as for all places. The claim is noted before the next position, so a thread that falls asleep
        // last sees both.
        self.places.passed[by].store(place.bits(), Ordering::Relaxed);
        self.places.count.fetch_add(1, Ordering::Relaxed);
        self.go_on_from(place);
    }

    fn forget_passed(&mut self, by: usize) {
        self.places.passed[by].store(0, Ordering::Relaxed);
        self.places.count.fetch_sub(1, Ordering::Relaxed);
    }

    /// Notes how far pieces lie there now, skips gaps before them, and mends the tails. A gap is there only if a tail was
    /// wrong. Afterwards [`is_scanning`](Self::is_scanning) until all of the pieces are taken.
    pub(crate) fn scan(&mut self, memory: &impl Memory) {
        for lane in 0..LANES {
            let tail = memory.port(self.me).pushed(lane);
            // ORDER: Relaxed, as the tail is a hint.
            let hint = tail.load(Ordering::Relaxed);
            let first = self.places.next(lane).position;
            let at = |ahead| Place { lane, position: first.wrapping_add(ahead) };
            let is_free = |ahead: &u64| matches!(self.at(memory, at(*ahead)), At::Nothing);
            let length = ring(memory.slots(), lane).1 as u64;
            // A slot of an earlier lap, which is not freed yet, is no piece.
            let is_filled = |ahead: &u64| matches!(self.at(memory, at(*ahead)), At::Piece(_) | At::Claim(_));
            let filled = (0..length).rev().find(is_filled).map_or(0, |last| last + 1);
            for ahead in (0..filled).filter(is_free) {
                let (place, order) = (at(ahead), Ordering::Relaxed);
                let state = &place.slot(memory, self.me).state;
                // ORDER: Relaxed: the slot was read already. A sender may have claimed it by now: then there is no gap.
                let _ = state.compare_exchange(place.free(memory), place.freed(memory), order, order);
            }
            self.scanned[lane] = at(filled).position;
            if hint != at(filled).position {
                // All positions before this one were claimed. If a sender moves the tail meanwhile, that is as good.
                let _ =
                    tail.compare_exchange(hint, at(filled).position, Ordering::Relaxed, Ordering::Relaxed);
            }
        }
    }

    /// Whether pieces are left that the last scan has found.
    pub(crate) fn is_scanning(&self, memory: &impl Memory) -> bool {
        (0..LANES).any(|lane| self.places.next(lane).position < self.scanned[lane])
            || self.places.is_passed_published(memory)
    }

    /// Frees the claim of a process that has gone.
    pub(crate) fn forget(&mut self, memory: &impl Memory, gone: usize) {
        if let Some(place) = self.places.passed(gone) {
            self.forget_passed(gone);
            self.free(memory, place);
        }
    }

    /// Takes the list of processes that may have room now.
    pub(crate) fn freed(&mut self) -> impl Iterator<Item = usize> + use<> {
        let me = self.me;
        let all = if std::mem::take(&mut self.has_freed) { self.expected.len() } else { 0 };
        (0..all).filter(move |process| *process != me)
    }

    /// Whether pieces with wrong numbers were found.
    #[inline]
    pub(crate) fn is_odd(&self) -> bool {
        !self.odd.is_empty()
    }

    /// Takes the list of their senders since the last call.
    pub(crate) fn odd(&mut self) -> impl Iterator<Item = usize> + '_ {
        self.odd.drain(..)
    }

    /// Number of the next piece from that process, of all lanes together.
    pub(crate) fn expected(&self, from: usize) -> u64 {
        self.taken[from]
    }
}
