//! Constants of the scheduler, with their reasons.
//!
//! A constant of a protocol (the streaks that earn a bias, the orders of looks) stands beside its protocol, in the
//! folders below this one. A policy has its own. Sizes that the layout of a value or a stack demands are no choices.

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

// Waiting for a fork (`fork/wait.rs`).

/// The number of looks of a waiter before it sleeps between them.
pub(super) const FORK_LOOKS: u32 = 2_048;
/// The number of looks from one attempt to steal a job to the next, a divisor of [`FORK_LOOKS`]. An attempt may take
/// a lock.
pub(super) const LOOKS_A_STEAL: u32 = 64;
/// The duration of the first sleep, which doubles up to [`LONGEST_NAP`].
pub(super) const NAP: Duration = Duration::from_micros(20);
/// The duration of the longest sleep. A waiter finds the end of its fork at most that late.
pub(super) const LONGEST_NAP: Duration = Duration::from_millis(1);

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
/// The number of parasites that a thread spawns as hosts after one was long (Featherweight Threads, section 5.3).
pub(crate) const PENALTY: u8 = 10;
/// The number of operations below which a spawner does not share its budget with its parasites. So few would not tell
/// a long parasite from a short one.
pub(crate) const LEAST_BUDGET: u32 = 8;

// Processors that share a worker (`run_loop.rs`).

/// Number of turns, and time, that a processor has before the next one of its worker; a turn that has begun is not
/// interrupted.
pub(super) const TURNS: u32 = 64;
pub(super) const SHIFT: Duration = Duration::from_millis(1);
/// Number of turns from one look at the clock to the next.
pub(super) const CLOCK: u32 = 16;

// Hand-off (`hand_off/`).

/// The longest turn before the processor is handed off, unless the builder says otherwise.
pub(crate) const HAND_OFF_AFTER: Duration = Duration::from_millis(10);
/// The number of threads that a turn without its processor has to spawn within [`SPAWNS`] before it reclaims the
/// processor. To reclaim it and be handed off again takes some 50 us. Each thread that is spawned without it takes up
/// to 20 us.
pub(super) const SPAWNED_AWAY: u32 = 16;
/// The time in which these threads are spawned.
pub(super) const SPAWNS: Duration = Duration::from_millis(1);
/// The number of spare workers, hence of OS threads for them, that a machine has at most.
pub(super) const MOST_SPARES: usize = 128;
/// The time after which the OS thread of an idle spare worker ends.
pub(super) const SPARE_IDLE: Duration = Duration::from_secs(5);
/// The number of looks at an idle process after which the monitor falls asleep.
pub(super) const IDLE_LOOKS: u32 = 4;
/// The longest time that a turn has to reach a checkpoint once it was asked to end.
pub(super) const GRACE: Duration = Duration::from_millis(1);
/// The largest exponent in `quantum_beside`: a turn lasts a quantum times 4 to this number at most.
pub(super) const MOST_BESIDE: u32 = 4;

// Memory and OS threads.

/// The size of a worker's stack, in bytes. It is reserved, and not used until threads nest.
pub(super) const WORKER_STACK: usize = 8 << 20;
/// The size of the monitor's stack, in bytes.
pub(super) const MONITOR_STACK: usize = 128 << 10;
/// The least number of bytes of a fiber's stack that a nested parasite must leave free.
pub(super) const STACK_RESERVE: usize = 64 * 1024;
/// The number of stacks of each class that keep their pages while the processor is idle.
pub(super) const STACKS_WARM: usize = 16;
/// The number of stacks of each class that stay mapped while the processor is idle.
pub(super) const STACKS_MAPPED: usize = 1024;
/// The number of stacks of each class that are kept at all. Further ones are unmapped at once.
pub(super) const STACKS_KEPT: usize = 16 * 1024;
/// The time without work after which stacks are given back.
pub(super) const STACKS_IDLE: Duration = Duration::from_millis(50);
/// The time after which an idle OS thread for blocking calls ends.
pub(super) const BLOCKING_IDLE: Duration = Duration::from_secs(10);
/// The number of blocks of ended channels that a processor keeps (`channel_cache.rs`).
pub(super) const CHANNELS_KEPT: u32 = 1024;
/// The number of sockets that one wait tells of. The next wait tells of the rest.
#[cfg(not(miri))]
pub(super) const SOCKETS_AT_ONCE: usize = 256;
