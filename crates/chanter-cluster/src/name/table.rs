//! The threads of a process that have a name.

use crate::wire::Slot;

/// A table of what has a name. A place is given away again, but never with the same generation: what is
/// meant for the dead does not reach the living.
#[derive(Debug)]
pub(crate) struct Table<T> {
    entries: Vec<Entry<T>>,
    free: Vec<u32>,
    limit: u32,
}

#[derive(Debug)]
struct Entry<T> {
    generation: u32,
    what: Option<T>,
}

impl<T> Table<T> {
    /// An empty one, for at most `limit` at a time.
    pub(crate) fn new(limit: u32) -> Self {
        Self { entries: Vec::new(), free: Vec::new(), limit }
    }

    /// The name of what `make` makes of it. `None`: the table is full.
    pub(crate) fn insert(&mut self, make: impl FnOnce(Slot) -> T) -> Option<Slot> {
        let index = match self.free.pop() {
            Some(index) => index,
            None if self.entries.len() < self.limit as usize => {
                self.entries.push(Entry { generation: 0, what: None });
                self.entries.len() as u32 - 1
            }
            None => return None,
        };
        let entry = &mut self.entries[index as usize];
        entry.generation += 1;
        let slot = Slot { index, generation: entry.generation };
        entry.what = Some(make(slot));
        Some(slot)
    }

    /// What has that name.
    pub(crate) fn get(&self, slot: Slot) -> Option<&T> {
        let entry = self.entries.get(slot.index as usize)?;
        entry.what.as_ref().filter(|_| entry.generation == slot.generation)
    }

    /// Takes out what has that name.
    pub(crate) fn remove(&mut self, slot: Slot) -> Option<T> {
        let entry = self.entries.get_mut(slot.index as usize)?;
        if entry.generation != slot.generation {
            return None;
        }
        let what = entry.what.take()?;
        // A place whose generations are used up is not given away again.
        if entry.generation < u32::MAX {
            self.free.push(slot.index);
        }
        Some(what)
    }

    /// All there are.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.entries.iter().filter_map(|entry| entry.what.as_ref())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_that_is_given_away_again_has_another_name() {
        let mut table = Table::new(2);
        let first = table.insert(|slot| slot.generation).unwrap();
        assert_eq!(table.remove(first), Some(1));
        let second = table.insert(|slot| slot.generation).unwrap();
        assert_eq!((first.index, second.generation), (second.index, 2));
        assert_eq!((table.get(first), table.get(second)), (None, Some(&2)));
        assert_eq!(table.remove(first), None);
        assert_eq!(table.iter().count(), 1);
    }

    #[test]
    fn a_full_table_says_so() {
        let mut table = Table::new(1);
        assert!(table.insert(|_| ()).is_some());
        assert!(table.insert(|_| ()).is_none());
    }

    #[test]
    fn generations_do_not_come_again() {
        let mut table = Table::new(1);
        let slot = table.insert(|_| ()).unwrap();
        table.entries[0].generation = u32::MAX;
        assert!(table.remove(Slot { generation: u32::MAX, ..slot }).is_some());
        assert!(table.insert(|_| ()).is_none());
    }

    #[test]
    fn names_of_nothing_are_refused() {
        let table: Table<()> = Table::new(1);
        for index in [0, 1, u32::MAX] {
            assert_eq!(table.get(Slot { index, generation: 0 }), None);
        }
    }
}
