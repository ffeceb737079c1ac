//! Payloads that are counted.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// Counts payloads: each must be dropped exactly once.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    drops: std::sync::Mutex<Vec<Arc<AtomicU32>>>,
}

impl Ledger {
    pub(crate) fn new() -> Arc<Self> {
        Arc::default()
    }

    pub(crate) fn payload(self: &Arc<Self>, id: usize) -> Payload {
        let drops = Arc::new(AtomicU32::new(0));
        self.drops.lock().unwrap().push(Arc::clone(&drops));
        Payload { id, drops, intact: INTACT }
    }

    pub(crate) fn live(&self) -> usize {
        self.drops.lock().unwrap().iter().filter(|drops| drops.load(Ordering::SeqCst) == 0).count()
    }

    /// Every payload was dropped, once.
    #[track_caller]
    pub(crate) fn check(&self) {
        let drops = self.drops.lock().unwrap();
        let leaked = drops.iter().filter(|drops| drops.load(Ordering::SeqCst) == 0).count();
        let twice = drops.iter().filter(|drops| drops.load(Ordering::SeqCst) > 1).count();
        assert_eq!((leaked, twice), (0, 0), "leaked and doubled payloads of {}", drops.len());
    }
}

const INTACT: u64 = 0x600D_600D_600D_600D;

#[derive(Debug)]
pub(crate) struct Payload {
    #[allow(dead_code, reason = "each test binary uses some of it")]
    pub(crate) id: usize,
    drops: Arc<AtomicU32>,
    intact: u64,
}

impl Drop for Payload {
    fn drop(&mut self) {
        assert_eq!(self.intact, INTACT, "a payload was overwritten");
        self.drops.fetch_add(1, Ordering::SeqCst);
    }
}
