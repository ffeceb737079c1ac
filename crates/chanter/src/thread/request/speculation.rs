//! Speculation: many threads, of which the first to succeed wins.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use crate::event::{ChoiceSet, Event};
use crate::frame::JoinError;
use crate::thread::demand::Demand;
use crate::thread::join::Thread;
use crate::thread::spawn::spawn;

/// The winner and its value.
type Won<T> = Result<(usize, T), JoinError>;

/// Threads of which the first to yield a value wins; see [`speculate`].
///
/// Awaiting it yields the winner's index and its value; if every thread failed,
/// the failure of the last one.
///
/// **Cancel safety.** Dropping it asks all that still run to end
/// ([`Thread::cancel`]), whether it has been awaited or not.
#[must_use = "dropping it ends its threads"]
pub struct Speculation<T> {
    judge: Thread<Won<T>>,
    verdict: Demand<Won<T>>,
}

/// Runs `threads` beside each other, until the first of them yields a value;
/// then the others are asked to end ([`Thread::cancel`]) at the next point where
/// they enter the scheduler. Those that panic, or are cancelled, do not win.
///
/// Threads that are delayed are scheduled. Of those that have not begun, the
/// first is evaluated at once by the judge, a thread of its own; so on one
/// virtual processor those behind a thread that wins without blocking never run.
///
/// # Panics
/// Outside of a machine.
///
/// ```
/// # use chanter::prelude::*;
/// # use chanter::thread::speculate;
/// # use std::time::Duration;
/// # chanter::block_on(async {
/// let slow = spawn(async { after(Duration::from_secs(3600)).await; "slow" });
/// let quick = delay(async { "quick" });
/// assert_eq!(speculate([slow, quick]).await.unwrap(), (1, "quick"));
/// # });
/// ```
///
/// STING, sections 3.1 and 8 (speculative concurrency).
#[track_caller]
pub fn speculate<T: Send + 'static>(threads: impl IntoIterator<Item = Thread<T>>) -> Speculation<T> {
    let members = Members(threads.into_iter().collect());
    let judge = spawn(async move {
        let members = members;
        members.judge().await
    });
    let verdict = Demand::new(judge.again());
    Speculation { judge, verdict }
}

impl<T: Send + 'static> Speculation<T> {
    /// The event of the first success, or the last failure. It takes the value:
    /// whoever synchronizes later gets an error that
    /// [`is_taken`](JoinError::is_taken).
    pub fn winner(&self) -> impl Event<Output = Result<(usize, T), JoinError>> + use<T> {
        self.judge.join().wrap(|result| result.and_then(|won| won))
    }
}

impl<T> Future for Speculation<T> {
    type Output = Result<(usize, T), JoinError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        // SAFETY: `verdict` is pinned with the whole; nothing moves it.
        let verdict = unsafe { self.map_unchecked_mut(|this| &mut this.verdict) };
        verdict.poll(cx).map(|result| result.and_then(|won| won))
    }
}

impl<T> Drop for Speculation<T> {
    fn drop(&mut self) {
        if !self.judge.is_determined() {
            drop(self.judge.cancel());
        }
    }
}

impl<T> fmt::Debug for Speculation<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Speculation").field(&self.judge).finish()
    }
}

/// Threads that end with their judge.
struct Members<T>(Vec<Thread<T>>);

impl<T: Send + 'static> Members<T> {
    async fn judge(&self) -> Won<T> {
        for thread in &self.0 {
            thread.run();
        }
        let mut joins = ChoiceSet::new();
        let mut keys = Vec::with_capacity(self.0.len());
        for thread in &self.0 {
            keys.push(joins.insert_once(|| thread.join()));
        }
        let mut failure = JoinError::cancelled();
        while !joins.is_empty() {
            let (key, result) = joins.next().await;
            match result {
                Ok(value) => {
                    let index = keys.iter().position(|known| *known == key);
                    return Ok((index.expect("every key is a member's"), value));
                }
                Err(error) => failure = error,
            }
        }
        Err(failure)
    }
}

impl<T> Drop for Members<T> {
    fn drop(&mut self) {
        for thread in &self.0 {
            if !thread.is_determined() {
                drop(thread.cancel());
            }
        }
    }
}
