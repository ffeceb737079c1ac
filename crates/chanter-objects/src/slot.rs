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
//!    └── nobody waits ── body freed ── live = 0, generation + 1
//! ```
//!
//! INV-BODY:
//!
//! 1. If a thread has entered by a generation, and saw *afterwards* that it is live, it uses this generation's body.
//! 2. A body is freed once, by a thread that has shut the gate and finds that its generation is over.
//! 3. The thread that ends a generation tries to free the body. So does every thread that leaves by the slow way, or has
//!    waited. So the last one out frees it (see `BiasedGate::try_shut`).
//! 4. A gate is biased for a generation only while that generation is live. The thread that makes it not live ends the
//!    bias afterwards. The thread that begins a bias checks afterwards whether the generation is live, and ends the bias if
//!    not. (Both are under the gate's lock: the later one sees the other.)
//! 5. No thread enters by a number that is no [generation](is_generation): a free slot has 0 in `live`, and a poisoned
//!    one has another such number.
//!
//! So an entry by a bias compares one word, of its owner and the generation. By (4) this comparison is also the check
//! of (1): the owner sees after its mark that the bias has not ended (INV-MARK).

use std::any::TypeId;
use std::cell::UnsafeCell;
#[cfg(feature = "cluster")]
use std::mem::MaybeUninit;
use std::ptr::{self, NonNull};
#[cfg(not(loom))]
use std::sync::atomic::AtomicU32;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use chanter::base::BiasedGate;
#[cfg(loom)]
use loom::sync::atomic::AtomicU32;

/// The generation of a reference to nothing: no object has it.
pub(crate) const NEVER: u32 = u32::MAX;

/// Stands in `live` for a poisoned object, where the generation that may be called would be. No object has it.
const POISONED: u32 = NEVER - 1;

/// Whether `number` is a generation that an object may have. In `live`, 0 says that none may be called; [`POISONED`]
/// and [`NEVER`] are no generations either.
#[inline(always)]
pub(crate) fn is_generation(number: u32) -> bool {
    number != 0 && number < POISONED
}

/// Bit of a place that is no address but names another process: see `place::Place`.
pub(crate) const REMOTE: usize = 1;

/// The slot at a reference's place, if that is in this process.
#[inline(always)]
pub(crate) fn at(place: *const Slot) -> Option<&'static Slot> {
    // SAFETY: made from a slot's address, and slots stay.
    (place.addr() & REMOTE == 0).then(|| unsafe { &*place })
}

/// The slot to which a reference points.
// (The gate first: a call that needs its address has it.)
#[repr(C, align(64))]
pub(crate) struct Slot {
    pub(crate) gate: BiasedGate,
    body: AtomicPtr<Head>,
    /// The generation whose object may be called; 0 if none may, [`POISONED`] if it failed.
    pub(crate) live: AtomicU32,
    /// The generation of the object that is here, or of the next one.
    generation: AtomicU32,
    /// Whether it is among the free slots. Their lock protects it.
    is_free: AtomicBool,
}

/// The header with which all bodies begin.
struct Head {
    generation: u32,
    class: &'static Class,
}

/// The functions of a type, as a table.
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
    /// A body that is in no slot yet.
    fn boxed(value: T) -> Box<Self> {
        Box::new(Self { head: Head { generation: NEVER, class: Self::CLASS }, value: UnsafeCell::new(value) })
    }

    const CLASS: &'static Class = &Class {
        type_id: TypeId::of::<T>,
        // SAFETY: the caller gives the head of a body whose class this is, so of a boxed `Body<T>`, and gives it
        // once.
        free: |head| drop(unsafe { Box::from_raw(head.cast::<Self>().as_ptr()) }),
    };
}

#[cfg(feature = "cluster")]
impl<T: 'static> Body<T> {
    /// Without a value.
    const EMPTY: &'static Class = &Class {
        type_id: TypeId::of::<T>,
        // SAFETY: the caller gives, once, the head of a body whose class this is: a boxed `Body<T>` without a value.
        // `MaybeUninit` drops nothing, and has the layout of the value.
        free: |head| drop(unsafe { Box::from_raw(head.cast::<Body<MaybeUninit<T>>>().as_ptr()) }),
    };
}

