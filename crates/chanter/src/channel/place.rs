//! Places: what one waits at that is neither a channel nor written once.
//!
//! A place is a state behind a lock, with queues of operations that wait until
//! the state lets them commit. Each operation has a *note*: what it brings, and
//! what it takes away.
//!
//! * INV-PLACE: while the lock is free, no operation waits that could commit.
//!   So whoever changes the state serves those who wait, in its critical
//!   section, and whoever comes later cannot overtake them.
//! * Notes, like the slots of channels, belong to their owners, but while they
//!   are queued, to the holder of the lock. What must not be dropped under the
//!   lock leaves in a note.

use std::fmt;
use std::marker::PhantomData;
use std::ops::DerefMut;
use std::pin::Pin;
use std::ptr::NonNull;
use std::task::Waker;

use crate::event::{Branch, Offer, OfferList, Offered, Offering, Verdict, WakeList};
use crate::frame::report::{Waiting, Waits};
use crate::frame::run::demand;
use crate::frame::{Header, release};
use crate::sched::Turn;
use crate::sync::UnsafeCell;

/// A share of a place at which operations wait.
///
/// # Safety
/// [`queue`](Self::queue) gives the same queue for a note as long as its operation waits, and that queue neither moves nor ends
/// meanwhile. It is behind the lock, and whoever has the state has the lock. No user code runs under it.
#[allow(private_interfaces, reason = "sealed: the protocol's types stay inside")]
pub unsafe trait Place {
    /// It has a `meet` of its own: one that is not ready may commit, too.
    const MEETS: bool = false;

    /// What an operation brings and takes away.
    type Note;
    /// What is behind the lock.
    type State;

    /// Takes the lock.
    fn lock(&self) -> impl DerefMut<Target = Self::State>;

    /// Where an operation like this one waits.
    fn queue<'a>(&self, state: &'a mut Self::State, note: &Self::Note) -> &'a mut Queue<Self::Note>;

    /// Whether it can commit now.
    fn is_ready(&self, state: &Self::State, note: &Self::Note) -> bool;

    /// It has committed, being ready: changes the state, and serves those who
    /// wait for that.
    fn act(&self, state: &mut Self::State, note: &mut Self::Note, wakes: &mut WakeList);

    /// A thread that may make this operation ready, and has not run. It is run, stolen if that is possible, before the
    /// operation waits; then the operation is tried again. The thread is given once.
    #[inline(always)]
    fn demanded(&self, _state: &mut Self::State, _note: &Self::Note) -> Option<Demanded> {
        None
    }

    /// An operation begins to wait, or stops without having been served.
    fn waits(&self, _state: &mut Self::State, _waits: bool) {}

    /// It was served, and dropped before it took what it was given.
    fn undo(&self, state: &mut Self::State, note: &mut Self::Note, wakes: &mut WakeList);

    /// Commits if that is possible, for the group that `own` belongs to
    /// (`None`: one that has offered nothing). `None`: it has to wait.
    fn meet(
        &self,
        state: &mut Self::State,
        slot: &Slot<Self::Note>,
        own: Option<&Offering<'_>>,
        wakes: &mut WakeList,
    ) -> Option<Offered> {
        // SAFETY: the slot is the caller's: not queued.
        let note = unsafe { slot.note() };
        if !self.is_ready(state, note) {
            return None;
        }
        if own.is_some_and(|own| own.commit_alone() == Offered::Lost) {
            return Some(Offered::Lost);
        }
        self.act(state, note, wakes);
        Some(Offered::Committed)
    }
}

/// A thread that an operation demands before it waits.
pub struct Demanded(NonNull<Header>);

impl Demanded {
    /// # Safety
    /// `frame` is a thread's. It takes over one reference.
    pub(crate) unsafe fn from_frame(frame: NonNull<Header>) -> Self {
        Self(frame)
    }

    /// Runs the thread if it has not run: steals it, or schedules it.
    fn run(self) {
        // SAFETY: our reference keeps the frame.
        unsafe {
            if self.0.as_ref().state.is_fresh() {
                demand(self.0);
            }
        }
    }
}

impl fmt::Debug for Demanded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Demanded(..)")
    }
}

impl Drop for Demanded {
    fn drop(&mut self) {
        // SAFETY: the reference is ours, and given up here.
        unsafe { release(self.0) };
    }
}

/// The event of an operation at a place.
pub trait Operation {
    /// Where it waits.
    type Place: Place;
    /// What it yields.
    type Output;
    /// Once it has committed and is finished, nothing of its place and its note is left to drop. Then it is polled where it is
    /// awaited, as the operations of channels are.
    const LEAN: bool = false;
    /// It has a shorter way to commit where it is awaited alone.
    const PROMPT: bool = false;
    /// Commits, if that is possible now without an offer. False: nothing has happened. Takes the lock itself.
    #[inline(always)]
    fn at_once(_place: &Self::Place, _note: &mut NoteOf<Self>, _wakes: &mut WakeList) -> bool {
        false
    }
    /// What it yields once it has committed. No lock is held.
    fn finish(place: &Self::Place, note: &mut NoteOf<Self>) -> Self::Output;
}

