//! Chanter's own bodies, one file per benchmark or small family; each file also lists the peers that
//! do the same work.

pub(crate) mod blocked;
pub(crate) mod by_name;
pub(crate) mod checkpoints;
pub(crate) mod choose;
pub(crate) mod delayed;
pub(crate) mod explore;
pub(crate) mod fiber;
pub(crate) mod fork;
pub(crate) mod gather;
pub(crate) mod idle;
pub(crate) mod leaves;
pub(crate) mod locks;
pub(crate) mod lost_choice;
pub(crate) mod pingpong;
#[cfg(unix)]
pub(crate) mod requests;
#[cfg(unix)]
pub(crate) mod round_trip;
pub(crate) mod send;
pub(crate) mod spawn;
pub(crate) mod tuples;

use std::future::Future;

use chanter::prelude::*;

use super::case::{Case, Failure};

/// Every case that makes sense on `vps` virtual processors.
pub(crate) fn all(vps: usize) -> Vec<Case> {
    [
        spawn::cases(vps),
        pingpong::cases(vps),
        choose::cases(vps),
        gather::cases(vps),
        send::cases(vps),
        by_name::cases(vps),
        blocked::cases(vps),
        idle::cases(vps),
        locks::cases(vps),
        tuples::cases(vps),
        checkpoints::cases(vps),
        lost_choice::cases(vps),
        explore::cases(vps),
        fiber::cases(vps),
        delayed::cases(vps),
        fork::cases(vps),
        leaves::cases(vps),
        #[cfg(unix)]
        round_trip::cases(vps),
        #[cfg(unix)]
        requests::cases(vps),
        super::policies::custom_fifo(vps),
        super::policies::endless(vps),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// A machine of its own for one sample.
pub(super) fn machine(vps: usize) -> Result<Machine, Failure> {
    Machine::builder().vps(vps).name("bench").build().map_err(|error| Failure::Broken(error.to_string()))
}

/// Runs the work on a fresh machine and shuts that down again.
pub(crate) fn on_machine<F: Future>(vps: usize, work: F) -> Result<F::Output, Failure> {
    Ok(machine(vps)?.block_on_local(work))
}

/// The value of a thread that must not have panicked.
pub(crate) async fn value_of<T>(thread: Thread<T>) -> Result<T, Failure>
where
    T: Send + 'static,
{
    thread.join().await.map_err(|error| Failure::Broken(error.to_string()))
}
