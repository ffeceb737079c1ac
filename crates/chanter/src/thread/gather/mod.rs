//! `gather`: all of several events, and futures as events.
//!
//! - `slot.rs` holds the protocol between an owner and one member that has a thread.
//! - `shared.rs` holds what all such members have in common.
//! - `direct.rs` holds members that need no thread. Their protocol is in `gather_latch.rs`.
//! - `shapes.rs` holds tuples, arrays and vectors.
//! - `first.rs` holds the first few of many.

mod direct;
mod first;
mod place;
mod shapes;
mod shared;
mod slot;

#[cfg(all(test, loom))]
pub(crate) mod models;

use std::fmt;
use std::future::Future;
use std::panic::resume_unwind;
use std::pin::Pin;
use std::task::Waker;

pub use first::{Fewer, GatherK, gather_k};
pub use shapes::{Alone, Gathers};
pub use shared::{Discard, Reclaim, To};

pub(crate) use shared::Kind;

use self::direct::Direct;
use self::place::Place;
use self::shared::{Share, Slots, reclaim};
use crate::event::{Base, Event, Leaf, Offer, Offered, Offering, Shape, WakeList, into_future};
use crate::frame::report::{Waiting, Waits};
use crate::sched::Worker;
use crate::sync::switches::COUNTED_GATHER;

/// The event that commits when *all* of `events` have, and yields their results, in order. The paper's `chooseAll`.
///
/// All begin at once. They commit in any order, each by itself, since each event is synchronized by a parasite of its
/// own. A parasite that need not wait costs about a call. The last one to finish resumes the gatherer on its own
/// stack. `events` is a tuple of up to 12, an array or a vector. It takes one allocation.
///
/// There are no parasites if all events are sends and receives, without `wrap`s or guards that a thread would have to
/// run. Then the partner that completes the last event wakes the gatherer. That costs no more than to receive from
/// one after the other, and tuples and arrays are not allocated. (On a machine that an explorer drives there are
/// threads nevertheless, so that each is a step of its own.)
///
/// **Commit point**: when the last result is there. The gathered events begin when a thread synchronizes, as a
/// [`guard`](crate::event::guard) does.
///
/// **Not chosen, or dropped**: events that have not committed never happen. They are retracted, and their nacks
/// enabled, before the drop returns. If another processor polls an event right then, that poll ends it either way.
/// Events that have committed have happened. A message was taken, or a `wrap` has run, and no rule could undo that
/// for every event. A channel does not count such an event as a sender or receiver any more, whether or not the
/// gatherer has looked. Its result is dropped, or given to [`reclaim`](Gather::reclaim), which can put it where it
/// belongs. For the first few only, with nothing to undo, see [`gather_k`].
///
/// **Panics** of an event's guard or `wrap` are resumed in the gatherer. The other events are retracted. Outside of a
/// machine, synchronizing panics before anything has happened.
///
/// Laws: `gather([])` is `always([])`. `gather((a, b))` yields all that `(a.await, b.await)` and `(b.await, a.await)`
/// may yield.
///
/// ```
/// # use chanter::prelude::*;
/// # chanter::block_on(async {
/// let (tx, rx) = channel();
/// let (words, heard) = mailbox();
/// spawn(async move { tx.send(6).await });
/// words.try_send("times").unwrap();
/// let (number, word, seven) = gather((rx.into_recv(), heard.into_recv(), always(7))).await;
/// assert_eq!((number, word, seven), (Ok(6), Ok("times"), 7));
/// # });
/// ```
///
/// Featherweight Threads, sections 2.3.2 (figure 5) and 5.4.
pub fn gather<P: Gathers>(events: P) -> Gather<P> {
    Gather { events, reclaim: Discard, kind: Kind::Parasite }
}

/// Like [`gather`], with a host for each event instead of a parasite. For events whose `wrap`s compute for long, and
/// for comparison.
pub fn gather_on_hosts<P: Gathers>(events: P) -> Gather<P> {
    Gather { events, reclaim: Discard, kind: Kind::Host }
}

/// The event that commits when `future` has ended, and yields its output.
///
/// The future is spawned as a host when somebody synchronizes; if the event is
/// not chosen, or the synchronization is dropped, it is aborted: dropped where
/// it waits. If it had ended by then, its output is dropped, or goes to
/// [`reclaim`](Gather::reclaim). For futures that should be polled in place
/// instead see [`from_cancel_safe`](crate::event::from_cancel_safe).
///
/// # Panics
/// Synchronizing resumes a panic of the future. Outside of a machine it panics before anything has happened.
///
/// Law: alone, `from_future(f).await` is `f.await`, on another thread.
///
/// ```
/// # use chanter::prelude::*;
/// # use chanter::event::from_future;
/// # use std::time::Duration;
/// # chanter::block_on(async {
/// let slow = from_future(async {
///     after(Duration::from_secs(3600)).await;
///     "slow"
/// });
/// let timeout = after(Duration::from_millis(1)).wrap(|()| "in time");
/// assert_eq!(choose((slow, timeout)).await, "in time");
/// # });
/// ```
pub fn from_future<F>(future: F) -> Gather<Alone<F>>
where
    F: Future + Send + 'static,
    F::Output: Send,
{
    Gather { events: Alone(future), reclaim: Discard, kind: Kind::Host }
}

