//! Rows written by hand for as many OS threads as there are virtual processors: the most that two cores can give.
//!
//! There are no threads of ours, no channels and no choice. There is only the computation, and the words that have to
//! cross.

use std::hint::{black_box, spin_loop};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::thread;
use std::time::{Duration, Instant};

use chanter::prelude::*;

use super::Ran;
use super::talk::{MICROSECOND, SENDERS, compute};

/// Runs `first` beside one more for each further virtual processor of the machine.
fn beside<R>(machine: &Machine, more: impl Fn() + Sync, first: impl FnOnce() -> R) -> (R, Duration) {
    let clock = Instant::now();
    let got = thread::scope(|scope| {
        for _ in 1..machine.vps() {
            scope.spawn(&more);
        }
        first()
    });
    (got, clock.elapsed())
}

/// Work for any free thread, a microsecond at a time. All but one sleep when it begins, and that one wakes them. So a
/// short computation gains only the time that the wake leaves.
pub(super) fn short(machine: &Machine, microseconds: u64) -> Ran {
    let (begins, taken, done) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
    let work = || {
        while taken.fetch_add(1, Relaxed) < microseconds {
            black_box(compute(0, MICROSECOND));
            done.fetch_add(1, Release);
        }
    };
    let elapsed = thread::scope(|scope| {
        let sleeps = || {
            while !begins.load(Acquire) {
                thread::park();
            }
            work();
        };
        let others: Vec<_> = (1..machine.vps()).map(|_| scope.spawn(sleeps)).collect();
        // They sleep by then; if not, the row is a little too good.
        thread::sleep(Duration::from_millis(10));
        let clock = Instant::now();
        begins.store(true, Release);
        others.iter().for_each(|other| other.thread().unpark());
        work();
        while done.load(Acquire) < microseconds {
            spin_loop();
        }
        clock.elapsed()
    });
    Ran { elapsed, operations: microseconds, got: done.load(Relaxed), expected: microseconds }
}

/// A thread's task and its result, on cache lines of their own.
#[derive(Default)]
#[repr(align(128))]
struct Slot {
    argument: AtomicU64,
    result: AtomicU64,
}

/// As [`talk::many`](super::talk::many). One OS thread writes the tasks down, in memory that was touched before, and
/// collects the results. The others do the tasks meanwhile, from the first on. The writer does those that they have
/// not begun, from the last on.
pub(super) fn many(machine: &Machine, threads: u64) -> Ran {
    /// Number of tasks that are claimed at once.
    const BATCH: u64 = 64;
    let slots: Vec<Slot> = (0..threads).map(|_| Slot::default()).collect();
    let written = AtomicU64::new(0);
    let claims: Vec<AtomicBool> = (0..threads.div_ceil(BATCH)).map(|_| AtomicBool::new(false)).collect();
    let batch = |batch: u64| (batch * BATCH..threads.min((batch + 1) * BATCH)).map(|i| &slots[i as usize]);
    let run = |i: u64| {
        if claims[i as usize].swap(true, Relaxed) {
            return false;
        }
        // (A task is never 0, nor is a result.)
        batch(i).for_each(|slot| slot.result.store(black_box(slot.argument.load(Relaxed)), Release));
        true
    };
    let others = || {
        for i in 0..claims.len() as u64 {
            while written.load(Acquire) < threads.min((i + 1) * BATCH) {
                spin_loop();
            }
            if !run(i) {
                break;
            }
        }
    };
    let (got, elapsed) = beside(machine, others, || {
        for (i, slot) in (1..=threads).zip(&slots) {
            slot.argument.store(i, Relaxed);
            written.store(i, Release);
        }
        (0..claims.len() as u64).rev().take_while(|i| run(*i)).count();
        let result = |slot: &Slot| loop {
            match slot.result.load(Acquire) {
                0 => spin_loop(),
                result => break result,
            }
        };
        slots.iter().map(result).sum()
    });
    Ran { elapsed, operations: threads, got, expected: threads * (threads + 1) / 2 }
}

/// States of the sender: it waits for work, or works. Any other word is its message plus two.
const TAKEN: u64 = 0;
const WORKS: u64 = 1;

#[repr(align(128))]
struct Sender {
    word: AtomicU64,
    /// Messages sent by the thread that has made the word [`WORKS`].
    sent: AtomicU64,
}

/// Claims a sender, if one waits, and does its work.
fn work(senders: &[Sender], each: u64) -> bool {
    let free = senders.iter().find(|sender| {
        sender.word.load(Relaxed) == TAKEN
            && sender.sent.load(Relaxed) < each
            && sender.word.compare_exchange(TAKEN, WORKS, Acquire, Relaxed).is_ok()
    });
    let Some(sender) = free else { return false };
    let value = sender.sent.load(Relaxed);
    if value == each {
        sender.word.store(TAKEN, Release);
        return true;
    }
    black_box(compute(value, MICROSECOND));
    sender.sent.store(value + 1, Relaxed);
    sender.word.store(value + 2, Release);
    true
}

/// As [`talk::choice`](super::talk::choice). Each sender is a word on a cache line of its own. A free thread claims a
/// task whose message was taken, and does its work. The first OS thread takes messages first.
pub(super) fn choice(machine: &Machine, messages: u64) -> Ran {
    let each = messages / SENDERS;
    let senders: [_; SENDERS as usize] =
        std::array::from_fn(|_| Sender { word: AtomicU64::new(TAKEN), sent: AtomicU64::new(0) });
    let is_over = || senders.iter().all(|sender| sender.sent.load(Relaxed) == each);
    let others = || {
        while !is_over() {
            if !work(&senders, each) {
                spin_loop();
            }
        }
    };
    let (got, elapsed) = beside(machine, others, || {
        let (mut sum, mut taken) = (0, 0);
        while taken < each * SENDERS {
            let full = senders.iter().find(|sender| sender.word.load(Relaxed) > WORKS);
            if let Some(sender) = full {
                sum += sender.word.load(Acquire) - 2;
                sender.word.store(TAKEN, Release);
                taken += 1;
            } else if !work(&senders, each) {
                spin_loop();
            }
        }
        sum
    });
    Ran { elapsed, operations: each * SENDERS, got, expected: SENDERS * (each * (each - 1) / 2) }
}
