//! The study: short requests beside long computations, under five policies.
//!
//! Requests come by the clock, from outside of the machine, whether or not earlier ones are done. Each is
//! a thread of a few short steps. Beside them threads compute without end, and yield after each slice. A
//! request's latency is counted from the time when it was to come, so a policy that makes the next ones
//! wait gains nothing by it. All policies see the same threads: the requests say that they are urgent, by
//! when they are to be done, and that they hold more tickets; a policy heeds what it understands.

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use chanter::policy::{Attributes, EarliestDeadline, Fifo, Lottery, Policy, Priority, WorkStealing};
use chanter::prelude::*;

use crate::bench::case::{Case, Failure, Load, Outcome, Sample, expect};

pub(super) const BENCH: &str = "requests";
/// The detail that holds the slices a second that were computed.
pub(super) const SLICES: &str = "slices_per_s";
pub(super) const PERCENTILES: [(&str, f64); 5] =
    [("p50_us", 0.5), ("p90_us", 0.9), ("p99_us", 0.99), ("p99.9_us", 0.999), ("max_us", 1.0)];

type Make = fn() -> Box<dyn Policy>;

const POLICIES: [(&str, Make); 5] = [
    ("fifo", || Box::new(Fifo::new())),
    ("work stealing", || Box::new(WorkStealing::new())),
    ("lottery", || Box::new(Lottery::new())),
    ("priority", || Box::new(Priority::new())),
    ("earliest deadline", || Box::new(EarliestDeadline::new())),
];

/// Computations for each virtual processor.
const COMPUTATIONS: usize = 8;
const SLICE: Duration = Duration::from_micros(100);
/// Between two requests, for each virtual processor.
const PERIOD: Duration = Duration::from_micros(500);
const STEPS: usize = 3;
const STEP: Duration = Duration::from_micros(10);
const DUE: Duration = Duration::from_millis(1);
const TICKETS: u16 = 64;

pub(super) fn cases(vps: usize) -> Vec<Case> {
    POLICIES
        .into_iter()
        .map(|(name, policy)| {
            Case::new(BENCH, "chanter", name, move |load| study(load, policy)).load_of(2_000, vps)
        })
        .collect()
}

/// Uses the processor for a while.
fn compute(time: Duration) {
    let end = Instant::now() + time;
    let mut x = 1_u64;
    while Instant::now() < end {
        for _ in 0..64 {
            x = black_box(x.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        }
    }
}

fn study(load: Load, policy: Make) -> Outcome {
    let broken = |error: std::io::Error| Failure::Broken(error.to_string());
    let machine =
        Machine::builder().vps(load.vps).name("bench").policy(move |_| policy()).build().map_err(broken)?;
    let over = Arc::new(AtomicBool::new(false));
    let slices = Arc::new(AtomicU64::new(0));
    let computations: Vec<_> = (0..COMPUTATIONS * load.vps)
        .map(|index| {
            let (over, slices) = (Arc::clone(&over), Arc::clone(&slices));
            machine.spawn_on(index % load.vps, async move {
                while !over.load(Ordering::Relaxed) {
                    compute(SLICE);
                    slices.fetch_add(1, Ordering::Relaxed);
                    yield_now().await;
                }
            })
        })
        .collect();
    // Once all of them have begun.
    while slices.load(Ordering::Relaxed) < computations.len() as u64 {
        sleep(Duration::from_millis(1));
    }
    slices.store(0, Ordering::Relaxed);
    let begin = Instant::now();
    let period = PERIOD / load.vps as u32;
    let requests: Vec<_> = (0..load.n)
        .map(|number| {
            let came = begin + period * u32::try_from(number).unwrap_or(u32::MAX);
            sleep(came.saturating_duration_since(Instant::now()));
            let urgent = Attributes::new().priority(5).deadline(came + DUE).tickets(TICKETS);
            machine.spawn_with(urgent, async move {
                for step in 0..STEPS {
                    if step > 0 {
                        yield_now().await;
                    }
                    compute(STEP);
                }
                came.elapsed()
            })
        })
        .collect();
    let mut latencies = Vec::with_capacity(requests.len());
    for request in requests {
        let latency = request.join().sync_blocking();
        latencies.push(latency.map_err(|error| Failure::Broken(error.to_string()))?);
    }
    let elapsed = begin.elapsed();
    let computed = slices.load(Ordering::Relaxed);
    over.store(true, Ordering::Relaxed);
    for thread in computations {
        thread.join().sync_blocking().map_err(|error| Failure::Broken(error.to_string()))?;
    }
    expect("requests answered", latencies.len() as u64, load.n)?;
    expect("nobody starves", computed > 0, true)?;
    latencies.sort_unstable();
    let mut sample = Sample::new(load.n, latencies.iter().sum());
    for (name, part) in PERCENTILES {
        sample = sample.with(name, percentile(&latencies, part).as_secs_f64() * 1e6);
    }
    Ok(sample.with(SLICES, computed as f64 / elapsed.as_secs_f64()))
}

/// The least latency that so large a part does not exceed.
fn percentile(sorted: &[Duration], part: f64) -> Duration {
    let rank = (part * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.clamp(1, sorted.len().max(1)) - 1).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_ranks() {
        let sorted: Vec<_> = (1..=1000).map(Duration::from_micros).collect();
        let of = |part| percentile(&sorted, part).as_micros();
        assert_eq!([of(0.5), of(0.99), of(0.999), of(1.0)], [500, 990, 999, 1000]);
        assert_eq!(percentile(&sorted[..1], 0.5).as_micros(), 1);
        assert_eq!(percentile(&[], 0.5), Duration::ZERO);
    }
}
