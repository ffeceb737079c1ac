//! Barriers and sums of 128 threads in two processes. They stand beside MPI's between the two processes alone, and
//! beside the time to resume as many threads without talk between processes. For the latter each process has a
//! barrier of its own 64 threads, at the same time.

use std::sync::Arc;
use std::time::Instant;

use chanter::prelude::*;
use chanter::sync::Barrier;
use chanter_cluster::Process;
use chanter_cluster::group::Group;
use chanter_mpi::Mpi;

use super::END;
use super::process::{Failure, SceneArgs, check, say, say_each};
use crate::Stop;

/// Members in each process.
const THREADS: u32 = 64;

pub(super) const BARRIER: &str = "barrier, 2 processes of 64 threads: ns";
pub(super) const REDUCE: &str = "reduce to all, 2 processes of 64 threads: ns";
pub(super) const ALONE: &str = "resuming 128 threads alone, a barrier of 64 in each of 2 processes: ns";
const YIELDS: &str = "128 threads yield once, 64 in each of 2 processes: ns";
pub(super) const MPI_BARRIER: &str = "barrier, MPI, 2 processes: ns";
pub(super) const MPI_REDUCE: &str = "reduce to all, MPI, 2 processes: ns";

pub(super) async fn scene(here: &Process, args: &SceneArgs) -> Result<(), Failure> {
    let size = THREADS * here.count();
    let (rounds, n) = (args.rounds, args.n / 4);
    let alone = Barrier::new(THREADS as usize);
    let members: Vec<_> = (0..THREADS)
        .map(|at| {
            let (here, rank, alone) = (here.clone(), THREADS * here.number() + at, alone.clone());
            spawn(async move {
                let group = Group::of(&here, "bench", rank, size).await?;
                member(group, &alone, rounds, n).await
            })
        })
        .collect();
    for member in members {
        member.await??;
    }
    Ok(())
}

async fn member(mut group: Group, alone: &Barrier, rounds: u32, n: u32) -> Result<(), Failure> {
    let (rank, size) = (u64::from(group.rank()), u64::from(group.size()));
    for _ in 0..rounds {
        group.barrier().await?;
        let clock = Instant::now();
        for _ in 0..n {
            alone.wait().await;
        }
        group.barrier().await?;
        if rank == 0 {
            say_each(ALONE, clock, n)?;
        }
        group.barrier().await?;
        let clock = Instant::now();
        for _ in 0..n {
            yield_now().await;
        }
        group.barrier().await?;
        if rank == 0 {
            say_each(YIELDS, clock, n)?;
        }
        group.barrier().await?;
        let clock = Instant::now();
        for _ in 0..n {
            group.barrier().await?;
        }
        if rank == 0 {
            say_each(BARRIER, clock, n)?;
        }
        group.barrier().await?;
        let clock = Instant::now();
        for round in 0..u64::from(n) {
            let sum = group.reduce(round * (rank + 1), |a, b| a + b).await?;
            check(sum == round * size * (size + 1) / 2, "a sum was wrong")?;
        }
        if rank == 0 {
            say_each(REDUCE, clock, n)?;
        }
    }
    Ok(())
}

/// MPI alone: the processes are the members.
pub(super) fn over_mpi(args: &SceneArgs) -> Result<(), Stop> {
    let engine = Arc::new(Mpi::start()?);
    if let Err(error) = measured(&engine, args) {
        eprintln!("chanter-bench: {error}");
        engine.abort(1);
    }
    engine.finish()?;
    Ok(())
}

fn measured(engine: &Mpi, args: &SceneArgs) -> Result<(), Failure> {
    let is_first = chanter_cluster::engine::Engine::me(engine).0 == 0;
    engine.raw_barriers(args.n / 10)?;
    for _ in 0..args.rounds {
        let clock = Instant::now();
        engine.raw_barriers(args.n)?;
        if is_first {
            say_each(MPI_BARRIER, clock, args.n)?;
        }
        let clock = Instant::now();
        check(engine.raw_reductions(args.n)? == 0, "a sum of MPI's was wrong")?;
        if is_first {
            say_each(MPI_REDUCE, clock, args.n)?;
        }
    }
    if is_first { say(END, 0.0) } else { Ok(()) }
}
