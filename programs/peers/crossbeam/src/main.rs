//! Threads of the operating system, and crossbeam's channels between them; see `README.md`.

use std::process::ExitCode;
use std::thread::{self, JoinHandle};

use chanter_peer_kit::work::{self, PIECE};
use chanter_peer_kit::{Program, System};
use crossbeam_channel::{Select, bounded, unbounded};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

struct Crossbeam;

impl System for Crossbeam {
    const PROGRAMS: &'static [Program<Self>] = &[
        Program::new("spawn", |_, n| spawn(n)),
        Program::new("ping-pong", |_, n| work::low(value(pair(n)))),
        Program::new("parallel-ping-pong", |_, n| parallel_ping_pong(n)),
        Program::new("send", |_, n| send(n)),
        Program::new("choose", |_, n| choose(n)),
        Program::sort("mergesort", |_, mut numbers| {
            let mut spare = numbers.clone();
            sort(&mut numbers, &mut spare);
            numbers
        }),
    ];

    /// The processors are those that `run` keeps this process to.
    fn start(_: usize) -> Self {
        Self
    }
}

fn value<T>(thread: JoinHandle<T>) -> T {
    thread.join().expect("no thread panics")
}

fn spawn(threads: u64) -> u64 {
    let mut batch = Vec::with_capacity(work::BATCH as usize);
    let mut sum = 0;
    for first in (0..threads).step_by(work::BATCH as usize) {
        let last = threads.min(first + work::BATCH);
        batch.extend((first..last).map(|i| thread::spawn(move || work::square(i))));
        sum += batch.drain(..).map(value).sum::<u64>();
    }
    sum
}

fn pair(trips: u64) -> JoinHandle<u64> {
    let (ping, pings) = bounded::<u64>(0);
    let (pong, pongs) = bounded::<u64>(0);
    thread::spawn(move || pings.iter().all(|value| pong.send(value + 1).is_ok()));
    thread::spawn(move || {
        let answer = |value| ping.send(value).ok().and_then(|()| pongs.recv().ok());
        (0..trips).filter_map(answer).sum()
    })
}

fn parallel_ping_pong(trips: u64) -> u64 {
    let pairs: Vec<_> = (0..work::PAIRS).map(|_| pair(trips / work::PAIRS)).collect();
    work::low(pairs.into_iter().map(value).sum())
}

fn send(messages: u64) -> u64 {
    let (tx, rx) = unbounded();
    thread::spawn(move || (0..messages).all(|value| tx.send(value).is_ok()));
    work::low(rx.iter().sum())
}

fn choose(messages: u64) -> u64 {
    let producer = |_| {
        let (tx, rx) = bounded::<u64>(0);
        let mine = tx.clone();
        thread::spawn(move || (0..messages / work::PRODUCERS).all(|value| mine.send(value).is_ok()));
        (tx, rx)
    };
    // The senders are kept: a channel that closed would win every later choice.
    let (_senders, receivers): (Vec<_>, Vec<_>) = (0..work::PRODUCERS).map(producer).unzip();
    let mut any = Select::new();
    receivers.iter().for_each(|rx| {
        any.recv(rx);
    });
    let mut sum = 0;
    for _ in 0..messages {
        let chosen = any.select();
        let rx = &receivers[chosen.index()];
        sum += chosen.recv(rx).unwrap_or(0);
    }
    work::low(sum)
}

/// `spare` holds the same numbers, and anything afterwards.
fn sort(numbers: &mut [u32], spare: &mut [u32]) {
    if numbers.len() <= PIECE {
        return work::sort_piece(numbers, spare);
    }
    let middle = numbers.len() / 2;
    let (left, right) = spare.split_at_mut(middle);
    let (to_left, to_right) = numbers.split_at_mut(middle);
    thread::scope(|threads| {
        threads.spawn(|| sort(left, to_left));
        sort(right, to_right);
    });
    work::merge(left, right, numbers);
}

fn main() -> ExitCode {
    chanter_peer_kit::main::<Crossbeam>()
}
