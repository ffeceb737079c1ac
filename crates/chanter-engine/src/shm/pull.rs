//! The pull queue: messages lie with their senders until their receiver takes them. A long message consists of
//! *pieces*, each in a slot of its own.
//!
//! ```text
//!   sender's slots           [ free ] [ #7 for B ] [ free ] [ #8 for B ] .. written by sender, freed by receiver
//!                                        next ------------------^
//!   B's port   first -> slot #7 (after a time without messages)      tail -> slot #8
//! ```
//!
//! To send, a process fills a free slot and *publishes* it for its receiver. Its pieces for one receiver are
//! numbered, and the slot bears the next number. It then *swaps* the slot into the tail of the receiver's port, and
//! *links* it behind the slot that was there (or as the first).
//!
//! Where there are few processes ([`MOST_WATCHED`]), only the first message from one process to another is sent like
//! this. In each message the sender names the slot of the next one, and the receiver *watches* that slot. The sender
//! then only fills and publishes it. No third process touches the cache lines. A sender that has no slot to name says
//! so, and links the next message.
//!
//! INV-PULL: *slots are the truth, links are a hint*, and so is the slot that a message names for the next one. The
//! receiver
//! 1. takes a slot only if its number is the next that it expects from that sender.
//! 2. *scans* when the links end before the tail for too long, or lead astray, or a sender has died. A scan empties
//!    the tail. Then it takes all pieces published for the receiver from the slots of all processes, in order of numbers.
//! 3. frees at once the slots that a scan has taken. A link that leads to a freed slot is passed over.
//!
//! A published piece is taken, once, and in order:
//! * *Once and in order*, by rule 1: the receiver alone counts the pieces that it has taken, and a slot is not filled
//!   again before it was freed. A link only says where to look, whatever it holds and whichever process has written
//!   it.
//! * *Taken, if its sender goes on*: the sender swaps the tail after it has published. A receiver finds the tail
//!   empty only if it has emptied it itself, in one of two cases. It has taken the slot that was in the tail: then
//!   all pieces before that were taken, or a link had led astray, and it has scanned. Or it has scanned, and a scan
//!   sees every piece whose swap came before its own. So the tail is not empty while a piece is published whose swap
//!   came after the last scan, and rule 2 finds that piece. A piece that was not linked lies in the slot named by the
//!   message before it. Once that message is taken, in any way, the receiver watches the slot until it has taken the
//!   piece that is published there.
//! * *Taken, if its sender dies* at any point after it has published: the receiver is told of the death, and scans.
//!
//! No process takes its counts from a slot. A hostile process that writes into shared memory can make the receiver
//! scan, can destroy messages, and can change their bytes. Indices and lengths are checked where they are read. A
//! destroyed message is noticed, and its sender and receiver give each other up ([INV-SAID](super::said)). They also
//! do so if a slot claims to hold a piece that was taken before.
//!
//! INV-NOTIFY: a sender swaps the tail, or publishes in the watched slot, and then looks whether the receiver is
//! asleep. A receiver that falls asleep says so, and then looks at the tail and at the slots that it watches. All
//! these accesses are sequentially consistent, so one of the two sees the other. The same holds for room: a sender
//! says whose room it wants, and then looks at the slots once more. That receiver frees a slot, and then looks
//! whether its room is wanted. It also holds between a receiver that has given room and a sender that falls asleep. A
//! sender with new room retries everything that waits for room, and asks again for room that it still lacks. A
//! receiver whose room is not wanted wakes no process, whatever room of other receivers is wanted. If several OS
//! threads of a receiver look, the last one to fall asleep knows the slots that the others have watched; see
//! [`Watches`].

mod incoming;
mod outgoing;

#[cfg(test)]
pub(crate) use incoming::Rules;
pub(crate) use incoming::{Found, Incoming, Piece, Watches};
pub(crate) use outgoing::{Outgoing, Quota};

use super::sync::{
    AtomicU32, AtomicU64, Bytes, Ordering, fence_of_sender, fence_of_sleeper, fetch_to_read, order,
};

/// Largest number of processes of a segment, and of a job.
pub(crate) const MOST_PROCESSES: usize = 1 << 12;
/// Largest number of slots of a process.
pub(crate) const MOST_SLOTS: usize = 1 << 11;
/// Number of lanes.
pub(crate) const LANES: usize = 3;
/// Largest number of processes of a segment in which each watches the others.
pub(crate) const MOST_WATCHED: usize = 16;

const VALID: u64 = 1 << 63;
/// Bits of a piece's number, which wraps around.
pub(crate) const NUMBER: u64 = (1 << 40) - 1;
const FREE: u64 = 0;
const NOTHING: u64 = 0;

