//! A cache of the memory of channels that are gone, for the next ones.
//!
//! Many channels carry one answer. The cost of such a channel is mostly its memory. So a virtual processor keeps the
//! blocks of some channels that ended there.

use std::alloc::{Layout, dealloc};
use std::cell::Cell;
use std::ptr::{self, NonNull};

use super::limits::CHANNELS_KEPT;

/// The cache of a virtual processor. Only the worker that runs the processor uses it.
pub(crate) struct ChannelCache {
    /// That of the blocks.
    layout: Layout,
    first: Cell<*mut Spare>,
    kept: Cell<u32>,
}

/// The content of a block while it is in the cache.
struct Spare {
    next: *mut Spare,
}

impl ChannelCache {
    /// One for blocks of that layout.
    pub(crate) fn new(layout: Layout) -> Self {
        assert!(size_of::<Spare>() <= layout.size() && align_of::<Spare>() <= layout.align());
        Self { layout, first: Cell::new(ptr::null_mut()), kept: Cell::new(0) }
    }

    /// The layout of the blocks.
    pub(crate) fn layout(&self) -> Layout {
        self.layout
    }

    /// Takes a block out of the cache.
    #[inline(always)]
    pub(crate) fn take(&self) -> Option<NonNull<u8>> {
        let spare = NonNull::new(self.first.get())?;
        // SAFETY: `keep` wrote the block, and the cache owns it.
        let Spare { next } = unsafe { spare.read() };
        self.first.set(next);
        self.kept.set(self.kept.get() - 1);
        Some(spare.cast())
    }

    /// Takes a block; false: it is the caller's still.
    ///
    /// # Safety
    /// The block was made by `Box` with the cache's layout, and is the caller's. Nothing in it has to be dropped.
    #[inline(always)]
    pub(crate) unsafe fn keep(&self, block: NonNull<u8>) -> bool {
        if self.kept.get() == CHANNELS_KEPT {
            return false;
        }
        let spare = block.cast::<Spare>();
        // SAFETY: the block is as large as a `Core`, so a `Spare` fits, and it belongs to the caller.
        unsafe { spare.write(Spare { next: self.first.get() }) };
        self.first.set(spare.as_ptr());
        self.kept.set(self.kept.get() + 1);
        true
    }

    /// Frees all blocks.
    pub(crate) fn shrink(&self) {
        while let Some(block) = self.take() {
            // SAFETY: the block was made by `Box`, with this layout, and the cache owned it.
            unsafe { dealloc(block.as_ptr(), self.layout) };
        }
    }
}

impl Drop for ChannelCache {
    fn drop(&mut self) {
        self.shrink();
    }
}
