//! The word of a slot: a generation, whether the handle was closed, and the number of references (INV-HANDLE).

#[cfg(loom)]
use loom::sync::atomic::{AtomicU64, Ordering, fence};
#[cfg(not(loom))]
use std::sync::atomic::{AtomicU64, Ordering, fence};

const CLOSED: u64 = 1 << 31;
const REFERENCES: u64 = CLOSED - 1;
const GENERATION: u32 = 32;

pub(super) struct Word(AtomicU64);

impl Word {
    /// The word of a free slot. Generations begin with 1, so that no handle is a small number.
    pub(super) fn new() -> Self {
        Self(AtomicU64::new(1 << GENERATION | CLOSED))
    }

    /// Opens a free slot, whose object is there. The caller has one reference, and the handle has the other. Returns the
    /// generation.
    pub(super) fn open(&self) -> u32 {
        // ORDER: Relaxed: the slot is the caller's, by the lock of the free slots.
        let generation = self.0.load(Ordering::Relaxed) >> GENERATION;
        // ORDER: Release publishes the object to `take`.
        self.0.store(generation << GENERATION | 2, Ordering::Release);
        generation as u32
    }

    /// Takes a reference, if the handle of that generation is open.
    #[inline(always)]
    pub(super) fn take(&self, generation: u32) -> bool {
        // ORDER: Relaxed: the exchange decides.
        let mut word = self.0.load(Ordering::Relaxed);
        loop {
            if !is_open(word, generation) || word & REFERENCES == REFERENCES {
                return false;
            }
            // ORDER: Acquire pairs with the store in `open`: the object is seen.
            match self.0.compare_exchange_weak(word, word + 1, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return true,
                Err(now) => word = now,
            }
        }
    }

    /// Whether the handle is closed, and the caller's reference is the only one.
    pub(super) fn is_last(&self) -> bool {
        // ORDER: Relaxed: `settle` comes before the object is dropped.
        let word = self.0.load(Ordering::Relaxed);
        word & CLOSED != 0 && word & REFERENCES == 1
    }

    /// Adds a reference to one that is there.
    pub(super) fn again(&self) {
        // ORDER: Relaxed: the object is seen by way of the reference that is there.
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// Closes the handle of that generation, if it is open. The caller has its reference from now on.
    pub(super) fn close(&self, generation: u32) -> bool {
        // ORDER: Relaxed: the exchange decides.
        let mut word = self.0.load(Ordering::Relaxed);
        loop {
            if !is_open(word, generation) {
                return false;
            }
            // ORDER: Acquire as in `take`.
            match self.0.compare_exchange_weak(word, word | CLOSED, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return true,
                Err(now) => word = now,
            }
        }
    }

    /// Closes the handle of that generation, if it is open, and gives up its reference. The caller has another.
    pub(super) fn close_and_give(&self, generation: u32) -> bool {
        // ORDER: Relaxed: the exchange decides.
        let mut word = self.0.load(Ordering::Relaxed);
        loop {
            if !is_open(word, generation) {
                return false;
            }
            // ORDER: Release as in `give`.
            let closed = (word | CLOSED) - 1;
            match self.0.compare_exchange_weak(word, closed, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return true,
                Err(now) => word = now,
            }
        }
    }

    /// Gives a reference up. True: it was the last one of a closed handle, and the object is the caller's to drop.
    #[inline(always)]
    pub(super) fn give(&self) -> bool {
        // ORDER: Release: the uses of the object happen before its end.
        let word = self.0.fetch_sub(1, Ordering::Release) - 1;
        word & CLOSED != 0 && word & REFERENCES == 0
    }

    /// All uses of the object have happened. Called after a `give` that was the last one.
    pub(super) fn settle(&self) {
        // ORDER: Acquire pairs with the Release of each `give`.
        fence(Ordering::Acquire);
    }

    /// Makes the next generation, after the object was dropped. False: there is none, and the slot stays closed.
    pub(super) fn renew(&self) -> bool {
        // ORDER: Relaxed: nobody changes the word of a closed slot without references.
        let generation = self.0.load(Ordering::Relaxed) >> GENERATION;
        if generation == u64::from(u32::MAX) {
            return false;
        }
        // ORDER: Relaxed: the lock of the free slots publishes it.
        self.0.store((generation + 1) << GENERATION | CLOSED, Ordering::Relaxed);
        true
    }

    /// The generation, if the handle is open.
    pub(super) fn generation(&self) -> Option<u32> {
        // ORDER: Relaxed: a hint, which publishes nothing.
        let word = self.0.load(Ordering::Relaxed);
        (word & CLOSED == 0).then_some((word >> GENERATION) as u32)
    }
}

fn is_open(word: u64, generation: u32) -> bool {
    word >> GENERATION == u64::from(generation) && word & CLOSED == 0
}

#[cfg(all(test, loom))]
mod models {
    use loom::cell::UnsafeCell;
    use loom::sync::{Arc, Mutex};
    use loom::thread;

