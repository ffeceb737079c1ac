//! Threads: hosts, which a policy schedules, and parasites, which run where
//! they are spawned and are resumed by whoever unblocks them.
//!
//! `state.rs` holds the rules: who may touch a frame when. `frame.rs` is the
//! memory, `body.rs` what lies in it, `run.rs` the only code that polls.

pub(crate) mod body;
pub(crate) mod frame;
mod join;
mod par;
mod run;
mod spawn;
pub(crate) mod state;

#[cfg(all(test, loom))]
mod models;
pub use join::{Join, JoinError, Thread};
pub use par::{Inflate, Par, ReadyPar, Reify, Yield, attach, inflate, prepare, reify, yield_now};
pub(crate) use run::{cancel, clone_ours, is_ours, is_own, run, wake_attached};
pub use spawn::{LocalThread, spawn, spawn_local, spawn_on, spawn_parasite};
pub(crate) use spawn::{spawn_body, spawn_in};

/// A random number below `bound`, from a generator of the OS thread's own
/// (xorshift64*, seeded from the address of its state and the time).
#[inline]
pub(crate) fn random(bound: usize) -> usize {
    use std::cell::Cell;
    thread_local! {
        static STATE: Cell<u64> = const { Cell::new(0) };
    }
    let mut x = STATE.get();
    if x == 0 {
        x = seed();
    }
    x ^= x >> 12;
    x ^= x << 25;
    x ^= x >> 27;
    STATE.set(x);
    let high = x.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 32;
    // Multiply and shift: no division, and a bias below 2^-32 x bound.
    ((high * bound as u64) >> 32) as usize
}

#[cold]
fn seed() -> u64 {
    use std::hash::{BuildHasher, Hasher, RandomState};
    RandomState::new().build_hasher().finish() | 1
}
