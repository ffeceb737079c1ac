//! Slots: where objects are found, and what stays when they end.
//!
//! A slot has an address for ever, so a reference is one, with a generation. Slots lie in chunks, each twice as large as the
//! one before, so their numbers are found in constant time.
//!
//! ```text
//!           new                    panic                       owner gone            last one out
//!   free ─────────► live ──────────────────► poisoned ─────┐
//!    ▲     body      │ live = generation  ◄─────── live = MAX-1 │
//!    │               │               forgive                │
//!    │               └───────────────► ending ◄─────────────┘
//!    └──────────── body freed ──────── live = 0, generation + 1
//! ```
//!
//! INV-BODY:
//!
//! 1. Who is inside by a generation that was live *behind* its way in uses the body of that generation.
//! 2. A body is freed once, by who has shut the gate and finds that its generation is over.
//! 3. Who ends a generation tries that, and so does everybody who goes out by the slow way, or has waited: so the last one
//!    out does it (see `BiasedGate::try_shut`).
//! 4. A gate is biased for a generation only while that is live: who makes it not live ends the bias afterwards, and who begins
//!    a bias looks afterwards whether the generation is live, and ends it if not. (Both are under the gate's lock: the later one sees
//!    the other.)
//! 5. Nobody goes in by a number that is no [generation](is_generation): a free slot has 0 in `live`, and a poisoned one has
//!    another such number.
//!
//! So the bias's way in compares one word, of its owner and the generation, and by (4) that is the look of (1): a bias that has not
//! ended is seen as such by its owner behind its mark (INV-MARK).

use std::any::TypeId;
use std::cell::UnsafeCell;
#[cfg(feature = "cluster")]
use std::mem::MaybeUninit;
use std::ptr::{self, NonNull};
#[cfg(not(loom))]
use std::sync::atomic::AtomicU32;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use chanter::base::BiasedGate;
#[cfg(loom)]
use loom::sync::atomic::AtomicU32;

use crate::ObjectError;

/// The generation of a reference to nothing: no object has it.
pub(crate) const NEVER: u32 = u32::MAX;

/// In place of the generation that may be called: the object is poisoned. No object has it.
const POISONED: u32 = NEVER - 1;

/// Whether an object may have that generation. In `live`, 0 says that none may be called, and two others say other things.
#[inline(always)]
pub(crate) fn is_generation(number: u32) -> bool {
    number != 0 && number < POISONED
}

/// Set in a place that is no address, but says where else: see `reference::Place`.
pub(crate) const REMOTE: usize = 1;

/// The slot at a reference's place, if that is in this process.
#[inline(always)]
pub(crate) fn at(place: *const Slot) -> Option<&'static Slot> {
    // SAFETY: made from a slot's address, and slots stay.
    (place.addr() & REMOTE == 0).then(|| unsafe { &*place })
}

/// What a reference points to.
// (The gate first: a call that needs its address has it.)
#[repr(C, align(64))]
pub(crate) struct Slot {
    pub(crate) gate: BiasedGate,
    body: AtomicPtr<Head>,
    /// The generation whose object may be called; 0 if none may, [`POISONED`] if it failed.
    pub(crate) live: AtomicU32,
    /// The generation of the object that is here, or of the next one.
    generation: AtomicU32,
}

/// What all bodies begin with.
struct Head {
    generation: u32,
    class: &'static Class,
}

/// What is known of a type.
struct Class {
    type_id: fn() -> TypeId,
    /// Drops the value of a body, and frees it.
    free: unsafe fn(NonNull<Head>),
}

/// An object in its slot.
#[repr(C)]
struct Body<T> {
    head: Head,
    value: UnsafeCell<T>,
}

impl<T: 'static> Body<T> {
    const CLASS: &'static Class = &Class {
        type_id: TypeId::of::<T>,
        // SAFETY: the caller's contract, `Head`'s `class` says what it is.
        free: |head| drop(unsafe { Box::from_raw(head.cast::<Self>().as_ptr()) }),
    };
}

#[cfg(feature = "cluster")]
impl<T: 'static> Body<T> {
    /// Without a value.
    const EMPTY: &'static Class = &Class {
        type_id: TypeId::of::<T>,
        // SAFETY: as above; `MaybeUninit` drops nothing, and is laid out as what may be there.
        free: |head| drop(unsafe { Box::from_raw(head.cast::<Body<MaybeUninit<T>>>().as_ptr()) }),
    };
}

impl Slot {
    fn new() -> Self {
        Self {
            live: AtomicU32::new(0),
            generation: AtomicU32::new(1),
            body: AtomicPtr::new(ptr::null_mut()),
            gate: BiasedGate::new(),
        }
    }

