//! The same in several processes, each of which has a part of space. It has all cells, and the threads of its own
//! cells. Of the others it sees the places of the atoms that its own look at, and keeps the forces that act on them.
//!
//! In a step each process sends each other one two messages: the places of the atoms that the other looks at, and the
//! forces on the other's atoms. Nobody is in the middle. (So does the paper's program: each phase first fetches what
//! is remote, then computes.)

use std::collections::{BTreeSet, HashMap};
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use chanter::prelude::*;
use chanter_cluster::Process;
use chanter_objects::{Continuation, ObjectError, Owner, Promise, Ref, object};
use serde::{Deserialize, Serialize};

use super::cell::{Cell, Forces, Moved};
use super::cells::{Grid, Members};
use super::chanter::{Homes, Tally, World, forces_of, homes_of, list};
use super::model::{SKIN, System, mixes};
use super::serial::assigned;
use super::{Energy, Motion, Outcome};
use crate::kit::{JobFailure, Threads, V3, each, meet};

/// A message from one process to another. Each says the same kinds in the same order.
#[derive(Debug, Serialize, Deserialize)]
enum Word {
    /// Where the atoms are that the other one looks at, by cells; and how far one has come since the lists were made.
    Places(f64, Vec<(u32, Vec<V3>)>),
    /// Forces on cells of the other one.
    Acting(Vec<(u32, Forces)>),
    /// Atoms that go to cells of the other one.
    Going(Vec<(u32, Vec<Moved>)>),
    /// Which atoms cells have, and where they are.
    Seen(Vec<(u32, Vec<u32>, Vec<V3>)>),
}

/// The sender, the number of its message to this process, and the message; or the reason why none will come.
type Saying = (u32, u32, Result<Word, ObjectError>);

/// Where a process hears others.
struct Ear(Sender<Saying>);

#[object(remote)]
impl Ear {
    /// The server thread does this in place.
    #[method(free)]
    fn hear(&self, from: u32, number: u32, word: Word) {
        let _ = self.0.try_send((from, number, Ok(word)));
    }
}

/// The energies of a step: of each cell, and of each segment.
type Energies = (Vec<Energy>, Vec<f64>);

/// The part of the work that a process has.
struct Domain {
    part: Arc<Part>,
    heard: Option<Heard>,
    _owners: (Vec<Owner<Cell>>, Owner<Tally>),
    over: Option<Continuation<()>>,
}

/// The constant part, apart from the cells themselves.
struct Part {
    world: Arc<World>,
    me: usize,
    /// The cells of each process.
    cells: Vec<Range<usize>>,
    /// The segments of each.
    segments: Vec<Range<usize>>,
    say: Sender<Saying>,
}

/// Messages that have come, by sender.
struct Heard {
    hear: Receiver<Saying>,
    /// How many words of each were looked at.
    known: Vec<u32>,
    /// Words that were not looked at yet, by their sender and number. (Calls that wait at an object go in in any
    /// order.)
    kept: HashMap<(u32, u32), Word>,
}

impl Heard {
    /// The next word of that process.
    async fn of(&mut self, process: usize) -> Result<Word, ObjectError> {
        let next = (process as u32, self.known[process]);
        self.known[process] += 1;
        loop {
            if let Some(word) = self.kept.remove(&next) {
                return Ok(word);
            }
            let (from, number, word) = self.hear.recv().await.map_err(|_| ObjectError::Unanswered)?;
            self.kept.insert((from, number), word?);
        }
    }
}

/// The message is not the next one.
fn strange(_: Word) -> ObjectError {
    ObjectError::Incompatible
}

/// Divides the cells in their order, so that each process has about as many pairs to look at.
fn shares(grid: Grid, members: &[Members], processes: usize) -> Vec<Range<usize>> {
    let pairs = |cell: usize| {
        let own = members[cell].len() as f64;
        let forward: f64 = grid.forward(cell).iter().map(|(to, _)| members[*to].len() as f64).sum();
        own * (0.5 * own + forward)
    };
    let each: Vec<f64> = (0..members.len()).map(pairs).collect();
    let all: f64 = each.iter().sum();
    let mut ends = Vec::with_capacity(processes);
    let (mut sum, mut at) = (0.0, 0);
    for process in 1..=processes {
        let until = all * process as f64 / processes as f64;
        // A cell belongs to whom most of it falls to.
        while at < each.len() && (process == processes || sum + 0.5 * each[at] < until) {
            sum += each[at];
            at += 1;
        }
        ends.push(at);
    }
    let begins = std::iter::once(0).chain(ends.iter().copied());
    begins.zip(&ends).map(|(from, to)| from..*to).collect()
}

