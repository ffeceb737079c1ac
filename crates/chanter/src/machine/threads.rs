//! Threads that are queued and never run, with which tests handle policies.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use super::Machine;
use crate::policy::{Attributes, Policy, Ready, Reason};
use crate::thread::Thread;

/// A source of ready threads, which would wait for ever if they were run. A machine makes them, and its policy
/// catches them.
pub struct Threads {
    machine: Machine,
    caught: Arc<Caught>,
    ended: Arc<AtomicUsize>,
    /// The handles, kept so that no other thread gets their numbers.
    handles: Mutex<Vec<Thread<()>>>,
}

#[derive(Default)]
struct Caught {
    threads: Mutex<Vec<Ready>>,
    more: Condvar,
}

impl Caught {
    fn threads(&self) -> MutexGuard<'_, Vec<Ready>> {
        self.threads.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Catch(Arc<Caught>);

impl Policy for Catch {
    fn enqueue(&self, thread: Ready, _reason: Reason) -> Option<Ready> {
        self.0.threads().push(thread);
        self.0.more.notify_all();
        None
    }

    fn next(&self) -> Option<Ready> {
        None
    }
}

/// Counts a thread that has ended.
struct End(Arc<AtomicUsize>);

impl Drop for End {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

impl Default for Threads {
    fn default() -> Self {
        Self::new()
    }
}

impl Threads {
    /// A source that has made no threads yet.
    pub fn new() -> Self {
        let caught = Arc::new(Caught::default());
        let catch = Arc::clone(&caught);
        let machine = Machine::builder()
            // A spare worker would make up for a fault.
            .hand_off_after(None)
            .vps(1)
            .name("conformance")
            .policy(move |_| Box::new(Catch(Arc::clone(&catch))))
            .build()
            .expect("the OS grants a poller");
        Self { machine, caught, ended: Arc::default(), handles: Mutex::default() }
    }

    /// Makes `count` new threads that may move.
    pub fn take(&self, count: usize) -> Vec<Ready> {
        self.make(count, |body| self.machine.spawn(body))
    }

    /// Makes `count` new threads with attributes.
    pub fn take_with(&self, count: usize, attributes: Attributes) -> Vec<Ready> {
        self.make(count, |body| self.machine.spawn_with(attributes, body))
    }

    /// Makes `count` new threads that may not move.
    pub fn take_pinned(&self, count: usize) -> Vec<Ready> {
        self.make(count, |body| self.machine.spawn_on(0, body))
    }

    fn make(&self, count: usize, spawn: impl Fn(Body) -> Thread<()>) -> Vec<Ready> {
        for _ in 0..count {
            let handle = spawn(Body(End(Arc::clone(&self.ended))));
            self.handles.lock().unwrap_or_else(PoisonError::into_inner).push(handle);
        }
        let mut threads = self.caught.threads();
        while threads.len() < count {
            threads = self.caught.more.wait(threads).unwrap_or_else(PoisonError::into_inner);
        }
        std::mem::take(&mut *threads)
    }

    /// Takes the threads that a policy has sent home rather than kept.
    pub fn sent_home(&self) -> Vec<Ready> {
        std::mem::take(&mut *self.caught.threads())
    }

    /// Number of threads that have ended.
    pub fn ended(&self) -> usize {
        self.ended.load(Ordering::SeqCst)
    }
}

struct Body(#[allow(dead_code, reason = "dropped with the thread")] End);

impl std::future::Future for Body {
    type Output = ();

    fn poll(self: std::pin::Pin<&mut Self>, _cx: &mut std::task::Context<'_>) -> std::task::Poll<()> {
        std::task::Poll::Pending
    }
}

/// Random numbers from a seed (xorshift64*).
#[derive(Debug)]
pub struct Random(u64);

impl Random {
    /// A generator; any seed will do.
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    /// A random number below `bound`.
    pub fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let high = self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 32;
        ((high * bound as u64) >> 32) as usize
    }
}
