//! A cell is an object. Each step's work is a thread for each cell. The thread reads the cells around, computes, and
//! calls them with its results. The chain's segments are threads, too, and so is each term of a segment: it reads the
//! places of two to four atoms.

use std::ops::Range;
use std::sync::Arc;

use chanter_cluster::group::Group;
use chanter_objects::{ObjectError, Owner, Ref, object};

use super::bonds::{self, Term};
use super::cell::{Cell, Few, Moved, Version};
use super::cells::{Grid, Lists, View};
use super::model::{Chain, Mixes, SKIN, System, mixes};
use super::serial::assigned;
use super::{Energy, Motion, Outcome};
use crate::kit::{JobFailure, Place, Threads, V3, all, each};

/// State that all threads of a process share.
pub(super) struct World {
    pub(super) grid: Grid,
    pub(super) mixes: Mixes,
    pub(super) chain: Arc<Chain>,
    /// All cells.
    pub(super) cells: Vec<Place<Cell>>,
    /// Its own ones.
    pub(super) own: Range<usize>,
    /// The segments whose forces it computes.
    pub(super) segments: Range<usize>,
    pub(super) tally: Ref<Tally>,
    /// How threads, and accesses, are run.
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
    fn note(&mut self, number: usize, energy: Energy) {
        self.noted += 1;
        if self.energies.len() <= number {
            self.energies.resize(number + 1, Energy::default());
        }
        self.energies[number] = energy;
    }

    #[method(mut)]
    fn note_far(&mut self, farthest: f64) {
        self.noted += 1;
        self.farthest = self.farthest.max(farthest);
    }

    /// The results of a number of threads. (One that panics has noted nothing.)
    #[method(mut)]
    fn take(&mut self, threads: usize) -> (Vec<Energy>, f64) {
        assert_eq!(std::mem::take(&mut self.noted), threads, "each thread has noted what it found");
        (std::mem::take(&mut self.energies), std::mem::take(&mut self.farthest))
    }
}

/// Where the chain's atoms are: a cell, and an index there.
type Homes = Arc<Vec<(u32, u32)>>;

/// The energies before a step or after it: of each cell, and of each segment.
pub(super) type Energies = (Vec<Energy>, Vec<Energy>);

impl World {
    /// Reads a cell, as it is in a version.
    async fn read<R: Send + 'static>(
        &self,
        version: Version,
        number: usize,
        what: impl Fn(&View) -> R + Send + Sync + 'static,
    ) -> Result<R, ObjectError> {
        self.cells[number].read(self.threads, version, what).await
    }

    /// Reads several cells at a time.
    async fn views(
        self: &Arc<Self>,
        version: Version,
        cells: impl IntoIterator<Item = usize>,
    ) -> Result<Vec<View>, ObjectError> {
        let read = |number| {
            let world = Arc::clone(self);
            Box::pin(async move { world.read(version, number, View::clone).await })
        };
        all(self.threads, cells.into_iter().map(read)).await.into_iter().collect()
    }

    fn object(&self, cell: usize) -> Ref<Cell> {
        self.cells[cell].object()
    }
}

/// The forces of a cell.
async fn act(world: Arc<World>, number: usize, version: Version) -> Result<(), ObjectError> {
    let own = world.object(number);
    let forward = world.grid.forward(number);
    let lists = own.lists().await?.expect("lists are made first");
    let view = world.read(version, number, View::clone).await?;
    let others = world.views(version, forward.map(|(to, _)| to)).await?;
    let (kinds, places) = (&view.members.kinds, &view.places);
    let mut forces = vec![V3::ZERO; places.len()];
    let mut energy = lists.within.act_within(&world.mixes, kinds, places, &mut forces);
    let mut reactions = Vec::with_capacity(forward.len());
    for (direction, ((to, shift), other)) in forward.into_iter().zip(others).enumerate() {
        let mut reaction = vec![V3::ZERO; other.places.len()];
        energy += lists.forward[direction].act(
            &world.mixes,
            (kinds, places, &mut forces),
            (&other.members.kinds, &other.places, &mut reaction),
            shift,
        );
        let to = world.object(to);
        reactions.push(Box::pin(async move { to.react(direction, reaction).await }));
    }
    let chain = view.members.chain;
    energy += bonds::waters(&places[chain..], &mut forces[chain..]);
    drop(view);
    for done in all(world.threads, reactions).await {
        done?;
    }
    own.act(forces, energy).await
}

