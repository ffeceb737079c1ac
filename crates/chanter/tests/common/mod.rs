//! Helpers that the tests share: a watchdog, counted payloads, counting wakers, and random numbers from a seed.

#![allow(dead_code, reason = "each test binary uses some of it")]

pub(crate) mod apart;
pub(crate) mod kinds;
pub(crate) mod ledger;
#[cfg(target_os = "linux")]
pub(crate) mod memory;
pub(crate) mod waits;
pub(crate) mod watchdog;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

#[allow(unused_imports, reason = "each test binary uses some of it")]
pub(crate) use apart::apart;
use chanter::{Machine, Thread, thread::Activity};
#[allow(unused_imports, reason = "each test binary uses some of it")]
pub(crate) use ledger::{Ledger, Payload};
#[allow(unused_imports, reason = "each test binary uses some of it")]
pub(crate) use watchdog::watchdog;

/// Makes a machine. With one virtual processor it has one OS thread at a time, even if that OS thread gets no core
/// for long. Then a `yield_now` comes back when all others have had their turn.
pub(crate) fn machine(vps: usize) -> Machine {
    let builder = Machine::builder().vps(vps);
    let builder = if vps == 1 { builder.hand_off_after(None) } else { builder };
    builder.build().expect("a machine")
}

/// Runs on one virtual processor: no processor searches for work, so nothing is promoted.
pub(crate) fn alone<T>(main: impl Future<Output = T>) -> T {
    machine(1).block_on_local(main)
}

/// A waker that counts.
#[derive(Debug, Default)]
pub(crate) struct Wakes(AtomicUsize);

impl Wakes {
    pub(crate) fn new() -> (Arc<Self>, Waker) {
        let wakes = Arc::new(Self::default());
        let waker = Waker::from(Arc::clone(&wakes));
        (wakes, waker)
    }

    pub(crate) fn count(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }
    fn wake_by_ref(self: &Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// Polls once, with a waker that does nothing.
pub(crate) fn poll<F: Future + ?Sized>(future: &mut Pin<Box<F>>) -> Poll<F::Output> {
    future.as_mut().poll(&mut Context::from_waker(Waker::noop()))
}

/// xorshift64*.
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    pub(crate) fn below(&mut self, bound: usize) -> usize {
        (self.next() >> 33) as usize % bound
    }
}

/// Longer than anything takes, however busy the processors are: what has not happened by
/// then does not happen.
pub(crate) const FOREVER: Duration = Duration::from_secs(240);

/// Waits until `condition` holds, on an OS thread.
#[track_caller]
pub(crate) fn eventually(what: &str, condition: impl Fn() -> bool) {
    let end = Instant::now() + if cfg!(miri) { Duration::from_secs(3_600) } else { FOREVER };
    while !condition() {
        assert!(Instant::now() < end, "never happened: {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Waits until `condition` holds, on a thread of a machine: the others go on.
pub(crate) async fn until(what: &str, condition: impl Fn() -> bool) {
    let end = Instant::now() + FOREVER;
    while !condition() {
        assert!(Instant::now() < end, "never happened: {what}");
        chanter::yield_now().await;
    }
}

/// Waits until a thread has run, and blocks. (That it has not ended, its body must see to.)
pub(crate) async fn until_blocked<T>(thread: &Thread<T>) {
    until("the thread blocks", || thread.activity() == Activity::Blocked).await;
}

pub(crate) const fn millis(count: u64) -> Duration {
    Duration::from_millis(count)
}
