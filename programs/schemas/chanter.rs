//! The same by objects, and by Base.

use std::hint::black_box;
use std::sync::{Arc, Mutex};

use chanter::prelude::*;
use chanter_objects::{Lazy, Owner, Promise, Ref, conc, object};

use super::serial::{self, Count};
use super::{Outcome, Pair, Schema, Study};

/// The called methods.
#[derive(Debug)]
struct Leaf(Count);

#[object]
impl Leaf {
    #[method(mut)]
    fn add(&mut self) -> u64 {
        self.0.add()
    }

    /// May block, and does not.
    #[method(mut)]
    async fn add_or_wait(&mut self) -> u64 {
        if self.0.step != 1 {
            yield_now().await;
        }
        self.0.add()
    }

    #[method(mut)]
    async fn answer(&mut self, k: Lazy<'_, u64>) {
        k.fill(self.0.add());
    }

    /// Blocks.
    #[method(mut)]
    async fn wait(&mut self) -> u64 {
        yield_now().await;
        self.0.add()
    }

    /// Keeps its continuation, which another thread fills.
    #[method(mut)]
    async fn keep(&mut self, k: Lazy<'_, u64>) {
        let (k, count) = (k.keep(), self.0.add());
        spawn(async move {
            let _ = k.fill(count);
        });
    }
}

/// The callers, in each schema.
#[derive(Debug)]
struct Caller;

/// A number of calls, and the sum of their answers.
macro_rules! sum {
    ($calls:expr, $call:expr) => {{
        let mut sum = 0;
        for _ in 0..$calls {
            sum += $call;
        }
        sum
    }};
}

/// The calls of a caller that may block, within its body.
macro_rules! each {
    ($pair:expr, $to:expr, $calls:expr) => {
        match ($pair.callee, $pair.outcome) {
            (Schema::NonBlocking, _) => sum!($calls, $to.add().await.unwrap_or(0)),
            (Schema::MayBlock, Outcome::Ends) => sum!($calls, $to.add_or_wait().await.unwrap_or(0)),
            (Schema::MayBlock, Outcome::Blocks) => sum!($calls, $to.wait().await.unwrap_or(0)),
            (_, Outcome::Ends) => sum!($calls, $to.answer().await.unwrap_or(0)),
            (_, Outcome::Blocks) => sum!($calls, $to.keep().await.unwrap_or(0)),
        }
    };
}

#[object]
impl Caller {
    /// Calls as long as nobody else is inside.
    #[method(read)]
    fn non_blocking(&self, to: Ref<Leaf>, calls: u64) -> u64 {
        sum!(calls, to.add().now().map_or(0, |answer| answer.unwrap_or(0)))
    }

    #[method(read)]
    async fn may_block(&self, pair: Pair, to: Ref<Leaf>, calls: u64) -> u64 {
        each!(pair, to, calls)
    }

    #[method(read)]
    async fn by_continuation(&self, pair: Pair, to: Ref<Leaf>, calls: u64, k: Lazy<'_, u64>) {
        k.fill(each!(pair, to, calls));
    }

    /// Passes its own continuation on.
    #[method(read)]
    async fn forward(&self, to: Ref<Leaf>, k: Lazy<'_, u64>) {
        k.forward(to.answer()).await;
    }

    #[method(read)]
    async fn forward_to_keep(&self, to: Ref<Leaf>, k: Lazy<'_, u64>) {
        k.forward(to.keep()).await;
    }
}

/// A context on the heap, which is queued; its caller waits for its future.
async fn invoke(method: impl Future<Output = u64> + Send + 'static) -> u64 {
    spawn(method).await.unwrap_or(0)
}

pub(super) async fn calls(pair: Pair, calls: u64) -> u64 {
    let (leaf, caller) = (Owner::new(Leaf(Count::new())), Owner::new(Caller));
    let (to, by) = (black_box(leaf.reference()), black_box(caller.reference()));
    match (pair.caller, pair.callee, pair.outcome) {
        (Schema::Plain, ..) => serial::calls(calls),
        (Schema::Parallel, Schema::Parallel, Outcome::Ends) => {
            sum!(calls, invoke(async move { to.add().await.unwrap_or(0) }).await)
        }
        (Schema::Parallel, Schema::Parallel, Outcome::Blocks) => {
            sum!(calls, invoke(async move { to.wait().await.unwrap_or(0) }).await)
        }
        (Schema::Parallel, ..) => each!(pair, to, calls),
        (Schema::NonBlocking, ..) => by.non_blocking(to, calls).await.unwrap_or(0),
        (Schema::MayBlock, ..) => by.may_block(pair, to, calls).await.unwrap_or(0),
        (_, Schema::ContinuationPassing, Outcome::Ends) => sum!(calls, by.forward(to).await.unwrap_or(0)),
        (_, Schema::ContinuationPassing, Outcome::Blocks) => {
            sum!(calls, by.forward_to_keep(to).await.unwrap_or(0))
        }
        _ => by.by_continuation(pair, to, calls).await.unwrap_or(0),
    }
}

/// Eight calls that do not block, one after the other.
macro_rules! eight {
    ($to:ident . $method:ident) => {{
        let to = $to;
        to.$method().await.unwrap_or(0)
            + to.$method().await.unwrap_or(0)
            + to.$method().await.unwrap_or(0)
            + to.$method().await.unwrap_or(0)
            + to.$method().await.unwrap_or(0)
            + to.$method().await.unwrap_or(0)
            + to.$method().await.unwrap_or(0)
            + to.$method().await.unwrap_or(0)
    }};
}

macro_rules! conc_of_eight {
    ($to:ident . $method:ident) => {{
        let to = $to;
        conc! {
            a = to.$method(), b = to.$method(), c = to.$method(), d = to.$method(),
            e = to.$method(), f = to.$method(), g = to.$method(), h = to.$method()
        }
        a.unwrap_or(0)
            + b.unwrap_or(0)
            + c.unwrap_or(0)
            + d.unwrap_or(0)
            + e.unwrap_or(0)
            + f.unwrap_or(0)
            + g.unwrap_or(0)
            + h.unwrap_or(0)
    }};
}

pub(super) async fn study(study: Study, calls: u64) -> u64 {
    let leaf = Owner::new(Leaf(Count::new()));
    let to = black_box(leaf.reference());
    match study {
        Study::TwoPlain => serial::two(calls),
        Study::Mutex => {
            let mutex = Arc::new(Mutex::new(Count::new()));
            sum!(calls, black_box(&mutex).lock().map_or(0, |mut count| count.add()))
        }
        Study::BaseKept => sum!(calls, {
            let (promise, k) = Promise::new();
            spawn(async move {
                let count = to.add().await.unwrap_or(0);
                spawn(async move {
                    let _ = k.fill(count);
                });
            });
            promise.await.unwrap_or(0)
        }),
        Study::Eight(Schema::NonBlocking) => sum!(calls, eight!(to.add)),
        Study::Eight(Schema::MayBlock) => sum!(calls, eight!(to.add_or_wait)),
        Study::Eight(_) => sum!(calls, eight!(to.answer)),
        Study::ConcOfEight(Schema::NonBlocking) => sum!(calls, conc_of_eight!(to.add)),
        Study::ConcOfEight(Schema::MayBlock) => sum!(calls, conc_of_eight!(to.add_or_wait)),
        Study::ConcOfEight(_) => sum!(calls, conc_of_eight!(to.answer)),
    }
}
