//! The choice over eight senders, written by hand for as many OS threads as there are virtual processors: what two cores can make of it.
//!
//! There are no threads of ours, no channels and no choice, only what has to cross: each sender is a word on a cache line
//! of its own. Whoever is free claims one whose message was taken, and does its work; the first OS thread takes messages first.

use std::hint::{black_box, spin_loop};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::thread;
use std::time::Instant;

use chanter::prelude::*;

use super::Ran;
use super::talk::{MICROSECOND, SENDERS, compute};

/// The sender waits to work; it works; what it has to send is its word less two.
const TAKEN: u64 = 0;
const WORKS: u64 = 1;

#[repr(align(128))]
struct Sender {
    word: AtomicU64,
    /// Of whoever has made the word [`WORKS`]: how many it has sent.
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

/// As [`talk::choice`](super::talk::choice).
pub(super) fn choice(machine: &Machine, messages: u64) -> Ran {
    let each = messages / SENDERS;
    let senders: [_; SENDERS as usize] =
        std::array::from_fn(|_| Sender { word: AtomicU64::new(TAKEN), sent: AtomicU64::new(0) });
    let is_over = || senders.iter().all(|sender| sender.sent.load(Relaxed) == each);
    let clock = Instant::now();
    let got = thread::scope(|scope| {
        for _ in 1..machine.vps() {
            scope.spawn(|| {
                while !is_over() {
                    if !work(&senders, each) {
                        spin_loop();
                    }
                }
            });
        }
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
    Ran {
        elapsed: clock.elapsed(),
        operations: each * SENDERS,
        got,
        expected: SENDERS * (each * (each - 1) / 2),
    }
}
