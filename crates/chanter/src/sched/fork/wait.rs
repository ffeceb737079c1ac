//! The wait for a job that another processor has.

use super::fork_scope::Share;
use super::job::{Job, steal_within};
use crate::sched::Worker;
use crate::sched::demand::demand;
use crate::sched::limits::{FORK_LOOKS, LONGEST_NAP, LOOKS_A_STEAL, NAP};

/// The owner of a job that is not its own any more waits until the thread is determined that has it.
///
/// The caller is `worker`.
pub(crate) fn wait_for(worker: &Worker, job: &Job) {
    let share = until_shared(job);
    until_determined(worker, &share);
}

/// Waits for the share of a job, which the stealer makes as soon as it has stolen the job.
fn until_shared(job: &Job) -> Box<Share> {
    let mut looks = 0;
    while !job.share.is_set() {
        looks += 1;
        if looks < FORK_LOOKS {
            std::hint::spin_loop();
        } else {
            // The stealer may have no core, so it gets this one.
            std::thread::yield_now();
        }
    }
    job.share.take().expect("it is set")
}

/// Runs `share`'s job if nobody has begun it. Otherwise waits for its end, and meanwhile runs jobs
/// that were forked within it.
///
/// A part of the job may be blocked on this OS thread: the worker had taken it, a thread went on above it, and that
/// thread waits here. If it is a fiber, it yields, so that the part can end. Nothing else resumes above a part and
/// waits for it: all that begins above it begins later, and waits for what begins later still.
fn until_determined(worker: &Worker, share: &Share) {
    let machine = worker.machine();
    // SAFETY: the handle holds a reference.
    unsafe { demand(share.thread.frame()) };
    if !share.thread.header().state.is_complete() {
        let (mut looks, mut nap, mut seen) = (0, NAP, None);
        while !share.thread.header().state.is_complete() {
            let mut part = None;
            if looks % LOOKS_A_STEAL == 0 {
                part = steal_within(worker, &share.fork_scope);
            }
            let count = Some(machine.shares.count());
            if part.is_none() && seen != count {
                part = machine.shares.find_within(&share.fork_scope);
                seen = count;
            }
            if let Some(part) = part {
                // SAFETY: the handle holds a reference.
                unsafe { demand(part.frame()) };
                (looks, nap, seen) = (0, NAP, None);
                continue;
            }
            looks = FORK_LOOKS.min(looks + 1);
            if looks < FORK_LOOKS {
                std::hint::spin_loop();
                continue;
            }
            worker.ask_for_parts();
            if machine.is_closing() {
                // Nobody else runs, or ends, the threads of our processors that the job may wait for.
                worker.leave_processor();
            }
            worker.leave_carrier();
            std::thread::sleep(nap);
            nap = (nap * 2).min(LONGEST_NAP);
            if worker.forks.has_blocked_within(&share.fork_scope) {
                // A part of the job waits until we return to the stack below this fiber's.
                worker.bound.fibers.let_others_run();
            }
        }
    }
    machine.shares.forget(share);
}
