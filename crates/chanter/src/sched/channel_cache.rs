//! The memory of channels that are gone, for the next ones.
//!
//! Many channels carry one answer. What such a channel costs is mostly its
//! memory, and a lock that is new each time, so that it never earns a bias
//! ([`BiasedLock`](crate::sync::BiasedLock)). So a virtual processor keeps the
//! blocks of some channels that ended there, together with what their locks
//! have earned.

use std::alloc::{Layout, dealloc};
use std::cell::Cell;
use std::ptr::{self, NonNull};

use crate::sync::History;

/// So many are kept.
const MOST: u32 = 1024;
/// Channels that are worth a revoked bias, with what their locks cost without one. No lock takes anything over while
/// biases of the driver's (of whatever locks) have been revoked more often than that.
const PRICE: i32 = 200;

/// The driver's, of a virtual processor.
pub(crate) struct ChannelCache {
    /// That of the blocks.
    layout: Layout,
    first: Cell<*mut Spare>,
    kept: Cell<u32>,
    /// Channels that were made here, less the price of biases that were revoked; at most one price.
    credit: Cell<i32>,
    /// How many had been revoked at the last look.
    revoked: Cell<u32>,
}

/// What is in a block meanwhile.
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
            credit: Cell::new(PRICE),
            revoked: Cell::new(0),
        }
    }

    /// The layout of the blocks.
    pub(crate) fn layout(&self) -> Layout {
        self.layout
    }

    /// A block, and what its lock may take over. The driver is the OS thread `me`, of whose biases so many
    /// have been `revoked`.
    #[inline(always)]
    pub(crate) fn take(&self, me: u32, revoked: u32) -> Option<(NonNull<u8>, History)> {
        let (block, history) = self.take_any()?;
        let is_dear = (revoked != self.revoked.get() || self.credit.get() != PRICE) && self.charge(revoked);
        Some((block, if is_dear { History::NONE } else { history.if_of(me) }))
    }

    /// Another OS thread is the driver: so many of its biases have been `revoked` before.
    pub(crate) fn begin(&self, revoked: u32) {
        self.revoked.set(revoked);
    }

    /// Counts one more channel, and what has been revoked. True: that is too much.
    #[cold]
    fn charge(&self, revoked: u32) -> bool {
        let lost = revoked.wrapping_sub(self.revoked.replace(revoked)).min(10) as i32;
        self.credit.set((self.credit.get() + 1 - lost * PRICE).clamp(-10 * PRICE, PRICE));
        self.credit.get() < 0
    }

    #[inline(always)]
    fn take_any(&self) -> Option<(NonNull<u8>, History)> {
        let spare = NonNull::new(self.first.get())?;
        // SAFETY: written by `keep`, and nobody else has it.
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
        if self.kept.get() == MOST {
            return false;
        }
        let spare = block.cast::<Spare>();
        // SAFETY: the block is large enough, and the caller's.
        unsafe { spare.write(Spare { next: self.first.get(), history }) };
        self.first.set(spare.as_ptr());
        self.kept.set(self.kept.get() + 1);
        true
    }

    /// Frees them all.
    pub(crate) fn shrink(&self) {
        while let Some((block, _)) = self.take_any() {
            // SAFETY: made by `Box`, with this layout.
            unsafe { dealloc(block.as_ptr(), self.layout) };
        }
    }
}

impl Drop for ChannelCache {
    fn drop(&mut self) {
        self.shrink();
    }
}
