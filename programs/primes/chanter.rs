//! A chain of futures.

use std::sync::Arc;

use chanter::prelude::*;

use super::{EACH, extend};
use crate::kit::{Done, Gauge};

pub(super) async fn primes(futures: usize, delayed: bool) -> Done<Vec<u32>> {
    let gauge = Arc::new(Gauge::default());
    let _main = gauge.begin();
    let mut before = None;
    for _ in 0..futures {
        let future = more(before.take(), Arc::clone(&gauge));
        before = Some(if delayed { delay(future) } else { spawn(future) });
    }
    let primes = value(before).await;
    Done::new(primes).communications(futures as u64).at_once(gauge.most())
}

/// One of the futures.
async fn more(before: Option<Thread<Vec<u32>>>, gauge: Arc<Gauge>) -> Vec<u32> {
    let _this = gauge.begin();
    let mut primes = value(before).await;
    for _ in 0..EACH {
        extend(&mut primes);
    }
    primes
}

async fn value(thread: Option<Thread<Vec<u32>>>) -> Vec<u32> {
    match thread {
        Some(thread) => thread.await.expect("a future that finds primes has a value"),
        None => Vec::new(),
    }
}
