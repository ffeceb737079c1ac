//! Burials: what is left in a dead frame is dropped, on a stack of any size.
//!
//! A delayed thread may hold the last handle of another one, which holds that of the next; so may
//! the values of finished threads. Each deferred drop would be nested in the one before. So from a certain depth
//! on they are put off: the frame goes to a list of this OS thread, and the deepest deferred drop that is under way,
//! when it is through, takes one after the other from there. A deferred drop can wait, since what lies in a frame that
//! nobody refers to borrows from nobody. (The messages of a channel may borrow, so a chain of channels is as
//! deep as any other structure of the user's.)
//!
//! Who is about to wait for others first buries what was put off: they may wait for its end.

use std::cell::Cell;
use std::ptr::{self, NonNull};

use super::header::{self, Header};
use super::span;
use crate::sync::Linked;

/// How many deferred drops are nested. A chain of this length is dropped in the order of the language.
const DEEP: u32 = 16;

// Without destructors: threads may end in the destructors of the OS thread's own values.
thread_local! {
    /// How many deferred drops are under way on this stack. It may be too low for those that were
    /// interrupted by a wait: then a few more are nested. At DEEP one is under way that will look at `PUT_OFF`.
    static DEPTH: Cell<u32> = const { Cell::new(0) };
    /// The last of the list.
    static PUT_OFF: Cell<*mut Header> = const { Cell::new(ptr::null_mut()) };
}

/// Buries a frame in which something may be left, now or later.
///
/// # Safety
/// The frame is dead: the caller was told to free it. What is left in it may be dropped at any
/// time, on this OS thread.
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
    // SAFETY: the caller's contract.
    unsafe { bury_now(frame) };
    if depth + 1 == DEEP {
        bury_put_off();
    }
}

/// # Safety
/// As for [`drop_frame`].
#[inline(always)]
pub(crate) unsafe fn bury_now(frame: NonNull<Header>) {
    // SAFETY: the caller's contract: nobody else refers to the frame.
    unsafe {
        span::within(frame, || (frame.as_ref().vtable.get().drop_frame)(frame));
        span::close(frame);
        header::free(frame);
    }
}

#[cold]
fn bury_put_off() {
    while let Some(frame) = NonNull::new(PUT_OFF.get()) {
        // SAFETY: what is in the list is dead, and ours.
        unsafe {
            PUT_OFF.set(frame.as_ref().link().with(|next| *next));
            bury_now(frame);
        }
    }
}

/// The caller is about to wait, perhaps for what was put off.
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
    // What runs meanwhile nests anew, perhaps on another stack.
    DEPTH.set(0);
}

/// Restores the depth.
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
