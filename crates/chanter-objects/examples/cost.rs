//! Measures calls beside plain calls, a lock, and Base's way (each method a thread on the heap), in nanoseconds:
//! medians of alternated rounds. (Concert's table 4.)
//!
//! `cargo run --profile figures --example cost --package chanter-objects`

use std::hint::black_box;
use std::sync::Mutex;
use std::time::Instant;

use chanter::prelude::*;
use chanter_objects::{Lazy, Owner, Promise, Ref, conc, object};

struct Patch {
    x: u64,
    step: u64,
}

#[object]
impl Patch {
    #[method(read)]
    #[inline(never)]
    fn x(&self) -> u64 {
        self.x
    }

    #[method(mut)]
    #[inline(never)]
    fn grow(&mut self) -> u64 {
        self.x += self.step;
        self.x
    }

    /// May block; does not.
    #[method(mut)]
    async fn refine(&mut self) -> u64 {
        if self.step > 1 << 40 {
            yield_now().await;
        }
        self.grow()
    }

    /// Answers by its continuation.
    #[method(read)]
    async fn answer(&self, k: Lazy<'_, u64>) {
        k.fill(self.x());
    }

    /// The same, through another object.
    #[method(read)]
    async fn answer_of(&self, other: Ref<Patch>, k: Lazy<'_, u64>) {
        k.forward(other.answer()).await;
    }

    /// Blocks.
    #[method(read)]
    async fn wait(&self) -> u64 {
        yield_now().await;
        self.x()
    }

    #[method(mut)]
    async fn keep(&mut self, k: Lazy<'_, u64>) {
        let _ = k.keep().fill(self.x());
    }
}

/// A build without optimisation is a test, and no measurement.
const CALLS: u64 = if cfg!(debug_assertions) { 2_000 } else { 50_000 };
const ROUNDS: usize = 31;

/// One figure: its name, and what it is to be compared with.
struct Figure {
    name: &'static str,
    over: &'static str,
    costs: Vec<f64>,
}

async fn round(
    figures: &mut Vec<Figure>,
    name: &'static str,
    over: &'static str,
    body: impl AsyncFnOnce() -> u64,
) {
    let begun = Instant::now();
    black_box(body().await);
    let cost = begun.elapsed().as_secs_f64() * 1e9 / CALLS as f64;
    match figures.iter_mut().find(|figure| figure.name == name) {
        Some(figure) => figure.costs.push(cost),
        None => figures.push(Figure { name, over, costs: vec![cost] }),
    }
}

/// Makes the given number of calls, and adds up their results.
macro_rules! calls {
    ($call:expr) => {
        async || {
            let mut sum = 0;
            for _ in 0..CALLS {
                sum += $call;
            }
            sum
        }
    };
}

#[chanter::main(vps = 1, local)]
async fn main() {
    let (owner, other) = (Owner::new(Patch { x: 5, step: 1 }), Owner::new(Patch { x: 5, step: 1 }));
    let (object, other) = (black_box(owner.reference()), other.reference());
    let mut plain = Patch { x: 5, step: 1 };
    let mutex = Mutex::new(Patch { x: 5, step: 1 });
    let mut f = Vec::new();
    for _ in 0..ROUNDS {
        round(&mut f, "plain read", "", calls!(black_box(&plain).x())).await;
        round(&mut f, "NB read", "plain read", calls!(object.x().await.unwrap())).await;
        round(&mut f, "plain write", "", calls!(black_box(&mut plain).grow())).await;
        round(&mut f, "NB write", "plain write", calls!(object.grow().await.unwrap())).await;
        round(&mut f, "MB write", "plain write", calls!(object.refine().await.unwrap())).await;
        round(&mut f, "CP read", "plain read", calls!(object.answer().await.unwrap())).await;
        round(&mut f, "CP, forwarded", "plain read", calls!(object.answer_of(other).await.unwrap())).await;
        round(&mut f, "CP, kept", "", calls!(object.keep().await.unwrap())).await;
        round(&mut f, "Mutex and write", "", calls!(black_box(&mutex).lock().unwrap().grow())).await;
        round(&mut f, "NB write, over a Mutex", "Mutex and write", calls!(object.grow().await.unwrap()))
            .await;
        let eight = calls!({
            let o = object;
            o.x().await.unwrap()
                + o.x().await.unwrap()
                + o.x().await.unwrap()
                + o.x().await.unwrap()
                + o.x().await.unwrap()
                + o.x().await.unwrap()
                + o.x().await.unwrap()
                + o.x().await.unwrap()
        });
        round(&mut f, "8 calls", "", eight).await;
        let eight = calls!({
            let o = object;
            conc! {
                a = o.x(), b = o.x(), c = o.x(), d = o.x(), e = o.x(), f = o.x(), g = o.x(), h = o.x()
            }
            a.unwrap()
                + b.unwrap()
                + c.unwrap()
                + d.unwrap()
                + e.unwrap()
                + f.unwrap()
                + g.unwrap()
                + h.unwrap()
        });
        round(&mut f, "conc! of 8", "8 calls", eight).await;
        // Base: a context on the heap, queued; its caller suspends until it has determined a future.
        let base = calls!({
            let (promise, k) = Promise::new();
            spawn(async move {
                yield_now().await;
                let _ = k.fill(object.with(|patch| patch.x()).await);
            });
            promise.await.unwrap().unwrap()
        });
        round(&mut f, "Base, blocks", "", base).await;
        let host = calls!(spawn(async move { object.wait().await }).await.unwrap().unwrap());
        round(&mut f, "a host, blocks", "", host).await;
        round(&mut f, "MB, blocks", "a host, blocks", calls!(object.wait().await.unwrap())).await;
        round(
            &mut f,
            "an object, made and dropped",
            "",
            calls!({
                let owner = Owner::new(Patch { x: 1, step: 1 });
                owner.reference().x().await.unwrap()
            }),
        )
        .await;
    }
    for figure in &mut f {
        figure.costs.sort_by(f64::total_cmp);
    }
    let median = |name: &str| {
        let figure = f.iter().find(|figure| figure.name == name)?;
        Some(figure.costs[ROUNDS / 2])
    };
    for figure in &f {
        let cost = figure.costs[ROUNDS / 2];
        match median(figure.over) {
            Some(over) => println!("{:>28} {cost:8.2}   {:5.2} x {}", figure.name, cost / over, figure.over),
            None => println!("{:>28} {cost:8.2}", figure.name),
        }
    }
}
