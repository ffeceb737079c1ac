//! A process's part of the wait-for graph (see `waits.rs`).

use std::collections::HashMap;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;

use chanter::Sender;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::census::{Call, Leaf};
use super::circle::Circle;

pub(super) const WAITS: &str = "chanter_objects::waits";

/// A request: the process that has made it, and its mark.
pub(super) type Key = (u32, Mark);

/// Name of a request for processes that may not answer it: a one-way function of its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(super) struct Mark(pub(super) [u8; 16]);

impl Mark {
    pub(super) fn of(request: u64) -> Self {
        let digest = Sha256::new().chain_update(WAITS).chain_update(request.to_le_bytes()).finalize();
        let mut mark = [0; 16];
        mark.copy_from_slice(&digest[..16]);
        Self(mark)
    }
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A process's part of the wait-for graph.
#[derive(Default)]
pub(super) struct Waits {
    /// Its own calls that have looked around.
    pub(super) calls: Mutex<HashMap<u64, Call>>,
    /// Requests of others that have blocked here.
    pub(super) requests: Mutex<HashMap<Key, Arc<Blocked>>>,
    /// Called with each circle, which is then not reported on the standard error.
    pub(super) handler: Mutex<Option<Handler>>,
}

pub(super) type Handler = Arc<dyn Fn(&Circle) + Send + Sync>;

/// A request that has blocked.
pub(super) struct Blocked {
    /// Set once it was reported as one that waits for itself.
    pub(super) is_told: AtomicBool,
    pub(super) waker: Mutex<Waker>,
    pub(super) asked: Mutex<Vec<Sender<Vec<Leaf>>>>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_names_its_request_alone_and_does_not_tell_its_number() {
        let numbers = [0, 1, u64::MAX, 0x0123_4567_89AB_CDEF];
        for number in numbers {
            assert_eq!(Mark::of(number), Mark::of(number));
            let mark = Mark::of(number).0;
            assert!(!mark.windows(8).any(|bytes| bytes == number.to_le_bytes()));
            assert!(numbers.iter().all(|other| *other == number || Mark::of(*other).0 != mark));
        }
    }
}
