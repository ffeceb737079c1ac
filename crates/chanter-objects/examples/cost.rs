//! What a method costs, beside a plain call, a mutex, and a thread of its own for each call. Release builds only:
//! `cargo run --release --example cost`

use std::hint::black_box;
use std::time::Instant;

use chanter::prelude::*;
use chanter_objects::prelude::*;

struct Cell(u64);

impl Cell {
    #[inline(never)]
    fn plain(&self, more: u64) -> u64 {
        self.0.wrapping_add(more)
    }
}

#[object]
impl Cell {
    #[method(read)]
    fn nb(&self, more: u64) -> u64 {
        self.plain(more)
    }

    #[method(read)]
    async fn mb(&self, more: u64) -> u64 {
        self.plain(more)
    }

    #[method(read)]
    async fn cp(&self, more: u64, lazy: Lazy<'_, u64>) {
        lazy.fill(self.plain(more));
    }

    #[method(read)]
    async fn blocks(&self, more: u64) -> u64 {
        yield_now().await;
        self.plain(more)
    }
}

const TIMES: u64 = if cfg!(debug_assertions) { 1_000 } else { 1_000_000 };
const ROUNDS: usize = 7;

/// The median time of a call, in nanoseconds.
async fn time(name: &str, mut call: impl AsyncFnMut(u64) -> u64) -> f64 {
    let mut rounds = Vec::new();
    for _ in 0..ROUNDS {
        let clock = Instant::now();
        let mut sum = 0_u64;
        for number in 0..TIMES {
            sum = sum.wrapping_add(call(black_box(number)).await);
        }
        assert_eq!(sum, TIMES * (TIMES - 1) / 2 + TIMES);
        rounds.push(clock.elapsed().as_nanos() as f64 / TIMES as f64);
    }
    rounds.sort_by(f64::total_cmp);
    println!("{name:<28}{:8.2} ns", rounds[ROUNDS / 2]);
    rounds[ROUNDS / 2]
}

fn main() {
    Machine::builder().vps(1).build().expect("a machine").block_on(async {
        let cell = Cell(1);
        let owner = Owner::new(Cell(1));
        let mutex = std::sync::Mutex::new(Cell(1));
        let by = owner.by_ref();
        let plain = time("plain call", async |number| black_box(&cell).plain(number)).await;
        let nb = time("NB", async |number| by.nb(number).await.unwrap()).await;
        let mb = time("MB", async |number| by.mb(number).await.unwrap()).await;
        let cp = time("CP", async |number| by.cp(number).await.unwrap()).await;
        let locked = time("mutex and call", async |number| mutex.lock().unwrap().plain(number)).await;
        let blocks = time("MB that blocks", async |number| by.blocks(number).await.unwrap()).await;
        let host = time("a host for each call", async |number| {
            spawn(async move { by.blocks(number).await.unwrap() }).join().await.unwrap()
        })
        .await;
        println!(
            "NB, MB, CP over a call: {:.2}, {:.2}, {:.2}; NB over a mutex: {:.2}; blocking over a host: {:.2}",
            nb / plain,
            mb / plain,
            cp / plain,
            nb / locked,
            blocks / host
        );
    });
}
