//! The same in several processes. Each has all cells, and the threads of those that are its own; of the others it sees where their atoms
//! are, and keeps the forces that act on them. The first process passes both on. (So does the paper's program: each phase first fetches
//! what is remote, then computes.)

use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use chanter::prelude::*;
use chanter_cluster::Here;
use chanter_objects::{Continuation, Gone, Owner, Promise, Ref, object};

use super::cell::{Cell, Forces, Moved};
use super::cells::Grid;
use super::chanter::{Homes, Tally, World, each, forces_of, homes_of, list};
use super::model::{SKIN, System, mixes};
use super::serial::assigned;
use super::{Energy, Motion, Outcome};
use crate::kit::{JobFailure, V3, meet};

/// Where atoms are, by cells.
type Places = Vec<(u32, Vec<V3>)>;
/// Which atoms cells have, and where they are.
type Seen = Vec<(u32, Vec<u32>, Vec<V3>)>;
/// Atoms that go to other cells.
type Going = Vec<(u32, Vec<Moved>)>;
/// Forces on cells.
type Acting = Vec<(u32, Forces)>;

/// The part of the work that a process has.
struct Domain {
    world: Arc<World>,
    own: Range<usize>,
    segments: Range<usize>,
    homes: Homes,
    _owners: (Vec<Owner<Cell>>, Owner<Tally>),
    over: Option<Continuation<()>>,
}

/// Runs what takes long beside the server thread, which goes on serving.
async fn aside<R: Send + 'static>(
    work: impl Future<Output = Result<R, Gone>> + Send + 'static,
) -> Result<R, Gone> {
    spawn(work).await.map_err(|_| Gone::Unanswered)?
}

impl Domain {
    fn new(system: &System, here: &Here, over: Continuation<()>) -> Self {
        let (grid, chain) = (Grid::new(system.side), Arc::new(system.chain.clone()));
        let owners: Vec<_> =
            (0..grid.cells()).map(|number| Owner::new(Cell::new(number, grid, Arc::clone(&chain)))).collect();
        let tally = Owner::new(Tally::default());
        let part = |count: usize| {
            let (me, all) = (here.number() as usize, here.count() as usize);
            count * me / all..count * (me + 1) / all
        };
        let (own, segments) = (part(grid.cells()), part(chain.segments.len()));
        let cells = owners.iter().map(Owner::refer).collect();
        let world = World { grid, mixes: mixes(), chain, cells, tally: tally.refer() };
        Self {
            world: Arc::new(world),
            own,
            segments,
            homes: Homes::default(),
            _owners: (owners, tally),
            over: Some(over),
        }
    }
}

#[object(remote)]
impl Domain {
    /// Takes atoms that are its own from now on.
    #[method(read)]
    async fn arrive(&self, going: Going) -> Result<(), Gone> {
        for (cell, atoms) in going {
            if self.own.contains(&(cell as usize)) {
                self.world.cells[cell as usize].arrive(atoms).await?;
            }
        }
        Ok(())
    }

    /// Atoms of its own that go to cells which are not.
    #[method(read)]
    async fn depart(&self) -> Result<Going, Gone> {
        let mut going = Going::new();
        for number in self.own.clone() {
            for (to, atoms) in self.world.cells[number].depart().await? {
                if self.own.contains(&to) {
                    self.world.cells[to].arrive(atoms).await?;
                } else {
                    going.push((to as u32, atoms));
                }
            }
        }
        Ok(going)
    }

    /// Its own cells.
    #[method(read)]
    async fn show(&self) -> Result<Seen, Gone> {
        let mut seen = Seen::new();
        for number in self.own.clone() {
            let view = self.world.cells[number].view().await?;
            seen.push((number as u32, view.members.atoms.clone(), view.places.to_vec()));
        }
        Ok(seen)
    }

    /// All cells, after atoms have moved: makes lists.
    #[method(mut)]
    async fn assign(&mut self, seen: Seen) -> Result<(), Gone> {
        for (cell, atoms, places) in seen {
            if !self.own.contains(&(cell as usize)) {
                self.world.cells[cell as usize].is_of(atoms, places).await?;
            }
        }
        let (world, own) = (Arc::clone(&self.world), self.own.clone());
        self.homes = aside(async move {
            each(own.len(), &world, |world, at| list(world, own.start + at)).await;
            homes_of(&world).await
        })
        .await?;
        Ok(())
    }

    /// The first half of a step: how far an atom has come, and where all are.
    #[method(read)]
    async fn start(&self, motion: Motion) -> Result<(f64, Places), Gone> {
        let (world, own) = (Arc::clone(&self.world), self.own.clone());
        aside(async move {
            let first = own.start;
            each(own.len(), &world, move |world, at| async move {
                let farthest = world.cells[first + at].start(motion).await?;
                world.tally.note_far(farthest).await
            })
            .await;
            let farthest = world.tally.take(own.len()).await?.1;
            let mut places = Places::new();
            for number in own {
                places.push((number as u32, world.cells[number].view().await?.places.to_vec()));
            }
            Ok((farthest, places))
        })
        .await
    }

    /// Sees where the atoms of other cells are.
    #[method(read)]
    async fn see(&self, places: Places) -> Result<(), Gone> {
        for (cell, places) in places {
            if !self.own.contains(&(cell as usize)) {
                self.world.cells[cell as usize].are_at(places).await?;
            }
        }
        Ok(())
    }