/// The energy of a term, and the forces on its atoms.
async fn act_together(
    world: Arc<World>,
    term: Term,
    homes: Homes,
    version: Version,
) -> Result<(f64, [V3; 4]), ObjectError> {
    let mut places = [V3::ZERO; 4];
    for (place, atom) in places.iter_mut().zip(term.atoms()) {
        let (cell, at) = homes[*atom as usize];
        *place = world.read(version, cell as usize, move |view| view.places[at as usize]).await?;
    }
    Ok(term.act(world.grid.side, (&world.mixes, &world.chain.kinds), &places))
}

/// The forces of a segment of the chain.
async fn bond(world: Arc<World>, number: usize, homes: Homes, version: Version) -> Result<(), ObjectError> {
    let segment = &world.chain.segments[number];
    let of = |atom: &u32| segment.atoms.binary_search(atom).expect("a segment knows its atoms");
    let mut forces = vec![V3::ZERO; segment.atoms.len()];
    let mut potential = 0.0;
    let threads = segment
        .terms()
        .map(|term| Box::pin(act_together(Arc::clone(&world), term, Arc::clone(&homes), version)));
    for (term, acted) in segment.terms().zip(all(world.threads, threads).await) {
        let (energy, on) = acted?;
        potential += energy;
        term.atoms().iter().zip(on).for_each(|(atom, force)| forces[of(atom)] += force);
    }
    let mut by_cell: Vec<(u32, Few)> = Vec::new();
    for (atom, force) in segment.atoms.iter().zip(forces) {
        let (cell, at) = homes[*atom as usize];
        match by_cell.iter_mut().find(|(known, _)| *known == cell) {
            Some((_, few)) => few.push((at, force)),
            None => by_cell.push((cell, vec![(at, force)])),
        }
    }
    let calls = by_cell.into_iter().map(|(cell, few)| {
        let cell = world.object(cell as usize);
        Box::pin(async move { cell.bond(number as u32, few).await })
    });
    for done in all(world.threads, calls).await {
        done?;
    }
    world.tally.note(number - world.segments.start, Energy { potential, kinetic: 0.0 }).await
}

/// Lists for a cell, and those forward of it, where they are now.
async fn list(world: Arc<World>, number: usize, version: Version) -> Result<(), ObjectError> {
    let own = world.read(version, number, View::clone).await?;
    let to = world.grid.forward(number);
    let views = world.views(version, to.map(|(to, _)| to)).await?;
    let forward: Vec<(View, V3)> = views.into_iter().zip(to.map(|(_, shift)| shift)).collect();
    let forward: [(View, V3); 13] = forward.try_into().expect("there are 13");
    let lists = Lists::new(&world.chain, &own, &forward);
    drop((own, forward));
    world.object(number).list(lists).await
}

/// A run, as one process sees it.
pub(super) struct Run {
    pub(super) world: Arc<World>,
    /// The processes, if there are several.
    pub(super) group: Option<Group>,
    motion: Motion,
    version: Version,
    homes: Homes,
}

impl Run {
    pub(super) fn new(world: Arc<World>, group: Option<Group>, motion: Motion) -> Self {
        Self { world, group, motion, version: Version::default(), homes: Homes::default() }
    }

    /// Runs a thread for each of its own cells.
    async fn each_cell<F>(&self, method: impl Fn(Arc<World>, usize) -> F)
    where
        F: Future<Output = Result<(), ObjectError>> + Send + 'static,
    {
        let first = self.world.own.start;
        each(self.world.threads, self.world.own.len(), &self.world, |world, at| method(world, first + at))
            .await;
    }

    /// Waits for the other processes. Returns the most of all.
    pub(super) async fn meet(&mut self, most: f64) -> Result<f64, JobFailure> {
        match &mut self.group {
            Some(group) => Ok(group.reduce(most, f64::max).await?),
            None => Ok(most),
        }
    }

    /// All steps. Returns the energies before the first, and after each.
    pub(super) async fn steps(&mut self) -> Result<Vec<Energies>, JobFailure> {
        let mut energies = Vec::with_capacity(self.motion.steps + 1);
        self.assign().await?;
        energies.push(self.act(false).await?);
        for _ in 0..self.motion.steps {
            if self.start().await? > 0.25 * SKIN * SKIN {
                self.assign().await?;
            }
            energies.push(self.act(true).await?);
        }
        Ok(energies)
    }

