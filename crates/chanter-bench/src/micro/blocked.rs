//! `blocked`: a million threads, each waiting for one message on a channel of its own.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use chanter::prelude::*;

use super::on_machine;
use crate::case::{Case, Failure, Load, Outcome, expect};
use crate::memory::{per_thread, resident};
use crate::peers::channels::{Flume, Kanal, Mpsc};
use crate::peers::{asynchronous, go};

pub(crate) fn cases(vps: usize) -> Vec<Case> {
    let alone = |case: Case| case.isolated().at_most_rounds(3).load_of(1_000_000, vps);
    vec![
        alone(Case::new("blocked", "chanter", "parasite", |load| {
            blocked(load, |rx| spawn_parasite(wait(rx)))
        })),
        alone(Case::new("blocked", "chanter", "host", |load| {
            blocked(load, |rx| {
                let _detached = spawn(wait(rx));
            })
        })),
        alone(Case::new("blocked", "tokio", "mpsc(1)", asynchronous::blocked::<Mpsc>)),
        alone(Case::new("blocked", "kanal", "on tokio", asynchronous::blocked::<Kanal>)),
        alone(Case::new("blocked", "flume", "on tokio", asynchronous::blocked::<Flume>)),
        // Go is a process of its own already.
        go::case("blocked", "unbuffered").at_most_rounds(1).load_of(1_000_000, vps),
    ]
}

static STARTED: AtomicU64 = AtomicU64::new(0);
static WOKEN: AtomicU64 = AtomicU64::new(0);

#[expect(
    clippy::manual_async_fn,
    reason = "an `async fn` keeps its receiver twice: as argument and as variable"
)]
fn wait(rx: Receiver<u64>) -> impl Future<Output = ()> + Send {
    async move {
        STARTED.fetch_add(1, Ordering::Relaxed);
        if rx.recv().await.is_ok() {
            WOKEN.fetch_add(1, Ordering::Relaxed);
        }
    }
}

async fn all(count: &AtomicU64, n: u64, what: &str) -> Result<(), Failure> {
    let patience = Instant::now();
    while count.load(Ordering::Relaxed) < n && patience.elapsed() < Duration::from_secs(60) {
        yield_now().await;
    }
    expect(what, count.load(Ordering::Relaxed), n)
}

fn blocked(load: Load, spawn_one: fn(Receiver<u64>)) -> Outcome {
    on_machine(load.vps, async move {
        let before = resident()?;
        let clock = Instant::now();
        let mut senders = Vec::with_capacity(load.n as usize);
        for _ in 0..load.n {
            let (tx, rx) = channel();
            spawn_one(rx);
            senders.push(tx);
        }
        all(&STARTED, load.n, "threads started").await?;
        let created = clock.elapsed();
        let after = resident()?;
        let clock = Instant::now();
        for tx in &senders {
            if tx.send(1).await.is_err() {
                break;
            }
        }
        all(&WOKEN, load.n, "threads woken").await?;
        Ok(per_thread(load.n, before, after, created, clock.elapsed()))
    })?
}
