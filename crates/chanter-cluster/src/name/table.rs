//! The table of a process's threads with names.
//!
//! A sender finds a thread of this process by its name without a lock. A place keeps its window as long as the table
//! lives, and the window's epoch is compared under the window's lock (INV-EPOCH).

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use chanter::base::{Guard, Lock};

use crate::error::SendError;
use crate::inbox::place::State as InboxState;
use crate::node::send_window::{Left, SendWindow, WindowRef};
use crate::wire::Slot;

/// Number of places in the first chunk. Each chunk has twice as many as the one before.
const FIRST: usize = 64;
const CHUNKS: usize = 15;

/// A table of inboxes by name. A place is reused, but never with the same generation, so messages for a closed inbox
/// do not reach a later one.
pub(crate) struct Table {
    /// Number of this table among all tables of the program.
    number: u32,
    chunks: [OnceLock<Box<[OnceLock<&'static SendWindow>]>>; CHUNKS],
    book: Lock<Book>,
}

/// The name of the first inbox of each table.
pub(crate) const MAIN: Slot = Slot { index: 0, generation: 1 };

/// The places that are in use, and their generations.
pub(crate) struct Book {
    entries: Vec<Entry>,
    free: Vec<u32>,
    limit: u32,
}

#[derive(Clone, Copy)]
struct Entry {
    generation: u32,
    is_open: bool,
}

/// The chunk of a place, and its index there.
#[inline]
fn place(index: u32) -> (usize, usize) {
    let at = index as usize + FIRST;
    let chunk = (at / FIRST).ilog2() as usize;
    (chunk, at - (FIRST << chunk))
}

impl Table {
    /// An empty table, for at most `limit` inboxes at a time.
    pub(crate) fn new(limit: u32) -> Self {
        static TABLES: AtomicU32 = AtomicU32::new(0);
        assert!((limit as usize) <= (FIRST << CHUNKS) - FIRST, "there are no chunks for so many");
        Self {
            number: TABLES.fetch_add(1, Ordering::Relaxed) + 1,
            chunks: [const { OnceLock::new() }; CHUNKS],
            book: Lock::new(Book { entries: Vec::new(), free: Vec::new(), limit }),
        }
    }

    /// Number of the epoch that has that name.
    #[inline]
    fn epoch(&self, generation: u32) -> u64 {
        u64::from(self.number) << 32 | u64::from(generation)
    }

    /// The inbox that has, or has had, a name. `None`: no inbox has had it yet.
    #[inline]
    pub(crate) fn find(&self, slot: Slot) -> Option<WindowRef> {
        let (chunk, at) = place(slot.index);
        let window = self.chunks.get(chunk)?.get()?.get(at)?.get()?;
        Some(window.of_epoch(self.epoch(slot.generation)))
    }

    /// Enters an inbox, which `make` makes from its name and perhaps a spare inbox. `None`: the table is full.
    pub(crate) fn insert(
        &self,
        make: impl FnOnce(Slot, Option<Box<InboxState>>) -> Box<InboxState>,
    ) -> Option<(Slot, WindowRef)> {
        let slot = self.book().enter()?;
        let (chunk, at) = place(slot.index);
        let places =
            self.chunks[chunk].get_or_init(|| (0..FIRST << chunk).map(|_| OnceLock::new()).collect());
        let window = places[at].get_or_init(SendWindow::vacant);
        Some((slot, window.let_to_inbox(self.epoch(slot.generation), |spare| make(slot, spare))))
    }

    /// Closes an inbox, tells its senders `why`, and returns its remains.
    pub(crate) fn remove(&self, slot: Slot, why: &SendError) -> Option<Left> {
        // Of two threads that close it, one ends it.
        let left = self.find(slot)?.end(why)?;
        self.book().leave(slot);
        Some(left)
    }

    /// Locks the book of places.
    pub(crate) fn book(&self) -> Guard<'_, Book> {
        self.book.lock()
    }

    /// All open inboxes.
    pub(crate) fn all(&self) -> Vec<WindowRef> {
        let book = self.book();
        let open = book.entries.iter().enumerate().filter(|(_, entry)| entry.is_open);
        open.filter_map(|(index, entry)| {
            self.find(Slot { index: index as u32, generation: entry.generation })
        })
        .collect()
    }
}

impl Book {
    /// Returns a name that was never used. `None`: the table is full.
    fn enter(&mut self) -> Option<Slot> {
        let index = match self.free.pop() {
            Some(index) => index,
            None if self.entries.len() < self.limit as usize => {
                self.entries.push(Entry { generation: 0, is_open: false });
                self.entries.len() as u32 - 1
            }
            None => return None,
        };
        let entry = &mut self.entries[index as usize];
        entry.generation += 1;
        entry.is_open = true;
        Some(Slot { index, generation: entry.generation })
    }

