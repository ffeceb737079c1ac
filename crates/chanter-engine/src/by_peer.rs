//! Values by process: a table that grows with the processes that are known.

use crate::engine::ProcessId;

/// Something of each process, in the order of their numbers: found at once where all of them have it, as their numbers begin with 0;
/// else by halves.
pub struct ByPeer<V> {
    list: Vec<(ProcessId, V)>,
}

impl<V> Default for ByPeer<V> {
    fn default() -> Self {
        Self { list: Vec::new() }
    }
}

impl<V> FromIterator<(ProcessId, V)> for ByPeer<V> {
    /// Of several values of one process, the last one stays.
    fn from_iter<I: IntoIterator<Item = (ProcessId, V)>>(iter: I) -> Self {
        let mut all = Self::default();
        iter.into_iter().for_each(|(peer, value)| drop(all.insert(peer, value)));
        all
    }
}

impl<V> ByPeer<V> {
    /// The index of a process's value, or the one that it would have.
    #[inline(always)]
    fn at(&self, peer: ProcessId) -> Result<usize, usize> {
        let guess = peer.0 as usize;
        if self.list.get(guess).is_some_and(|(other, _)| *other == peer) {
            Ok(guess)
        } else {
            self.find(peer)
        }
    }

    #[inline]
    fn find(&self, peer: ProcessId) -> Result<usize, usize> {
        self.list.binary_search_by_key(&peer, |(other, _)| *other)
    }

    #[inline(always)]
    pub fn get(&self, peer: ProcessId) -> Option<&V> {
        Some(&self.list[self.at(peer).ok()?].1)
    }

    #[inline(always)]
    pub fn get_mut(&mut self, peer: ProcessId) -> Option<&mut V> {
        let at = self.at(peer).ok()?;
        Some(&mut self.list[at].1)
    }

    /// That of the process, which begins if there is none.
    #[inline(always)]
    pub fn of(&mut self, peer: ProcessId) -> &mut V
    where
        V: Default,
    {
        let at = match self.at(peer) {
            Ok(at) => at,
            Err(at) => {
                self.begin(at, peer);
                at
            }
        };
        &mut self.list[at].1
    }

    #[cold]
    fn begin(&mut self, at: usize, peer: ProcessId)
    where
        V: Default,
    {
        self.list.insert(at, (peer, V::default()));
    }

    /// Returns the value that was there before.
    pub fn insert(&mut self, peer: ProcessId, value: V) -> Option<V> {
        match self.find(peer) {
            Ok(at) => Some(std::mem::replace(&mut self.list[at].1, value)),
            Err(at) => {
                self.list.insert(at, (peer, value));
                None
            }
        }
    }

    pub fn remove(&mut self, peer: ProcessId) -> Option<V> {
        self.find(peer).ok().map(|at| self.list.remove(at).1)
    }

    pub fn iter(&self) -> impl Iterator<Item = (ProcessId, &V)> {
        self.list.iter().map(|(peer, value)| (*peer, value))
    }

    pub fn peers(&self) -> impl Iterator<Item = ProcessId> {
        self.list.iter().map(|(peer, _)| *peer)
    }

    /// Whether there has never been anything.
    pub fn is_as_new(&self) -> bool {
        self.list.capacity() == 0
    }

    /// Forgets all: of whom there was something.
    pub fn drain(&mut self) -> Vec<ProcessId> {
        self.list.drain(..).map(|(peer, _)| peer).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// Against a map, with numbers that have gaps and with such that have none.
    #[test]
    fn each_is_found() {
        for step in [1, 3] {
            let mut random = 7_u64;
            let mut next = move |below: u64| {
                random =
                    random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (random >> 33) % below
            };
            let (mut list, mut map) = (ByPeer::<u64>::default(), BTreeMap::new());
            for value in 0..3000 {
                let peer = ProcessId(next(40) as u32 * step);
                match next(4) {
                    0 => assert_eq!(list.remove(peer), map.remove(&peer)),
                    1 => assert_eq!(list.insert(peer, value), map.insert(peer, value)),
                    2 => {
                        *list.of(peer) += value;
                        *map.entry(peer).or_default() += value;
                    }
                    _ => assert_eq!(list.get_mut(peer), map.get_mut(&peer)),
                }
                assert_eq!(list.get(peer), map.get(&peer));
            }
            assert!(list.iter().eq(map.iter().map(|(peer, value)| (*peer, value))));
            assert!(!map.is_empty() && list.drain().into_iter().eq(map.into_keys()));
        }
    }
}