/// Bit of a port's `slots_needed`: a receiver has freed slots that the process had wanted.
const GIVEN: u64 = 1 << 63;

/// The receivers that must free slots before a process can send: bits of its port's `slots_needed`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SlotsNeeded(u64);

impl SlotsNeeded {
    /// Any receiver that frees slots.
    const ANYONE: Self = Self(1 << 62);

    /// The need of a sender that has published all it may for `receiver`. (Receivers whose numbers are 62 apart share
    /// a bit; then one too many is asked.)
    pub(crate) fn of(receiver: usize) -> Self {
        Self(1 << (receiver % 62))
    }
}

/// A message, or a piece of one.
#[repr(C, align(64))]
pub(crate) struct Slot {
    /// [`FREE`], or the receiver for which it is published and the piece's number: a [`stamp`]. (With
    /// [push](super::push), a word of that protocol.)
    pub(super) state: AtomicU64,
    /// A link to the piece sent to the same receiver after it, if it is known.
    next: AtomicU64,
    /// Bits of an [`Info`], and above them the next slot.
    pub(super) info: AtomicU64,
    pub(super) body: Bytes,
}

/// The port of a receiver: the end of its queue, and its state.
#[repr(C, align(64))]
pub(crate) struct Port {
    /// Link to the last slot that was sent here.
    tail: AtomicU64,
    /// Link to the first slot after the tail was empty.
    first: AtomicU64,
    /// Not 0 while the process sleeps and wants to be woken.
    asleep: AtomicU32,
    /// Receivers of which the process wants slots, and whether it was [`GIVEN`] some.
    slots_needed: AtomicU64,
    /// Not 0 once the process reads from this port.
    attached: AtomicU32,
    /// Tails of the rings of [push](super::push), by lane.
    pushed: [AtomicU64; LANES],
}

/// The memory that holds slots and ports.
pub(crate) trait Memory {
    fn processes(&self) -> usize;
    fn slots(&self) -> usize;
    /// The slot of a process. Both indices must be in bounds.
    fn slot(&self, process: usize, slot: usize) -> &Slot;
    /// The port of a process. The index must be in bounds.
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
            pushed: std::array::from_fn(|_| AtomicU64::new(0)),
        }
    }
}

impl Slot {
    /// Hints that this processor will read the state soon.
    #[inline(always)]
    fn fetch_state(&self) {
        fetch_to_read(&raw const self.state);
    }
}

/// Writes that another process may make at any time.
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

/// Writes that another process may make at any time.
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

    #[cfg(test)]
    pub(crate) fn scribble_pushed(&self, lane: u8, bits: u64) {
        self.pushed[usize::from(lane) % LANES].store(bits, Ordering::Relaxed);
    }
}

impl Port {
    /// States that the process reads from this port from now on.
    pub(crate) fn attach(&self) {
        self.attached.store(1, Ordering::Relaxed);
    }

    #[cfg(all(test, not(loom)))]
    pub(crate) fn detach(&self) {
        self.attached.store(0, Ordering::Relaxed);
    }

    /// Whether the process reads from this port. The caller has talked with it in other ways since, which orders the
    /// load.
    pub(crate) fn is_attached(&self) -> bool {
        self.attached.load(Ordering::Relaxed) == 1
    }

    /// Whether a piece was sent here and not taken, or is about to be linked.
    pub(crate) fn has_work(&self) -> bool {
        // ORDER: INV-NOTIFY, the sleeper's side.
        self.tail.load(order::notify_look()) != NOTHING
    }

    /// The tail of a ring of [push](super::push).
    pub(super) fn pushed(&self, lane: usize) -> &AtomicU64 {
        &self.pushed[lane]
    }

    /// Whether it has work, without an ordering.
    #[cfg(all(test, loom))]
    pub(crate) fn seems_to_have_work(&self) -> bool {
        self.tail.load(Ordering::Relaxed) != NOTHING
    }

    /// Announces that the process is about to sleep. The caller must look once more for pieces sent before.
    pub(crate) fn fall_asleep(&self) {
        // ORDER: INV-NOTIFY, the sleeper's side. (A swap, where a store would do, as in the core's sleepers.)
        self.asleep.swap(1, order::notify_asleep());
        fence_of_sleeper();
    }

    pub(crate) fn wake_up(&self) {
        self.asleep.store(0, Ordering::Relaxed);
    }

