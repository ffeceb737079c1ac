//! The notifier of the server thread. A thread that has work for the server thread calls `notify`.
//!
//! Its state is one bit. All notifications that come while the server thread is awake make it look once more,
//! together.

use std::fmt;
use std::future::IntoFuture;
use std::ops::DerefMut;
use std::sync::atomic::{AtomicBool, Ordering};

use chanter::Event;
use chanter::base::{Lock, Operation, Place, PlaceBranch, Queue, WakeList, synchronization};

pub(super) struct ServerNotifier {
    waiting: Lock<Queue<()>>,
    /// Whether a notification has not been heard yet. It is written under the lock.
    is_rung: AtomicBool,
}

impl ServerNotifier {
    pub(super) fn new() -> Self {
        Self { waiting: Lock::new(Queue::new()), is_rung: AtomicBool::new(false) }
    }

    /// Wakes the waiter. Without one, the next wait ends at once.
    pub(super) fn notify(&self) {
        let mut wakes = WakeList::new();
        self.ring_under(&mut self.waiting.lock(), &mut wakes);
        wakes.queue();
    }

    fn ring_under(&self, waiting: &mut Queue<()>, wakes: &mut WakeList) {
        if waiting.give(wakes, |()| ()).is_none() {
            // ORDER: Relaxed: the lock publishes the work that it announces; read without the lock, the flag is a
            // hint.
            self.is_rung.store(true, Ordering::Relaxed);
        }
    }

    /// Takes the notification, if there has been one since the last was heard. The caller then looks for work.
    pub(super) fn hear(&self) -> bool {
        // ORDER: Relaxed: a notification that is not seen yet is heard before the next park.
        self.is_rung.load(Ordering::Relaxed) && {
            let _waiting = self.waiting.lock();
            self.is_rung.swap(false, Ordering::Relaxed)
        }
    }

    /// The event of a notification.
    pub(super) fn notified(&self) -> Notified<'_> {
        Notified(self)
    }
}

/// The event of [`ServerNotifier::notified`].
#[must_use = "events do nothing unless synchronized"]
pub(super) struct Notified<'a>(&'a ServerNotifier);

impl fmt::Debug for Notified<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Notified(..)")
    }
}

// SAFETY: the queue is the lock's content and stays behind it, the same for all notes. A waiter borrows the notifier,
// so the queue neither moves nor ends meanwhile. No user code runs under the lock.
unsafe impl Place for &ServerNotifier {
    type Note = ();
    type State = Queue<()>;

    fn lock(&self) -> impl DerefMut<Target = Queue<()>> {
        self.waiting.lock()
    }

    fn queue<'a>(&self, waiting: &'a mut Queue<()>, _note: &()) -> &'a mut Queue<()> {
        waiting
    }

    fn is_ready(&self, _waiting: &Queue<()>, _note: &()) -> bool {
        // ORDER: Relaxed: under the lock.
        self.is_rung.load(Ordering::Relaxed)
    }

    fn act(&self, _waiting: &mut Queue<()>, _note: &mut (), _wakes: &mut WakeList) {
        // ORDER: Relaxed: `act` runs under the lock, which orders the flag.
        self.is_rung.store(false, Ordering::Relaxed);
    }

    fn undo(&self, waiting: &mut Queue<()>, _note: &mut (), wakes: &mut WakeList) {
        self.ring_under(waiting, wakes);
    }
}

impl<'a> Operation for Notified<'a> {
    type Place = &'a ServerNotifier;
    type Output = ();
    const LEAN: bool = true;

    fn finish(_notifier: &&'a ServerNotifier, _note: &mut ()) {}
}

impl<'a> IntoFuture for Notified<'a> {
    type Output = ();
    type IntoFuture = chanter::event::Sync<Self>;

    fn into_future(self) -> Self::IntoFuture {
        synchronization(self)
    }
}

// SAFETY: the branch holds the event's own reference, to a `Sync` notifier, and an empty note.
unsafe impl Event for Notified<'_> {
    type Branch = PlaceBranch<Self>;

    fn into_branch(self) -> Self::Branch {
        PlaceBranch::new(self.0, ())
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use chanter::prelude::*;

    use super::*;

    #[test]
    fn who_waits_hears_it_and_who_comes_later_too() {
        let machine = Machine::builder().vps(1).build().unwrap();
        machine.block_on(async {
            let notifier = Arc::new(ServerNotifier::new());
            assert!(!notifier.hear());
            notifier.notify();
            notifier.notify();
            notifier.notified().await;
            assert!(!notifier.hear(), "rung twice is rung");
            let waits = spawn({
                let notifier = Arc::clone(&notifier);
                async move { notifier.notified().await }
            });
            yield_now().await;
            notifier.notify();
            assert!(!notifier.hear(), "who waits has heard it");
            waits.await.unwrap();
            notifier.notify();
            assert!(notifier.hear() && !notifier.hear());
        });
    }

    #[test]
    fn it_is_heard_by_the_next_if_the_one_who_heard_it_goes() {
        let machine = Machine::builder().vps(1).build().unwrap();
        machine.block_on(async {
            let notifier = ServerNotifier::new();
            {
                let mut waits = std::pin::pin!(notifier.notified().into_future());
                std::future::poll_fn(|cx| {
                    assert!(waits.as_mut().poll(cx).is_pending());
                    std::task::Poll::Ready(())
                })
                .await;
                notifier.notify();
            }
            notifier.notified().await;
            // A notification that was not chosen has not been heard.
            notifier.notify();
            choose_biased((always(()), notifier.notified())).await;
            notifier.notified().await;
            let is_rung = choose((
                notifier.notified().wrap(|()| true),
                after(Duration::from_millis(1)).wrap(|()| false),
            ));
            assert!(!is_rung.await);
        });
    }
}
