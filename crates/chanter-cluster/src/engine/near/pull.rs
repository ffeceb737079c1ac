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
//! Where there are few processes, only the first message of a pair is sent so. The sender says in each message in which slot
//! the next one will lie, and the receiver *watches* that one: to send, the slot is filled and published, and no more. Nobody
//! but the two touches a cache line of theirs. A sender that has no slot to name says so, and links the next message.
//!
//! INV-PULL: *slots are the truth, links are a hint*, and so is what a message says of the next one. The receiver
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
//!   tail is not empty while something is published whose swap came after the last scan, and rule 2 finds it. What was
//!   not linked lies in the slot that the message before it has named: when that was taken, in whatever way, the receiver
//!   watches the slot, until it has taken what is published there.
//! * *Taken, if its sender dies* at any point after it has published: the receiver is told of the death, and scans.
//!
//! A slot's number is read again by nobody: what a hostile process writes into shared memory can make the receiver scan, lose
//! that process's messages, or get other bytes from it. Indices and lengths are checked where they are read.
//!
//! INV-BELL: who sends swaps the tail, or publishes in the slot that is watched, then looks whether the receiver is asleep; who
//! falls asleep says so, then looks at the tail and at the slots that it watches. All are sequentially consistent: one sees
//! the other. It is the same between a sender that says of whom it wants room, and then looks at the slots once more, and that
//! receiver, which frees a slot, and then looks whether its room is wanted; and again between that receiver, which
//! says that it has given room, and the sender that falls asleep. Who was given room tries all again that waits for some, and what
//! lacks it still is wanted still, or again. A receiver whose room nobody wants wakes nobody, whatever is wanted of others. Of
//! several OS threads of the receiver's that look, the last one that falls asleep knows what the others have watched: see [`Watches`].

use std::collections::VecDeque;
use std::sync::Arc;

use super::sync::{
    AtomicU32, AtomicU64, Bytes, Ordering, fence_of_sender, fence_of_sleeper, fetch_to_read, order, point,
};

/// Processes of a segment, at most: as of a job.
pub(crate) const MOST_PROCESSES: usize = 1 << 12;
/// Slots of a process, at most.
pub(crate) const MOST_SLOTS: usize = 1 << 11;
/// Lanes.
pub(crate) const LANES: usize = 3;
/// In a segment of so many processes each watches the others.
pub(crate) const MOST_WATCHED: usize = 16;

const VALID: u64 = 1 << 63;
const NUMBER: u64 = (1 << 40) - 1;
const FREE: u64 = 0;
const NOTHING: u64 = 0;

/// In a port's `room`: a receiver has freed slots that the process had wanted.
const GIVEN: u64 = 1 << 63;

/// Whose slots a process needs before it can send: bits of its port's `room`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lack(u64);

impl Lack {
    /// Whoever frees some.
    const ANYONE: Self = Self(1 << 62);

    /// That receiver has all that may be published for it. (Those whose numbers are 62 apart share a bit: then one too many is
    /// asked.)
    pub(crate) fn of(receiver: usize) -> Self {
        Self(1 << (receiver % 62))
    }
}

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
    /// Of whom the process wants slots, and whether it was [`GIVEN`] some.
    room: AtomicU64,
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
            room: AtomicU64::new(0),
            attached: AtomicU32::new(0),
        }
    }
}

