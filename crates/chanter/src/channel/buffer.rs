//! The buffer of a channel: messages, and streams that watch for messages.

use std::collections::VecDeque;
use std::task::Waker;

use super::returned::{Returned, Ticket};

/// The buffer of a channel, allocated when the channel first keeps something.
pub(super) struct Buffer<T> {
    /// Messages that came back. They come before the rest.
    returned: Returned<T>,
    queue: VecDeque<T>,
    /// Streams that wait. They take no message while they are not polled, and are woken when there is one to take.
    watchers: Vec<(u64, Waker)>,
    next_watcher: u64,
}

impl<T> Default for Buffer<T> {
    fn default() -> Self {
        Self { returned: Returned::new(), queue: VecDeque::new(), watchers: Vec::new(), next_watcher: 1 }
    }
}

impl<T> Buffer<T> {
    #[inline(always)]
    pub(super) fn len(&self) -> usize {
        self.queue.len() + self.returned.len()
    }

    #[inline(always)]
    pub(super) fn push(&mut self, message: T) {
        self.queue.push_back(message);
    }

    #[inline(always)]
    pub(super) fn pop(&mut self) -> Option<T> {
        if self.returned.is_empty() {
            return self.queue.pop_front();
        }
        self.returned.pop().map(|(_, message)| message)
    }

    /// Takes a message that comes back. It goes before all that were sent later.
    pub(super) fn give_back(&mut self, ticket: Ticket, message: T) {
        self.returned.push(ticket, message);
    }

    pub(super) fn is_watched(&self) -> bool {
        !self.watchers.is_empty()
    }

    /// Makes the watcher `id` (0: a new one) wait with `waker`. Returns its id, and its old waker, to be dropped when
    /// no lock is held.
    pub(super) fn watch(&mut self, id: u64, waker: Waker) -> (u64, Option<Waker>) {
        if let Some(watcher) = self.watchers.iter_mut().find(|watcher| watcher.0 == id) {
            return (id, Some(std::mem::replace(&mut watcher.1, waker)));
        }
        let id = if id == 0 { self.next_watcher } else { id };
        if id == self.next_watcher {
            self.next_watcher += 1;
        }
        self.watchers.push((id, waker));
        (id, None)
    }

    pub(super) fn unwatch(&mut self, id: u64) -> Option<Waker> {
        let index = self.watchers.iter().position(|watcher| watcher.0 == id)?;
        Some(self.watchers.swap_remove(index).1)
    }

    pub(super) fn take_watchers(&mut self) -> Vec<(u64, Waker)> {
        std::mem::take(&mut self.watchers)
    }
}
