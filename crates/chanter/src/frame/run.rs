//! Running threads: the only code that moves a state word along its edges.

use std::mem::ManuallyDrop;
use std::ptr::{self, NonNull};
use std::task::{Context, Poll, RawWaker, RawWakerVTable, Waker};

use super::body::{Evaluated, catch_panic};
use super::header::{self, Header, Kind};
use super::state::{Begun, Completed, Demanded, Ended, Left, Woken};
use super::{deferred_drop, span};
use crate::event::WakeList;
use crate::policy::{Ready, Reason};
use crate::sched::{Turn, Vp};
use crate::sync::atomic::Ordering;
use crate::thread::fiber::YIELDED;
use crate::thread::join::Joiners;
use crate::thread::request::{apply, close};

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
    // SAFETY: the token is ours until `end` or `complete`; a stale one is a
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
            // SAFETY: `Free` says so.
            return unsafe { drop_frame(frame) };
        }
    }
    if header.penalty.get() > 0 {
        vp.ask_closer_look();
    }
    // SAFETY: we are the runner now.
    unsafe { run_begun(vp, frame) };
}

/// Polls a thread whose runner the caller is.
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

/// The thread is here now; the caller is its runner, and drives `vp`.
#[inline(always)]
pub(super) fn arrive(vp: &Vp, header: &Header) {
    let from = header.vp.load(Ordering::Relaxed);
    if !ptr::eq(from, vp) {
        header.state.unbias();
        header.rest.break_streak();
        // On a stand-in it runs for the principal.
        let vp_of = vp.principal();
        if !ptr::eq(from, vp_of) {
            header.vp.store(ptr::from_ref(vp_of).cast_mut(), Ordering::Relaxed);
            vp.counters.migrated.add_one();
            // SAFETY: a frame's virtual processor is one of its machine's, which the caller drives.
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
    let outer = vp.running.replace(frame.as_ptr());
    // Borrowed: the runner's right to the frame stands for a reference.
    // SAFETY: `WAKER`'s functions take such pointers.
    let waker = ManuallyDrop::new(unsafe { Waker::new(frame.as_ptr().cast(), &WAKER) });
    // SAFETY: the caller's contract.
    let result = unsafe { span::within(frame, || poll(&mut Context::from_waker(&waker))) };
    vp.running.set(outer);
    result
}

/// Ends a poll.
///
/// # Safety
/// As for [`polling`]; the frame must not be touched afterwards.
#[inline(always)]
pub(crate) unsafe fn settle(vp: &Vp, frame: NonNull<Header>, poll: Poll<()>) {
    // SAFETY: we are the runner until the transitions below.
    let header = unsafe { frame.as_ref() };
    match poll {
        // What was handed out stays borrowed, while the number is sane. (If it
        // is not, that may say YIELDED.)
        Poll::Pending
            if header.local_refs.get().unsigned_abs() < 1 << 30
                && header.state.park_local(&header.rest, &vp.home) => {}
        // SAFETY: the runner is the caller, and it does not rest.
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
            let reason =
                if vp.budget.get() == 0 && vp.simulated.is_none() { Reason::Spent } else { Reason::Yielded };
            // SAFETY: `Token` says so.
            vp.enqueue(unsafe { Ready::from_frame(frame) }, reason);
        }
        return;
    }
    let bias = header.state.earn_rest(&header.rest, &vp.home, vp.homes());
    match header.state.end(header.local_refs.replace(0), bias) {
        Ended::Idle => (),
        Ended::Token => {
            let reason = if vp.budget.get() == 0 { Reason::Spent } else { Reason::Yielded };
            // SAFETY: `Token` says so.
            vp.enqueue(unsafe { Ready::from_frame(frame) }, reason);
        }
    }
}

/// # Safety
/// The caller is the runner, and the body is complete.
#[inline(never)]
pub(crate) unsafe fn complete(frame: NonNull<Header>, local_refs: i32) {
    // SAFETY: the caller's contract; `Free` makes the frame ours.
    unsafe { complete_and(frame, local_refs, || drop_frame(frame)) };
}

/// As [`complete`], where most frames come from, and go back to.
///
/// # Safety
/// As for [`complete`]; the caller drives `vp`.
#[inline(never)]
unsafe fn complete_here(vp: &Vp, frame: NonNull<Header>, local_refs: i32) {
    vp.thread_ends();
    // SAFETY: the caller's contract; `Free` makes the frame ours.
    unsafe {
        complete_and(frame, local_refs, || {
            if frame.as_ref().vtable.get().needs_no_drop {
                header::free_here(vp, frame);
            } else {
                drop_frame(frame);
            }
        });
    }
}

/// Completes a thread; `free` is called if nobody else refers to its frame.
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
            Completed::Inherited => {
                if let Some(joiners) = (frame.as_ref().vtable.get().joiners)(frame)
                    && let Some(waker) = Joiners::complete_heir(joiners.as_ptr())
                {
                    // A foreign waker may panic, and its thread is not ours.
                    catch_panic(|| waker.wake());
                }
            }
            Completed::Awaited { inherited } => {
                let mut wakes = WakeList::new();
                if let Some(joiners) = (frame.as_ref().vtable.get().joiners)(frame) {
                    joiners.as_ref().complete_all(inherited, &mut wakes);
                }
                catch_panic(|| wakes.queue());
                release(frame);
            }
        }
    }
}

