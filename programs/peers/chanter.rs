//! The programs of the contract on Chanter's threads.

use std::fmt;
use std::future::Future;

use chanter::ChoiceSet;
use chanter::prelude::*;
use chanter_peer_kit::work::{self, PIECE};
use chanter_peer_kit::{Program, System};

use crate::kit::{AsynchronousParasites, answer, answers, bind_if_possible};
use crate::{par_fib, par_tak};

/// A machine that runs the programs.
pub struct Chanter {
    machine: Machine,
}

impl fmt::Debug for Chanter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Chanter").field("processors", &self.machine.vps()).finish()
    }
}

impl Chanter {
    /// Runs `work` as a thread, which any virtual processor may take.
    fn run<T: Send + 'static>(&self, work: impl Future<Output = T> + Send + 'static) -> T {
        self.machine.block_on(async { spawn(work).join().await }).expect("no thread panics")
    }
}

impl System for Chanter {
    const PROGRAMS: &'static [Program<Self>] = &[
        Program::new("spawn/hosts", |chanter, n| chanter.run(hosts(n))),
        Program::new("spawn/delayed", |chanter, n| chanter.run(delayed(n))),
        Program::new("spawn/parasites", |chanter, n| chanter.run(parasites(n))),
        Program::new("ping-pong", |chanter, n| chanter.run(async move { work::low(pair(n).await) })),
        Program::new("parallel-ping-pong", |chanter, n| chanter.run(parallel_ping_pong(n))),
        Program::new("send", |chanter, n| chanter.run(send(n))),
        Program::new("choose/choose", |chanter, n| chanter.run(choose_anew(n))),
        Program::new("choose/ChoiceSet", |chanter, n| chanter.run(choose_from_a_set(n))),
        Program::new("sieve", |chanter, n| chanter.run(sieve(n))),
        Program::new("fib-channel", |chanter, n| chanter.run(fib_channel(n))),
        Program::new("fib-join", |chanter, n| chanter.run(async move { par_fib::chanter::forked(n) })),
        Program::new("tak-join", |chanter, n| {
            chanter.run(async move { par_tak::chanter::forked(work::tak_arguments(n)) as u64 })
        }),
        Program::sort("mergesort", |chanter, mut numbers| {
            chanter.run(async move {
                let mut spare = numbers.clone();
                sort(&mut numbers, &mut spare);
                numbers
            })
        }),
    ];

    fn start(processors: usize) -> Self {
        let machine = Machine::builder().vps(processors).name("peer").build();
        let machine = machine.expect("the operating system has threads");
        // A run may be over before the system has found out that two threads compute on one core.
        bind_if_possible(&machine);
        Self { machine }
    }
}

/// The batches of `spawn`.
fn batches(threads: u64) -> impl Iterator<Item = std::ops::Range<u64>> {
    let first = (0..threads).step_by(work::BATCH as usize);
    first.map(move |first| first..threads.min(first + work::BATCH))
}

/// A thread that nobody has taken yet is run by its waiter.
async fn hosts(threads: u64) -> u64 {
    let mut batch = Vec::with_capacity(work::BATCH as usize);
    let mut sum = 0;
    for numbers in batches(threads) {
        batch.extend(numbers.map(|i| spawn(async move { work::square(i) })));
        for thread in batch.drain(..) {
            sum += thread.await.expect("no thread panics");
        }
    }
    sum
}

/// Nobody has taken those when they are awaited: they run as calls.
async fn delayed(threads: u64) -> u64 {
    let mut batch = Vec::with_capacity(work::BATCH as usize);
    let mut sum = 0;
    for numbers in batches(threads) {
        batch.extend(numbers.map(|i| delay(async move { work::square(i) })));
        for thread in batch.drain(..) {
            sum += thread.await.expect("no thread panics");
        }
    }
    sum
}

/// Parasites have no handle to join: their values come by mail.
async fn parasites(threads: u64) -> u64 {
    let (to, values) = mailbox();
    let mut sum = 0;
    for numbers in batches(threads) {
        for i in numbers.clone() {
            let to = to.clone();
            spawn_parasite(async move { to.asend(work::square(i)).expect("the spawner waits for all") });
        }
        for _ in numbers {
            sum += values.recv().await.unwrap_or(0);
        }
    }
    sum
}

