//! `gather_k`: the first few of many, and nothing of the rest.

use std::fmt;
use std::mem;
use std::time::Instant;

use crate::event::{Event, choose, from_cancel_safe};
use crate::frame::catch_panic;

/// The first `k` of `events` to commit. The rest never happen.
///
/// No event may commit beyond the `k`-th. So there is no thread for each event, as in [`gather`](super::gather), but
/// one choice after another over the events that are left. Each round works on clones. It runs guards anew, and
/// enables the nacks of the events that it has not chosen. A round costs as much as a choice over the remaining
/// events.
///
/// **Cancel safety.** Each round commits one event, whose result is kept in this value. Dropping
/// [`wait`](GatherK::wait) loses nothing, and another `wait` goes on.
///
/// Laws: `gather_k(1, [a, b])` yields what `choose([a, b])` does;
/// `gather_k(n, es)` for `n` events yields what `gather(es)` does, by place.
///
/// ```
/// # use chanter::prelude::*;
/// # use chanter::event::gather_k;
/// # chanter::block_on(async {
/// let queues: Vec<_> = (0..5).map(|_| mailbox()).collect();
/// for (tx, _) in &queues {
///     tx.try_send(()).unwrap();
/// }
/// let first = gather_k(3, queues.iter().map(|(_, rx)| rx.recv())).all().await;
/// let left = queues.iter().filter(|(_, rx)| !rx.is_empty()).count();
/// assert_eq!((first.len(), left), (3, 2));
/// # });
/// ```
pub fn gather_k<E>(k: usize, events: impl IntoIterator<Item = E>) -> GatherK<E>
where
    E: Event + Clone,
{
    GatherK { wanted: k, left: events.into_iter().enumerate().collect(), results: Vec::new() }
}

/// The event of [`gather_k`].
pub struct GatherK<E: Event> {
    wanted: usize,
    left: Vec<(usize, E)>,
    results: Vec<(usize, E::Output)>,
}

impl<E: Event> fmt::Debug for GatherK<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GatherK")
            .field("wanted", &self.wanted)
            .field("left", &self.left.len())
            .field("results", &self.results.len())
            .finish()
    }
}

/// The error of [`GatherK::or_nothing`]: fewer results than were wanted had come by the deadline.
#[derive(Clone, PartialEq, Eq)]
pub struct Fewer<T> {
    /// The results that have come, each with the index of its event, in the order of the commits.
    pub results: Vec<(usize, T)>,
}

impl<T> fmt::Debug for Fewer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fewer").field("results", &self.results.len()).finish()
    }
}

impl<T> fmt::Display for Fewer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "only {} results had come by the deadline", self.results.len())
    }
}

impl<T> std::error::Error for Fewer<T> {}

/// Results that are given back unless they are taken. They are given back also if they are complete, and another
/// branch commits in that very moment.
struct Kept<E: Event, F: FnOnce(Vec<(usize, E::Output)>)> {
    few: GatherK<E>,
    back: Option<F>,
}

impl<E: Event, F: FnOnce(Vec<(usize, E::Output)>)> Kept<E, F> {
    fn into_results(mut self) -> Vec<(usize, E::Output)> {
        mem::take(&mut self.few.results)
    }
}

impl<E: Event, F: FnOnce(Vec<(usize, E::Output)>)> Drop for Kept<E, F> {
    fn drop(&mut self) {
        let results = mem::take(&mut self.few.results);
        if let Some(back) = self.back.take()
            && !results.is_empty()
        {
            catch_panic(|| back(results));
        }
    }
}

impl<E: Event + Clone> GatherK<E> {
    /// Waits until `k` results are there, or all of them if there are fewer events.
    ///
    /// # Panics
    /// Resumes the panic of a guard or `wrap`. Earlier results are kept.
    pub async fn wait(&mut self) {
        while !self.is_over() {
            let (place, result) = choose(self.round()).await;
            self.keep(place, result);
        }
    }

    /// Like [`wait`](GatherK::wait), but waits no longer than until `deadline`. Results that are ready at the
    /// deadline still count. Returns true if `k` results are there.
    pub async fn wait_by(&mut self, deadline: Instant) -> bool {
        while !self.is_over() {
            match choose(self.round()).by(deadline).await {
                Some((place, result)) => self.keep(place, result),
                None => break,
            }
        }
        self.results.len() >= self.wanted
    }

