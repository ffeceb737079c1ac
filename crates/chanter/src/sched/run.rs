//! The code that runs threads. Only this code moves a state word along its edges.

use std::mem::ManuallyDrop;
use std::ptr::{self, NonNull};
use std::task::{Context, Poll};

use super::Worker;
use super::address::Address;
use super::apply::{apply, close};
use super::fiber::YIELDED;
use super::wake::waker_of;
use crate::frame::state::{Begun, Completed, Ended, Left};
use crate::frame::{Header, Kind, attributes_of, deferred_drop, span};
use crate::policy::{Ready, Reason};

/// Polls a thread once, on this stack.
///
/// # Safety
/// `worker` is the current virtual processor.
#[inline(always)]
pub(crate) unsafe fn run(worker: &Worker, thread: Ready) {
    let frame = thread.into_frame();
    // SAFETY: the token is ours until `end` or `complete`, and keeps the frame. A stale one is a
    // reference until `begin`.
    let header = unsafe { frame.as_ref() };
    match header.state.begin() {
        Begun::Run => (),
        // SAFETY: we are the runner now.
        Begun::Requested => unsafe {
            arrive(worker, header);
            if !apply(worker, frame) {
                return;
            }
        },
        Begun::Stale => return worker.was_stale(),
        Begun::Free => {
            worker.was_stale();
            // SAFETY: `Free` says that the frame is ours to drop.
            return unsafe { drop_frame(frame) };
        }
    }
    if header.penalty.is_special() {
        // SAFETY: we are the runner now.
        unsafe { begin_special_turn(worker, frame) };
    }
    // SAFETY: we are the runner now.
    unsafe { run_begun(worker, frame) };
}

/// Begins the turn of a thread that has a penalty count, or options.
///
/// # Safety
/// As for [`run`]; the caller is the runner.
#[cold]
unsafe fn begin_special_turn(worker: &Worker, frame: NonNull<Header>) {
    // SAFETY: the caller is the runner.
    let penalty = unsafe { &frame.as_ref().penalty };
    if penalty.count() > 0 {
        worker.ask_closer_look();
    }
    // A simulation, or a report that is being made, takes the budget away.
    if penalty.has_options() && worker.processor().simulated.is_none() && !worker.is_asking() {
        // SAFETY: the caller is the runner.
        let attributes = unsafe { attributes_of(frame) }.map(|place| *place.lock());
        if let Some(quantum) = attributes.and_then(|attributes| attributes.quantum) {
            worker.budget.set(quantum.max(1));
        }
    }
}

/// Polls a thread of which the caller is the runner.
///
/// # Safety
/// As for [`run`].
#[inline(always)]
pub(super) unsafe fn run_begun(worker: &Worker, frame: NonNull<Header>) {
    // SAFETY: the caller is the runner.
    let header = unsafe { frame.as_ref() };
    arrive(worker, header);
    let poll = header.vtable.get().poll;
    // SAFETY: we are the runner now.
    unsafe {
        let poll = polling(worker, frame, |cx| poll(frame, cx));
        settle(worker, frame, poll);
    }
}

/// Notes that the thread runs on `worker` now, which is its runner.
#[inline(always)]
pub(super) fn arrive(worker: &Worker, header: &Header) {
    let here = &worker.processor().address;
    let from = header.address();
    if !ptr::eq(from, here) {
        arrive_from(worker, header, from);
    }
}

#[inline]
fn arrive_from(worker: &Worker, header: &Header, from: *const Address) {
    if worker.spare_address().is_some_and(|address| ptr::eq(from, address)) {
        // It is bound to this spare worker.
        return;
    }
    header.set_address(&worker.processor().address);
    worker.counters().migrated.add_one();
    // SAFETY: the frame names an address of its machine, which is the caller's, so it lives.
    worker.has_arrived(unsafe { &*from }.processor());
}

