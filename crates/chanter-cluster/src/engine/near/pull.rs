//! The pull queue: messages lie with their senders until their receiver takes them.
//!
//! ```text
//!   sender's slots           [ free ] [ #7 for B ] [ free ] [ #8 for B ] ..      written by the sender; freed by the receiver
//!                                        next ------------------^
//!   B's port   first -> slot #7 (after a time without messages)      tail -> slot #8
//! ```
//!
//! To send: fill a free slot, *publish* it for its receiver with the next number of that pair, *swap* it into the tail of
//! the receiver's port, and *link* it behind what was there (or as the first).
//!
//! INV-PULL: *slots are the truth, links are a hint.* The receiver
//! 1. takes a slot only if its number is the next that it expects from that sender;
//! 2. *scans* when the links end before the tail for too long, or lead astray, or a sender has died: it empties the tail,
//!    then takes from all tables, in order of numbers, what is published for it;
//! 3. frees at once what a scan has taken; a link that leads to a freed slot is passed over.
//!
//! What is published is taken, once, and in order:
//! * *Once and in order*, by rule 1: the receiver alone counts what it has taken, and a slot is not filled again before it was
//!   freed. Whatever a link says, and whoever has written it, it only says where to look.
//! * *Taken, if its sender goes on*: it swaps the tail after it has published. A receiver finds the tail empty only if
//!   it has emptied it itself: after it took the slot that was there (then all before that was taken, or a link had led
//!   astray, and it has scanned); or by a scan, which sees everything whose swap came before its own. So the
//!   tail is not empty while something is published whose swap came after the last scan, and rule 2 finds it.
//! * *Taken, if its sender dies* at any point after it has published: the receiver is told of the death, and scans.
//!
//! A slot's number is read again by nobody: what a hostile process writes into shared memory can make the receiver scan, lose
//! that process's messages, or get other bytes from it. Indices and lengths are checked where they are read.
//!
//! INV-BELL: who sends swaps the tail, then looks whether the receiver is asleep; who falls asleep says so, then looks
//! at the tail. All four are sequentially consistent: one sees the other. It is the same between a sender that wants
//! room and a receiver that frees a slot.

use std::collections::VecDeque;

use super::sync::{AtomicU32, AtomicU64, Bytes, Ordering, fence_of_sender, fence_of_sleeper, order, point};

/// Processes of a segment, at most: as of a job.
pub(crate) const MOST_PROCESSES: usize = 1 << 12;
/// Slots of a process, at most.
pub(crate) const MOST_SLOTS: usize = 1 << 11;
/// Lanes.
pub(crate) const LANES: usize = 3;

const VALID: u64 = 1 << 63;
const NUMBER: u64 = (1 << 40) - 1;
const FREE: u64 = 0;
const NOTHING: u64 = 0;

/// A message, or a piece of one.
#[repr(C, align(64))]
pub(crate) struct Slot {
    /// [`FREE`], or for whom it is published and with which number: a [`stamp`].
    state: AtomicU64,
    /// What was sent to the same receiver after it, perhaps.
    next: AtomicU64,
    /// See [`Info`].
    info: AtomicU64,
    body: Bytes,
}

/// Where a receiver is sent to.
#[repr(C, align(64))]
pub(crate) struct Port {
    /// The last slot that was sent here.
    tail: AtomicU64,
    /// The first, after the tail was empty.
    first: AtomicU64,
    /// The process sleeps, and wants to be woken.
    asleep: AtomicU32,
    /// The process has something to send, and no slot for it.
    wants_room: AtomicU32,
    /// The process reads what is sent here.
    attached: AtomicU32,
}

/// Where slots and ports are.
pub(crate) trait Memory {
    fn processes(&self) -> usize;
    fn slots(&self) -> usize;
    /// Both indices are in bounds.
    fn slot(&self, process: usize, slot: usize) -> &Slot;
    /// The index is in bounds.
    fn port(&self, process: usize) -> &Port;
}

#[cfg(any(loom, test, feature = "fuzz"))]
impl Slot {
    pub(crate) fn new() -> Self {
        Self {
            state: AtomicU64::new(FREE),
            next: AtomicU64::new(NOTHING),
            info: AtomicU64::new(0),
            body: Bytes::new(),
        }
    }
}

