//! `fiber`, `fiber-switch`, `fiber-message`, `fiber-blocked`: threads with stacks of their own.

use std::hint::black_box;
use std::time::{Duration, Instant};

use chanter::fiber;
use chanter::prelude::*;
use corosensei::{Coroutine, Yielder};

use super::{machine, on_machine};
use crate::case::{Case, Failure, Load, Outcome, Sample, expect, sum_below};
use crate::memory::{per_thread, resident};
use crate::peers::boost;

/// Number of fibers that block at once. An OS has room for them even if guards count as mappings.
const BLOCKED: u64 = 20_000;

pub(crate) fn cases(vps: usize) -> Vec<Case> {
    let mut cases = vec![
        Case::new("fiber", "chanter", "spawn-join", create).load_of(500_000, vps),
        Case::new("fiber-switch", "chanter", "yield", switch).load_of(4_000_000, vps),
        Case::new("fiber-message", "chanter", "rendezvous", message).load_of(400_000, vps),
        Case::new("fiber-blocked", "chanter", "channel", blocked)
            .isolated()
            .at_most_rounds(3)
            .load_of(BLOCKED, vps),
    ];
    if vps == 1 {
        // The peers know one OS thread.
        cases.push(boost::case("fiber", "post").load_of(500_000, 1));
        cases.push(boost::case("fiber", "dispatch").load_of(500_000, 1));
        cases.push(boost::case("fiber-switch", "yield").load_of(4_000_000, 1));
        let coroutine = Case::new("fiber-switch", "corosensei", "resume-suspend", resume);
        cases.push(coroutine.load_of(4_000_000, 1));
    }
    cases
}

fn ended(error: &JoinError) -> Failure {
    Failure::Broken(error.to_string())
}

/// Creates, runs and joins one fiber after the other.
fn create(load: Load) -> Outcome {
    let machine = machine(load.vps)?;
    let (sum, elapsed) = machine
        .block_on(async {
            let clock = Instant::now();
            let mut sum = 0;
            for value in 0..load.n {
                sum += spawn_fiber(move || value).await?;
            }
            Ok((sum, clock.elapsed()))
        })
        .map_err(|error| ended(&error))?;
    expect("sum of results", sum, sum_below(load.n))?;
    let stats = machine.stats();
    expect("fibers", stats.fibers_created, load.n)?;
    Ok(Sample::new(load.n, elapsed).with("stacks_allocated", stats.stacks_allocated as f64))
}

/// Two fibers give way to each other; an operation is a switch from one to the other.
fn switch(load: Load) -> Outcome {
    let turns = move || {
        let mut turns = 0;
        for _ in 0..load.n / 2 {
            turns += 1;
            fiber::yield_now();
        }
        turns
    };
    let (turns, elapsed) = on_machine(load.vps, async move {
        let clock = Instant::now();
        // On one virtual processor, or there is nobody to switch to.
        let (one, other) =
            (fiber::Builder::new().on(0).spawn(turns), fiber::Builder::new().on(0).spawn(turns));
        let turns = one.await? + other.await?;
        Ok((turns, clock.elapsed()))
    })?
    .map_err(|error| ended(&error))?;
    expect("turns", turns, load.n / 2 * 2)?;
    Ok(Sample::new(load.n, elapsed))
}

/// The yardstick: to a coroutine and back, with no scheduler.
fn resume(load: Load) -> Outcome {
    let mut coroutine = Coroutine::new(|yielder: &Yielder<u64, u64>, mut value: u64| {
        loop {
            value = yielder.suspend(value + 1);
        }
    });
    let clock = Instant::now();
    let mut value = 0;
    for _ in 0..load.n {
        value = coroutine.resume(black_box(value)).as_yield().unwrap_or(0);
    }
    let elapsed = clock.elapsed();
    expect("turns", value, load.n)?;
    Ok(Sample::new(load.n, elapsed))
}

/// Two fibers and a rendezvous for each message.
fn message(load: Load) -> Outcome {
    let (sum, elapsed) = on_machine(load.vps, async move {
        let (tx, rx) = channel();
        let clock = Instant::now();
        let sends = spawn_fiber(move || (0..load.n).all(|value| tx.send(value).sync_blocking().is_ok()));
        let receives = spawn_fiber(move || {
            let mut sum = 0;
            while let Ok(value) = rx.recv().sync_blocking() {
                sum += value;
            }
            sum
        });
        let (_all, sum) = (sends.await?, receives.await?);
        Ok((sum, clock.elapsed()))
    })?
    .map_err(|error| ended(&error))?;
    expect("sum of messages", sum, sum_below(load.n))?;
    Ok(Sample::new(load.n, elapsed))
}

/// Fibers that wait for a message each.
fn blocked(load: Load) -> Outcome {
    let machine = machine(load.vps)?;
    machine.block_on(async {
        let before = resident()?;
        let clock = Instant::now();
        let mut waiting = Vec::with_capacity(load.n as usize);
        for _ in 0..load.n {
            let (tx, rx) = channel::<u64>();
            waiting.push((tx, spawn_fiber(move || rx.recv().sync_blocking().unwrap_or(0))));
        }
        let patience = Instant::now();
        let stacks = || machine.stats().stacks_allocated;
        while stacks() < load.n && patience.elapsed() < Duration::from_secs(60) {
            yield_now().await;
        }
        expect("fibers that have begun", stacks(), load.n)?;
        let created = clock.elapsed();
        let after = resident()?;
        let clock = Instant::now();
        let mut woken = 0;
        for (tx, fiber) in waiting {
            if tx.send(1).await.is_ok() {
                woken += fiber.await.map_err(|error| ended(&error))?;
            }
        }
        expect("fibers woken", woken, load.n)?;
        Ok(per_thread(load.n, before, after, created, clock.elapsed()))
    })
}