/// The event of [`gather`] and [`from_future`].
#[derive(Clone)]
#[must_use = "events do nothing unless synchronized"]
pub struct Gather<P, R = Discard> {
    events: P,
    reclaim: R,
    kind: Kind,
}

impl<P: Gathers> Gather<P> {
    /// The same event, but its results are given to `back` if it is not chosen, rather than dropped.
    ///
    /// `back` gets the results in their places, if there is at least one, when no member can finish any more. That is
    /// during the drop. If another processor polls a member right then, it is at the end of that poll. A panic of
    /// `back` is reported.
    ///
    /// ```
    /// # use chanter::prelude::*;
    /// # chanter::block_on(async {
    /// let (tx, rx) = mailbox();
    /// tx.try_send("precious").unwrap();
    /// let both = gather((rx.clone().into_recv(), never::<()>())).reclaim(move |(message, _)| {
    ///     tx.try_send(message.unwrap().unwrap()).unwrap();
    /// });
    /// assert_eq!(both.try_sync(), None);
    /// assert_eq!(rx.try_recv(), Ok("precious"));
    /// # });
    /// ```
    pub fn reclaim<F: FnOnce(P::Partial) + Send + 'static>(self, back: F) -> Gather<P, To<F>> {
        Gather { events: self.events, reclaim: To(back), kind: self.kind }
    }
}

impl<P, R> fmt::Debug for Gather<P, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gather").field("kind", &self.kind).finish_non_exhaustive()
    }
}

into_future!([P: Gathers, R: Reclaim<P::Partial>] Gather<P, R>, P::Output);

// SAFETY: the branch holds the events, their branches or a share of their slots, which are `Send` when the events
// are. It also holds `R`, which is always `Send`.
unsafe impl<P: Gathers, R: Reclaim<P::Partial>> Event for Gather<P, R> {
    type Branch = GatherBranch<P, R>;

    #[inline(always)]
    fn into_branch(self) -> Self::Branch {
        GatherBranch {
            events: Some((self.events, self.kind)),
            direct: Place::new(),
            shared: None,
            reclaim: Some(self.reclaim),
            offer: Offer::new(),
            lost: false,
        }
    }
}

/// The branch of a gathering. The members are in one of three fields at a time, or in none.
#[doc(hidden)]
pub struct GatherBranch<P: Gathers, R: Reclaim<P::Partial>> {
    /// The events, until the synchronization begins.
    events: Option<(P, Kind)>,
    /// The members without threads, from then until the end. Pinned.
    direct: Place<Direct<P>>,
    /// The members with threads, from then until the end.
    shared: Option<Share<P::Slots, R>>,
    /// Goes to the threads, if there are any.
    reclaim: Option<R>,
    /// The owner's offer, used with threads only.
    offer: Offer,
    lost: bool,
}

impl<P: Gathers, R: Reclaim<P::Partial>> fmt::Debug for GatherBranch<P, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("GatherBranch(..)")
    }
}

impl<P: Gathers, R: Reclaim<P::Partial>> GatherBranch<P, R> {
    fn shared(&self) -> &Share<P::Slots, R> {
        self.shared.as_ref().expect("begun, and not ended")
    }

    #[inline(always)]
    fn direct(self: Pin<&mut Self>) -> Option<Pin<&mut Direct<P>>> {
        // SAFETY: `direct` is pinned with the whole, and never moved.
        unsafe { self.map_unchecked_mut(|this| &mut this.direct) }.get()
    }

    /// Reclaims the results of the members that have committed. The members are retracted.
    fn abort(mut self: Pin<&mut Self>) {
        if let Some(direct) = self.as_mut().direct() {
            let partial = direct.some();
            // SAFETY: the members are retracted, so no partner refers to them. They are dropped in place.
            let this = unsafe { self.get_unchecked_mut() };
            this.direct.clear();
            if let Some(back) = this.reclaim.take()
                && !P::Slots::is_empty(&partial)
            {
                reclaim(back, partial);
            }
            return;
        }
        // SAFETY: the share is not pinned.
        if let Some(shared) = unsafe { self.get_unchecked_mut() }.shared.take() {
            shared.abandon();
        }
    }
}

/// Whether threads are needed. They are if the program asked for hosts. They also are on a machine that explores
/// schedules, where each is a step of its own.
fn needs_threads(kind: Kind) -> bool {
    !COUNTED_GATHER
        || kind == Kind::Host
        || Worker::current().is_some_and(|vp| vp.processor().simulated.is_some())
}

