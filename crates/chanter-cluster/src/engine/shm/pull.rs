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
//! A slot's number is read again by nobody: what a hostile process writes into shared memory can make the receiver scan, destroy
//! messages, or change their bytes. Indices and lengths are checked where they are read. What it has destroyed is missed, and
//! costs its sender and its receiver each other ([INV-SAID](super::said)); so does a slot that says that it holds what was taken before.
//!
//! INV-NOTIFY: who sends swaps the tail, or publishes in the slot that is watched, then looks whether the receiver is asleep; who
//! falls asleep says so, then looks at the tail and at the slots that it watches. All are sequentially consistent: one sees
//! the other. It is the same between a sender that says of whom it wants room, and then looks at the slots once more, and that
//! receiver, which frees a slot, and then looks whether its room is wanted; and again between that receiver, which
//! says that it has given room, and the sender that falls asleep. Who was given room tries all again that waits for some, and what
//! lacks it still is wanted still, or again. A receiver whose room nobody wants wakes nobody, whatever is wanted of others. Of
//! several OS threads of the receiver's that look, the last one that falls asleep knows what the others have watched: see [`Watches`].

mod incoming;
mod outgoing;

#[cfg(test)]
pub(crate) use incoming::Rules;
pub(crate) use incoming::{Found, Incoming, Piece, Watches};
pub(crate) use outgoing::{Outgoing, Quota};

use super::sync::{
    AtomicU32, AtomicU64, Bytes, Ordering, fence_of_sender, fence_of_sleeper, fetch_to_read, order,
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
/// Bits of a piece's number, which is counted round.
pub(crate) const NUMBER: u64 = (1 << 40) - 1;
const FREE: u64 = 0;
const NOTHING: u64 = 0;

/// In a port's `slots_needed`: a receiver has freed slots that the process had wanted.
const GIVEN: u64 = 1 << 63;

/// Whose slots a process needs before it can send: bits of its port's `slots_needed`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SlotsNeeded(u64);

impl SlotsNeeded {
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
    slots_needed: AtomicU64,
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
            slots_needed: AtomicU64::new(0),
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
            _ => self.slots_needed.store(bits, Ordering::Relaxed),
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
        // ORDER: INV-NOTIFY, the sleeper's side.
        self.tail.load(order::notify_look()) != NOTHING
    }

    /// The same, without order.
    #[cfg(all(test, loom))]
    pub(crate) fn seems_to_have_work(&self) -> bool {
        self.tail.load(Ordering::Relaxed) != NOTHING
    }

    /// The process is about to sleep; what was sent to it before must be looked for once more.
    pub(crate) fn fall_asleep(&self) {
        // ORDER: INV-NOTIFY, the sleeper's side. (A swap, where a store would do, as in the core's sleepers.)
        self.asleep.swap(1, order::notify_asleep());
        fence_of_sleeper();
    }

    pub(crate) fn wake_up(&self) {
        self.asleep.store(0, Ordering::Relaxed);
    }

    /// Whether the caller, who has sent something, is to wake the process.
    pub(crate) fn is_to_be_woken(&self) -> bool {
        // ORDER: INV-NOTIFY, the sender's side, after its swap of the tail. Of several one wakes.
        fence_of_sender();
        self.asleep.load(order::notify_find()) != 0 && self.asleep.swap(0, Ordering::Relaxed) != 0
    }

    /// The process has looked, and needs slots. True: it has said so only now, and must look once more. (One OS thread of a process looks and
    /// asks at a time.)
    #[must_use]
    pub(crate) fn want_slots(&self, needed: SlotsNeeded) -> bool {
        // ORDER: Relaxed: what is still wanted was so before the look that has found none, so who frees a slot after that sees it. (If one
        // has, and this is an old value, the process was given room, and tries again.)
        if self.slots_needed.load(Ordering::Relaxed) & needed.0 != 0 {
            return false;
        }
        // ORDER: INV-NOTIFY, for room.
        self.slots_needed.fetch_or(needed.0, order::notify_asleep());
        fence_of_sleeper();
        true
    }

    /// Whether slots were freed that the process has wanted.
    pub(crate) fn is_given_room(&self) -> bool {
        // ORDER: INV-NOTIFY, the sleeper's side.
        self.slots_needed.load(order::notify_look()) & GIVEN != 0
    }

    /// The process tries again all that waits for room, though nobody has said so: what it wants may have been overwritten.
    pub(crate) fn look_for_room(&self) {
        // ORDER: as in `give_room`; the caller rings.
        self.slots_needed.fetch_or(GIVEN, order::room_given());
    }

    /// Whether slots were freed that the process has wanted; once. The caller tries again all that waits for some.
    pub(crate) fn take_room(&self) -> bool {
        // ORDER: Relaxed: the slots themselves say whether they are free, and who finds none wants them again.
        self.slots_needed.load(Ordering::Relaxed) & GIVEN != 0
            && self.slots_needed.fetch_and(!GIVEN, Ordering::Relaxed) & GIVEN != 0
    }

    /// `receiver`, who calls, has freed slots of the process: tells it, if it has wanted those. Whether the caller is to wake it.
    pub(crate) fn give_room(&self, receiver: usize) -> bool {
        let wanted = SlotsNeeded::of(receiver).0 | SlotsNeeded::ANYONE.0;
        // ORDER: INV-NOTIFY, for room, after the slot was freed.
        fence_of_sender();
        let mut slots_needed = self.slots_needed.load(order::notify_find());
        while slots_needed & wanted != 0 {
            let given = slots_needed & !wanted | GIVEN;
            // ORDER: INV-NOTIFY: as a message, before it is looked whether the process sleeps.
            match self.slots_needed.compare_exchange(
                slots_needed,
                given,
                order::room_given(),
                Ordering::Relaxed,
            ) {
                Ok(_) => return self.is_to_be_woken(),
                Err(now) => slots_needed = now,
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

/// Whether one number comes before the other one: they are not far from each other.
pub(crate) fn is_before(number: u64, other: u64) -> bool {
    number.wrapping_sub(other) & NUMBER > NUMBER / 2
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

/// Frees what was published for `receiver`, unless it is free.
fn free(memory: &impl Memory, link: Link, receiver: usize) {
    let state = &memory.slot(link.process, link.slot).state;
    // ORDER: Release: what was read from the slot was read before it is filled again. Sequentially consistent: INV-NOTIFY, for
    // room. A compare-exchange, as the sender of who leaves takes its slots back, and may have filled them again.
    let _ = state.compare_exchange(stamp(receiver, link.number), FREE, order::pull_free(), Ordering::Relaxed);
}
