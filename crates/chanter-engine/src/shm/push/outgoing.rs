//! The sender's side of push.

use super::super::pull::{Info, LANES, Memory, NUMBER, SlotsNeeded};
use super::super::sync::{AtomicU64, Ordering, order, point};
use super::{Filled, LAP, Place, has_passed};

/// The sending side of a process. Only the thread that sends uses it.
pub(crate) struct Outgoing {
    me: usize,
    /// Numbers of the last pieces published for each receiver, by lane, and of all lanes together.
    numbers: Vec<[u64; LANES]>,
    published: Vec<u64>,
}

impl Outgoing {
    pub(crate) fn new(me: usize, memory: &impl Memory) -> Self {
        Self { me, numbers: vec![[0; LANES]; memory.processes()], published: vec![0; memory.processes()] }
    }

    /// Sends a piece.
    ///
    /// # Errors
    /// The receiver's buffer is full.
    pub(crate) fn send(
        &mut self,
        memory: &impl Memory,
        to: usize,
        info: Info,
        bytes: &[u8],
    ) -> Result<(), SlotsNeeded> {
        let number = (self.numbers[to][info.lane] + 1) & NUMBER;
        let (place, mut filled) = self.claim(memory, to, info.lane, number).ok_or(SlotsNeeded::of(to))?;
        self.numbers[to][info.lane] = number;
        self.published[to] = (self.published[to] + 1) & NUMBER;
        if point("push.claimed") {
            return Ok(());
        }
        let slot = place.slot(memory, to);
        slot.body.write_rest(bytes);
        slot.info.store(info.bits(), Ordering::Relaxed);
        slot.body.write_first(bytes);
        if point("push.filled") {
            return Ok(());
        }
        let claimed = filled.bits();
        filled.is_claimed = false;
        // ORDER: Release: a receiver that sees the word sees the content. Sequentially consistent: INV-NOTIFY, the
        // sender's side. A compare-exchange, as the receiver frees the claims of a process that it has given up. The
        // piece is then lost, as the process is.
        let _ = slot.state.compare_exchange(claimed, filled.bits(), order::push_publish(), Ordering::Relaxed);
        let _ = point("push.published");
        Ok(())
    }

    /// Claims the first free position.
    fn claim(&self, memory: &impl Memory, to: usize, lane: usize, number: u64) -> Option<(Place, Filled)> {
        let tail = memory.port(to).pushed(lane);
        // ORDER: Relaxed: the tail is a hint. An old value leads to a slot whose word says so.
        let mut place = Place { lane, position: tail.load(Ordering::Relaxed) };
        // The tail lags by no more than this, unless it is nonsense.
        for _ in 0..=memory.slots() {
            let state = &place.slot(memory, to).state;
            // ORDER: Sequentially consistent: INV-NOTIFY, for room. Acquire: the receiver has read what is overwritten.
            let mut found = state.load(order::push_look());
            if found == place.free(memory) {
                let lap = place.lap(memory) & LAP;
                let filled = Filled { sender: self.me, number, lap, is_claimed: true };
                // ORDER: Release: a receiver that sees this claim sees the sender's last piece published. The load has
                // acquired the same word, which each slot has once.
                match state.compare_exchange(found, filled.bits(), order::push_claim(), Ordering::Relaxed) {
                    Ok(_) => {
                        let _ = point("push.marked");
                        self.move_tail(tail, place);
                        return Some((place, filled));
                    }
                    Err(now) => found = now,
                }
            }
            if !has_passed(found, place, memory) {
                return None;
            }
            place.position = self.move_tail(tail, place);
        }
        None
    }

    /// Moves the tail past a position that was claimed. Returns where to look next.
    fn move_tail(&self, tail: &AtomicU64, place: Place) -> u64 {
        let next = place.position.wrapping_add(1);
        // ORDER: Relaxed, as the tail is a hint.
        match tail.compare_exchange(place.position, next, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => next,
            Err(now) => now,
        }
    }

    /// Number of the pieces published for the receiver `to`.
    #[inline]
    pub(crate) fn number(&self, to: usize) -> u64 {
        self.published[to]
    }
}
