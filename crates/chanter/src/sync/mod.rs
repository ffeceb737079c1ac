//! The only door to atomics, cells and fences: `std` normally, `loom` when
//! the models are checked (`--cfg loom`).
//!
//! Nothing else in the crate names `std::sync::atomic` for a protocol. So every protocol runs unchanged under the
//! model checker. [`order`] names the orderings that the models weaken one by one to show that each is needed.

pub(crate) mod counter;
pub(crate) mod random;
pub(crate) mod short_lock;

mod aliased;
mod announcement;
mod cell;
pub(crate) mod fence_pair;
mod lock;
#[cfg(op_count)]
pub mod op_count;
pub(crate) mod order;
mod os_thread;
mod owner;
mod process_fork;
mod shared_cell;
mod stack;
pub mod stack_local;
pub mod switches;

#[cfg(all(test, loom))]
pub(crate) mod models;
#[cfg(all(test, loom))]
mod owner_models;
#[cfg(all(test, not(loom)))]
mod tests;

pub(crate) use aliased::{AliasedBox, aliased};
pub(crate) use announcement::Announcement;
pub(crate) use cell::Cell;
pub use lock::{Guard, Lock};
pub(crate) use os_thread::{os_thread, os_thread_as_upper_half, os_thread_if_numbered};
pub(crate) use owner::Mark;
pub(crate) use process_fork::Process;
pub(crate) use shared_cell::SharedCell;
pub(crate) use stack::{Linked, Stack};

/// Atomics for statics of the process, which no model sees.
pub(crate) mod process {
    pub(crate) use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
}

/// A lock and a condition for protocols whose waiters sleep.
pub(crate) mod blocking {
    #[cfg(loom)]
    pub(crate) use loom::sync::{Condvar, Mutex, MutexGuard};
    #[cfg(not(loom))]
    pub(crate) use std::sync::{Condvar, Mutex, MutexGuard};
}

/// Whether alarms go off by themselves; in a model they do not.
pub(crate) const HAS_CLOCK: bool = cfg!(not(loom));

