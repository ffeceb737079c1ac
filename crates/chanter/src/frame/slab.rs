//! Slabs: the memory that frames are cut from, and the sizes of these.
//!
//! A slab holds frames of one size class and is aligned to its size, so that a frame's address says where its slab
//! begins. The first slabs of an arena are allocated one by one; an arena that has grown asks for huge pages, several slabs each:
//! to touch small ones for the first time was half of what a million threads cost that are spawned at once. So such an arena may have 2 MiB
//! that it does not use.

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::ptr::{self, NonNull};

use super::header::{Arena, Header};
use crate::sync::atomic::AtomicU64;

const SLAB: usize = 256 * 1024;
/// The bytes of a slab before its first frame.
pub(super) const SLAB_HEADER: usize = 64;
/// What frames may use of a slab; a little is left so that a full slab's end
/// still lies inside it.
const SLAB_CAPACITY: usize = SLAB - SLAB_HEADER - 32;
/// A huge page.
const HUGE: usize = 8 * SLAB;
/// An arena with so many slabs has grown.
const FEW: usize = 8;

/// The largest body that a frame holds; larger ones are boxed.
pub(crate) const LARGEST: usize = 2048;
/// The alignment of every frame.
pub(crate) const ALIGN: usize = 16;
/// Frames of more bytes than these have whole cache lines for themselves: two threads that have parted, and run on two
/// processors, would take a line from each other with every turn. (Eight pairs of parasites that had parted took 1.6 times the
/// processor's time, packed at 160 bytes.) Smaller ones are those of threads that have nothing to keep.
const SMALL: usize = 128;
const LINE: usize = 64;
const MIDDLE: usize = 512;
const STEP: usize = 256;

/// The classes up to [`SMALL`] and [`MIDDLE`], and all of them.
const SMALL_CLASSES: usize = SMALL / ALIGN;
const MIDDLE_CLASSES: usize = SMALL_CLASSES + (MIDDLE - SMALL) / LINE;
pub(super) const CLASSES: usize = MIDDLE_CLASSES + (LARGEST - MIDDLE) / STEP;

/// The size class for a frame of `size` bytes: steps of [`ALIGN`] up to [`SMALL`], of a cache line up to [`MIDDLE`], then of [`STEP`].
pub(crate) const fn class_of(size: usize) -> usize {
    if size <= SMALL {
        size.div_ceil(ALIGN) - 1
    } else if size <= MIDDLE {
        SMALL_CLASSES - 1 + (size - SMALL).div_ceil(LINE)
    } else {
        MIDDLE_CLASSES - 1 + (size - MIDDLE).div_ceil(STEP)
    }
}

pub(super) const fn class_size(class: usize) -> usize {
    if class < SMALL_CLASSES {
        (class + 1) * ALIGN
    } else if class < MIDDLE_CLASSES {
        SMALL + (class + 1 - SMALL_CLASSES) * LINE
    } else {
        MIDDLE + (class + 1 - MIDDLE_CLASSES) * STEP
    }
}

/// What a slab begins with.
#[repr(C)]
pub(super) struct Slab {
    /// Where its frames go when they die; null if that is written down first.
    pub(super) arena: *const Arena,
    pub(super) owner: *const Arena,
    pub(super) class: usize,
    /// The numbers of the threads in its frames, 0 for none, if their genealogy
    /// is kept.
    pub(super) numbers: Box<[AtomicU64]>,
}

/// The slabs of an arena.
#[derive(Default)]
pub(super) struct Slabs {
    all: Vec<NonNull<Slab>>,
    /// Their memory, and how much each has.
    allocated: Vec<(NonNull<u8>, Layout)>,
    /// The end of the newest huge page that no slab has: so many bytes, counted from its end.
    spare: usize,
}

