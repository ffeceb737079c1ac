//! `Hold`: being inside of an object.

use std::any::type_name;
use std::future::Future;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::pin::Pin;
use std::task::{Context, Poll};

use chanter::base::{Acquire, Entering, Mode, Noted, synchronization};
use chanter::event::Synchronization;

use crate::slot::Slot;
use crate::{Gone, Ref};

/// The right to use an object, in a mode, until it is dropped.
pub(crate) struct Hold<T> {
    slot: &'static Slot,
    generation: u32,
    mode: Mode,
    noted: Noted,
    of: PhantomData<*mut T>,
}

// SAFETY: a hold may end anywhere (`Gate::leave`); who uses the value says that it may.
unsafe impl<T: Send> Send for Hold<T> {}
// SAFETY: shared, it can do nothing.
unsafe impl<T: Send> Sync for Hold<T> {}

impl<T> Hold<T> {
    /// Goes in, if that is possible now. `None`: it has to be waited for.
    #[inline(always)]
    pub(crate) fn try_enter(slot: &'static Slot, generation: u32, mode: Mode) -> Result<Option<Self>, Gone> {
        // ORDER: Relaxed: who has a reference sees what was stored before that was made.
        if slot.live.load(std::sync::atomic::Ordering::Relaxed) != generation {
            return Err(slot.gone(generation));
        }
        match slot.gate.try_enter(mode) {
            Some(Noted::Marked) => {
                Ok(Some(Self { slot, generation, mode, noted: Noted::Marked, of: PhantomData }))
            }
            Some(Noted::Counted) => Self::entered(slot, generation, mode).map(Some),
            None => {
                slot.left(generation);
                Ok(None)
            }
        }
    }

    /// Inside by permits: looks again whether that generation is live (INV-BODY 1).
    #[inline(always)]
    fn entered(slot: &'static Slot, generation: u32, mode: Mode) -> Result<Self, Gone> {
        let hold = Self { slot, generation, mode, noted: Noted::Counted, of: PhantomData };
        if slot.live.load(std::sync::atomic::Ordering::Relaxed) == generation {
            return Ok(hold);
        }
        drop(hold);
        Err(slot.gone(generation))
    }

    /// Goes in as soon as that is possible.
    #[inline(always)]
    pub(crate) async fn enter(to: Ref<T>, mode: Mode) -> Result<Self, Gone> {
        match to.try_hold(mode)? {
            Some(hold) => Ok(hold),
            None => {
                let (slot, generation) = to.find()?;
                Waiting::new(slot, generation, mode).await
            }
        }
    }

    /// The value. It is there, as the hold's mode allows, while the hold lives.
    #[inline(always)]
    pub(crate) fn value(&self) -> *mut T {
        // SAFETY: inside, by that generation; the reference says what type it is of.
        unsafe { self.slot.value() }
    }

    /// Runs a method that does not suspend.
    #[inline(always)]
    pub(crate) fn run<R>(self, method: impl FnOnce(*mut T) -> R) -> R {
        let inside = Inside(self);
        let result = method(inside.0.value());
        // Not `drop`: it stays on this OS thread, and has not panicked.
        let hold = ManuallyDrop::new(inside);
        let Hold { slot, generation, mode, noted, .. } = hold.0;
        if !slot.gate.leave_here(mode, noted) {
            slot.left(generation);
        }
        result
    }

    /// As `method`, whose panics poison the object.
    #[inline(always)]
    pub(crate) fn poisoning<F: Future>(&self, method: F) -> Poisoning<'_, F> {
        Poisoning { slot: self.slot, generation: self.generation, method, of: PhantomData }
    }
}

impl<T> Drop for Hold<T> {
    #[inline(always)]
    fn drop(&mut self) {
        if !self.slot.gate.leave(self.mode, self.noted) {
            self.slot.left(self.generation);
        }
    }
}

/// Around a method that runs: dropped if it panics.
struct Inside<T>(Hold<T>);

impl<T> Drop for Inside<T> {
    #[cold]
    fn drop(&mut self) {
        if self.0.mode == Mode::Alone {
            self.0.slot.poison(self.0.generation);
        }
    }
}

/// An async method that writes.
pub(crate) struct Poisoning<'a, F> {
    slot: &'static Slot,
    generation: u32,
    method: F,
    of: PhantomData<&'a ()>,
}

/// Dropped if a poll panics.
struct Poison(&'static Slot, u32);

impl Drop for Poison {
    #[cold]
    fn drop(&mut self) {
        self.0.poison(self.1);
    }
}

impl<F: Future> Future for Poisoning<'_, F> {
    type Output = F::Output;

    #[inline(always)]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let poison = ManuallyDrop::new(Poison(self.slot, self.generation));
        let armed = ManuallyDrop::into_inner(poison);
        // SAFETY: pinned with us.
        let poll = unsafe { self.map_unchecked_mut(|this| &mut this.method) }.poll(cx);
        std::mem::forget(armed);
        poll
    }
}

/// Waits until the object lets it in.
#[must_use = "futures do nothing unless awaited"]
pub(crate) struct Waiting<T> {
    mode: Mode,
    event:
        Synchronization<Acquire<Entering<'static>>, <Acquire<Entering<'static>> as chanter::Event>::Branch>,
    at: Left,
    of: PhantomData<fn(T) -> T>,
}

impl<T> Waiting<T> {
    pub(crate) fn new(slot: &'static Slot, generation: u32, mode: Mode) -> Self {
        let event = synchronization(slot.gate.enter(mode, type_name::<T>()));
        Self { mode, event, at: Left(slot, generation), of: PhantomData }
    }
}

impl<T> Future for Waiting<T> {
    type Output = Result<Hold<T>, Gone>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let (Left(slot, generation), mode) = (&self.at, self.mode);
        let (slot, generation) = (*slot, *generation);
        // SAFETY: pinned with us.
        let event = unsafe { self.map_unchecked_mut(|this| &mut this.event) };
        event.poll(cx).map(|_counted| Hold::entered(slot, generation, mode))
    }
}

/// Dropped behind the event, which may have ended somebody's bias, or been let in without being polled.
struct Left(&'static Slot, u32);

impl Drop for Left {
    fn drop(&mut self) {
        self.0.left(self.1);
    }
}
