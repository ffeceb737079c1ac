//! A try-lock with an outbox, for engines that take one caller at a time.
//!
//! Some libraries may be called by any OS thread, but by one at a time (MPI's `MPI_THREAD_SERIALIZED`). They must not
//! make the other threads wait. A thread that finds the lock taken goes away. If it has work, it leaves the work in
//! the outbox, and the owner does it before it releases the lock.
//!
//! ```text
//!              (1) try_enter, hand_in
//!         ┌───────────────────────────────►┐      (3) hand_in: work lies in the outbox
//!       FREE                             TAKEN ──────────────────────────────► MORE ──┐
//!         └◄───────────────────────────────┘ ◄─────────────────────────────────┘ ◄────┘ (3)
//!              (2) leave                          (4) leave: takes all work
//! ```
//!
//! * **INV-COMBINING-1** At most one thread is inside: only (1), from FREE, lets a thread in.
//! * **INV-COMBINING-2** Work in the outbox is done without a further call from outside. A thread that has put work
//!   there sets MORE afterwards. If the lock was taken, its owner can no longer leave by (2), which needs TAKEN; it
//!   takes (4) and finds the work. If the lock was free, the thread that set MORE is inside itself, and leaves by
//!   (4).
//! * **INV-COMBINING-3** The work of one thread is done in the order in which it was handed in. A thread whose work
//!   lies in the outbox has set MORE when it hands in the next. The lock is free again only after (4) has emptied the
//!   outbox.

use std::collections::VecDeque;
use std::fmt;
use std::ops::{Deref, DerefMut};

use sync::{AtomicU8, Mutex, Ordering, PoisonError, UnsafeCell};

/// No thread is inside.
const FREE: u8 = 0;
/// A thread is inside.
const TAKEN: u8 = 1;
/// A thread is inside, and work lies in the outbox.
const MORE: u8 = 2;

/// The content of a [`CombiningLock`].
pub trait Inside {
    /// A piece of work that threads hand in.
    type Work;

    /// Whether it would take `work` now from a thread that enters.
    fn has_room(&self, work: &Self::Work) -> bool;

    /// Does a piece of work. It must not panic.
    fn take(&mut self, work: Self::Work);
}

/// The try-lock; see the [module](self).
#[doc(alias = "Turn")]
pub struct CombiningLock<S: Inside> {
    state: AtomicU8,
    /// The content, reached only by the thread inside.
    inside: UnsafeCell<S>,
    outbox: Mutex<VecDeque<S::Work>>,
    /// Largest number of pieces of work in the outbox.
    most: usize,
}

// SAFETY: `inside` is reached by one thread at a time (INV-COMBINING-1), each ordered after the last, which `S: Send`
// allows. The outbox is a `Mutex` of `Send` work.
unsafe impl<S: Inside + Send> Sync for CombiningLock<S> where S::Work: Send {}

impl<S: Inside> CombiningLock<S> {
    /// A free lock. At most `most` pieces of work lie in its outbox.
    pub fn new(inside: S, most: usize) -> Self {
        Self {
            state: AtomicU8::new(FREE),
            inside: UnsafeCell::new(inside),
            outbox: Mutex::new(VecDeque::new()),
            most,
        }
    }

    /// Enters the lock. `None`: another thread is inside. Never blocks.
    #[inline]
    pub fn try_enter(&self) -> Option<Within<'_, S>> {
        // ORDER: Acquire pairs with the Release in `Within::drop` of the thread that left: its changes are seen.
        let entered = self.state.compare_exchange(FREE, TAKEN, Ordering::Acquire, Ordering::Relaxed);
        entered.is_ok().then(|| Within { lock: self })
    }

    /// Has `work` done inside, by the caller or by the thread that is there. Blocks no longer than a push to a queue
    /// takes.
    ///
    /// # Errors
    /// Gives the work back if there is no room for it.
    #[inline]
    pub fn hand_in(&self, work: S::Work) -> Result<(), S::Work> {
        if let Some(mut within) = self.try_enter() {
            if !within.has_room(&work) {
                return Err(work);
            }
            within.take(work);
            return Ok(());
        }
        {
            let mut outbox = self.outbox();
            if outbox.len() >= self.most {
                return Err(work);
            }
            outbox.push_back(work);
        }
        // ORDER: Release pairs with the Acquire of (4): the work is seen there. If the lock was free we are inside
        // now, and Acquire pairs with the Release in `Within::drop` of the last owner.
        if self.state.swap(MORE, Ordering::AcqRel) == FREE {
            drop(Within { lock: self });
        }
        Ok(())
    }

    fn outbox(&self) -> sync::MutexGuard<'_, VecDeque<S::Work>> {
        self.outbox.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<S: Inside> fmt::Debug for CombiningLock<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CombiningLock").finish_non_exhaustive()
    }
}

/// Access to the content of a [`CombiningLock`]. Dropping it leaves the lock, after all work in the outbox is done.
pub struct Within<'a, S: Inside> {
    lock: &'a CombiningLock<S>,
}

impl<S: Inside> Deref for Within<'_, S> {
    type Target = S;

    #[inline]
    fn deref(&self) -> &S {
        // SAFETY: this `Within` is the only one (INV-COMBINING-1), so the content is not changed while `self` is
        // borrowed, which bounds the reference.
        self.lock.inside.with(|inside| unsafe { &*inside })
    }
}

