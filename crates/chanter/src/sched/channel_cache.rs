//! A cache of the memory of channels that are gone, for the next ones.
//!
//! Many channels carry one answer. The cost of such a channel is mostly its memory, and a lock that is new each time,
//! so it never earns a bias ([`BiasedLock`](crate::sync::BiasedLock)). So a virtual processor keeps the blocks of
//! some channels that ended there, together with the history of their locks.

use std::alloc::{Layout, dealloc};
use std::cell::Cell;
use std::ptr::{self, NonNull};

use super::limits::{BIAS_PRICE, CHANNELS_KEPT};
use crate::sync::History;
use crate::sync::switches::BIAS_HISTORY;

/// The cache of a virtual processor. Only the worker that runs the processor uses it.
pub(crate) struct ChannelCache {
    /// That of the blocks.
    layout: Layout,
    first: Cell<*mut Spare>,
    kept: Cell<u32>,
    /// The number of channels that were made here, less `BIAS_PRICE` for each bias that was revoked. It is at most
    /// `BIAS_PRICE`.
    credit: Cell<i32>,
    /// The number of revoked biases at the last look.
    revoked: Cell<u32>,
}

/// The content of a block while it is in the cache.
struct Spare {
    next: *mut Spare,
    history: History,
}

impl ChannelCache {
    /// One for blocks of that layout.
    pub(crate) fn new(layout: Layout) -> Self {
        assert!(size_of::<Spare>() <= layout.size() && align_of::<Spare>() <= layout.align());
        Self {
            layout,
            first: Cell::new(ptr::null_mut()),
            kept: Cell::new(0),
            credit: Cell::new(BIAS_PRICE),
            revoked: Cell::new(0),
        }
    }

    /// The layout of the blocks.
    pub(crate) fn layout(&self) -> Layout {
        self.layout
    }

    /// A block, and what its lock may take over. The worker is the OS thread `me`; `revoked` is the number of its
    /// biases that have been revoked.
    #[inline(always)]
    pub(crate) fn take(&self, me: u32, revoked: u32) -> Option<(NonNull<u8>, History)> {
        let (block, history) = self.take_any()?;
        let is_dear =
            (revoked != self.revoked.get() || self.credit.get() != BIAS_PRICE) && self.charge(revoked);
        Some((block, if is_dear || !BIAS_HISTORY { History::NONE } else { history.if_of(me) }))
    }

    /// Called when another OS thread begins to run the processor. `revoked` is the number of its biases that were
    /// revoked before.
    pub(crate) fn begin(&self, revoked: u32) {
        self.revoked.set(revoked);
    }

    /// Counts one more channel, and the biases that have been revoked. Returns true if those are too many.
    #[cold]
    fn charge(&self, revoked: u32) -> bool {
        let lost = revoked.wrapping_sub(self.revoked.replace(revoked)).min(10) as i32;
        self.credit.set((self.credit.get() + 1 - lost * BIAS_PRICE).clamp(-10 * BIAS_PRICE, BIAS_PRICE));
        self.credit.get() < 0
    }

    #[inline(always)]
    fn take_any(&self) -> Option<(NonNull<u8>, History)> {
        let spare = NonNull::new(self.first.get())?;
        // SAFETY: `keep` wrote the block, and the cache owns it.
        let Spare { next, history } = unsafe { spare.read() };
        self.first.set(next);
        self.kept.set(self.kept.get() - 1);
        Some((spare.cast(), history))
    }

    /// Takes a block; false: it is the caller's still.
    ///
    /// # Safety
    /// The block was made by `Box` with the cache's layout, and is the caller's. Nothing in it has to be dropped.
    #[inline(always)]
    pub(crate) unsafe fn keep(&self, block: NonNull<u8>, history: History) -> bool {
        if self.kept.get() == CHANNELS_KEPT {
            return false;
        }
        let spare = block.cast::<Spare>();
        // SAFETY: the block is as large as a `Core`, so a `Spare` fits, and it belongs to the caller.
        unsafe { spare.write(Spare { next: self.first.get(), history }) };
        self.first.set(spare.as_ptr());
        self.kept.set(self.kept.get() + 1);
        true
    }

    /// Frees all blocks.
    pub(crate) fn shrink(&self) {
        while let Some((block, _)) = self.take_any() {
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