/// The note of an operation.
pub(super) type NoteOf<O> = <<O as Operation>::Place as Place>::Note;

/// Performs an operation if it can commit now; gives the note back in any case.
pub(super) fn try_now<P: Place>(place: &P, note: P::Note) -> Result<P::Note, P::Note> {
    let slot = Slot::new(note);
    let mut wakes = WakeList::new();
    let offered = place.meet(&mut place.lock(), &slot, None, &mut wakes);
    wakes.queue();
    let note = slot.into_note();
    if offered == Some(Offered::Committed) { Ok(note) } else { Err(note) }
}

/// An operation's offer and its note.
#[repr(C)]
pub struct Slot<N> {
    /// First, so that a pointer to it is a pointer to the slot.
    offer: Offer,
    note: UnsafeCell<N>,
}

impl<N> Slot<N> {
    fn new(note: N) -> Self {
        Self { offer: Offer::new(), note: UnsafeCell::new(note) }
    }

    /// The note of a slot that was never queued.
    fn into_note(self) -> N {
        self.note.into_inner()
    }

    /// # Safety
    /// The caller owns the note: it is the owner and not queued, or it holds the
    /// lock and has won the offer. No other borrow of the note is in use.
    #[allow(clippy::mut_from_ref, reason = "as a cell")]
    pub(super) unsafe fn note(&self) -> &mut N {
        // SAFETY: the caller's contract.
        self.note.with_mut(|note| unsafe { &mut *note })
    }
}

/// The operations of one kind that wait, in order; lives under the place's lock.
#[repr(transparent)]
pub struct Queue<N> {
    offers: OfferList,
    /// Those who serve the queue move notes between threads.
    notes: PhantomData<N>,
}

impl<N> Queue<N> {
    /// An empty one.
    #[allow(clippy::new_without_default, reason = "hidden")]
    pub fn new() -> Self {
        Self { offers: OfferList::new(), notes: PhantomData }
    }

    /// Whether nobody waits.
    pub fn is_empty(&self) -> bool {
        self.offers.is_empty()
    }

    pub(super) fn offers(&mut self) -> &mut OfferList {
        &mut self.offers
    }

    /// The same queue, of operations with notes of another type.
    ///
    /// # Safety
    /// The operations that wait in it have notes of type `M`.
    pub(super) unsafe fn with_notes<M>(&mut self) -> &mut Queue<M> {
        // SAFETY: a list of offers, whatever `N` is; the rest is the caller's
        // contract.
        unsafe { NonNull::from(self).cast::<Queue<M>>().as_mut() }
    }

    /// Commits the first that still can: `f` fills its note in. `None`: nobody
    /// waits. The caller has claimed no group.
    pub fn serve<R>(&mut self, wakes: &mut WakeList, f: impl FnOnce(&mut N) -> R) -> Option<R> {
        let (waiter, _, result) = self.commit_first(f)?;
        wakes.push(waiter);
        Some(result)
    }

    /// As `serve`, where `f` gives a message: who has got it runs next.
    pub fn give<R>(&mut self, wakes: &mut WakeList, f: impl FnOnce(&mut N) -> R) -> Option<R> {
        let (waiter, turn, result) = self.commit_first(f)?;
        wakes.push_for(waiter, turn);
        Some(result)
    }

    /// What `f` says of the note of the first. `None`: nobody waits.
    pub fn peek<R>(&mut self, f: impl FnOnce(&N) -> R) -> Option<R> {
        let first = self.offers.front()?;
        // SAFETY: as in `commit_first`, but that this one need not be won: while it is queued, its note belongs to the
        // holder of the lock.
        Some(f(unsafe { first.cast::<Slot<N>>().as_ref().note() }))
    }

    /// As [`serve`](Self::serve), but the first only. `None`: it has lost elsewhere, and is out of the queue; or nobody
    /// waits.
    pub fn serve_first<R>(&mut self, wakes: &mut WakeList, f: impl FnOnce(&mut N) -> R) -> Option<R> {
        // SAFETY: as in `commit_first`.
        let offer = unsafe { self.offers.win_first() }?;
        // SAFETY: as there.
        let (waiter, result) = unsafe { Self::commit(offer, f) };
        wakes.push(waiter);
        Some(result)
    }