#[cfg(any(loom, test, feature = "fuzz"))]
impl Port {
    pub(crate) fn new() -> Self {
        Self {
            tail: AtomicU64::new(NOTHING),
            first: AtomicU64::new(NOTHING),
            asleep: AtomicU32::new(0),
            wants_room: AtomicU32::new(0),
            attached: AtomicU32::new(0),
        }
    }
}

/// What another process may write, at any time.
#[cfg(all(not(loom), any(test, feature = "fuzz")))]
impl Slot {
    pub(crate) fn scribble(&self, field: u8, bits: u64) {
        match field % 4 {
            0 => self.state.store(bits, Ordering::Relaxed),
            1 => self.next.store(bits, Ordering::Relaxed),
            2 => self.info.store(bits, Ordering::Relaxed),
            _ => self.body.write(&bits.to_le_bytes()),
        }
    }
}

/// What another process may write, at any time.
#[cfg(all(not(loom), any(test, feature = "fuzz")))]
impl Port {
    pub(crate) fn scribble(&self, field: u8, bits: u64) {
        match field % 4 {
            0 => self.tail.store(bits, Ordering::Relaxed),
            1 => self.first.store(bits, Ordering::Relaxed),
            2 => self.asleep.store(bits as u32, Ordering::Relaxed),
            _ => self.wants_room.store(bits as u32, Ordering::Relaxed),
        }
    }
}

impl Port {
    /// The process reads what is sent here from now on.
    pub(crate) fn attach(&self) {
        self.attached.store(1, Ordering::Relaxed);
    }

    #[cfg(all(test, not(loom)))]
    pub(crate) fn detach(&self) {
        self.attached.store(0, Ordering::Relaxed);
    }

    /// Whether it does. Who asks has talked with it by other ways since.
    pub(crate) fn is_attached(&self) -> bool {
        self.attached.load(Ordering::Relaxed) == 1
    }

    /// Something was sent here that was not taken, or is on its way.
    pub(crate) fn has_work(&self) -> bool {
        // ORDER: INV-BELL, the sleeper's side.
        self.tail.load(order::bell_look()) != NOTHING
    }

    /// The same, without order.
    #[cfg(all(test, loom))]
    pub(crate) fn seems_to_have_work(&self) -> bool {
        self.tail.load(Ordering::Relaxed) != NOTHING
    }

    /// The process is about to sleep; what was sent to it before must be looked for once more.
    pub(crate) fn fall_asleep(&self) {
        // ORDER: INV-BELL, the sleeper's side. (A swap, where a store would do, as in the core's sleepers.)
        self.asleep.swap(1, order::bell_asleep());
        fence_of_sleeper();
    }

    pub(crate) fn wake_up(&self) {
        self.asleep.store(0, Ordering::Relaxed);
    }

    /// Whether the caller, who has sent something, is to wake the process.
    pub(crate) fn is_to_be_woken(&self) -> bool {
        // ORDER: INV-BELL, the sender's side, after its swap of the tail. Of several one wakes.
        fence_of_sender();
        self.asleep.load(order::bell_find()) != 0 && self.asleep.swap(0, Ordering::Relaxed) != 0
    }

    /// The process has no slot to send with; whether there is one now is to be looked at once more.
    pub(crate) fn want_room(&self) {
        // ORDER: INV-BELL, for room.
        self.wants_room.swap(1, order::bell_asleep());
        fence_of_sleeper();
    }

    /// Whether the caller, who has freed slots of the process, is to wake it.
    pub(crate) fn is_to_be_told_of_room(&self) -> bool {
        // ORDER: INV-BELL, for room, after the slot was freed.
        fence_of_sender();
        self.wants_room.load(order::bell_find()) != 0 && self.wants_room.swap(0, Ordering::Relaxed) != 0
    }
}

/// A slot in some table, and the number of what was in it when the link was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Link {
    pub(crate) process: usize,
    pub(crate) slot: usize,
    pub(crate) number: u64,
}

impl Link {
    pub(crate) fn bits(self) -> u64 {
        VALID | (self.process as u64) << 51 | (self.slot as u64) << 40 | self.number
    }