/// Makes a constructor `const`, except under loom, whose atomics belong to the model that makes them.
macro_rules! const_unless_loom {
    ($(#[$meta:meta])* $vis:vis fn $name:ident($($arg:ident: $type:ty),*) -> $output:ty $body:block) => {
        $(#[$meta])*
        #[cfg(not(loom))]
        $vis const fn $name($($arg: $type),*) -> $output $body
        $(#[$meta])*
        #[cfg(loom)]
        $vis fn $name($($arg: $type),*) -> $output $body
    };
}
pub(crate) use const_unless_loom;

#[cfg(loom)]
mod door {
    pub(crate) use loom::cell::{MutPtr, UnsafeCell};
    pub(crate) use loom::sync::atomic::fence;
    pub(crate) use loom::sync::{Arc, atomic};

    /// Sets a flag. True: it was set before. Normally this is a swap, but not here: a swap that changes nothing is a
    /// store that loom may order behind the holder's next one.
    pub(crate) fn test_and_set(flag: &atomic::AtomicBool, order: atomic::Ordering) -> bool {
        flag.compare_exchange(false, true, order, atomic::Ordering::Relaxed).is_err()
    }

    /// A fence. A weakened model has none: `Relaxed` fences do not exist.
    pub(crate) fn full_fence(order: atomic::Ordering) {
        if order != atomic::Ordering::Relaxed {
            fence(order);
        }
    }

    /// Frees a box. The contents are dropped, but the memory is kept, so that a weakened model sees a use after free
    /// rather than dies of it. (A panic is the model's failure.)
    pub(crate) fn free<T: ?Sized>(boxed: Box<T>) -> std::thread::Result<()> {
        // SAFETY: the value was the box's, and is dropped once, since `into_raw` has given the box up.
        unsafe { std::ptr::drop_in_place(Box::into_raw(boxed)) };
        Ok(())
    }

    /// One turn of a wait loop: lets another modelled thread run.
    pub(crate) fn spin(_turn: &mut u32) {
        loom::thread::yield_now();
    }

    pub(crate) fn pause() {
        loom::thread::yield_now();
    }
}

#[cfg(not(loom))]
mod door {
    pub(crate) use std::sync::Arc;
    #[cfg(not(op_count))]
    pub(crate) use std::sync::atomic;

    #[cfg(op_count)]
    pub(crate) use crate::sync::op_count::{atomic, fence as full_fence};

    /// `std`'s cell behind the closure interface that loom needs.
    #[derive(Debug)]
    #[repr(transparent)]
    pub(crate) struct UnsafeCell<T>(std::cell::UnsafeCell<T>);

    impl<T> UnsafeCell<T> {
        pub(crate) const fn new(value: T) -> Self {
            Self(std::cell::UnsafeCell::new(value))
        }

        #[inline(always)]
        pub(crate) fn into_inner(self) -> T {
            self.0.into_inner()
        }

        #[inline(always)]
        pub(crate) fn with<R>(&self, f: impl FnOnce(*const T) -> R) -> R {
            f(self.0.get())
        }

        #[inline(always)]
        pub(crate) fn with_mut<R>(&self, f: impl FnOnce(*mut T) -> R) -> R {
            f(self.0.get())
        }

        #[inline(always)]
        pub(crate) fn get_mut(&self) -> MutPtr<T> {
            MutPtr(self.0.get())
        }
    }

    /// An exclusive access that lasts as long as the value (loom checks it).
    #[derive(Debug)]
    pub(crate) struct MutPtr<T>(*mut T);

    impl<T> MutPtr<T> {
        /// # Safety
        /// No other access to the cell may overlap the borrow.
        #[inline(always)]
        #[allow(clippy::mut_from_ref)]
        pub(crate) unsafe fn deref(&self) -> &mut T {
            // SAFETY: the caller guarantees that no other access to the cell overlaps the borrow.
            unsafe { &mut *self.0 }
        }
    }

    #[cfg(not(op_count))]
    pub(crate) use std::sync::atomic::fence as full_fence;

    /// Sets a flag; true: it was set before.
    #[inline(always)]
    #[cfg_attr(op_count, track_caller)]
    pub(crate) fn test_and_set(flag: &atomic::AtomicBool, order: atomic::Ordering) -> bool {
        flag.swap(true, order)
    }

    /// Frees a box. Its contents may panic.
    pub(crate) fn free<T: ?Sized>(boxed: Box<T>) -> std::thread::Result<()> {
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(boxed)))
    }

    /// One turn of a wait loop. First it spins, each time longer. Then it yields the processor. Then it sleeps, each
    /// time longer.
    ///
    /// A waiter that stays away for a while lets the holder work in a row. Two processors that fight for a lock then
    /// take turns of many operations. They do not pass its cache line to and fro for each operation.
    ///
    /// A waiter that has come to sleep waits for an OS thread that is not running. To yield does not help that OS
    /// thread. Where nobody else wants this processor, the call returns at once. The kernel then sees a busy
    /// processor, to which it moves nobody. An idle processor takes the holder over.
    #[cold]
    pub(crate) fn spin(turn: &mut u32) {
        *turn = turn.saturating_add(1);
        match *turn {
            ..SPINS => (0..1 << (*turn).min(6)).for_each(|_| std::hint::spin_loop()),
            SPINS..SLEEPS => {
                crate::sync::count!(YIELDS);
                std::thread::yield_now();
            }
            SLEEPS.. => {
                crate::sync::count!(SLEEPS);
                std::thread::sleep(SHORTEST * (1 << (*turn - SLEEPS).min(4)));
            }
        }
    }

    /// The turn of the first yield, and the turn of the first sleep.
    const SPINS: u32 = 16;
    const SLEEPS: u32 = 32;
    const SHORTEST: std::time::Duration = std::time::Duration::from_micros(16);

    pub(crate) use std::hint::spin_loop as pause;
}

/// Counts of what waiting has cost, for tests, one of which at a time looks.
#[cfg(all(test, not(loom)))]
pub(crate) mod counts {
    use super::atomic::AtomicU64;

    pub(crate) static YIELDS: AtomicU64 = AtomicU64::new(0);
    pub(crate) static SLEEPS: AtomicU64 = AtomicU64::new(0);

    pub(crate) fn count(counter: &AtomicU64) {
        counter.fetch_add(1, super::atomic::Ordering::Relaxed);
    }
}

/// Counts an occurrence, in tests.
#[cfg(not(loom))]
macro_rules! count {
    ($counter:ident) => {
        #[cfg(all(test, not(loom)))]
        $crate::sync::counts::count(&$crate::sync::counts::$counter);
    };
}
#[cfg(not(loom))]
pub(crate) use count;

pub(crate) use door::{Arc, MutPtr, UnsafeCell, atomic, free, full_fence, pause, spin, test_and_set};
