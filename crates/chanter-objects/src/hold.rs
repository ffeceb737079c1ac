//! `Hold`: the right of a thread that is inside an object.

use std::any::type_name;
use std::future::Future;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::pin::Pin;
use std::ptr::NonNull;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};

use chanter::base::{Acquire, Entering, HoldKind, Key, Mode, synchronization};
use chanter::event::Synchronization;

use crate::slot::{self, Slot};
use crate::{ObjectError, Ref};

impl<T> Ref<T> {
    /// Enters by the bias of the calling OS thread: this is the entry that costs no more than a call. `None`: no
    /// bias lets it in, and [`try_hold`](Self::try_hold) finds out why.
    #[inline(always)]
    pub(crate) fn try_mark(self, mode: Mode) -> Option<Marked<T>> {
        let (place, generation) = self.parts();
        Marked::try_enter(place, mode, u64::from(generation))
    }

    /// Enters, if that is possible now. `None`: the caller has to wait. Without `may_wait` the budget of the thread
    /// does not matter.
    pub(crate) fn try_hold(self, mode: Mode, may_wait: bool) -> Result<Option<Hold<T>>, ObjectError> {
        let Some(slot) = self.slot() else { return Err(ObjectError::Elsewhere) };
        Hold::try_enter(slot, self.generation, mode, may_wait)
    }
}

impl Slot {
    /// The reason why that generation is not live. `seen` is the value that was found in `live` instead.
    #[cold]
    pub(crate) fn gone(&'static self, seen: u32, generation: u32) -> ObjectError {
        if !slot::is_generation(generation) {
            return ObjectError::Ended;
        }
        if self.is_poison(seen, generation) {
            return ObjectError::Poisoned;
        }
        #[cfg(feature = "cluster")]
        if crate::remote::is_elsewhere(self, generation) {
            return ObjectError::Elsewhere;
        }
        ObjectError::Ended
    }

    /// Like [`gone`](Self::gone), with the current value of `live`.
    #[cfg(feature = "cluster")]
    pub(crate) fn gone_now(&'static self, generation: u32) -> ObjectError {
        self.gone(self.live.load(Ordering::Relaxed), generation)
    }
}

/// The right to use an object, in a mode, until it is dropped.
pub(crate) struct Hold<T> {
    slot: &'static Slot,
    generation: u32,
    mode: Mode,
    hold_kind: HoldKind,
    of: PhantomData<*mut T>,
}

// SAFETY: a hold may end on any thread (`BiasedGate::leave`). `T` is `Send`, and uses of the value carry their own
// proof.
unsafe impl<T: Send> Send for Hold<T> {}
// SAFETY: a shared hold offers no access to the value but a raw pointer.
unsafe impl<T: Send> Sync for Hold<T> {}

impl<T> Hold<T> {
    /// Enters, if that is possible now. `None`: the caller has to wait.
    fn try_enter(
        slot: &'static Slot,
        generation: u32,
        mode: Mode,
        may_wait: bool,
    ) -> Result<Option<Self>, ObjectError> {
        // ORDER: Relaxed: a holder of a reference sees all stores that were made before the reference.
        let seen = slot.live.load(Ordering::Relaxed);
        // (INV-BODY 5: a name may come from another process.)
        if seen != generation || !slot::is_generation(generation) {
            return Err(slot.gone(seen, generation));
        }
        let hold_kind = match may_wait {
            true => slot.gate.try_enter(mode, generation),
            false => slot.gate.try_enter_at_once(mode, generation),
        };
        match hold_kind {
            Some(hold_kind) => Self::entered(slot, generation, mode, hold_kind).map(Some),
            None => {
                slot.left(generation);
                Ok(None)
            }
        }
    }

