//! A queue of ready threads that allocates nothing.

use std::fmt;
use std::mem::ManuallyDrop;
use std::ptr::{self, NonNull};

use super::{Policy, Ready, Reason};
use crate::sync::Linked;
use crate::thread::frame::Header;
use crate::vp::Vp;

/// In a longer queue the one before the last is not looked for.
const MOST_STEPS: usize = 32;

/// A first-in first-out queue of ready threads; pushing to the front makes it
/// a stack. The links are inside the threads, so it never allocates.
pub struct ReadyQueue {
    head: *mut Header,
    tail: *mut Header,
    /// The one before the last, or nothing, if that is not known.
    before: *mut Header,
    len: usize,
}

// SAFETY: it owns tokens, which are `Send`.
unsafe impl Send for ReadyQueue {}
// SAFETY: shared, it only tells its length.
unsafe impl Sync for ReadyQueue {}

impl ReadyQueue {
    /// An empty queue.
    pub const fn new() -> Self {
        Self { head: ptr::null_mut(), tail: ptr::null_mut(), before: ptr::null_mut(), len: 0 }
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
        self.before = std::mem::replace(&mut self.tail, frame.as_ptr());
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
        if self.before == frame.as_ptr() {
            self.before = ptr::null_mut();
        }
        self.len -= 1;
        Some(thread)
    }

    /// The [`id`](Ready::id) of the first thread; 0 if there is none.
    pub(super) fn first(&self) -> u64 {
        self.head as usize as u64
    }

    /// The [`id`](Ready::id) of the last thread; 0 if there is none.
    pub(super) fn last(&self) -> u64 {
        self.tail as usize as u64
    }

    /// Takes the thread of that [`id`](Ready::id), if it is the last: what
    /// [`Policy::withdraw`] is asked for mostly is. May look through a few dozen threads for the new last
    /// one, and gives up where there are more.
    #[inline]
    pub fn withdraw(&mut self, id: u64) -> Option<Ready> {
        if self.last() != id {
            return None;
        }
        if self.head == self.tail {
            return self.pop_front();
        }
        let before = std::mem::replace(&mut self.before, ptr::null_mut());
        let before = NonNull::new(before).or_else(|| self.one_before_the_last())?;
        // SAFETY: as in `push_back`; the token is handed out.
        let thread = unsafe {
            before.as_ref().link().with_mut(|link| *link = ptr::null_mut());
            Ready::from_frame(NonNull::new(self.tail)?)
        };
        self.tail = before.as_ptr();
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
        self.before = std::mem::replace(&mut other.before, ptr::null_mut());
        self.len += std::mem::take(&mut other.len);
    }

    /// There are two at least.
    fn one_before_the_last(&self) -> Option<NonNull<Header>> {
        if self.len > MOST_STEPS {
            return None;
        }
        let mut at = NonNull::new(self.head)?;
        loop {
            // SAFETY: as in `push_back`.
            let next = unsafe { at.as_ref().link().with(|link| *link) };
            if next == self.tail {
                return Some(at);
            }
            at = NonNull::new(next)?;
        }
    }

    /// Takes the first thread of which `is_wanted` says so; all others stay in
    /// order. Takes time in the number of those before it.
    pub fn take_first(&mut self, mut is_wanted: impl FnMut(&Ready) -> bool) -> Option<Ready> {
        self.before = ptr::null_mut();
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

#[cfg(all(test, not(loom)))]
mod tests {
    use std::collections::VecDeque;

    use super::*;
    use crate::policy::conformance::{Random, Threads};

    /// Against a deque of numbers.
    #[test]
    fn threads_go_where_they_are_put() {
        let threads = Threads::new();
        let mut random = Random::new(11);
        let mut free = threads.take(80);
        let (mut queue, mut other) = (ReadyQueue::new(), ReadyQueue::new());
        let (mut model, mut model_of_other) = (VecDeque::new(), VecDeque::new());
        let mut withdrawn = [0; 4];
        for step in 0..100_000 {
            let fills = step % 600 < 250;
            let came = match if fills { random.below(9) } else { 4 + random.below(7) } {
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
                6 | 7 => {
                    let at = random.below(model.len().max(1));
                    let wanted = model.get(at).copied().unwrap_or(1);
                    let thread = queue.take_first(|thread| thread.id() == wanted);
                    assert_eq!(thread.as_ref().map(Ready::id), model.remove(at));
                    thread
                }
                8 => {
                    let thread = queue.pop_front();
                    assert_eq!(thread.as_ref().map(Ready::id), model.pop_front());
                    thread
                }
                _ => {
                    let at = [0, model.len() / 2, model.len().saturating_sub(1)][random.below(3)];
                    let is_last = at + 1 == model.len();
                    let wanted = model.get(at).copied().unwrap_or(1);
                    let thread = queue.withdraw(wanted);
                    let long = usize::from(model.len() > MOST_STEPS);
                    withdrawn[2 * long + usize::from(thread.is_some())] += 1;
                    match &thread {
                        Some(thread) => {
                            assert!(is_last && model[at] == thread.id());
                            model.remove(at);
                        }
                        None => assert!(!is_last || long > 0),
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
