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
use std::marker::PhantomData;
use std::ops::Deref;

use super::{GENERATION, Held, Slot, Table};

const PLACES: usize = 2;

/// An object that threads may keep.
pub(crate) trait Kept: Send + Sync + Sized + 'static {
    /// The table of all.
    fn table() -> &'static Table<Self>;
}

/// The references that a thread has kept. Only the thread uses them.
pub(crate) struct Recent<T: Kept> {
    places: [UnsafeCell<Option<(u64, Held<T>)>>; PLACES],
    /// Set while a call uses one of them, or one is dropped. Then none is exchanged.
    is_used: Mark,
}

/// The mark. Its address is even.
#[repr(align(8))]
struct Mark(Cell<bool>);

impl<T: Kept> Recent<T> {
    pub(crate) const fn new() -> Self {
        Self { places: [const { UnsafeCell::new(None) }; PLACES], is_used: Mark(Cell::new(false)) }
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
    pub(crate) unsafe fn get(&self, handle: u64) -> Option<Used<T>> {
        if !self.is_used.0.get() {
            // SAFETY: only this thread reaches the place, and nothing borrows from it now.
            match unsafe { &*self.place(handle) } {
                Some((kept, held)) if *kept == handle && held.slot.word.is_open(handle as u32) => {
                    return Some(self.used(held.slot));
                }
                _ => (),
            }
        }
        self.take(handle)
    }

    #[inline(always)]
    fn used(&self, slot: &'static Slot<T>) -> Used<T> {
        self.is_used.0.set(true);
        Used { slot, how: &raw const self.is_used as usize, object: PhantomData }
    }

    /// Takes a reference, and keeps it if that is possible now.
    #[inline(never)]
    fn take(&self, handle: u64) -> Option<Used<T>> {
        let held = T::table().get(handle)?;
        if self.is_used.0.get() {
            return Some(Used::counted(held));
        }
        let used = self.used(held.slot);
        // SAFETY: as in `get`. The old reference is dropped while the mark is set, so its destructor exchanges nothing.
        drop(unsafe { (*self.place(handle)).replace((handle, held)) });
        Some(used)
    }

    /// Gives the reference of a handle up, if it is kept and not in use.
    pub(crate) fn forget(&self, handle: u64) {
        if self.is_used.0.get() {
            return;
        }
        // SAFETY: as in `get`.
        let kept = unsafe { (*self.place(handle)).take_if(|(kept, _)| *kept == handle) };
        self.is_used.0.set(true);
        drop(kept);
        self.is_used.0.set(false);
    }
}

/// An object that a call uses, by a reference of its own, or by one that its thread has kept. In two registers.
pub(crate) struct Used<T: Kept> {
    slot: &'static Slot<T>,
    /// The address of the mark, if the reference is kept. Else the slot's index, doubled, plus 1.
    how: usize,
    /// The mark is the thread's.
    object: PhantomData<*const T>,
}

impl<T: Kept> Used<T> {
    #[inline(always)]
    pub(crate) fn counted(held: Held<T>) -> Self {
        let (slot, how) = (held.slot, (held.index as usize) << 1 | 1);
        std::mem::forget(held);
        Self { slot, how, object: PhantomData }
    }
}

impl<T: Kept> Deref for Used<T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        // SAFETY: the object is there while there is a reference (INV-HANDLE). A kept one stays as long as the mark is set.
        unsafe { (*self.slot.object.get()).assume_init_ref() }
    }
}

impl<T: Kept> Drop for Used<T> {
    #[inline(always)]
    fn drop(&mut self) {
        if self.how & 1 == 0 {
            // SAFETY: an even word is the address of the mark, which outlives this by the contract of `get`.
            unsafe { (*(self.how as *const Mark)).0.set(false) };
        } else {
            drop(Held { slot: self.slot, table: T::table(), index: (self.how >> 1) as u32 });
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::Arc;

    use super::super::Kind;
    use super::*;

    struct Object(Arc<u32>);

    static TABLE: Table<Object> = Table::new(Kind::Key);

    impl Kept for Object {
        fn table() -> &'static Table<Self> {
            &TABLE
        }
    }

    fn insert(value: &Arc<u32>) -> u64 {
        TABLE.insert(Object(Arc::clone(value))).unwrap().0
    }

    #[test]
    fn what_is_kept_is_found_until_it_is_closed() {
        let (value, recent) = (Arc::new(7), Recent::<Object>::new());
        // SAFETY: `recent` outlives all that is got.
        let get = |handle| unsafe { recent.get(handle) };
        let handles: Vec<u64> = (0..5).map(|_| insert(&value)).collect();
        for _ in 0..3 {
            for handle in &handles {
                assert_eq!(get(*handle).map(|used| *used.0), Some(7));
                assert_eq!(get(*handle).map(|used| *used.0), Some(7));
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
        let (value, recent) = (Arc::new(7), Recent::<Object>::new());
        // SAFETY: `recent` outlives all that is got.
        let get = |handle| unsafe { recent.get(handle) };
        let handles: Vec<u64> = (0..3).map(|_| insert(&value)).collect();
        let outer = get(handles[0]).unwrap();
        drop(TABLE.close(handles[0]));
        recent.forget(handles[0]);
        for handle in &handles[1..] {
            assert!(get(*handle).is_some_and(|used| used.how & 1 == 1));
            drop(TABLE.close(*handle));
        }
        assert_eq!((*outer.0, Arc::strong_count(&value)), (7, 2));
        drop(outer);
        drop(recent);
        assert_eq!(Arc::strong_count(&value), 1);
    }
}
