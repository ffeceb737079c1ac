//! Slabs, the memory that frames are allocated from, and the size classes of frames.
//!
//! A slab holds frames of one size class and is aligned to its size, so that a frame's address says
//! where its slab begins. The first slabs of an arena are allocated one by one. An arena that has
//! grown asks for huge pages of several slabs each. The first touch of small pages was half the
//! cost of a million threads spawned at once. So such an arena may hold 2 MiB that it does not use.

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::ptr::{self, NonNull};

use super::arena::Arena;
use super::header::Header;
use crate::sync::atomic::AtomicU64;

const SLAB: usize = 256 * 1024;
/// The bytes of a slab before its first frame.
pub(super) const SLAB_HEADER: usize = 64;
/// The number of bytes of a slab that frames may use. A few bytes are spared, so that the end of
/// the frames of a full slab still lies inside it.
const SLAB_CAPACITY: usize = SLAB - SLAB_HEADER - 32;
/// The size of a huge page in bytes.
const HUGE: usize = 8 * SLAB;
/// The number of slabs from which on an arena counts as grown.
const FEW: usize = 8;

/// The size in bytes of the largest frame. A body that needs a larger one is boxed.
pub(crate) const LARGEST: usize = 2048;
/// The alignment of every frame in bytes.
pub(crate) const ALIGN: usize = 16;
/// The size in bytes above which frames get whole cache lines. Otherwise two threads that were
/// spawned side by side, and run on two processors, would take a line from each other with every
/// turn. Eight such pairs of parasites took 1.6 times the processor time when they were packed at
/// 160 bytes. Threads with smaller frames have little state of their own.
const SMALL: usize = 128;
const LINE: usize = 64;
const MIDDLE: usize = 512;
const STEP: usize = 256;

/// The numbers of size classes up to [`SMALL`], up to [`MIDDLE`], and in all.
const SMALL_CLASSES: usize = SMALL / ALIGN;
const MIDDLE_CLASSES: usize = SMALL_CLASSES + (MIDDLE - SMALL) / LINE;
pub(super) const CLASSES: usize = MIDDLE_CLASSES + (LARGEST - MIDDLE) / STEP;

/// The size class for a frame of `size` bytes. Classes are [`ALIGN`] bytes apart up to [`SMALL`], a
/// cache line up to [`MIDDLE`], and then [`STEP`] bytes.
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

/// The header of a slab.
#[repr(C)]
pub(super) struct Slab {
    /// The arena that its frames return to; null if their threads' ends must be recorded first.
    pub(super) arena: *const Arena,
    pub(super) owner: *const Arena,
    pub(super) class: usize,
    /// The numbers of the threads in its frames, 0 for none. Empty if no genealogy is kept.
    pub(super) numbers: Box<[AtomicU64]>,
}

/// The slabs of an arena.
#[derive(Default)]
pub(super) struct Slabs {
    all: Vec<NonNull<Slab>>,
    /// The allocations of the slabs, each with its layout.
    allocated: Vec<(NonNull<u8>, Layout)>,
    /// The number of bytes at the end of the newest allocation that no slab uses yet.
    spare: usize,
}

impl Slabs {
    pub(super) fn get(&self, index: usize) -> Option<NonNull<Slab>> {
        self.all.get(index).copied()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = NonNull<Slab>> {
        self.all.iter().copied()
    }

    /// Adds a slab for frames of a class, which return to `arena`. `is_told`: their genealogy is
    /// kept.
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
        // SAFETY: the last `spare` bytes of that memory are unused.
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
    /// No frame of these slabs, nor any other pointer into them, is used any more.
    pub(super) unsafe fn free(self) {
        for slab in self.all {
            // SAFETY: the slab was written in `add`, and is dropped once.
            unsafe { slab.drop_in_place() };
        }
        for (memory, layout) in self.allocated {
            // SAFETY: the memory was allocated in `add`, with this layout.
            unsafe { dealloc(memory.as_ptr(), layout) };
        }
    }
}

/// Asks the system for one huge page instead of 512 small ones. The system may refuse.
fn advise_huge(memory: NonNull<u8>) {
    #[cfg(all(target_os = "linux", not(miri)))]
    // SAFETY: the memory is ours and aligned to pages, and its content does not change.
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

    /// The number of bytes of a slab that hold frames, its header included. `fresh` is the
    /// beginning of the unused memory of the slab's class.
    pub(super) fn used(slab: NonNull<Self>, class: usize, fresh: *mut u8) -> usize {
        let (start, fresh) = (slab.as_ptr() as usize, fresh as usize);
        if (start..start + SLAB).contains(&fresh) {
            return fresh - start;
        }
        SLAB_HEADER + (SLAB_CAPACITY / class_size(class)) * class_size(class)
    }
}

/// The number of bytes left in the slab that `fresh` points into. Frames never fill a slab to its
/// last byte, so `fresh` never points past it.
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
            // SAFETY: the slab is new, so nobody else uses it.
            unsafe { slab.cast::<u8>().add(SLAB_HEADER).write_bytes(0xAA, SLAB_CAPACITY) };
            let at = slab.as_ptr() as usize;
            assert_eq!(at % SLAB, 0);
            assert!(index < FEW || index % FEW == 0 || at == last + SLAB);
            last = at;
        }
        assert_eq!(slabs.allocated.len(), FEW + 2);
        assert_eq!(slabs.iter().count(), 3 * FEW);
        // SAFETY: no pointer into the slabs is used any more.
        unsafe { slabs.free() };
    }
}
