//! Messages, and the memory that they reuse.

use std::cell::RefCell;
use std::fmt;
use std::sync::Arc;

use super::home::Home;
use super::pattern::Letter;
use crate::engine::{NodeId, ProcessId};
use crate::name::ThreadName;
use crate::node::send_window::WindowRef;
use crate::wire::{Body, Slot, Written};

/// Number of unused messages that an OS thread keeps.
const MOST_KEPT: usize = 128;

thread_local! {
    /// Memory of received messages, for reuse.
    #[expect(clippy::vec_box, reason = "they are given away one by one")]
    static KEPT: RefCell<Vec<Box<Message>>> = const { RefCell::new(Vec::new()) };
}

/// A message, from its send to its receive. It is written in its final place; only its box is passed on.
pub struct Message {
    /// Window of the receiver.
    pub(crate) window_ref: WindowRef,
    pub(crate) from: ThreadName,
    pub(crate) to: ThreadName,
    pub(crate) tag: u32,
    /// Whether it came from another process, for which its receipt is not yet counted.
    pub(super) is_away: bool,
    /// Number of the message in its inbox, in order of arrival.
    pub(super) number: u64,
    /// The process that sends it to another one; `None` for a message within it.
    pub(crate) home: Option<Arc<dyn Home>>,
    pub(crate) written: Written,
}

impl Message {
    /// A message in which nothing is written yet.
    #[inline]
    pub(crate) fn new(window_ref: WindowRef, from: ThreadName, to: ThreadName, tag: u32) -> Box<Self> {
        // The thread-local memory is gone in a thread that ends.
        let kept = KEPT.try_with(|kept| kept.borrow_mut().pop()).ok().flatten();
        let mut message = kept.unwrap_or_else(Self::fresh);
        (message.window_ref, message.from, message.to, message.tag) = (window_ref, from, to, tag);
        message
    }

    /// A message with a body.
    pub(crate) fn of_body(
        window_ref: WindowRef,
        from: ThreadName,
        to: ThreadName,
        tag: u32,
        body: Body,
    ) -> Box<Self> {
        let mut message = Self::new(window_ref, from, to, tag);
        message.written.set_body(body);
        message
    }

    /// A message in new memory.
    #[cold]
    fn fresh() -> Box<Self> {
        let nobody =
            ThreadName { pe: NodeId(0), process: ProcessId(0), thread: Slot { index: 0, generation: 0 } };
        Box::new(Self {
            window_ref: WindowRef::nobodys(),
            from: nobody,
            to: nobody,
            tag: 0,
            is_away: false,
            number: 0,
            home: None,
            written: Written::new(),
        })
    }

    /// Ends the message and keeps its memory for reuse.
    #[inline]
    pub(crate) fn end(mut self: Box<Self>) {
        self.written.clear();
        self.home = None;
        self.is_away = false;
        let _ = KEPT.try_with(|kept| {
            let mut kept = kept.borrow_mut();
            if kept.len() < MOST_KEPT {
                kept.push(self);
            }
        });
    }
}

impl Letter for Message {
    #[inline(always)]
    fn from(&self) -> &ThreadName {
        &self.from
    }

    #[inline(always)]
    fn tag(&self) -> u32 {
        self.tag
    }

    #[inline(always)]
    fn number(&self) -> u64 {
        self.number
    }
}

impl fmt::Debug for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Message").field("from", &self.from).field("tag", &self.tag).finish_non_exhaustive()
    }
}
