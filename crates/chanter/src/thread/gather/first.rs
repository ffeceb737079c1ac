//! `gather_k`: the first few of many, and nothing of the rest.

use std::fmt;
use std::mem;
use std::time::Instant;

use crate::event::{Event, choose, from_cancel_safe};
use crate::frame::catch_panic;

/// The first `k` of `events` to commit; the rest never happen.
///
/// Here it must be certain that no event commits beyond the `k`-th, so there
/// is no thread for each (as in [`gather`](super::gather)), but one choice
/// after another over those that are left. Events are cloned for that: each
/// round runs guards anew, and enables the nacks of those that it has not
/// chosen. A round costs what a choice over the remaining events costs.
///
/// **Cancel safety.** Each round commits one event, whose result is kept in
/// this value: dropping [`wait`](GatherK::wait) loses nothing, and another
/// `wait` goes on.
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

/// See [`gather_k`].
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

/// Fewer results than were wanted had come by the deadline: here they are.
/// See [`GatherK::or_nothing`].
#[derive(Clone, PartialEq, Eq)]
pub struct Fewer<T> {
    /// What has committed, by place, in the order of the commits.
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

/// Results that are given back unless they are taken: also if they are complete,
/// and another branch commits in that very moment.
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
    /// Waits until `k` results are there, or all of them if there are not
    /// that many events.
    ///
    /// # Panics
    /// Resumes the panic of a guard or `wrap`; what has come before is kept.
    pub async fn wait(&mut self) {
        while !self.is_over() {
            let (place, result) = choose(self.round()).await;
            self.keep(place, result);
        }
    }

    /// As [`wait`](GatherK::wait), but no longer than until `deadline`; what is
    /// ready at the deadline still counts. True: `k` results are there.
    pub async fn wait_by(&mut self, deadline: Instant) -> bool {
        while !self.is_over() {
            match choose(self.round()).by(deadline).await {
                Some((place, result)) => self.keep(place, result),
                None => break,
            }
        }
        self.results.len() >= self.wanted
    }

    /// The first `k`, by place, in the order in which they committed.
    pub async fn all(mut self) -> Vec<(usize, E::Output)> {
        self.wait().await;
        self.results
    }

    /// `k` results, or nothing: if fewer have come by `deadline`, they come
    /// back as an error, to be undone as their kind allows.
    ///
    /// # Errors
    /// With the results, if there are fewer than `k`.
    pub async fn or_nothing(
        mut self,
        deadline: Instant,
    ) -> Result<Vec<(usize, E::Output)>, Fewer<E::Output>> {
        if self.wait_by(deadline).await { Ok(self.results) } else { Err(Fewer { results: self.results }) }
    }

    /// The event that commits when `k` results are there (or all of them, if
    /// there are not that many events): the results, by place, in the order in
    /// which they committed.
    ///
    /// The rounds are run in place, by whoever synchronizes: it needs no thread,
    /// no machine and no `'static`.
    ///
    /// **Commit point**: the choice that brings the last result; in a choice with
    /// others, the poll that sees it.
    ///
    /// **Not chosen, or dropped**: the rest never happens. What has come by then
    /// has happened; it is dropped: see
    /// [`event_or_else`](GatherK::event_or_else).
    ///
    /// **Panics** of a guard or `wrap` are resumed; what has come before is
    /// dropped, or given back.
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

    /// As [`event`](GatherK::event); but what has come when it turns out not to
    /// be chosen is given to `back`, rather than dropped: `k` results, or
    /// nothing. `back` is not called if nothing has come; a panic of it is
    /// reported.
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

    /// What has come, by place, and the events that have not happened.
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
