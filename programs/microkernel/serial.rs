//! The computation of threads, and its time without threads.

use std::hint::black_box;
use std::time::{Duration, Instant};

use super::Spec;

/// Content of a process's object: x, y, z.
pub(super) fn values(process: u32) -> [u64; 3] {
    [1, 2, 3].map(|axis| u64::from(process) * 1_000 + axis)
}

/// A number of steps of a generator. Takes as long whatever it computes with.
#[inline(never)]
pub(super) fn compute([x, y, z]: [u64; 3], steps: u64) -> u64 {
    let mut value = x ^ y << 20 ^ z << 40;
    for _ in 0..steps {
        value = black_box(value.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
    }
    value
}

/// Steps in a microsecond: the most of several tries, as others may have disturbed one.
pub(super) fn steps_in_a_microsecond() -> f64 {
    const STEPS: u64 = 200_000;
    let try_once = |_| {
        let clock = Instant::now();
        black_box(compute(black_box([1, 2, 3]), STEPS));
        STEPS as f64 / clock.elapsed().as_secs_f64() / 1e6
    };
    (0..20).map(try_once).fold(1.0, f64::max)
}

/// The steps of a thread.
pub(super) fn steps(spec: Spec, me: u32, thread: u32, in_a_microsecond: f64) -> u64 {
    (spec.grain_of(me, thread) * in_a_microsecond) as u64
}

/// All that a process computes, one after the other: the sum, and how long it takes.
pub(super) fn all(spec: Spec, me: u32, processes: u32, in_a_microsecond: f64) -> (u64, Duration) {
    let clock = Instant::now();
    let sum = (0..spec.count).fold(0_u64, |sum, thread| {
        let from = spec.from(me, thread, processes);
        sum.wrapping_add(compute(values(from), steps(spec, me, thread, in_a_microsecond)))
    });
    (sum, clock.elapsed())
}
