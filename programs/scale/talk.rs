//! Threads that talk.

use std::hint::black_box;
use std::pin::Pin;
use std::time::Duration;

use chanter::prelude::*;

use super::{Ran, on};
use crate::kit::{Style, Synchronous};

async fn pair<S: Style>(trips: u64) -> u64 {
    let (ping, pings) = channel();
    let (pong, pongs) = channel();
    S::start(async move {
        while let Ok(value) = pings.recv().await {
            S::send(&pong, value + 1).await;
        }
    });
    let mut sum = 0;
    for value in 0..trips {
        S::send(&ping, value).await;
        sum += pongs.recv().await.unwrap_or(0);
    }
    sum
}

/// Conversations that have nothing to say to each other.
pub(super) fn pairs<S: Style>(machine: &Machine, pairs: u64, trips: u64) -> Ran {
    let each = trips / pairs;
    let done = on(machine, async move {
        let (to, sums) = mailbox();
        for _ in 0..pairs {
            let to = to.clone();
            S::start(async move {
                let sum = pair::<S>(each).await;
                let _ = to.send(sum).await;
            });
        }
        drop(to);
        let mut sum = 0;
        while let Ok(one) = sums.recv().await {
            sum += one;
        }
        sum
    });
    done.ran(each * pairs, pairs * (each * (each + 1) / 2))
}

/// A thread that is waited for at once, again and again.
pub(super) fn wait(machine: &Machine, threads: u64) -> Ran {
    let done = on(machine, async move {
        let mut sum = 0;
        for i in 0..threads {
            sum += spawn(async move { black_box(i) }).join().await.unwrap_or(0);
        }
        sum
    });
    done.ran(threads, threads * (threads - 1) / 2)
}

/// Threads that are all spawned before the first is waited for.
pub(super) fn many(machine: &Machine, threads: u64) -> Ran {
    let done = on(machine, async move {
        let threads: Vec<_> = (0..threads).map(|i| spawn(async move { black_box(i) })).collect();
        let mut sum = 0;
        for thread in threads {
            sum += thread.join().await.unwrap_or(0);
        }
        sum
    });
    done.ran(threads, threads * (threads - 1) / 2)
}

/// Rounds of [`compute`] that take about a microsecond.
pub(super) const MICROSECOND: u64 = 700;

/// Work without memory.
pub(super) fn compute(from: u64, rounds: u64) -> u64 {
    (0..rounds).fold(from, |x, i| black_box(x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(i)))
}

/// Threads that compute, and say nothing: the most that the cores give.
pub(super) fn alone(machine: &Machine, microseconds: u64) -> Ran {
    const THREADS: u64 = 100;
    let each = microseconds / THREADS;
    let done = on(machine, async move {
        let work = move |i: u64| async move {
            (0..each).for_each(|round| {
                black_box(compute(i + round, MICROSECOND));
            });
            each
        };
        let threads: Vec<_> = (0..THREADS).map(|i| spawn(work(i))).collect();
        let mut sum = 0;
        for thread in threads {
            sum += thread.join().await.unwrap_or(0);
        }
        sum
    });
    done.ran(each * THREADS, each * THREADS)
}

/// Number of branches of the choice.
pub(super) const SENDERS: u64 = 8;

/// Eight senders, each with a microsecond of work a message, and one that chooses among them.
pub(super) fn choice(machine: &Machine, messages: u64) -> Ran {
    let each = messages / SENDERS;
    let done = on(machine, async move {
        let mut senders = Vec::new();
        let receivers: [_; SENDERS as usize] = std::array::from_fn(|_| {
            let (to, from) = channel();
            senders.push(spawn(async move {
                for value in 0..each {
                    black_box(compute(value, MICROSECOND));
                    if to.send(value).await.is_err() {
                        break;
                    }
                }
                // Its value: a channel that has closed would win every later choice.
                to
            }));
            from
        });
        let mut sum = 0;
        for _ in 0..each * SENDERS {
            sum += choose(receivers.each_ref().map(Receiver::recv)).await.unwrap_or(0);
        }
        sum
    });
    done.ran(each * SENDERS, SENDERS * (each * (each - 1) / 2))
}

/// Threads that sleep, a hundred at a time.
pub(super) fn timers(machine: &Machine, timers: u64) -> Ran {
    const THREADS: u64 = 100;
    let each = timers / THREADS;
    let done = on(machine, async move {
        let sleep = move |i: u64| async move {
            for turn in 0..each {
                after(Duration::from_micros((i * 7 + turn * 13) % 100)).await;
            }
            each
        };
        let threads: Vec<_> = (0..THREADS).map(|i| spawn(sleep(i))).collect();
        let mut sum = 0;
        for thread in threads {
            sum += thread.join().await.unwrap_or(0);
        }
        sum
    });
    done.ran(each * THREADS, each * THREADS)
}

/// The prime of that number, by a pipeline with a stage for each before it, through which the numbers up to it go.
pub(super) fn sieve<S: Style>(machine: &Machine, primes: u64) -> Ran {
    sieve_by::<S>(machine, primes, |stage, _| drop(spawn(stage)))
}

/// The same; the stages are placed on the processors round robin, and stay there (Parallel Concurrent ML,
/// section 10.3).
pub(super) fn placed_sieve(machine: &Machine, primes: u64) -> Ran {
    let vps = machine.vps() as u64;
    sieve_by::<Synchronous>(machine, primes, move |stage, number| {
        drop(Thread::builder().on((number % vps) as usize).spawn(stage));
    })
}

fn sieve_by<S: Style>(
    machine: &Machine,
    primes: u64,
    place: impl Fn(Pin<Box<dyn Future<Output = ()> + Send>>, u64) + Send + 'static,
) -> Ran {
    let last = nth_prime(primes);
    let done = on(machine, async move {
        let (to, mut numbers) = channel();
        let source = async move {
            for number in 2..=last {
                S::send(&to, number).await;
            }
        };
        place(Box::pin(source), 0);
        for stage in 1..primes {
            let prime = numbers.recv().await.unwrap_or(0);
            let (to, next) = channel();
            place(Box::pin(filter::<S>(prime, std::mem::replace(&mut numbers, next), to)), stage);
        }
        numbers.recv().await.unwrap_or(0)
    });
    done.ran(last, last)
}

async fn filter<S: Style>(prime: u64, numbers: Receiver<u64>, to: Sender<u64>) {
    while let Ok(number) = numbers.recv().await {
        if number % prime != 0 {
            S::send(&to, number).await;
        }
    }
}

fn nth_prime(nth: u64) -> u64 {
    let is_prime = |n: &u64| (2..).take_while(|d| d * d <= *n).all(|d| !n.is_multiple_of(d));
    (2..).filter(is_prime).nth(nth as usize - 1).expect("there is no last prime")
}