// SAFETY: `settle` and `drop` retract the owner's offer, and those of the members. User code runs in `begin` and
// `abandon`. Members without threads begin in `attend` or `attempt`, whichever is called first, and there attached
// or woken partners may run. No lock is held in any of them.
#[allow(private_interfaces, reason = "sealed: the protocol's types stay inside")]
unsafe impl<P: Gathers, R: Reclaim<P::Partial>> Leaf for GatherBranch<P, R> {
    fn begin(self: Pin<&mut Self>) {
        // SAFETY: only `offer` is pinned, and `direct` once it is there, which is not the case yet.
        let this = unsafe { self.get_unchecked_mut() };
        if let Some((events, kind)) = this.events.take() {
            kind.check("a gathering, or a future as an event,");
            if P::DIRECT && !needs_threads(kind) {
                // SAFETY: `put` initializes the memory that it is given.
                unsafe { this.direct.fill(|place| Direct::put(events, place)) };
            } else {
                let reclaim = this.reclaim.take().expect("begun once");
                this.shared = Some(Share::start(events.into_slots(), reclaim, kind));
            }
        }
    }

    fn attempt(mut self: Pin<&mut Self>, _wakes: &mut WakeList) -> bool {
        if let Some(mut direct) = self.as_mut().direct() {
            direct.as_mut().begin(None);
            return direct.is_over();
        }
        self.shared().is_over()
    }

    fn offer(self: Pin<&mut Self>, at: &Offering<'_>, _wakes: &mut WakeList) -> Offered {
        if let Some(direct) = self.direct.get_ref() {
            // SAFETY: the gathering is pinned and was begun by `attend`. It is stopped or settled in `drop` at the
            // latest.
            return unsafe { direct.offer(at) };
        }
        let shared = self.shared();
        // SAFETY: the offer is pinned, and is retracted in `drop` at the latest, before the share of its queue is
        // given up.
        unsafe { shared.owner.offer(&self.offer, at, || shared.is_over()) }
    }

    fn settle(mut self: Pin<&mut Self>, won: bool, wakes: &mut WakeList) {
        if let Some(direct) = self.as_mut().direct() {
            if won {
                direct.await_end();
            } else {
                direct.stop(wakes);
            }
        } else if let Some(shared) = &self.shared {
            shared.owner.retract(&self.offer, won);
        } else {
            return;
        }
        // SAFETY: the flag is not pinned, and nothing is moved.
        unsafe { self.get_unchecked_mut() }.lost = !won;
    }

    fn attend(self: Pin<&mut Self>, waker: &Waker) {
        if let Some(direct) = self.direct() {
            direct.begin(Some(waker));
        }
    }

    fn abandon(self: Pin<&mut Self>) {
        if self.lost {
            self.abort();
        }
    }

    fn report(mut self: Pin<&mut Self>, waits: &mut Waits) {
        if let Some(direct) = self.as_mut().direct() {
            return direct.report(waits);
        }
        let is_over = self.shared.as_ref().is_some_and(|shared| shared.is_over());
        waits.push_if(is_over, Waiting::Other("a gathering"));
    }

    fn locked(self: Pin<&mut Self>, f: &mut dyn FnMut()) {
        // Called for gatherings with threads only. Without threads it is no single offer.
        self.shared().owner.locked(f);
    }
}

impl<P: Gathers, R: Reclaim<P::Partial>> Base for GatherBranch<P, R> {
    type Output = P::Output;
    // Not single without threads: the partner of the last member holds no lock of ours.
    const SHAPE: Shape = Shape { single: !P::DIRECT, walked: true, ..Shape::LEAF };

    fn finish(mut self: Pin<&mut Self>) -> P::Output {
        if let Some(direct) = self.as_mut().direct() {
            let output = direct.all();
            // SAFETY: settled, so no partner refers to the members. They are dropped in place.
            unsafe { self.get_unchecked_mut() }.direct.clear();
            return output;
        }
        // SAFETY: only `offer` is pinned, and it has been retracted.
        let this = unsafe { self.get_unchecked_mut() };
        let shared = this.shared.take().expect("begun");
        match shared.results() {
            Ok(output) => output,
            Err(payload) => {
                drop(shared);
                resume_unwind(payload)
            }
        }
    }
}

impl<P: Gathers, R: Reclaim<P::Partial>> Drop for GatherBranch<P, R> {
    fn drop(&mut self) {
        // SAFETY: the branch was pinned if anything has begun, and it is not moved here.
        let mut this = unsafe { Pin::new_unchecked(self) };
        if let Some(direct) = this.as_mut().direct() {
            let mut wakes = WakeList::new();
            direct.stop(&mut wakes);
            wakes.queue();
        } else if let Some(shared) = &this.shared {
            shared.owner.retract(&this.offer, false);
        }
        this.abort();
    }
}
