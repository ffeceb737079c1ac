//! rayon: the programs that fork and join; see `README.md`.

use std::process::ExitCode;

use chanter_peer_kit::work::{self, PIECE};
use chanter_peer_kit::{Program, System};
use rayon::{ThreadPool, ThreadPoolBuilder, join};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

struct Rayon {
    pool: ThreadPool,
}

impl System for Rayon {
    const PROGRAMS: &'static [Program<Self>] = &[
        Program::new("fib-join", |rayon, n| rayon.pool.install(|| fib(n))),
        Program::new("tak-join", |rayon, n| rayon.pool.install(|| tak(work::tak_arguments(n)) as u64)),
        Program::sort("mergesort", |rayon, mut numbers| {
            let mut spare = numbers.clone();
            rayon.pool.install(|| sort(&mut numbers, &mut spare));
            numbers
        }),
    ];

    fn start(processors: usize) -> Self {
        let pool = ThreadPoolBuilder::new().num_threads(processors).build();
        Self { pool: pool.expect("the operating system has threads") }
    }
}

fn fib(n: u64) -> u64 {
    if n < 2 {
        return n;
    }
    let (one, other) = join(|| fib(n - 1), || fib(n - 2));
    one + other
}

fn tak(arguments: [i64; 3]) -> i64 {
    let Some([one, two, three]) = work::tak_inner(arguments) else { return arguments[2] };
    let (one, (two, three)) = join(|| tak(one), || join(|| tak(two), || tak(three)));
    tak([one, two, three])
}

/// `spare` holds the same numbers, and anything afterwards.
fn sort(numbers: &mut [u32], spare: &mut [u32]) {
    if numbers.len() <= PIECE {
        return work::sort_piece(numbers, spare);
    }
    let middle = numbers.len() / 2;
    let (left, right) = spare.split_at_mut(middle);
    let (to_left, to_right) = numbers.split_at_mut(middle);
    join(|| sort(left, to_left), || sort(right, to_right));
    merge((left, right, numbers));
}

fn merge(whole: work::Merge<'_>) {
    match work::cut_merge(whole) {
        Ok([low, high]) => drop(join(|| merge(low), || merge(high))),
        Err((left, right, into)) => work::merge(left, right, into),
    }
}

fn main() -> ExitCode {
    chanter_peer_kit::main::<Rayon>()
}
