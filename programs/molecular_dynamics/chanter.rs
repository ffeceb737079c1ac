//! A cell is an object. Each step's work is a thread for each cell. The thread takes its input from the objects
//! around, computes, and calls them with its results. The chain's segments are threads, too.

use std::ops::Range;
use std::sync::Arc;

use chanter_objects::{ObjectError, Owner, Ref, conc, object};

use super::bonds;
use super::cell::{Cell, Few, Moved};
use super::cells::{Grid, Lists, View};
use super::model::{Chain, Mixes, SKIN, System, mixes};
use super::serial::assigned;
use super::{Energy, Motion, Outcome};
use crate::kit::{Threads, V3, each};

/// State that all threads share.
pub(super) struct World {
    pub(super) grid: Grid,
    pub(super) mixes: Mixes,
    pub(super) chain: Arc<Chain>,
    pub(super) cells: Vec<Ref<Cell>>,
    pub(super) tally: Ref<Tally>,
    pub(super) threads: Threads,
}

/// Results of the threads of a phase, by their numbers.
#[derive(Debug, Default)]
pub(super) struct Tally {
    energies: Vec<Energy>,
    farthest: f64,
    noted: usize,
}

#[object]
impl Tally {
    #[method(mut)]
    pub(super) fn note(&mut self, cell: usize, energy: Energy) {
        self.noted += 1;
        if self.energies.len() <= cell {
            self.energies.resize(cell + 1, Energy::default());
        }
        self.energies[cell] = energy;
    }

    #[method(mut)]
    pub(super) fn note_far(&mut self, farthest: f64) {
        self.noted += 1;
        self.farthest = self.farthest.max(farthest);
    }

    /// Results of a number of threads.
    #[method(mut)]
    pub(super) fn take_all(&mut self, threads: usize) -> Vec<Energy> {
        assert_eq!(std::mem::take(&mut self.noted), threads, "each thread has noted what it found");
        std::mem::take(&mut self.energies)
    }

    /// For a number of threads. (One that panics has noted nothing.)
    #[method(mut)]
    pub(super) fn take(&mut self, threads: usize) -> (Energy, f64) {
        assert_eq!(std::mem::take(&mut self.noted), threads, "each thread has noted what it found");
        let sum = self.energies.drain(..).fold(Energy::default(), Energy::and);
        (sum, std::mem::take(&mut self.farthest))
    }
}

/// Where the chain's atoms are: a cell, and an index there.
pub(super) type Homes = Arc<Vec<(u32, u32)>>;

/// The forces of a cell.
async fn act(world: Arc<World>, number: usize) -> Result<(), ObjectError> {
    let own = world.cells[number];
    conc! { view = own.view(), lists = own.lists() }
    let (view, lists) = (view?, lists?.expect("lists are made first"));
    let (kinds, places) = (&view.members.kinds, &view.places);
    let mut forces = vec![V3::ZERO; places.len()];
    let mut energy = lists.within.act_within(&world.mixes, kinds, places, &mut forces);
    for (direction, (to, shift)) in world.grid.forward(number).into_iter().enumerate() {
        let other = world.cells[to].view().await?;
        let mut reaction = vec![V3::ZERO; other.places.len()];
        energy += lists.forward[direction].act(
            &world.mixes,
            (kinds, places, &mut forces),
            (&other.members.kinds, &other.places, &mut reaction),
            shift,
        );
        world.cells[to].react(direction, reaction).await?;
    }
    let chain = view.members.chain;
    energy += bonds::waters(&places[chain..], &mut forces[chain..]);
    own.act(forces, energy).await
}

/// The forces of a segment of the chain.
async fn bond(world: Arc<World>, number: usize, homes: Homes) -> Result<(), ObjectError> {
    let segment = &world.chain.segments[number];
    let mut views: Vec<(u32, View, Few)> = Vec::new();
    let mut where_is = Vec::with_capacity(segment.atoms.len());
    for atom in &segment.atoms {
        let (cell, at) = homes[*atom as usize];
        let known = views.iter().position(|(known, ..)| *known == cell);
        let index = match known {
            Some(index) => index,
            None => {
                views.push((cell, world.cells[cell as usize].view().await?, Vec::new()));
                views.len() - 1
            }
        };
        where_is.push((index, at));
    }
    let of = |atom: u32| segment.atoms.binary_search(&atom).expect("a segment knows its atoms");
    let mut forces = vec![V3::ZERO; segment.atoms.len()];
    let potential = bonds::segment(
        segment,
        world.grid.side,
        (&world.mixes, &world.chain.kinds),
        |atom| {
            let (index, at) = where_is[of(atom)];
            views[index].1.places[at as usize]
        },
        |atom, force| forces[of(atom)] += force,
    );
    for ((index, at), force) in where_is.into_iter().zip(forces) {
        views[index].2.push((at, force));
    }
    for (cell, view, few) in views {
        drop(view);
        world.cells[cell as usize].bond(number as u32, few).await?;
    }
    world.tally.note(number, Energy { potential, kinetic: 0.0 }).await
}

