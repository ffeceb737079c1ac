//! The notifier of the server thread: whoever has something for it to do rings.
//!
//! It is notified, or not: however often it was notified while the thread is awake, that looks once more.

use std::fmt;
use std::future::IntoFuture;
use std::ops::DerefMut;
use std::sync::atomic::{AtomicBool, Ordering};

use chanter::Event;
use chanter::base::{BiasedLock, Operation, Place, PlaceBranch, Queue, WakeList, synchronization};

pub(super) struct ServerNotifier {
    waiting: BiasedLock<Queue<()>>,
    /// Nobody has heard it yet. Written under the lock.
    is_rung: AtomicBool,
}

impl ServerNotifier {
    pub(super) fn new() -> Self {
        Self { waiting: BiasedLock::unhinted(Queue::new()), is_rung: AtomicBool::new(false) }
    }

    /// Whoever waits wakes; if nobody does, the next one does not wait.
    pub(super) fn notify(&self) {
        let mut wakes = WakeList::new();
        self.ring_under(&mut self.waiting.lock(), &mut wakes);
        wakes.queue();
    }

    fn ring_under(&self, waiting: &mut Queue<()>, wakes: &mut WakeList) {
        if waiting.give(wakes, |()| ()).is_none() {
            // ORDER: Relaxed: what it is notified of is told by the lock; without that it is a hint.
            self.is_rung.store(true, Ordering::Relaxed);
        }
    }

    /// Whether it was notified since somebody heard it. The caller hears it, and then looks what there is.
    pub(super) fn hear(&self) -> bool {
        // ORDER: Relaxed: one that is not seen yet is heard before the next rest.
        self.is_rung.load(Ordering::Relaxed) && {
            let _waiting = self.waiting.lock();
            self.is_rung.swap(false, Ordering::Relaxed)
        }
    }

    /// The event that it is notified.
    pub(super) fn notified(&self) -> Notified<'_> {
        Notified(self)
    }
}

/// See [`ServerNotifier::notified`].
#[must_use = "events do nothing unless synchronized"]
pub(super) struct Notified<'a>(&'a ServerNotifier);

impl fmt::Debug for Notified<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Notified(..)")
    }
}

// SAFETY: the queue is what is behind the lock, and whoever waits there has borrowed the notifier.
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
        // ORDER: as above.
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

// SAFETY: the branch holds the same reference, to what is `Sync`, and a note that is nothing.
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
            // Not chosen, it was not heard.
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
