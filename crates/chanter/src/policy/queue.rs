//! A queue of ready threads that allocates nothing.

use std::fmt;
use std::mem::{ManuallyDrop, replace, take};
use std::ptr::{self, NonNull};

use super::{Policy, Ready, Reason};
use crate::frame::{Header, scheduler};
use crate::sync::Linked;

/// A first-in first-out queue of ready threads. Pushing to the front makes it a stack. The links are inside the
/// threads, so it never allocates.
///
/// A thread has room for one link, and threads are taken at both ends of the queue. So the link is the exclusive or
/// of the addresses of its two neighbours. A walk that comes from one neighbour finds the other.
pub struct ReadyQueue {
    head: *mut Header,
    tail: *mut Header,
    len: usize,
}

// SAFETY: it owns tokens, which are `Send`.
unsafe impl Send for ReadyQueue {}
// SAFETY: shared, it only tells its length.
unsafe impl Sync for ReadyQueue {}

/// The link of a frame between two others, either of which may be none. Each of them can be computed from the link
/// and the other.
fn between(one: *mut Header, other: *mut Header) -> *mut Header {
    ptr::without_provenance_mut(one.expose_provenance() ^ other.expose_provenance())
}

/// The neighbour of `frame` that is not `other`; null, if there is none.
///
/// # Safety
/// The frame is in a queue of the caller's, beside `other`; if `other` is null, it is at an end.
unsafe fn beside(frame: NonNull<Header>, other: *mut Header) -> *mut Header {
    // SAFETY: the caller guarantees that the frame is in its queue, which owns the token, hence the link.
    let link = unsafe { frame.as_ref().link().with(|link| *link) };
    ptr::with_exposed_provenance_mut(link.addr() ^ other.addr())
}

/// Replaces the neighbour `before` of the frame by `after`; either may be null.
///
/// # Safety
/// The frame is in a queue of the caller's, beside `before`.
unsafe fn relink(frame: NonNull<Header>, before: *mut Header, after: *mut Header) {
    let change = before.expose_provenance() ^ after.expose_provenance();
    // SAFETY: the caller guarantees that the frame is in its queue, which owns the token, hence the link.
    unsafe {
        let link = frame.as_ref().link();
        link.with_mut(|link| *link = ptr::without_provenance_mut((*link).addr() ^ change));
    }
}

impl ReadyQueue {
    /// An empty queue.
    pub const fn new() -> Self {
        Self { head: ptr::null_mut(), tail: ptr::null_mut(), len: 0 }
    }