    /// Whether the caller, which has sent a piece, is to wake the process.
    pub(crate) fn is_to_be_woken(&self) -> bool {
        // ORDER: INV-NOTIFY, the sender's side, after its swap of the tail. Of several senders, one wakes the
        // process.
        fence_of_sender();
        self.asleep.load(order::notify_find()) != 0 && self.asleep.swap(0, Ordering::Relaxed) != 0
    }

    /// Asks for slots, since the process has found none that is free. True: it has asked only now, and must look once
    /// more. (One OS thread of a process looks and asks at a time.)
    #[must_use]
    pub(crate) fn want_slots(&self, needed: SlotsNeeded) -> bool {
        // ORDER: Relaxed: slots that are still wanted were wanted before the look that has found none. So a receiver
        // that frees one later sees this. (If one has been freed and this is an old value, the process was given
        // room, and tries again.)
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

    /// Makes the process retry all sends that wait for room, though no room was given. Its request may have been
    /// overwritten.
    pub(crate) fn look_for_room(&self) {
        // ORDER: INV-NOTIFY: stored as by a receiver that gives room, before the caller checks whether the process
        // sleeps. The caller notifies.
        self.slots_needed.fetch_or(GIVEN, order::room_given());
    }

    /// Takes the notice that wanted slots were freed. The caller then retries all sends that wait for room.
    pub(crate) fn take_room(&self) -> bool {
        // ORDER: Relaxed: the slots themselves say whether they are free, and a process that finds none asks again.
        self.slots_needed.load(Ordering::Relaxed) & GIVEN != 0
            && self.slots_needed.fetch_and(!GIVEN, Ordering::Relaxed) & GIVEN != 0
    }

    /// Tells the process that `receiver`, the caller, has freed some of its slots, if the process has wanted these.
    /// True: the caller is to wake it.
    pub(crate) fn give_room(&self, receiver: usize) -> bool {
        let wanted = SlotsNeeded::of(receiver).0 | SlotsNeeded::ANYONE.0;
        // ORDER: INV-NOTIFY, for room, after the slot was freed.
        fence_of_sender();
        let mut slots_needed = self.slots_needed.load(order::notify_find());
        while slots_needed & wanted != 0 {
            let given = slots_needed & !wanted | GIVEN;
            // ORDER: INV-NOTIFY: written as a message is, before the caller checks whether the process sleeps.
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

/// A slot in a table, and the number of the piece in it when the link was made.
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

    /// Decodes and checks bits that another process may have written.
    fn of_bits(bits: u64, memory: &impl Memory) -> Option<Self> {
        let link = Self {
            process: (bits >> 51) as usize & (MOST_PROCESSES - 1),
            slot: (bits >> 40) as usize & (MOST_SLOTS - 1),
            number: bits & NUMBER,
        };
        (bits & VALID != 0 && link.process < memory.processes() && link.slot < memory.slots()).then_some(link)
    }
}

/// Whether `number` comes before `other`. Both are near each other, as numbers wrap around.
pub(crate) fn is_before(number: u64, other: u64) -> bool {
    number.wrapping_sub(other) & NUMBER > NUMBER / 2
}

/// The state of a slot that is published for `receiver`.
pub(crate) fn stamp(receiver: usize, number: u64) -> u64 {
    VALID | (receiver as u64) << 51 | number
}

/// A description of the piece in a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Info {
    pub(crate) length: usize,
    pub(crate) lane: usize,
    /// Whether more pieces of the message follow.
    pub(crate) has_more: bool,
}

impl Info {
    pub(crate) fn bits(self) -> u64 {
        self.length as u64 | (self.lane as u64) << 32 | u64::from(self.has_more) << 40
    }

    pub(super) fn of_bits(bits: u64) -> Option<Self> {
        let info = Self {
            length: bits as u32 as usize,
            lane: (bits >> 32) as u8 as usize,
            has_more: bits >> 40 & 1 == 1,
        };
        (info.length <= Bytes::LENGTH && info.lane < LANES).then_some(info)
    }
}

/// Position of the next piece's slot, above the bits of an [`Info`]. The value 0 names none.
const NEXT: u32 = 41;

fn next_bits(next: Option<usize>) -> u64 {
    next.map_or(0, |slot| (slot as u64 + 1) << NEXT)
}

/// Frees a slot that was published for `receiver`, unless it is free.
fn free(memory: &impl Memory, link: Link, receiver: usize) {
    let state = &memory.slot(link.process, link.slot).state;
    // ORDER: Release: all reads of the slot come before it is filled again. Sequentially consistent: INV-NOTIFY, for
    // room. A compare-exchange, as a sender takes slots back from a receiver that leaves, and may have filled them
    // again.
    let _ = state.compare_exchange(stamp(receiver, link.number), FREE, order::pull_free(), Ordering::Relaxed);
}