    use super::*;

    /// A slot with an object, which is a number while it lives and `None` afterwards. Loom finds accesses that race.
    struct Slot {
        word: Word,
        object: UnsafeCell<Option<u32>>,
        free: Mutex<bool>,
    }

    // SAFETY: loom checks each access of the cell.
    unsafe impl Sync for Slot {}
    // SAFETY: loom checks each access of the cell.
    unsafe impl Send for Slot {}

    impl Slot {
        fn with(object: u32) -> (Arc<Self>, u32) {
            let slot =
                Arc::new(Self { word: Word::new(), object: UnsafeCell::new(None), free: Mutex::new(false) });
            let generation = slot.insert(object);
            (slot, generation)
        }

        fn insert(&self, object: u32) -> u32 {
            // SAFETY: the slot is free.
            self.object.with_mut(|place| unsafe { *place = Some(object) });
            let generation = self.word.open();
            self.give();
            generation
        }

        /// Uses the object of that generation, as a call does.
        fn call(&self, generation: u32) -> Option<u32> {
            self.word.take(generation).then(|| {
                // SAFETY: there is a reference.
                let object = self.object.with(|place| unsafe { *place });
                self.give();
                object.expect("an object that is reached lives")
            })
        }

        fn give(&self) {
            if self.word.give() {
                self.word.settle();
                // SAFETY: it was the last reference.
                let object = self.object.with_mut(|place| unsafe { (*place).take() });
                assert!(object.is_some(), "an object ends once");
                if self.word.renew() {
                    *self.free.lock().unwrap() = true;
                }
            }
        }
    }

    #[test]
    fn a_call_reaches_a_living_object_or_nothing() {
        loom::model(|| {
            let (slot, generation) = Slot::with(7);
            let calls: Vec<_> = (0..2)
                .map(|_| {
                    let slot = Arc::clone(&slot);
                    thread::spawn(move || slot.call(generation))
                })
                .collect();
            if slot.word.close(generation) {
                slot.give();
            }
            for call in calls {
                assert!(matches!(call.join().unwrap(), None | Some(7)));
            }
            assert!(*slot.free.lock().unwrap(), "the last one has dropped it");
        });
    }

    #[test]
    fn a_handle_is_closed_once() {
        loom::model(|| {
            let (slot, generation) = Slot::with(7);
            let closing = {
                let slot = Arc::clone(&slot);
                thread::spawn(move || {
                    // By way of a reference that a call has.
                    let closes = slot.word.take(generation);
                    let closed = closes && slot.word.close_and_give(generation);
                    if closes {
                        slot.give();
                    }
                    closed
                })
            };
            let closed = slot.word.close(generation);
            if closed {
                slot.give();
            }
            assert!(closing.join().unwrap() != closed, "by one of the two");
            assert!(*slot.free.lock().unwrap());
        });
    }

    /// The slot is used again while a call has its old handle.
    #[test]
    fn a_stale_handle_reaches_nothing() {
        loom::model(|| {
            let (slot, generation) = Slot::with(7);
            let call = {
                let slot = Arc::clone(&slot);
                thread::spawn(move || slot.call(generation))
            };
            if slot.word.close(generation) {
                slot.give();
            }
            let is_free = std::mem::take(&mut *slot.free.lock().unwrap());
            let next = is_free.then(|| slot.insert(8));
            assert!(matches!(call.join().unwrap(), None | Some(7)), "never the next object");
            if let Some(next) = next {
                assert_eq!(slot.call(next), Some(8));
                assert_eq!(slot.call(generation), None);
                assert!(slot.word.close(next));
                slot.give();
            }
            assert!(*slot.free.lock().unwrap());
        });
    }
}
