//! Frames, the memory of threads.
//!
//! A frame is a [`Header`] followed by the thread's body. It is made in its final place and never
//! moves.

use std::ptr::{self, NonNull};

use super::body::Vtable;
use super::span;
use super::state::State;
use crate::sync::atomic::{AtomicPtr, AtomicU8, Ordering};
use crate::sync::{Cell, Linked, UnsafeCell};

/// A virtual processor. Frames know its address alone; the scheduler knows what is there.
pub(crate) struct OpaqueAddress(());

/// The part of a frame that every thread has.
#[repr(C)]
pub(crate) struct Header {
    /// The state word. The rules about access to the other fields stand in [`super::state`].
    pub(crate) state: State,
    pub(crate) vtable: Cell<&'static Vtable>,
    /// The link of the frame in a queue, an inbox, a return list or a free list.
    pub(super) next: UnsafeCell<*mut Header>,
    /// The virtual processor where the thread ran last, or is to run.
    pub(crate) address: AtomicPtr<OpaqueAddress>,
    /// The word that the policy keeps for the thread.
    pub(crate) tag: Cell<u64>,
    /// The number of references that the runner has handed out during the current poll, less those it got back.
    pub(crate) local_refs: Cell<i32>,
    pub(crate) kind: KindCell,
    /// Its penalty count, and two marks. It belongs to the runner.
    pub(crate) penalty: Penalty,
    pub(super) span: span::Place,
}

/// The kind of a thread: how the scheduler treats it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Kind {
    /// A parasite: its unblocker attaches it.
    Parasite,
    /// A host: its unblocker queues it.
    Host,
    /// A host that stays on its virtual processor.
    Pinned,
    /// A host that stays on its OS thread, because its body is not `Send`.
    Local,
}

/// The bit of a [`KindCell`] that is set if the thread must not be stolen.
const KEPT: u8 = 1 << 2;

/// A thread's kind, and whether it may be stolen. It is written by the thread's runner. It is read by the holder of the thread's
/// token, and by a shutdown that looks through the arenas.
#[derive(Debug)]
pub(crate) struct KindCell(AtomicU8);

impl KindCell {
    #[inline(always)]
    pub(crate) fn get(&self) -> Kind {
        match self.0.load(Ordering::Relaxed) & (KEPT - 1) {
            0 => Kind::Parasite,
            1 => Kind::Host,
            2 => Kind::Pinned,
            _ => Kind::Local,
        }
    }

    pub(crate) fn set(&self, kind: Kind) {
        let kept = self.0.load(Ordering::Relaxed) & KEPT;
        self.0.store(kind as u8 | kept, Ordering::Relaxed);
    }

    /// Whether it is a host that a demander may steal anywhere.
    #[inline(always)]
    pub(crate) fn is_free_host(&self) -> bool {
        self.0.load(Ordering::Relaxed) == Kind::Host as u8
    }

    /// Whether a demander must leave the thread to the scheduler.
    pub(crate) fn is_kept(&self) -> bool {
        self.0.load(Ordering::Relaxed) & KEPT != 0
    }

    /// Keeps the thread from being stolen. The caller has just made it, and no other OS thread knows it.
    pub(crate) fn keep(&self) {
        self.0.store(self.0.load(Ordering::Relaxed) | KEPT, Ordering::Relaxed);
    }
}

/// The number of parasites that a thread must still spawn as hosts (its penalty count), and two facts about the thread.
pub(crate) struct Penalty(Cell<u8>);

/// The bit of a [`Penalty`] that says that the thread has options. The beginning of a turn looks at them.
const OPTIONS: u8 = 1 << 7;
/// The bit that says that the scheduler makes no hosts of the thread's parasites, nor of the thread.
const NO_INFLATION: u8 = 1 << 6;
/// The bits of the count.
const COUNT: u8 = NO_INFLATION - 1;

impl Penalty {
    #[inline(always)]
    fn new() -> Self {
        Self(Cell::new(0))
    }

    /// Whether there is anything.
    #[inline(always)]
    pub(crate) fn is_special(&self) -> bool {
        self.0.get() != 0
    }

    pub(crate) fn has_options(&self) -> bool {
        self.0.get() & OPTIONS != 0
    }

    pub(crate) fn count(&self) -> u8 {
        self.0.get() & COUNT
    }

    /// Sets the count, which is at most [`COUNT`].
    pub(crate) fn set_count(&self, count: u8) {
        self.0.set(self.0.get() & !COUNT | count);
    }

    /// Whether the scheduler makes no hosts of the thread's parasites, nor of the thread.
    #[inline(always)]
    pub(crate) fn forbids_inflation(&self) -> bool {
        self.0.get() & NO_INFLATION != 0
    }

    #[inline(always)]
    pub(crate) fn forbid_inflation(&self, forbids: bool) {
        let others = self.0.get() & !NO_INFLATION;
        self.0.set(if forbids { others | NO_INFLATION } else { others });
    }

    /// Takes one from the count. False: it is 0.
    pub(crate) fn take_one(&self) -> bool {
        let count = self.count();
        if count > 0 {
            self.set_count(count - 1);
        }
        count > 0
    }
}

// SAFETY: only lists use `next`, one list at a time (INV-STACK).
unsafe impl Linked for Header {
    fn link(&self) -> &UnsafeCell<*mut Self> {
        &self.next
    }
}

impl Header {
    #[inline(always)]
    pub(crate) fn new(
        state: State,
        vtable: &'static Vtable,
        kind: Kind,
        address: *const OpaqueAddress,
    ) -> Self {
        Self {
            state,
            vtable: Cell::new(vtable),
            next: UnsafeCell::new(ptr::null_mut()),
            address: AtomicPtr::new(address.cast_mut()),
            tag: Cell::new(0),
            local_refs: Cell::new(0),
            kind: KindCell(AtomicU8::new(kind as u8)),
            penalty: Penalty::new(),
            span: span::Place::new(),
        }
    }

    /// The header of a thread with options, which the beginning of a turn heeds.
    pub(crate) fn with_options(self) -> Self {
        self.penalty.0.set(self.penalty.0.get() | OPTIONS);
        self
    }

    /// Establishes INV-FRESH for a header with any content. These are plain writes, which the
    /// compiler combines.
    ///
    /// # Safety
    /// The frame is dead, and the caller has exclusive use of it.
    #[inline(always)]
    pub(super) unsafe fn freshen(frame: NonNull<Self>, home: *const OpaqueAddress) {
        let header = frame.as_ptr();
        // SAFETY: the frame is dead, and the caller has exclusive use of it.
        unsafe {
            (*header).state.freshen();
            // A parasite that begins in place does not know its own table. It must not be taken for the frame's last
            // thread, when somebody asks it for its name or attributes.
            (&raw mut (*header).vtable).write(Cell::new(super::body::NONE));
            (&raw mut (*header).address).write(AtomicPtr::new(home.cast_mut()));
            (&raw mut (*header).tag).write(Cell::new(0));
            (&raw mut (*header).local_refs).write(Cell::new(0));
            (&raw mut (*header).kind).write(KindCell(AtomicU8::new(Kind::Parasite as u8)));
            (&raw mut (*header).penalty).write(Penalty::new());
        }
    }

    /// Whether the header of a parasite that has ended in place is unchanged (INV-FRESH).
    #[inline(always)]
    pub(crate) fn is_fresh(&self) -> bool {
        self.state.is_private() && self.local_refs.get() == 0 && !self.penalty.is_special()
    }
}
