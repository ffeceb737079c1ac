//! An intrusive stack that many threads push to and one takes whole.
//!
//! It is the return path of frames and the inbox of a virtual processor.
//! Taking everything with one swap leaves no ABA: a node is never popped
//! while another thread looks at it.
//!
//! * INV-STACK: a node is on at most one stack; between `push` and `take_all`
//!   nobody else touches it.
//! * After [`Stack::close`] every push fails and hands the node back.

use std::ptr::{self, NonNull};

use super::atomic::{AtomicPtr, Ordering};
use super::{UnsafeCell, order};

/// A node with room for one link.
///
/// # Safety
/// `link` returns the same cell for the whole life of the node, and nobody
/// else uses that cell while the node is on a stack.
pub(crate) unsafe trait Linked {
    fn link(&self) -> &UnsafeCell<*mut Self>;
}

/// A stack of nodes that many threads push to, and one takes whole.
#[derive(Debug)]
pub(crate) struct Stack<N> {
    head: AtomicPtr<N>,
}

/// The error of a push to a closed stack.
#[derive(Debug)]
pub(crate) struct Closed;

impl<N: Linked> Stack<N> {
    #[cfg(not(loom))]
    pub(crate) const fn new() -> Self {
        Self { head: AtomicPtr::new(ptr::null_mut()) }
    }

    #[cfg(loom)]
    pub(crate) fn new() -> Self {
        Self { head: AtomicPtr::new(ptr::null_mut()) }
    }

    /// The head of a closed stack: no node can have it as its address.
    fn closed() -> *mut N {
        ptr::without_provenance_mut(1)
    }

    /// Pushes a node that the caller owns.
    ///
    /// # Safety
    /// The caller owns the node (INV-STACK) and gives it up on success.
    pub(crate) unsafe fn push(&self, node: NonNull<N>) -> Result<(), Closed> {
        let mut head = self.head.load(Ordering::Relaxed);
        loop {
            if head == Self::closed() {
                return Err(Closed);
            }
            // SAFETY: the caller guarantees that it owns the node, which it gives up only when the exchange succeeds.
            unsafe { node.as_ref().link().with_mut(|link| *link = head) };
            // ORDER: Release publishes the node and its link to `take_all`.
            match self.head.compare_exchange_weak(
                head,
                node.as_ptr(),
                order::frame_return(),
                Ordering::Relaxed,
            ) {
                Ok(_) => return Ok(()),
                Err(now) => head = now,
            }
        }
    }

    /// Whether there is nothing to take (a hint unless fenced).
    #[inline(always)]
    pub(crate) fn is_empty(&self) -> bool {
        let head = self.head.load(Ordering::Relaxed);
        head.is_null() || head == Self::closed()
    }

    /// Takes every node, the newest first.
    pub(crate) fn take_all(&self) -> Taken<N> {
        if self.is_empty() {
            return Taken { next: ptr::null_mut() };
        }
        // ORDER: Acquire pairs with `push`. The stack is not closed, since only the taker closes it.
        Taken { next: self.head.swap(ptr::null_mut(), order::frame_take()) }
    }

    /// Takes every node, and refuses those that follow.
    pub(crate) fn close(&self) -> Taken<N> {
        // ORDER: Acquire as in `take_all`. A pusher that fails learns only that the stack is closed.
        let next = self.head.swap(Self::closed(), order::frame_take());
        Taken { next: if next == Self::closed() { ptr::null_mut() } else { next } }
    }
}

/// Nodes that were taken, and belong to the caller.
pub(crate) struct Taken<N> {
    next: *mut N,
}

impl<N: Linked> Taken<N> {
    /// The same nodes, the oldest first.
    pub(crate) fn oldest_first(self) -> Self {
        let mut reversed: *mut N = ptr::null_mut();
        for node in self {
            // SAFETY: taken nodes belong to the caller.
            unsafe { node.as_ref().link().with_mut(|link| *link = reversed) };
            reversed = node.as_ptr();
        }
        Self { next: reversed }
    }
}

impl<N: Linked> Iterator for Taken<N> {
    type Item = NonNull<N>;

    fn next(&mut self) -> Option<NonNull<N>> {
        let node = NonNull::new(self.next)?;
        // SAFETY: taken nodes belong to the caller; the link is read before
        // the node is handed out.
        self.next = unsafe { node.as_ref().link().with(|link| *link) };
        Some(node)
    }
}
