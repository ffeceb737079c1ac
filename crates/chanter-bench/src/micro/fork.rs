//! `par-fib`: Fibonacci numbers by their definition, whose calls are forks, or delayed threads; beside rayon.

use std::hint::black_box;
use std::time::{Duration, Instant};

use chanter::prelude::*;

use super::{on_machine, value_of};
use crate::case::{Case, Failure, Load, Outcome, Sample, expect};
use crate::peers::rayon;

const BENCH: &str = "par-fib";
const MOST: usize = 48;

/// The numbers themselves.
pub(crate) const FIBS: [u64; MOST] = {
    let mut fibs = [0; MOST];
    fibs[1] = 1;
    let mut n = 2;
    while n < MOST {
        fibs[n] = fibs[n - 1] + fibs[n - 2];
        n += 1;
    }
    fibs
};

/// Number of calls that the `n`th takes.
pub(crate) fn calls(n: u64) -> u64 {
    2 * FIBS[n as usize + 1] - 1
}

/// The largest argument that takes at most that number of calls.
pub(crate) fn number(most_calls: u64) -> u64 {
    (1..MOST as u64 - 1).rev().find(|n| calls(*n) <= most_calls).unwrap_or(1)
}

pub(crate) fn cases(vps: usize) -> Vec<Case> {
    let size = calls(32);
    let mut cases = vec![
        Case::new(BENCH, "chanter", "fork_join", |load| by_threads(load, |n| async move { forked(n) }))
            .load_of(size, vps),
        Case::new(BENCH, "chanter", "delayed", |load| by_threads(load, delayed)).load_of(size, vps),
        Case::new(BENCH, "rayon", "join", rayon::par_fib).load_of(size, vps),
    ];
    if vps == 1 {
        cases.push(Case::new(BENCH, "plain", "calls", serial).load_of(size, 1));
    }
    cases
}

fn forked(n: u64) -> u64 {
    if n < 2 {
        return n;
    }
    let (one, other) = fork_join(|| forked(n - 1), || forked(n - 2));
    one + other
}

#[allow(clippy::manual_async_fn, reason = "a future that makes threads of itself must promise to be `Send`")]
fn delayed(n: u64) -> impl Future<Output = u64> + Send {
    async move {
        if n < 2 {
            return n;
        }
        let (one, other) = (delay(delayed(n - 1)), delay(delayed(n - 2)));
        let value = |value: Result<u64, JoinError>| value.expect("a call has a value");
        value(other.await) + value(one.await)
    }
}

fn by_threads<F>(load: Load, fib: fn(u64) -> F) -> Outcome
where
    F: Future<Output = u64> + Send + 'static,
{
    let n = number(load.n);
    let timed = async move {
        let clock = Instant::now();
        let value = fib(n).await;
        (value, clock.elapsed())
    };
    // A thread of its own, which any virtual processor may run.
    let (value, elapsed) = on_machine(load.vps, async move { value_of(spawn(timed)).await })??;
    sample(n, value, elapsed)
}

#[inline(never)]
fn fib(n: u64) -> u64 {
    if n < 2 { n } else { fib(n - 1) + fib(n - 2) }
}

fn serial(load: Load) -> Outcome {
    let n = number(load.n);
    let clock = Instant::now();
    let value = fib(black_box(n));
    sample(n, value, clock.elapsed())
}

fn sample(n: u64, value: u64, elapsed: Duration) -> Result<Sample, Failure> {
    expect("the number", value, FIBS[n as usize])?;
    Ok(Sample::new(calls(n), elapsed))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_calls() {
        assert_eq!((FIBS[10], FIBS[27]), (55, 196_418));
        assert_eq!((calls(0), calls(1), calls(2), calls(27)), (1, 1, 3, 635_621));
        assert_eq!((number(calls(27)), number(calls(27) - 1), number(0)), (27, 26, 1));
    }
}
