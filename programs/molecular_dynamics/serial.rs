//! One cell after the other, in arrays for all of them.

use std::ops::Range;
use std::sync::Arc;

use super::bonds;
use super::cells::{Grid, Lists, Members, View};
use super::model::{Mixes, SKIN, System, mixes};
use super::{Energy, Motion, Outcome, shake};
use crate::kit::V3;

/// Everything, in the order of cells.
pub(super) struct Serial<'a> {
    system: &'a System,
    grid: Grid,
    mixes: Mixes,
    members: Vec<Members>,
    ranges: Vec<Range<usize>>,
    lists: Vec<Lists>,
    atoms: Vec<u32>,
    kinds: Vec<u8>,
    masses: Vec<f64>,
    places: Vec<V3>,
    speeds: Vec<V3>,
    forces: Vec<V3>,
    /// Where they were when the lists were made.
    listed: Vec<V3>,
    /// Where the chain's atoms are.
    chain: Vec<usize>,
    potential: f64,
}

impl<'a> Serial<'a> {
    pub(super) fn new(system: &'a System) -> Self {
        let mut serial = Self {
            system,
            grid: Grid::new(system.side),
            mixes: mixes(),
            members: Vec::new(),
            ranges: Vec::new(),
            lists: Vec::new(),
            atoms: (0..system.atoms() as u32).collect(),
            kinds: Vec::new(),
            masses: Vec::new(),
            places: system.places.clone(),
            speeds: system.speeds.clone(),
            forces: Vec::new(),
            listed: Vec::new(),
            chain: Vec::new(),
            potential: 0.0,
        };
        serial.assign();
        serial.act();
        serial
    }

    /// Assigns atoms to cells, and makes the lists.
    fn assign(&mut self) {
        let (places, speeds) = self.in_order();
        let (places, members) = assigned(self.system, self.grid, places);
        self.members = members;
        (self.ranges, self.atoms, self.kinds) = Default::default();
        for cell in &self.members {
            let from = self.atoms.len();
            self.atoms.extend(&cell.atoms);
            self.kinds.extend(&cell.kinds);
            self.ranges.push(from..self.atoms.len());
        }
        self.places = self.atoms.iter().map(|atom| places[*atom as usize]).collect();
        self.speeds = self.atoms.iter().map(|atom| speeds[*atom as usize]).collect();
        self.masses = self.atoms.iter().map(|atom| self.system.kind(*atom as usize).mass()).collect();
        self.forces = vec![V3::ZERO; self.atoms.len()];
        self.listed.clone_from(&self.places);
        self.chain = vec![0; self.system.chain_atoms()];
        for (at, atom) in self.atoms.iter().enumerate() {
            if let Some(place) = self.chain.get_mut(*atom as usize) {
                *place = at;
            }
        }
        let views: Vec<View> = std::iter::zip(&self.members, &self.ranges)
            .map(|(members, range)| View {
                members: Arc::new(members.clone()),
                places: Arc::new(self.places[range.clone()].to_vec()),
            })
            .collect();
        self.lists = (0..self.grid.cells())
            .map(|cell| {
                let forward = self.grid.forward(cell).map(|(to, shift)| (views[to].clone(), shift));
                Lists::new(&self.system.chain, &views[cell], &forward)
            })
            .collect();
    }

    /// By number.
    fn in_order(&self) -> (Vec<V3>, Vec<V3>) {
        let mut all = (vec![V3::ZERO; self.places.len()], vec![V3::ZERO; self.places.len()]);
        for (at, atom) in self.atoms.iter().enumerate() {
            all.0[*atom as usize] = self.places[at];
            all.1[*atom as usize] = self.speeds[at];
        }
        all
    }

    /// The forces, by number.
    #[cfg(test)]
    pub(super) fn forces(&self) -> Vec<V3> {
        let mut forces = vec![V3::ZERO; self.places.len()];
        for (at, atom) in self.atoms.iter().enumerate() {
            forces[*atom as usize] = self.forces[at];
        }
        forces
    }

    fn act(&mut self) {
        self.forces.fill(V3::ZERO);
        let mut potential = 0.0;
        for (cell, lists) in self.lists.iter().enumerate() {
            let own = self.ranges[cell].clone();
            let (kinds, places) = (&self.kinds[own.clone()], &self.places[own.clone()]);
            potential += lists.within.act_within(&self.mixes, kinds, places, &mut self.forces[own.clone()]);
            for (list, (to, shift)) in lists.forward.iter().zip(self.grid.forward(cell)) {
                let there = self.ranges[to].clone();
                // No cell is forward of itself, and none is empty and elsewhere at once.
                let (forces, forces2) = both(&mut self.forces, own.clone(), there.clone());
                let other = (&self.kinds[there.clone()], &self.places[there], forces2);
                potential += list.act(&self.mixes, (kinds, places, forces), other, shift);
            }
            let waters = own.start + self.members[cell].chain..own.end;
            potential += bonds::waters(&self.places[waters.clone()], &mut self.forces[waters]);
        }
        for segment in &self.system.chain.segments {
            let (places, at, forces) = (&self.places, &self.chain, &mut self.forces);
            potential += bonds::segment(
                segment,
                self.system.side,
                (&self.mixes, &self.system.chain.kinds),
                |atom| places[at[atom as usize]],
                |atom, force| forces[at[atom as usize]] += force,
            );
        }
        self.potential = potential;
    }