impl Part {
    fn own(&self) -> Range<usize> {
        self.cells[self.me].clone()
    }

    fn others(&self) -> impl Iterator<Item = usize> + use<> {
        let me = self.me;
        (0..self.cells.len()).filter(move |process| *process != me)
    }

    fn home(&self, cell: usize) -> usize {
        self.cells.iter().position(|cells| cells.contains(&cell)).expect("each cell is somebody's")
    }

    /// The cells of others that a process looks at.
    fn seen_by(&self, process: usize, homes: &Homes) -> BTreeSet<usize> {
        let grid = self.world.grid;
        let around = self.cells[process].clone().flat_map(|cell| grid.forward(cell)).map(|(to, _)| to);
        let segments = &self.world.chain.segments[self.segments[process].clone()];
        let bonded = segments.iter().flat_map(|segment| &segment.atoms);
        let bonded = bonded.map(|atom| homes[*atom as usize].0 as usize);
        around.chain(bonded).filter(|cell| !self.cells[process].contains(cell)).collect()
    }

    /// Tells another process. It is on its way when this returns.
    fn say(&self, ears: &[Ref<Ear>], said: u32, to: usize, word: Word) {
        let (ear, me, failed) = (ears[to], self.me as u32, self.say.clone());
        spawn_parasite(async move {
            if let Err(gone) = ear.hear(me, said, word).await {
                // A waiter for an answer to this gets the reason why there is none.
                let _ = failed.try_send((to as u32, said, Err(gone)));
            }
        });
    }
}

/// A run.
struct Run {
    part: Arc<Part>,
    ears: Vec<Ref<Ear>>,
    heard: Heard,
    /// How many words each other process was told.
    said: u32,
    motion: Motion,
    homes: Homes,
    /// For each process: which cells it is shown.
    shown: Vec<Vec<usize>>,
}

impl Run {
    /// The number of the next word to all others.
    fn next(&mut self) -> u32 {
        self.said += 1;
        self.said - 1
    }

    async fn steps(mut self) -> Result<(Vec<Energies>, Heard), ObjectError> {
        let mut energies = Vec::with_capacity(self.motion.steps + 1);
        self.assign().await?;
        energies.push(self.act(None).await?);
        for _ in 0..self.motion.steps {
            if self.start().await? > 0.25 * SKIN * SKIN {
                self.assign().await?;
            }
            energies.push(self.act(Some(self.motion)).await?);
        }
        Ok((energies, self.heard))
    }

    /// Atoms go where they belong, and lists are made. (Seldom: so all see all.)
    async fn assign(&mut self) -> Result<(), ObjectError> {
        let part = Arc::clone(&self.part);
        let world = &part.world;
        let mut going: Vec<Vec<(u32, Vec<Moved>)>> = vec![Vec::new(); part.cells.len()];
        for number in part.own() {
            for (to, atoms) in world.cells[number].depart().await? {
                match part.home(to) {
                    home if home == part.me => world.cells[to].arrive(atoms).await?,
                    home => going[home].push((to as u32, atoms)),
                }
            }
        }
        let said = self.next();
        for process in part.others() {
            part.say(&self.ears, said, process, Word::Going(std::mem::take(&mut going[process])));
        }
        for process in part.others() {
            match self.heard.of(process).await? {
                Word::Going(going) => {
                    for (cell, atoms) in going {
                        world.cells[cell as usize].arrive(atoms).await?;
                    }
                }
                other => return Err(strange(other)),
            }
        }
        let mut seen = Vec::new();
        for number in part.own() {
            let view = world.cells[number].view().await?;
            seen.push((number as u32, view.members.atoms.clone(), view.places.to_vec()));
        }
        let said = self.next();
        for process in part.others() {
            part.say(&self.ears, said, process, Word::Seen(seen.clone()));
        }
        for process in part.others() {
            match self.heard.of(process).await? {
                Word::Seen(seen) => {
                    for (cell, atoms, places) in seen {
                        world.cells[cell as usize].is_of(atoms, places).await?;
                    }
                }
                other => return Err(strange(other)),
            }
        }
        let first = part.own().start;
        each(world.threads, part.own().len(), world, |world, at| list(world, first + at)).await;
        self.homes = homes_of(world).await?;
        for process in part.others() {
            let seen = part.seen_by(process, &self.homes).into_iter();
            self.shown[process] = seen.filter(|cell| part.own().contains(cell)).collect();
        }
        Ok(())
    }

