//! The programs for executors of futures: `T` spawns tasks, which talk over the channels `C`.
//!
//! A future that recurs is boxed, as Rust has it; the executor boxes those that it is given.

use std::future::Future;

use futures_util::stream::{self, StreamExt};

use crate::channels::Channels;
use crate::work;

/// An executor that tasks can reach from anywhere.
pub trait Tasks: 'static {
    /// Starts a task. It goes on if its handle is dropped.
    fn spawn<T: Send + 'static>(
        future: impl Future<Output = T> + Send + 'static,
    ) -> impl Future<Output = T> + Send + 'static;

    /// Starts a task whose value nobody wants.
    fn start(future: impl Future<Output = ()> + Send + 'static) {
        drop(Self::spawn(future));
    }
}

/// `spawn`.
pub async fn spawn<T: Tasks>(threads: u64) -> u64 {
    let mut batch = Vec::with_capacity(work::BATCH as usize);
    let mut sum = 0;
    for first in (0..threads).step_by(work::BATCH as usize) {
        let last = threads.min(first + work::BATCH);
        batch.extend((first..last).map(|i| T::spawn(async move { work::square(i) })));
        for thread in batch.drain(..) {
            sum += thread.await;
        }
    }
    sum
}

/// `ping-pong`.
pub async fn ping_pong<T: Tasks, C: Channels>(trips: u64) -> u64 {
    work::low(pair::<T, C>(trips).await)
}

/// `parallel-ping-pong`.
pub async fn parallel_ping_pong<T: Tasks, C: Channels>(trips: u64) -> u64 {
    let each = trips / work::PAIRS;
    let pairs: Vec<_> = (0..work::PAIRS).map(|_| T::spawn(pair::<T, C>(each))).collect();
    let mut sum = 0;
    for pair in pairs {
        sum += pair.await;
    }
    work::low(sum)
}

async fn pair<T: Tasks, C: Channels>(trips: u64) -> u64 {
    let (ping, mut pings) = C::channel();
    let (pong, mut pongs) = C::channel();
    T::start(async move {
        while let Some(value) = C::recv(&mut pings).await {
            if !C::send(&pong, value + 1).await {
                break;
            }
        }
    });
    let mut sum = 0;
    for value in 0..trips {
        C::send(&ping, value).await;
        sum += C::recv(&mut pongs).await.unwrap_or(0);
    }
    sum
}

/// `send`.
pub async fn send<T: Tasks, C: Channels>(messages: u64) -> u64 {
    let (outbox, mut inbox) = C::mailbox();
    T::start(async move {
        for value in 0..messages {
            C::post(&outbox, value).await;
        }
    });
    let mut sum = 0;
    while let Some(value) = C::take(&mut inbox).await {
        sum += value;
    }
    work::low(sum)
}

/// The receiving ends of `choose`, whose producers have been started.
pub fn producers<T: Tasks, C: Channels>(messages: u64) -> impl Iterator<Item = C::Receiver> {
    (0..work::PRODUCERS).map(move |_| {
        let (tx, rx) = C::channel();
        T::start(async move {
            for value in 0..messages / work::PRODUCERS {
                C::send(&tx, value).await;
            }
        });
        rx
    })
}

/// `choose`, from one stream made of all.
pub async fn choose<T: Tasks, C: Channels>(messages: u64) -> u64 {
    let mut any = stream::select_all(producers::<T, C>(messages).map(C::stream));
    let mut sum = 0;
    for _ in 0..messages {
        sum += any.next().await.unwrap_or(0);
    }
    work::low(sum)
}

/// `sieve`.
pub async fn sieve<T: Tasks, C: Channels>(primes: u64) -> u64 {
    let (to, mut numbers) = C::channel();
    T::start(async move {
        let mut number = 2;
        while C::send(&to, number).await {
            number += 1;
        }
    });
    for _ in 1..primes {
        let prime = C::recv(&mut numbers).await.unwrap_or(0);
        let (to, next) = C::channel();
        T::start(filter::<C>(prime, std::mem::replace(&mut numbers, next), to));
    }
    C::recv(&mut numbers).await.unwrap_or(0)
}

async fn filter<C: Channels>(prime: u64, mut numbers: C::Receiver, to: C::Sender) {
    while let Some(number) = C::recv(&mut numbers).await {
        if number % prime != 0 && !C::send(&to, number).await {
            break;
        }
    }
}

/// `fib-channel`.
pub fn fib_channel<T: Tasks, C: Channels>(n: u64) -> impl Future<Output = u64> + Send {
    async move {
        if n < 2 {
            return n;
        }
        let (to, mut one) = C::channel();
        T::start(async move {
            let value = fib_channel::<T, C>(n - 1).await;
            C::send(&to, value).await;
        });
        let other = Box::pin(fib_channel::<T, C>(n - 2)).await;
        C::recv(&mut one).await.unwrap_or(0) + other
    }
}

/// `fib-join`.
pub fn fib_join<T: Tasks>(n: u64) -> impl Future<Output = u64> + Send {
    async move {
        if n < 2 {
            return n;
        }
        let one = T::spawn(fib_join::<T>(n - 1));
        let other = Box::pin(fib_join::<T>(n - 2)).await;
        one.await + other
    }
}

/// `tak-join`.
pub async fn tak_join<T: Tasks>(n: u64) -> u64 {
    tak::<T>(work::tak_arguments(n)).await as u64
}

fn tak<T: Tasks>(mut arguments: [i64; 3]) -> impl Future<Output = i64> + Send {
    async move {
        while let Some([one, two, three]) = work::tak_inner(arguments) {
            let (one, two) = (T::spawn(tak::<T>(one)), T::spawn(tak::<T>(two)));
            let three = Box::pin(tak::<T>(three)).await;
            arguments = [one.await, two.await, three];
        }
        arguments[2]
    }
}

/// `mergesort`.
pub fn sorted<T: Tasks>(mut numbers: Vec<u32>) -> impl Future<Output = Vec<u32>> + Send {
    async move {
        if numbers.len() <= work::PIECE {
            let mut spare = numbers.clone();
            work::sort_piece(&mut numbers, &mut spare);
            return numbers;
        }
        let right = numbers.split_off(numbers.len() / 2);
        let right = T::spawn(sorted::<T>(right));
        let left = Box::pin(sorted::<T>(numbers)).await;
        let right = right.await;
        let mut both = vec![0; left.len() + right.len()];
        work::merge(&left, &right, &mut both);
        both
    }
}