/// Calls `poll` with `frame` as the running thread and its waker.
///
/// # Safety
/// The caller is the frame's runner, and `worker` the current virtual processor.
/// `poll` does not unwind.
#[inline(always)]
pub(crate) unsafe fn polling<R>(
    worker: &Worker,
    frame: NonNull<Header>,
    poll: impl FnOnce(&mut Context<'_>) -> R,
) -> R {
    let outer = worker.running.replace(frame.as_ptr());
    // The waker is borrowed: the runner's right to the frame stands for a reference.
    // SAFETY: `WAKER`'s functions take such pointers.
    let waker = ManuallyDrop::new(unsafe { waker_of(frame) });
    // SAFETY: the caller is the frame's runner and keeps the frame, and `poll` does not unwind.
    let result = unsafe { span::within(frame, || poll(&mut Context::from_waker(&waker))) };
    worker.running.set(outer);
    result
}

/// Ends a poll, with its outcome.
///
/// # Safety
/// As for [`polling`]; the frame must not be touched afterwards.
#[inline(always)]
pub(crate) unsafe fn settle(worker: &Worker, frame: NonNull<Header>, poll: Poll<()>) {
    // SAFETY: we are the runner until the transitions below.
    let header = unsafe { frame.as_ref() };
    match poll {
        // SAFETY: the caller is the runner.
        Poll::Pending => unsafe { end(worker, frame) },
        // SAFETY: the body is complete, and we are `worker`.
        Poll::Ready(()) => unsafe { complete_here(worker, frame, header.local_refs.replace(0)) },
    }
}

/// # Safety
/// As for [`settle`].
unsafe fn end(worker: &Worker, frame: NonNull<Header>) {
    // SAFETY: we are the runner until the transition below.
    let header = unsafe { frame.as_ref() };
    if header.local_refs.get() > i32::MAX / 2 {
        header.local_refs.set(header.local_refs.get() - YIELDED);
        if header.state.end_ready() == Ended::Token {
            let reason = if worker.budget.get() == 0 && worker.processor().simulated.is_none() {
                Reason::Spent
            } else {
                Reason::Yielded
            };
            // SAFETY: `Token` says that the token is ours.
            worker.enqueue(unsafe { Ready::from_frame(frame) }, reason);
        }
        return;
    }
    match header.state.end(header.local_refs.replace(0)) {
        Ended::Idle => (),
        Ended::Token => {
            let reason = if worker.budget.get() == 0 { Reason::Spent } else { Reason::Yielded };
            // SAFETY: `Token` says that the token is ours.
            worker.enqueue(unsafe { Ready::from_frame(frame) }, reason);
        }
    }
}

/// # Safety
/// The caller is the runner, and the body is complete.
#[inline(never)]
pub(crate) unsafe fn complete(frame: NonNull<Header>, local_refs: i32) {
    // SAFETY: the caller is the runner, and the body is complete. `Free` makes the frame ours.
    unsafe { complete_and(frame, local_refs, || drop_frame(frame)) };
}

/// As [`complete`], on the worker that runs `worker`, where most frames come from and return to.
///
/// # Safety
/// As for [`complete`]; the caller is `worker`.
#[inline(never)]
unsafe fn complete_here(worker: &Worker, frame: NonNull<Header>, local_refs: i32) {
    worker.thread_ends();
    // SAFETY: the caller is the runner, is `worker`, and the body is complete. `Free` makes the
    // frame ours.
    unsafe {
        complete_and(frame, local_refs, || {
            if frame.as_ref().vtable.get().needs_no_drop {
                worker.arena.free_here(frame);
            } else {
                drop_frame(frame);
            }
        });
    }
}

/// Completes a thread, and calls `free` if nobody else refers to its frame.
///
/// # Safety
/// As for [`complete`].
#[inline(always)]
unsafe fn complete_and(frame: NonNull<Header>, local_refs: i32, free: impl FnOnce()) {
    // SAFETY: the frame lives until `free`; after `Kept` it is not touched.
    unsafe {
        span::close(frame);
        match frame.as_ref().state.complete(local_refs) {
            Completed::Requested => {
                close(frame);
                complete(frame, local_refs);
            }
            Completed::Free => free(),
            Completed::Kept => (),
            Completed::Awaited => {
                (frame.as_ref().vtable.get().complete_all)(frame);
                release(frame);
            }
        }
    }
}

/// Ends a thread without polling it, and drops its future.
pub(crate) fn cancel(thread: Ready) {
    let frame = thread.into_frame();
    // SAFETY: the token keeps the frame, and makes us the runner unless it is stale. `Free` makes
    // the frame ours.
    unsafe {
        match frame.as_ref().state.begin_to_end() {
            Begun::Run | Begun::Requested => end_now(frame),
            Begun::Stale => (),
            Begun::Free => drop_frame(frame),
        }
    }
}

/// # Safety
/// The caller is the runner, and has begun to end the thread.
unsafe fn end_now(frame: NonNull<Header>) {
    // SAFETY: the caller is the runner. Its use of the body ends with `complete`.
    unsafe {
        span::within(frame, || (frame.as_ref().vtable.get().cancel)(frame));
        complete(frame, frame.as_ref().local_refs.replace(0));
    }
}

/// Ends the thread of a token that is dropped, here if that is allowed. May be called from any OS
/// thread, and also when the thread, or its machine, has ended long ago.
#[cold]
pub(crate) fn give_up(thread: Ready) {
    let Some(thread) = forget_if_stale(thread) else { return };
    let is_elsewhere = thread.kind() == Kind::Local && !Worker::is_bound_here(thread.header());
    if is_elsewhere || Worker::current().is_some_and(Worker::saves_tokens) {
        // Its body must not be dropped on this OS thread, or its policy has panicked.
        Worker::send_home(thread);
    } else {
        cancel(thread);
    }
}

/// Forgets a token that is dead, and hands back one that is not.
pub(crate) fn forget_if_stale(thread: Ready) -> Option<Ready> {
    let frame = thread.into_frame();
    // SAFETY: a token keeps its frame. `None`: the token is still ours. `Free`: it was the last
    // reference, so the frame is ours to drop.
    unsafe {
        match frame.as_ref().state.give_up_stale() {
            None => return Some(Ready::from_frame(frame)),
            Some(Begun::Free) => drop_frame(frame),
            Some(_) => (),
        }
    }
    None
}

/// The right to end a thread that was revoked: its token is dead.
pub(crate) struct Revoked(NonNull<Header>);

impl Revoked {
    /// Revokes a thread that has a token, wherever that is. `None`: it has none, or is about to
    /// end.
    ///
    /// # Safety
    /// The frame is in use, and was not claimed by [`claim`]. Nobody runs its thread or is about
    /// to. The thread is bound to the caller's OS thread, or the caller is the last worker of the
    /// machine. The caller polls nothing now.
    pub(crate) unsafe fn take(frame: NonNull<Header>) -> Option<Self> {
        // SAFETY: the frame is in use, as the caller has promised, so its header is initialized and
        // stays.
        unsafe { frame.as_ref() }.state.revoke_thread(false).then_some(Self(frame))
    }

    /// As [`take`](Self::take), while other workers end their threads and wait, but run none from
    /// their queues. Left alone are threads bound to another OS thread than `worker`'s, and stolen ones.
    ///
    /// # Safety
    /// The frame is in use. The caller is `worker`, and polls nothing. No worker runs threads,
    /// except those that it demands.
    pub(crate) unsafe fn take_misplaced(frame: NonNull<Header>, worker: &Worker) -> Option<Self> {
        // SAFETY: the frame is in use, as the caller has promised, so its header is initialized and
        // stays.
        let header = unsafe { frame.as_ref() };
        let is_bound = header.kind.get() == Kind::Local && !Worker::is_bound_to(header, worker);
        let is_misplaced = !is_bound && header.state.revoke_thread(true);
        is_misplaced.then_some(Self(frame))
    }

    /// Ends the thread, on the OS thread that has revoked it.
    pub(crate) fn end(self) {
        // SAFETY: INV-SEIZE: we are the runner, and end it once.
        unsafe { end_now(self.0) };
    }
}

/// A reference to a thread, whose type is forgotten.
#[derive(Debug)]
pub(crate) struct FrameRef(NonNull<Header>);

// SAFETY: it gives nothing of the thread out but its state.
unsafe impl Send for FrameRef {}
// SAFETY: it gives nothing of the thread out but its state.
unsafe impl Sync for FrameRef {}

impl FrameRef {
    /// # Safety
    /// It takes over one reference.
    pub(crate) unsafe fn from_frame(frame: NonNull<Header>) -> Self {
        Self(frame)
    }

    pub(crate) fn frame(&self) -> NonNull<Header> {
        self.0
    }

    pub(crate) fn header(&self) -> &Header {
        // SAFETY: we hold a reference.
        unsafe { self.0.as_ref() }
    }
}

impl Clone for FrameRef {
    fn clone(&self) -> Self {
        self.header().state.retain();
        Self(self.0)
    }
}

impl Drop for FrameRef {
    fn drop(&mut self) {
        // SAFETY: gives up our reference.
        unsafe { release(self.0) };
    }
}

/// Gives up one reference.
///
/// # Safety
/// The caller owns the reference.
pub(crate) unsafe fn release(frame: NonNull<Header>) {
    // SAFETY: the reference keeps the frame alive; `true` makes us its last.
    unsafe {
        if frame.as_ref().state.release() {
            drop_frame(frame);
        }
    }
}

/// # Safety
/// The state word said `Free`, so the frame belongs to the caller.
pub(super) unsafe fn drop_frame(frame: NonNull<Header>) {
    // SAFETY: nobody else refers to the frame.
    unsafe {
        if frame.as_ref().state.is_requested() {
            // It was a delayed thread with pending requests.
            close(frame);
        }
        // (A result may be the payload of a panic, whatever the type of the output.)
        if frame.as_ref().vtable.get().holds && frame.as_ref().state.left() != Left::Nothing {
            deferred_drop::drop_frame(frame);
        } else {
            deferred_drop::bury_now(frame);
        }
    }
}
