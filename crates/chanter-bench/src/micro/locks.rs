//! `mutex`, `semaphore`, `rwlock`: taken and given back by one thread alone; `mutex-held`: eight
//! threads want a mutex that each holds while the others run.

use std::future::Future;
use std::sync::Arc;
use std::time::Instant;

use chanter::prelude::*;
use chanter::sync::{Mutex, RwLock, Semaphore};

use super::{on_machine, value_of};
use crate::case::{Case, Failure, Load, Outcome, Sample, expect};
use crate::peers::asynchronous::{run_on, runtime};

const THREADS: u64 = 8;

pub(crate) fn cases(vps: usize) -> Vec<Case> {
    let alone = |case: Case| case.load_of(5_000_000, vps);
    let held = |case: Case| case.load_of(400_000, vps);
    let mut cases = vec![
        alone(Case::new("mutex", "chanter", "host", |load| on_chanter(load, alone_with::<Mutex<u64>>))),
        alone(Case::new("mutex", "tokio", "sync", |load| {
            on_tokio(load, alone_with::<tokio::sync::Mutex<u64>>)
        })),
        alone(Case::new("semaphore", "chanter", "host", |load| {
            on_chanter(load, alone_with::<Counted<Semaphore>>)
        })),
        alone(Case::new("semaphore", "tokio", "sync", |load| {
            on_tokio(load, alone_with::<Counted<tokio::sync::Semaphore>>)
        })),
        alone(Case::new("rwlock", "chanter", "host", |load| {
            on_chanter(load, alone_with::<Counted<RwLock<()>>>)
        })),
        alone(Case::new("rwlock", "tokio", "sync", |load| {
            on_tokio(load, alone_with::<Counted<tokio::sync::RwLock<()>>>)
        })),
        held(Case::new("mutex-held", "chanter", "host", held_on_chanter)),
        held(Case::new("mutex-held", "tokio", "sync", held_on_tokio)),
    ];
    if vps == 1 {
        cases.push(alone(Case::new("mutex", "std", "os-thread", std_mutex)));
        cases.push(alone(Case::new("rwlock", "std", "os-thread", std_rwlock)));
    }
    cases
}

/// A lock, and the number of times that it was taken.
trait Lock: Default + Send + std::marker::Sync + 'static {
    /// Takes the lock, counts, and gives it back.
    fn turn(&self) -> impl Future<Output = ()> + Send;
    fn turns(self) -> u64;
}

impl Lock for Mutex<u64> {
    async fn turn(&self) {
        *self.lock().await += 1;
    }
    fn turns(self) -> u64 {
        self.into_inner()
    }
}

impl Lock for tokio::sync::Mutex<u64> {
    async fn turn(&self) {
        *self.lock().await += 1;
    }
    fn turns(self) -> u64 {
        self.into_inner()
    }
}

/// A lock that does not exclude, and a counter for one thread.
struct Counted<L>(L, std::sync::atomic::AtomicU64);

impl<L> Counted<L> {
    fn new(lock: L) -> Self {
        Self(lock, std::sync::atomic::AtomicU64::new(0))
    }

    fn count(&self) {
        // One thread at a time: no read-modify-write that would be measured, too.
        let count = self.1.load(std::sync::atomic::Ordering::Relaxed);
        self.1.store(count + 1, std::sync::atomic::Ordering::Relaxed);
    }
}

macro_rules! counted {
    ($lock:ty, $new:expr, $method:ident) => {
        impl Default for Counted<$lock> {
            fn default() -> Self {
                Self::new($new)
            }
        }

        impl Lock for Counted<$lock> {
            async fn turn(&self) {
                let guard = self.0.$method().await;
                self.count();
                drop(guard);
            }
            fn turns(self) -> u64 {
                self.1.into_inner()
            }
        }
    };
}

counted!(Semaphore, Semaphore::new(4), acquire);
counted!(tokio::sync::Semaphore, tokio::sync::Semaphore::new(4), acquire);
counted!(RwLock<()>, RwLock::new(()), read);
counted!(tokio::sync::RwLock<()>, tokio::sync::RwLock::new(()), read);

