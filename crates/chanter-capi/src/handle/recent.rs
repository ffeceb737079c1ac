//! References that a thread keeps from one call to the next.
//!
//! A call that takes a reference and gives it up makes two atomic read-modify-writes, which are most of a short call. So a
//! thread with a stack keeps the references of the last two objects that it has used. The next call with such a handle
//! compares it, and looks whether it is open.
//!
//! * A stale handle reaches nothing (INV-HANDLE), since each call looks at the word. The references are counted like
//!   others, so this is no protocol of its own.
//! * An object that was closed lives on, until the threads that have kept it use other objects, or end. So whatever the
//!   program waits for must happen when the handle is closed.

use std::cell::{Cell, UnsafeCell};
use std::ops::Deref;

use super::{GENERATION, Held, Slot, Table};

const PLACES: usize = 2;

/// The references that a thread has kept. Only the thread uses them.
pub(crate) struct Recent<T: Send + Sync + 'static> {
    places: [UnsafeCell<Option<(u64, Held<T>)>>; PLACES],
    /// Set while a call uses one of them, or one is dropped. Then none is exchanged.
    is_used: Cell<bool>,
}

impl<T: Send + Sync> Recent<T> {
    pub(crate) const fn new() -> Self {
        Self { places: [const { UnsafeCell::new(None) }; PLACES], is_used: Cell::new(false) }
    }

    #[inline(always)]
    fn place(&self, handle: u64) -> *mut Option<(u64, Held<T>)> {
        self.places[(handle >> GENERATION) as usize % PLACES].get()
    }

    /// The object of a handle.
    ///
    /// # Safety
    /// This outlives the result.
    #[inline(always)]
    pub(crate) unsafe fn get(&self, table: &'static Table<T>, handle: u64) -> Option<Used<T>> {
        if !self.is_used.get() {
            // SAFETY: only this thread reaches the place, and nothing borrows from it now.
            match unsafe { &*self.place(handle) } {
                Some((kept, held)) if *kept == handle && held.slot.word.is_open(handle as u32) => {
                    return Some(self.used(held.slot));
                }
                _ => (),
            }
        }
        self.take(table, handle)
    }

    #[inline(always)]
    fn used(&self, slot: &'static Slot<T>) -> Used<T> {
        self.is_used.set(true);
        Used::Kept(slot, &raw const self.is_used)
    }

    /// Takes a reference, and keeps it if that is possible now.
    #[inline(never)]
    fn take(&self, table: &'static Table<T>, handle: u64) -> Option<Used<T>> {
        let held = table.get(handle)?;
        if self.is_used.get() {
            return Some(Used::Counted(held));
        }
        let used = self.used(held.slot);
        // SAFETY: as in `get`. The old reference is dropped while the mark is set, so its destructor exchanges nothing.
        drop(unsafe { (*self.place(handle)).replace((handle, held)) });
        Some(used)
    }

    /// Gives the reference of a handle up, if it is kept and not in use.
    pub(crate) fn forget(&self, handle: u64) {
        if self.is_used.get() {
            return;
        }
        // SAFETY: as in `get`.
        let kept = unsafe { (*self.place(handle)).take_if(|(kept, _)| *kept == handle) };
        self.is_used.set(true);
        drop(kept);
        self.is_used.set(false);
    }
}

/// An object that a call uses, by a reference of its own, or by one that its thread has kept.
pub(crate) enum Used<T: Send + Sync + 'static> {
    Counted(Held<T>),
    /// The slot, and the mark of the place.
    Kept(&'static Slot<T>, *const Cell<bool>),
}

impl<T: Send + Sync> Deref for Used<T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        match self {
            Self::Counted(held) => held,
            // SAFETY: the object is there while there is a reference (INV-HANDLE). It is kept as long as the mark is set.
            Self::Kept(slot, _) => unsafe { (*slot.object.get()).assume_init_ref() },
        }
    }
}

impl<T: Send + Sync> Drop for Used<T> {
    #[inline(always)]
    fn drop(&mut self) {
        if let Self::Kept(_, mark) = self {
            // SAFETY: the mark outlives this, by the contract of `get`.
            unsafe { (**mark).set(false) };
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::Arc;

    use super::super::Kind;
    use super::*;

    static TABLE: Table<Arc<u32>> = Table::new(Kind::Key);

    fn insert(value: &Arc<u32>) -> u64 {
        TABLE.insert(Arc::clone(value)).unwrap().0
    }

    #[test]
    fn what_is_kept_is_found_until_it_is_closed() {
        let (value, recent) = (Arc::new(7), Recent::new());
        // SAFETY: `recent` outlives all that is got.
        let get = |handle| unsafe { recent.get(&TABLE, handle) };
        let handles: Vec<u64> = (0..5).map(|_| insert(&value)).collect();
        for _ in 0..3 {
            for handle in &handles {
                assert_eq!(get(*handle).map(|used| **used), Some(7));
                assert_eq!(get(*handle).map(|used| **used), Some(7));
            }
        }
        let last = handles[4];
        for handle in &handles {
            drop(TABLE.close(*handle));
            assert!(get(*handle).is_none(), "a stale handle reaches nothing");
        }
        assert_eq!(Arc::strong_count(&value), 3, "two are kept");
        recent.forget(last);
        assert_eq!(Arc::strong_count(&value), 2);
        drop(recent);
        assert_eq!(Arc::strong_count(&value), 1);
    }

    #[test]
    fn a_use_within_a_use_exchanges_nothing() {
        let (value, recent) = (Arc::new(7), Recent::new());
        // SAFETY: `recent` outlives all that is got.
        let get = |handle| unsafe { recent.get(&TABLE, handle) };
        let handles: Vec<u64> = (0..3).map(|_| insert(&value)).collect();
        let outer = get(handles[0]).unwrap();
        drop(TABLE.close(handles[0]));
        recent.forget(handles[0]);
        for handle in &handles[1..] {
            assert!(matches!(get(*handle), Some(Used::Counted(_))));
            drop(TABLE.close(*handle));
        }
        assert_eq!((**outer, Arc::strong_count(&value)), (7, 2));
        drop(outer);
        drop(recent);
        assert_eq!(Arc::strong_count(&value), 1);
    }
}
