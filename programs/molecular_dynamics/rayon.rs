//! The same cells, without objects: rayon divides loops over them.

use std::sync::{Arc, Mutex, PoisonError};

use ::rayon::prelude::*;

use super::bonds;
use super::cell::{Cell, Few, Moved};
use super::cells::{Grid, Lists, View};
use super::model::{Chain, Mixes, SKIN, System, mixes};
use super::serial::assigned;
use super::{Energy, Motion, Outcome};
use crate::kit::V3;

struct World {
    grid: Grid,
    mixes: Mixes,
    chain: Arc<Chain>,
    cells: Vec<Cell>,
    homes: Vec<(u32, u32)>,
}

/// Result of one cell: its own forces, and those on the cells forward.
type Found = (Vec<V3>, f64, [Mutex<Vec<V3>>; 13]);

impl World {
    fn views(&self) -> Vec<View> {
        self.cells.iter().map(Cell::view).collect()
    }

    fn assign(&mut self) {
        let departed: Vec<_> = self.cells.par_iter_mut().map(Cell::depart).collect();
        let mut arrivals: Vec<Vec<Moved>> = vec![Vec::new(); self.cells.len()];
        for (to, atoms) in departed.into_iter().flatten() {
            arrivals[to].extend(atoms);
        }
        self.cells.par_iter_mut().zip(arrivals).for_each(|(cell, arrived)| cell.arrive(arrived));
        let (views, grid, chain) = (self.views(), self.grid, Arc::clone(&self.chain));
        let lists: Vec<Lists> = (0..views.len())
            .into_par_iter()
            .map(|number| {
                let forward = grid.forward(number).map(|(to, shift)| (views[to].clone(), shift));
                Lists::new(&chain, &views[number], &forward)
            })
            .collect();
        drop(views);
        self.cells.par_iter_mut().zip(lists).for_each(|(cell, lists)| cell.list(lists));
        self.homes = vec![(0, 0); self.chain.kinds.len()];
        for (number, view) in self.views().into_iter().enumerate() {
            for (at, atom) in view.members.atoms[..view.members.chain].iter().enumerate() {
                self.homes[*atom as usize] = (number as u32, at as u32);
            }
        }
    }

    fn act(&self, number: usize, views: &[View]) -> Found {
        let view = &views[number];
        let lists = self.cells[number].lists().expect("lists are made first");
        let (kinds, places) = (&view.members.kinds, &view.places);
        let mut forces = vec![V3::ZERO; places.len()];
        let mut energy = lists.within.act_within(&self.mixes, kinds, places, &mut forces);
        let forward = self.grid.forward(number);
        let reactions = std::array::from_fn(|direction| {
            let (to, shift) = forward[direction];
            let other = &views[to];
            let mut reaction = vec![V3::ZERO; other.places.len()];
            energy += lists.forward[direction].act(
                &self.mixes,
                (kinds, places, &mut forces),
                (&other.members.kinds, &other.places, &mut reaction),
                shift,
            );
            Mutex::new(reaction)
        });
        let chain = view.members.chain;
        energy += bonds::waters(&places[chain..], &mut forces[chain..]);
        (forces, energy, reactions)
    }

    /// A segment's energy, and its forces by cells.
    fn bond(&self, number: usize, views: &[View]) -> (f64, Vec<(u32, Few)>) {
        let segment = &self.chain.segments[number];
        let of = |atom: u32| segment.atoms.binary_search(&atom).expect("a segment knows its atoms");
        let mut forces = vec![V3::ZERO; segment.atoms.len()];
        let potential = bonds::segment(
            segment,
            self.grid.side,
            (&self.mixes, &self.chain.kinds),
            |atom| {
                let (cell, at) = self.homes[atom as usize];
                views[cell as usize].places[at as usize]
            },
            |atom, force| forces[of(atom)] += force,
        );
        let mut by_cell: Vec<(u32, Few)> = Vec::new();
        for (atom, force) in segment.atoms.iter().zip(forces) {
            let (cell, at) = self.homes[*atom as usize];
            match by_cell.iter_mut().find(|(known, _)| *known == cell) {
                Some((_, few)) => few.push((at, force)),
                None => by_cell.push((cell, vec![(at, force)])),
            }
        }
        (potential, by_cell)
    }

    fn forces(&mut self) -> f64 {
        let views = self.views();
        let (found, bonded) = ::rayon::join(
            || {
                let cells = (0..views.len()).into_par_iter();
                cells.map(|number| self.act(number, &views)).collect::<Vec<Found>>()
            },
            || {
                let segments = (0..self.chain.segments.len()).into_par_iter();
                segments.map(|number| self.bond(number, &views)).collect::<Vec<_>>()
            },
        );
        drop(views);
        let grid = self.grid;
        let take =
            |slot: &Mutex<Vec<V3>>| std::mem::take(&mut *slot.lock().unwrap_or_else(PoisonError::into_inner));
        let own: Vec<(Vec<V3>, f64)>;
        let reactions: Vec<[Mutex<Vec<V3>>; 13]>;
        (own, reactions) = found.into_iter().map(|(forces, energy, on)| ((forces, energy), on)).unzip();
        self.cells.par_iter_mut().zip(own).enumerate().for_each(|(number, (cell, (forces, energy)))| {
            cell.act(forces, energy);
            for (direction, from) in grid.backward(number).into_iter().enumerate() {
                cell.react(direction, take(&reactions[from][direction]));
            }
        });
        let mut potential = 0.0;
        for (segment, (energy, by_cell)) in bonded.into_iter().enumerate() {
            potential += energy;
            for (cell, few) in by_cell {
                self.cells[cell as usize].bond(segment as u32, few);
            }
        }
        potential
    }
}

pub(super) fn run(system: &System, motion: Motion) -> Outcome {
    let (grid, chain) = (Grid::new(system.side), Arc::new(system.chain.clone()));
    let (places, members) = assigned(system, grid, system.places.clone());
    let cells = members.into_iter().enumerate().map(|(number, members)| {
        let mut cell = Cell::new(number, grid, Arc::clone(&chain));
        let of =
            |atom: u32| Moved { atom, place: places[atom as usize], speed: system.speeds[atom as usize] };
        cell.arrive(members.atoms.into_iter().map(of).collect());
        cell
    });
    let cells = cells.collect();
    let mut world = World { grid, mixes: mixes(), chain, cells, homes: Vec::new() };
    world.assign();
    let sum = |energies: Vec<Energy>, bonded| {
        energies.into_iter().fold(Energy::default(), Energy::and).and(Energy::of_bonds(bonded))
    };
    let bonded = world.forces();
    let all = world.cells.par_iter_mut().map(Cell::add).collect();
    let mut energies = vec![sum(all, bonded)];
    for _ in 0..motion.steps {
        let farthest = world.cells.par_iter_mut().map(|cell| cell.start(motion)).reduce(|| 0.0, f64::max);
        if farthest > 0.25 * SKIN * SKIN {
            world.assign();
        }
        let bonded = world.forces();
        let all = world.cells.par_iter_mut().map(|cell| cell.finish(motion)).collect();
        energies.push(sum(all, bonded));
    }
    let mut outcome = Outcome::new(system, energies);
    world.cells.iter().for_each(|cell| outcome.take(cell.moved()));
    outcome
}
