//! What the tests share: a watchdog, payloads that are counted, wakers that
//! count, and random numbers from a seed.

#![allow(dead_code, reason = "each test binary uses some of it")]

pub(crate) mod kinds;
#[cfg(target_os = "linux")]
pub(crate) mod memory;
pub(crate) mod waits;

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use chanter::Machine;

/// Aborts the process, with the test's name, if the test takes too long: a
/// hang is a failure.
macro_rules! watchdog {
    () => {
        watchdog!(60)
    };
    ($seconds:expr) => {
        let _dog = {
            fn here() {}
            $crate::common::Watchdog::new(std::any::type_name_of_val(&here), $seconds)
        };
    };
}
#[allow(unused_imports, reason = "each test binary uses some of it")]
pub(crate) use watchdog;

pub(crate) struct Watchdog {
    _stop: mpsc::Sender<()>,
}

impl Watchdog {
    pub(crate) fn new(name: &'static str, seconds: u64) -> Self {
        let (stop, stopped) = mpsc::channel::<()>();
        let name = name.trim_end_matches("::here");
        std::thread::spawn(move || {
            if stopped.recv_timeout(Duration::from_secs(seconds)) == Err(mpsc::RecvTimeoutError::Timeout) {
                eprintln!("watchdog: {name} still runs after {seconds} s");
                std::process::abort();
            }
        });
        Self { _stop: stop }
    }
}

pub(crate) fn machine(vps: usize) -> Machine {
    Machine::builder().vps(vps).build().expect("a machine")
}

/// Runs on one virtual processor: nobody is hungry, so nothing is promoted.
pub(crate) fn alone<T>(main: impl Future<Output = T>) -> T {
    machine(1).block_on(main)
}

/// Counts payloads: each must be dropped exactly once.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    drops: std::sync::Mutex<Vec<Arc<AtomicU32>>>,
}

impl Ledger {
    pub(crate) fn new() -> Arc<Self> {
        Arc::default()
    }

    pub(crate) fn payload(self: &Arc<Self>, id: usize) -> Payload {
        let drops = Arc::new(AtomicU32::new(0));
        self.drops.lock().unwrap().push(Arc::clone(&drops));
        Payload { id, drops, intact: INTACT }
    }

    pub(crate) fn live(&self) -> usize {
        self.drops.lock().unwrap().iter().filter(|drops| drops.load(Ordering::SeqCst) == 0).count()
    }

    /// Every payload was dropped, once.
    #[track_caller]
    pub(crate) fn check(&self) {
        let drops = self.drops.lock().unwrap();
        let leaked = drops.iter().filter(|drops| drops.load(Ordering::SeqCst) == 0).count();
        let twice = drops.iter().filter(|drops| drops.load(Ordering::SeqCst) > 1).count();
        assert_eq!((leaked, twice), (0, 0), "leaked and doubled payloads of {}", drops.len());
    }
}

const INTACT: u64 = 0x600D_600D_600D_600D;

#[derive(Debug)]
pub(crate) struct Payload {
    pub(crate) id: usize,
    drops: Arc<AtomicU32>,
    intact: u64,
}

impl Drop for Payload {
    fn drop(&mut self) {
        assert_eq!(self.intact, INTACT, "a payload was overwritten");
        self.drops.fetch_add(1, Ordering::SeqCst);
    }
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

/// Waits until `condition` holds.
#[track_caller]
pub(crate) fn eventually(what: &str, condition: impl Fn() -> bool) {
    let end = Instant::now() + Duration::from_secs(30);
    while !condition() {
        assert!(Instant::now() < end, "never happened: {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

pub(crate) const fn millis(count: u64) -> Duration {
    Duration::from_millis(count)
}
