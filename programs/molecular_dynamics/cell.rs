//! A cell: its atoms, and the forces on them. An object that one process owns. Threads of all processes call its
//! methods through references. The version with rayon calls them plainly.

use std::sync::Arc;

use chanter_objects::{ObjectError, Ref, object};
use serde::{Deserialize, Serialize};

use super::cells::{Grid, Lists, Members, View};
use super::model::{Chain, Kind};
use super::{Energy, Motion, shake};
use crate::kit::{Original, V3};

/// An atom that goes to another cell.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Moved {
    pub(super) atom: u32,
    pub(super) place: V3,
    pub(super) speed: V3,
}

/// Forces on some of the atoms of a cell, by their indices there.
pub(super) type Few = Vec<(u32, V3)>;

/// The version of a cell's copy: how often atoms were assigned to cells, and how often they have moved.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Version {
    pub(super) assigned: u32,
    pub(super) moved: u32,
}

/// A part of space.
#[derive(Debug)]
pub(super) struct Cell {
    number: usize,
    grid: Grid,
    chain: Arc<Chain>,
    view: View,
    speeds: Vec<V3>,
    masses: Vec<f64>,
    /// Where its atoms were when the lists were made.
    listed: Vec<V3>,
    lists: Option<Arc<Lists>>,
    /// Forces from the cell itself, and from the 13 cells behind it. Each has a place, so that their sum does not
    /// depend on the order in which they come.
    forces: [Vec<V3>; 14],
    /// From segments of the chain.
    bonded: Vec<(u32, Few)>,
    potential: f64,
}

impl Cell {
    pub(super) fn new(number: usize, grid: Grid, chain: Arc<Chain>) -> Self {
        Self {
            number,
            grid,
            chain,
            view: View::default(),
            speeds: Vec::new(),
            masses: Vec::new(),
            listed: Vec::new(),
            lists: None,
            forces: Default::default(),
            bonded: Vec::new(),
            potential: 0.0,
        }
    }

    fn kick(&mut self, motion: Motion) {
        let half = 0.5 * motion.step;
        for (at, speed) in self.speeds.iter_mut().enumerate() {
            *speed += self.forces[0][at] * (half / self.masses[at]);
        }
    }

    /// Adds up the forces that have come, in an order that is always the same.
    fn add_up(&mut self) {
        let (sum, others) = self.forces.split_at_mut(1);
        for from in others {
            for (sum, force) in sum[0].iter_mut().zip(&*from) {
                *sum += *force;
            }
            from.clear();
        }
        self.bonded.sort_unstable_by_key(|(segment, _)| *segment);
        for (_, few) in self.bonded.drain(..) {
            few.into_iter().for_each(|(at, force)| sum[0][at as usize] += force);
        }
    }
}

#[object(remote, name = CellRef)]
impl Cell {
    /// For a copy: where its atoms are; and which they are, if they are new to the copy.
    #[method(read)]
    pub(super) fn news(&self, are_new: bool) -> (Option<Members>, Vec<V3>) {
        (are_new.then(|| Members::clone(&self.view.members)), self.view.places.to_vec())
    }

    /// Its atoms.
    #[method(read, local)]
    pub(super) fn view(&self) -> View {
        self.view.clone()
    }

    #[method(read, local)]
    pub(super) fn lists(&self) -> Option<Arc<Lists>> {
        self.lists.clone()
    }

    /// Lists for where its atoms are now.
    #[method(mut, local)]
    pub(super) fn list(&mut self, lists: Lists) {
        self.listed.clone_from(&self.view.places);
        self.lists = Some(Arc::new(lists));
    }

    /// The forces that it has found itself.
    #[method(mut, local)]
    pub(super) fn act(&mut self, forces: Vec<V3>, potential: f64) {
        self.forces[0] = forces;
        self.potential = potential;
    }

    /// The forces that the cell behind it, in that direction, has found.
    #[method(mut)]
    pub(super) fn react(&mut self, direction: usize, forces: Vec<V3>) {
        self.forces[1 + direction] = forces;
    }

    /// The forces that a segment of the chain has found.
    #[method(mut)]
    pub(super) fn bond(&mut self, segment: u32, forces: Few) {
        self.bonded.push((segment, forces));
    }