    pub(super) fn step(&mut self, motion: Motion) {
        let half = 0.5 * motion.step;
        let before = if motion.is_rigid { self.places.clone() } else { Vec::new() };
        for at in 0..self.places.len() {
            self.speeds[at] += self.forces[at] * (half / self.masses[at]);
            self.places[at] += self.speeds[at] * motion.step;
        }
        if motion.is_rigid {
            for waters in self.waters() {
                let (places, speeds) = (&mut self.places[waters.clone()], &mut self.speeds[waters.clone()]);
                shake::mend_places(&before[waters], places, speeds, motion.step);
            }
        }
        let moved = self.places.iter().zip(&self.listed).map(|(place, listed)| (*place - *listed).square());
        let farthest = moved.fold(0.0, f64::max);
        if farthest > 0.25 * SKIN * SKIN {
            self.assign();
        }
        self.act();
        for at in 0..self.places.len() {
            self.speeds[at] += self.forces[at] * (half / self.masses[at]);
        }
        if motion.is_rigid {
            for waters in self.waters() {
                shake::mend_speeds(&self.places[waters.clone()], &mut self.speeds[waters]);
            }
        }
    }

    /// Where the waters of each cell are.
    fn waters(&self) -> Vec<Range<usize>> {
        let cells = self.members.iter().zip(&self.ranges);
        cells.map(|(members, range)| range.start + members.chain..range.end).collect()
    }

    /// Downhill: each atom by at most `most`.
    pub(super) fn relax(&mut self, most: f64) {
        let mut farthest = 0.0_f64;
        for at in 0..self.places.len() {
            let force = self.forces[at];
            let by = (2e-4_f64).min(most / force.length().max(1e-9));
            self.places[at] += force * by;
            farthest = farthest.max((self.places[at] - self.listed[at]).square());
        }
        if farthest > 0.25 * SKIN * SKIN {
            self.assign();
        }
        self.act();
    }

    pub(super) fn energy(&self) -> Energy {
        let kinetic = self.speeds.iter().zip(&self.masses).map(|(speed, mass)| 0.5 * mass * speed.square());
        Energy { potential: self.potential, kinetic: kinetic.sum() }
    }

    /// Makes all faster.
    pub(super) fn scale(&mut self, by: f64) {
        self.speeds.iter_mut().for_each(|speed| *speed = *speed * by);
    }

    #[cfg(test)]
    pub(super) fn pairs(&self) -> usize {
        let of = |lists: &Lists| {
            lists.within.pairs() + lists.forward.iter().map(|list| list.pairs()).sum::<usize>()
        };
        self.lists.iter().map(of).sum()
    }

    pub(super) fn state(&self) -> (Vec<V3>, Vec<V3>) {
        self.in_order()
    }
}

/// Two parts of a slice that do not overlap.
fn both(all: &mut [V3], one: Range<usize>, other: Range<usize>) -> (&mut [V3], &mut [V3]) {
    if one.end <= other.start {
        let (left, right) = all.split_at_mut(one.end);
        (&mut left[one.clone()], &mut right[other.start - one.end..other.end - one.end])
    } else {
        let (left, right) = all.split_at_mut(other.end);
        let one = one.start - other.end..one.end - other.end;
        (&mut right[one], &mut left[other])
    }
}

/// The atoms of each cell, and the wrapped places of all.
pub(super) fn assigned(system: &System, grid: Grid, mut places: Vec<V3>) -> (Vec<V3>, Vec<Members>) {
    let mut cells = vec![Vec::new(); grid.cells()];
    let chain = system.chain_atoms();
    for atom in 0..chain {
        places[atom] = grid.wrapped(places[atom]);
        cells[grid.of(places[atom])].push(atom as u32);
    }
    for water in (chain..places.len()).step_by(3) {
        // All three as the oxygen.
        let oxygen = grid.wrapped(places[water]);
        let by = oxygen - places[water];
        places[water] = oxygen;
        places[water + 1] += by;
        places[water + 2] += by;
        cells[grid.of(oxygen)].extend([water as u32, water as u32 + 1, water as u32 + 2]);
    }
    let members = cells.into_iter().map(|atoms| Members::new(atoms, &system.chain)).collect();
    (places, members)
}

pub(super) fn run(system: &System, motion: Motion) -> Outcome {
    let mut serial = Serial::new(system);
    let mut energies = vec![serial.energy()];
    for _ in 0..motion.steps {
        serial.step(motion);
        energies.push(serial.energy());
    }
    let (places, speeds) = serial.state();
    Outcome { side: system.side, places, speeds, energies }
}
