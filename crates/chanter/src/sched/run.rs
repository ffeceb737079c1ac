//! The code that runs threads. Only this code moves a state word along its edges.

use std::mem::ManuallyDrop;
use std::ptr::{self, NonNull};
use std::task::{Context, Poll, RawWaker, RawWakerVTable, Waker};

use super::apply::{apply, close};
use super::fiber::YIELDED;
use super::{Turn, Vp};
use crate::frame::body::Evaluated;
use crate::frame::state::{Begun, Completed, Demanded, Ended, Left, Woken};
use crate::frame::{Header, Kind, attributes_of, catch_panic, deferred_drop, span};
use crate::policy::{Ready, Reason};

/// The waker of Chanter's threads. On the thread's own runner a clone is a
/// plain increment (see `state.rs`, `local_refs`).
pub(super) static WAKER: RawWakerVTable = RawWakerVTable::new(clone_waker, wake, wake_by_ref, drop_waker);

/// Polls a thread once, on this stack.
///
/// # Safety
/// `vp` is the current virtual processor.
#[inline(always)]
pub(crate) unsafe fn run(vp: &Vp, thread: Ready) {
    let frame = thread.into_frame();
    // SAFETY: the token is ours until `end` or `complete`, and keeps the frame. A stale one is a
    // reference until `begin`.
    let header = unsafe { frame.as_ref() };
    match header.state.begin() {
        Begun::Run => (),
        // SAFETY: we are the runner now.
        Begun::Requested => unsafe {
            arrive(vp, header);
            if !apply(vp, frame) {
                return;
            }
        },
        Begun::Stale => return vp.was_stale(),
        Begun::Free => {
            vp.was_stale();
            // SAFETY: `Free` says that the frame is ours to drop.
            return unsafe { drop_frame(frame) };
        }
    }
    if header.penalty.is_special() {
        // SAFETY: we are the runner now.
        unsafe { begin_special_turn(vp, frame) };
    }
    // SAFETY: we are the runner now.
    unsafe { run_begun(vp, frame) };
}

/// Begins the turn of a thread that has a penalty count, or options.
///
/// # Safety
/// As for [`run`]; the caller is the runner.
#[cold]
unsafe fn begin_special_turn(vp: &Vp, frame: NonNull<Header>) {
    // SAFETY: the caller is the runner.
    let penalty = unsafe { &frame.as_ref().penalty };
    if penalty.count() > 0 {
        vp.ask_closer_look();
    }
    // A simulation, or a report that is being made, takes the budget away.
    if penalty.has_options() && vp.simulated.is_none() && !vp.is_asking() {
        // SAFETY: the caller is the runner.
        let attributes = unsafe { attributes_of(frame) }.map(|place| *place.lock());
        if let Some(quantum) = attributes.and_then(|attributes| attributes.quantum) {
            vp.worker.budget.set(quantum.max(1));
        }
    }
}

/// Polls a thread of which the caller is the runner.
///
/// # Safety
/// As for [`run`].
#[inline(always)]
unsafe fn run_begun(vp: &Vp, frame: NonNull<Header>) {
    // SAFETY: the caller is the runner.
    let header = unsafe { frame.as_ref() };
    arrive(vp, header);
    let poll = header.vtable.get().poll;
    // SAFETY: we are the runner now.
    unsafe {
        let poll = polling(vp, frame, |cx| poll(frame, cx));
        settle(vp, frame, poll);
    }
}

/// Notes that the thread runs on `vp` now. The caller is its runner, and drives `vp`.
#[inline(always)]
pub(super) fn arrive(vp: &Vp, header: &Header) {
    let from = header.vp();
    if !ptr::eq(from, vp) {
        header.state.unbias();
        header.rest.break_streak();
        // On a spare worker's virtual processor it runs for the principal.
        let vp_of = vp.principal();
        if !ptr::eq(from, vp_of) {
            header.set_vp(vp_of);
            vp.counters.migrated.add_one();
            // SAFETY: the frame names a virtual processor of its machine, and the caller drives
            // another one of the same machine, so it lives.
            vp.has_arrived(unsafe { &*from });
        }
    }
}

