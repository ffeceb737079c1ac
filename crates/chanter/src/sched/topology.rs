//! Topologies: who is whose neighbour.

use std::iter::FusedIterator;

/// An arrangement of places, which are numbered from 0, and have neighbours.
///
/// It is arithmetic only: no memory, and nothing to build. Laid over a machine ([`vp_of`](Topology::vp_of)) it gives
/// the virtual processor of a place. Near places share a virtual processor, or lie on near ones.
///
/// ```
/// use chanter::topology::Topology;
///
/// let grid = Topology::torus(4, 3);
/// assert_eq!(grid.neighbours(0).collect::<Vec<_>>(), [1, 3, 4, 8]);
/// assert_eq!(grid.distance(0, 11), 2);
/// let cube = Topology::hypercube(3);
/// assert_eq!(cube.neighbours(5).collect::<Vec<_>>(), [4, 7, 1]);
/// assert_eq!(cube.len(), 8);
/// ```
///
/// STING, section 4: "first-class VPs and virtual machines make it possible to
/// map arbitrary abstract topologies onto a concrete architectural surface".
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Topology(Shape);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Shape {
    Ring { len: usize },
    Mesh { width: usize, height: usize },
    Torus { width: usize, height: usize },
    Hypercube { dimensions: u32 },
    Tree { arity: usize, len: usize },
}

use Shape::{Hypercube, Mesh, Ring, Torus, Tree};

impl Topology {
    /// `len` places in a circle.
    pub const fn ring(len: usize) -> Self {
        Self(Ring { len })
    }

    /// Rows of `width` places, one above the other; the borders have fewer
    /// neighbours. Place `x + width * y` lies at (x, y).
    ///
    /// # Panics
    /// If there would be more places than numbers.
    pub const fn mesh(width: usize, height: usize) -> Self {
        assert!(width.checked_mul(height).is_some(), "too many places");
        Self(Mesh { width, height })
    }

    /// Like [`mesh`](Self::mesh), but each row and each column is a circle.
    ///
    /// # Panics
    /// If there would be more places than numbers.
    pub const fn torus(width: usize, height: usize) -> Self {
        assert!(width.checked_mul(height).is_some(), "too many places");
        Self(Torus { width, height })
    }

    /// 2 to the power of `dimensions` places; the numbers of neighbours differ
    /// in one bit.
    ///
    /// # Panics
    /// If there would be more places than numbers.
    pub const fn hypercube(dimensions: u32) -> Self {
        assert!(dimensions < usize::BITS, "too many dimensions");
        Self(Hypercube { dimensions })
    }

    /// `len` places in a tree with root 0, whose nodes have up to `arity` children: node `n` has `arity * n + 1` and
    /// the places after it.
    ///
    /// # Panics
    /// If `arity` is 0.
    pub const fn tree(arity: usize, len: usize) -> Self {
        assert!(arity > 0, "a tree's nodes have children");
        Self(Tree { arity, len })
    }

    /// The number of places.
    pub const fn len(&self) -> usize {
        match self.0 {
            Ring { len } | Tree { len, .. } => len,
            Mesh { width, height } | Torus { width, height } => width * height,
            Hypercube { dimensions } => 1 << dimensions,
        }
    }

    /// Whether there are no places.
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The places next to `place`, each once, never `place` itself. The neighbours along the first dimension come
    /// first, forwards and backwards, and then those along the next one. In a tree the parent comes first, then the
    /// children. A place that does not exist has no neighbours.
    pub fn neighbours(&self, place: usize) -> Neighbours {
        Neighbours { topology: *self, place, step: 0 }
    }

    /// The parent in a tree; `None` for its root, and elsewhere.
    pub const fn parent(&self, place: usize) -> Option<usize> {
        match self.0 {
            Tree { arity, len } if place > 0 && place < len => Some((place - 1) / arity),
            _ => None,
        }
    }

    /// The number of steps from neighbour to neighbour between two places.
    ///
    /// # Panics
    /// If there is no such place.
    pub fn distance(&self, from: usize, to: usize) -> usize {
        assert!(from < self.len() && to < self.len(), "no such place");
        let around = |len: usize, a: usize, b: usize| a.abs_diff(b).min(len - a.abs_diff(b));
        match self.0 {
            Ring { len } => around(len, from, to),
            Mesh { width, .. } => (from % width).abs_diff(to % width) + (from / width).abs_diff(to / width),
            Torus { width, height } => {
                around(width, from % width, to % width) + around(height, from / width, to / width)
            }
            Hypercube { .. } => (from ^ to).count_ones() as usize,
            Tree { arity, .. } => {
                // The greater number is never nearer to the root.
                let (mut low, mut high, mut steps) = (from.min(to), from.max(to), 0);
                while low != high {
                    high = (high - 1) / arity;
                    steps += 1;
                    (low, high) = (low.min(high), low.max(high));
                }
                steps
            }
        }
    }

    /// The virtual processor, of `vps`, on which a place lies. Each processor gets an equal number of consecutive
    /// places.
    ///
    /// # Panics
    /// If there is no such place, or `vps` is 0.
    pub fn vp_of(&self, place: usize, vps: usize) -> usize {
        assert!(vps > 0 && place < self.len(), "no such place");
        (place as u128 * vps as u128 / self.len() as u128) as usize
    }