    /// Number of threads in the queue.
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
        let before = replace(&mut self.tail, frame.as_ptr());
        // SAFETY: the queue owns the tokens, hence the links, of its threads.
        unsafe {
            frame.as_ref().link().with_mut(|link| *link = between(before, ptr::null_mut()));
            match NonNull::new(before) {
                Some(before) => relink(before, ptr::null_mut(), frame.as_ptr()),
                None => self.head = frame.as_ptr(),
            }
        }
        self.len += 1;
    }

    /// Puts a thread before all others.
    #[inline]
    pub fn push_front(&mut self, thread: Ready) {
        let frame = thread.into_frame();
        let after = replace(&mut self.head, frame.as_ptr());
        // SAFETY: the queue owns the tokens, hence the links, of its threads.
        unsafe {
            frame.as_ref().link().with_mut(|link| *link = between(after, ptr::null_mut()));
            match NonNull::new(after) {
                Some(after) => relink(after, ptr::null_mut(), frame.as_ptr()),
                None => self.tail = frame.as_ptr(),
            }
        }
        self.len += 1;
    }

    /// Takes the first thread.
    #[inline]
    pub fn pop_front(&mut self) -> Option<Ready> {
        let frame = NonNull::new(self.head)?;
        // SAFETY: the queue owns the tokens, hence the links, of its threads; the token of this one is handed out.
        unsafe {
            self.head = beside(frame, ptr::null_mut());
            match NonNull::new(self.head) {
                Some(after) => relink(after, frame.as_ptr(), ptr::null_mut()),
                None => self.tail = ptr::null_mut(),
            }
            self.len -= 1;
            Some(Ready::from_frame(frame))
        }
    }

    /// Takes the last thread.
    #[inline]
    pub fn pop_back(&mut self) -> Option<Ready> {
        let frame = NonNull::new(self.tail)?;
        // SAFETY: the queue owns the tokens, hence the links, of its threads; the token of this one is handed out.
        unsafe {
            self.tail = beside(frame, ptr::null_mut());
            match NonNull::new(self.tail) {
                Some(before) => relink(before, frame.as_ptr(), ptr::null_mut()),
                None => self.head = ptr::null_mut(),
            }
            self.len -= 1;
            Some(Ready::from_frame(frame))
        }
    }

    /// The [`id`](Ready::id) of the first thread; 0 if there is none.
    pub(super) fn first(&self) -> u64 {
        self.head.addr() as u64
    }

    /// The [`id`](Ready::id) of the last thread; 0 if there is none.
    pub(super) fn last(&self) -> u64 {
        self.tail.addr() as u64
    }

    /// Takes the thread with this [`id`](Ready::id), if it is the last or the first. A thread for which
    /// [`Policy::withdraw`] is called is mostly at one of these two places.
    #[inline]
    pub fn withdraw(&mut self, id: u64) -> Option<Ready> {
        if self.last() == id {
            self.pop_back()
        } else if self.first() == id {
            self.pop_front()
        } else {
            None
        }
    }
}

impl ReadyQueue {
    /// Appends all of `other`'s threads, in order.
    pub fn append(&mut self, other: &mut Self) {
        let Some(first) = NonNull::new(replace(&mut other.head, ptr::null_mut())) else { return };
        match NonNull::new(self.tail) {
            // SAFETY: the queue owns the tokens, hence the links, of its threads, and `other` hands its own over.
            Some(last) => unsafe {
                relink(last, ptr::null_mut(), first.as_ptr());
                relink(first, ptr::null_mut(), last.as_ptr());
            },
            None => self.head = first.as_ptr(),
        }
        self.tail = replace(&mut other.tail, ptr::null_mut());
        self.len += take(&mut other.len);
    }

    /// Takes the first thread for which `is_wanted` returns true; all others stay in order. It takes time in the
    /// number of threads before that one.
    pub fn take_first(&mut self, mut is_wanted: impl FnMut(&Ready) -> bool) -> Option<Ready> {
        let mut before: *mut Header = ptr::null_mut();
        let mut at = self.head;
        while let Some(frame) = NonNull::new(at) {
            // SAFETY: the queue owns the token, and keeps it meanwhile, since the copy is not dropped.
            let thread = ManuallyDrop::new(unsafe { Ready::from_frame(frame) });
            // SAFETY: the queue owns the tokens, hence the links, of its threads, and `before` is the frame's
            // neighbour.
            let after = unsafe { beside(frame, before) };
            if is_wanted(&thread) {
                match NonNull::new(before) {
                    // SAFETY: the queue owns the tokens, hence the links, of its threads, and `at` is the frame's
                    // neighbour.
                    Some(before) => unsafe { relink(before, at, after) },
                    None => self.head = after,
                }
                match NonNull::new(after) {
                    // SAFETY: the queue owns the tokens, hence the links, of its threads, and `at` is the frame's
                    // neighbour.
                    Some(after) => unsafe { relink(after, at, before) },
                    None => self.tail = before,
                }
                self.len -= 1;
                return Some(ManuallyDrop::into_inner(thread));
            }
            before = at;
            at = after;
        }
        None
    }
}

impl Extend<Ready> for ReadyQueue {
    fn extend<I: IntoIterator<Item = Ready>>(&mut self, threads: I) {
        threads.into_iter().for_each(|thread| self.push_back(thread));
    }
}