async fn pair(trips: u64) -> u64 {
    let (ping, pings) = channel();
    let (pong, pongs) = channel();
    drop(spawn(async move {
        while let Ok(value) = pings.recv().await {
            if pong.send(value + 1).await.is_err() {
                break;
            }
        }
    }));
    let mut sum = 0;
    for value in 0..trips {
        if ping.send(value).await.is_err() {
            break;
        }
        sum += pongs.recv().await.unwrap_or(0);
    }
    sum
}

async fn parallel_ping_pong(trips: u64) -> u64 {
    let pairs: Vec<_> = (0..work::PAIRS).map(|_| spawn(pair(trips / work::PAIRS))).collect();
    let mut sum = 0;
    for pair in pairs {
        sum += pair.join().await.expect("no thread panics");
    }
    work::low(sum)
}

async fn send(messages: u64) -> u64 {
    let (to, numbers) = mailbox();
    drop(spawn(async move {
        for value in 0..messages {
            if to.send(value).await.is_err() {
                break;
            }
        }
    }));
    let mut sum = 0;
    while let Ok(value) = numbers.recv().await {
        sum += value;
    }
    work::low(sum)
}

/// The receiving ends of `choose`, and the producers: their values are the sending ends, because a channel that closed
/// would win every later choice.
fn producers(messages: u64) -> ([Receiver<u64>; PRODUCERS], Vec<Thread<Sender<u64>>>) {
    let mut threads = Vec::with_capacity(PRODUCERS);
    let receivers = std::array::from_fn(|_| {
        let (to, numbers) = channel();
        threads.push(spawn(async move {
            for value in 0..messages / work::PRODUCERS {
                if to.send(value).await.is_err() {
                    break;
                }
            }
            to
        }));
        numbers
    });
    (receivers, threads)
}

const PRODUCERS: usize = work::PRODUCERS as usize;

/// A new choice for each message.
async fn choose_anew(messages: u64) -> u64 {
    let (receivers, _producers) = producers(messages);
    let mut sum = 0;
    for _ in 0..messages {
        sum += choose(receivers.each_ref().map(Receiver::recv)).await.unwrap_or(0);
    }
    work::low(sum)
}

/// One choice that is kept.
async fn choose_from_a_set(messages: u64) -> u64 {
    let (receivers, _producers) = producers(messages);
    let mut set = ChoiceSet::new();
    for numbers in &receivers {
        set.insert(move || numbers.recv());
    }
    let mut sum = 0;
    for _ in 0..messages {
        sum += set.next().await.1.unwrap_or(0);
    }
    work::low(sum)
}

async fn sieve(primes: u64) -> u64 {
    let (to, mut numbers) = channel();
    drop(spawn(async move {
        let mut number = 2;
        while to.send(number).await.is_ok() {
            number += 1;
        }
    }));
    for _ in 1..primes {
        let prime = numbers.recv().await.unwrap_or(0);
        let (to, next) = channel();
        drop(spawn(filter(prime, std::mem::replace(&mut numbers, next), to)));
    }
    numbers.recv().await.unwrap_or(0)
}

async fn filter(prime: u64, numbers: Receiver<u64>, to: Sender<u64>) {
    while let Ok(number) = numbers.recv().await {
        if number % prime != 0 && to.send(number).await.is_err() {
            break;
        }
    }
}

fn fib_channel(n: u64) -> impl Future<Output = u64> + Send {
    async move {
        if n < 2 {
            return n;
        }
        let one = answers::<AsynchronousParasites, _>(move || fib_channel(n - 1));
        let other = Box::pin(fib_channel(n - 2)).await;
        answer(one).await + other
    }
}

/// `spare` holds the same numbers, and anything afterwards.
pub(crate) fn sort(numbers: &mut [u32], spare: &mut [u32]) {
    if numbers.len() <= PIECE {
        return work::sort_piece(numbers, spare);
    }
    let middle = numbers.len() / 2;
    let (left, right) = spare.split_at_mut(middle);
    let (to_left, to_right) = numbers.split_at_mut(middle);
    fork_join(|| sort(left, to_left), || sort(right, to_right));
    merge((left, right, numbers));
}

/// Merges in parts.
pub(crate) fn merge(whole: work::Merge<'_>) {
    match work::cut_merge(whole) {
        Ok([low, high]) => drop(fork_join(|| merge(low), || merge(high))),
        Err((left, right, into)) => work::merge(left, right, into),
    }
}
