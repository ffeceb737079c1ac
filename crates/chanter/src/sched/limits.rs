//! Constants of the scheduler, with their reasons. Each module is named after the file that uses it.

/// `steal.rs`.
pub(super) mod steal {
    use std::time::Duration;

    /// A thread that goes back within this time was stolen in vain. A conversation sends hundreds of messages meanwhile,
    /// and a computation of this length is worth the steal.
    pub(crate) const WINDOW: Duration = Duration::from_micros(300);
    /// The first backoff. It is as long as the window, so a single bad steal loses at most half of the time.
    pub(crate) const FIRST: Duration = WINDOW;
    /// No backoff is longer. A program that changes from talk to computation is spread after this time.
    pub(crate) const LONGEST: Duration = Duration::from_millis(100);
    /// At most this many threads are looked at when half of a list is given away. It bounds the time between two turns.
    pub(crate) const MOST_GIVEN: usize = 256;
}
