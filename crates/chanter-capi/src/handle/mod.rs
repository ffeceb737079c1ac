//! Handles: words that name a place in a table, and the generation of what is there.
//!
//! ```text
//!   63   60 59          32 31                             0
//!   │ kind │    index     │          generation            │
//! ```
//!
//! The word of a slot holds the generation, whether the handle was closed, and the number of references. The handle has one,
//! and so has each call that uses the object.
//!
//! ```text
//!              insert                      close
//!   free (g) ──────────► open (g, refs ≥ 1) ──────► closed (g, refs ≥ 0)
//!     ▲                                                  │ the last reference goes: the object is dropped
//!     └──────────────────── g + 1 ───────────────────────┘
//! ```
//!
//! * INV-HANDLE: a call reaches the object only with a reference, which it takes while the slot is open and has the
//!   generation of its handle. So a stale handle reaches nothing, and an object that is reached lives.
//! * Slots are never freed, so a word of any age may be looked up. A slot whose generations are used up stays closed.

mod word;

use std::cell::UnsafeCell;
use std::mem::MaybeUninit;
use std::ops::Deref;
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, Ordering};

use chanter::policy::ShortLock;

use word::Word;

/// The kinds of handles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub(crate) enum Kind {
    Machine = 1,
    Thread = 2,
    Channel = 3,
    Event = 4,
    Operation = 5,
    Key = 6,
}

const GENERATION: u32 = 32;
const INDEX_BITS: u32 = 28;
/// The slots of the first block; each next block has twice as many.
const FIRST: usize = 64;
const BLOCKS: usize = 22;

struct Slot<T> {
    word: Word,
    object: UnsafeCell<MaybeUninit<T>>,
}

// SAFETY: as for `Table`.
unsafe impl<T: Send + Sync> Sync for Slot<T> {}

/// A table of objects of one kind.
pub(crate) struct Table<T> {
    kind: Kind,
    blocks: [AtomicPtr<Slot<T>>; BLOCKS],
    free: OnceLock<ShortLock<Free>>,
}

/// The free slots, and the number of slots that were ever used.
struct Free {
    slots: Vec<u32>,
    used: u32,
}

// SAFETY: an object is reached by shared references (`T: Sync`), and dropped by the thread that gives up the last one
// (`T: Send`).
unsafe impl<T: Send + Sync> Sync for Table<T> {}

/// The block of a slot, and its place there.
#[inline(always)]
fn place_of(index: u32) -> (usize, usize) {
    let at = index as usize + FIRST;
    let block = (usize::BITS - 1 - at.leading_zeros()) as usize;
    (block - FIRST.ilog2() as usize, at - (1 << block))
}

impl<T: Send + Sync + 'static> Table<T> {
    pub(crate) const fn new(kind: Kind) -> Self {
        let blocks = [const { AtomicPtr::new(ptr::null_mut()) }; BLOCKS];
        Self { kind, blocks, free: OnceLock::new() }
    }

    /// Puts an object in a free slot. Returns its handle, and a reference beside the handle's own. `None`: all handles
    /// are in use.
    pub(crate) fn insert(&'static self, object: T) -> Option<(u64, Held<T>)> {
        let (index, slot) = self.take_slot()?;
        // SAFETY: the slot is free, and was given to this call only.
        unsafe { (*slot.object.get()).write(object) };
        let generation = slot.word.open();
        Some((self.handle(index, generation), Held { slot, table: self, index }))
    }

    #[inline(always)]
    fn free(&self) -> &ShortLock<Free> {
        self.free.get_or_init(|| ShortLock::new(Free { slots: Vec::new(), used: 0 }))
    }

    fn take_slot(&'static self) -> Option<(u32, &'static Slot<T>)> {
        let mut free = self.free().lock();
        if let Some(index) = free.slots.pop() {
            return Some((index, self.slot(index)?));
        }
        let index = free.used;
        if index >> INDEX_BITS != 0 {
            return None;
        }
        let (block, place) = place_of(index);
        if place == 0 {
            let slots = (0..FIRST << block)
                .map(|_| Slot { word: Word::new(), object: UnsafeCell::new(MaybeUninit::uninit()) });
            let slots: Box<[Slot<T>]> = slots.collect();
            // ORDER: Release publishes the words of the new slots to `slot`.
            self.blocks[block].store(Box::leak(slots).as_mut_ptr(), Ordering::Release);
        }
        free.used = index + 1;
        drop(free);
        Some((index, self.slot(index)?))
    }

    /// The slot, if there has ever been one.
    #[inline(always)]
    fn slot(&'static self, index: u32) -> Option<&'static Slot<T>> {
        let (block, place) = place_of(index);
        // ORDER: Acquire pairs with the store in `take_slot`.
        let slots = self.blocks.get(block)?.load(Ordering::Acquire);
        // SAFETY: a block that is there has all slots of its size, and is never freed.
        (!slots.is_null()).then(|| unsafe { &*slots.add(place) })
    }

    #[inline(always)]
    fn parts(&'static self, handle: u64) -> Option<(&'static Slot<T>, u32, u32)> {
        if handle >> 60 != self.kind as u64 {
            return None;
        }
        let index = (handle >> GENERATION) as u32 & ((1 << INDEX_BITS) - 1);
        Some((self.slot(index)?, index, handle as u32))
    }

    fn handle(&self, index: u32, generation: u32) -> u64 {
        (self.kind as u64) << 60 | u64::from(index) << GENERATION | u64::from(generation)
    }

    /// The object of a handle.
    #[inline(always)]
    pub(crate) fn get(&'static self, handle: u64) -> Option<Held<T>> {
        let (slot, index, generation) = self.parts(handle)?;
        slot.word.take(generation).then(|| Held { slot, table: self, index })
    }

    /// Closes a handle, and returns the reference that it had. `None`: it is not open.
    pub(crate) fn close(&'static self, handle: u64) -> Option<Held<T>> {
        let (slot, index, generation) = self.parts(handle)?;
        slot.word.close(generation).then(|| Held { slot, table: self, index })
    }
}

