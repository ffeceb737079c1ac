//! `call`, `parasite`, `host`: what it costs to have a thread do nothing much.

use std::hint::black_box;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, Instant};

use chanter::prelude::*;

use super::{machine, on_machine, value_of};
use crate::case::{Case, Failure, Load, Outcome, Sample, expect, sum_below};
use crate::peers::{go, tokio};

const FAMILY: &str = "spawn";

pub(crate) fn cases(vps: usize) -> Vec<Case> {
    let mut cases = vec![
        Case::new("parasite", "chanter", "in-place", parasite).load_of(20_000_000, vps),
        Case::new("host", "chanter", "spawn-join", host).load_of(500_000, vps),
        Case::new("host", "tokio", "multi_thread", tokio::spawn_multi_thread).load_of(200_000, vps),
        go::case("host", "goroutine").load_of(200_000, vps),
    ];
    if vps > 1 {
        cases.push(Case::new("host", "chanter", "spawn-join, on the other VP", across).load_of(100_000, vps));
    }
    if vps == 1 {
        cases.push(Case::new("call", "plain", "non-inlined", call).load_of(20_000_000, 1));
        cases.push(
            Case::new("host", "tokio", "current_thread", tokio::spawn_current_thread).load_of(200_000, 1),
        );
    }
    cases.into_iter().map(|case| case.in_family(FAMILY)).collect()
}

/// Each operation marks its own place. So a call and a thread leave the same trace, operations do not wait for each
/// other, and a lost one is seen.
static MARKS: [AtomicU8; 1 << 16] = [const { AtomicU8::new(0) }; 1 << 16];

fn mark(place: usize, colour: u8) {
    if let Some(slot) = MARKS.get(place) {
        slot.store(colour, Ordering::Relaxed);
    }
}

#[inline(never)]
fn marking_call(place: usize, colour: u8) {
    mark(place, colour);
}

fn marked(count: usize, colour: u8) -> usize {
    let places = &MARKS[..count];
    places.iter().filter(|m| m.load(Ordering::Relaxed) == colour).count()
}

/// Splits `n` operations into batches that fit [`MARKS`]: the size of each and its colour.
fn batches(n: u64) -> impl Iterator<Item = (usize, u8)> {
    let full = MARKS.len() as u64;
    let sizes = (0..n / full).map(move |_| full).chain(Some(n % full));
    let colours = (1..=u8::MAX).cycle();
    sizes.zip(colours).map(|(size, colour)| (size as usize, colour))
}

/// The yardstick: a plain call that the compiler may not inline.
fn call(load: Load) -> Outcome {
    let mut elapsed = Duration::ZERO;
    for (size, colour) in batches(load.n) {
        let clock = Instant::now();
        for place in 0..size {
            marking_call(black_box(place), colour);
        }
        elapsed += clock.elapsed();
        expect("calls made", marked(size, colour), size)?;
    }
    Ok(Sample::new(load.n, elapsed))
}

/// Parasites that do what the call does and finish where they are spawned. With more than one VP,
/// the others are idle; those parasites that a heartbeat gives away are waited for.
fn parasite(load: Load) -> Outcome {
    let machine = machine(load.vps)?;
    let before = machine.stats();
    let elapsed = machine.block_on(async {
        let mut elapsed = Duration::ZERO;
        for (size, colour) in batches(load.n) {
            let clock = Instant::now();
            for place in 0..size {
                let place = black_box(place);
                spawn_parasite(async move { mark(place, colour) });
            }
            elapsed += clock.elapsed();
            all_marked(size, colour).await?;
        }
        Ok::<_, Failure>(elapsed)
    })?;
    let after = machine.stats();
    let in_place = after.finished_in_place - before.finished_in_place;
    if load.vps == 1 {
        expect("parasites finished in place", in_place, load.n)?;
    }
    Ok(Sample::new(load.n, elapsed).with("finished_in_place", in_place as f64))
}

async fn all_marked(size: usize, colour: u8) -> Result<(), Failure> {
    let patience = Instant::now();
    while marked(size, colour) < size && patience.elapsed() < Duration::from_secs(10) {
        yield_now().await;
    }
    expect("parasites finished", marked(size, colour), size)
}

/// Spawn a host and join it, one after the other.
fn host(load: Load) -> Outcome {
    on_machine(load.vps, async move {
        joined(load, spawn(spawn_and_join(load, |value| spawn(async move { value })))).await
    })?
}

/// The same, with the host on another virtual processor: two messages across for each.
fn across(load: Load) -> Outcome {
    let spawner = spawn_and_join(load, |value| Thread::builder().on(1).spawn(async move { value }));
    on_machine(load.vps, async move { joined(load, Thread::builder().on(0).spawn(spawner)).await })?
}

async fn spawn_and_join(
    load: Load,
    spawn: impl Fn(u64) -> Thread<u64>,
) -> Result<(u64, Duration), JoinError> {
    let clock = Instant::now();
    let mut sum = 0;
    for value in 0..load.n {
        sum += spawn(value).await?;
    }
    Ok((sum, clock.elapsed()))
}

async fn joined(load: Load, spawner: Thread<Result<(u64, Duration), JoinError>>) -> Outcome {
    let (sum, elapsed) = value_of(spawner).await?.map_err(|error| Failure::Broken(error.to_string()))?;
    expect("sum of results", sum, sum_below(load.n))?;
    Ok(Sample::new(load.n, elapsed))
}
