//! A queue of ready threads that allocates nothing.

use std::fmt;
use std::mem::ManuallyDrop;
use std::ptr::{self, NonNull};

use super::{Policy, Ready, Reason};
use crate::sync::Linked;
use crate::thread::frame::Header;
use crate::vp::Vp;

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

impl ReadyQueue {
    /// Appends all of `other`'s threads, in order.
    pub fn append(&mut self, other: &mut Self) {
        let Some(first) = NonNull::new(std::mem::replace(&mut other.head, ptr::null_mut())) else { return };
        match NonNull::new(self.tail) {
            // SAFETY: as in `push_back`.
            Some(tail) => unsafe { tail.as_ref().link().with_mut(|link| *link = first.as_ptr()) },
            None => self.head = first.as_ptr(),
        }
        self.tail = std::mem::replace(&mut other.tail, ptr::null_mut());
        self.len += std::mem::take(&mut other.len);
    }

    /// Takes the first thread of which `is_wanted` says so; all others stay in
    /// order. Takes time in the number of those before it.
    pub fn take_first(&mut self, mut is_wanted: impl FnMut(&Ready) -> bool) -> Option<Ready> {
        let mut before: *mut Header = ptr::null_mut();
        let mut at = self.head;
        while let Some(frame) = NonNull::new(at) {
            // SAFETY: as in `push_back`; the queue keeps the token meanwhile.
            let thread = ManuallyDrop::new(unsafe { Ready::from_frame(frame) });
            // SAFETY: as in `push_back`.
            let next = unsafe { frame.as_ref().link().with(|link| *link) };
            if is_wanted(&thread) {
                match NonNull::new(before) {
                    // SAFETY: as in `push_back`.
                    Some(before) => unsafe { before.as_ref().link().with_mut(|link| *link = next) },
                    None => self.head = next,
                }
                if self.tail == at {
                    self.tail = before;
                }
                self.len -= 1;
                return Some(ManuallyDrop::into_inner(thread));
            }
            before = at;
            at = next;
        }
        None
    }
}

impl Extend<Ready> for ReadyQueue {
    fn extend<I: IntoIterator<Item = Ready>>(&mut self, threads: I) {
        threads.into_iter().for_each(|thread| self.push_back(thread));
    }
}

/// At most this many threads move at a time: the victim is locked meanwhile.
pub(super) const MOST_STOLEN: usize = 32;

impl ReadyQueue {
    /// Steals what is in the queue for `thief`: the first thread, to be run at
    /// once, is returned, the others are its to schedule.
    pub(super) fn move_to(mut self, thief: &dyn Policy) -> Option<Ready> {
        let first = self.pop_front();
        while let Some(thread) = self.pop_front() {
            if let Some(unwanted) = thief.enqueue(thread, Reason::Stolen) {
                Vp::send_home(unwanted);
            }
        }
        first
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