    /// What another process may have written: checked.
    fn of_bits(bits: u64, memory: &impl Memory) -> Option<Self> {
        let link = Self {
            process: (bits >> 51) as usize & (MOST_PROCESSES - 1),
            slot: (bits >> 40) as usize & (MOST_SLOTS - 1),
            number: bits & NUMBER,
        };
        (bits & VALID != 0 && link.process < memory.processes() && link.slot < memory.slots()).then_some(link)
    }
}

/// What a slot says that is published for `receiver`.
pub(crate) fn stamp(receiver: usize, number: u64) -> u64 {
    VALID | (receiver as u64) << 51 | number
}

/// What lies in a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Info {
    pub(crate) length: usize,
    pub(crate) lane: usize,
    /// More pieces of the message follow.
    pub(crate) has_more: bool,
}

impl Info {
    pub(crate) fn bits(self) -> u64 {
        self.length as u64 | (self.lane as u64) << 32 | u64::from(self.has_more) << 40
    }

    fn of_bits(bits: u64) -> Option<Self> {
        let info = Self {
            length: bits as u32 as usize,
            lane: (bits >> 32) as u8 as usize,
            has_more: bits >> 40 == 1,
        };
        (bits >> 41 == 0 && info.length <= Bytes::LENGTH && info.lane < LANES).then_some(info)
    }
}

/// How many slots a process may have published for one receiver, in each lane; and how many free ones are kept for the first lane.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Quota {
    pub(crate) lanes: [usize; LANES],
    pub(crate) reserve: usize,
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

/// What was sent to one receiver.
#[derive(Default)]
struct Sent {
    pub(crate) number: u64,
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

    /// Sends a piece. False: there is no slot for it.
    pub(crate) fn send(&mut self, memory: &impl Memory, to: usize, info: Info, bytes: &[u8]) -> bool {
        let Some(slot) = self.free_slot(memory, to, info.lane) else { return false };
        let link = &mut self.links[to];
        link.number = (link.number + 1) & NUMBER;
        let number = link.number;
        link.published[info.lane].push_back((slot, number));
        let filled = memory.slot(self.me, slot);
        // A late link to what was in it before may overwrite this: it is a hint.
        filled.next.store(NOTHING, Ordering::Relaxed);
        filled.info.store(info.bits(), Ordering::Relaxed);
        filled.body.write(bytes);
        if point("pull.filled") {
            return true;
        }
        // ORDER: Release: who sees the stamp sees what was filled in.
        filled.state.store(stamp(to, number), order::pull_publish());
        if point("pull.published") {
            return true;
        }
        let port = memory.port(to);
        let link = Link { process: self.me, slot, number };
        // ORDER: INV-BELL, the sender's side. Release, in it: a receiver that empties the tail sees what was published;
        // Acquire, in it: the slot that was there is as its sender has published it, so that the link is not overwritten.
        let last = port.tail.swap(link.bits(), order::pull_swap());
        if point("pull.swapped") {
            return true;
        }
        let place = match Link::of_bits(last, memory) {
            Some(last) => &memory.slot(last.process, last.slot).next,
            None => &port.first,
        };
        // ORDER: Release: who follows the link finds the slot published. (If not, it would scan.)
        place.store(link.bits(), Ordering::Release);
        let _ = point("pull.linked");
        true
    }

    /// Whether there would be a slot.
    pub(crate) fn has_room(&mut self, memory: &impl Memory, to: usize, lane: usize) -> bool {
        let slot = self.free_slot(memory, to, lane);
        self.free.extend(slot);
        slot.is_some()
    }

