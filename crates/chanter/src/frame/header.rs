//! Frames, the memory of threads, and the arenas that they come from.
//!
//! A frame is a [`Header`] followed by the thread's body. It is made in its final place and never
//! moves. Each virtual processor owns an [`Arena`] with a free list per size class. There a frame
//! is taken or given back with a load and a store. A frame that is freed elsewhere returns through
//! the arena's return list (INV-STACK), which the owner empties when a free list runs dry.
//!
//! Frames may outlive their machine, because wakers and handles refer to them. Then
//! [`Arena::orphan`] counts the missing frames, and the last one that returns frees the slabs.

use std::collections::HashSet;
use std::ptr::{self, NonNull};
use std::sync::Arc;

use super::body::Vtable;
use super::local_park::LocalPark;
use super::observer::Observer;
use super::slab::{CLASSES, SLAB_HEADER, Slab, Slabs, class_size, room};
use super::span;
use super::state::State;
use crate::sync::atomic::{AtomicIsize, AtomicPtr, AtomicU8, AtomicU64, Ordering};
use crate::sync::counter::Counter;
use crate::sync::{Cell, Linked, Stack, UnsafeCell, order};

/// A virtual processor. Frames know its address alone; the scheduler knows what is there.
pub(crate) struct OpaqueVp(());

/// The part of a frame that every thread has.
#[repr(C)]
pub(crate) struct Header {
    /// The state word. The rules about access to the other fields stand in [`super::state`].
    pub(crate) state: State,
    pub(crate) vtable: Cell<&'static Vtable>,
    /// The link of the frame in a queue, an inbox, a return list or a free list.
    next: UnsafeCell<*mut Header>,
    /// The virtual processor where the thread ran last, or is to run.
    pub(crate) vp: AtomicPtr<OpaqueVp>,
    /// The word that the policy keeps for the thread.
    pub(crate) tag: Cell<u64>,
    /// The number of references that the runner has handed out during the present poll, less those
    /// it got back.
    pub(crate) local_refs: Cell<i32>,
    pub(crate) kind: KindCell,
    /// What the beginning of a turn has to look at. It belongs to the runner.
    pub(crate) penalty: Penalty,
    /// The thread's part of local parking.
    pub(crate) rest: LocalPark,
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

/// The number of parasites that a thread must still spawn as hosts (its penalty count), and whether the thread has
/// options, which the beginning of a turn heeds.
pub(crate) struct Penalty(Cell<u8>);

/// The bit of a [`Penalty`] that says that the thread has options.
const OPTIONS: u8 = 1 << 7;

impl Penalty {
    #[inline(always)]
    fn new() -> Self {
        Self(Cell::new(0))
    }

    /// Whether there is a count, or there are options.
    #[inline(always)]
    pub(crate) fn is_special(&self) -> bool {
        self.0.get() != 0
    }

    pub(crate) fn has_options(&self) -> bool {
        self.0.get() & OPTIONS != 0
    }

    pub(crate) fn count(&self) -> u8 {
        self.0.get() & !OPTIONS
    }

