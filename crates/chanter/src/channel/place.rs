//! Places: objects that threads wait at, other than channels and variables that are written once.
//!
//! A place is a state behind a lock, with queues of operations that wait until the state lets them commit. Each
//! operation has a *note*, which holds the values that it brings and takes away.
//!
//! * INV-PLACE: while the lock is free, no operation waits that could commit. So a change of the state serves the
//!   waiters in its own critical section, and a later operation cannot overtake them.
//! * A note, like the slot of a channel, belongs to its owner. While it is queued, it belongs to the holder of the
//!   lock. A value that must not be dropped under the lock leaves in a note.

use std::fmt;
use std::marker::PhantomData;
use std::ops::DerefMut;
use std::pin::Pin;
use std::ptr::NonNull;
use std::task::Waker;

use crate::event::{Base, Leaf, Offer, OfferList, Offered, Offering, Shape, Verdict, WakeList};
use crate::frame::Header;
use crate::frame::report::{Waiting, Waits};
use crate::sched::WakePriority;
use crate::sched::demand::demand;
use crate::sched::release;
use crate::sync::UnsafeCell;

/// A share of a place at which operations wait.
///
/// # Safety
/// [`queue`](Self::queue) gives the same queue for a note as long as its operation waits. That queue neither moves
/// nor ends meanwhile. It is behind the lock, so a thread that has the state has the lock. No user code runs under
/// it.
#[allow(private_interfaces, reason = "sealed: the protocol's types stay inside")]
pub unsafe trait Place {
    /// Whether the place has a `meet` of its own, so that an operation that is not ready may commit, too.
    const MEETS: bool = false;

    /// The values that an operation brings and takes away.
    type Note;
    /// The state behind the lock.
    type State;

    /// Takes the lock.
    fn lock(&self) -> impl DerefMut<Target = Self::State>;

    /// The queue in which an operation with this note waits.
    fn queue<'a>(&self, state: &'a mut Self::State, note: &Self::Note) -> &'a mut Queue<Self::Note>;

    /// Whether an operation with this note can commit now.
    fn is_ready(&self, state: &Self::State, note: &Self::Note) -> bool;

    /// Applies an operation that was ready and has committed. It changes the state, and serves the operations that
    /// waited for the change.
    fn act(&self, state: &mut Self::State, note: &mut Self::Note, wakes: &mut WakeList);

    /// Work that may make this operation ready, such as to demand a thread that has not run. It is done before the
    /// operation waits, without the lock; then the operation is tried again. Each work is given once.
    #[inline(always)]
    fn demanded(&self, _state: &mut Self::State, _note: &Self::Note) -> Option<Demanded> {
        None
    }

    /// The waiting operation in words that continue "waits to", for reports.
    fn describe(&self, _state: &Self::State, _note: &Self::Note) -> Option<String> {
        None
    }

    /// Called when an operation begins to wait (true), or stops without having been served (false).
    fn waits(&self, _state: &mut Self::State, _waits: bool) {}

    /// Reverts an operation that was served, but dropped before it took its result.
    fn undo(&self, state: &mut Self::State, note: &mut Self::Note, wakes: &mut WakeList);

    /// Commits for the group of `own`, if that is possible. `own` is `None` for an operation that has offered
    /// nothing. Returns `None` if the operation has to wait.
    fn meet(
        &self,
        state: &mut Self::State,
        slot: &Slot<Self::Note>,
        own: Option<&Offering<'_>>,
        wakes: &mut WakeList,
    ) -> Option<Offered> {
        // SAFETY: the slot belongs to the caller, and is not queued.
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
    /// The place where the operation waits.
    type Place: Place;
    /// The result of the operation.
    type Output;
    /// Whether nothing of its place and its note is left to drop once it has committed and is finished. Then it is
    /// polled where it is awaited, as the operations of channels are.
    const LEAN: bool = false;
    /// Whether it has a shorter way to commit where it is awaited alone.
    const PROMPT: bool = false;
    /// Commits, if that is possible now without an offer. Returns false if nothing has happened. It takes the lock
    /// itself.
    #[inline(always)]
    fn at_once(_place: &Self::Place, _note: &mut NoteOf<Self>, _wakes: &mut WakeList) -> bool {
        false
    }
    /// Returns the result of an operation that has committed. No lock is held.
    fn finish(place: &Self::Place, note: &mut NoteOf<Self>) -> Self::Output;
}

/// The note of an operation.
pub(super) type NoteOf<O> = <<O as Operation>::Place as Place>::Note;

/// Performs an operation if it can commit now. Returns the note in any case.
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
    /// The first field, so that a pointer to it is a pointer to the slot.
    offer: Offer,
    note: UnsafeCell<N>,
}

impl<N> Slot<N> {
    fn new(note: N) -> Self {
        Self { offer: Offer::new(), note: UnsafeCell::new(note) }
    }

    /// Returns the note of a slot that was never queued.
    fn into_note(self) -> N {
        self.note.into_inner()
    }