    fn free_slot(&mut self, memory: &impl Memory, to: usize, lane: usize) -> Option<usize> {
        let reserve = if lane == 0 { 0 } else { self.quota.reserve };
        self.take_back(memory, to, lane);
        if self.links[to].published[lane].len() >= self.quota.lanes[lane] {
            return None;
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
        if self.free.len() <= reserve { None } else { self.free.pop() }
    }

    /// Takes slots back that the receiver has freed. It frees them in the order of their numbers.
    fn take_back(&mut self, memory: &impl Memory, to: usize, lane: usize) {
        let published = &mut self.links[to].published[lane];
        while let Some(&(slot, number)) = published.front() {
            // ORDER: Acquire: the receiver has read what is overwritten next. Sequentially consistent: INV-BELL, for room.
            if memory.slot(self.me, slot).state.load(order::pull_reuse()) == stamp(to, number) {
                break;
            }
            published.pop_front();
            self.free.push(slot);
        }
    }

    /// The receiver has left, and perhaps still takes what was sent to it: as long as there are slots without those.
    pub(crate) fn has_left(&mut self, receiver: usize) {
        self.left.push(receiver);
    }

    /// The receiver has gone: takes all slots back that were published for it.
    pub(crate) fn forget(&mut self, memory: &impl Memory, to: usize) {
        for (slot, number) in self.links[to].published.iter_mut().flat_map(std::mem::take) {
            // It may be about to free it.
            free(memory, Link { process: self.me, slot, number }, to);
            self.free.push(slot);
        }
    }
}

/// Frees what was published for `receiver`, unless it is free.
fn free(memory: &impl Memory, link: Link, receiver: usize) {
    let state = &memory.slot(link.process, link.slot).state;
    // ORDER: Release: what was read from the slot was read before it is filled again. Sequentially consistent: INV-BELL, for
    // room. A compare-exchange, as the sender of who leaves takes its slots back, and may have filled them again.
    let _ = state.compare_exchange(stamp(receiver, link.number), FREE, order::pull_free(), Ordering::Relaxed);
}

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
            #[cfg(test)]
            rules: Rules { numbers: true, scans: true, passes: true },
        }
    }

    /// The next piece.
    pub(crate) fn take<'a>(&mut self, memory: &'a impl Memory) -> Found<'a> {
        if let Some(link) = self.served.take() {
            free(memory, link, self.me);
        }
        while let Some(link) = self.scanned.pop_front() {
            if self.accepts(memory, link) {
                self.served = Some(link);
                return self.found(memory, link);
            }
        }
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
                        free(memory, link, self.me);
                        self.cursor = None;
                        next
                    } else if port
                        .tail
                        // ORDER: Release, to who finds it empty and links to `first`: this process has emptied that.
                        .compare_exchange(link.bits(), NOTHING, order::pull_empty(), Ordering::Relaxed)
                        .is_ok()
                    {
                        free(memory, link, self.me);
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

    fn found<'a>(&self, memory: &'a impl Memory, link: Link) -> Found<'a> {
        let slot = memory.slot(link.process, link.slot);
        Found::Piece(link.process, Piece { slot, info: Info::of_bits(slot.info.load(Ordering::Relaxed)) })
    }

    /// Rule 2: forgets all links, and looks at all slots.
    pub(crate) fn scan(&mut self, memory: &impl Memory) {
        #[cfg(test)]
        if !self.rules.scans {
            return;
        }
        if let Some(link) = self.served.take() {
            free(memory, link, self.me);
        }
        let port = memory.port(self.me);
        port.first.store(NOTHING, Ordering::Relaxed);
        // ORDER: Acquire: everything is seen whose swap came before. Release: as in `take`.
        port.tail.swap(NOTHING, order::pull_scan());
        // Rule 3.
        if let Some(link) = self.cursor.take() {
            free(memory, link, self.me);
        }
        self.scanned.clear();
        let mut found = Vec::new();
        for process in (0..memory.processes()).filter(|process| *process != self.me) {
            for slot in 0..memory.slots() {
                // ORDER: as in `accepts`, which looks again.
                let state = memory.slot(process, slot).state.load(order::pull_take());
                let number = state & NUMBER;
                if state == stamp(self.me, number) {
                    let ahead = number.wrapping_sub(self.expected[process]) & NUMBER;
                    found.push((process, ahead, Link { process, slot, number }));
                }
            }
        }
        found.sort_unstable_by_key(|(process, ahead, _)| (*process, *ahead));
        self.scanned.extend(found.into_iter().map(|(.., link)| link));
    }

    /// Whether there is more of what the last scan has found.
    pub(crate) fn is_scanning(&self) -> bool {
        !self.scanned.is_empty()
    }
}
