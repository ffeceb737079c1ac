//! Loom models of the protocol of watches. How to run them: see `sync/models.rs`.

use loom::sync::Arc;
use loom::thread;

use super::Idle;
use crate::sync::models::check;

/// The last worker that is awake falls asleep while another one rises. It watches, or the other one knows that nobody does.
#[test]
fn the_last_to_sleep_watches_or_is_known_not_to() {
    check(|| {
        let idle = Arc::new(Idle::new());
        idle.rise();
        let other = Arc::clone(&idle);
        let riser = thread::spawn(move || {
            other.rise();
            other.is_found_unwatched()
        });
        idle.sink();
        let watches = idle.awake_in_order() > 0 || !idle.leave_unwatched();
        let is_known = riser.join().unwrap();
        assert!(watches || is_known, "one is awake, nobody watches, and it does not know");
    });
}
