//! rayon: fork-join over a pool of OS threads that steal work.

use std::time::Instant;

use rayon::{ThreadPool, ThreadPoolBuilder};

use crate::case::{Failure, Load, Outcome, Sample, expect};
use crate::micro::fork::{FIBS, calls, number};

fn fib(n: u64) -> u64 {
    if n < 2 {
        return n;
    }
    let (one, other) = rayon::join(|| fib(n - 1), || fib(n - 2));
    one + other
}

pub(crate) fn pool(threads: usize) -> Result<ThreadPool, Failure> {
    let pool = ThreadPoolBuilder::new().num_threads(threads).build();
    pool.map_err(|error| Failure::Broken(error.to_string()))
}

pub(crate) fn par_fib(load: Load) -> Outcome {
    let n = number(load.n);
    let (value, elapsed) = pool(load.vps)?.install(|| {
        let clock = Instant::now();
        let value = fib(n);
        (value, clock.elapsed())
    });
    expect("the number", value, FIBS[n as usize])?;
    Ok(Sample::new(calls(n), elapsed))
}
