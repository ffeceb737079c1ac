//! What a call of a method costs, beside a plain call and beside a lock: nanoseconds, medians of alternated rounds.
//!
//! `cargo run --release --example cost --package chanter-objects`

use std::hint::black_box;
use std::sync::Mutex;
use std::time::Instant;

use chanter_objects::{Owner, Ref};

struct Patch {
    x: u64,
}

impl Patch {
    #[inline(never)]
    fn valx(&self) -> u64 {
        self.x
    }

    #[inline(never)]
    fn grow(&mut self, by: u64) -> u64 {
        self.x += by;
        self.x
    }

    async fn refine(&mut self, by: u64) -> u64 {
        self.x += by;
        if self.x > u64::MAX / 2 {
            chanter::yield_now().await;
        }
        self.x
    }
}

const CALLS: u32 = 200_000;
const ROUNDS: usize = 31;

/// Nanoseconds for each call of a round.
async fn round(body: impl AsyncFnOnce() -> u64) -> f64 {
    let begun = Instant::now();
    black_box(body().await);
    begun.elapsed().as_secs_f64() * 1e9 / f64::from(CALLS)
}

#[chanter::main(vps = 1, local)]
async fn main() {
    let mut names = Vec::new();
    let mut rounds: Vec<Vec<f64>> = Vec::new();
    let owner = Owner::new(Patch { x: 5 });
    let mut plain = Patch { x: 5 };
    let mutex = Mutex::new(Patch { x: 5 });
    for _ in 0..ROUNDS {
        let object: Ref<Patch> = black_box(owner.refer());
        let mut results = Vec::new();
        let mut note = |name: &'static str, cost: f64| results.push((name, cost));
        note(
            "plain call, &self",
            round(async || {
                let mut sum = 0;
                for _ in 0..CALLS {
                    sum += black_box(&plain).valx();
                }
                sum
            })
            .await,
        );
        note(
            "NB read",
            round(async || {
                let mut sum = 0;
                for _ in 0..CALLS {
                    sum += object.with(|patch| patch.valx()).await.unwrap();
                }
                sum
            })
            .await,
        );
        note(
            "NB read, now",
            round(async || {
                let mut sum = 0;
                for _ in 0..CALLS {
                    if let Ok(Ok(x)) = object.with(|patch| patch.valx()).now() {
                        sum += x;
                    }
                }
                sum
            })
            .await,
        );
        note(
            "plain call, &mut self",
            round(async || {
                let mut sum = 0;
                for _ in 0..CALLS {
                    sum += black_box(&mut plain).grow(1);
                }
                sum
            })
            .await,
        );
        note(
            "NB write",
            round(async || {
                let mut sum = 0;
                for _ in 0..CALLS {
                    sum += object.with_mut(|patch| patch.grow(1)).await.unwrap();
                }
                sum
            })
            .await,
        );
        note(
            "plain async call",
            round(async || {
                let mut sum = 0;
                for _ in 0..CALLS {
                    sum += black_box(&mut plain).refine(1).await;
                }
                sum
            })
            .await,
        );
        note(
            "MB write",
            round(async || {
                let mut sum = 0;
                for _ in 0..CALLS {
                    sum += object.with_mut_async(async |patch| patch.refine(1).await).await.unwrap();
                }
                sum
            })
            .await,
        );
        note(
            "Mutex and call",
            round(async || {
                let mut sum = 0;
                for _ in 0..CALLS {
                    sum += black_box(&mutex).lock().unwrap().grow(1);
                }
                sum
            })
            .await,
        );
        names = results.iter().map(|(name, _)| *name).collect();
        rounds.push(results.into_iter().map(|(_, cost)| cost).collect());
    }
    for (index, name) in names.iter().enumerate() {
        let mut costs = Vec::from_iter(rounds.iter().map(|round| round[index]));
        costs.sort_by(f64::total_cmp);
        println!("{name:>24} {:7.2}", costs[ROUNDS / 2]);
    }
}