    /// What `f` says of the first note for which it says something.
    pub fn find<R>(&self, mut f: impl FnMut(&N) -> Option<R>) -> Option<R> {
        let mut next = self.offers.front();
        while let Some(offer) = next {
            // SAFETY: the offers of this queue are the first parts of slots. While one is queued, its note belongs to
            // the holder of the lock, which this borrow of the queue stands for.
            let found = unsafe {
                next = self.offers.after(offer);
                f(offer.cast::<Slot<N>>().as_ref().note())
            };
            if found.is_some() {
                return found;
            }
        }
        None
    }

    /// As [`give`](Self::give), to the first of those whose note satisfies `wanted`. The others stay.
    pub fn give_where<R>(
        &mut self,
        wakes: &mut WakeList,
        wanted: impl Fn(&N) -> bool,
        f: impl FnOnce(&mut N) -> R,
    ) -> Option<R> {
        let mut next = self.offers.front();
        while let Some(offer) = next {
            // SAFETY: the offers of this queue are the first parts of slots, and alive while they are queued. The
            // borrow of the queue stands for its lock, and the caller has claimed no group. `next` is another offer, and
            // nobody but us takes it out.
            unsafe {
                next = self.offers.after(offer);
                let slot = offer.cast::<Slot<N>>();
                if !wanted(slot.as_ref().note()) {
                    continue;
                }
                if self.offers.win_this(offer) {
                    let turn = offer.as_ref().group().turn_if_given();
                    let (waiter, result) = Self::commit(offer, f);
                    wakes.push_for(waiter, turn);
                    return Some(result);
                }
            }
        }
        None
    }

    fn commit_first<R>(&mut self, f: impl FnOnce(&mut N) -> R) -> Option<(Option<Waker>, Turn, R)> {
        // SAFETY: we are under the lock, or there would be no exclusive borrow.
        let offer = unsafe { self.offers.win() }?;
        // SAFETY: it is one of ours, and won.
        unsafe {
            let turn = offer.as_ref().group().turn_if_given();
            let (waiter, result) = Self::commit(offer, f);
            Some((waiter, turn, result))
        }
    }

    /// # Safety
    /// The offer was in this queue, and is won.
    unsafe fn commit<R>(offer: NonNull<Offer>, f: impl FnOnce(&mut N) -> R) -> (Option<Waker>, R) {
        // SAFETY: the offers of this queue are the first parts of slots, pinned
        // by owners who wait for `publish`; this one is won.
        unsafe {
            let result = f(offer.cast::<Slot<N>>().as_ref().note());
            (Offer::complete(offer, Verdict::Committed), result)
        }
    }

    /// # Safety
    /// As for [`OfferList::push`].
    unsafe fn push(&mut self, slot: &Slot<N>, own: &Offering<'_>) {
        // SAFETY: the caller's contract.
        unsafe { self.offers.push(NonNull::from(slot).cast(), own) };
    }
}

/// The state of one synchronization on an operation.
#[doc(hidden)]
pub struct PlaceBranch<O: Operation> {
    place: O::Place,
    slot: Slot<NoteOf<O>>,
    /// Nothing is left to do when it is dropped.
    settled: bool,
}

impl<O: Operation> PlaceBranch<O> {
    /// The branch of an operation, whose note is new.
    pub fn new(place: O::Place, note: NoteOf<O>) -> Self {
        Self { place, slot: Slot::new(note), settled: false }
    }

    #[inline(always)]
    fn attempt(&self, own: Option<&Offering<'_>>, wakes: &mut WakeList) -> Offered {
        loop {
            let mut state = self.place.lock();
            if let Some(offered) = self.place.meet(&mut state, &self.slot, own, wakes) {
                return offered;
            }
            let Some(own) = own else { return Offered::Linked };
            // SAFETY: not queued yet: the note is ours.
            let note = unsafe { self.slot.note() };
            if let Some(thread) = self.place.demanded(&mut state, note) {
                drop(state);
                thread.run();
                continue;
            }
            // SAFETY: ours, and not queued yet. Pinned, and taken out in `drop`
            // at the latest.
            unsafe { self.place.queue(&mut state, note).push(&self.slot, own) };
            self.place.waits(&mut state, true);
            return Offered::Linked;
        }
    }

    /// The note of an operation that is settled: it is the owner's alone.
    pub(super) fn settled_note(self: Pin<&mut Self>) -> &mut NoteOf<O> {
        // SAFETY: nothing is moved. In no queue any more, the note is the owner's.
        unsafe { self.get_unchecked_mut().slot.note() }
    }