/// A reference to an object in a table.
pub(crate) struct Held<T: Send + Sync + 'static> {
    slot: &'static Slot<T>,
    table: &'static Table<T>,
    index: u32,
}

impl<T: Send + Sync> Held<T> {
    /// Another reference.
    pub(crate) fn again(&self) -> Self {
        self.slot.word.again();
        Self { slot: self.slot, table: self.table, index: self.index }
    }

    /// The handle, if it is open.
    pub(crate) fn handle(&self) -> Option<u64> {
        Some(self.table.handle(self.index, self.slot.word.generation()?))
    }

    /// Whether the handle is closed and this is the last reference: nobody takes another one.
    pub(crate) fn is_last(&self) -> bool {
        self.slot.word.is_last()
    }

    /// Closes the handle by which the object was found, and gives its reference up. False: somebody has closed it.
    pub(crate) fn close(&self, handle: u64) -> bool {
        self.slot.word.close_and_give(handle as u32)
    }

    #[inline(never)]
    fn free(&self) {
        self.slot.word.settle();
        // SAFETY: the handle is closed and no reference is left, so nobody reaches the object (INV-HANDLE).
        unsafe { (*self.slot.object.get()).assume_init_drop() };
        if self.slot.word.renew() {
            self.table.free().lock().slots.push(self.index);
        }
    }
}

impl<T: Send + Sync> Deref for Held<T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        // SAFETY: the object is there while there is a reference (INV-HANDLE).
        unsafe { (*self.slot.object.get()).assume_init_ref() }
    }
}

impl<T: Send + Sync> Drop for Held<T> {
    #[inline(always)]
    fn drop(&mut self) {
        // The uses of the object happen before its end, in `free`.
        if self.slot.word.give() {
            self.free();
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::Arc;

    use super::*;

    static TABLE: Table<Arc<u32>> = Table::new(Kind::Event);

    #[test]
    fn a_stale_handle_reaches_nothing_and_an_object_lives_while_it_is_used() {
        let value = Arc::new(7);
        let (handle, held) = TABLE.insert(Arc::clone(&value)).unwrap();
        drop(held);
        let used = TABLE.get(handle).unwrap();
        drop(TABLE.close(handle).unwrap());
        assert!(TABLE.get(handle).is_none() && TABLE.close(handle).is_none());
        assert_eq!((**used, Arc::strong_count(&value)), (7, 2));
        drop(used);
        assert_eq!(Arc::strong_count(&value), 1);
        let (next, _held) = TABLE.insert(value).unwrap();
        assert!(next != handle && TABLE.get(handle).is_none());
        drop(TABLE.close(next));
    }

    #[test]
    fn arbitrary_words_are_no_handles() {
        let mut word = 0x9e37_79b9_7f4a_7c15_u64;
        for _ in 0..100_000 {
            word = word.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            assert!(TABLE.get(word ^ word >> 29).is_none());
        }
        assert!((0..1000).all(|small| TABLE.get(small).is_none()));
    }

    #[test]
    fn slots_have_places_in_blocks() {
        assert_eq!(place_of(0), (0, 0));
        assert_eq!(place_of(63), (0, 63));
        assert_eq!(place_of(64), (1, 0));
        assert_eq!(place_of(191), (1, 127));
        assert_eq!(place_of(192), (2, 0));
    }
}