/// Ends a thread without polling it: its future is dropped.
pub(crate) fn cancel(thread: Ready) {
    let frame = thread.into_frame();
    // SAFETY: the token makes us the runner, unless it is stale.
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
    // SAFETY: the caller's contract.
    unsafe {
        span::within(frame, || (frame.as_ref().vtable.get().cancel)(frame));
        complete(frame, frame.as_ref().local_refs.replace(0));
    }
}

/// A token is dropped: ends its thread, here if it may. From any OS thread, and also when
/// the thread, or its machine, has ended long ago.
#[cold]
pub(crate) fn give_up(thread: Ready) {
    let Some(thread) = forget_if_stale(thread) else { return };
    let is_elsewhere = thread.kind() == Kind::Local && !Vp::is_driving(thread.header());
    if is_elsewhere || Vp::current().is_some_and(Vp::saves_tokens) {
        // Its body must not be dropped on this OS thread; or its policy is to blame.
        Vp::send_home(thread);
    } else {
        cancel(thread);
    }
}

/// Forgets a token that is dead; one that is not is handed back.
pub(crate) fn forget_if_stale(thread: Ready) -> Option<Ready> {
    let frame = thread.into_frame();
    // SAFETY: a token keeps its frame; `Free` says that it was the last to do so. `None`: it is
    // ours still.
    unsafe {
        match frame.as_ref().state.give_up_stale() {
            None => return Some(Ready::from_frame(frame)),
            Some(Begun::Free) => drop_frame(frame),
            Some(_) => (),
        }
    }
    None
}

/// The right to end a thread that was taken from its token.
pub(crate) struct Revoked(NonNull<Header>);

impl Revoked {
    /// Takes a thread that nobody waits to wake from its token, wherever that is.
    ///
    /// # Safety
    /// The frame is in use, and was not claimed by [`claim`]. Nobody runs its
    /// thread, or is about to: it is bound to the caller's OS thread, which polls nothing now,
    /// or no driver of its machine is left but the caller, of whom the same holds.
    pub(crate) unsafe fn take(frame: NonNull<Header>) -> Option<Self> {
        // SAFETY: the caller's contract.
        unsafe { frame.as_ref() }.state.revoke_thread(false).then_some(Self(frame))
    }

