//! Space, divided into cells, and the lists of atoms that are near each other.
//!
//! The edge of a cell is at least the cut-off, the skin, and the reach of waters out of it. So all neighbours of an
//! atom are in its cell or in one of the 26 around. Each pair is in one list. This is the list of its cell, or of the
//! cell from which the other one is one of [`FORWARD`].

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::model::{CUTOFF, Chain, Kind, Mixes, SKIN, WATER_REACH};
use crate::kit::V3;

/// Reach of the lists.
const REACH: f64 = CUTOFF + SKIN;

/// Half of the cells around.
pub(super) const FORWARD: [[isize; 3]; 13] = [
    [1, 0, 0],
    [-1, 1, 0],
    [0, 1, 0],
    [1, 1, 0],
    [-1, -1, 1],
    [0, -1, 1],
    [1, -1, 1],
    [-1, 0, 1],
    [0, 0, 1],
    [1, 0, 1],
    [-1, 1, 1],
    [0, 1, 1],
    [1, 1, 1],
];

/// The cells of a cube that repeats in all directions.
#[derive(Clone, Copy, Debug)]
pub(super) struct Grid {
    pub(super) side: f64,
    edge: usize,
}

impl Grid {
    /// The least edge of a cube: three cells.
    pub(super) const LEAST: f64 = 3.0 * (REACH + 2.0 * WATER_REACH);

    pub(super) fn new(side: f64) -> Self {
        assert!(side >= Self::LEAST, "a cube of {side} is too small for three cells");
        Self { side, edge: (side / (REACH + 2.0 * WATER_REACH) + 1e-9) as usize }
    }

    pub(super) fn cells(self) -> usize {
        self.edge.pow(3)
    }

    /// Into the cube.
    pub(super) fn wrapped(self, place: V3) -> V3 {
        place.map(|x| x - self.side * (x / self.side).floor())
    }

    /// The cell of a place in the cube.
    pub(super) fn of(self, place: V3) -> usize {
        let [x, y, z] = place.0.map(|x| ((x / self.side * self.edge as f64) as usize).min(self.edge - 1));
        (z * self.edge + y) * self.edge + x
    }

    /// The cell that lies so from it, and by how much its places are to be moved to lie beside it.
    fn beside(self, cell: usize, offset: [isize; 3]) -> (usize, V3) {
        let edge = self.edge;
        let at = [cell % edge, cell / edge % edge, cell / edge / edge];
        let mut shift = V3::ZERO;
        let mut to = [0; 3];
        for axis in 0..3 {
            let there = at[axis] as isize + offset[axis];
            to[axis] = there.rem_euclid(edge as isize) as usize;
            shift[axis] = self.side * there.div_euclid(edge as isize) as f64;
        }
        ((to[2] * edge + to[1]) * edge + to[0], shift)
    }

    pub(super) fn forward(self, cell: usize) -> [(usize, V3); 13] {
        FORWARD.map(|offset| self.beside(cell, offset))
    }

    /// The cells from which this one lies forward, in the order of [`FORWARD`].
    pub(super) fn backward(self, cell: usize) -> [usize; 13] {
        FORWARD.map(|offset| self.beside(cell, offset.map(|x| -x)).0)
    }
}

/// Fixed part of a cell until atoms are assigned again: first atoms of the chain, then waters.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Members {
    /// Numbers of atoms, in order.
    pub(super) atoms: Vec<u32>,
    pub(super) kinds: Vec<u8>,
    /// How many are the chain's.
    pub(super) chain: usize,
}

impl Members {
    /// Of atoms in order.
    pub(super) fn new(atoms: Vec<u32>, chain: &Chain) -> Self {
        let first_water = chain.kinds.len();
        let kind = |atom: u32| match (atom as usize).checked_sub(first_water) {
            None => chain.kinds[atom as usize],
            Some(at) if at % 3 == 0 => Kind::WaterOxygen,
            Some(_) => Kind::WaterHydrogen,
        };
        let kinds = atoms.iter().map(|atom| kind(*atom) as u8).collect();
        let in_chain = atoms.partition_point(|atom| (*atom as usize) < first_water);
        Self { atoms, kinds, chain: in_chain }
    }

    pub(super) fn len(&self) -> usize {
        self.atoms.len()
    }

    /// Which atoms stay together: one of the chain, or three of a water.
    pub(super) fn groups(&self) -> impl Iterator<Item = std::ops::Range<usize>> {
        let (chain, all) = (self.chain, self.len());
        (0..chain).map(|at| at..at + 1).chain((chain..all).step_by(3).map(|at| at..at + 3))
    }
}

/// For each atom of one cell, its neighbours in another cell.
#[derive(Clone, Debug, Default)]
pub(super) struct List {
    /// The index at which the neighbours of each atom end.
    ends: Vec<u32>,
    others: Vec<u16>,
}

/// A cell as others see it: nobody changes it while they look.
#[derive(Clone, Debug, Default)]
pub(super) struct View {
    pub(super) members: Arc<Members>,
    pub(super) places: Arc<Vec<V3>>,
}

/// Whether two atoms of the chain are bonded, near enough.
fn are_near(chain: &Chain, one: u32, other: u32) -> bool {
    chain.near[one as usize].binary_search(&other).is_ok()
}

