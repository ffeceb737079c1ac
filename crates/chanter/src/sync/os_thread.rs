//! Numbers for OS threads.

use std::cell::Cell;

// The number is the upper half, so words that have it there are made, and compared, by one operation less.
#[cfg(not(loom))]
thread_local! {
    static NUMBER: Cell<u64> = const { Cell::new(0) };
}

#[cfg(loom)]
loom::thread_local! {
    static NUMBER: Cell<u64> = Cell::new(0);
}

/// A number of the calling OS thread. It is not 0, below 2^31, and belongs to no other OS thread while this one
/// lives. The next OS thread that gets the number sees what was done under it, since it passes through a mutex.
#[inline(always)]
pub(crate) fn os_thread() -> u32 {
    let number = os_thread_if_numbered();
    if number == 0 { assign() } else { number }
}

/// The number of [`os_thread`], if the calling OS thread has asked for it; otherwise 0.
#[inline(always)]
pub(crate) fn os_thread_if_numbered() -> u32 {
    (os_thread_as_upper_half() >> 32) as u32
}

/// The number of [`os_thread_if_numbered`], as the upper half of a word.
#[inline(always)]
pub(crate) fn os_thread_as_upper_half() -> u64 {
    NUMBER.with(Cell::get)
}

#[cold]
fn assign() -> u32 {
    let number = numbers::next();
    assert!(number < 1 << 31, "this process has too many OS threads");
    NUMBER.with(|cell| cell.set(u64::from(number) << 32));
    number
}

#[cfg(not(loom))]
mod numbers {
    use std::sync::{Mutex, PoisonError};

    use super::NUMBER;

    struct Numbers {
        free: Vec<u32>,
        next: u32,
    }

    static NUMBERS: Mutex<Numbers> = Mutex::new(Numbers { free: Vec::new(), next: 1 });

    thread_local! {
        /// The destructor that gives the number back. It stands apart from the number, which is looked up often.
        static HELD: Held = Held(take());
    }

    struct Held(u32);

    impl Drop for Held {
        fn drop(&mut self) {
            // Later destructors of this OS thread may ask once more.
            NUMBER.with(|cell| cell.set(0));
            NUMBERS.lock().unwrap_or_else(PoisonError::into_inner).free.push(self.0);
        }
    }

    fn take() -> u32 {
        let mut numbers = NUMBERS.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(number) = numbers.free.pop() {
            return number;
        }
        let number = numbers.next;
        numbers.next += 1;
        number
    }

    /// A number for the calling OS thread. If its destructor has run already, the number is never given back.
    pub(super) fn next() -> u32 {
        HELD.try_with(|held| held.0).unwrap_or_else(|_| take())
    }
}

#[cfg(loom)]
mod numbers {
    use std::sync::atomic::{AtomicU32, Ordering};

    loom::lazy_static! {
        // Not an atomic of loom's, since it orders nothing.
        static ref NEXT: AtomicU32 = AtomicU32::new(1);
    }

    pub(super) fn next() -> u32 {
        NEXT.fetch_add(1, Ordering::Relaxed)
    }
}