    /// The same while other drivers end their threads, and wait, but do not run any from
    /// their queues: takes a thread that has a token, and is not bound to another OS thread than `vp`'s.
    ///
    /// # Safety
    /// The frame is in use. The caller drives `vp`, and polls nothing; no driver runs
    /// threads but those that it demands.
    pub(crate) unsafe fn take_misplaced(frame: NonNull<Header>, vp: &Vp) -> Option<Self> {
        // SAFETY: the caller's contract.
        let header = unsafe { frame.as_ref() };
        let is_bound = header.kind.get() == Kind::Local && !ptr::eq(header.vp.load(Ordering::Relaxed), vp);
        let is_misplaced = !is_bound && !header.rest.seems_to_rest() && header.state.revoke_thread(true);
        is_misplaced.then_some(Self(frame))
    }

    /// Ends it, on the OS thread that has seized it.
    pub(crate) fn end(self) {
        // SAFETY: INV-SEIZE: we are the runner, and end it once.
        unsafe { end_now(self.0) };
    }
}

/// Gives up one reference.
///
/// # Safety
/// The caller owns one.
pub(crate) unsafe fn release(frame: NonNull<Header>) {
    // SAFETY: the reference keeps the frame alive; `true` makes us its last.
    unsafe {
        if frame.as_ref().state.release() {
            drop_frame(frame);
        }
    }
}

/// # Safety
/// The state word said `Free`.
unsafe fn drop_frame(frame: NonNull<Header>) {
    // SAFETY: nobody else refers to the frame.
    unsafe {
        if frame.as_ref().state.is_requested() {
            // A delayed thread, of which something was asked.
            close(frame);
        }
        if frame.as_ref().vtable.get().holds && frame.as_ref().state.left() != Left::Nothing {
            deferred_drop::drop_frame(frame);
        } else {
            deferred_drop::bury_now(frame);
        }
    }
}

