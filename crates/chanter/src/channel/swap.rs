//! Swap channels: two parties exchange values.

use std::fmt;
use std::marker::PhantomData;
use std::ops::DerefMut;
use std::pin::Pin;

use super::error::{Closed, SendError, TrySendError};
use super::meet::{Meet, meet};
use super::place::{Place, Queue, Slot, operation, try_now};
use super::send_from::{Giving, put_back};
use crate::event::{Offer, Offered, Offering, Verdict, WakeList};
use crate::sync::{Arc, Lock};

/// Makes two ends between which values are exchanged. `left.swap(a)` and `right.swap(b)` commit together: the left
/// gets `b`, the right `a`.
///
/// Ends may be cloned. Each exchange is between one clone of either end.
///
/// ```
/// # use chanter::prelude::*;
/// # use chanter::sync::swap;
/// let (left, right) = swap::<u32, &str>();
/// std::thread::spawn(move || assert_eq!(right.swap("one").sync_blocking(), Ok(1)));
/// assert_eq!(left.swap(1).sync_blocking(), Ok("one"));
/// ```
///
/// Hoare's and Milner's synchronous exchange, between ends of two kinds. For Concurrent ML's swap channel see
/// [`SwapChannel`].
pub fn swap<A, B>() -> (Swap<A, B>, Swap<B, A>) {
    let core = Arc::new(Core::new([1, 1]));
    (
        Swap { core: Arc::clone(&core), mine: 0, theirs: 1, values: PhantomData },
        Swap { core, mine: 1, theirs: 0, values: PhantomData },
    )
}

/// One end of a swap channel, which gives `A`s and gets `B`s; see [`swap()`].
pub struct Swap<A, B> {
    core: Arc<Core>,
    /// The index of the queue in which this end's operations wait. The next field is that of its partners'. The two
    /// are the same if both ends are the same.
    mine: usize,
    theirs: usize,
    /// Makes the type invariant, since the values that one end gives, another gets.
    values: PhantomData<*mut (A, B)>,
}

// SAFETY: an end moves values between threads, which their `Send` allows, and shares none.
unsafe impl<A: Send, B: Send> Send for Swap<A, B> {}
// SAFETY: a shared end moves values between threads, which their `Send` allows, and shares none.
unsafe impl<A: Send, B: Send> Sync for Swap<A, B> {}

struct Core(Lock<State>);

#[doc(hidden)]
pub struct State {
    /// The waiting operations. Queue 0 has notes of type `Note<A, B>`, queue 1 of type `Note<B, A>`.
    waiting: [Queue<()>; 2],
    /// The number of handles and events of each side.
    shares: [usize; 2],
}

#[doc(hidden)]
pub struct Note<A, B> {
    give: Option<A>,
    got: Option<B>,
}

impl Core {
    fn new(shares: [usize; 2]) -> Self {
        Self(Lock::new(State { waiting: [Queue::new(), Queue::new()], shares }))
    }
}

// SAFETY: the queues are fields of the state, which stays behind the lock. Values are only moved under it, so no user
// code runs there.
#[allow(private_interfaces, reason = "sealed: the protocol\'s types stay inside")]
unsafe impl<A, B> Place for Swap<A, B> {
    const MEETS: bool = true;
    type Note = Note<A, B>;
    type State = State;

    fn lock(&self) -> impl DerefMut<Target = State> {
        self.core.0.lock()
    }

    fn queue<'a>(&self, state: &'a mut State, _note: &Note<A, B>) -> &'a mut Queue<Note<A, B>> {
        // SAFETY: only ends with this index wait in this queue, and their notes are of this type.
        unsafe { state.waiting[self.mine].with_notes() }
    }

    fn is_ready(&self, state: &State, _note: &Note<A, B>) -> bool {
        self.is_closed_to(state)
    }

    /// Nobody is left at the other end, so the note stays as it is.
    fn act(&self, _state: &mut State, _note: &mut Note<A, B>, _wakes: &mut WakeList) {}

    /// The exchange has happened, and is not reverted.
    fn undo(&self, _state: &mut State, _note: &mut Note<A, B>, _wakes: &mut WakeList) {}

    fn meet(
        &self,
        state: &mut State,
        slot: &Slot<Note<A, B>>,
        own: Option<&Offering<'_>>,
        wakes: &mut WakeList,
    ) -> Option<Offered> {
        // SAFETY: the lock of the list is held.
        match unsafe { meet(state.waiting[self.theirs].offers(), own) } {
            Meet::Won(offer) => {
                // SAFETY: our slot is ours, and the partner's is won under the lock. The types of the notes are those
                // of the two ends.
                unsafe {
                    let mine = slot.note();
                    let theirs = offer.cast::<Slot<Note<B, A>>>().as_ref().note();
                    mine.got = theirs.give.take();
                    theirs.got = mine.give.take();
                    let turn = offer.as_ref().group().turn_if_given();
                    wakes.push_for(Offer::complete(offer, Verdict::Committed), turn);
                }
                Some(Offered::Committed)
            }
            Meet::WithShare(_) => unreachable!("exchanges keep their shares"),
            Meet::Lost => Some(Offered::Lost),
            Meet::Nobody if !self.is_closed_to(state) => None,
            Meet::Nobody => match own {
                Some(own) => Some(own.commit_alone()),
                None => Some(Offered::Committed),
            },
        }
    }
}

impl<A, B> Swap<A, B> {
    fn is_closed_to(&self, state: &State) -> bool {
        self.mine != self.theirs && state.shares[self.theirs] == 0
    }

