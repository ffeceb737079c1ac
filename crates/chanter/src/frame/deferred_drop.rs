//! Deferred drops: the content of a dead frame is dropped in bounded stack.
//!
//! A delayed thread may hold the last handle of another one, which holds that of the next; so may
//! the values of finished threads. Each drop would be nested in the one before. So from a certain
//! depth on drops are deferred: the frame goes to a list of this OS thread. The deepest drop that
//! is under way empties this list when it is done. A drop can wait, because the content of a frame
//! that nobody refers to borrows from nobody. (The messages of a channel may borrow, so a chain of
//! channels is as deep as any other structure of the user's.)
//!
//! A caller that is about to wait for others first performs the deferred drops, since the others
//! may wait for them.

use std::cell::Cell;
use std::ptr::{self, NonNull};

use super::arena;
use super::header::Header;
use super::span;
use crate::sync::Linked;

/// The number of drops that may nest. A chain of at most this length is dropped in the order of the
/// language.
const DEEP: u32 = 16;

// These have no destructors, because threads may end in the destructors of other thread-locals.
thread_local! {
    /// The number of drops under way on this stack. It may be too low after a wait has interrupted
    /// some: then a few more nest. At DEEP one is under way that will look at `PUT_OFF`.
    static DEPTH: Cell<u32> = const { Cell::new(0) };
    /// The frame that was deferred last: the head of the list.
    static PUT_OFF: Cell<*mut Header> = const { Cell::new(ptr::null_mut()) };
}

/// Drops the content of a dead frame and frees it, now or later.
///
/// # Safety
/// The frame is dead: the caller was told to free it. Its content may be dropped at any time, on
/// this OS thread.
#[inline(never)]
pub(crate) unsafe fn drop_frame(frame: NonNull<Header>) {
    let depth = DEPTH.get();
    if depth == DEEP {
        // SAFETY: a dead frame is in no other list.
        unsafe { frame.as_ref().link().with_mut(|next| *next = PUT_OFF.get()) };
        PUT_OFF.set(frame.as_ptr());
        return;
    }
    let _nested = Nested::new(depth + 1);
    // SAFETY: the frame is dead, and its content may be dropped now, as the caller has promised.
    unsafe { bury_now(frame) };
    if depth + 1 == DEEP {
        bury_put_off();
    }
}

/// # Safety
/// As for [`drop_frame`].
#[inline(always)]
pub(crate) unsafe fn bury_now(frame: NonNull<Header>) {
    // SAFETY: the frame is dead, so nobody else refers to it.
    unsafe {
        span::within(frame, || (frame.as_ref().vtable.get().drop_frame)(frame));
        span::close(frame);
        arena::free(frame);
    }
}

#[cold]
fn bury_put_off() {
    while let Some(frame) = NonNull::new(PUT_OFF.get()) {
        // SAFETY: each frame in the list is dead, and no other list or OS thread has it.
        unsafe {
            PUT_OFF.set(frame.as_ref().link().with(|next| *next));
            bury_now(frame);
        }
    }
}

/// Performs the deferred drops: the caller is about to wait, perhaps for one of them.
#[inline(always)]
pub(crate) fn before_a_wait() {
    if DEPTH.get() > 0 {
        finish();
    }
}

#[cold]
fn finish() {
    {
        let _nested = Nested::new(DEEP);
        bury_put_off();
    }
    // Code that runs during the wait counts from zero, perhaps on another stack.
    DEPTH.set(0);
}

/// Restores the depth when it is dropped.
struct Nested {
    outer: u32,
}

impl Nested {
    fn new(depth: u32) -> Self {
        Self { outer: DEPTH.replace(depth) }
    }
}

impl Drop for Nested {
    fn drop(&mut self) {
        DEPTH.set(self.outer);
    }
}
