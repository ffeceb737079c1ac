//! Fork and join: the second half of a computation is given away only when another processor
//! searches for work.
//!
//! The second half waits as a [`Job`](crate::sched::fork::Job) on its owner's stack, in a list of the virtual
//! processor. Mostly its owner comes to it first, and calls it: that is all, and costs a few stores. The oldest
//! job, which tends to be the largest, is *published* (`sched/fork/published.rs`): an idle virtual processor may
//! steal it, and makes a host of it (`sched/fork/fork_scope.rs`). The next one is published at the owner's next
//! fork, which the stealer asks for a closer look. The owner of a stolen job demands the job's value when it comes
//! to it. It runs the job if nobody has begun, or waits for it. A waiter runs only jobs that were forked, directly
//! or not, by the job that it waits for.

mod stack_job;

use std::mem::ManuallyDrop;

use self::stack_job::StackJob;
use crate::sched::{Worker, fork};

/// Runs `a` and `b`, perhaps in parallel, and returns both results.
///
/// `a` runs here. `b` runs here afterwards, unless an idle virtual processor takes it meanwhile,
/// whatever its policy. So a call costs only some nanoseconds more than its halves, and nothing is
/// allocated: fork as finely as you like. Of nested forks the outermost half is taken first, and
/// each next one after its owner forks again.
///
/// While the caller waits for a `b` that another processor runs, it runs only parts of that `b`,
/// and never an unrelated thread. So the caller may hold a lock that unrelated threads want. The
/// wait blocks the OS thread. If it is long, the virtual processor is handed off, as in any long
/// turn.
///
/// The halves may block. Then the rules of [`sync_blocking`](crate::Event::sync_blocking) hold for
/// the stack that the half runs on. A fiber is suspended; on any other stack, other threads run
/// above the half, and these may be unrelated. A half that blocks ends only after those above it. A caller on
/// a fiber may have come to run above a part of its own `b`. It then yields until that part has ended.
///
/// Outside of a machine, and on a simulated machine, `a` and `b` run one after the other.
///
/// # Panics
/// If `a` or `b` panics, after both have ended. If `a` panics, `b` may never begin.
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
    let Some(vp) = Worker::current() else { return (a(), b()) };
    let job = StackJob::new(b);
    // SAFETY: we drive `vp`. The job stays in place, and is joined below, or by the guard.
    unsafe { vp.forks.push(job.job()) };
    let guard = Joining { vp, job: &job };
    if !vp.may_spawn_in_place() {
        fork::look_closer(vp);
    }
    let first = a();
    let guard = ManuallyDrop::new(guard);
    // SAFETY: the job is ours and in the list of `vp`, which we drive. It is joined once, since the
    // guard is not dropped.
    let second = unsafe { guard.job.join(guard.vp) };
    (first, second)
}

/// Abandons the second half if the first one panics.
struct Joining<'a, B: FnOnce() -> R, R> {
    vp: &'a Worker,
    job: &'a StackJob<B, R>,
}

impl<B: FnOnce() -> R, R> Drop for Joining<'_, B, R> {
    #[cold]
    fn drop(&mut self) {
        // SAFETY: the job is ours and in the list of `vp`, which we drive. It is not joined
        // otherwise.
        unsafe { self.job.abandon(self.vp) };
    }
}
