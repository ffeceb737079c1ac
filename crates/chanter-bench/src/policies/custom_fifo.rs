//! `yield`: threads that do nothing but take turns, under the library's fifo and under a user's.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use chanter::policy::{Fifo, Policy, Ready, ReadyQueue, Reason, ShortLock};
use chanter::prelude::*;

use crate::case::{Case, Failure, Load, Outcome, Sample, expect};
use crate::measure::Measured;

pub(super) const BENCH: &str = "yield";
const OURS: &str = "fifo";
const CUSTOM: &str = "custom fifo";
/// A custom policy with the most obvious lock.
const CUSTOM_MUTEX: &str = "custom fifo, std::sync::Mutex";
const THREADS: u64 = 32;

pub(crate) fn cases(vps: usize) -> Vec<Case> {
    vec![
        Case::new(BENCH, "chanter", OURS, |load| turns(load, || Box::new(Fifo::new())))
            .load_of(5_000_000, vps),
        Case::new(BENCH, "chanter", CUSTOM, |load| turns(load, || Box::new(Custom::default())))
            .load_of(5_000_000, vps),
        Case::new(BENCH, "chanter", CUSTOM_MUTEX, |load| turns(load, || Box::new(WithMutex::default())))
            .load_of(5_000_000, vps),
    ]
}

/// The user's time through ours, if both were measured.
pub(super) fn ratio(measured: &[Measured]) -> Option<f64> {
    let of = |variant| {
        let mut all = measured.iter().filter(|m| m.case.bench == BENCH && m.case.variant == variant);
        Some(all.next()?.outcome.as_ref().ok()?.ns_per_op)
    };
    Some(of(CUSTOM)? / of(OURS)?)
}

/// The shortest policy.
#[derive(Default)]
struct Custom {
    queue: ShortLock<ReadyQueue>,
}

impl Policy for Custom {
    fn enqueue(&self, thread: Ready, _why: Reason) -> Option<Ready> {
        self.queue.lock().push_back(thread);
        None
    }

    fn next(&self) -> Option<Ready> {
        self.queue.lock().pop_front()
    }
}

#[derive(Default)]
struct WithMutex {
    queue: Mutex<ReadyQueue>,
}

impl WithMutex {
    fn queue(&self) -> MutexGuard<'_, ReadyQueue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Policy for WithMutex {
    fn enqueue(&self, thread: Ready, _why: Reason) -> Option<Ready> {
        self.queue().push_back(thread);
        None
    }

    fn next(&self) -> Option<Ready> {
        self.queue().pop_front()
    }
}

/// Every operation is one turn: a thread comes back to the policy, and the next one is taken out.
fn turns(load: Load, policy: fn() -> Box<dyn Policy>) -> Outcome {
    let machine = Machine::builder()
        .vps(load.vps)
        .name("bench")
        .policy(move |_| policy())
        .build()
        .map_err(|error| Failure::Broken(error.to_string()))?;
    let each = load.n / THREADS;
    let before = machine.stats().dispatched;
    let elapsed = machine.block_on(async {
        let threads: Vec<_> = (0..THREADS)
            .map(|_| {
                spawn(async move {
                    for _ in 0..each {
                        yield_now().await;
                    }
                })
            })
            .collect();
        let clock = Instant::now();
        for thread in threads {
            thread.join().await.map_err(|error| Failure::Broken(error.to_string()))?;
        }
        Ok::<Duration, Failure>(clock.elapsed())
    })?;
    let turns = machine.stats().dispatched - before;
    expect("every thread took its turns", turns >= each * THREADS, true)?;
    Ok(Sample::new(each * THREADS, elapsed))
}