    /// Computes forces. Returns the energy of each of its segments, and what acts on cells of others.
    #[method(read)]
    async fn act(&self) -> Result<(Vec<f64>, Acting), Gone> {
        let (world, homes) = (Arc::clone(&self.world), Arc::clone(&self.homes));
        let (own, segments) = (self.own.clone(), self.segments.clone());
        aside(async move {
            let energies = forces_of(&world, &homes, own.clone(), segments).await?;
            let mut acting = Acting::new();
            for number in (0..world.cells.len()).filter(|number| !own.contains(number)) {
                let forces = world.cells[number].harvest().await?;
                if !forces.is_empty() {
                    acting.push((number as u32, forces));
                }
            }
            Ok((energies, acting))
        })
        .await
    }

    /// What others have found to act on its cells.
    #[method(read)]
    async fn react(&self, acting: Acting) -> Result<(), Gone> {
        for (cell, forces) in acting {
            if self.own.contains(&(cell as usize)) {
                self.world.cells[cell as usize].take(forces).await?;
            }
        }
        Ok(())
    }

    /// The second half of a step: the energy of each of its cells. Without a motion, all forces are added up only.
    #[method(read)]
    async fn finish(&self, motion: Option<Motion>) -> Result<Vec<Energy>, Gone> {
        let mut energies = Vec::with_capacity(self.own.len());
        for number in self.own.clone() {
            let cell = self.world.cells[number];
            energies.push(match motion {
                Some(motion) => cell.finish(motion).await?,
                None => cell.add().await?,
            });
        }
        Ok(energies)
    }

    /// All that it has.
    #[method(read)]
    async fn moved(&self) -> Result<Vec<Moved>, Gone> {
        let mut all = Vec::new();
        for number in self.own.clone() {
            all.extend(self.world.cells[number].moved().await?);
        }
        Ok(all)
    }

    /// The job is over.
    #[method(mut)]
    fn end(&mut self) {
        if let Some(over) = self.over.take() {
            let _ = over.fill(());
        }
    }
}

/// All processes.
struct Domains(Vec<Ref<Domain>>);

impl Domains {
    /// Calls all at once, and waits for all.
    async fn all<R, F>(&self, call: impl Fn(Ref<Domain>) -> F) -> Result<Vec<R>, JobFailure>
    where
        R: Send + 'static,
        F: Future<Output = Result<Result<R, Gone>, Gone>> + Send + 'static,
    {
        let Some((first, others)) = self.0.split_first() else { return Ok(Vec::new()) };
        // The others first: this process may compute for long, and send nothing meanwhile.
        let calls: Vec<_> = others.iter().map(|domain| spawn(call(*domain))).collect();
        yield_now().await;
        yield_now().await;
        let mut answers = vec![spawn(call(*first)).await???];
        for call in calls {
            answers.push(call.await???);
        }
        Ok(answers)
    }

    async fn assign(&self) -> Result<(), JobFailure> {
        let going = self.all(|domain| async move { domain.depart().await }).await?.concat();
        self.all(|domain| {
            let going = going.clone();
            async move { domain.arrive(going).await }
        })
        .await?;
        let seen = self.all(|domain| async move { domain.show().await }).await?.concat();
        self.all(|domain| {
            let seen = seen.clone();
            async move { domain.assign(seen).await }
        })
        .await?;
        Ok(())
    }

    /// Forces, and the energies of all.
    async fn act(&self, motion: Option<Motion>) -> Result<Energy, JobFailure> {
        let (energies, acting): (Vec<_>, Vec<_>) =
            self.all(|domain| async move { domain.act().await }).await?.into_iter().unzip();
        let acting = acting.concat();
        self.all(|domain| {
            let acting = acting.clone();
            async move { domain.react(acting).await }
        })
        .await?;
        let bonded = energies.concat().into_iter().sum();
        let cells = self.all(|domain| async move { domain.finish(motion).await }).await?.concat();
        Ok(cells.into_iter().fold(Energy::default(), Energy::and).and(Energy::of_bonds(bonded)))
    }
}

/// A process of the job. The first one returns what came of it, and how long the steps have taken.
///
/// # Errors
/// If a process is lost.
pub async fn process(
    here: &Here,
    system: &System,
    motion: Motion,
) -> Result<Option<(Outcome, Duration)>, JobFailure> {
    let (over, k) = Promise::new();
    let owner = Owner::new(Domain::new(system, here, k));
    let Some(domains) = meet(here, "molecular-dynamics", owner.refer()).await? else {
        over.await?;
        return Ok(None);
    };
    let domains = Domains(domains);
    let grid = Grid::new(system.side);
    let (places, members) = assigned(system, grid, system.places.clone());
    let of = |atom: &u32| Moved {
        atom: *atom,
        place: places[*atom as usize],
        speed: system.speeds[*atom as usize],
    };
    let atoms = |(cell, members): (u32, super::cells::Members)| {
        (cell, members.atoms.iter().map(of).collect::<Vec<_>>())
    };
    let going: Going = (0..).zip(members).map(atoms).collect();
    domains
        .all(|domain| {
            let going = going.clone();
            async move { domain.arrive(going).await }
        })
        .await?;
    let clock = Instant::now();
    domains.assign().await?;
    let mut energies = vec![domains.act(None).await?];
    for _ in 0..motion.steps {
        let (far, places): (Vec<_>, Vec<_>) =
            domains.all(|domain| async move { domain.start(motion).await }).await?.into_iter().unzip();
        if far.into_iter().fold(0.0, f64::max) > 0.25 * SKIN * SKIN {
            domains.assign().await?;
        } else {
            let places = places.concat();
            domains
                .all(|domain| {
                    let places = places.clone();
                    async move { domain.see(places).await }
                })
                .await?;
        }
        energies.push(domains.act(Some(motion)).await?);
    }
    let elapsed = clock.elapsed();
    let mut outcome = Outcome::new(system, energies);
    for atoms in domains.all(|domain| async move { domain.moved().await }).await? {
        outcome.take(atoms);
    }
    for domain in domains.0 {
        domain.end().await?;
    }
    Ok(Some((outcome, elapsed)))
}