/// The forces of some cells and segments; the energies of these segments.
pub(super) async fn forces_of(
    world: &Arc<World>,
    homes: &Homes,
    cells: Range<usize>,
    segments: Range<usize>,
) -> Result<Vec<f64>, ObjectError> {
    // Cells first: they are the longer ones.
    let (count, all) = (cells.len(), cells.len() + segments.len());
    each(world.threads, all, world, |world, number| {
        let homes = Arc::clone(homes);
        let (first, first_segment) = (cells.start, segments.start);
        async move {
            match number.checked_sub(count) {
                None => act(world, first + number).await,
                Some(at) => bond(world, first_segment + at, homes).await,
            }
        }
    })
    .await;
    let energies = world.tally.take_all(segments.len()).await?;
    Ok(segments.map(|segment| energies[segment].potential).collect())
}

/// All forces; the energy of the chain's bonds.
async fn forces(world: &Arc<World>, homes: &Homes) -> Result<f64, ObjectError> {
    let (cells, segments) = (world.cells.len(), world.chain.segments.len());
    Ok(forces_of(world, homes, 0..cells, 0..segments).await?.into_iter().sum())
}

/// Lists for a cell, and those forward of it, where they are now.
pub(super) async fn list(world: Arc<World>, number: usize) -> Result<(), ObjectError> {
    let own = world.cells[number].view().await?;
    let mut forward = Vec::with_capacity(13);
    for (to, shift) in world.grid.forward(number) {
        forward.push((world.cells[to].view().await?, shift));
    }
    let forward: [(View, V3); 13] = forward.try_into().expect("there are 13");
    let lists = Lists::new(&world.chain, &own, &forward);
    drop((own, forward));
    world.cells[number].list(lists).await
}

/// Where the chain's atoms are now.
pub(super) async fn homes_of(world: &World) -> Result<Homes, ObjectError> {
    let mut homes = vec![(0, 0); world.chain.kinds.len()];
    for (number, cell) in world.cells.iter().enumerate() {
        let view = cell.view().await?;
        for (at, atom) in view.members.atoms[..view.members.chain].iter().enumerate() {
            homes[*atom as usize] = (number as u32, at as u32);
        }
    }
    Ok(Arc::new(homes))
}

/// Atoms go where they belong, and lists are made.
async fn assign(world: &Arc<World>) -> Result<Homes, ObjectError> {
    let count = world.cells.len();
    each(world.threads, count, world, async |world: Arc<World>, number| {
        let departed = world.cells[number].depart().await?;
        for (to, atoms) in departed {
            world.cells[to].arrive(atoms).await?;
        }
        Ok(())
    })
    .await;
    each(world.threads, count, world, list).await;
    homes_of(world).await
}

pub(super) async fn run(system: &System, motion: Motion) -> Result<Outcome, ObjectError> {
    let (grid, chain) = (Grid::new(system.side), Arc::new(system.chain.clone()));
    let owners: Vec<_> =
        (0..grid.cells()).map(|number| Owner::new(Cell::new(number, grid, Arc::clone(&chain)))).collect();
    let tally = Owner::new(Tally::default());
    let world = Arc::new(World {
        grid,
        mixes: mixes(),
        chain,
        cells: owners.iter().map(Owner::reference).collect(),
        tally: tally.reference(),
        threads: Threads::Stack,
    });
    let (places, members) = assigned(system, grid, system.places.clone());
    for (cell, members) in world.cells.iter().zip(members) {
        let of = |atom: &u32| Moved {
            atom: *atom,
            place: places[*atom as usize],
            speed: system.speeds[*atom as usize],
        };
        cell.arrive(members.atoms.iter().map(of).collect()).await?;
    }
    let mut homes = assign(&world).await?;
    let mut bonded = forces(&world, &homes).await?;
    each(world.threads, grid.cells(), &world, async |world: Arc<World>, number| {
        let energy = world.cells[number].add().await?;
        world.tally.note(number, energy).await
    })
    .await;
    let mut energies = vec![tally.reference().take(grid.cells()).await?.0.and(Energy::of_bonds(bonded))];
    for _ in 0..motion.steps {
        each(world.threads, grid.cells(), &world, move |world: Arc<World>, number| async move {
            let farthest = world.cells[number].start(motion).await?;
            world.tally.note_far(farthest).await
        })
        .await;
        if world.tally.take(grid.cells()).await?.1 > 0.25 * SKIN * SKIN {
            homes = assign(&world).await?;
        }
        bonded = forces(&world, &homes).await?;
        each(world.threads, grid.cells(), &world, move |world: Arc<World>, number| async move {
            let energy = world.cells[number].finish(motion).await?;
            world.tally.note(number, energy).await
        })
        .await;
        energies.push(world.tally.take(grid.cells()).await?.0.and(Energy::of_bonds(bonded)));
    }
    let mut outcome = Outcome::new(system, energies);
    for cell in &world.cells {
        outcome.take(cell.moved().await?);
    }
    Ok(outcome)
}