/// Greatest number of threads that move at a time, since the target is locked meanwhile.
pub(super) const MOST_STOLEN: usize = 32;

impl ReadyQueue {
    /// Hands the queue's threads to `stealer`: the first thread, to be run at once, is returned, and the others are
    /// for the stealer to schedule.
    pub(super) fn move_to(mut self, stealer: &dyn Policy) -> Option<Ready> {
        let first = self.pop_front();
        while let Some(thread) = self.pop_front() {
            if let Some(unwanted) = stealer.enqueue(thread, Reason::Stolen) {
                let scheduler = scheduler().expect("a thread has a scheduler");
                // SAFETY: the token is given up.
                unsafe { scheduler.send_home(unwanted.into_frame()) };
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

#[cfg(all(test, not(loom)))]
mod tests {
    use std::collections::VecDeque;

    use super::*;
    use crate::machine::threads::{Random, Threads};

    /// Compares the queue with a deque of numbers.
    #[test]
    fn threads_go_where_they_are_put() {
        let threads = Threads::new();
        let mut random = Random::new(11);
        let mut free = threads.take(80);
        let (mut queue, mut other) = (ReadyQueue::new(), ReadyQueue::new());
        let (mut model, mut model_of_other) = (VecDeque::new(), VecDeque::new());
        let mut withdrawn = [0; 2];
        for step in 0..100_000 {
            let fills = step % 600 < 250;
            let came = match if fills { random.below(10) } else { 4 + random.below(8) } {
                0..=2 if !free.is_empty() => {
                    let thread = free.swap_remove(random.below(free.len()));
                    model.push_back(thread.id());
                    queue.push_back(thread);
                    None
                }
                3 if !free.is_empty() => {
                    let thread = free.swap_remove(random.below(free.len()));
                    model.push_front(thread.id());
                    queue.push_front(thread);
                    None
                }
                4 if !free.is_empty() => {
                    let thread = free.swap_remove(random.below(free.len()));
                    model_of_other.push_back(thread.id());
                    other.push_back(thread);
                    None
                }
                5 => {
                    model.append(&mut model_of_other);
                    queue.append(&mut other);
                    None
                }
                7 => {
                    let at = random.below(model.len().max(1));
                    let wanted = model.get(at).copied().unwrap_or(1);
                    let thread = queue.take_first(|thread| thread.id() == wanted);
                    assert_eq!(thread.as_ref().map(Ready::id), model.remove(at));
                    thread
                }
                8 => {
                    let thread = queue.pop_back();
                    assert_eq!(thread.as_ref().map(Ready::id), model.pop_back());
                    thread
                }
                9 => {
                    let thread = queue.pop_front();
                    assert_eq!(thread.as_ref().map(Ready::id), model.pop_front());
                    thread
                }
                _ => {
                    let at = [0, model.len() / 2, model.len().saturating_sub(1)][random.below(3)];
                    let is_at_an_end = at == 0 || at + 1 == model.len();
                    let wanted = model.get(at).copied().unwrap_or(1);
                    let thread = queue.withdraw(wanted);
                    withdrawn[usize::from(thread.is_some())] += 1;
                    match &thread {
                        Some(thread) => {
                            assert!(is_at_an_end && model[at] == thread.id());
                            model.remove(at);
                        }
                        None => assert!(!is_at_an_end || model.is_empty()),
                    }
                    thread
                }
            };
            free.extend(came);
            assert_eq!(queue.len(), model.len());
            assert_eq!(queue.is_empty(), model.is_empty());
        }
        assert!(withdrawn.iter().all(|&times| times > 20), "{withdrawn:?}");
        free.extend(std::iter::from_fn(|| queue.pop_front()));
        free.extend(std::iter::from_fn(|| other.pop_front()));
        assert_eq!((free.len(), threads.ended()), (80, 0));
    }
}
