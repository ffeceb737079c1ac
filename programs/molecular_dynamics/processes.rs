//! The same in several processes, each of which owns the cells of a part of space, and runs their threads. It calls
//! the cells of others through references, and reads them through copies.

use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use chanter_cluster::Process;
use chanter_cluster::group::Group;
use chanter_objects::{Owner, Ref};

use super::cell::{Cell, Version};
use super::cells::{Grid, Members, View};
use super::chanter::{Run, Tally, World, cells_of, sums};
use super::model::{System, mixes};
use super::serial::assigned;
use super::{Motion, Outcome};
use crate::kit::{JobFailure, Place, Threads};

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

/// Runs a process of the job. The first one returns the result, and the duration of the steps.
///
/// # Errors
/// Fails if a process is lost.
pub async fn process(
    here: &Process,
    system: &System,
    motion: Motion,
    threads: Threads,
) -> Result<Option<(Outcome, Duration)>, JobFailure> {
    let (grid, chain) = (Grid::new(system.side), Arc::new(system.chain.clone()));
    let (me, processes) = (here.number() as usize, here.count() as usize);
    let (_, members) = assigned(system, grid, system.places.clone());
    let own = shares(grid, &members, processes).swap_remove(me);
    let owners = cells_of(system, &chain, own.clone());
    let mut group = Group::of(here, "molecular-dynamics", here.number(), here.count()).await?;
    let mine: Vec<Ref<Cell>> = owners.iter().map(Owner::reference).collect();
    let cells: Vec<Ref<Cell>> = group.all_gather(mine).await?.concat();
    let mut copies = Vec::new();
    let place = |(number, cell): (usize, &Ref<Cell>)| {
        if own.contains(&number) {
            return Place::Here(*cell);
        }
        let (place, copy) = Place::copied(*cell, Version::default(), View::default());
        copies.push(copy);
        place
    };
    let places = cells.iter().enumerate().map(place).collect();
    let segment = |process: usize| chain.segments.len() * process / processes;
    let tally = Owner::new(Tally::default());
    let world = World {
        grid,
        mixes: mixes(),
        segments: segment(me)..segment(me + 1),
        chain: Arc::clone(&chain),
        cells: places,
        own,
        tally: tally.reference(),
        threads,
    };
    let mut run = Run::new(Arc::new(world), Some(group), motion);
    let clock = Instant::now();
    let energies = run.steps().await?;
    let elapsed = clock.elapsed();
    let mut done = None;
    if let Some(group) = &mut run.group
        && let Some(energies) = group.gather(0, energies).await?
    {
        let mut outcome = Outcome::new(system, sums(energies, motion.steps));
        for cell in cells {
            outcome.take(cell.moved().await?);
        }
        done = Some((outcome, elapsed));
    }
    // Cells last until the first process has read them.
    run.meet(0.0).await?;
    Ok(done)
}