    /// The neighbour after `step` others, and before which step the next comes;
    /// what is not there is skipped by the caller.
    fn neighbour(&self, place: usize, step: usize) -> Step {
        let along = |index: usize, len: usize, back: bool| match (back, index) {
            (false, _) => Some(index + 1).filter(|next| *next < len),
            (true, _) => index.checked_sub(1),
        };
        // On a circle of two both ways lead to the same place.
        let around = |index: usize, len: usize, back: bool| match (len, back) {
            (0 | 1, _) | (2, true) => None,
            (_, false) => Some((index + 1) % len),
            (_, true) => Some((index + len - 1) % len),
        };
        let back = step % 2 == 1;
        let found = match self.0 {
            Ring { len } if step < 2 => around(place, len, back),
            Mesh { width, height } if step < 4 => {
                let (x, y) = (place % width, place / width);
                if step < 2 {
                    along(x, width, back).map(|x| x + width * y)
                } else {
                    along(y, height, back).map(|y| x + width * y)
                }
            }
            Torus { width, height } if step < 4 => {
                let (x, y) = (place % width, place / width);
                if step < 2 {
                    around(x, width, back).map(|x| x + width * y)
                } else {
                    around(y, height, back).map(|y| x + width * y)
                }
            }
            Hypercube { dimensions } if step < dimensions as usize => Some(place ^ (1 << step)),
            Tree { .. } if step == 0 => self.parent(place),
            Tree { arity, len } if step <= arity => {
                let child = arity.checked_mul(place).and_then(|first| first.checked_add(step));
                match child.filter(|child| *child < len) {
                    Some(child) => Some(child),
                    // Those that follow have greater numbers.
                    None => return Step::End,
                }
            }
            _ => return Step::End,
        };
        found.map_or(Step::Nothing, Step::To)
    }
}

enum Step {
    To(usize),
    Nothing,
    End,
}

/// The neighbours of a place; see [`Topology::neighbours`].
#[derive(Clone, Debug)]
pub struct Neighbours {
    topology: Topology,
    place: usize,
    step: usize,
}

impl Iterator for Neighbours {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        if self.place >= self.topology.len() {
            return None;
        }
        loop {
            match self.topology.neighbour(self.place, self.step) {
                Step::End => return None,
                Step::Nothing => self.step += 1,
                Step::To(place) => {
                    self.step += 1;
                    return Some(place);
                }
            }
        }
    }
}

impl FusedIterator for Neighbours {}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn all() -> Vec<Topology> {
        let mut all = Vec::new();
        for n in 1..9 {
            all.push(Topology::ring(n));
            for m in 1..5 {
                all.extend([Topology::mesh(n, m), Topology::torus(n, m), Topology::tree(m, n)]);
            }
        }
        all.extend((0..5).map(Topology::hypercube));
        all
    }

    #[test]
    fn to_be_a_neighbour_is_mutual_and_nobody_is_his_own() {
        for topology in all() {
            for place in 0..topology.len() {
                let mut seen = Vec::new();
                for next in topology.neighbours(place) {
                    assert!(next < topology.len() && next != place, "{topology:?} {place}");
                    assert!(!seen.contains(&next), "{topology:?}: {next} twice");
                    assert!(topology.neighbours(next).any(|back| back == place), "{topology:?} {place}");
                    seen.push(next);
                }
            }
        }
    }

    /// The arithmetic of distances against a search that knows neighbours only.
    #[test]
    fn distances_are_those_of_the_shortest_walks() {
        for topology in all() {
            for from in 0..topology.len() {
                let mut steps = vec![usize::MAX; topology.len()];
                steps[from] = 0;
                let mut queue = std::collections::VecDeque::from([from]);
                while let Some(place) = queue.pop_front() {
                    for next in topology.neighbours(place) {
                        if steps[next] == usize::MAX {
                            steps[next] = steps[place] + 1;
                            queue.push_back(next);
                        }
                    }
                }
                let distances: Vec<_> = (0..topology.len()).map(|to| topology.distance(from, to)).collect();
                assert_eq!(distances, steps, "{topology:?} from {from}");
            }
        }
    }

    #[test]
    fn places_are_spread_evenly_and_in_order() {
        for topology in all() {
            for vps in 1..7 {
                let homes: Vec<_> = (0..topology.len()).map(|place| topology.vp_of(place, vps)).collect();
                assert!(homes.is_sorted() && homes.iter().all(|vp| *vp < vps));
                let count = |vp| homes.iter().filter(|home| **home == vp).count();
                let counts: Vec<_> = (0..vps).map(count).collect();
                let spread = counts.iter().max().unwrap() - counts.iter().min().unwrap();
                assert!(spread <= 1, "{topology:?} on {vps}: {counts:?}");
            }
        }
    }

    #[test]
    fn there_are_no_places_beyond_the_last() {
        assert_eq!(Topology::ring(3).neighbours(3).count(), 0);
        assert_eq!(Topology::ring(0).neighbours(0).count(), 0);
        assert_eq!(Topology::tree(usize::MAX, 2).neighbours(1).collect::<Vec<_>>(), [0]);
    }
}
