//! `endless`: short requests while a computation that does not end runs on every virtual processor.
//!
//! The computations never yield. A runtime without hand-off answers nothing until they end. So after a while the
//! computations of a peer are told to stop, and its requests are given up. The result is the latency that one in a
//! hundred exceeds, counted from the time when the request was to come.

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use chanter::prelude::*;
use chanter_programs::policies::percentile;

use crate::case::{Case, Failure, Load, Outcome, Sample, expect};

pub(crate) const BENCH: &str = "endless";
/// Between two requests.
const PERIOD: Duration = Duration::from_micros(500);
/// A peer that has not answered by then is not going to.
const BOUND: Duration = Duration::from_secs(2);
/// The processor of a turn that is not over by then is handed off.
const QUANTUM: Duration = Duration::from_millis(10);

pub(crate) fn cases(vps: usize) -> Vec<Case> {
    vec![
        Case::new(BENCH, "chanter", "hand-over", chanter).load_of(1000, vps),
        Case::new(BENCH, "tokio", "multi-thread", tokio).load_of(1000, vps).at_most_rounds(3),
    ]
}

/// State that the computations share.
#[derive(Clone, Default)]
struct Endless {
    begun: Arc<AtomicUsize>,
    over: Arc<AtomicBool>,
}

impl Endless {
    fn compute(&self) {
        self.begun.fetch_add(1, Ordering::Relaxed);
        let mut x = 1_u64;
        while !self.over.load(Ordering::Relaxed) {
            x = black_box(x.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        }
    }

    fn wait_begun(&self, count: usize) {
        while self.begun.load(Ordering::Relaxed) < count {
            sleep(Duration::from_micros(100));
        }
    }

    fn stop(&self) {
        self.over.store(true, Ordering::Relaxed);
    }
}

/// A few microseconds of work.
fn answer(came: Instant) -> Duration {
    (0..1000_u64).for_each(|n| {
        black_box(n);
    });
    came.elapsed()
}

/// Times at which requests are to come. The iterator waits until each of them.
fn arrivals(n: u64) -> impl Iterator<Item = Instant> {
    let begin = Instant::now();
    (0..n).map(move |number| {
        let came = begin + PERIOD * u32::try_from(number).unwrap_or(u32::MAX);
        sleep(came.saturating_duration_since(Instant::now()));
        came
    })
}

fn sample(mut latencies: Vec<Duration>, n: u64) -> Outcome {
    expect("requests answered", latencies.len() as u64, n)?;
    latencies.sort_unstable();
    let p99 = percentile(&latencies, 0.99);
    let us = |part| percentile(&latencies, part).as_secs_f64() * 1e6;
    Ok(Sample::new(1, p99).with("p50_us", us(0.5)).with("p99_us", us(0.99)).with("max_us", us(1.0)))
}

fn broken(error: impl std::fmt::Display) -> Failure {
    Failure::Broken(error.to_string())
}

fn chanter(load: Load) -> Outcome {
    let machine = Machine::builder()
        .vps(load.vps)
        .name("bench")
        .hand_off_after(Some(QUANTUM))
        .build()
        .map_err(broken)?;
    let endless = Endless::default();
    let computations: Vec<_> = (0..load.vps)
        .map(|vp| {
            let endless = endless.clone();
            machine.spawn_on(vp, async move { endless.compute() })
        })
        .collect();
    endless.wait_begun(load.vps);
    // The first ones wait for the hand-over.
    let begun = Instant::now();
    let firsts: Vec<_> =
        (0..load.vps).map(|vp| machine.spawn_on(vp, async move { begun.elapsed() })).collect();
    let mut first = Duration::ZERO;
    for thread in firsts {
        first = first.max(thread.join().sync_blocking().map_err(broken)?);
    }
    let mut latencies = Vec::new();
    let requests: Vec<_> = arrivals(load.n).map(|came| machine.spawn(async move { answer(came) })).collect();
    for request in requests {
        latencies.push(request.join().sync_blocking().map_err(broken)?);
    }
    endless.stop();
    for thread in computations {
        thread.join().sync_blocking().map_err(broken)?;
    }
    let stats = machine.stats();
    Ok(sample(latencies, load.n)?
        .with("first_quanta", first.as_secs_f64() / QUANTUM.as_secs_f64())
        .with("hand_offs", stats.hand_offs as f64)
        .with("handed_over_ms", stats.handed_over.as_secs_f64() * 1e3))
}

fn tokio(load: Load) -> Outcome {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(load.vps).build().map_err(broken)?;
    let endless = Endless::default();
    for _ in 0..load.vps {
        let endless = endless.clone();
        drop(runtime.spawn(async move { endless.compute() }));
    }
    endless.wait_begun(load.vps);
    let begin = Instant::now();
    let requests: Vec<_> = arrivals(load.n).map(|came| runtime.spawn(async move { answer(came) })).collect();
    while begin.elapsed() < BOUND && !requests.iter().all(tokio::task::JoinHandle::is_finished) {
        sleep(Duration::from_millis(1));
    }
    endless.stop();
    let mut latencies = Vec::new();
    for request in requests {
        latencies.push(runtime.block_on(request).map_err(broken)?);
    }
    sample(latencies, load.n)
}
