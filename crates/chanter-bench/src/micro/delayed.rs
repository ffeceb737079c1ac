//! `delayed`: threads that run when their value is demanded, and threads that never do.

use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use chanter::prelude::*;
use chanter::thread::Progress;

use super::{machine, on_machine, value_of};
use crate::case::{Case, Failure, Load, Outcome, Sample, expect};
use crate::memory::resident;

const FAMILY: &str = "delayed";

pub(crate) fn cases(vps: usize) -> Vec<Case> {
    let mut cases = vec![
        Case::new("delayed", "chanter", "steal", steal).load_of(10_000_000, vps),
        Case::new("delayed", "chanter", "steal, handle shared", steal_shared).load_of(2_000_000, vps),
        Case::new("delayed-memory", "chanter", "never demanded", never_demanded)
            .isolated()
            .at_most_rounds(3)
            .load_of(1_000_000, vps),
    ];
    if vps == 1 {
        cases.push(Case::new("delayed", "plain", "call", call).load_of(10_000_000, 1));
    }
    cases.into_iter().map(|case| case.in_family(FAMILY)).collect()
}

/// The work of a thread: too little to hide what a thread costs, and nothing that a compiler foresees. Each has the
/// result of the one before, so that neither threads nor calls overlap.
#[inline(never)]
fn work(value: u64) -> u64 {
    black_box(value) + 1
}

fn call(load: Load) -> Outcome {
    let clock = Instant::now();
    let mut value = 0;
    for _ in 0..load.n {
        value = work(value);
    }
    let elapsed = clock.elapsed();
    expect("the last value", value, load.n)?;
    Ok(Sample::new(load.n, elapsed))
}

/// Creates a delayed thread and takes its value, with which the next one works.
fn steal(load: Load) -> Outcome {
    let timed = async move {
        let clock = Instant::now();
        let mut value = 0;
        for _ in 0..load.n {
            value = delay(async move { work(value) }).await?;
        }
        Ok::<_, JoinError>((value, clock.elapsed()))
    };
    checked(load, timed)
}

/// The same with a handle that others may have, too: its event is what is awaited.
fn steal_shared(load: Load) -> Outcome {
    let timed = async move {
        let clock = Instant::now();
        let mut value = 0;
        for _ in 0..load.n {
            let thread = delay(async move { work(value) });
            value = thread.join().await?;
        }
        Ok::<_, JoinError>((value, clock.elapsed()))
    };
    checked(load, timed)
}

fn checked(
    load: Load,
    timed: impl Future<Output = Result<(u64, Duration), JoinError>> + Send + 'static,
) -> Outcome {
    let machine = machine(load.vps)?;
    // A thread of its own, as the threads of a program are.
    let (value, elapsed) = machine
        .block_on(async move { value_of(spawn(timed)).await })?
        .map_err(|error| Failure::Broken(error.to_string()))?;
    expect("the last value", value, load.n)?;
    // Another virtual processor may have run the main thread: that is no delayed one.
    let stats = machine.stats();
    expect("delayed threads", stats.delayed, load.n)?;
    expect("all were stolen", stats.stolen >= load.n, true)?;
    Ok(Sample::new(load.n, elapsed))
}

/// Threads of [`never_demanded`] that ran nevertheless.
static RAN: AtomicU64 = AtomicU64::new(0);

/// Threads whose value nobody wants: the memory of each, its handle included, and a check that it never runs.
fn never_demanded(load: Load) -> Outcome {
    let (before, after, elapsed) = on_machine(load.vps, async move {
        let mut threads = Vec::with_capacity(load.n as usize);
        let before = resident()?;
        let clock = Instant::now();
        for value in 0..load.n {
            threads.push(delay(async move {
                RAN.fetch_add(1, Ordering::Relaxed);
                work(value)
            }));
        }
        let elapsed = clock.elapsed();
        let after = resident()?;
        // A faulty runtime gets a while to run them.
        chanter::after(Duration::from_millis(20)).await;
        let delayed = threads.iter().filter(|thread| thread.progress() == Progress::Delayed).count();
        expect("threads that are delayed", delayed as u64, load.n)?;
        drop(threads);
        Ok::<_, Failure>((before, after, elapsed))
    })??;
    expect("threads that ran", RAN.load(Ordering::Relaxed), 0)?;
    Ok(Sample::new(load.n, elapsed).with_bytes(after.saturating_sub(before) as f64 / load.n as f64))
}