    /// The first half of a step. Returns the square of how far an atom has come since the lists were made.
    #[method(mut, local)]
    pub(super) fn start(&mut self, motion: Motion) -> f64 {
        self.kick(motion);
        // Nobody looks now, so nothing is copied.
        let places = Arc::make_mut(&mut self.view.places);
        let waters = self.view.members.chain;
        let before = if motion.is_rigid { places[waters..].to_vec() } else { Vec::new() };
        places.iter_mut().zip(&self.speeds).for_each(|(place, speed)| *place += *speed * motion.step);
        if motion.is_rigid {
            shake::mend_places(&before, &mut places[waters..], &mut self.speeds[waters..], motion.step);
        }
        let moved = places.iter().zip(&self.listed).map(|(place, listed)| (*place - *listed).square());
        moved.fold(0.0, f64::max)
    }

    /// All forces have come.
    #[method(mut, local)]
    pub(super) fn add(&mut self) -> Energy {
        self.add_up();
        self.energy()
    }

    /// The second half of a step.
    #[method(mut, local)]
    pub(super) fn finish(&mut self, motion: Motion) -> Energy {
        self.add_up();
        self.kick(motion);
        if motion.is_rigid {
            let waters = self.view.members.chain;
            shake::mend_speeds(&self.view.places[waters..], &mut self.speeds[waters..]);
        }
        self.energy()
    }

    /// The cell's energy, without the energy of the chain's bonds.
    #[method(read, local)]
    pub(super) fn energy(&self) -> Energy {
        let kinetic = self.speeds.iter().zip(&self.masses).map(|(speed, mass)| 0.5 * mass * speed.square());
        Energy { potential: self.potential, kinetic: kinetic.sum() }
    }

    /// Atoms that belong to other cells now, with these cells.
    #[method(mut, local)]
    pub(super) fn depart(&mut self) -> Vec<(usize, Vec<Moved>)> {
        let mut departed: Vec<(usize, Vec<Moved>)> = Vec::new();
        let mut stay = Vec::new();
        for group in self.view.members.groups() {
            let first = self.view.places[group.start];
            let wrapped = self.grid.wrapped(first);
            let to = self.grid.of(wrapped);
            let by = wrapped - first;
            let moved = group.clone().map(|at| Moved {
                atom: self.view.members.atoms[at],
                // The place is exactly that of the first atom, as for all others that wrap it.
                place: if at == group.start { wrapped } else { self.view.places[at] + by },
                speed: self.speeds[at],
            });
            if to == self.number {
                stay.extend(moved);
                continue;
            }
            match departed.iter_mut().find(|(cell, _)| *cell == to) {
                Some((_, list)) => list.extend(moved),
                None => departed.push((to, moved.collect())),
            }
        }
        self.settle(stay);
        departed
    }

    /// Atoms from other cells.
    #[method(mut)]
    pub(super) fn arrive(&mut self, arrived: Vec<Moved>) {
        if !arrived.is_empty() {
            let mut all = self.moved();
            all.extend(arrived);
            self.settle(all);
        }
    }

    /// All that it has.
    #[method(read)]
    pub(super) fn moved(&self) -> Vec<Moved> {
        let atoms = self.view.members.atoms.iter().enumerate();
        atoms
            .map(|(at, atom)| Moved { atom: *atom, place: self.view.places[at], speed: self.speeds[at] })
            .collect()
    }
}

impl Cell {
    /// Has these atoms from now on.
    fn settle(&mut self, mut all: Vec<Moved>) {
        all.sort_unstable_by_key(|moved| moved.atom);
        let members = Members::new(all.iter().map(|moved| moved.atom).collect(), &self.chain);
        self.masses = members.kinds.iter().map(|kind| Kind::ALL[usize::from(*kind)].mass()).collect();
        self.view = View {
            members: Arc::new(members),
            places: Arc::new(all.iter().map(|moved| moved.place).collect()),
        };
        self.speeds = all.iter().map(|moved| moved.speed).collect();
        self.forces = std::array::from_fn(|_| Vec::new());
        self.forces[0] = vec![V3::ZERO; all.len()];
    }
}

/// A copy has the places of a version, and the atoms of an assignment.
impl Original for Cell {
    type Version = Version;
    type View = View;

    /// A cell changes in no phase in which others read it, so it has the version that is asked for.
    fn at(&self, _: Version) -> &View {
        &self.view
    }

    async fn fetch(cell: Ref<Self>, view: &mut View, from: Version, to: Version) -> Result<(), ObjectError> {
        let (members, places) = cell.news(from.assigned != to.assigned).await?;
        view.places = Arc::new(places);
        if let Some(members) = members {
            view.members = Arc::new(members);
        }
        Ok(())
    }
}
