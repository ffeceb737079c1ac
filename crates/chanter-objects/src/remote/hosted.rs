//! Hosted objects: those that have moved to this process.

use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll};

use chanter::base::stack_local;

use crate::place::Name;

/// An object that a request takes for one that has moved here: its slot and generation, and its home.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hosted {
    pub(super) name: (u32, u32),
    pub(super) home: Name,
}

/// The homes of objects that have moved to a process, by slot and generation.
#[derive(Default)]
pub(super) struct Guests(Mutex<HashMap<(u32, u32), Name>>);

impl Guests {
    fn lock(&self) -> MutexGuard<'_, HashMap<(u32, u32), Name>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn home(&self, name: (u32, u32)) -> Option<Name> {
        self.lock().get(&name).copied()
    }

    /// Notes that an object has moved here.
    pub(super) fn welcome(self: &Arc<Self>, hosted: Hosted) -> Staying {
        self.lock().insert(hosted.name, hosted.home);
        Staying { guests: Arc::downgrade(self), name: hosted.name }
    }
}

/// A hosted object is here as long as this lives.
pub(super) struct Staying {
    guests: Weak<Guests>,
    name: (u32, u32),
}

impl Drop for Staying {
    fn drop(&mut self) {
        if let Some(guests) = self.guests.upgrade() {
            guests.lock().remove(&self.name);
        }
    }
}

/// The hosted object for which the current poll runs a method. [`ForHosted`] puts it on its stack.
#[derive(Clone, Copy)]
struct RunsFor(Option<Hosted>);

fn runs_for() -> Option<Hosted> {
    stack_local::with(|runs: Option<&RunsFor>| runs.and_then(|runs| runs.0))
}

/// The home of a hosted object, if the current poll runs a request that was forwarded to it.
pub(super) fn home_of(name: (u32, u32)) -> Option<Name> {
    runs_for().filter(|hosted| hosted.name == name).map(|hosted| hosted.home)
}

/// Runs a request's method, if it is one for a hosted object.
pub(super) fn for_hosted<F: Future>(hosted: Option<Hosted>, future: F) -> ForHosted<F> {
    ForHosted { hosted, future }
}

/// The future of [`for_hosted`].
pub(super) struct ForHosted<F> {
    hosted: Option<Hosted>,
    future: F,
}

impl<F: Future> Future for ForHosted<F> {
    type Output = F::Output;

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        // SAFETY: the future is not moved, and the other field is not pinned.
        let (hosted, future) = unsafe {
            let this = self.get_unchecked_mut();
            (this.hosted, Pin::new_unchecked(&mut this.future))
        };
        if hosted.is_none() && runs_for().is_none() {
            return future.poll(cx);
        }
        stack_local::set(&RunsFor(hosted), || future.poll(cx))
    }
}
