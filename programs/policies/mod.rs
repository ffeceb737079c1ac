//! Short requests beside long computations, under five policies; see the folder's `README.md`.

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use chanter::policy::{Attributes, EarliestDeadline, Fifo, Lottery, Policy, Priority, WorkStealing};
use chanter::prelude::*;

use crate::kit::{Failure, ensure};

/// A policy that is studied: its name, and how one is made.
pub type Studied = (&'static str, fn() -> Box<dyn Policy>);

/// The policies.
pub const POLICIES: [Studied; 5] = [
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

/// Results of a policy.
#[derive(Clone, Debug)]
pub struct Observed {
    /// How long each request took, the quickest first.
    pub latencies: Vec<Duration>,
    /// Slices of the computations that were computed in a second.
    pub slices_per_second: f64,
}

impl Observed {
    /// The least latency that so large a part of the requests does not exceed.
    pub fn percentile(&self, part: f64) -> Duration {
        percentile(&self.latencies, part)
    }
}

/// The least latency that so large a part of those, which are sorted, does not exceed.
pub fn percentile(sorted: &[Duration], part: f64) -> Duration {
    let rank = (part * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.clamp(1, sorted.len().max(1)) - 1).copied().unwrap_or_default()
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

/// Runs the workload with this number of requests.
///
/// # Errors
/// A thread failed, a request was not answered, or the computations starved.
pub fn study(requests: u64, vps: usize, policy: fn() -> Box<dyn Policy>) -> Result<Observed, Failure> {
    let machine = Machine::builder().vps(vps).name("policies").policy(move |_| policy());
    let machine = machine.build().map_err(Failure::Machine)?;
    let over = Arc::new(AtomicBool::new(false));
    let slices = Arc::new(AtomicU64::new(0));
    let computations: Vec<_> = (0..COMPUTATIONS * vps)
        .map(|index| {
            let (over, slices) = (Arc::clone(&over), Arc::clone(&slices));
            machine.spawn_on(index % vps, async move {
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
    let period = PERIOD / vps as u32;
    let threads: Vec<_> = (0..requests)
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
    let mut latencies = Vec::with_capacity(threads.len());
    for request in threads {
        latencies.push(request.join().sync_blocking().map_err(Failure::Ended)?);
    }
    let elapsed = begin.elapsed();
    let computed = slices.load(Ordering::Relaxed);
    over.store(true, Ordering::Relaxed);
    for thread in computations {
        thread.join().sync_blocking().map_err(Failure::Ended)?;
    }
    ensure("requests answered", &(latencies.len() as u64), &requests)?;
    ensure("nobody starves", &(computed > 0), &true)?;
    latencies.sort_unstable();
    Ok(Observed { latencies, slices_per_second: computed as f64 / elapsed.as_secs_f64() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_ranks() {
        let observed = |latencies| Observed { latencies, slices_per_second: 1.0 };
        let many = observed((1..=1000).map(Duration::from_micros).collect());
        let of = |part| many.percentile(part).as_micros();
        assert_eq!([of(0.5), of(0.99), of(0.999), of(1.0)], [500, 990, 999, 1000]);
        assert_eq!(observed(many.latencies[..1].to_vec()).percentile(0.5).as_micros(), 1);
        assert_eq!(observed(Vec::new()).percentile(0.5), Duration::ZERO);
    }

    #[test]
    fn every_policy_answers_all_and_starves_nobody() {
        for (name, policy) in POLICIES {
            let observed = study(400, 1, policy).unwrap_or_else(|error| panic!("{name}: {error}"));
            assert_eq!(observed.latencies.len(), 400);
            assert!(observed.slices_per_second > 0.0 && observed.latencies.is_sorted(), "{name}");
        }
    }
}
