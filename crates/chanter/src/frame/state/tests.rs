//! Tests of the state word.

use super::{ACTIVE, REFERENCE, State};
use crate::child::aborts;
use crate::sync::atomic::{AtomicU64, Ordering};

fn with_references(count: i64) -> State {
    State(AtomicU64::new((count * REFERENCE as i64) as u64 | ACTIVE))
}

#[test]
#[cfg_attr(miri, ignore = "Miri starts no processes")]
fn leaked_references_end_the_process_before_their_count_wraps() {
    let state = with_references((1 << 38) - 1);
    state.bound_references();
    state.retain();
    assert_eq!(state.0.load(Ordering::Relaxed) / REFERENCE, 1 << 38);
    // The count is negative when others have given up references that a runner has handed out
    // but not yet added.
    with_references(-(1 << 30)).retain();
    let name = "frame::state::tests::leaked_references_end_the_process_before_their_count_wraps";
    aborts(name, || with_references(1 << 38).retain());
}

#[test]
#[cfg_attr(miri, ignore = "Miri starts no processes")]
fn references_that_a_runner_leaks_end_the_process_as_well() {
    let name = "frame::state::tests::references_that_a_runner_leaks_end_the_process_as_well";
    aborts(name, || with_references(1 << 38).bound_references());
}