    /// # Safety
    /// The note belongs to the caller. The caller is the owner and the note is not queued, or it holds the lock and
    /// has won the offer. No other borrow of the note is in use.
    #[allow(clippy::mut_from_ref, reason = "as a cell")]
    pub(super) unsafe fn note(&self) -> &mut N {
        // SAFETY: the note belongs to the caller, as it promises, and no other borrow of it is in use.
        self.note.with_mut(|note| unsafe { &mut *note })
    }
}

/// The operations of one kind that wait, in order. It lives under the place's lock.
#[repr(transparent)]
pub struct Queue<N> {
    offers: OfferList,
    /// Threads that serve the queue move notes between threads.
    notes: PhantomData<N>,
}

impl<N> Queue<N> {
    /// Makes an empty queue.
    #[allow(clippy::new_without_default, reason = "hidden")]
    pub fn new() -> Self {
        Self { offers: OfferList::new(), notes: PhantomData }
    }

    /// Whether no operation waits.
    pub fn is_empty(&self) -> bool {
        self.offers.is_empty()
    }

    pub(super) fn offers(&mut self) -> &mut OfferList {
        &mut self.offers
    }

    /// Views the queue as one of operations with notes of another type.
    ///
    /// # Safety
    /// The operations that wait in it have notes of type `M`.
    pub(super) unsafe fn with_notes<M>(&mut self) -> &mut Queue<M> {
        // SAFETY: the queue is a list of offers, whatever `N` is. The caller promises that the operations in it have
        // notes of type `M`.
        unsafe { NonNull::from(self).cast::<Queue<M>>().as_mut() }
    }

    /// Commits the first operation that still can. `f` fills its note in. Returns `None` if no operation waits. The
    /// caller has claimed no group.
    pub fn serve<R>(&mut self, wakes: &mut WakeList, f: impl FnOnce(&mut N) -> R) -> Option<R> {
        let (waiter, _, result) = self.commit_first(f)?;
        wakes.push(waiter);
        Some(result)
    }

    /// Like `serve`, where `f` gives a message. The thread that has got it runs next.
    pub fn give<R>(&mut self, wakes: &mut WakeList, f: impl FnOnce(&mut N) -> R) -> Option<R> {
        let (waiter, turn, result) = self.commit_first(f)?;
        wakes.push_for(waiter, turn);
        Some(result)
    }

    /// Applies `f` to the note of the first operation. Returns `None` if no operation waits.
    pub fn peek<R>(&mut self, f: impl FnOnce(&N) -> R) -> Option<R> {
        let first = self.offers.front()?;
        // SAFETY: the exclusive borrow of the queue means that the lock is held. While the first offer is queued, its
        // owner waits, so it is alive, and its note belongs to the holder of the lock.
        Some(f(unsafe { first.cast::<Slot<N>>().as_ref().note() }))
    }

    /// Like [`serve`](Self::serve), but tries the first operation only. Returns `None` if that has lost elsewhere,
    /// and was taken out of the queue, or if no operation waits.
    pub fn serve_first<R>(&mut self, wakes: &mut WakeList, f: impl FnOnce(&mut N) -> R) -> Option<R> {
        // SAFETY: the exclusive borrow of the queue means that the lock is held, and the caller has claimed no group.
        let offer = unsafe { self.offers.win_first() }?;
        // SAFETY: the offer was in this queue, and `win_first` has won it.
        let (waiter, result) = unsafe { Self::commit(offer, f) };
        wakes.push(waiter);
        Some(result)
    }

    /// Returns the first result of `f` that is not `None`, over the notes in order.
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

    /// Like [`give`](Self::give), to the first of those whose note satisfies `wanted`. The others stay.
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

    fn commit_first<R>(&mut self, f: impl FnOnce(&mut N) -> R) -> Option<(Option<Waker>, WakePriority, R)> {
        // SAFETY: the exclusive borrow of the queue means that the lock is held, and the caller has claimed no group.
        let offer = unsafe { self.offers.win() }?;
        // SAFETY: the offer was in this queue, and `win` has won it, so its group is alive until the publication.
        unsafe {
            let turn = offer.as_ref().group().turn_if_given();
            let (waiter, result) = Self::commit(offer, f);
            Some((waiter, turn, result))
        }
    }

    /// # Safety
    /// The offer was in this queue, and is won.
    unsafe fn commit<R>(offer: NonNull<Offer>, f: impl FnOnce(&mut N) -> R) -> (Option<Waker>, R) {
        // SAFETY: the offers of this queue are the first fields of slots, pinned by owners that wait for `publish`.
        // This one is won, as the caller promises.
        unsafe {
            let result = f(offer.cast::<Slot<N>>().as_ref().note());
            (Offer::complete(offer, Verdict::Committed), result)
        }
    }