impl<S: Inside> DerefMut for Within<'_, S> {
    #[inline]
    fn deref_mut(&mut self) -> &mut S {
        // SAFETY: this `Within` is the only one (INV-COMBINING-1), and its exclusive borrow, which bounds the
        // reference, makes the access exclusive.
        self.lock.inside.with_mut(|inside| unsafe { &mut *inside })
    }
}

impl<S: Inside> Drop for Within<'_, S> {
    #[inline]
    fn drop(&mut self) {
        let lock = self.lock;
        // ORDER: Release (2) pairs with the Acquire of the next thread to enter, which sees our changes.
        while lock.state.compare_exchange(TAKEN, FREE, Ordering::Release, Ordering::Relaxed).is_err() {
            // ORDER: Acquire (4) pairs with the Release in `hand_in`. Work handed in from now on sets MORE again.
            lock.state.swap(TAKEN, Ordering::Acquire);
            loop {
                let Some(work) = lock.outbox().pop_front() else { break };
                self.take(work);
            }
        }
    }
}

/// The types that loom replaces.
mod sync {
    #[cfg(loom)]
    pub(super) use loom::{
        cell::UnsafeCell,
        sync::{
            Mutex, MutexGuard,
            atomic::{AtomicU8, Ordering},
        },
    };
    pub(super) use std::sync::PoisonError;
    #[cfg(not(loom))]
    pub(super) use std::sync::{
        Mutex, MutexGuard,
        atomic::{AtomicU8, Ordering},
    };

    /// A cell with loom's interface.
    #[cfg(not(loom))]
    pub(super) struct UnsafeCell<T>(std::cell::UnsafeCell<T>);

    #[cfg(not(loom))]
    impl<T> UnsafeCell<T> {
        pub(super) const fn new(value: T) -> Self {
            Self(std::cell::UnsafeCell::new(value))
        }

        #[inline]
        pub(super) fn with<R>(&self, f: impl FnOnce(*const T) -> R) -> R {
            f(self.0.get())
        }

        #[inline]
        pub(super) fn with_mut<R>(&self, f: impl FnOnce(*mut T) -> R) -> R {
            f(self.0.get())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(loom)]
    use loom::{model, sync::Arc, thread};
    #[cfg(not(loom))]
    use std::{sync::Arc, thread};

    /// A content that records the work handed in, at most `room` pieces.
    struct Book {
        lines: Vec<(usize, usize)>,
        room: usize,
    }

    impl Inside for Book {
        type Work = (usize, usize);

        fn has_room(&self, _work: &Self::Work) -> bool {
            self.lines.len() < self.room
        }

        fn take(&mut self, work: Self::Work) {
            self.lines.push(work);
        }
    }

    fn lock() -> CombiningLock<Book> {
        CombiningLock::new(Book { lines: Vec::new(), room: usize::MAX }, usize::MAX)
    }

    /// Checks that all lines are there, each once, and each writer's in order.
    fn check(lock: &CombiningLock<Book>, writers: usize, lines: usize) {
        let within = lock.try_enter().expect("all have left");
        for writer in 0..writers {
            let own: Vec<usize> =
                within.lines.iter().filter(|(of, _)| *of == writer).map(|(_, line)| *line).collect();
            assert_eq!(own, (0..lines).collect::<Vec<_>>(), "writer {writer}");
        }
        assert_eq!(within.lines.len(), writers * lines);
    }

    /// INV-COMBINING-1 to 3. Writers hand in work, and one more thread enters and leaves.
    fn race(writers: usize, lines: usize, looks: usize) {
        let lock = Arc::new(lock());
        let writing: Vec<_> = (0..writers)
            .map(|writer| {
                let lock = Arc::clone(&lock);
                thread::spawn(move || (0..lines).for_each(|line| lock.hand_in((writer, line)).unwrap()))
            })
            .collect();
        for _ in 0..looks {
            if let Some(within) = lock.try_enter() {
                let _ = within.has_room(&(0, 0));
            }
        }
        writing.into_iter().for_each(|writing| writing.join().unwrap());
        check(&lock, writers, lines);
    }

    #[cfg(loom)]
    mod models {
        use super::*;

        #[test]
        fn inv_turn_all_work_is_done_in_order_by_one_at_a_time() {
            model(|| race(2, 2, 1));
        }
    }

    #[cfg(not(loom))]
    #[test]
    fn all_work_is_done_in_order() {
        for _ in 0..20 {
            race(4, 5_000, 20_000);
        }
    }

    #[cfg(not(loom))]
    #[test]
    fn who_is_inside_does_what_others_hand_in() {
        let lock = lock();
        let within = lock.try_enter().unwrap();
        assert!(lock.try_enter().is_none());
        lock.hand_in((0, 0)).unwrap();
        assert_eq!(within.lines, []);
        drop(within);
        check(&lock, 1, 1);
    }

    #[cfg(not(loom))]
    #[test]
    fn what_there_is_no_room_for_is_given_back() {
        let lock = CombiningLock::new(Book { lines: Vec::new(), room: 1 }, 2);
        lock.hand_in((0, 0)).unwrap();
        assert_eq!(lock.hand_in((0, 1)), Err((0, 1)), "no room inside");
        let within = lock.try_enter().unwrap();
        lock.hand_in((0, 1)).unwrap();
        lock.hand_in((0, 2)).unwrap();
        assert_eq!(lock.hand_in((0, 3)), Err((0, 3)), "no room in the outbox");
        drop(within);
        check(&lock, 1, 3);
    }
}
