//! A thread for each call.

use std::future::Future;

use chanter::prelude::*;

use crate::kit::Style;

/// A call whose own calls are threads that answer over channels.
pub(crate) fn call<S: Style>(n: u64) -> impl Future<Output = u64> + Send {
    async move {
        if n < 2 {
            return n;
        }
        let (one, other) = (channel(), channel());
        S::start(async move { S::send(&one.0, call::<S>(n - 1).await).await });
        S::start(async move { S::send(&other.0, call::<S>(n - 2).await).await });
        received(one.1.recv().await) + received(other.1.recv().await)
    }
}

fn received(value: Result<u64, Closed>) -> u64 {
    value.expect("a call answers")
}

/// A call whose own calls are delayed threads.
pub(super) fn stolen(n: u64) -> impl Future<Output = u64> + Send {
    async move {
        if n < 2 {
            return n;
        }
        let (one, other) = (delay(stolen(n - 1)), delay(stolen(n - 2)));
        value(other.await) + value(one.await)
    }
}

fn value(value: Result<u64, JoinError>) -> u64 {
    value.expect("a call has a value")
}

/// A call that forks its two.
pub(crate) fn forked(n: u64) -> u64 {
    if n < 2 {
        return n;
    }
    let (one, other) = fork_join(|| forked(n - 1), || forked(n - 2));
    one + other
}
