//! The benchmarks' bodies for every peer whose channels are futures on Tokio.

use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use chanter_peer_kit::channels::Channels;
use tokio::runtime::{Builder, Runtime};

use crate::case::{Failure, Load, Outcome, Sample, expect, sum_below};
use crate::memory::{per_thread, resident};

/// Tokio's strongest flavour for this number of processors.
pub(crate) fn runtime(vps: usize) -> Result<Runtime, Failure> {
    build(&mut strongest(vps))
}

pub(crate) fn runtime_with_timers(vps: usize) -> Result<Runtime, Failure> {
    build(strongest(vps).enable_time())
}

pub(crate) fn multi_thread(workers: usize) -> Result<Runtime, Failure> {
    build(Builder::new_multi_thread().worker_threads(workers))
}

fn strongest(vps: usize) -> Builder {
    if vps == 1 {
        return Builder::new_current_thread();
    }
    let mut builder = Builder::new_multi_thread();
    builder.worker_threads(vps);
    builder
}

fn build(builder: &mut Builder) -> Result<Runtime, Failure> {
    builder.build().map_err(|error| Failure::Broken(error.to_string()))
}

/// Runs the work as a task, because `block_on` on the calling thread is the slower place.
pub(crate) fn run_on<F>(runtime: &Runtime, work: F) -> Result<F::Output, Failure>
where
    F: Future + Send + 'static,
    F::Output: Send,
{
    runtime.block_on(async { tokio::spawn(work).await }).map_err(|error| Failure::Broken(error.to_string()))
}

/// One pair: the caller sends, the echo answers with the next number. Returns the sum of the answers.
async fn pair<P: Channels>(calls: u64) -> u64 {
    let (ping, mut pings) = P::channel();
    let (pong, mut pongs) = P::channel();
    let echo = tokio::spawn(async move {
        while let Some(value) = P::recv(&mut pings).await {
            if !P::send(&pong, value + 1).await {
                break;
            }
        }
    });
    let caller = tokio::spawn(async move {
        let mut sum = 0;
        for value in 0..calls {
            if !P::send(&ping, value).await {
                break;
            }
            sum += P::recv(&mut pongs).await.unwrap_or(0);
        }
        sum
    });
    let sum = caller.await.unwrap_or(0);
    // The echo ends because the caller dropped its end; its panic would show in the sum.
    let _ = echo.await;
    sum
}

/// `PAIRS` pairs at once; an operation is a message.
pub(crate) fn pingpong<P: Channels, const PAIRS: u64>(load: Load) -> Outcome {
    let calls = load.n / 2 / PAIRS;
    let (sum, elapsed) = run_on(&runtime(load.vps)?, async move {
        let clock = Instant::now();
        let pairs: Vec<_> = (0..PAIRS).map(|_| tokio::spawn(pair::<P>(calls))).collect();
        let mut sum = 0;
        for pair in pairs {
            sum += pair.await.unwrap_or(0);
        }
        (sum, clock.elapsed())
    })?;
    expect("sum of answers", sum, PAIRS * (sum_below(calls) + calls))?;
    Ok(Sample::new(PAIRS * calls * 2, elapsed))
}

/// One producer, one consumer, one meeting per message.
pub(crate) fn send<P: Channels>(load: Load) -> Outcome {
    send_to::<P, _>(&runtime(load.vps)?, load, |mut rx| async move {
        let mut sum = 0;
        while let Some(value) = P::recv(&mut rx).await {
            sum += value;
        }
        sum
    })
}

/// One producer, and a consumer that returns the sum of all messages.
pub(crate) fn send_to<P, F>(
    runtime: &Runtime,
    load: Load,
    consume: impl FnOnce(P::Receiver) -> F + Send + 'static,
) -> Outcome
where
    P: Channels,
    F: Future<Output = u64> + Send + 'static,
{
    let (sum, elapsed) = run_on(runtime, async move {
        let (tx, rx) = P::channel();
        let clock = Instant::now();
        let consumer = tokio::spawn(consume(rx));
        tokio::spawn(async move {
            for value in 0..load.n {
                if !P::send(&tx, value).await {
                    break;
                }
            }
        });
        (consumer.await.unwrap_or(0), clock.elapsed())
    })?;
    expect("sum received", sum, sum_below(load.n))?;
    Ok(Sample::new(load.n, elapsed))
}

/// One producer that never waits, one consumer.
pub(crate) fn mailbox<P: Channels>(load: Load) -> Outcome {
    let (sum, elapsed) = run_on(&runtime(load.vps)?, async move {
        let (outbox, mut inbox) = P::mailbox();
        let clock = Instant::now();
        let consumer = tokio::spawn(async move {
            let mut sum = 0;
            while let Some(value) = P::take(&mut inbox).await {
                sum += value;
            }
            sum
        });
        tokio::spawn(async move {
            for value in 0..load.n {
                if !P::post(&outbox, value).await {
                    break;
                }
            }
        });
        (consumer.await.unwrap_or(0), clock.elapsed())
    })?;
    expect("sum received", sum, sum_below(load.n))?;
    Ok(Sample::new(load.n, elapsed))
}

/// Threads that each wait for one message on a channel of their own.
pub(crate) fn blocked<P: Channels>(load: Load) -> Outcome {
    static STARTED: AtomicU64 = AtomicU64::new(0);
    static WOKEN: AtomicU64 = AtomicU64::new(0);
    let (before, after, created, woken) = run_on(&runtime(load.vps)?, async move {
        let before = resident()?;
        let clock = Instant::now();
        let mut senders = Vec::with_capacity(load.n as usize);
        for _ in 0..load.n {
            let (tx, mut rx) = P::channel();
            // The handle is dropped on purpose: nobody joins these tasks.
            drop(tokio::spawn(async move {
                STARTED.fetch_add(1, Ordering::Relaxed);
                if P::recv(&mut rx).await.is_some() {
                    WOKEN.fetch_add(1, Ordering::Relaxed);
                }
            }));
            senders.push(tx);
        }
        while STARTED.load(Ordering::Relaxed) < load.n {
            tokio::task::yield_now().await;
        }
        let created = clock.elapsed();
        let after = resident()?;
        let clock = Instant::now();
        for tx in &senders {
            P::send(tx, 1).await;
        }
        let patience = Instant::now();
        while WOKEN.load(Ordering::Relaxed) < load.n && patience.elapsed() < Duration::from_secs(60) {
            tokio::task::yield_now().await;
        }
        Ok((before, after, created, clock.elapsed()))
    })??;
    expect("threads woken", WOKEN.load(Ordering::Relaxed), load.n)?;
    Ok(per_thread(load.n, before, after, created, woken))
}