impl Slot {
    fn new() -> Self {
        Self {
            live: AtomicU32::new(0),
            generation: AtomicU32::new(1),
            is_free: AtomicBool::new(true),
            body: AtomicPtr::new(ptr::null_mut()),
            gate: BiasedGate::new(),
        }
    }

    /// Puts a body into the slot, which is free. The caller has the lock of the free slots, if the slot was one of them.
    fn put<T: Send + 'static>(&self, mut body: Box<Body<T>>) -> u32 {
        // ORDER: Relaxed: the generation of a slot without a body stays.
        let generation = self.generation.load(Ordering::Relaxed);
        body.head.generation = generation;
        // ORDER: Release: publishes the body to a reader that finds the slot by its number (`is_of`).
        self.body.store(Box::into_raw(body).cast(), Ordering::Release);
        generation
    }

    /// An object in a slot of its own.
    #[cfg(all(test, loom))]
    pub(crate) fn alone<T: Send + 'static>(value: T) -> (&'static Self, u32) {
        let slot: &'static Self = Box::leak(Box::new(Self::new()));
        let generation = slot.put(Body::boxed(value));
        slot.live.store(generation, Ordering::Relaxed);
        (slot, generation)
    }

    /// The value of the object of a generation.
    ///
    /// # Safety
    /// The caller is inside by that generation, and its object is a `T`.
    #[inline(always)]
    pub(crate) unsafe fn value<T>(&self) -> *mut T {
        // ORDER: Relaxed: a reference is made after its object, so a holder of the reference sees the object.
        let body = self.body.load(Ordering::Relaxed).cast::<Body<T>>();
        // SAFETY: INV-BODY 1: it is there, and of that type.
        unsafe { (*body).value.get() }
    }

    /// Whether the object of that generation is here, poisoned or not, and of type `T`.
    pub(crate) fn is_of<T: 'static>(&self, generation: u32) -> bool {
        // Nobody frees a body before it has taken it out of its slot, under this lock.
        let _taking_out = free_slots();
        let Some(body) = NonNull::new(self.body.load(Ordering::Acquire)) else { return false };
        // SAFETY: a body is taken out of its slot before it is freed, under the lock that is held here.
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
        self.is_poison(self.live.load(Ordering::Relaxed), generation)
    }

    /// Whether the object of that generation is poisoned, by the value `seen` of `live`.
    pub(crate) fn is_poison(&self, seen: u32, generation: u32) -> bool {
        // A generation that is over stays so: if this one is not, it was not when that was found.
        seen == POISONED && self.generation.load(Ordering::Relaxed) == generation
    }

    /// Makes a poisoned object live again, for its owner.
    pub(crate) fn forgive(&self, generation: u32) {
        self.live.store(generation, Ordering::Relaxed);
    }

    /// Marks the object as away: no call enters any more.
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

    /// Whether the object's owner is gone.
    #[cfg(feature = "cluster")]
    pub(crate) fn is_over(&self, generation: u32) -> bool {
        !is_generation(generation) || self.generation.load(Ordering::Relaxed) != generation
    }

    /// Whether there was such an object, and its owner is gone: so no thread enters by that generation.
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
        // SAFETY: the caller is alone inside, the value is there, and nothing reads it again before `refill`.
        unsafe { value.read() }
    }

    /// Puts a value back that was taken out.
    ///
    /// # Safety
    /// The caller is alone inside of what is empty, and `place` is the value's.
    #[cfg(feature = "cluster")]
    pub(crate) unsafe fn refill<T: 'static>(&self, place: *mut T, value: T) {
        // SAFETY: the caller is alone inside, and `place` is that of the value, and empty.
        unsafe { place.write(value) };
        self.set_class(Body::<T>::CLASS);
    }

    #[cfg(feature = "cluster")]
    fn set_class(&self, class: &'static Class) {
        let _is_looked_at = free_slots();
        let body = self.body.load(Ordering::Relaxed);
        // SAFETY: the body is there while the caller is inside. Readers of the class hold the lock, or have shut the
        // gate.
        unsafe { (*body).class = class };
    }

    /// Ends the object: its owner is gone.
    pub(crate) fn end(&self, generation: u32) {
        self.live.store(0, Ordering::Relaxed);
        // ORDER: Relaxed: published by `try_shut`, to those who are inside.
        self.generation.store(generation + 1, Ordering::Relaxed);
        self.sweep();
    }

    /// Frees the object if it is over, and no thread is inside. The caller was inside by `generation`, or has waited.
    #[inline(always)]
    pub(crate) fn left(&self, generation: u32) {
        // ORDER: Relaxed: see `BiasedGate::try_shut`.
        if self.generation.load(Ordering::Relaxed) != generation {
            self.left_last();
        }
    }

    /// Does what is left of [`left`](Self::left). It does not touch the gate of a later object.
    #[cold]
    #[inline(never)]
    fn left_last(&self) {
        let generation = self.generation.load(Ordering::Relaxed);
        let mut free = free_slots();
        match NonNull::new(self.body.load(Ordering::Acquire)) {
            None => free.push_unused(self),
            // SAFETY: a body is taken out of its slot before it is freed, under the lock that is held here.
            Some(body) if unsafe { body.as_ref() }.generation < generation => {
                drop(free);
                self.sweep();
            }
            Some(_) => (),
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
        free_slots().push_unused(self);
        // SAFETY: of this class, and nobody else finds it any more. User code: no lock is held.
        unsafe { (body.as_ref().class.free)(body) };
    }
}