/// Demands the value of a thread that has not run: runs it here, on this
/// stack, if it may; else a delayed one is scheduled.
///
/// # Safety
/// The caller has a reference.
#[inline(never)]
pub(crate) unsafe fn demand(frame: NonNull<Header>) {
    // SAFETY: the caller's reference keeps the frame, which keeps its machine.
    let header = unsafe { frame.as_ref() };
    // SAFETY: as above.
    let home = unsafe { &*header.vp.load(Ordering::Relaxed) };
    let here = Vp::current().filter(|vp| vp.is_of_same_machine(home));
    let may_run_here = |vp: &&Vp| {
        let is_free = matches!(header.kind.get(), Kind::Host) || ptr::eq(*vp, home);
        is_free && vp.has_stack() && vp.simulated.is_none()
    };
    match here.filter(may_run_here) {
        Some(vp) => {
            // SAFETY: the caller's reference.
            if unsafe { withdraw(vp, frame) } || header.state.demand(true) == Demanded::Stolen {
                vp.counters.stolen.add_one();
                // SAFETY: we are its runner, and drive `vp`.
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
        // SAFETY: the caller's contract.
        None => drop(unsafe { schedule(frame, None) }),
    }
}

/// Takes the token of a thread that has not run, if it is at hand here; the caller is its runner then.
///
/// # Safety
/// The caller has a reference, and drives `vp`.
#[inline(always)]
unsafe fn withdraw(vp: &Vp, frame: NonNull<Header>) -> bool {
    let Some(token) = vp.withdraw(frame) else { return false };
    // SAFETY: the caller's contract.
    if unsafe { frame.as_ref() }.state.steal_with_token(vp.polls.get() > 0) {
        // It stands for the runner now.
        token.into_frame();
        return true;
    }
    // Somebody was faster: it is dead.
    vp.enqueue(token, Reason::New);
    false
}

/// Runs a delayed thread on this stack, if it may. True: its value is in
/// `place`, and its frame is gone; if not, the thread goes its usual way.
///
/// # Safety
/// The caller's handle is the only reference to the thread; `place` is of its
/// value's type.
#[inline(always)]
pub(crate) unsafe fn evaluate(frame: NonNull<Header>, place: *mut ()) -> bool {
    // SAFETY: the caller's reference keeps the frame, which keeps its machine.
    let (header, home) = unsafe { (frame.as_ref(), &*frame.as_ref().vp.load(Ordering::Relaxed)) };
    let Some(vp) = Vp::current() else { return false };
    if !ptr::eq(vp, home) || !(vp.may_spawn_in_place() || vp.may_evaluate_in_place()) {
        // The usual way knows what to do.
        return false;
    }
    header.state.steal_alone();
    vp.counters.stolen.add_one();
    let evaluate = header.vtable.get().evaluate;
    // SAFETY: we are the runner, and drive `vp`. When the value is there, and
    // nobody has come to know the thread, its frame is ours to free.
    unsafe {
        let evaluated = polling(vp, frame, |cx| evaluate(frame, cx, place));
        if evaluated == Evaluated::Value && header.state.is_stolen_alone() && header.local_refs.get() == 0 {
            span::close(frame);
            header::free_here(vp, frame);
            return true;
        }
        leave_evaluated(vp, frame, evaluated)
    }
}

/// A thread has blocked on its stealer's stack, or failed, or others know it.
///
/// # Safety
/// As for [`settle`].
#[inline(never)]
unsafe fn leave_evaluated(vp: &Vp, frame: NonNull<Header>, evaluated: Evaluated) -> bool {
    let is_over = evaluated != Evaluated::Blocked;
    // SAFETY: the caller's contract; the handle's reference keeps the frame.
    unsafe {
        if evaluated == Evaluated::Value {
            // It is with the stealer, and not in the frame.
            frame.as_ref().state.take_result();
        }
        settle(vp, frame, if is_over { Poll::Ready(()) } else { Poll::Pending });
        if evaluated == Evaluated::Value {
            release(frame);
        }
    }
    evaluated == Evaluated::Value
}

/// Schedules a delayed thread, `on` a virtual processor or where it pleases;
/// false: it is not delayed any more.
///
/// # Safety
/// The caller has a reference; `on` is of the thread's machine.
pub(crate) unsafe fn schedule(frame: NonNull<Header>, on: Option<&Vp>) -> bool {
    // SAFETY: the caller's reference keeps the frame, which keeps its machine.
    let header = unsafe { frame.as_ref() };
    if header.state.demand(false) != Demanded::Token {
        return false;
    }
    // SAFETY: as above.
    let home = unsafe { &*header.vp.load(Ordering::Relaxed) };
    // SAFETY: `Token` says so.
    let thread = unsafe { Ready::from_frame(frame) };
    match Vp::current().filter(|vp| vp.is_of_same_machine(home)) {
        Some(vp) if on.is_none_or(|on| ptr::eq(on, vp)) => vp.enqueue(thread, Reason::New),
        _ => {
            let there = on.unwrap_or(home);
            // It is to be taken for one that lives there, or it is sent home.
            header.vp.store(ptr::from_ref(there).cast_mut(), Ordering::Relaxed);
            there.push(thread);
        }
    }
    true
}

/// Wakes through `waker`; if it is a parasite's, attaches it to this stack
/// when that is possible. Only at await points.
#[inline]
pub(crate) fn wake_attached(waker: Waker) {
    wake_here(waker, Turn::Soon, || true);
}

/// As [`wake_attached`], at an await point of `owner`, if that is the thread
/// that is polled here; else the parasite is queued to its `turn`, as others are.
#[inline]
pub(crate) fn wake_at(waker: Waker, owner: &Waker, turn: Turn) {
    wake_here(waker, turn, || is_own(owner));
}

/// Wakes through `waker`; a thread of ours is queued to its `turn`.
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
        // SAFETY: our vtable's data is a frame; its reference is given up.
        unsafe { wake_frame::<true>(frame_of(waker.data()), turn, attach) };
    } else {
        // A foreign waker may panic, and the caller has a result to deliver.
        catch_panic(|| waker.wake());
    }
}