    /// Puts an object into the slot, which is free, and nobody else's. Returns its generation.
    fn fill<T: Send + 'static>(&self, value: T) -> u32 {
        // Nobody else has the slot, so its generation stays.
        let generation = self.generation.load(Ordering::Relaxed);
        let head = Head { generation, class: Body::<T>::CLASS };
        let body = Box::new(Body { head, value: UnsafeCell::new(value) });
        // ORDER: Release: to who looks at it by a number: see `is_of_shut`.
        self.body.store(Box::into_raw(body).cast(), Ordering::Release);
        self.live.store(generation, Ordering::Relaxed);
        generation
    }

    /// An object in a slot of its own.
    #[cfg(all(test, loom))]
    pub(crate) fn alone<T: Send + 'static>(value: T) -> (&'static Self, u32) {
        let slot: &'static Self = Box::leak(Box::new(Self::new()));
        (slot, slot.fill(value))
    }

    /// The value of the object of a generation.
    ///
    /// # Safety
    /// The caller is inside by that generation, and its object is a `T`.
    #[inline(always)]
    pub(crate) unsafe fn value<T>(&self) -> *mut T {
        // ORDER: Relaxed: what a reference names is seen by who has that: it was made behind the object.
        let body = self.body.load(Ordering::Relaxed).cast::<Body<T>>();
        // SAFETY: INV-BODY 1: it is there, and of that type.
        unsafe { (*body).value.get() }
    }

    /// Why that generation is not live. `seen`: what was found instead.
    #[cold]
    pub(crate) fn gone(&'static self, seen: u32, generation: u32) -> ObjectError {
        if !is_generation(generation) {
            return ObjectError::Ended;
        }
        // A generation that is over stays so: if this one is not, it was not when that was found.
        if seen == POISONED && self.generation.load(Ordering::Relaxed) == generation {
            return ObjectError::Poisoned;
        }
        #[cfg(feature = "cluster")]
        if crate::remote::is_elsewhere(self, generation) {
            return ObjectError::Elsewhere;
        }
        ObjectError::Ended
    }

    /// As [`gone`](Self::gone), of what is seen now.
    #[cfg(feature = "cluster")]
    pub(crate) fn gone_now(&'static self, generation: u32) -> ObjectError {
        self.gone(self.live.load(Ordering::Relaxed), generation)
    }

    /// Whether the object of that generation is here, poisoned or not, and of type `T`.
    pub(crate) fn is_of<T: 'static>(&self, generation: u32) -> bool {
        // Nobody frees a body before it has taken it out of its slot, under this lock.
        let _taking_out = free_slots();
        let Some(body) = NonNull::new(self.body.load(Ordering::Acquire)) else { return false };
        // SAFETY: see above.
        let head = unsafe { body.as_ref() };
        head.generation == generation && (head.class.type_id)() == TypeId::of::<T>()
    }

    pub(crate) fn poison(&self, generation: u32) {
        // A generation that is over stays so. ORDER: Relaxed: see `live`'s readers, who are inside.
        let poisons = self.live.compare_exchange(generation, POISONED, Ordering::Relaxed, Ordering::Relaxed);
        if poisons.is_ok() {
            // INV-BODY 4.
            self.gate.end_bias();
        }
    }

    pub(crate) fn is_poisoned(&self, generation: u32) -> bool {
        let seen = self.live.load(Ordering::Relaxed);
        seen == POISONED && self.generation.load(Ordering::Relaxed) == generation
    }

    /// Its owner forgives what has poisoned it.
    pub(crate) fn forgive(&self, generation: u32) {
        self.live.store(generation, Ordering::Relaxed);
    }

    /// Nobody comes in any more.
    #[cfg(feature = "cluster")]
    pub(crate) fn set_away(&self) {
        self.live.store(0, Ordering::Relaxed);
        // INV-BODY 4.
        self.gate.end_bias();
    }

    #[cfg(feature = "cluster")]
    pub(crate) fn is_live(&self, generation: u32) -> bool {
        is_generation(generation) && self.live.load(Ordering::Relaxed) == generation
    }

    /// Whether its owner is gone.
    #[cfg(feature = "cluster")]
    pub(crate) fn is_over(&self, generation: u32) -> bool {
        !is_generation(generation) || self.generation.load(Ordering::Relaxed) != generation
    }

    /// Whether there was such an object, and its owner is gone: so nobody comes in by that generation.
    #[cfg(feature = "cluster")]
    pub(crate) fn has_ended(&self, generation: u32) -> bool {
        is_generation(generation) && self.generation.load(Ordering::Relaxed) > generation
    }

    /// Takes the value out: what is left is freed without one.
    ///
    /// # Safety
    /// The caller is alone inside, the value is the object's, and there; and nobody looks at it again before it was
    /// [put back](Self::refill).
    #[cfg(feature = "cluster")]
    pub(crate) unsafe fn take_out<T: 'static>(&self, value: *mut T) -> T {
        self.set_class(Body::<T>::EMPTY);
        // SAFETY: the caller's contract.
        unsafe { value.read() }
    }

    /// Puts a value back that was taken out.
    ///
    /// # Safety
    /// The caller is alone inside of what is empty, and `place` is the value's.
    #[cfg(feature = "cluster")]
    pub(crate) unsafe fn refill<T: 'static>(&self, place: *mut T, value: T) {
        // SAFETY: the caller's contract.
        unsafe { place.write(value) };
        self.set_class(Body::<T>::CLASS);
    }

    #[cfg(feature = "cluster")]
    fn set_class(&self, class: &'static Class) {
        let _is_looked_at = free_slots();
        let body = self.body.load(Ordering::Relaxed);
        // SAFETY: there, as long as somebody is inside; who looks at the class has the lock, or the gate shut.
        unsafe { (*body).class = class };
    }

    /// Its owner is gone.
    pub(crate) fn end(&self, generation: u32) {
        self.live.store(0, Ordering::Relaxed);
        // ORDER: Relaxed: published by `try_shut`, to those who are inside.
        self.generation.store(generation + 1, Ordering::Relaxed);
        self.sweep();
    }

    /// The caller was inside by `generation`, or has waited: frees the object if it is over, and nobody else is inside.
    #[inline(always)]
    pub(crate) fn left(&self, generation: u32) {
        // ORDER: Relaxed: see `BiasedGate::try_shut`.
        if self.generation.load(Ordering::Relaxed) != generation {
            self.sweep();
        }
    }

    /// INV-BODY 2.
    #[cold]
    #[inline(never)]
    fn sweep(&self) {
        if !self.gate.try_shut() {
            return;
        }
        let generation = self.generation.load(Ordering::Relaxed);
        let body = NonNull::new(self.body.load(Ordering::Acquire));
        // SAFETY: the gate is shut.
        let over = body.filter(|body| unsafe { body.as_ref() }.generation != generation);
        if over.is_some() {
            let _is_looked_at = free_slots();
            self.body.store(ptr::null_mut(), Ordering::Relaxed);
        }
        self.gate.open();
        let Some(body) = over else {
            // It may have come to its end while we kept it shut.
            return self.left(generation);
        };
        // A slot whose generations are used up stays empty. (And those of a model end with it.)
        if generation < POISONED && cfg!(not(loom)) {
            free_slots().push(NonNull::from(self));
        }
        // SAFETY: of this class, and nobody else finds it any more. User code: no lock is held.
        unsafe { (body.as_ref().class.free)(body) };
    }
}

