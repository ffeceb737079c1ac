//! Push: messages are copied into a bounded buffer of their receiver, as in Concert's base runtime (section 4.1.2). It
//! is here to be compared with [pull](super::pull), in the same memory. A long message consists of *pieces*, each in a
//! slot of its own.
//!
//! ```text
//!   slots of B, a lane:  [ #7 of A ] [ #3 of C ] [ claimed by A ] [ free, lap 5 ] .. written by all, freed by B
//!                           ^ B's place                              ^ tail, a hint in B's port
//! ```
//!
//! The slots of a process are its receive buffer: a ring for each lane, which all senders share. A *position* counts
//! slots, lap after lap. To send, a process *claims* the first free position. It fills the slot, and *publishes* it
//! with the number that the piece has among its own for this receiver and lane. If the slot at the tail is not free,
//! the buffer is full. The sender then asks for room, and tries again when it is given some. The receiver takes the
//! positions in order, and frees each slot for the next lap.
//!
//! INV-PUSH: *slots are the truth, the tail is a hint*.
//! * *One process fills a slot*: the word of a free slot holds its lap, and a claim is a compare-exchange of that
//!   word. A sender that was held up meanwhile finds another word. A claim bears its owner, so no slot is lost: if the
//!   owner dies, its receiver frees the slot.
//! * *No gaps*: a position is claimed only where the tail is, and the tail moves only past positions that were claimed.
//!   Any process moves it, so a sender that dies or stops before it moves the tail holds up nobody.
//! * *Once and in order*: the receiver takes a piece only if its number is the next of its sender and lane. A sender
//!   has one claim at a time, so its pieces lie in the order of their numbers.
//! * *A claim holds up nobody*: the receiver passes over it, and goes on with the positions behind it. It looks at a
//!   passed claim before it takes anything else.
//! * *Taken, if its sender dies* after it has published: the receiver is told of the death, and *scans*. It then takes
//!   all positions up to the first free one before it reports the death.
//!
//! A hostile process can destroy messages and change their bytes. It cannot make two others wait for ever. The receiver
//! frees a slot with a wrong word when it comes there. A scan mends a wrong tail, and skips the gaps that it has left. Senders that wait for room ask
//! for a scan with each beat ([INV-SAID](super::said)). A piece with a wrong number ends its sender's connection, as
//! a piece before it was destroyed. INV-NOTIFY holds as for pull: a sender publishes and then looks whether the
//! receiver sleeps. A receiver says that it sleeps, and then looks at its places.
//!
//! One weakness is push's own. A process that was given up while it filled a slot may be alive. Its late writes
//! change the bytes of the next message in that slot, and this message may be another sender's.

mod incoming;
#[cfg(all(test, loom))]
mod models;
mod outgoing;

pub(super) use incoming::{Incoming, Places};
pub(super) use outgoing::Outgoing;

use super::pull::{LANES, MOST_PROCESSES, Memory, NUMBER, Slot};

const VALID: u64 = 1 << 63;
/// Bit of a slot that was claimed, and not published yet.
const CLAIMED: u64 = 1 << 50;
/// The lap's bits that a claimed or published slot bears, and their place.
const LAP: u64 = (1 << 10) - 1;
const LAP_AT: u32 = 40;
const SENDER_AT: u32 = 51;

/// Part of a receiver's slots that are one lane's ring: the first slot, and their number. Half are for users.
fn ring(slots: usize, lane: usize) -> (usize, usize) {
    let part = slots / 4;
    match lane {
        0 => (0, part),
        1 => (part, slots - 2 * part),
        _ => (slots - part, part),
    }
}

/// A place in a receiver's buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place {
    lane: usize,
    position: u64,
}

impl Place {
    fn slot(self, memory: &impl Memory, receiver: usize) -> &Slot {
        let (first, length) = ring(memory.slots(), self.lane);
        memory.slot(receiver, first + (self.position % length as u64) as usize)
    }

    fn lap(self, memory: &impl Memory) -> u64 {
        self.position / ring(memory.slots(), self.lane).1 as u64
    }

    /// The word of the slot while it is free for this lap. (Memory begins as zeros: all slots are free for lap 0.)
    fn free(self, memory: &impl Memory) -> u64 {
        self.lap(memory) & !VALID
    }

    /// The word of the slot when it is free for the next lap.
    fn freed(self, memory: &impl Memory) -> u64 {
        (self.lap(memory) + 1) & !VALID
    }

    fn bits(self) -> u64 {
        VALID | (self.lane as u64) << 60 | self.position & ((1 << 60) - 1)
    }

    fn of_bits(bits: u64) -> Option<Self> {
        let lane = (bits >> 60 & 3) as usize;
        (bits & VALID != 0 && lane < LANES).then_some(Self { lane, position: bits & ((1 << 60) - 1) })
    }
}

/// Contents of a slot's word that is not free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Filled {
    sender: usize,
    number: u64,
    lap: u64,
    is_claimed: bool,
}

impl Filled {
    fn bits(self) -> u64 {
        let claimed = if self.is_claimed { CLAIMED } else { 0 };
        VALID
            | (self.sender as u64) << SENDER_AT
            | claimed
            | (self.lap & LAP) << LAP_AT
            | self.number & NUMBER
    }

    /// Decodes and checks a word that another process may have written, at a place. `None`: the slot is free, or the
    /// word is of another lap, or nonsense.
    fn of_bits(bits: u64, place: Place, memory: &impl Memory) -> Option<Self> {
        let found = Self {
            sender: (bits >> SENDER_AT) as usize & (MOST_PROCESSES - 1),
            number: bits & NUMBER,
            lap: bits >> LAP_AT & LAP,
            is_claimed: bits & CLAIMED != 0,
        };
        (bits & VALID != 0 && found.sender < memory.processes() && found.lap == place.lap(memory) & LAP)
            .then_some(found)
    }
}

/// Whether a word is of this lap or of a later one, and the slot not free for this lap: the tail lags behind.
fn has_passed(bits: u64, place: Place, memory: &impl Memory) -> bool {
    let lap = place.lap(memory);
    match bits & VALID {
        0 => bits > lap,
        _ => (bits >> LAP_AT).wrapping_sub(lap) & LAP <= LAP / 2,
    }
}
