//! A queue of ready threads that allocates nothing.

use std::fmt;
use std::ptr::{self, NonNull};

use super::Ready;
use crate::sync::Linked;
use crate::thread::frame::Header;

/// A first-in first-out queue of ready threads; pushing to the front makes it
/// a stack. The links are inside the threads, so it never allocates.
pub struct ReadyQueue {
    head: *mut Header,
    tail: *mut Header,
    len: usize,
}

// SAFETY: it owns tokens, which are `Send`.
unsafe impl Send for ReadyQueue {}
// SAFETY: shared, it only tells its length.
unsafe impl Sync for ReadyQueue {}

impl ReadyQueue {
    /// An empty queue.
    pub const fn new() -> Self {
        Self { head: ptr::null_mut(), tail: ptr::null_mut(), len: 0 }
    }

    /// How many threads are in it.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it is empty.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Appends a thread.
    #[inline]
    pub fn push_back(&mut self, thread: Ready) {
        let frame = thread.into_frame();
        // SAFETY: the queue owns the tokens, hence the links, of its threads.
        unsafe {
            frame.as_ref().link().with_mut(|link| *link = ptr::null_mut());
            match NonNull::new(self.tail) {
                Some(tail) => tail.as_ref().link().with_mut(|link| *link = frame.as_ptr()),
                None => self.head = frame.as_ptr(),
            }
        }
        self.tail = frame.as_ptr();
        self.len += 1;
    }

    /// Puts a thread before all others.
    #[inline]
    pub fn push_front(&mut self, thread: Ready) {
        let frame = thread.into_frame();
        // SAFETY: as in `push_back`.
        unsafe { frame.as_ref().link().with_mut(|link| *link = self.head) };
        if self.head.is_null() {
            self.tail = frame.as_ptr();
        }
        self.head = frame.as_ptr();
        self.len += 1;
    }

    /// Takes the first thread.
    #[inline]
    pub fn pop_front(&mut self) -> Option<Ready> {
        let frame = NonNull::new(self.head)?;
        // SAFETY: as in `push_back`; the token is handed out.
        let thread = unsafe {
            self.head = frame.as_ref().link().with(|link| *link);
            Ready::from_frame(frame)
        };
        if self.head.is_null() {
            self.tail = ptr::null_mut();
        }
        self.len -= 1;
        Some(thread)
    }
}

impl Default for ReadyQueue {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for ReadyQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReadyQueue").field("len", &self.len).finish_non_exhaustive()
    }
}

impl Drop for ReadyQueue {
    fn drop(&mut self) {
        while let Some(thread) = self.pop_front() {
            drop(thread);
        }
    }
}