    /// Enters alone, once no other thread is inside, whether the object is live or not.
    #[cfg(feature = "cluster")]
    pub(crate) async fn enter_anyhow(slot: &'static Slot, generation: u32) -> Result<Self, ObjectError> {
        if !slot::is_generation(generation) {
            return Err(ObjectError::Ended);
        }
        let left = Left(slot, generation);
        synchronization(slot.gate.enter(Mode::Alone, type_name::<T>())).await;
        let hold =
            Self { slot, generation, mode: Mode::Alone, hold_kind: HoldKind::Counted, of: PhantomData };
        drop(left);
        if slot.is_over(generation) {
            drop(hold);
            return Err(ObjectError::Ended);
        }
        Ok(hold)
    }

    /// Checks again, from inside, whether that generation is live (INV-BODY 1).
    fn entered(
        slot: &'static Slot,
        generation: u32,
        mode: Mode,
        hold_kind: HoldKind,
    ) -> Result<Self, ObjectError> {
        let hold = Self { slot, generation, mode, hold_kind, of: PhantomData };
        // ORDER: Relaxed: permits, or the lock under which a gate is biased, order this load behind the thread that
        // has ended the generation and looked for holds.
        let seen = slot.live.load(Ordering::Relaxed);
        if seen == generation && slot::is_generation(generation) {
            return Ok(hold);
        }
        if hold_kind != HoldKind::Counted {
            // INV-BODY 4: the bias may be younger than the end of the generation.
            slot.gate.end_bias();
        }
        drop(hold);
        Err(slot.gone(seen, generation))
    }

    /// The slot of the object, and its generation.
    #[cfg(feature = "cluster")]
    #[inline(always)]
    pub(crate) fn place(&self) -> (&'static Slot, u32) {
        (self.slot, self.generation)
    }

    /// The value. It is there, as the hold's mode allows, while the hold lives.
    #[inline(always)]
    pub(crate) fn value(&self) -> *mut T {
        // SAFETY: the thread is inside by that generation, so the value is there. The reference has said its type.
        unsafe { self.slot.value() }
    }

    /// Runs a method that does not suspend.
    #[inline(always)]
    pub(crate) fn run<R>(self, method: impl FnOnce(*mut T) -> R) -> R {
        let armed = self.armed();
        let result = method(self.value());
        std::mem::forget(armed);
        self.leave_here();
        result
    }

    /// Leaves, on the OS thread that has entered, after a method that has not panicked.
    #[inline(always)]
    pub(crate) fn leave_here(self) {
        let Self { slot, generation, mode, hold_kind, .. } = *ManuallyDrop::new(self);
        if !slot.gate.leave_here(mode, hold_kind) {
            slot.left(generation);
        }
    }

    /// A guard that is dropped only if the method panics.
    #[inline(always)]
    pub(crate) fn armed(&self) -> Armed {
        Armed(self.slot, self.generation, self.mode)
    }
}

impl<T> Drop for Hold<T> {
    #[inline(always)]
    fn drop(&mut self) {
        if !self.slot.gate.leave(self.mode, self.hold_kind) {
            self.slot.left(self.generation);
        }
    }
}

