//! `IVar`: a value that is written once and read by all.

use std::fmt;
use std::pin::Pin;
use std::sync::OnceLock;

use crate::event::{BaseEvent, Branch, Event, Offer, Offered, Offering, WaitQueue, WakeList, into_future};
use crate::frame::report::{Waiting, Waits};
use crate::sync::Arc;

/// A write-once variable. Clones share it.
///
/// ```
/// # use chanter::prelude::*;
/// let answer = IVar::new();
/// let same = answer.clone();
/// std::thread::spawn(move || same.put(42).unwrap());
/// assert_eq!(answer.get().sync_blocking(), 42);
/// assert_eq!(answer.put(43), Err(43));
/// ```
pub struct IVar<T> {
    cell: Arc<Cell<T>>,
}

struct Cell<T> {
    value: OnceLock<T>,
    waiters: WaitQueue,
}

impl<T> IVar<T> {
    /// Makes an empty variable.
    pub fn new() -> Self {
        Self { cell: Arc::new(Cell { value: OnceLock::new(), waiters: WaitQueue::new() }) }
    }

    /// Writes the value, and wakes all threads that wait for it. Never blocks.
    ///
    /// # Errors
    /// Returns `value` in the error if the variable has a value already.
    pub fn put(&self, value: T) -> Result<(), T> {
        self.cell.value.set(value)?;
        let mut wakes = WakeList::new();
        self.cell.waiters.complete_all(&mut wakes);
        wakes.queue();
        Ok(())
    }

    /// Returns the value, if it has been written.
    pub fn try_get(&self) -> Option<&T> {
        self.cell.value.get()
    }

    /// The event that the variable is written. It yields a copy of the value.
    ///
    /// It is ready for ever afterwards. If it is not chosen, nothing happens.
    pub fn get(&self) -> Get<T>
    where
        T: Clone,
    {
        Get { ivar: self.clone() }
    }
}

impl<T> Default for IVar<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Clone for IVar<T> {
    fn clone(&self) -> Self {
        Self { cell: Arc::clone(&self.cell) }
    }
}

impl<T> fmt::Debug for IVar<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IVar").field("written", &self.cell.value.get().is_some()).finish()
    }
}

/// The event of reading an [`IVar`]; see [`IVar::get`].
#[derive(Clone, Debug)]
#[must_use = "events do nothing unless synchronized"]
pub struct Get<T> {
    ivar: IVar<T>,
}

into_future!([T: Clone] Get<T>, T);

// SAFETY: the branch holds the variable, as the event does, and an offer. Partners reach the offer under the queue's
// lock only, on whatever thread the owner is.
unsafe impl<T: Clone> Event for Get<T> {
    type Branch = GetBranch<T>;

    fn into_branch(self) -> GetBranch<T> {
        GetBranch { ivar: self.ivar, offer: Offer::new() }
    }
}

// SAFETY: the branch has one leaf, neither walked nor retried. A partner that passes its offer over unlinks it, so it
// may be offered again.
unsafe impl<T: Clone> BaseEvent for Get<T> {
    const LASTS: bool = true;
    fn is_last(_: &Self::Branch) -> bool {
        false
    }
    fn take_back(_: Pin<&mut Self::Branch>) -> bool {
        false
    }
}

#[doc(hidden)]
#[derive(Debug)]
pub struct GetBranch<T> {
    ivar: IVar<T>,
    offer: Offer,
}

impl<T> GetBranch<T> {
    fn is_written(&self) -> bool {
        self.ivar.cell.value.get().is_some()
    }
}

// SAFETY: `settle` and `drop` retract the offer, and no user code runs under the queue's lock.
#[allow(private_interfaces, reason = "sealed: the protocol's types stay inside")]
unsafe impl<T: Clone> Branch for GetBranch<T> {
    type Output = T;
    const SINGLE: bool = true;

    fn try_leaf(self: Pin<&mut Self>, _leaf: usize, _wakes: &mut WakeList) -> bool {
        self.is_written()
    }

    fn offer_leaf(self: Pin<&mut Self>, _leaf: usize, at: &Offering<'_>, _wakes: &mut WakeList) -> Offered {
        // SAFETY: the offer is pinned with the branch, and is retracted in `drop` at the latest, before the branch
        // dies.
        unsafe { self.ivar.cell.waiters.offer(&self.offer, at, || self.is_written()) }
    }

    fn settle(self: Pin<&mut Self>, winner: Option<usize>, _wakes: &mut WakeList) {
        self.ivar.cell.waiters.retract(&self.offer, winner.is_some());
    }

    fn finish(self: Pin<&mut Self>, _leaf: usize) -> T {
        self.ivar.cell.value.get().expect("committed, hence written").clone()
    }

    fn waits(&self, waits: &mut Waits) {
        waits.push_if(self.is_written(), Waiting::Read);
    }

    fn locked(self: Pin<&mut Self>, f: &mut dyn FnMut()) {
        self.ivar.cell.waiters.locked(f);
    }
}

impl<T> Drop for GetBranch<T> {
    fn drop(&mut self) {
        self.ivar.cell.waiters.retract(&self.offer, false);
    }
}