    /// Frees the place of a name whose window has no epoch any more.
    fn leave(&mut self, slot: Slot) {
        self.entries[slot.index as usize].is_open = false;
        // A place whose generations are used up is not used again.
        if slot.generation < u32::MAX {
            self.free.push(slot.index);
        }
    }

    /// Whether an open inbox has that name.
    pub(crate) fn has(&self, slot: Slot) -> bool {
        let entry = self.entries.get(slot.index as usize);
        entry.is_some_and(|entry| entry.is_open && entry.generation == slot.generation)
    }
}

/// Gives the windows back, for use by other tables.
impl Drop for Table {
    fn drop(&mut self) {
        let chunks = self.chunks.iter().filter_map(OnceLock::get);
        chunks.flatten().filter_map(OnceLock::get).for_each(|window| window.leave_vacant());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(limit: u32) -> Table {
        Table::new(limit)
    }

    fn insert(table: &Table) -> Option<Slot> {
        table.insert(|_, _| Box::new(InboxState::nobodys())).map(|(slot, _)| slot)
    }

    fn is_there(table: &Table, slot: Slot) -> bool {
        let is_there = table.find(slot).is_some_and(|window_ref| window_ref.lock().is_some());
        assert_eq!(is_there, table.book().has(slot));
        is_there
    }

    fn remove(table: &Table, slot: Slot) -> bool {
        let name = crate::ThreadName {
            pe: crate::engine::NodeId(0),
            process: crate::engine::ProcessId(0),
            thread: slot,
        };
        table.remove(slot, &SendError::Gone(name)).is_some()
    }

    #[test]
    fn a_place_that_is_given_away_again_has_another_name() {
        let table = table(2);
        let first = insert(&table).unwrap();
        assert!(remove(&table, first));
        let second = insert(&table).unwrap();
        assert_eq!((first.index, second.generation), (second.index, 2));
        assert!(!is_there(&table, first) && is_there(&table, second));
        assert!(!remove(&table, first));
        assert_eq!(table.all().len(), 1);
        assert!(remove(&table, second));
    }

    #[test]
    fn a_full_table_says_so() {
        let table = table(1);
        let slot = insert(&table).unwrap();
        assert!(insert(&table).is_none());
        assert!(remove(&table, slot));
    }

    #[test]
    fn generations_do_not_come_again() {
        let table = table(1);
        let slot = insert(&table).unwrap();
        assert!(remove(&table, slot));
        table.book().entries[0].generation = u32::MAX - 1;
        let slot = insert(&table).unwrap();
        assert!(remove(&table, slot));
        assert!(insert(&table).is_none());
    }

    #[test]
    fn names_of_nothing_are_refused() {
        let table = table(1);
        for index in [0, 1, 63, 64, 65, 1 << 20, u32::MAX] {
            assert!(!is_there(&table, Slot { index, generation: 0 }));
        }
    }

    #[test]
    fn each_place_is_in_one_chunk() {
        let mut expected = (0, 0);
        for index in 0..10_000 {
            assert_eq!(place(index), expected);
            expected.1 += 1;
            if expected.1 == FIRST << expected.0 {
                expected = (expected.0 + 1, 0);
            }
        }
        assert!(place(u32::MAX).0 >= CHUNKS);
    }

    /// A window that comes from another table no longer answers to that table's names.
    #[test]
    fn tables_that_follow_each_other_share_windows_but_no_names() {
        let first = table(1);
        let (slot, window_ref) = first.insert(|_, _| Box::new(InboxState::nobodys())).unwrap();
        assert!(remove(&first, slot));
        drop(first);
        let second = table(1);
        let again = insert(&second).unwrap();
        assert_eq!(slot, again);
        assert!(window_ref.lock().is_none(), "it has got another tenant, or none");
        assert!(remove(&second, again));
    }
}
