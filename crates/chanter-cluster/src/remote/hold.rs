//! The limits on a process's threads in another one.

/// Largest number of threads that one process may have in another. Threads that have ended and were not detached
/// count.
const MOST_THREADS: u32 = 1 << 14;
/// Largest number of bytes of their arguments and values. A single thread may have more.
const MOST_BYTES: usize = 64 << 20;

/// The threads and bytes of one process here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Hold {
    threads: u32,
    bytes: usize,
}

impl Hold {
    /// Adds a thread with arguments of `bytes` bytes. False if there is no room for it.
    #[must_use]
    pub(super) fn add(&mut self, bytes: usize) -> bool {
        let has_room = self.threads == 0 || self.threads < MOST_THREADS && self.has_room(bytes);
        if has_room {
            self.threads += 1;
            self.bytes = self.bytes.saturating_add(bytes);
        }
        has_room
    }

    /// Whether `bytes` more bytes may be kept.
    pub(super) fn has_room(&self, bytes: usize) -> bool {
        self.bytes == 0 || self.bytes.saturating_add(bytes) <= MOST_BYTES
    }

    /// Changes the bytes of a thread. A computed value is kept, however long it is; a long one prevents further
    /// spawns.
    pub(super) fn change(&mut self, before: usize, after: usize) {
        self.bytes = self.bytes.saturating_sub(before).saturating_add(after);
    }

    /// Removes a thread that had `bytes` bytes.
    pub(super) fn remove(&mut self, bytes: usize) {
        self.threads = self.threads.saturating_sub(1);
        self.change(bytes, 0);
    }

    #[cfg(test)]
    pub(super) fn is_nothing(&self) -> bool {
        self.threads == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_are_bounded_by_number_and_by_what_they_keep() {
        let mut hold = Hold::default();
        assert!(hold.add(MOST_BYTES + 1), "one alone may have more");
        assert!(!hold.add(0) && !hold.has_room(1));
        hold.change(MOST_BYTES + 1, MOST_BYTES - 1);
        assert!(hold.has_room(1) && !hold.has_room(2));
        assert!(hold.add(1) && !hold.add(1));
        hold.remove(MOST_BYTES - 1);
        (1..MOST_THREADS).for_each(|_| assert!(hold.add(0)));
        assert!(!hold.add(0));
        hold.remove(1);
        assert!(hold.add(0) && !hold.is_nothing());
        (0..MOST_THREADS).for_each(|_| hold.remove(0));
        assert_eq!(hold, Hold::default());
    }
}