    /// # Safety
    /// The lock is held. The slot is pinned and not queued. Its owner takes it out, under this lock, before it or its
    /// group dies.
    unsafe fn push(&mut self, slot: &Slot<N>, own: &Offering<'_>) {
        // SAFETY: the lock is held, and the slot is pinned and not queued, as the caller promises. Its owner takes it
        // out under this lock, before it or its group dies.
        unsafe { self.offers.push(NonNull::from(slot).cast(), own) };
    }
}

/// The state of one synchronization on an operation.
#[doc(hidden)]
pub struct PlaceBranch<O: Operation> {
    place: O::Place,
    slot: Slot<NoteOf<O>>,
    /// Whether nothing is left to do when the branch is dropped.
    settled: bool,
}

impl<O: Operation> PlaceBranch<O> {
    /// Makes the branch of an operation whose note is new.
    pub fn new(place: O::Place, note: NoteOf<O>) -> Self {
        Self { place, slot: Slot::new(note), settled: false }
    }

    #[inline(always)]
    fn commit_or_offer(&self, own: Option<&Offering<'_>>, wakes: &mut WakeList) -> Offered {
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
            // SAFETY: the slot is ours, pinned, and not queued yet. It is taken out in `drop` at the latest. The lock
            // is held.
            unsafe { self.place.queue(&mut state, note).push(&self.slot, own) };
            self.place.waits(&mut state, true);
            return Offered::Linked;
        }
    }

    /// Returns the note of an operation that is settled. It belongs to the owner alone.
    pub(super) fn settled_note(self: Pin<&mut Self>) -> &mut NoteOf<O> {
        // SAFETY: nothing is moved. The operation is in no queue any more, so the note belongs to the owner.
        unsafe { self.get_unchecked_mut().slot.note() }
    }

    /// Ends an operation that has lost, or is dropped.
    fn leave(&mut self, wakes: &mut WakeList) {
        if std::mem::replace(&mut self.settled, true) || !self.slot.offer.was_made() {
            return;
        }
        let mut state = self.place.lock();
        // SAFETY: the group is withdrawn, or it is a single one and the lock is held. So no other thread touches the
        // note.
        let note = unsafe { self.slot.note() };
        if self.slot.offer.is_linked() {
            let queue = self.place.queue(&mut state, note);
            // SAFETY: the offer is linked, and the lock of its list is held.
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

// SAFETY: `settle` and `drop` take the offer out. User code runs in a thread that `attempt` demands while it holds no
// lock. Places keep values whole, and drop none under their lock.
#[allow(private_interfaces, reason = "sealed: the protocol's types stay inside")]
unsafe impl<O: Operation> Leaf for PlaceBranch<O> {
    #[inline(always)]
    fn at_once(self: Pin<&mut Self>, wakes: &mut WakeList) -> bool {
        // SAFETY: no offer was made, so the note is ours.
        O::at_once(&self.place, unsafe { self.slot.note() }, wakes)
    }

    #[inline(always)]
    fn attempt(self: Pin<&mut Self>, wakes: &mut WakeList) -> bool {
        self.commit_or_offer(None, wakes) == Offered::Committed
    }

    #[inline(always)]
    fn offer(self: Pin<&mut Self>, at: &Offering<'_>, wakes: &mut WakeList) -> Offered {
        self.commit_or_offer(Some(at), wakes)
    }

    fn settle(self: Pin<&mut Self>, won: bool, wakes: &mut WakeList) {
        // SAFETY: the branch is only borrowed, and nothing is moved out of it.
        let this = unsafe { self.get_unchecked_mut() };
        if won {
            this.settled = true;
        } else {
            this.leave(wakes);
        }
    }

    fn report(self: Pin<&mut Self>, waits: &mut Waits) {
        let state = self.place.lock();
        // SAFETY: the lock is held, and the owner asks, so no other thread touches the note.
        let note = unsafe { self.slot.note() };
        let is_ready = self.place.is_ready(&state, note);
        let described = self.place.describe(&state, note);
        drop(state);
        let wait = described.map_or(Waiting::Other("an event"), Waiting::Described);
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

impl<O: Operation> Base for PlaceBranch<O> {
    type Output = O::Output;
    const SHAPE: Shape = Shape { lean: O::LEAN, prompt: O::PROMPT, ..Shape::LEAF };

    #[inline(always)]
    fn finish(self: Pin<&mut Self>) -> O::Output {
        // SAFETY: the operation is settled, so the note is ours.
        O::finish(&self.place, unsafe { self.slot.note() })
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

        // SAFETY: the branch holds the same share and note, so it is `Send` when the event is. Partners reach its
        // offer under the place's lock only, on whatever thread the owner is.
        unsafe impl<$($generic $(: $bound)?),*> $crate::event::Event for $name<$($generic),*> {
            type Branch = $crate::channel::place::PlaceBranch<Self>;

            fn into_branch(self) -> Self::Branch {
                $crate::channel::place::PlaceBranch::new(self.place, self.note)
            }
        }
    };
}
pub(super) use operation;