impl Slabs {
    pub(super) fn get(&self, index: usize) -> Option<NonNull<Slab>> {
        self.all.get(index).copied()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = NonNull<Slab>> {
        self.all.iter().copied()
    }

    /// A new one for frames of that class, which come home to `arena`.
    pub(super) fn add(&mut self, arena: &Arena, class: usize, is_told: bool) -> NonNull<Slab> {
        if self.spare == 0 {
            let size = if self.all.len() < FEW { SLAB } else { HUGE };
            let layout = Layout::from_size_align(size, size).expect("a power of two");
            // SAFETY: the layout is not empty.
            let Some(memory) = NonNull::new(unsafe { alloc(layout) }) else { handle_alloc_error(layout) };
            if size == HUGE {
                advise_huge(memory);
            }
            self.allocated.push((memory, layout));
            self.spare = size;
        }
        let (memory, layout) = self.allocated[self.allocated.len() - 1];
        // SAFETY: `spare` bytes at the end of that memory are nobody's yet.
        let slab = unsafe { memory.add(layout.size() - self.spare) }.cast::<Slab>();
        self.spare -= SLAB;
        let frames = if is_told { SLAB_CAPACITY / class_size(class) } else { 0 };
        let numbers = (0..frames).map(|_| AtomicU64::new(0)).collect();
        let home = if is_told { ptr::null() } else { ptr::from_ref(arena) };
        const { assert!(size_of::<Slab>() <= SLAB_HEADER) };
        // SAFETY: the slab is ours, and large enough.
        unsafe { slab.write(Slab { arena: home, owner: arena, class, numbers }) };
        self.all.push(slab);
        slab
    }

    /// # Safety
    /// No frame in them is used any more, nor is anything that has come from them.
    pub(super) unsafe fn free(self) {
        for slab in self.all {
            // SAFETY: written in `add`.
            unsafe { slab.drop_in_place() };
        }
        for (memory, layout) in self.allocated {
            // SAFETY: allocated in `add`, with this layout.
            unsafe { dealloc(memory.as_ptr(), layout) };
        }
    }
}

/// Asks the system for one page in place of 512: it may say no.
fn advise_huge(memory: NonNull<u8>) {
    #[cfg(all(target_os = "linux", not(miri)))]
    // SAFETY: our own memory, which is aligned to pages; what it holds stays.
    unsafe {
        libc::madvise(memory.as_ptr().cast(), HUGE, libc::MADV_HUGEPAGE);
    }
    #[cfg(not(all(target_os = "linux", not(miri))))]
    let _ = memory;
}

impl Slab {
    /// The slab that the frame lies in.
    pub(super) fn of(frame: NonNull<Header>) -> NonNull<Self> {
        let slab = frame.as_ptr().map_addr(|address| address & !(SLAB - 1));
        // SAFETY: a slab's address is not null.
        unsafe { NonNull::new_unchecked(slab.cast()) }
    }

    /// Bytes of a slab that hold frames of that class, its header included, if `fresh` is where memory of the class that was never used begins.
    pub(super) fn used(slab: NonNull<Self>, class: usize, fresh: *mut u8) -> usize {
        let (start, fresh) = (slab.as_ptr() as usize, fresh as usize);
        if (start..start + SLAB).contains(&fresh) {
            return fresh - start;
        }
        SLAB_HEADER + (SLAB_CAPACITY / class_size(class)) * class_size(class)
    }
}

/// Bytes left in the slab that `fresh` points into. Frames never fill a slab
/// to its last byte, so `fresh` never points past it.
pub(super) fn room(fresh: *mut u8) -> usize {
    let offset = fresh as usize & (SLAB - 1);
    (SLAB_HEADER + SLAB_CAPACITY).saturating_sub(offset)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn frames_have_room_and_larger_ones_have_lines_of_their_own() {
        for size in 1..=LARGEST {
            let got = class_size(class_of(size));
            assert!(got >= size && got < size + STEP, "{size}: {got}");
            assert!(size <= SMALL || got.is_multiple_of(LINE), "{size}: {got}");
            assert!(class_of(size) < CLASSES);
        }
        assert_eq!(class_size(CLASSES - 1), LARGEST);
    }

    #[test]
    fn an_arena_that_has_grown_takes_several_slabs_at_once() {
        let (arena, mut slabs) = (Arena::new(), Slabs::default());
        let mut last = 0;
        for index in 0..3 * FEW {
            let slab = slabs.add(&arena, index % CLASSES, index % 2 == 1);
            // SAFETY: all of it is ours.
            unsafe { slab.cast::<u8>().add(SLAB_HEADER).write_bytes(0xAA, SLAB_CAPACITY) };
            let at = slab.as_ptr() as usize;
            assert_eq!(at % SLAB, 0);
            assert!(index < FEW || index % FEW == 0 || at == last + SLAB);
            last = at;
        }
        assert_eq!(slabs.allocated.len(), FEW + 2);
        assert_eq!(slabs.iter().count(), 3 * FEW);
        // SAFETY: nobody has anything from them.
        unsafe { slabs.free() };
    }
}
