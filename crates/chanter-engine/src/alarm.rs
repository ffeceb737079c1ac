//! An alarm, for engines that have something to do later.

use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Instant;

use chanter::ThreadBuilder;
use chanter::prelude::*;

/// A thread that calls its owner when something is due, and sleeps otherwise.
///
/// No call is missed. A due time is set under the lock under which the thread decides how long to sleep, and the
/// setter notifies a thread that sleeps too long.
#[derive(Default)]
pub(super) struct Alarm {
    set: Mutex<Set>,
    notifier: OnceLock<Sender<()>>,
}

#[derive(Default)]
struct Set {
    /// Earliest time at which something is due.
    due: Option<Instant>,
    /// Set while the thread sleeps until `due`.
    sleeps: bool,
}

impl Alarm {
    fn lock(&self) -> MutexGuard<'_, Set> {
        self.set.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the alarm to `due`, unless it is set to an earlier time.
    pub(super) fn set(&self, due: Instant) {
        {
            let mut set = self.lock();
            if set.due.is_some_and(|first| first <= due) {
                return;
            }
            set.due = Some(due);
            if !set.sleeps {
                return;
            }
        }
        if let Some(notifier) = self.notifier.get() {
            // The mailbox is closed once the owner is gone.
            let _ = notifier.try_send(());
        }
    }

    /// Starts the thread, on the current machine, unless it has been started. It calls `fire`, perhaps too early, and
    /// ends with its owner.
    ///
    /// # Panics
    /// The caller is no thread of a machine.
    pub(super) fn start<T>(&self, owner: Weak<T>, alarm: fn(&T) -> &Self, fire: fn(&T))
    where
        T: Send + Sync + 'static,
    {
        let (notifier, notified) = mailbox();
        if self.notifier.set(notifier).is_err() {
            return;
        }
        let serving = async move {
            loop {
                let due = {
                    let Some(owner) = owner.upgrade() else { return };
                    // Later due times are set again by `fire`.
                    *alarm(&owner).lock() = Set { due: None, sleeps: false };
                    fire(&owner);
                    let mut set = alarm(&owner).lock();
                    set.sleeps = true;
                    set.due
                };
                let is_over = match due {
                    None => notified.recv().await.is_err(),
                    Some(due) => {
                        let notified = notified.recv().wrap(|notified| notified.is_err());
                        choose_biased((notified, at(due).wrap(|()| false))).await
                    }
                };
                if is_over {
                    return;
                }
                while notified.try_recv().is_ok() {}
            }
        };
        drop(ThreadBuilder::new().name("alarm").spawn(serving));
    }
}