/// Guard of a running method: dropped if the method panics, and poisons the object if the method may write.
pub(crate) struct Armed(&'static Slot, u32, Mode);

impl Drop for Armed {
    #[cold]
    fn drop(&mut self) {
        if self.2 == Mode::Alone {
            self.0.poison(self.1);
        }
    }
}

/// The right of an OS thread that has entered by its bias. It ends by a call of `leave`, and not by a drop. A value
/// with a destructor has to be stored. These two words are passed in registers. The caller knows the mode.
pub(crate) struct Marked<T> {
    slot: &'static Slot,
    key: Key,
    of: PhantomData<*mut T>,
}

impl<T> Clone for Marked<T> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Marked<T> {}

impl<T> Marked<T> {
    /// Enters by a ticket of the gate, which is a generation.
    #[inline(always)]
    pub(crate) fn try_enter(place: NonNull<Slot>, mode: Mode, ticket: u64) -> Option<Self> {
        let slot = slot::at(place.as_ptr())?;
        // INV-BODY 1: the bias for a generation ends after the generation, and `try_mark` sees the bias.
        let key = slot.gate.try_mark(mode, ticket)?;
        Some(Self { slot, key, of: PhantomData })
    }

    /// The value. It is there, as the mode allows, until this right ends.
    #[inline(always)]
    pub(crate) fn value(self) -> *mut T {
        // SAFETY: the thread is inside by that generation, so the value is there. The reference has said its type.
        unsafe { self.slot.value() }
    }

    /// Leaves, after a method that has not panicked.
    #[inline(always)]
    pub(crate) fn leave(self, mode: Mode) {
        if !self.slot.gate.leave_marked(mode, self.key) {
            self.slot.left(self.key.ticket());
        }
    }

    /// Leaves, after a method that has panicked.
    #[cold]
    #[inline(never)]
    pub(crate) fn leave_panicking(self, mode: Mode) {
        drop(Armed(self.slot, self.key.ticket(), mode));
        drop(self.hold(mode));
    }

    /// The same right as a [`Hold`], which may end on any thread.
    pub(crate) fn hold(self, mode: Mode) -> Hold<T> {
        let Self { slot, key, of } = self;
        Hold { slot, generation: key.ticket(), mode, hold_kind: HoldKind::Marked(key), of }
    }

    /// Runs a method that does not suspend.
    #[inline(always)]
    pub(crate) fn run<R>(self, mode: Mode, method: impl FnOnce(*mut T) -> R) -> R {
        let panics = Last(self, mode);
        let result = method(self.value());
        std::mem::forget(panics);
        self.leave(mode);
        result
    }
}

/// Guard that is dropped only if a method panics: it leaves the object.
pub(crate) struct Last<T>(pub(crate) Marked<T>, pub(crate) Mode);

impl<T> Drop for Last<T> {
    // Inlined, so that the guard is not stored before a panic.
    #[inline(always)]
    fn drop(&mut self) {
        self.0.leave_panicking(self.1);
    }
}

/// Future that waits until the object lets the call in.
#[must_use = "futures do nothing unless awaited"]
pub(crate) struct Waiting<T> {
    mode: Mode,
    event:
        Synchronization<Acquire<Entering<'static>>, <Acquire<Entering<'static>> as chanter::Event>::Branch>,
    at: Left,
    of: PhantomData<fn(T) -> T>,
}

impl<T> Waiting<T> {
    /// Makes the future. The object must be in this process.
    pub(crate) fn new(to: Ref<T>, mode: Mode) -> Self {
        let (slot, generation) =
            (to.slot().expect("it was looked for before it is waited for"), to.generation);
        let event = synchronization(slot.gate.enter(mode, type_name::<T>()));
        Self { mode, event, at: Left(slot, generation), of: PhantomData }
    }
}

impl<T> Future for Waiting<T> {
    type Output = Result<Hold<T>, ObjectError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        // SAFETY: the event is not moved. (A shared reference to the whole would cover the parts that the event has
        // lent to others.)
        let this = unsafe { self.get_unchecked_mut() };
        let (Left(slot, generation), mode) = (&this.at, this.mode);
        let (slot, generation) = (*slot, *generation);
        // SAFETY: pinned with us.
        let event = unsafe { Pin::new_unchecked(&mut this.event) };
        let poll = event.poll(cx).map(|counted| Hold::entered(slot, generation, mode, counted));
        #[cfg(feature = "cluster")]
        if poll.is_pending() {
            crate::remote::waits_in_line(slot, generation);
        }
        poll
    }
}

/// Guard that is dropped after the event. The event may have ended another thread's bias, or may have been let in
/// without a further poll.
struct Left(&'static Slot, u32);

impl Drop for Left {
    fn drop(&mut self) {
        self.0.left(self.1);
    }
}
