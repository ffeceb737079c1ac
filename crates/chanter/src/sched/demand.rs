//! Demands: a thread whose value is needed runs on the stack of the thread that needs it.

use std::ptr::{self, NonNull};
use std::task::Poll;

use super::apply::apply;
use super::run::{arrive, polling, release, run_begun, settle};
use super::{Processor, Worker};
use crate::frame::body::Evaluated;
use crate::frame::state::Demanded;
use crate::frame::{Header, Kind, span};
use crate::policy::{Ready, Reason};
use crate::sync::switches::WITHDRAWAL;

/// Demands the value of a thread that has not run. Runs the thread here, on this stack, if that is
/// allowed. Otherwise schedules it if it is delayed.
///
/// # Safety
/// The caller has a reference.
#[inline(never)]
pub(crate) unsafe fn demand(frame: NonNull<Header>) {
    // SAFETY: the caller's reference keeps the frame, which keeps its machine.
    let header = unsafe { frame.as_ref() };
    // SAFETY: the caller's reference keeps the frame, which keeps its machine and so this address.
    let at = unsafe { &*header.address() };
    let here = Worker::current().filter(|worker| at.is_of_same_machine(worker.processor()));
    let may_run_here = |worker: &&Worker| {
        let is_free = match header.kind.get() {
            Kind::Host => header.kind.is_free_host(),
            _ if header.kind.is_kept() => false,
            Kind::Local => Worker::is_bound_to(header, worker),
            Kind::Parasite | Kind::Pinned => ptr::eq(at, &worker.processor().address),
        };
        is_free && worker.has_stack() && worker.processor().simulated.is_none()
    };
    match here.filter(may_run_here) {
        Some(worker) => {
            // SAFETY: the caller has a reference, and is `worker`.
            if WITHDRAWAL && unsafe { withdraw(worker, frame) }
                || header.state.demand(true) == Demanded::Stolen
            {
                worker.counters().stolen.add_one();
                // SAFETY: we are the thread's runner, and drive `worker`.
                unsafe {
                    if header.state.is_requested() {
                        arrive(worker, header);
                        if !apply(worker, frame) {
                            return;
                        }
                    }
                    run_begun(worker, frame);
                }
            }
        }
        // SAFETY: the caller has a reference; no other virtual processor is named.
        None => drop(unsafe { schedule(frame, None) }),
    }
}

/// Takes the token of a thread that has not run, if `worker` has it at hand. True: the caller is the
/// thread's runner.
///
/// # Safety
/// The caller has a reference, and is `worker`.
#[inline(always)]
unsafe fn withdraw(worker: &Worker, frame: NonNull<Header>) -> bool {
    let Some(token) = worker.withdraw(frame) else { return false };
    // SAFETY: the caller has a reference, which keeps the frame.
    if unsafe { frame.as_ref() }.state.steal_with_token(worker.turn.nested.get() > 0) {
        // The token stands for the runner now.
        token.into_frame();
        return true;
    }
    // Somebody was faster: the token is dead.
    worker.enqueue(token, Reason::New);
    false
}

/// Runs a delayed thread on this stack, if that is allowed. True: its value is in `place`, and the
/// caller's reference is gone. False: the thread takes its usual way.
///
/// # Safety
/// The caller's handle is the only reference to the thread; `place` is of its
/// value's type.
#[inline(always)]
pub(crate) unsafe fn evaluate(frame: NonNull<Header>, place: *mut ()) -> bool {
    // SAFETY: the caller's reference keeps the frame, which keeps its machine.
    let header = unsafe { frame.as_ref() };
    let Some(worker) = Worker::current() else { return false };
    if !ptr::eq(header.address(), &worker.processor().address)
        || !(worker.may_spawn_in_place() || worker.may_evaluate_in_place())
    {
        // The usual way covers these cases.
        return false;
    }
    header.state.steal_alone();
    worker.counters().stolen.add_one();
    let evaluate = header.vtable.get().evaluate;
    // SAFETY: we are the runner, and drive `worker`. If the value is there and nobody else knows the
    // thread, its frame is ours to free.
    unsafe {
        let evaluated = polling(worker, frame, |cx| evaluate(frame, cx, place));
        if evaluated == Evaluated::Value && header.state.is_stolen_alone() && header.local_refs.get() == 0 {
            span::close(frame);
            worker.arena.free_here(frame);
            return true;
        }
        leave_evaluated(worker, frame, evaluated)
    }
}

