//! `IVar`: a value that is written once and read by all.

use std::fmt;
use std::pin::Pin;
use std::sync::OnceLock;

use crate::event::{BaseEvent, Event, Once, OnceBranch, WaitQueue, WakeList, into_future};
use crate::frame::report::Waiting;
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
    type Branch = OnceBranch<Self>;

    fn into_branch(self) -> Self::Branch {
        OnceBranch::new(self)
    }
}

// SAFETY: the value is written before `complete_all` is called, and is never taken out.
unsafe impl<T: Clone> Once for Get<T> {
    type Output = T;
    const WAITING: Waiting = Waiting::Read;

    fn waiters(&self) -> &WaitQueue {
        &self.ivar.cell.waiters
    }
    fn has_happened(&self) -> bool {
        self.ivar.cell.value.get().is_some()
    }
    fn output(&self) -> T {
        self.ivar.cell.value.get().expect("committed, hence written").clone()
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