    /// The first half of a step. Returns the square of how far an atom of anybody has come.
    async fn start(&mut self) -> Result<f64, ObjectError> {
        let part = Arc::clone(&self.part);
        let (world, motion, first) = (&part.world, self.motion, part.own().start);
        each(world.threads, part.own().len(), world, move |world, at| async move {
            let farthest = world.cells[first + at].start(motion).await?;
            world.tally.note_far(farthest).await
        })
        .await;
        let mut farthest = world.tally.take(part.own().len()).await?.1;
        let (own, said) = (farthest, self.next());
        for process in part.others() {
            let mut places = Vec::with_capacity(self.shown[process].len());
            for cell in &self.shown[process] {
                places.push((*cell as u32, world.cells[*cell].view().await?.places.to_vec()));
            }
            part.say(&self.ears, said, process, Word::Places(own, places));
        }
        for process in part.others() {
            match self.heard.of(process).await? {
                Word::Places(far, places) => {
                    farthest = farthest.max(far);
                    for (cell, places) in places {
                        world.cells[cell as usize].are_at(places).await?;
                    }
                }
                other => return Err(strange(other)),
            }
        }
        Ok(farthest)
    }

    /// Forces, and the second half of a step. Without a motion, all forces are added up only.
    async fn act(&mut self, motion: Option<Motion>) -> Result<Energies, ObjectError> {
        let part = Arc::clone(&self.part);
        let world = &part.world;
        let segments = part.segments[part.me].clone();
        let bonded = forces_of(world, &self.homes, part.own(), segments).await?;
        let said = self.next();
        for process in part.others() {
            let mut acting = Vec::new();
            for cell in part.cells[process].clone() {
                if let Some(forces) = world.cells[cell].harvest().await? {
                    acting.push((cell as u32, forces));
                }
            }
            part.say(&self.ears, said, process, Word::Acting(acting));
        }
        for process in part.others() {
            match self.heard.of(process).await? {
                Word::Acting(acting) => {
                    for (cell, forces) in acting {
                        world.cells[cell as usize].take(process as u32, forces).await?;
                    }
                }
                other => return Err(strange(other)),
            }
        }
        let mut energies = Vec::with_capacity(part.own().len());
        for number in part.own() {
            let cell = world.cells[number];
            energies.push(match motion {
                Some(motion) => cell.finish(motion).await?,
                None => cell.add().await?,
            });
        }
        Ok((energies, bonded))
    }
}

impl Domain {
    fn new(system: &System, threads: Threads, here: &Process, over: Continuation<()>) -> (Self, Ear) {
        let (grid, chain) = (Grid::new(system.side), Arc::new(system.chain.clone()));
        let owners: Vec<_> =
            (0..grid.cells()).map(|number| Owner::new(Cell::new(number, grid, Arc::clone(&chain)))).collect();
        let tally = Owner::new(Tally::default());
        let (me, all) = (here.number() as usize, here.count() as usize);
        let (_, members) = assigned(system, grid, system.places.clone());
        let part = |count: usize, process: usize| count * process / all..count * (process + 1) / all;
        let segments = (0..all).map(|process| part(chain.segments.len(), process)).collect();
        let cells = owners.iter().map(Owner::reference).collect();
        let world = Arc::new(World { grid, mixes: mixes(), chain, cells, tally: tally.reference(), threads });
        let (say, hear) = mailbox();
        let part = Part { world, me, cells: shares(grid, &members, all), segments, say: say.clone() };
        let domain = Self {
            part: Arc::new(part),
            heard: Some(Heard { hear, known: vec![0; all], kept: HashMap::new() }),
            _owners: (owners, tally),
            over: Some(over),
        };
        (domain, Ear(say))
    }
}

