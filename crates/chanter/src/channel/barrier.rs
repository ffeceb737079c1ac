//! `Barrier`: a number of parties go on together.

use std::fmt;
use std::ops::DerefMut;
use std::ptr::NonNull;

use super::place::{Place, Queue, Slot, operation};
use crate::event::protocol::Take;
use crate::event::{Offer, Offered, Offering, Verdict, WakeList};
use crate::sync::{Arc, Lock, spin};

/// A meeting of a number of parties: their waits commit together, or none does. It can be used again at once. Clones
/// share it.
///
/// A wait is an event like any other. A party has left if its choice commits to something else, or its
/// synchronization is dropped. The others then go on waiting for the number that is needed. So this is the rendezvous
/// of *n* parties. It cannot be made of channels, which join two. All *n* take part at the moment of the commit, and
/// none of them ever commits to anything else.
///
/// Like every partner of a rendezvous, a party counts while it waits, whether or not it is polled. A party is granted
/// only the right to go on, so nothing is lost when it is dropped after the commit.
///
/// ```
/// # use chanter::prelude::*;
/// # use chanter::sync::Barrier;
/// let barrier = Barrier::new(2);
/// let other = barrier.clone();
/// let thread = std::thread::spawn(move || other.wait().sync_blocking());
/// let here = barrier.wait().sync_blocking();
/// assert!(here.is_leader() != thread.join().unwrap().is_leader());
/// assert!(barrier.wait().try_sync().is_none());
/// ```
///
/// The synchronization is that of Donnelly and Fluet's transactional events, for this one case. Concurrent ML has no
/// such barrier (Reppy, *Concurrent Programming in ML*, section 6.4).
#[derive(Clone)]
pub struct Barrier {
    cell: Arc<Cell>,
}

struct Cell {
    parties: usize,
    state: Lock<State>,
}

#[doc(hidden)]
pub struct State {
    waiting: Queue<BarrierPass>,
    /// An upper bound of the number of waiters that could still commit. A choice that waits here twice counts twice,
    /// and one that commits elsewhere counts until it leaves.
    count: usize,
    /// The offers that are reserved. The vector is kept for its memory.
    reserved: Reserved,
}

struct Reserved(Vec<NonNull<Offer>>);

// SAFETY: the vector is filled and emptied within one critical section, so it is empty when the state changes
// threads.
unsafe impl Send for Reserved {}

/// The result of passing a [`Barrier`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BarrierPass {
    leader: bool,
}

impl BarrierPass {
    /// Whether this party came last in its round. There is one such party in each round.
    pub fn is_leader(&self) -> bool {
        self.leader
    }
}

impl Barrier {
    /// Makes a barrier for `parties` parties. For 0 or 1, waits commit at once.
    pub fn new(parties: usize) -> Self {
        let reserved = Reserved(Vec::with_capacity(parties.saturating_sub(1)));
        let state = Lock::new(State { waiting: Queue::new(), count: 0, reserved });
        Self { cell: Arc::new(Cell { parties, state }) }
    }

    /// The event of passing the barrier together with the other parties.
    ///
    /// It commits together with the number of other waits that is needed. Those that came first go first. A choice
    /// that waits twice is one party. If it is not chosen, or dropped before the commit, the party has left.
    pub fn wait(&self) -> BarrierWait {
        BarrierWait { place: self.clone(), note: BarrierPass { leader: false } }
    }

    /// The number of parties that are needed.
    pub fn parties(&self) -> usize {
        self.cell.parties
    }
}

impl fmt::Debug for Barrier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Barrier").field("parties", &self.cell.parties).finish_non_exhaustive()
    }
}

// SAFETY: the queue is a field of the state, which stays behind the lock. Values are only moved under it, so no user
// code runs there.
#[allow(private_interfaces, reason = "sealed: the protocol\'s types stay inside")]
unsafe impl Place for Barrier {
    const MEETS: bool = true;
    type Note = BarrierPass;
    type State = State;

    fn lock(&self) -> impl DerefMut<Target = State> {
        self.cell.state.lock()
    }

    fn queue<'a>(&self, state: &'a mut State, _note: &BarrierPass) -> &'a mut Queue<BarrierPass> {
        &mut state.waiting
    }

    fn is_ready(&self, state: &State, _note: &BarrierPass) -> bool {
        state.count + 1 >= self.cell.parties
    }

    fn act(&self, _state: &mut State, note: &mut BarrierPass, _wakes: &mut WakeList) {
        note.leader = true;
    }

    fn undo(&self, _state: &mut State, _note: &mut BarrierPass, _wakes: &mut WakeList) {}

    fn waits(&self, state: &mut State, waits: bool) {
        if waits {
            state.count += 1;
        } else {
            state.count -= 1;
        }
    }

    fn meet(
        &self,
        state: &mut State,
        slot: &Slot<BarrierPass>,
        own: Option<&Offering<'_>>,
        wakes: &mut WakeList,
    ) -> Option<Offered> {
        // SAFETY: the slot belongs to the caller, and is not queued.
        let note = unsafe { slot.note() };
        if !self.is_ready(state, note) {
            return None;
        }
        let others = self.cell.parties.saturating_sub(1);
        let choice = own.filter(|own| !own.single);
        let State { waiting, count, reserved: Reserved(reserved) } = state;
        let mut turn = 0;
        loop {
            if choice.is_some_and(|own| !own.group.claim()) {
                return Some(Offered::Lost);
            }
            // SAFETY: the lock is held. Offers that are reserved are published below, before the lock is released.
            let reserved = unsafe { waiting.offers().reserve(own.map(|own| own.group), others, reserved) };
            if reserved == Take::Won {
                break;
            }
            if let Some(own) = choice {
                own.group.unclaim();
            }
            if reserved == Take::Lost {
                return None;
            }
            // With our claims given up, the owners of busy groups make progress.
            spin(&mut turn);
        }
        if let Some(own) = own {
            own.group.commit(own.leaf);
        }
        note.leader = true;
        for offer in reserved.drain(..) {
            *count -= 1;
            // SAFETY: the offer is in the list, reserved by us, and in a slot of this place. The lock is held.
            unsafe {
                waiting.offers().unlink(offer);
                offer.cast::<Slot<BarrierPass>>().as_ref().note().leader = false;
                wakes.push(Offer::complete(offer, Verdict::Committed));
            }
        }
        Some(Offered::Committed)
    }
}

operation! {
    /// The event of passing a [`Barrier`]; see [`Barrier::wait`].
    BarrierWait[] at Barrier, yields BarrierPass: |_, note| *note
}