/// Calls `poll` with `frame` as the running thread and its waker.
///
/// # Safety
/// The caller is the frame's runner, and `vp` the current virtual processor.
/// `poll` does not unwind.
#[inline(always)]
pub(crate) unsafe fn polling<R>(
    vp: &Vp,
    frame: NonNull<Header>,
    poll: impl FnOnce(&mut Context<'_>) -> R,
) -> R {
    let outer = vp.worker.running.replace(frame.as_ptr());
    // The waker is borrowed: the runner's right to the frame stands for a reference.
    // SAFETY: `WAKER`'s functions take such pointers.
    let waker = ManuallyDrop::new(unsafe { Waker::new(frame.as_ptr().cast(), &WAKER) });
    // SAFETY: the caller is the frame's runner and keeps the frame, and `poll` does not unwind.
    let result = unsafe { span::within(frame, || poll(&mut Context::from_waker(&waker))) };
    vp.worker.running.set(outer);
    result
}

/// Ends a poll, with its outcome.
///
/// # Safety
/// As for [`polling`]; the frame must not be touched afterwards.
#[inline(always)]
pub(crate) unsafe fn settle(vp: &Vp, frame: NonNull<Header>, poll: Poll<()>) {
    // SAFETY: we are the runner until the transitions below.
    let header = unsafe { frame.as_ref() };
    match poll {
        // References that were handed out stay in `local_refs` while their number is moderate. (If
        // it is not, it may be YIELDED.)
        Poll::Pending
            if header.local_refs.get().unsigned_abs() < 1 << 30
                && header.state.park_local(&header.rest, &vp.worker.home) => {}
        // SAFETY: the caller is the runner, and the thread is not parked locally.
        Poll::Pending => unsafe { end(vp, frame) },
        // SAFETY: the body is complete, and we drive `vp`.
        Poll::Ready(()) => unsafe { complete_here(vp, frame, header.local_refs.replace(0)) },
    }
}

/// # Safety
/// As for [`settle`].
unsafe fn end(vp: &Vp, frame: NonNull<Header>) {
    // SAFETY: we are the runner until the transition below.
    let header = unsafe { frame.as_ref() };
    if header.local_refs.get() > i32::MAX / 2 {
        header.local_refs.set(header.local_refs.get() - YIELDED);
        if header.state.end_ready() == Ended::Token {
            let reason = if vp.worker.budget.get() == 0 && vp.simulated.is_none() {
                Reason::Spent
            } else {
                Reason::Yielded
            };
            // SAFETY: `Token` says that the token is ours.
            vp.enqueue(unsafe { Ready::from_frame(frame) }, reason);
        }
        return;
    }
    let bias = header.state.earn_rest(&header.rest, &vp.worker.home, vp.homes());
    match header.state.end(header.local_refs.replace(0), bias) {
        Ended::Idle => (),
        Ended::Token => {
            let reason = if vp.worker.budget.get() == 0 { Reason::Spent } else { Reason::Yielded };
            // SAFETY: `Token` says that the token is ours.
            vp.enqueue(unsafe { Ready::from_frame(frame) }, reason);
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

/// As [`complete`], on the worker that runs `vp`, where most frames come from and return to.
///
/// # Safety
/// As for [`complete`]; the caller drives `vp`.
#[inline(never)]
unsafe fn complete_here(vp: &Vp, frame: NonNull<Header>, local_refs: i32) {
    vp.thread_ends();
    // SAFETY: the caller is the runner, drives `vp`, and the body is complete. `Free` makes the
    // frame ours.
    unsafe {
        complete_and(frame, local_refs, || {
            if frame.as_ref().vtable.get().needs_no_drop {
                vp.worker.arena.free_here(frame);
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
            Completed::Inherited => (frame.as_ref().vtable.get().complete_owner)(frame),
            Completed::Awaited { inherited } => {
                (frame.as_ref().vtable.get().complete_all)(frame, inherited);
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
    let is_elsewhere = thread.kind() == Kind::Local && !Vp::is_driving(thread.header());
    if is_elsewhere || Vp::current().is_some_and(Vp::saves_tokens) {
        // Its body must not be dropped on this OS thread, or its policy has panicked.
        Vp::send_home(thread);
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
    /// their queues. Left alone are threads bound to another OS thread than `vp`'s, threads that are parked locally,
    /// and stolen ones.
    ///
    /// # Safety
    /// The frame is in use. The caller drives `vp`, and polls nothing. No worker runs threads,
    /// except those that it demands.
    pub(crate) unsafe fn take_misplaced(frame: NonNull<Header>, vp: &Vp) -> Option<Self> {
        // SAFETY: the frame is in use, as the caller has promised, so its header is initialized and
        // stays.
        let header = unsafe { frame.as_ref() };
        let is_bound = header.kind.get() == Kind::Local && !ptr::eq(header.vp(), vp);
        let is_misplaced = !is_bound && !header.rest.seems_to_rest() && header.state.revoke_thread(true);
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
unsafe fn drop_frame(frame: NonNull<Header>) {
    // SAFETY: nobody else refers to the frame.
    unsafe {
        if frame.as_ref().state.is_requested() {
            // It was a delayed thread with pending requests.
            close(frame);
        }
        let vtable = frame.as_ref().vtable.get();
        let holds = match frame.as_ref().state.left() {
            Left::Future => vtable.holds,
            Left::Result | Left::Seen => vtable.result_holds,
            Left::Nothing => false,
        };
        if holds {
            deferred_drop::drop_frame(frame);
        } else {
            deferred_drop::bury_now(frame);
        }
    }
}

/// Demands the value of a thread that has not run. Runs the thread here, on this stack, if that is
/// allowed. Otherwise schedules it if it is delayed.
///
/// # Safety
/// The caller has a reference.
#[inline(never)]
pub(crate) unsafe fn demand(frame: NonNull<Header>) {
    // SAFETY: the caller's reference keeps the frame, which keeps its machine.
    let header = unsafe { frame.as_ref() };
    // SAFETY: the caller's reference keeps the frame, which keeps its machine and so this virtual
    // processor.
    let home = unsafe { &*header.vp() };
    let here = Vp::current().filter(|vp| vp.is_of_same_machine(home));
    let may_run_here = |vp: &&Vp| {
        let is_free = header.kind.is_free_host() || (ptr::eq(*vp, home) && !header.kind.is_kept());
        is_free && vp.has_stack() && vp.simulated.is_none()
    };
    match here.filter(may_run_here) {
        Some(vp) => {
            // SAFETY: the caller has a reference, and drives `vp`.
            if unsafe { withdraw(vp, frame) } || header.state.demand(true) == Demanded::Stolen {
                vp.counters.stolen.add_one();
                // SAFETY: we are the thread's runner, and drive `vp`.
                unsafe {
                    if header.state.is_requested() {
                        arrive(vp, header);
                        if !apply(vp, frame) {
                            return;
                        }
                    }
                    run_begun(vp, frame);
                }
            }
        }
        // SAFETY: the caller has a reference; no other virtual processor is named.
        None => drop(unsafe { schedule(frame, None) }),
    }
}

/// Runs a delayed thread on this stack, if that is allowed, for a caller that will look at its result. True: the
/// thread is complete, and its result is lent.
///
/// # Safety
/// The caller has a reference.
#[inline]
pub(crate) unsafe fn evaluate_to_lend(frame: NonNull<Header>) -> bool {
    // SAFETY: the caller's reference keeps the frame, which keeps its machine and so this virtual processor.
    let (header, home) = unsafe { (frame.as_ref(), &*frame.as_ref().vp()) };
    let Some(vp) = Vp::current() else { return false };
    let may_run_here = header.kind.is_free_host()
        && header.state.is_delayed()
        && (ptr::eq(vp, home) || vp.is_of_same_machine(home))
        && (vp.may_spawn_in_place() || (vp.has_stack() && vp.simulated.is_none()));
    if !may_run_here || !header.state.steal_to_lend() {
        return false;
    }
    vp.counters.stolen.add_one();
    // SAFETY: we are the thread's runner, and drive `vp`. The caller's reference keeps the frame.
    unsafe {
        if !header.state.is_requested() || {
            arrive(vp, header);
            apply(vp, frame)
        } {
            run_begun(vp, frame);
        }
    }
    let is_complete = header.state.is_complete();
    if !is_complete {
        header.state.end_loan();
    }
    is_complete
}

/// Takes the token of a thread that has not run, if `vp` has it at hand. True: the caller is the
/// thread's runner.
///
/// # Safety
/// The caller has a reference, and drives `vp`.
#[inline(always)]
unsafe fn withdraw(vp: &Vp, frame: NonNull<Header>) -> bool {
    let Some(token) = vp.withdraw(frame) else { return false };
    // SAFETY: the caller has a reference, which keeps the frame.
    if unsafe { frame.as_ref() }.state.steal_with_token(vp.worker.polls.get() > 0) {
        // The token stands for the runner now.
        token.into_frame();
        return true;
    }
    // Somebody was faster: the token is dead.
    vp.enqueue(token, Reason::New);
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
    let (header, home) = unsafe { (frame.as_ref(), &*frame.as_ref().vp()) };
    let Some(vp) = Vp::current() else { return false };
    if !ptr::eq(vp, home) || !(vp.may_spawn_in_place() || vp.may_evaluate_in_place()) {
        // The usual way covers these cases.
        return false;
    }
    header.state.steal_alone();
    vp.counters.stolen.add_one();
    let evaluate = header.vtable.get().evaluate;
    // SAFETY: we are the runner, and drive `vp`. If the value is there and nobody else knows the
    // thread, its frame is ours to free.
    unsafe {
        let evaluated = polling(vp, frame, |cx| evaluate(frame, cx, place));
        if evaluated == Evaluated::Value && header.state.is_stolen_alone() && header.local_refs.get() == 0 {
            span::close(frame);
            vp.worker.arena.free_here(frame);
            return true;
        }
        leave_evaluated(vp, frame, evaluated)
    }
}

/// Ends an evaluation whose thread has blocked on its stealer's stack, or failed, or is known to
/// others.
///
/// # Safety
/// As for [`settle`].
#[inline(never)]
unsafe fn leave_evaluated(vp: &Vp, frame: NonNull<Header>, evaluated: Evaluated) -> bool {
    let is_over = evaluated != Evaluated::Blocked;
    // SAFETY: the caller is the runner. The handle's reference keeps the frame, and is given up
    // only after the last use.
    unsafe {
        if evaluated == Evaluated::Value {
            // The stealer has the value; the frame does not hold it.
            frame.as_ref().state.take_result();
        }
        settle(vp, frame, if is_over { Poll::Ready(()) } else { Poll::Pending });
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
pub(crate) unsafe fn schedule(frame: NonNull<Header>, on: Option<&Vp>) -> bool {
    // SAFETY: the caller's reference keeps the frame, which keeps its machine.
    let header = unsafe { frame.as_ref() };
    if header.state.demand(false) != Demanded::Token {
        return false;
    }
    // SAFETY: the caller's reference keeps the frame, which keeps its machine and so this virtual
    // processor.
    let home = unsafe { &*header.vp() };
    // SAFETY: `Token` says that the token is ours.
    let thread = unsafe { Ready::from_frame(frame) };
    match Vp::current().filter(|vp| vp.is_of_same_machine(home)) {
        Some(vp) if on.is_none_or(|on| ptr::eq(on, vp)) => vp.enqueue(thread, Reason::New),
        _ => {
            let there = on.unwrap_or(home);
            // The thread must count as one of that processor, or it would be sent home.
            header.set_vp(there);
            there.push(thread);
        }
    }
    true
}

/// Wakes through `waker`. A parasite is attached to this stack if that is possible. Called only at
/// await points.
#[inline]
pub(crate) fn wake_attached(waker: Waker) {
    wake_here(waker, Turn::Soon, || true);
}

/// As [`wake_attached`], if `owner` is the thread that is polled here. Otherwise the parasite is
/// queued with the priority `turn`, as other threads are.
#[inline]
pub(crate) fn wake_at(waker: Waker, owner: &Waker, turn: Turn) {
    wake_here(waker, turn, || is_own(owner));
}

/// Wakes through `waker`. A thread of ours is queued with the priority `turn`.
pub(crate) fn wake_next(waker: Waker, turn: Turn) {
    if is_ours(&waker) {
        wake_here(waker, turn, || false);
    } else {
        waker.wake();
    }
}

#[inline(always)]
fn wake_here(waker: Waker, turn: Turn, attach: impl FnOnce() -> bool) {
    if is_ours(&waker) {
        let waker = ManuallyDrop::new(waker);
        // SAFETY: our vtable's data is a frame. The waker, which is not dropped, gives its
        // reference up.
        unsafe { wake_frame::<true>(frame_of(waker.data()), turn, attach) };
    } else {
        // A foreign waker may panic, and the caller has a result to deliver.
        catch_panic(|| waker.wake());
    }
}

/// Whether `waker` belongs to the thread that this OS thread polls now. Then a clone is a plain
/// increment, and no user code.
#[inline(always)]
pub(crate) fn is_own(waker: &Waker) -> bool {
    // SAFETY: our vtable's data is a frame.
    ptr::eq(waker.vtable(), &WAKER) && is_running(unsafe { frame_of(waker.data()) })
}

/// Whether `waker` belongs to a thread of ours. Then a clone runs no user code.
#[inline(always)]
pub(crate) fn is_ours(waker: &Waker) -> bool {
    ptr::eq(waker.vtable(), &WAKER)
}

/// A clone of a waker that [is ours](is_ours).
#[inline(always)]
pub(crate) fn clone_ours(waker: &Waker) -> Waker {
    debug_assert!(is_ours(waker));
    // SAFETY: our vtable's data is a frame, which the waker keeps alive; the clone is counted.
    unsafe {
        count_clone(frame_of(waker.data()));
        Waker::new(waker.data(), &WAKER)
    }
}

/// A waker of a thread, for its runner.
///
/// # Safety
/// The caller owns the reference that it takes over, or never drops it.
#[inline(always)]
pub(crate) unsafe fn waker_of(frame: NonNull<Header>) -> Waker {
    // SAFETY: `WAKER`'s functions take pointers to frames. The caller owns the reference, or never
    // drops the waker.
    unsafe { Waker::new(frame.as_ptr().cast(), &WAKER) }
}

/// # Safety
/// The caller has a reference.
#[inline(always)]
unsafe fn count_clone(frame: NonNull<Header>) {
    // SAFETY: the caller's reference keeps the frame. `local_refs` belongs to the runner, which is
    // this OS thread if the thread is running.
    unsafe {
        if is_running(frame) {
            borrow(frame.as_ref());
        } else {
            frame.as_ref().state.retain();
        }
    }
}

/// The runner counts a reference, with a plain store while the number is moderate.
#[inline(always)]
fn borrow(header: &Header) {
    let local_refs = header.local_refs.get();
    if local_refs < i32::MAX / 2 {
        header.local_refs.set(local_refs + 1);
    } else {
        header.state.retain();
    }
}

/// # Safety
/// `data` comes from [`WAKER`].
unsafe fn frame_of(data: *const ()) -> NonNull<Header> {
    // SAFETY: the data of `WAKER` points to a frame, and is never null.
    unsafe { NonNull::new_unchecked(data.cast_mut().cast()) }
}

/// Wakes a thread, as its waker does.
///
/// # Safety
/// The caller has a reference.
pub(crate) unsafe fn wake_by(frame: NonNull<Header>) {
    // SAFETY: the caller has a reference, and keeps it.
    unsafe { wake_frame::<false>(frame, Turn::Soon, || false) };
}

/// # Safety
/// The caller has a reference; with `GIVE_UP` it is given up.
#[inline(always)]
unsafe fn wake_frame<const GIVE_UP: bool>(frame: NonNull<Header>, turn: Turn, attach: impl FnOnce() -> bool) {
    // SAFETY: the caller has a reference, which keeps the frame.
    let header = unsafe { frame.as_ref() };
    // SAFETY: a frame's machine, and so the virtual processor that it names, lives as long as the
    // frame.
    let last = unsafe { &*header.vp() };
    if let Some(vp) = Vp::current().filter(|vp| vp.is_of_same_machine(last)) {
        // SAFETY: `vp` is current and of the frame's machine. The token is ours where the state
        // word says so, and `Free` makes the frame ours.
        unsafe {
            if header.state.wake_local(&header.rest, &vp.worker.home) {
                if GIVE_UP {
                    give_back(header);
                }
                return submit(vp, Ready::from_frame(frame), turn, attach);
            }
            match header.state.wake(GIVE_UP, vp.worker.home.bits()) {
                Woken::Token => submit(vp, Ready::from_frame(frame), turn, attach),
                Woken::Already => (),
                Woken::Elsewhere(home) => {
                    if let Some(thread) = revoke::<GIVE_UP>(frame, home) {
                        submit(vp, thread, turn, attach);
                    }
                }
                Woken::Free => drop_frame(frame),
            }
        }
        return;
    }
    // The wake comes from outside of the machine. Our reference keeps the machine's memory while we
    // push.
    let token = match header.state.wake(false, 0) {
        // SAFETY: `Token` says that the token is ours.
        Woken::Token => Some(unsafe { Ready::from_frame(frame) }),
        // SAFETY: `Elsewhere` says that REVOKING is set. The caller's reference is not given up
        // here.
        Woken::Elsewhere(home) => unsafe { revoke::<false>(frame, home) },
        Woken::Already | Woken::Free => None,
    };
    if let Some(thread) = token {
        // SAFETY: the frame keeps its machine, and so every virtual processor that it names. The
        // pointer is read again, since the thread's last run is over only now.
        let last = unsafe { &*header.vp() };
        last.push(thread);
    }
    if GIVE_UP {
        // SAFETY: the caller has a reference, and gives it up.
        unsafe { release(frame) };
    }
}

/// The second step of a wake or a claim of a thread that may be parked locally on virtual processor `home`. Returns
/// its token if it is.
///
/// # Safety
/// The caller has set REVOKING and has a reference; with `GIVE_UP` it is given up.
#[cold]
unsafe fn revoke<const GIVE_UP: bool>(frame: NonNull<Header>, home: usize) -> Option<Ready> {
    // SAFETY: the caller's reference keeps the frame, which keeps its machine.
    let (header, last) = unsafe { (frame.as_ref(), &*frame.as_ref().vp()) };
    let rested = header.state.revoke(&header.rest, last.home_of(home));
    if GIVE_UP {
        // The reference is not given back to `local_refs`, since the thread may have been revoked.
        // SAFETY: the caller has a reference, and gives it up.
        unsafe { release(frame) };
    }
    // SAFETY: the thread was parked locally, so its token is ours. The token keeps the frame.
    rested.then(|| unsafe { Ready::from_frame(frame) })
}

/// Gives up a reference of the holder of the token.
#[inline(always)]
fn give_back(header: &Header) {
    header.local_refs.set(header.local_refs.get().wrapping_sub(1));
}

/// Claims the token of a thread that waits for a wake; with `delayed` also that of a delayed
/// thread.
///
/// # Safety
/// The frame's memory, and its machine, stay for the time of the call.
pub(crate) unsafe fn claim(frame: NonNull<Header>, delayed: bool) -> Option<Ready> {
    // SAFETY: the frame's memory and its machine stay for the time of the call. A frame that is in
    // use names a virtual processor of its machine; another may name none. The token is ours where
    // the state word says so.
    unsafe {
        let header = frame.as_ref();
        let last = header.vp().as_ref()?;
        let vp = Vp::current().filter(|vp| vp.is_of_same_machine(last));
        let claimed = vp.is_some_and(|vp| header.state.wake_local(&header.rest, &vp.worker.home))
            || header.state.claim(delayed);
        if claimed {
            return Some(Ready::from_frame(frame));
        }
        let home = header.state.begin_claim(vp.map_or(0, |vp| vp.worker.home.bits()))?;
        revoke::<true>(frame, home)
    }
}

/// # Safety
/// As for [`run`].
#[inline(never)]
unsafe fn run_attached(vp: &Vp, thread: Ready) {
    vp.counters.attached.add_one();
    vp.worker.depth.set(vp.worker.depth.get() + 1);
    // SAFETY: `vp` is the current virtual processor.
    unsafe { run(vp, thread) };
    vp.worker.depth.set(vp.worker.depth.get() - 1);
}

#[inline(always)]
fn submit(vp: &Vp, thread: Ready, turn: Turn, attach: impl FnOnce() -> bool) {
    match thread.kind() {
        Kind::Parasite if vp.may_attach() && attach() => {
            // SAFETY: `vp` is current.
            unsafe { run_attached(vp, thread) };
        }
        Kind::Parasite | Kind::Host => vp.enqueue_woken(thread, turn),
        Kind::Pinned | Kind::Local => {
            // SAFETY: the token keeps its frame, and the frame keeps its machine.
            let home = unsafe { &*thread.header().vp() };
            if ptr::eq(home, vp) {
                vp.enqueue_woken(thread, turn);
            } else {
                home.push(thread);
            }
        }
    }
}

/// Whether `frame` is the thread that this OS thread polls right now.
#[inline(always)]
fn is_running(frame: NonNull<Header>) -> bool {
    Vp::current().is_some_and(|vp| ptr::eq(vp.worker.running.get(), frame.as_ptr()))
}

unsafe fn clone_waker(data: *const ()) -> RawWaker {
    // SAFETY: the waker that is cloned keeps the frame alive.
    unsafe {
        // Only this path is bounded: clones for offers take memory each, and memory bounds their
        // number.
        frame_of(data).as_ref().state.bound_references();
        count_clone(frame_of(data));
    }
    RawWaker::new(data, &WAKER)
}

unsafe fn wake(data: *const ()) {
    // SAFETY: the waker owns a reference, and gives it up.
    unsafe { wake_frame::<true>(frame_of(data), Turn::Soon, || false) };
}

unsafe fn wake_by_ref(data: *const ()) {
    // SAFETY: the waker keeps its reference.
    unsafe { wake_frame::<false>(frame_of(data), Turn::Soon, || false) };
}

unsafe fn drop_waker(data: *const ()) {
    // SAFETY: the waker owns a reference, and gives it up. `local_refs` belongs to the runner,
    // which is this OS thread if the thread is running.
    unsafe {
        let frame = frame_of(data);
        let local_refs = &frame.as_ref().local_refs;
        if is_running(frame) && local_refs.get() > i32::MIN / 2 {
            local_refs.set(local_refs.get() - 1);
        } else {
            release(frame);
        }
    }
}
