//! Numbers for OS threads.

use std::cell::Cell;

#[cfg(not(loom))]
thread_local! {
    static NUMBER: Cell<u32> = const { Cell::new(0) };
}

#[cfg(loom)]
loom::thread_local! {
    static NUMBER: Cell<u32> = Cell::new(0);
}

/// A number of the calling OS thread: not 0, below 2^31, never used twice.
#[inline(always)]
pub(crate) fn os_thread() -> u32 {
    let number = NUMBER.with(Cell::get);
    if number == 0 { assign() } else { number }
}

#[cold]
fn assign() -> u32 {
    use std::sync::atomic::{AtomicU32, Ordering};
    static NEXT: AtomicU32 = AtomicU32::new(1);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    assert!(number < 1 << 31, "this process has had too many OS threads");
    NUMBER.with(|cell| cell.set(number));
    number
}