/// Takes the lock again and again, in one thread. Returns the number of times.
async fn alone_with<L: Lock>(turns: u64) -> u64 {
    let lock = L::default();
    for _ in 0..turns {
        lock.turn().await;
    }
    lock.turns()
}

fn on_chanter<F>(load: Load, work: fn(u64) -> F) -> Outcome
where
    F: Future<Output = u64> + Send + 'static,
{
    let (turns, elapsed) = on_machine(load.vps, async move {
        let clock = Instant::now();
        let turns = value_of(spawn(work(load.n))).await?;
        Ok::<_, Failure>((turns, clock.elapsed()))
    })??;
    expect("turns", turns, load.n)?;
    Ok(Sample::new(load.n, elapsed))
}

fn on_tokio<F>(load: Load, work: fn(u64) -> F) -> Outcome
where
    F: Future<Output = u64> + Send + 'static,
{
    let (turns, elapsed) = run_on(&runtime(load.vps)?, async move {
        let clock = Instant::now();
        (work(load.n).await, clock.elapsed())
    })?;
    expect("turns", turns, load.n)?;
    Ok(Sample::new(load.n, elapsed))
}

/// Each holds the mutex over a yield, so the others run, find it locked and block.
fn held_on_chanter(load: Load) -> Outcome {
    let each = load.n / THREADS;
    let (turns, elapsed) = on_machine(load.vps, async move {
        let mutex = Arc::new(Mutex::new(0));
        let clock = Instant::now();
        let threads: Vec<_> = (0..THREADS)
            .map(|_| {
                let mutex = Arc::clone(&mutex);
                spawn(async move {
                    for _ in 0..each {
                        let mut guard = mutex.lock().await;
                        *guard += 1;
                        yield_now().await;
                    }
                })
            })
            .collect();
        for thread in threads {
            value_of(thread).await?;
        }
        let turns = *mutex.lock().await;
        Ok::<_, Failure>((turns, clock.elapsed()))
    })??;
    expect("turns", turns, each * THREADS)?;
    Ok(Sample::new(each * THREADS, elapsed))
}

fn held_on_tokio(load: Load) -> Outcome {
    let each = load.n / THREADS;
    let (turns, elapsed) = run_on(&runtime(load.vps)?, async move {
        let mutex = Arc::new(tokio::sync::Mutex::new(0));
        let clock = Instant::now();
        let tasks: Vec<_> = (0..THREADS)
            .map(|_| {
                let mutex = Arc::clone(&mutex);
                tokio::spawn(async move {
                    for _ in 0..each {
                        let mut guard = mutex.lock().await;
                        *guard += 1;
                        tokio::task::yield_now().await;
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await?;
        }
        let turns = *mutex.lock().await;
        Ok::<_, tokio::task::JoinError>((turns, clock.elapsed()))
    })?
    .map_err(|error| Failure::Broken(error.to_string()))?;
    expect("turns", turns, each * THREADS)?;
    Ok(Sample::new(each * THREADS, elapsed))
}

/// The yardstick: no waiting but by blocking the OS thread.
fn std_mutex(load: Load) -> Outcome {
    let mutex = std::sync::Mutex::new(0);
    let clock = Instant::now();
    for _ in 0..load.n {
        *std::hint::black_box(&mutex).lock().unwrap_or_else(|poisoned| poisoned.into_inner()) += 1;
    }
    let elapsed = clock.elapsed();
    expect("turns", mutex.into_inner().unwrap_or(0), load.n)?;
    Ok(Sample::new(load.n, elapsed))
}

fn std_rwlock(load: Load) -> Outcome {
    let lock = Counted::new(std::sync::RwLock::new(()));
    let clock = Instant::now();
    for _ in 0..load.n {
        let guard = std::hint::black_box(&lock).0.read();
        lock.count();
        drop(guard);
    }
    let elapsed = clock.elapsed();
    expect("turns", lock.1.into_inner(), load.n)?;
    Ok(Sample::new(load.n, elapsed))
}