    /// Atoms go where they belong, and lists are made.
    async fn assign(&mut self) -> Result<(), JobFailure> {
        self.each_cell(async |world: Arc<World>, number| {
            for (to, atoms) in world.object(number).depart().await? {
                world.object(to).arrive(atoms).await?;
            }
            Ok(())
        })
        .await;
        self.meet(0.0).await?;
        self.version.assigned += 1;
        let version = self.version;
        self.each_cell(move |world, number| list(world, number, version)).await;
        let mut homes = vec![(0, 0); self.world.chain.kinds.len()];
        let views = self.world.views(version, 0..self.world.cells.len()).await?;
        for (number, view) in (0..).zip(&views) {
            for (at, atom) in (0..).zip(&view.members.atoms[..view.members.chain]) {
                homes[*atom as usize] = (number, at);
            }
        }
        self.homes = Arc::new(homes);
        Ok(())
    }

    /// The first half of a step. Returns the square of how far an atom of any process has come.
    async fn start(&mut self) -> Result<f64, JobFailure> {
        let motion = self.motion;
        self.each_cell(move |world: Arc<World>, number| async move {
            let farthest = world.object(number).start(motion).await?;
            world.tally.note_far(farthest).await
        })
        .await;
        self.version.moved += 1;
        let farthest = self.world.tally.take(self.world.own.len()).await?.1;
        self.meet(farthest).await
    }

    /// Forces, and the second half of a step. Before the first step, the forces are added up only.
    async fn act(&mut self, is_step: bool) -> Result<Energies, JobFailure> {
        let world = Arc::clone(&self.world);
        let (own, segments, version) = (world.own.clone(), world.segments.clone(), self.version);
        // Cells first: they are the longer ones.
        each(world.threads, own.len() + segments.len(), &world, |world, thread| {
            let (homes, cells) = (Arc::clone(&self.homes), own.len());
            async move {
                match thread.checked_sub(cells) {
                    None => act(Arc::clone(&world), world.own.start + thread, version).await,
                    Some(at) => bond(Arc::clone(&world), world.segments.start + at, homes, version).await,
                }
            }
        })
        .await;
        let bonded = world.tally.take(segments.len()).await?.0;
        // All forces have come.
        self.meet(0.0).await?;
        let motion = self.motion;
        self.each_cell(move |world: Arc<World>, number| async move {
            let cell = world.object(number);
            let energy = if is_step { cell.finish(motion).await? } else { cell.add().await? };
            world.tally.note(number - world.own.start, energy).await
        })
        .await;
        Ok((world.tally.take(own.len()).await?.0, bonded))
    }
}

/// Some of the cells, each with its atoms.
pub(super) fn cells_of(system: &System, chain: &Arc<Chain>, own: Range<usize>) -> Vec<Owner<Cell>> {
    let grid = Grid::new(system.side);
    let (places, members) = assigned(system, grid, system.places.clone());
    let of = |atom: u32| Moved { atom, place: places[atom as usize], speed: system.speeds[atom as usize] };
    own.map(|number| {
        let mut cell = Cell::new(number, grid, Arc::clone(chain));
        cell.arrive(members[number].atoms.iter().copied().map(of).collect());
        Owner::new(cell)
    })
    .collect()
}

/// The energies of steps, by the energies of all processes in their order.
pub(super) fn sums(of_each: Vec<Vec<Energies>>, steps: usize) -> Vec<Energy> {
    let of_step = |step: usize| {
        let cells = of_each.iter().flat_map(|process| &process[step].0);
        let segments = of_each.iter().flat_map(|process| &process[step].1);
        cells.chain(segments).fold(Energy::default(), |sum, energy| sum.and(*energy))
    };
    (0..=steps).map(of_step).collect()
}

pub(super) async fn run(system: &System, motion: Motion) -> Result<Outcome, JobFailure> {
    let (grid, chain) = (Grid::new(system.side), Arc::new(system.chain.clone()));
    let owners = cells_of(system, &chain, 0..grid.cells());
    let tally = Owner::new(Tally::default());
    let world = Arc::new(World {
        grid,
        mixes: mixes(),
        segments: 0..chain.segments.len(),
        chain,
        cells: owners.iter().map(|owner| Place::Here(owner.reference())).collect(),
        own: 0..owners.len(),
        tally: tally.reference(),
        threads: Threads::Stack,
    });
    let energies = Run::new(world, None, motion).steps().await?;
    let mut outcome = Outcome::new(system, sums(vec![energies], motion.steps));
    for owner in &owners {
        outcome.take(owner.reference().moved().await?);
    }
    Ok(outcome)
}