    /// Sets the count, which is below 128.
    pub(crate) fn set_count(&self, count: u8) {
        self.0.set(self.0.get() & OPTIONS | count);
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

/// An arena: the place that frames come from and return to.
#[repr(C)]
pub(crate) struct Arena {
    owner: UnsafeCell<Owner>,
    /// The virtual processor that owns the arena, if one does.
    home: Cell<*const OpaqueVp>,
    returns: Stack<Header>,
    /// The number of frames still out after the owner left; see [`Arena::orphan`].
    missing: Missing,
    /// A counted reference to the machine, which keeps its memory while frames are out after its
    /// end; null before.
    keep: std::cell::Cell<Option<Arc<dyn Send + Sync>>>,
    /// The number of frames made. Only the owner counts them, and those in `returned`: frames that
    /// came back through the return list.
    pub(crate) allocated: Counter,
    pub(crate) returned: Counter,
    /// The journal of spawned and ended threads; null if none is kept.
    observer: std::cell::Cell<Option<NonNull<dyn Observer>>>,
}

/// The number of frames of an orphaned arena that are still out.
///
/// INV-HOME: exactly one caller is told that none is left, after the owner has left and every frame
/// has returned.
#[derive(Debug)]
pub(super) struct Missing(AtomicIsize);

impl Missing {
    pub(super) fn new() -> Self {
        Self(AtomicIsize::new(0))
    }

    /// The owner leaves. `out` frames were missing when it closed the return list; those that have
    /// returned since have subtracted themselves already. True: none is left.
    #[must_use]
    pub(super) fn leave(&self, out: isize) -> bool {
        // ORDER: Release publishes the owner's part. Acquire lets the last caller see the end of
        // every use of the slabs.
        self.0.fetch_add(out, order::frame_missing()) + out == 0
    }

    /// A frame returns after the owner closed the return list. True: none is left.
    #[must_use]
    pub(super) fn come_home(&self) -> bool {
        // ORDER: as in `leave`. While the count is below zero the owner has not left yet.
        self.0.fetch_sub(1, order::frame_missing()) == 1
    }
}

/// The owner's part. The lists of small frames come first, near the other memory that a spawn
/// touches.
#[repr(C)]
struct Owner {
    free: [*mut Header; CLASSES],
    /// The memory at the end of each class's newest slab that was never used.
    fresh: [*mut u8; CLASSES],
    slabs: Slabs,
}

impl Header {
    #[inline(always)]
    pub(crate) fn new(state: State, vtable: &'static Vtable, kind: Kind, vp: *const OpaqueVp) -> Self {
        Self {
            state,
            vtable: Cell::new(vtable),
            next: UnsafeCell::new(ptr::null_mut()),
            vp: AtomicPtr::new(vp.cast_mut()),
            tag: Cell::new(0),
            local_refs: Cell::new(0),
            kind: KindCell(AtomicU8::new(kind as u8)),
            penalty: Penalty::new(),
            rest: LocalPark::new(),
            span: span::Place::new(),
        }
    }

    /// The header of a thread with options, which the beginning of a turn heeds.
    pub(crate) fn with_options(self) -> Self {
        self.penalty.0.set(OPTIONS);
        self
    }

    /// Establishes INV-FRESH for a header with any content. These are plain writes, which the
    /// compiler combines.
    ///
    /// # Safety
    /// The frame is dead, and the caller has exclusive use of it.
    #[inline(always)]
    unsafe fn freshen(frame: NonNull<Self>, home: *const OpaqueVp) {
        let header = frame.as_ptr();
        // SAFETY: the frame is dead, and the caller has exclusive use of it.
        unsafe {
            (*header).state.freshen();
            // A parasite that begins in place does not know its own table. It must not be taken for the frame's last
            // thread, when somebody asks it for its name or attributes.
            (&raw mut (*header).vtable).write(Cell::new(super::body::NONE));
            (&raw mut (*header).vp).write(AtomicPtr::new(home.cast_mut()));
            (&raw mut (*header).tag).write(Cell::new(0));
            (&raw mut (*header).local_refs).write(Cell::new(0));
            (&raw mut (*header).kind).write(KindCell(AtomicU8::new(Kind::Parasite as u8)));
            (&raw mut (*header).penalty).write(Penalty::new());
            (&raw mut (*header).rest).write(LocalPark::new());
        }
    }

    /// Whether the header of a parasite that has ended in place is unchanged (INV-FRESH).
    #[inline(always)]
    pub(crate) fn is_fresh(&self) -> bool {
        self.state.is_private() && self.local_refs.get() == 0 && !self.penalty.is_special()
    }
}

impl Arena {
    pub(crate) fn new() -> Self {
        Self {
            owner: UnsafeCell::new(Owner {
                free: [ptr::null_mut(); CLASSES],
                fresh: [ptr::null_mut(); CLASSES],
                slabs: Slabs::default(),
            }),
            home: Cell::new(ptr::null()),
            returns: Stack::new(),
            missing: Missing::new(),
            keep: std::cell::Cell::new(None),
            allocated: Counter::default(),
            returned: Counter::default(),
            observer: std::cell::Cell::new(None),
        }
    }

    /// Sets the journal that records the ends of threads. Called before any frame is taken.
    pub(crate) fn tell(&self, observer: &(dyn Observer + 'static)) {
        self.observer.set(Some(NonNull::from(observer)));
    }

    /// Makes `vp` the owner. Called before any frame is taken.
    pub(crate) fn belong_to(&self, vp: *const OpaqueVp) {
        self.home.set(vp);
    }

    /// Takes a frame with a header that INV-FRESH describes.
    ///
    /// # Safety
    /// Only the arena's owner calls it: the worker of its virtual processor, or the holder of the
    /// lock of a shared arena.
    #[inline(always)]
    pub(crate) unsafe fn take(&self, class: usize) -> NonNull<Header> {
        self.owner.with_mut(|owner| {
            // SAFETY: the caller is the owner, and this borrow is the only one.
            let owner = unsafe { &mut *owner };
            match NonNull::new(owner.free[class]) {
                Some(frame) => {
                    // SAFETY: a free frame belongs to the owner.
                    owner.free[class] = unsafe { frame.as_ref().next.with(|next| *next) };
                    frame
                }
                None => self.refill(owner, class),
            }
        })
    }

    #[cold]
    fn refill(&self, owner: &mut Owner, class: usize) -> NonNull<Header> {
        for frame in self.returns.take_all() {
            owner.put(frame, self.home.get());
            self.returned.add_one();
        }
        if let Some(frame) = NonNull::new(owner.free[class]) {
            // SAFETY: a free frame belongs to the owner.
            owner.free[class] = unsafe { frame.as_ref().next.with(|next| *next) };
            return frame;
        }
        owner.carve(self, class);
        // SAFETY: `carve` puts at least one frame into the list, and a free frame belongs to the
        // owner.
        unsafe {
            let frame = NonNull::new_unchecked(owner.free[class]);
            owner.free[class] = frame.as_ref().next.with(|next| *next);
            frame
        }
    }

    /// Gives back a dead frame, on the OS thread of the arena's owner.
    ///
    /// # Safety
    /// As for [`Arena::take`]; the frame is from this arena, and dead.
    #[inline]
    unsafe fn put_back(&self, frame: NonNull<Header>) {
        // SAFETY: the caller is the owner; the frame is dead.
        self.owner.with_mut(|owner| unsafe { (*owner).put(frame, self.home.get()) });
    }

    /// As [`free`], for the owner, from whom most frames come.
    ///
    /// # Safety
    /// As for [`free`] and [`Arena::take`].
    #[inline(always)]
    pub(crate) unsafe fn free_here(&self, frame: NonNull<Header>) {
        // SAFETY: the frame lies in a slab, which names its arena. If that is this one, the caller owns it.
        unsafe {
            if ptr::eq(Slab::of(frame).as_ref().arena, self) {
                self.put_back(frame);
            } else {
                free(frame);
            }
        }
    }

    /// Gives back a frame that has been taken, and is fresh again.
    ///
    /// # Safety
    /// As for [`Arena::take`]; the frame is of `class` and from this arena, its body is gone, and
    /// its header [is fresh](Header::is_fresh).
    #[inline(always)]
    pub(crate) unsafe fn put_back_fresh(&self, frame: NonNull<Header>, class: usize) {
        self.owner.with_mut(|owner| {
            // SAFETY: the caller is the owner of the arena, and the frame, which is not in use,
            // belongs to it.
            unsafe {
                let head = &raw mut (*owner).free[class];
                frame.as_ref().next.with_mut(|next| {
                    // Mostly the link says so already, and stores are the main cost of a parasite.
                    if *next != *head {
                        *next = *head;
                    }
                });
                *head = frame.as_ptr();
            }
        });
    }

    /// The frames in use, for the shutdown.
    ///
    /// # Safety
    /// As for [`Arena::take`]. Frames may be freed meanwhile, but none may be taken.
    pub(crate) unsafe fn frames_in_use(&self) -> Vec<NonNull<Header>> {
        self.owner.with(|owner| {
            // SAFETY: the caller is the owner.
            let owner = unsafe { &*owner };
            let free = owner.free_frames();
            let mut frames = Vec::new();
            for slab in owner.slabs.iter() {
                // SAFETY: slabs live as long as the arena.
                let class = unsafe { slab.as_ref().class };
                let start = slab.as_ptr() as usize;
                let end = start + owner.used(slab);
                let size = class_size(class);
                let mut at = start + SLAB_HEADER;
                while at + size <= end {
                    // SAFETY: the frame lies in the used part of the slab.
                    let frame = unsafe {
                        NonNull::new_unchecked(slab.as_ptr().cast::<u8>().add(at - start).cast::<Header>())
                    };
                    // SAFETY: the frame lies in the used part of the slab, so its state word is
                    // initialized.
                    if unsafe { frame.as_ref() }.state.in_use() && !free.contains(&frame) {
                        frames.push(frame);
                    }
                    at += size;
                }
            }
            frames
        })
    }

    /// Calls `f` with the frame of every thread that has not ended. `f` must not run user code.
    ///
    /// # Safety
    /// As for [`Arena::take`]. Frames may be freed meanwhile, but none may be taken.
    pub(crate) unsafe fn each_not_ended(&self, f: &mut dyn FnMut(NonNull<Header>)) {
        // Free frames look as if their threads had not ended; mostly there are no others.
        let mut count = 0;
        // SAFETY: the caller is the owner, and the memory of frames stays while the arena lives.
        unsafe {
            let not_ended = |frame: NonNull<Header>| {
                let state = &frame.as_ref().state;
                state.in_use() && !state.is_complete()
            };
            self.each_in_use(&mut |frame| {
                count += usize::from(not_ended(frame));
                false
            });
            let free = self.owner.with(|owner| (*owner).count_free());
            if count > free {
                self.frames_in_use().into_iter().filter(|frame| not_ended(*frame)).for_each(f);
            }
        }
    }

    /// Calls `f` with every frame that was ever used, and returns whether any call returned true.
    /// Free frames are among them. `f` may free frames and take new ones.
    ///
    /// # Safety
    /// As for [`Arena::take`].
    pub(crate) unsafe fn each_in_use(&self, f: &mut dyn FnMut(NonNull<Header>) -> bool) -> bool {
        let mut any = false;
        let mut index = 0;
        loop {
            let slab = self.owner.with(|owner| {
                // SAFETY: the caller is the owner; the borrow ends here.
                let owner = unsafe { &*owner };
                owner.slabs.get(index).map(|slab| (slab, owner.used(slab)))
            });
            let Some((slab, used)) = slab else { return any };
            // SAFETY: slabs live as long as the arena.
            let size = class_size(unsafe { slab.as_ref().class });
            let mut at = SLAB_HEADER;
            while at + size <= used {
                // SAFETY: the frame lies in the used part of the slab.
                let frame = unsafe { NonNull::new_unchecked(slab.as_ptr().cast::<u8>().add(at).cast()) };
                any |= f(frame);
                at += size;
            }
            index += 1;
        }
    }

    /// The owner leaves for good. Frames that are still out keep `machine` alive, and the last of
    /// them to return frees the slabs.
    ///
    /// # Safety
    /// As for [`Arena::take`], and the owner never calls anything again.
    pub(crate) unsafe fn orphan(&self, machine: Arc<dyn Send + Sync>) {
        self.keep.set(Some(machine));
        let at_home = self.owner.with_mut(|owner| {
            // SAFETY: the caller is the owner.
            let owner = unsafe { &mut *owner };
            for frame in self.returns.close() {
                owner.put(frame, self.home.get());
            }
            owner.count_free() as isize
        });
        let born = self.owner.with(|owner| {
            // SAFETY: the caller is the owner.
            let owner = unsafe { &*owner };
            owner.slabs.iter().map(|slab| owner.born_in(slab)).sum::<isize>()
        });
        let out = born - at_home;
        if self.missing.leave(out) {
            // SAFETY: nothing is out, and the owner is gone.
            unsafe { self.demolish() };
        }
    }

    /// # Safety
    /// Nothing is out and the owner is gone; called once.
    unsafe fn demolish(&self) {
        let slabs = self.owner.with_mut(|owner| {
            // SAFETY: nobody else is left.
            let owner = unsafe { &mut *owner };
            owner.free = [ptr::null_mut(); CLASSES];
            std::mem::take(&mut owner.slabs)
        });
        // SAFETY: no frame is out, as the caller has promised, so no frame of these slabs is used
        // any more.
        unsafe { slabs.free() };
        // The arena may go with it.
        drop(self.keep.take());
    }
}

impl Owner {
    fn put(&mut self, frame: NonNull<Header>, home: *const OpaqueVp) {
        // SAFETY: frames are inside slabs, aligned to their size.
        let class = unsafe { Slab::of(frame).as_ref().class };
        // SAFETY: the frame is dead and has returned, so it belongs to the owner.
        unsafe {
            Header::freshen(frame, home);
            frame.as_ref().next.with_mut(|next| *next = self.free[class]);
        }
        self.free[class] = frame.as_ptr();
    }

    /// The number of frames on the free lists.
    fn count_free(&self) -> usize {
        let mut count = 0;
        for mut next in self.free {
            while let Some(frame) = NonNull::new(next) {
                count += 1;
                // SAFETY: a free frame belongs to the owner.
                next = unsafe { frame.as_ref().next.with(|next| *next) };
            }
        }
        count
    }

    /// The frames on the free lists.
    fn free_frames(&self) -> HashSet<NonNull<Header>> {
        let mut frames = HashSet::new();
        for mut next in self.free {
            while let Some(frame) = NonNull::new(next) {
                frames.insert(frame);
                // SAFETY: a free frame belongs to the owner.
                next = unsafe { frame.as_ref().next.with(|next| *next) };
            }
        }
        frames
    }

    /// Turns unused memory into a few free frames. They are few, so that pages are touched only as
    /// they are needed.
    fn carve(&mut self, arena: &Arena, class: usize) {
        const BATCH: usize = 16;
        let size = class_size(class);
        let mut fresh = self.fresh[class];
        if fresh.is_null() || room(fresh) < size {
            let slab = self.slabs.add(arena, class, arena.observer.get().is_some());
            // SAFETY: the header is smaller than the slab.
            fresh = unsafe { slab.as_ptr().cast::<u8>().add(SLAB_HEADER) };
        }
        let batch = (room(fresh) / size).min(BATCH);
        arena.allocated.add_many(batch as u64);
        for index in (0..batch).rev() {
            // SAFETY: `batch` frames fit into the slab.
            unsafe {
                let frame = fresh.add(index * size).cast::<Header>();
                let home = arena.home.get();
                frame.write(Header::new(State::new_parasite(), super::body::NONE, Kind::Parasite, home));
                self.put(NonNull::new_unchecked(frame), home);
            }
        }
        // SAFETY: `batch` frames fit into the slab, and frames never fill it to its last byte (see
        // `room`).
        self.fresh[class] = unsafe { fresh.add(batch * size) };
    }

    /// The number of bytes of a slab that hold frames, its header included.
    fn used(&self, slab: NonNull<Slab>) -> usize {
        // SAFETY: slabs live as long as the arena.
        let class = unsafe { slab.as_ref().class };
        Slab::used(slab, class, self.fresh[class])
    }

    fn born_in(&self, slab: NonNull<Slab>) -> isize {
        // SAFETY: slabs live as long as the arena.
        let class = unsafe { slab.as_ref().class };
        ((self.used(slab) - SLAB_HEADER) / class_size(class)) as isize
    }
}

/// No arena, and not null, which slabs say that tell of deaths first.
const NOBODYS: *const Arena = ptr::without_provenance(1);

thread_local! {
    /// The arena that this OS thread owns: that of the virtual processor that it drives.
    static OWN: std::cell::Cell<*const Arena> = const { std::cell::Cell::new(NOBODYS) };
}

/// The calling OS thread owns `arena` from now on, or none.
pub(crate) fn change_own(arena: Option<&Arena>) {
    OWN.set(arena.map_or(NOBODYS, ptr::from_ref));
}

/// Gives a dead frame back to its arena, from any OS thread.
///
/// # Safety
/// The frame is dead: the caller was told `Free` by its state word.
pub(crate) unsafe fn free(frame: NonNull<Header>) {
    // SAFETY: the frame lies in a slab; the slab names its arena, which lives
    // while frames are out.
    let arena = unsafe { Slab::of(frame).as_ref().arena };
    if ptr::eq(OWN.get(), arena) {
        // SAFETY: the current worker owns the arena; the frame is dead.
        unsafe { (*arena).put_back(frame) };
        return;
    }
    if arena.is_null() {
        // SAFETY: the caller was told `Free` by the frame's state word.
        return unsafe { free_written(frame) };
    }
    // SAFETY: the frame is dead, so nobody else uses its link; the arena lives while frames are
    // out. `come_home` is true once, when nothing is out and the owner is gone (INV-HOME).
    unsafe {
        frame.as_ref().state.clear();
        if (*arena).returns.push(frame).is_err() && (*arena).missing.come_home() {
            (*arena).demolish();
        }
    }
}

/// As [`free`], for a frame whose thread's end is recorded first.
///
/// # Safety
/// As for [`free`].
#[inline(never)]
unsafe fn free_written(frame: NonNull<Header>) {
    // SAFETY: the frame lies in a slab, which names its arena; that lives as long as a frame of it is in use. The
    // machine owns the observer.
    unsafe {
        let arena = Slab::of(frame).as_ref().owner;
        if let Some(observer) = (*arena).observer.get() {
            observer.as_ref().died(frame);
        }
        if ptr::eq(OWN.get(), arena) {
            return (*arena).put_back(frame);
        }
        frame.as_ref().state.clear();
        if (*arena).returns.push(frame).is_err() && (*arena).missing.come_home() {
            (*arena).demolish();
        }
    }
}

/// The observer of the frame's machine, if it has one.
///
/// # Safety
/// The caller keeps the frame, and so its machine.
pub(crate) unsafe fn observer_of<'a>(frame: NonNull<Header>) -> Option<&'a dyn Observer> {
    // SAFETY: the caller keeps the frame; the arena lives while frames are out, and the machine owns the observer.
    unsafe { (*Slab::of(frame).as_ref().owner).observer.get().map(|observer| observer.as_ref()) }
}

/// The number of the thread in this frame; 0 if it has none.
///
/// # Safety
/// The frame is of an arena that [tells](Arena::tell), and its slab lives.
pub(crate) unsafe fn number<'a>(frame: NonNull<Header>) -> &'a AtomicU64 {
    // SAFETY: the frame's slab lives, as the caller has promised.
    let slab = unsafe { Slab::of(frame).as_ref() };
    let offset = frame.as_ptr() as usize - ptr::from_ref(slab) as usize - SLAB_HEADER;
    &slab.numbers[offset / class_size(slab.class)]
}