impl Slot {
    /// This processor looks at the state soon: a hint.
    #[inline(always)]
    fn fetch_state(&self) {
        fetch_to_read(&raw const self.state);
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
            _ => self.body.write_first(&bits.to_le_bytes()),
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
            _ => self.room.store(bits, Ordering::Relaxed),
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

    /// The process has looked, and lacks slots. True: it has said so only now, and must look once more. (One OS thread of a process looks and
    /// asks at a time.)
    #[must_use]
    pub(crate) fn want_room(&self, lack: Lack) -> bool {
        // ORDER: Relaxed: what is still wanted was so before the look that has found none, so who frees a slot after that sees it. (If one
        // has, and this is an old value, the process was given room, and tries again.)
        if self.room.load(Ordering::Relaxed) & lack.0 != 0 {
            return false;
        }
        // ORDER: INV-BELL, for room.
        self.room.fetch_or(lack.0, order::bell_asleep());
        fence_of_sleeper();
        true
    }

    /// Whether slots were freed that the process has wanted.
    pub(crate) fn is_given_room(&self) -> bool {
        // ORDER: INV-BELL, the sleeper's side.
        self.room.load(order::bell_look()) & GIVEN != 0
    }

    /// Whether slots were freed that the process has wanted; once. The caller tries again all that waits for some.
    pub(crate) fn take_room(&self) -> bool {
        // ORDER: Relaxed: the slots themselves say whether they are free, and who finds none wants them again.
        self.room.load(Ordering::Relaxed) & GIVEN != 0
            && self.room.fetch_and(!GIVEN, Ordering::Relaxed) & GIVEN != 0
    }

    /// `receiver`, who calls, has freed slots of the process: tells it, if it has wanted those. Whether the caller is to wake it.
    pub(crate) fn give_room(&self, receiver: usize) -> bool {
        let wanted = Lack::of(receiver).0 | Lack::ANYONE.0;
        // ORDER: INV-BELL, for room, after the slot was freed.
        fence_of_sender();
        let mut room = self.room.load(order::bell_find());
        while room & wanted != 0 {
            let given = room & !wanted | GIVEN;
            // ORDER: INV-BELL: as a message, before it is looked whether the process sleeps.
            match self.room.compare_exchange(room, given, order::room_given(), Ordering::Relaxed) {
                Ok(_) => return self.is_to_be_woken(),
                Err(now) => room = now,
            }
        }
        false
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
            has_more: bits >> 40 & 1 == 1,
        };
        (info.length <= Bytes::LENGTH && info.lane < LANES).then_some(info)
    }
}

/// Above an [`Info`]: where the next piece will lie. 0 says nowhere.
const NEXT: u32 = 41;

fn next_bits(next: Option<usize>) -> u64 {
    next.map_or(0, |slot| (slot as u64 + 1) << NEXT)
}

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
    ) -> Result<(), Lack> {
        let is_at_hand = {
            let link = &self.links[to];
            link.named.is_some() && link.published[info.lane].len() < self.quota.lanes[info.lane]
        };
        if !is_at_hand {
            self.find_room(memory, to, info.lane)?;
        }
        let link = &mut self.links[to];
        let named = link.named.take();
        let Some(slot) = named.or_else(|| self.free.pop()) else { return Err(Lack::ANYONE) };
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
            // ORDER: Release: as below. Sequentially consistent: INV-BELL, the sender's side.
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
        // ORDER: INV-BELL, the sender's side. Release, in it: a receiver that empties the tail sees what was published;
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

    /// Looks for a slot.
    ///
    /// # Errors
    /// There is none.
    pub(crate) fn find_room(&mut self, memory: &impl Memory, to: usize, lane: usize) -> Result<(), Lack> {
        let reserve = if lane == 0 { 0 } else { self.quota.reserve };
        if self.links[to].published[lane].len() >= self.quota.lanes[lane] {
            self.take_back(memory, to, lane);
            if self.links[to].published[lane].len() >= self.quota.lanes[lane] {
                return Err(Lack::of(to));
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
        if self.free.len() > reserve { Ok(()) } else { Err(Lack::ANYONE) }
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
        // ORDER: Acquire: the receiver has read what is overwritten next. Sequentially consistent: INV-BELL, for room.
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
                // ORDER: INV-BELL, the sleeper's side. Acquire, in it: if it was freed, the next place is seen.
                let state = memory.slot(link.process, link.slot).state.load(order::bell_look());
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