/// Whether `waker` is that of the thread that this OS thread polls now: then
/// a clone is a plain increment, and no user code.
#[inline(always)]
pub(crate) fn is_own(waker: &Waker) -> bool {
    // SAFETY: our vtable's data is a frame.
    ptr::eq(waker.vtable(), &WAKER) && is_running(unsafe { frame_of(waker.data()) })
}

/// Whether `waker` is that of a thread of ours: a copy is no user code.
#[inline(always)]
pub(crate) fn is_ours(waker: &Waker) -> bool {
    ptr::eq(waker.vtable(), &WAKER)
}

/// A copy of a waker that [is ours](is_ours).
#[inline(always)]
pub(crate) fn clone_ours(waker: &Waker) -> Waker {
    debug_assert!(is_ours(waker));
    // SAFETY: our vtable's data is a frame, which the waker keeps alive; the
    // copy is counted.
    unsafe {
        count_clone(frame_of(waker.data()));
        Waker::new(waker.data(), &WAKER)
    }
}

/// The waker of a thread, for its runner.
///
/// # Safety
/// The caller owns the reference that it takes over, or never drops it.
#[inline(always)]
pub(crate) unsafe fn waker_of(frame: NonNull<Header>) -> Waker {
    // SAFETY: `WAKER`'s functions take such pointers; the caller's contract.
    unsafe { Waker::new(frame.as_ptr().cast(), &WAKER) }
}

/// # Safety
/// The caller has a reference.
#[inline(always)]
unsafe fn count_clone(frame: NonNull<Header>) {
    // SAFETY: the caller's reference; `local_refs` is the runner's.
    unsafe {
        if is_running(frame) {
            borrow(frame.as_ref());
        } else {
            frame.as_ref().state.retain();
        }
    }
}

/// The runner counts a reference, plainly while the number is sane.
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
    // SAFETY: never null.
    unsafe { NonNull::new_unchecked(data.cast_mut().cast()) }
}

/// Wakes a thread, as its waker does.
///
/// # Safety
/// The caller has a reference.
pub(crate) unsafe fn wake_by(frame: NonNull<Header>) {
    // SAFETY: the caller's contract.
    unsafe { wake_frame::<false>(frame, Turn::Soon, || false) };
}