    /// The event of giving `value` and getting a value from the other end, both at once.
    ///
    /// It commits together with a `swap` of the other end. If the other end has neither handle nor event left, it
    /// commits to an error that gives `value` back. A choice never exchanges with itself.
    ///
    /// If it is not chosen, or dropped before the commit, `value` is dropped. If it is dropped after the commit, the
    /// exchange has happened: the other end has `value`, and the value that it gave is dropped. (No protocol could do
    /// better: one of two parties learns of the commit last.) [`swap_from`](Self::swap_from) tells which of these
    /// cases it was.
    pub fn swap(&self, value: A) -> Exchange<A, B> {
        Exchange { place: self.clone(), note: Note { give: Some(value), got: None } }
    }

    /// Exchanges values if a partner waits at the other end. Never blocks.
    ///
    /// # Errors
    /// Returns `value` in the error: `Full` if no partner waits now, `Closed` if none ever will.
    pub fn try_swap(&self, value: A) -> Result<B, TrySendError<A>> {
        let mut note = match try_now(self, Note { give: Some(value), got: None }) {
            Ok(note) => note,
            Err(note) => return Err(TrySendError::Full(note.give.expect("not given"))),
        };
        note.take().map_err(|SendError(value)| TrySendError::Closed(value))
    }

    /// Whether an exchange would fail, because nobody is left at the other end.
    pub fn is_closed(&self) -> bool {
        self.is_closed_to(&self.core.0.lock())
    }
}

impl<A, B> Note<A, B> {
    /// Returns the result of a committed exchange.
    fn take(&mut self) -> Result<B, SendError<A>> {
        let closed = || SendError(self.give.take().expect("given only if got"));
        self.got.take().ok_or_else(closed)
    }
}

impl<A, B> Clone for Swap<A, B> {
    fn clone(&self) -> Self {
        self.core.0.lock().shares[self.mine] += 1;
        Self { core: Arc::clone(&self.core), mine: self.mine, theirs: self.theirs, values: PhantomData }
    }
}

impl<A, B> Drop for Swap<A, B> {
    fn drop(&mut self) {
        let mut wakes = WakeList::new();
        {
            let mut state = self.core.0.lock();
            state.shares[self.mine] -= 1;
            if self.mine != self.theirs && state.shares[self.mine] == 0 {
                // Operations that wait for this end are told, and keep their values.
                while state.waiting[self.theirs].serve(&mut wakes, |()| ()).is_some() {}
            }
        }
        wakes.queue();
    }
}

impl<A, B> fmt::Debug for Swap<A, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Swap").field("closed", &self.is_closed()).finish_non_exhaustive()
    }
}

operation! {
    /// The event of an exchange; see [`Swap::swap`].
    Exchange[A, B] at Swap<A, B>, yields Result<B, SendError<A>>: |_, note| note.take()
}

/// A channel whose users are all alike: any two that synchronize on it exchange their values. Clones share it.
///
/// ```
/// # use chanter::prelude::*;
/// # use chanter::sync::SwapChannel;
/// let channel = SwapChannel::new();
/// let other = channel.clone();
/// std::thread::spawn(move || assert_eq!(other.swap(1).sync_blocking(), 2));
/// assert_eq!(channel.swap(2).sync_blocking(), 1);
/// ```
///
/// Concurrent ML's swap channel. There, an exchange takes a choice of a send and a receive, and one more message.
pub struct SwapChannel<T> {
    end: Swap<T, T>,
}

impl<T> Clone for SwapChannel<T> {
    fn clone(&self) -> Self {
        Self { end: self.end.clone() }
    }
}

impl<T> SwapChannel<T> {
    /// Makes a channel for exchanges of `T`s.
    pub fn new() -> Self {
        let core = Arc::new(Core::new([1, 0]));
        Self { end: Swap { core, mine: 0, theirs: 0, values: PhantomData } }
    }

    /// The event of giving `value` and getting another user's value, both at once.
    ///
    /// It commits together with a `swap` of another user. A choice never exchanges with itself. If no other user ever
    /// comes, it waits for ever. A drop has the effect that [`Swap::swap`] describes.
    pub fn swap(&self, value: T) -> Trade<T> {
        Trade { place: self.end.clone(), note: Note { give: Some(value), got: None } }
    }

    /// Exchanges values if a partner waits. Never blocks.
    ///
    /// # Errors
    /// Returns `value` in the error if no partner waits.
    pub fn try_swap(&self, value: T) -> Result<T, T> {
        self.end.try_swap(value).map_err(TrySendError::into_message)
    }
}

impl<T> Default for SwapChannel<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> fmt::Debug for SwapChannel<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SwapChannel")
    }
}

operation! {
    /// The event of an exchange between equals; see [`SwapChannel::swap`].
    Trade[T] at Swap<T, T>, yields T: |_, note| note.got.take().expect("never closed")
}

// SAFETY: an exchange that commits takes the given value out of its note, under the lock.
unsafe impl<A, B> Giving<A> for Exchange<A, B> {
    type Placed = Result<B, Closed>;

    fn unsent(branch: Pin<&mut Self::Branch>) -> Option<A> {
        branch.settled_note().give.take()
    }

    fn placed(output: Self::Output, place: &mut Option<A>) -> Self::Placed {
        put_back(output, place)
    }
}

// SAFETY: an exchange that commits takes the given value out of its note, under the lock.
unsafe impl<T> Giving<T> for Trade<T> {
    type Placed = T;

    fn unsent(branch: Pin<&mut Self::Branch>) -> Option<T> {
        branch.settled_note().give.take()
    }

    fn placed(output: T, _: &mut Option<T>) -> T {
        output
    }
}
