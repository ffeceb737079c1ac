//! Constants of the scheduler, with their reasons.

use std::time::Duration;

// Stealing (`steal.rs`).

/// A thread that goes back within this time was stolen in vain. A conversation sends hundreds of messages meanwhile,
/// and a computation of this length is worth the steal.
pub(super) const WINDOW: Duration = Duration::from_micros(300);
/// The first backoff. It is as long as the window, so a single failed steal loses at most half of the time.
pub(super) const FIRST_BACKOFF: Duration = WINDOW;
/// No backoff is longer. A program that changes from talk to computation is spread after this time.
pub(super) const LONGEST_BACKOFF: Duration = Duration::from_millis(100);
/// The number of vain searches in a row after which a worker sleeps, although others say that they have threads to
/// give. Others may be faster a few times.
pub(super) const VAIN_SEARCHES: u32 = 4;
/// At most this many threads are looked at when half of a list is given away. It bounds the time between two turns.
pub(super) const MOST_GIVEN: usize = 256;

// The order of threads (`soon.rs`).

/// The policy is asked at least once in this number of turns, so that no thread waits for ever.
pub(super) const SOON_RUNS: u32 = 64;
/// Turns in a row that end no thread are talk from this number on. Two are a message and its answer.
pub(super) const TALK: u32 = 2;
/// After a turn of a quantum, this number less [`SOON_RUNS`] is how many threads of the policy go first: those of a
/// usual queue.
pub(super) const AFTER_LONG: u32 = SOON_RUNS + 256;

// Spinning, and what happens beside long turns (`spin.rs`, `long_turn.rs`).

/// The length of a spin. A parked partner is unparked and answers within it. Otherwise two that have once missed each
/// other would not meet again.
pub(super) const SPIN: Duration = HEARTBEAT;
/// At most 2 to this number of parks, less one, pass without a spin. So spins in vain cost one park in 16.
pub(super) const MOST_VAIN: u32 = 4;
/// A turn that lasts for this long after a call, or after the first look at it, loses the threads that it has woken. It
/// is three times what a wake of another OS thread takes.
pub(super) const LATE: Duration = Duration::from_micros(30);

// The worker's loop (`run_loop.rs`).

/// Timers and I/O are polled about this often while threads run.
pub(super) const LOOK: Duration = Duration::from_micros(100);
/// The clock is read once in this number of turns. That costs a nanosecond each.
pub(super) const LOOK_TURNS: u32 = 32;
/// The longest watch of a sleeper while others are busy. It bounds how late a queued thread is found.
pub(super) const LONGEST_WATCH: Duration = Duration::from_millis(2);
/// How often in a row an engine may have something that makes no thread ready, before the worker looks elsewhere.
pub(super) const PUMPS: u32 = 4;

// Parasites (`guard.rs`).

/// Attaches may nest this deep. Deeper nests gain nothing, and use up the stack.
pub(crate) const DEPTH: u32 = 24;
/// A spawner whose parasites compute for long spawns this many hosts in their place, before it looks again.
pub(super) const PROMOTED: u32 = 32;
/// A parasite that computes for this long is long: a host in its place costs next to nothing.
pub(super) const LONG_PARASITE: Duration = Duration::from_micros(20);
/// The least time between two requests of a searching processor for a parasite.
pub(super) const HEARTBEAT: Duration = Duration::from_micros(100);

// Processors that share a worker (`run_loop.rs`).

/// Number of turns, and time, that a processor has before the next one of its worker; a turn that has begun is not
/// interrupted.
pub(super) const TURNS: u32 = 64;
pub(super) const SHIFT: Duration = Duration::from_millis(1);
/// Number of turns from one look at the clock to the next.
pub(super) const CLOCK: u32 = 16;
