//! Trees of threads, and of forks.

use chanter::prelude::*;
use chanter_peer_kit::work;

use super::{Done, Ran, on};
use crate::kit::Style;
use crate::{par_fib, par_tak};

/// Parasites that send synchronously.
#[derive(Debug)]
pub(super) struct ParasitesSend;

impl Style for ParasitesSend {
    const FORM: crate::kit::Form = crate::kit::Form::PaperParasites;

    fn start(future: impl Future<Output = ()> + Send + 'static) {
        spawn_parasite(future);
    }

    async fn send<T: Send + 'static>(to: &Sender<T>, message: T) {
        drop(to.send(message).await);
    }
}

fn fibonacci(n: u64) -> u64 {
    (0..n).fold((0, 1), |(now, next), _| (next, now + next)).0
}

fn takeuchi([x, y, z]: [i64; 3]) -> (i64, u64) {
    if y >= x {
        return (z, 1);
    }
    let inner = [[x - 1, y, z], [y - 1, z, x], [z - 1, x, y]].map(takeuchi);
    let (value, calls) = takeuchi(inner.map(|(value, _)| value));
    (value, 1 + calls + inner.iter().map(|(_, calls)| calls).sum::<u64>())
}

fn fib_ran(n: u64, done: Done<u64>) -> Ran {
    done.ran(2 * fibonacci(n + 1) - 1, fibonacci(n))
}

fn tak_ran(n: u64, done: Done<i64>) -> Ran {
    let (expected, operations) = takeuchi(work::tak_arguments(n));
    Done(done.0 as u64, done.1).ran(operations, expected as u64)
}

/// A thread for each call, which answers over a channel.
pub(super) fn fib<S: Style>(machine: &Machine, n: u64) -> Ran {
    fib_ran(n, on(machine, par_fib::chanter::call::<S>(n)))
}

/// The same of Takeuchi's function.
pub(super) fn tak<S: Style>(machine: &Machine, n: u64) -> Ran {
    tak_ran(n, on(machine, par_tak::chanter::call::<S>(work::tak_arguments(n))))
}

/// A host for each call, which is joined.
pub(super) fn tak_joined(machine: &Machine, n: u64) -> Ran {
    tak_ran(n, on(machine, joined(work::tak_arguments(n))))
}

fn joined(arguments: [i64; 3]) -> impl Future<Output = i64> + Send {
    async move {
        let [x, y, z] = arguments;
        if y >= x {
            return z;
        }
        let [one, two, three] =
            [[x - 1, y, z], [y - 1, z, x], [z - 1, x, y]].map(|arguments| spawn(joined(arguments)));
        let three = value(three).await;
        let arguments = [value(one).await, value(two).await, three];
        value(spawn(joined(arguments))).await
    }
}

async fn value(call: Thread<i64>) -> i64 {
    call.await.expect("a call has a value")
}

/// Calls that are forks.
pub(super) fn forked_fib(machine: &Machine, n: u64) -> Ran {
    fib_ran(n, on(machine, async move { par_fib::chanter::forked(n) }))
}

/// The same of Takeuchi's function.
pub(super) fn forked_tak(machine: &Machine, n: u64) -> Ran {
    tak_ran(n, on(machine, async move { par_tak::chanter::forked(work::tak_arguments(n)) }))
}

/// Halves that are forks, and merges.
pub(super) fn mergesort(machine: &Machine, n: u64) -> Ran {
    let mut numbers = work::numbers(n);
    let mut expected = numbers.clone();
    expected.sort_unstable();
    let Done(sorted, elapsed) = on(machine, async move {
        let mut spare = numbers.clone();
        crate::peers::chanter::sort(&mut numbers, &mut spare);
        numbers
    });
    Done(work::checksum(&sorted), elapsed).ran(n, work::checksum(&expected))
}
