//! Loom models of the protocol of watches. How to run them: see `sync/models.rs`.

use loom::sync::Arc;
use loom::thread;

use super::Idle;
use crate::sync::models::check;

/// Two workers are awake. Both fall asleep, and one of them is woken again. While it is awake, the other one watches, or it
/// knows that none does.
#[test]
fn the_last_to_sleep_watches_or_is_known_not_to() {
    check(|| {
        let idle = Arc::new(Idle::new());
        idle.rise();
        idle.rise();
        let other = Arc::clone(&idle);
        let riser = thread::spawn(move || {
            other.sink();
            other.rise();
            other.is_found_unwatched()
        });
        idle.sink();
        let watches = idle.awake_in_order() > 0 || !idle.leave_unwatched();
        let is_known = riser.join().unwrap();
        assert!(watches || is_known, "it is awake, nobody watches, and it does not know");
    });
}
