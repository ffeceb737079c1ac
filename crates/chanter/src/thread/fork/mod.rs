//! Fork and join: two halves of a computation, of which the second is given
//! away only when somebody is hungry.
//!
//! The second half waits as a [`Job`](crate::sched::fork::Job) on its owner's stack, in a list of the
//! virtual processor. Mostly its owner comes to it first, and calls it: that is
//! all, and costs a few stores. The oldest job, which tends to be the largest, is
//! exposed (`sched/fork/published.rs`): an idle virtual processor steals it, and makes a host of
//! it (`sched/fork/fork_scope.rs`). The next one is published at the owner's next fork, which the stealer
//! asks for a closer look. The owner of a stolen job, when it comes to it, demands its value:
//! runs it if nobody has begun, or waits for it. Who waits runs nothing but what it waits for: jobs that
//! were forked, directly or not, by the one that it waits for.

mod stack_job;

use std::mem::ManuallyDrop;

use self::stack_job::StackJob;
use crate::sched::{Vp, fork};

/// Runs `a` and `b`, perhaps beside each other, and returns both results.
///
/// `a` runs here. So does `b`, afterwards, unless another virtual processor has nothing to do
/// meanwhile and takes it, whatever its policy. So a call costs little more than the two: some
/// nanoseconds, and nothing is allocated. Fork as finely as you please. Of forks within
/// forks the outermost half is taken first, and each next one once its owner forks again.
///
/// While the caller waits for a `b` that somebody else is running, it runs
/// nothing but parts of that: never an unrelated thread. So it is safe to hold a
/// lock meanwhile which unrelated threads want. It keeps its OS thread; if it waits
/// for long, its virtual processor is handed over, as with any long turn.
///
/// The halves may block. Then the rules of [`sync_blocking`](crate::Event::sync_blocking) hold for the stack that the half runs on: a fiber is
/// suspended; elsewhere other threads run above it, which are no parts of it. Those may be unrelated.
///
/// Outside of a machine, and on a simulated one, `a` and `b` run one after the
/// other.
///
/// # Panics
/// If `a` or `b` panics, when both have ended; `b` may not have begun.
///
/// ```
/// # use chanter::prelude::*;
/// fn sum(numbers: &[u64]) -> u64 {
///     match numbers {
///         [] => 0,
///         [one] => *one,
///         _ => {
///             let (left, right) = numbers.split_at(numbers.len() / 2);
///             let (left, right) = fork_join(|| sum(left), || sum(right));
///             left + right
///         }
///     }
/// }
/// # chanter::block_on(async {
/// let numbers: Vec<u64> = (1..=1000).collect();
/// assert_eq!(sum(&numbers), 500_500);
/// # });
/// ```
///
/// STING, section 6 (stealing on demand); Featherweight Threads, section 5.3.
#[inline(always)]
pub fn fork_join<A, B, RA, RB>(a: A, b: B) -> (RA, RB)
where
    A: FnOnce() -> RA,
    B: FnOnce() -> RB + Send,
    RB: Send,
{
    let Some(vp) = Vp::current() else { return (a(), b()) };
    let job = StackJob::new(b);
    // SAFETY: the job stays where it is, and is joined below, or by the guard.
    unsafe { vp.forks.push(job.job()) };
    let guard = Joining { vp, job: &job };
    if !vp.may_spawn_in_place() {
        fork::look_closer(vp);
    }
    let first = a();
    let guard = ManuallyDrop::new(guard);
    // SAFETY: the job is ours, and joined once.
    let second = unsafe { guard.job.join(guard.vp) };
    (first, second)
}

/// Joins the second half, if the first one panics.
struct Joining<'a, B: FnOnce() -> R, R> {
    vp: &'a Vp,
    job: &'a StackJob<B, R>,
}

impl<B: FnOnce() -> R, R> Drop for Joining<'_, B, R> {
    #[cold]
    fn drop(&mut self) {
        // SAFETY: the job is ours, and not joined otherwise.
        unsafe { self.job.abandon(self.vp) };
    }
}