#[object(remote)]
impl Domain {
    /// Takes atoms that are its own from now on.
    #[method(read)]
    async fn arrive(&self, atoms: Vec<(u32, Vec<Moved>)>) -> Result<(), ObjectError> {
        for (cell, atoms) in atoms {
            if self.part.own().contains(&(cell as usize)) {
                self.part.world.cells[cell as usize].arrive(atoms).await?;
            }
        }
        Ok(())
    }

    /// All steps: the energies before the first, and after each.
    #[method(mut)]
    async fn run(&mut self, ears: Vec<Ref<Ear>>, motion: Motion) -> Result<Vec<Energies>, ObjectError> {
        let Some(heard) = self.heard.take() else { return Err(ObjectError::Unanswered) };
        let shown = vec![Vec::new(); self.part.cells.len()];
        let part = Arc::clone(&self.part);
        // Each has told each other one as often.
        let said = heard.known.iter().copied().max().unwrap_or(0);
        let run = Run { part, ears, heard, said, motion, homes: Homes::default(), shown };
        // A thread of its own does it, so that this one goes on to serve requests.
        let (energies, heard) = spawn(run.steps()).await.map_err(|_| ObjectError::Unanswered)??;
        self.heard = Some(heard);
        Ok(energies)
    }

    /// All that it has.
    #[method(read)]
    async fn moved(&self) -> Result<Vec<Moved>, ObjectError> {
        let mut all = Vec::new();
        for number in self.part.own() {
            all.extend(self.part.world.cells[number].moved().await?);
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

/// Runs a process of the job. The first one returns the result, and the duration of the steps.
///
///  # Errors
/// Fails if a process is lost.
pub async fn process(
    here: &Process,
    system: &System,
    motion: Motion,
    threads: Threads,
) -> Result<Option<(Outcome, Duration)>, JobFailure> {
    let (over, k) = Promise::new();
    let (domain, ear) = Domain::new(system, threads, here, k);
    let (owner, ear) = (Owner::new(domain), Owner::new(ear));
    let mine = (owner.reference(), ear.reference());
    let Some(all) = meet(here, "molecular-dynamics", mine).await? else {
        over.await?;
        return Ok(None);
    };
    let (domains, ears): (Vec<_>, Vec<_>) = all.into_iter().unzip();
    let (places, members) = assigned(system, Grid::new(system.side), system.places.clone());
    let of = |atom: &u32| Moved {
        atom: *atom,
        place: places[*atom as usize],
        speed: system.speeds[*atom as usize],
    };
    let atoms = |(cell, members): (u32, Members)| (cell, members.atoms.iter().map(of).collect::<Vec<_>>());
    let atoms: Vec<(u32, Vec<Moved>)> = (0..).zip(members).map(atoms).collect();
    for domain in &domains {
        domain.arrive(atoms.clone()).await??;
    }
    let clock = Instant::now();
    let run = |domain: Ref<Domain>| {
        let ears = ears.clone();
        spawn(async move { domain.run(ears, motion).await })
    };
    let runs: Vec<_> = domains.iter().rev().map(|domain| run(*domain)).collect();
    let mut of_each = Vec::with_capacity(runs.len());
    for run in runs {
        of_each.push(run.await???);
    }
    let elapsed = clock.elapsed();
    of_each.reverse();
    let energies = (0..=motion.steps).map(|step| {
        let bonded = of_each.iter().flat_map(|each| &each[step].1).sum();
        let cells = of_each.iter().flat_map(|each| &each[step].0);
        cells.fold(Energy::default(), |sum, energy| sum.and(*energy)).and(Energy::of_bonds(bonded))
    });
    let mut outcome = Outcome::new(system, energies.collect());
    for domain in &domains {
        outcome.take(domain.moved().await??);
    }
    for domain in domains {
        domain.end().await?;
    }
    Ok(Some((outcome, elapsed)))
}