/// # Safety
/// The caller has a reference; with `GIVE_UP` it goes.
#[inline(always)]
unsafe fn wake_frame<const GIVE_UP: bool>(frame: NonNull<Header>, turn: Turn, attach: impl FnOnce() -> bool) {
    // SAFETY: the caller's reference.
    let header = unsafe { frame.as_ref() };
    // SAFETY: a frame's machine lives as long as the frame, and never changes.
    let last = unsafe { &*header.vp.load(Ordering::Relaxed) };
    if let Some(vp) = Vp::current().filter(|vp| vp.is_of_same_machine(last)) {
        // SAFETY: `vp` is current and of the frame's machine; the token is
        // ours where we are told so.
        unsafe {
            if header.state.wake_local(&header.rest, &vp.home) {
                if GIVE_UP {
                    give_back(header);
                }
                return submit(vp, Ready::from_frame(frame), turn, attach);
            }
            match header.state.wake(GIVE_UP, vp.home.bits()) {
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
    // From outside: our reference keeps the machine's memory while we push.
    let token = match header.state.wake(false, 0) {
        // SAFETY: `Token` says so.
        Woken::Token => Some(unsafe { Ready::from_frame(frame) }),
        // SAFETY: the caller's reference stays.
        Woken::Elsewhere(home) => unsafe { revoke::<false>(frame, home) },
        Woken::Already | Woken::Free => None,
    };
    if let Some(thread) = token {
        // SAFETY: as for `last`. Read again: its last run is over now.
        let last = unsafe { &*header.vp.load(Ordering::Relaxed) };
        last.push(thread);
    }
    if GIVE_UP {
        // SAFETY: the caller's reference goes.
        unsafe { release(frame) };
    }
}

/// The second step of a wake of, or a claim to, a thread that may rest on
/// virtual processor `home`: its token, if it does.
///
/// # Safety
/// The caller has set REVOKING and has a reference; with `GIVE_UP` it goes.
#[cold]
unsafe fn revoke<const GIVE_UP: bool>(frame: NonNull<Header>, home: usize) -> Option<Ready> {
    // SAFETY: the caller's reference keeps the frame, which keeps its machine.
    let (header, last) = unsafe { (frame.as_ref(), &*frame.as_ref().vp.load(Ordering::Relaxed)) };
    let rested = header.state.revoke(&header.rest, last.home_of(home));
    if GIVE_UP {
        // Not given back to `local_refs`: the thread may have been seized.
        // SAFETY: the caller's reference goes.
        unsafe { release(frame) };
    }
    // SAFETY: it rested. The token keeps the frame.
    rested.then(|| unsafe { Ready::from_frame(frame) })
}

/// The holder of the token gives up a reference.
#[inline(always)]
fn give_back(header: &Header) {
    header.local_refs.set(header.local_refs.get().wrapping_sub(1));
}

/// Claims the token of a thread that waits for somebody to wake it; that of a
/// delayed one only if `delayed`.
///
/// # Safety
/// The frame's memory, and its machine, stay for the time of the call.
pub(crate) unsafe fn claim(frame: NonNull<Header>, delayed: bool) -> Option<Ready> {
    // SAFETY: the caller's contract; a frame that is in use names a virtual
    // processor of its machine (one that is not may name none). The token is
    // ours where we are told so.
    unsafe {
        let header = frame.as_ref();
        let last = header.vp.load(Ordering::Relaxed).as_ref()?;
        let vp = Vp::current().filter(|vp| vp.is_of_same_machine(last));
        let claimed = vp.is_some_and(|vp| header.state.wake_local(&header.rest, &vp.home))
            || header.state.claim(delayed);
        if claimed {
            return Some(Ready::from_frame(frame));
        }
        let home = header.state.begin_claim(vp.map_or(0, |vp| vp.home.bits()))?;
        revoke::<true>(frame, home)
    }
}

/// # Safety
/// As for [`run`].
#[inline(never)]
unsafe fn run_attached(vp: &Vp, thread: Ready) {
    vp.counters.attached.add_one();
    vp.depth.set(vp.depth.get() + 1);
    // SAFETY: the caller's contract.
    unsafe { run(vp, thread) };
    vp.depth.set(vp.depth.get() - 1);
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
            // SAFETY: the token's thread lives, so does its machine.
            let home = unsafe { &*thread.header().vp.load(Ordering::Relaxed) };
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
    Vp::current().is_some_and(|vp| ptr::eq(vp.running.get(), frame.as_ptr()))
}

unsafe fn clone_waker(data: *const ()) -> RawWaker {
    // SAFETY: the waker that is cloned keeps the frame alive.
    unsafe {
        // (Only here: copies for offers take memory each, and do not fit into it so often.)
        frame_of(data).as_ref().state.bound_references();
        count_clone(frame_of(data));
    }
    RawWaker::new(data, &WAKER)
}

unsafe fn wake(data: *const ()) {
    // SAFETY: the waker's reference is given up.
    unsafe { wake_frame::<true>(frame_of(data), Turn::Soon, || false) };
}

unsafe fn wake_by_ref(data: *const ()) {
    // SAFETY: the waker keeps its reference.
    unsafe { wake_frame::<false>(frame_of(data), Turn::Soon, || false) };
}

unsafe fn drop_waker(data: *const ()) {
    // SAFETY: the waker's reference is given up; `local_refs` is the runner's.
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
