//! Plain calls.

use std::hint::black_box;

/// The counter that all use.
#[derive(Debug)]
pub(super) struct Count {
    pub(super) count: u64,
    /// 1, which the compiler is not told.
    pub(super) step: u64,
}

impl Count {
    pub(super) fn new() -> Self {
        Self { count: 0, step: black_box(1) }
    }

    #[inline(never)]
    pub(super) fn add(&mut self) -> u64 {
        self.count += self.step;
        self.count
    }
}

pub(super) fn calls(calls: u64) -> u64 {
    let mut count = Count::new();
    (0..calls).map(|_| black_box(&mut count).add()).sum()
}

/// Calls it.
#[derive(Debug)]
struct Caller {
    to: Count,
}

impl Caller {
    #[inline(never)]
    fn call(&mut self) -> u64 {
        black_box(&mut self.to).add()
    }
}

pub(super) fn two(calls: u64) -> u64 {
    let mut caller = Caller { to: Count::new() };
    (0..calls).map(|_| black_box(&mut caller).call()).sum()
}