/// Puts an object into a free slot. Returns its generation.
pub(crate) fn put<T: Send + 'static>(value: T) -> (&'static Slot, u32) {
    let body = Body::boxed(value);
    let (slot, generation) = {
        // In one step: a slot without a body that is not free would be taken for one that has just been left.
        let mut free = free_slots();
        let slot = free.pop();
        (slot, slot.put(body))
    };
    slot.live.store(generation, Ordering::Relaxed);
    (slot, generation)
}

/// Number of slots in the first chunk; each next chunk has twice as many.
const FIRST: u32 = 64;
const CHUNKS: usize = 26;

static TABLE: [AtomicPtr<Slot>; CHUNKS] = [const { AtomicPtr::new(ptr::null_mut()) }; CHUNKS];

/// Number of slots in a chunk, and the number of its first slot.
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

/// Slots without an object. (A stack: the slot that was freed last is still in the cache.)
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
    /// Takes a slot whose body is gone, unless it has a new one, or somebody waits at its gate: the last waiter comes back.
    ///
    /// The next object may belong to another machine. So nothing that waits for this one may be in its way.
    fn push_unused(&mut self, slot: &Slot) {
        if !slot.body.load(Ordering::Relaxed).is_null() {
            return;
        }
        // A slot whose generations are used up stays empty. (And those of a model end with it.)
        // ORDER: Relaxed, here and above: a body comes and goes under the lock, without one the generation stays, and
        // `is_free` is under the lock.
        let is_usable = cfg!(not(loom)) && slot.generation.load(Ordering::Relaxed) < POISONED;
        if is_usable && slot.gate.rest() && !slot.is_free.swap(true, Ordering::Relaxed) {
            self.slots.push(NonNull::from(slot));
        }
    }

    /// # Panics
    /// If there are four billion objects.
    fn pop(&mut self) -> &'static Slot {
        if self.slots.is_empty() {
            self.grow();
        }
        let slot = self.slots.pop().expect("a chunk has come");
        // SAFETY: slots stay.
        let slot = unsafe { slot.as_ref() };
        slot.is_free.store(false, Ordering::Relaxed);
        slot
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