/// Ends an evaluation whose thread has blocked on its stealer's stack, or failed, or is known to
/// others.
///
/// # Safety
/// As for [`settle`].
#[inline(never)]
unsafe fn leave_evaluated(worker: &Worker, frame: NonNull<Header>, evaluated: Evaluated) -> bool {
    let is_over = evaluated != Evaluated::Blocked;
    // SAFETY: the caller is the runner. The handle's reference keeps the frame, and is given up
    // only after the last use.
    unsafe {
        if evaluated == Evaluated::Value {
            // The stealer has the value; the frame does not hold it.
            frame.as_ref().state.take_result();
        }
        settle(worker, frame, if is_over { Poll::Ready(()) } else { Poll::Pending });
        if evaluated == Evaluated::Value {
            release(frame);
        }
    }
    evaluated == Evaluated::Value
}

/// Schedules a delayed thread on the virtual processor `on`, or with `None` on the current one, or
/// else its home. False: it is not delayed any more.
///
/// # Safety
/// The caller has a reference; `on` is of the thread's machine.
pub(crate) unsafe fn schedule(frame: NonNull<Header>, on: Option<&Processor>) -> bool {
    // SAFETY: the caller's reference keeps the frame, which keeps its machine.
    let header = unsafe { frame.as_ref() };
    if header.state.demand(false) != Demanded::Token {
        return false;
    }
    // SAFETY: the caller's reference keeps the frame, which keeps its machine and so this virtual
    // processor.
    let at = unsafe { &*header.address() };
    // SAFETY: `Token` says that the token is ours.
    let thread = unsafe { Ready::from_frame(frame) };
    match Worker::current().filter(|worker| at.is_of_same_machine(worker.processor())) {
        Some(worker) if on.is_none_or(|on| ptr::eq(on, worker.processor())) => {
            worker.enqueue(thread, Reason::New)
        }
        _ => {
            let there = on.map_or(at, |on| &on.address);
            // The thread must count as one of that processor, or it would be sent home.
            header.set_address(there);
            there.push(thread);
        }
    }
    true
}

/// Runs a delayed thread on this stack, if that is allowed, for a caller that will look at its result. True: the
/// thread is complete, and its result is lent.
///
/// # Safety
/// The caller has a reference.
#[inline]
pub(crate) unsafe fn evaluate_to_lend(frame: NonNull<Header>) -> bool {
    // SAFETY: the caller's reference keeps the frame, which keeps its machine and so this address.
    let (header, at) = unsafe { (frame.as_ref(), &*frame.as_ref().address()) };
    let Some(worker) = Worker::current() else { return false };
    let may_run_here = header.kind.is_free_host()
        && header.state.is_delayed()
        && at.is_of_same_machine(worker.processor())
        && (worker.may_spawn_in_place() || (worker.has_stack() && worker.processor().simulated.is_none()));
    if !may_run_here || !header.state.steal_to_lend() {
        return false;
    }
    worker.counters().stolen.add_one();
    // SAFETY: we are the thread's runner, and the worker. The caller's reference keeps the frame.
    unsafe {
        if !header.state.is_requested() || {
            arrive(worker, header);
            apply(worker, frame)
        } {
            run_begun(worker, frame);
        }
    }
    let is_complete = header.state.is_complete();
    if !is_complete {
        header.state.end_loan();
    }
    is_complete
}
