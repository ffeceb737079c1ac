//! Who has a call that may be forwarded: the rules of INV-FORWARDED (see `raw.rs`), apart from what carries them out.

use std::collections::HashMap;

use foldhash::fast::RandomState;
use sync::{Mutex, MutexGuard, PoisonError};

use crate::engine::ProcessId;

/// The rules. All are kept; the models leave one out.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rules {
    /// The caller keeps the last holder of whom it has heard, by the count of forwards (2).
    pub(super) counts: bool,
    /// When it hears of a later one, it looks whether that has gone already (2).
    pub(super) looks: bool,
}

impl Rules {
    const ALL: Self = Self { counts: true, looks: true };
}

/// Calls that are pending, with what their caller keeps of each. It stands behind the caller's lock.
pub(super) struct Pending<P> {
    calls: HashMap<u64, Call<P>, RandomState>,
    /// How many there have been.
    made: u64,
    pub(super) rules: Rules,
}

struct Call<P> {
    /// Who has it, as far as the caller knows.
    holder: ProcessId,
    /// Which of those that there have been it is.
    made: u64,
    /// How often it was forwarded; `None`: it may not be.
    forwarded: Option<u32>,
    kept: P,
}

impl<P> Default for Pending<P> {
    fn default() -> Self {
        Self { calls: HashMap::default(), made: 0, rules: Rules::ALL }
    }
}

/// What a caller hears of a later holder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Heard {
    /// The call may not be forwarded.
    MayNot,
    /// The call has ended, or its caller has heard of a later one.
    Before,
    /// That one has it. The caller looks whether it has gone, behind its lock: either it sees that, or who tells of it finds the
    /// call.
    Look,
    /// The same; but the caller does not look.
    Has,
}

impl<P> Pending<P> {
    pub(super) fn insert(&mut self, request: u64, holder: ProcessId, may_be_forwarded: bool, kept: P) {
        self.made += 1;
        let forwarded = may_be_forwarded.then_some(0);
        self.calls.insert(request, Call { holder, made: self.made, forwarded, kept });
    }

    /// What is kept of a call, and who has it.
    pub(super) fn get_mut(&mut self, request: u64) -> Option<(ProcessId, &mut P)> {
        let call = self.calls.get_mut(&request)?;
        Some((call.holder, &mut call.kept))
    }

    /// Whether an answer is one of that call. A later holder may answer before the caller hears of it: then it knows the request's
    /// number, which it can have from a holder only (INV-FORWARDED 5).
    pub(super) fn may_answer(&self, request: u64, by: ProcessId, forwarded: u32) -> bool {
        let Some(call) = self.calls.get(&request) else { return false };
        call.holder == by || call.forwarded.is_some_and(|known| forwarded > known)
    }

    /// It was forwarded to `to`, by so many forwards in all.
    pub(super) fn hear(&mut self, request: u64, to: ProcessId, forwarded: u32) -> Heard {
        let Some(call) = self.calls.get_mut(&request) else { return Heard::Before };
        let Some(known) = &mut call.forwarded else { return Heard::MayNot };
        if self.rules.counts && forwarded <= *known {
            return Heard::Before;
        }
        *known = forwarded;
        call.holder = to;
        if self.rules.looks { Heard::Look } else { Heard::Has }
    }

    /// Those that a process has, in the order in which they were made.
    pub(super) fn of(&self, holder: ProcessId) -> Vec<u64> {
        let of = self.calls.iter().filter(|(_, call)| call.holder == holder);
        let mut requests: Vec<(u64, u64)> = of.map(|(request, call)| (call.made, *request)).collect();
        requests.sort_unstable();
        requests.into_iter().map(|(_, request)| request).collect()
    }

    /// Ends a call: who had it, and what was kept.
    pub(super) fn end(&mut self, request: u64) -> Option<(ProcessId, P)> {
        let call = self.calls.remove(&request)?;
        Some((call.holder, call.kept))
    }
}

/// The place of a duty, while who has it may hand it on.
#[derive(Debug)]
pub(super) struct Place<O>(Mutex<Option<O>>);

impl<O> Place<O> {
    pub(super) fn new(duty: O) -> Self {
        Self(Mutex::new(Some(duty)))
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Option<O>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// For who answers, or forwards it: one of them gets it.
    pub(super) fn take(&self) -> Option<O> {
        self.lock().take()
    }

    /// It could not be forwarded.
    pub(super) fn put_back(&self, duty: O) {
        *self.lock() = Some(duty);
    }
}

/// What loom replaces.
mod sync {
    #[cfg(loom)]
    pub(super) use loom::sync::{Mutex, MutexGuard};
    pub(super) use std::sync::PoisonError;
    #[cfg(not(loom))]
    pub(super) use std::sync::{Mutex, MutexGuard};
}