    /// Returns the first `k` results, each with the index of its event, in the order in which they committed.
    pub async fn all(mut self) -> Vec<(usize, E::Output)> {
        self.wait().await;
        self.results
    }

    /// Returns `k` results, or nothing. If fewer have come by `deadline`, they come back as an error, and the caller
    /// can undo them.
    ///
    /// # Errors
    /// Returns the results in [`Fewer`] if there are fewer than `k`.
    pub async fn or_nothing(
        mut self,
        deadline: Instant,
    ) -> Result<Vec<(usize, E::Output)>, Fewer<E::Output>> {
        if self.wait_by(deadline).await { Ok(self.results) } else { Err(Fewer { results: self.results }) }
    }

    /// The event that commits when `k` results are there, or all of them if there are fewer events. It yields the
    /// results, each with the index of its event, in the order in which they committed.
    ///
    /// The rounds are run in place, by the thread that synchronizes. The event needs no thread, no machine and no
    /// `'static`.
    ///
    /// **Commit point**: the choice that brings the last result. In a choice with others, it is the poll that sees
    /// it.
    ///
    /// **Not chosen, or dropped**: the rest never happens. The events that have committed by then have happened, and
    /// their results are dropped: see [`event_or_else`](GatherK::event_or_else).
    ///
    /// **Panics** of a guard or `wrap` are resumed. Earlier results are dropped, or given back.
    ///
    /// Law: alone, `gather_k(k, es).event().await` is `gather_k(k, es).all().await`.
    ///
    /// ```
    /// # use chanter::prelude::*;
    /// # use chanter::event::gather_k;
    /// # use std::time::Duration;
    /// let queues: Vec<_> = (0..3).map(|_| mailbox()).collect();
    /// queues[2].0.try_send("one").unwrap();
    /// let two = gather_k(2, queues.iter().map(|(_, rx)| rx.recv()));
    /// let late = after(Duration::from_millis(1));
    /// let got = choose((two.event().wrap(Some), late.wrap(|()| None)));
    /// assert_eq!(got.sync_blocking(), None);
    /// ```
    pub fn event(self) -> impl Event<Output = Vec<(usize, E::Output)>> {
        self.event_or_else(drop)
    }

    /// Like [`event`](GatherK::event), but gives partial results to `back` if the event is not chosen, rather than
    /// dropping them. So a program gets `k` results, or nothing. `back` is not called if there are no results. A
    /// panic of it is reported.
    ///
    /// ```
    /// # use chanter::prelude::*;
    /// # use chanter::event::gather_k;
    /// let queues: Vec<_> = (0..3).map(|_| mailbox()).collect();
    /// queues[2].0.try_send(1).unwrap();
    /// let two = gather_k(2, queues.iter().map(|(_, rx)| rx.recv().wrap(Result::unwrap)));
    /// let undo = |few: Vec<(usize, u32)>| {
    ///     few.into_iter().for_each(|(place, n)| queues[place].0.try_send(n).unwrap());
    /// };
    /// let nothing = choose((two.event_or_else(undo).wrap(|_| true), always(false)));
    /// assert!(!nothing.sync_blocking());
    /// assert_eq!(queues[2].1.try_recv(), Ok(1));
    /// ```
    pub fn event_or_else<F>(self, back: F) -> impl Event<Output = Vec<(usize, E::Output)>>
    where
        F: FnOnce(Vec<(usize, E::Output)>),
    {
        let mut kept = Kept { few: self, back: Some(back) };
        from_cancel_safe(async move {
            kept.few.wait().await;
            kept
        })
        .wrap(Kept::into_results)
    }

    /// Returns the results so far, each with the index of its event, and the events that have not happened.
    #[allow(clippy::type_complexity, reason = "two plain lists")]
    pub fn into_parts(self) -> (Vec<(usize, E::Output)>, Vec<(usize, E)>) {
        (self.results, self.left)
    }

    fn is_over(&self) -> bool {
        self.results.len() >= self.wanted || self.left.is_empty()
    }

    fn round(&self) -> Vec<impl Event<Output = (usize, E::Output)> + use<E>> {
        let tag = |(place, event): &(usize, E)| {
            let place = *place;
            event.clone().wrap(move |result| (place, result))
        };
        self.left.iter().map(tag).collect()
    }

    fn keep(&mut self, place: usize, result: E::Output) {
        self.results.push((place, result));
        self.left.retain(|(left, _)| *left != place);
    }
}
