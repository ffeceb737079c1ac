//! A policy of policies.

use std::fmt;

use super::{Others, Places, Policy, Ready, ReadyQueue, Reason};
use crate::sync::Lock;
use crate::sync::atomic::{AtomicU32, Ordering};

/// Times that a band is passed over before it is served, by default.
const PATIENCE: u32 = 64;

/// Bands, each with a policy of its own, and a function that says to which band a thread belongs. The first band that
/// has a thread goes first. A band that was passed over 64 times (see [`patience`](Bands::patience)) is served once.
///
/// Bands combine any policies, other bands included. A thread that an inner policy returns from
/// [`enqueue`](Policy::enqueue) runs first in its band.
///
/// ```
/// # use chanter::prelude::*;
/// use chanter::policy::{Bands, EarliestDeadline, Lottery, Policy, Ready, Reason};
///
/// // What is urgent, by deadline; the rest by lot.
/// let bands = |_vp| {
///     let inner: Vec<Box<dyn Policy>> =
///         vec![Box::new(EarliestDeadline::new()), Box::new(Lottery::new())];
///     let bands = Bands::new(inner, |thread: &Ready, _why: Reason| {
///         usize::from(thread.attributes().deadline.is_none())
///     });
///     Box::new(bands) as Box<dyn Policy>
/// };
/// let machine = Machine::builder().vps(1).policy(bands).build()?;
/// machine.block_on(async { yield_now().await });
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// STING, section 4: "There may be several ready queues holding threads with
/// various priorities".
pub struct Bands<F> {
    bands: Box<[Band]>,
    band_of: F,
    patience: u32,
}

struct Band {
    policy: Box<dyn Policy>,
    /// Threads that the policy has returned from `enqueue`; they run before its others.
    soon: Lock<ReadyQueue>,
    /// Number of times that the band was passed over since it was served last. Only the worker writes it.
    passed: AtomicU32,
}

impl Band {
    fn next(&self) -> Option<Ready> {
        let soon = self.soon.lock().pop_front();
        soon.or_else(|| self.policy.next())
    }
}

impl<F: Fn(&Ready, Reason) -> usize + Send + Sync + 'static> Bands<F> {
    /// Combines `policies`, the most urgent band first. `band_of` tells the index of a thread's band each time that
    /// the thread becomes ready. An index that is too large means the last band.
    ///
    /// # Panics
    /// Panics if there are no policies.
    pub fn new(policies: impl IntoIterator<Item = Box<dyn Policy>>, band_of: F) -> Self {
        let band = |policy| Band { policy, soon: Lock::new(ReadyQueue::new()), passed: AtomicU32::new(0) };
        let bands: Box<[Band]> = policies.into_iter().map(band).collect();
        assert!(!bands.is_empty(), "bands without a policy hold no thread");
        Self { bands, band_of, patience: PATIENCE }
    }

    /// Serves a band once after it was passed over `patience` times, and at least once. With `u32::MAX` the bands are
    /// strict: an urgent band always goes first.
    pub fn patience(mut self, patience: u32) -> Self {
        self.patience = patience.max(1);
        self
    }
}

impl<F> Bands<F> {
    /// Takes a thread from a band that has waited for too long, if there is one.
    fn next_of_the_patient(&self) -> Option<Ready> {
        self.bands.iter().skip(1).find_map(|band| {
            if band.passed.load(Ordering::Relaxed) < self.patience {
                return None;
            }
            band.passed.store(0, Ordering::Relaxed);
            band.next()
        })
    }
}

impl<F: Fn(&Ready, Reason) -> usize + Send + Sync + 'static> Policy for Bands<F> {
    fn enqueue(&self, thread: Ready, reason: Reason) -> Option<Ready> {
        let index = (self.band_of)(&thread, reason).min(self.bands.len() - 1);
        let band = &self.bands[index];
        if let Some(thread) = band.policy.enqueue(thread, reason) {
            band.soon.lock().push_back(thread);
        }
        None
    }

    fn next(&self) -> Option<Ready> {
        if let Some(thread) = self.next_of_the_patient() {
            return Some(thread);
        }
        let (index, thread) =
            self.bands.iter().enumerate().find_map(|(index, band)| Some((index, band.next()?)))?;
        self.bands[index].passed.store(0, Ordering::Relaxed);
        for band in &self.bands[index + 1..] {
            // Only the worker counts. An empty band may count too: its first thread is then early, once.
            let passed = band.passed.load(Ordering::Relaxed).saturating_add(1);
            band.passed.store(passed.min(u32::MAX - 1), Ordering::Relaxed);
        }
        Some(thread)
    }

    fn quantum(&self) -> u32 {
        self.bands.iter().map(|band| band.policy.quantum()).min().unwrap_or(super::QUANTUM)
    }

    fn give(&self, stealer: &dyn Policy) -> Option<Ready> {
        self.bands.iter().find_map(|band| band.policy.give(stealer))
    }

    fn waiting(&self) -> usize {
        self.bands.iter().map(|band| band.policy.waiting()).sum()
    }

    fn need_thread(&self, others: Others<'_>) -> Option<Ready> {
        self.bands[0].policy.need_thread(others)
    }

    fn place(&self, places: Places<'_>) -> Option<usize> {
        self.bands[0].policy.place(places)
    }

    fn places(&self) -> bool {
        self.bands[0].policy.places()
    }

    fn idle(&self) {
        self.bands.iter().for_each(|band| band.policy.idle());
    }

    fn drain(&self) -> Option<Ready> {
        self.bands.iter().find_map(|band| {
            let soon = band.soon.lock().pop_front();
            soon.or_else(|| band.policy.drain())
        })
    }
}

impl<F> fmt::Debug for Bands<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bands").field("bands", &self.bands.len()).field("patience", &self.patience).finish()
    }
}