impl List {
    /// Of two cells, or of one (`None`).
    pub(super) fn between(chain: &Chain, one: &View, other: Option<(&View, V3)>) -> Self {
        let within = other.is_none();
        let (other, shift) = other.unwrap_or((one, V3::ZERO));
        let first_water = other.members.chain;
        let (low, high) = bounds(&other.places);
        let mut list = Self { ends: Vec::with_capacity(one.members.len()), others: Vec::new() };
        // Around waters by their oxygens, which is one distance for three.
        let far = (REACH + WATER_REACH) * (REACH + WATER_REACH);
        for (at, place) in one.places.iter().enumerate() {
            let place = *place - shift;
            let outside = place.zip(low, |x, low| (low - x).max(0.0));
            let beyond = place.zip(high, |x, high| (x - high).max(0.0));
            if !within && (outside + beyond).square() > REACH * REACH {
                list.ends.push(list.others.len() as u32);
                continue;
            }
            let is_chain = at < one.members.chain;
            let from = if within { at + 1 } else { 0 };
            for to in from..first_water {
                let near = is_chain && are_near(chain, one.members.atoms[at], other.members.atoms[to]);
                if !near && (place - other.places[to]).square() < REACH * REACH {
                    list.others.push(to as u16);
                }
            }
            // The neighbours begin behind the atoms of its own water.
            let from = match () {
                () if !within || is_chain => first_water,
                () => first_water + (at - first_water) / 3 * 3 + 3,
            };
            for (index, water) in other.places[from..].as_chunks::<3>().0.iter().enumerate() {
                if (place - water[0]).square() >= far {
                    continue;
                }
                for (atom, to) in water.iter().enumerate() {
                    if (place - *to).square() < REACH * REACH {
                        list.others.push((from + 3 * index + atom) as u16);
                    }
                }
            }
            list.ends.push(list.others.len() as u32);
        }
        list
    }

    /// The pairs of one cell and another: adds to the forces of both, and returns the energy.
    pub(super) fn act(
        &self,
        mixes: &Mixes,
        (kinds, places, forces): (&[u8], &[V3], &mut [V3]),
        (kinds2, places2, forces2): (&[u8], &[V3], &mut [V3]),
        shift: V3,
    ) -> f64 {
        // Checked once, rather than for each pair.
        let len = places2.len();
        let (kinds2, forces2) = (&kinds2[..len], &mut forces2[..len]);
        let mut energy = 0.0;
        let mut from = 0;
        for (at, end) in self.ends.iter().enumerate() {
            let (place, mixes) = (places[at] - shift, &mixes[usize::from(kinds[at])]);
            let mut sum = V3::ZERO;
            for other in &self.others[from as usize..*end as usize] {
                let other = usize::from(*other);
                let between = place - places2[other];
                let square = between.square();
                if square < CUTOFF * CUTOFF {
                    let (e, force) = mixes[usize::from(kinds2[other])].at(square);
                    let force = between * force;
                    energy += e;
                    sum += force;
                    forces2[other] -= force;
                }
            }
            forces[at] += sum;
            from = *end;
        }
        energy
    }

    /// The pairs within a cell.
    pub(super) fn act_within(&self, mixes: &Mixes, kinds: &[u8], places: &[V3], forces: &mut [V3]) -> f64 {
        let forces = &mut forces[..places.len()];
        let kinds = &kinds[..places.len()];
        let mut energy = 0.0;
        let mut from = 0;
        for (at, end) in self.ends.iter().enumerate() {
            let (place, mixes) = (places[at], &mixes[usize::from(kinds[at])]);
            let mut sum = V3::ZERO;
            for other in &self.others[from as usize..*end as usize] {
                let other = usize::from(*other);
                let between = place - places[other];
                let square = between.square();
                if square < CUTOFF * CUTOFF {
                    let (e, force) = mixes[usize::from(kinds[other])].at(square);
                    let force = between * force;
                    energy += e;
                    sum += force;
                    forces[other] -= force;
                }
            }
            forces[at] += sum;
            from = *end;
        }
        energy
    }

    #[cfg(test)]
    pub(super) fn pairs(&self) -> usize {
        self.others.len()
    }
}

fn bounds(places: &[V3]) -> (V3, V3) {
    let none = (V3::ZERO.map(|_| f64::INFINITY), V3::ZERO.map(|_| f64::NEG_INFINITY));
    places.iter().fold(none, |(low, high), place| (low.zip(*place, f64::min), high.zip(*place, f64::max)))
}

/// The lists of a cell: one within the cell, and one for each of the cells forward.
#[derive(Clone, Debug)]
pub(super) struct Lists {
    pub(super) within: List,
    pub(super) forward: [List; 13],
}

impl Lists {
    /// Of a cell, and of those forward.
    pub(super) fn new(chain: &Chain, own: &View, forward: &[(View, V3); 13]) -> Self {
        Self {
            within: List::between(chain, own, None),
            forward: std::array::from_fn(|at| {
                let (view, shift) = &forward[at];
                List::between(chain, own, Some((view, *shift)))
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn around_a_cell_are_26_others_each_once() {
        for side in [Grid::LEAST, 90.0] {
            let grid = Grid::new(side);
            for cell in 0..grid.cells() {
                let mut around: Vec<_> = grid.forward(cell).map(|(to, _)| to).into();
                around.extend(grid.backward(cell));
                for (at, (to, _)) in grid.forward(cell).into_iter().enumerate() {
                    assert_eq!(grid.backward(to)[at], cell);
                }
                around.sort_unstable();
                around.dedup();
                assert_eq!((around.len(), around.contains(&cell)), (26, false));
            }
        }
    }

    #[test]
    fn places_are_in_their_cells() {
        let grid = Grid::new(50.0);
        let place = grid.wrapped(V3::new(-0.1, 50.0, 124.0));
        assert!(place.0.iter().all(|x| (0.0..50.0).contains(x)), "{place:?}");
        assert!(grid.of(place) < grid.cells());
    }
}