/// Puts an object into a free slot. Returns its generation.
pub(crate) fn put<T: Send + 'static>(value: T) -> (&'static Slot, u32) {
    let slot = free_slots().pop();
    let generation = slot.fill(value);
    (slot, generation)
}

/// In the first chunk.
const FIRST: u32 = 64;
const CHUNKS: usize = 26;

static TABLE: [AtomicPtr<Slot>; CHUNKS] = [const { AtomicPtr::new(ptr::null_mut()) }; CHUNKS];

/// How many slots a chunk has, and the number of its first.
fn extent(chunk: usize) -> (u32, u32) {
    (FIRST << chunk, (FIRST << chunk) - FIRST)
}

/// The slot of that number, if there is one.
pub(crate) fn by_number(number: u32) -> Option<&'static Slot> {
    let chunk = (number.checked_add(FIRST)?.ilog2() - FIRST.ilog2()) as usize;
    let (_, first) = extent(chunk);
    let slots = NonNull::new(TABLE.get(chunk)?.load(Ordering::Acquire))?;
    // SAFETY: the chunk has that many, and stays.
    Some(unsafe { slots.add((number - first) as usize).as_ref() })
}

/// The number of a slot.
pub(crate) fn number_of(slot: &'static Slot) -> u32 {
    let place = ptr::from_ref(slot).addr();
    for (chunk, slots) in TABLE.iter().enumerate() {
        let (many, first) = extent(chunk);
        let distance = place.wrapping_sub(slots.load(Ordering::Acquire).addr()) / size_of::<Slot>();
        if distance < many as usize {
            return first + distance as u32;
        }
    }
    unreachable!("all slots are in chunks")
}

/// Slots without an object. (A stack: who was here last is in the cache.)
struct FreeSlots {
    slots: Vec<NonNull<Slot>>,
    chunks: usize,
}

// SAFETY: slots may be used from anywhere.
unsafe impl Send for FreeSlots {}

static FREE: Mutex<FreeSlots> = Mutex::new(FreeSlots { slots: Vec::new(), chunks: 0 });

fn free_slots() -> MutexGuard<'static, FreeSlots> {
    FREE.lock().unwrap_or_else(PoisonError::into_inner)
}

impl FreeSlots {
    fn push(&mut self, slot: NonNull<Slot>) {
        self.slots.push(slot);
    }

    /// # Panics
    /// If there are four billion objects.
    fn pop(&mut self) -> &'static Slot {
        if self.slots.is_empty() {
            self.grow();
        }
        let slot = self.slots.pop().expect("a chunk has come");
        // SAFETY: slots stay.
        unsafe { slot.as_ref() }
    }

    fn grow(&mut self) {
        assert!(self.chunks < CHUNKS, "this process has too many objects");
        let (many, _) = extent(self.chunks);
        let slots: Box<[Slot]> = (0..many).map(|_| Slot::new()).collect();
        let slots: &'static [Slot] = Box::leak(slots);
        TABLE[self.chunks].store(slots.as_ptr().cast_mut(), Ordering::Release);
        self.chunks += 1;
        self.slots.extend(slots.iter().rev().map(NonNull::from));
    }
}