    /// Lost, or dropped.
    fn leave(&mut self, wakes: &mut WakeList) {
        if std::mem::replace(&mut self.settled, true) || !self.slot.offer.was_made() {
            return;
        }
        let mut state = self.place.lock();
        // SAFETY: the group is withdrawn, or it is a single one and we hold the
        // lock: nobody else touches the note.
        let note = unsafe { self.slot.note() };
        if self.slot.offer.is_linked() {
            let queue = self.place.queue(&mut state, note);
            // SAFETY: linked, under the lock of its list.
            unsafe { queue.offers.unlink(NonNull::from(&self.slot.offer)) };
            self.place.waits(&mut state, false);
        } else if self.slot.offer.verdict.get() == Verdict::Committed {
            self.place.undo(&mut state, note, wakes);
        }
    }
}

impl<O: Operation> fmt::Debug for PlaceBranch<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PlaceBranch(..)")
    }
}

// SAFETY: `settle` and `drop` take the offer out. User code runs in `finish`,
// and in a thread that `attempt` demands while it holds no lock: places keep values whole, and drop none under their lock.
#[allow(private_interfaces, reason = "sealed: the protocol's types stay inside")]
unsafe impl<O: Operation> Branch for PlaceBranch<O> {
    type Output = O::Output;
    const SINGLE: bool = true;
    const LEAN: bool = O::LEAN;
    const PROMPT: bool = O::PROMPT;

    #[inline(always)]
    fn at_once(self: Pin<&mut Self>, wakes: &mut WakeList) -> bool {
        // SAFETY: no offer was made: the note is ours.
        O::at_once(&self.place, unsafe { self.slot.note() }, wakes)
    }

    #[inline(always)]
    fn try_leaf(self: Pin<&mut Self>, _leaf: usize, wakes: &mut WakeList) -> bool {
        self.attempt(None, wakes) == Offered::Committed
    }

    #[inline(always)]
    fn offer_leaf(self: Pin<&mut Self>, _leaf: usize, at: &Offering<'_>, wakes: &mut WakeList) -> Offered {
        self.attempt(Some(at), wakes)
    }

    fn settle(self: Pin<&mut Self>, winner: Option<usize>, wakes: &mut WakeList) {
        // SAFETY: nothing is moved.
        let this = unsafe { self.get_unchecked_mut() };
        if winner.is_some() {
            this.settled = true;
        } else {
            this.leave(wakes);
        }
    }

    #[inline(always)]
    fn finish(self: Pin<&mut Self>, _leaf: usize) -> O::Output {
        // SAFETY: settled: the note is ours.
        O::finish(&self.place, unsafe { self.slot.note() })
    }

    fn waits(&self, waits: &mut Waits) {
        let wait = Waiting::Other("an event");
        let state = self.place.lock();
        // SAFETY: we hold the lock, and the owner asks.
        let is_ready = self.place.is_ready(&state, unsafe { self.slot.note() });
        drop(state);
        if O::Place::MEETS && !is_ready {
            waits.push_unsure(wait);
        } else {
            waits.push_if(is_ready, wait);
        }
    }

    fn locked(self: Pin<&mut Self>, f: &mut dyn FnMut()) {
        let _state = self.place.lock();
        f();
    }
}

impl<O: Operation> Drop for PlaceBranch<O> {
    fn drop(&mut self) {
        if !self.settled {
            let mut wakes = WakeList::new();
            self.leave(&mut wakes);
            wakes.queue();
        }
    }
}

/// Defines the event type of an operation: a share of the place, and a note.
macro_rules! operation {
    (
        $(#[$doc:meta])*
        $name:ident[$($generic:ident $(: $bound:path)?),*] at $at:ty, yields $output:ty:
        |$place:pat_param, $note:pat_param| $finish:expr
    ) => {
        $(#[$doc])*
        #[must_use = "events do nothing unless synchronized"]
        pub struct $name<$($generic),*> {
            place: $at,
            note: <$at as $crate::channel::place::Place>::Note,
        }

        impl<$($generic),*> ::std::fmt::Debug for $name<$($generic),*> {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                f.write_str(concat!(stringify!($name), "(..)"))
            }
        }

        impl<$($generic $(: $bound)?),*> $crate::channel::place::Operation for $name<$($generic),*> {
            type Place = $at;
            type Output = $output;
            fn finish(
                $place: &$at,
                $note: &mut <$at as $crate::channel::place::Place>::Note,
            ) -> $output {
                $finish
            }
        }

        $crate::event::into_future!([$($generic $(: $bound)?),*] $name<$($generic),*>, $output);

        // SAFETY: the branch holds the same share and note; its offer is `Send`
        // by the protocol.
        unsafe impl<$($generic $(: $bound)?),*> $crate::event::Event for $name<$($generic),*> {
            type Branch = $crate::channel::place::PlaceBranch<Self>;

            fn into_branch(self) -> Self::Branch {
                $crate::channel::place::PlaceBranch::new(self.place, self.note)
            }
        }
    };
}
pub(super) use operation;
