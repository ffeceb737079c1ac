//! Wakers, and what a wake does with a thread.

use std::mem::ManuallyDrop;
use std::ptr::{self, NonNull};
use std::task::{RawWaker, RawWakerVTable, Waker};

use super::run::{drop_frame, release, run};
use super::{WakePriority, Worker};
use crate::frame::state::Woken;
use crate::frame::{Header, Kind, catch_panic};
use crate::policy::Ready;

/// The waker of Chanter's threads. On the thread's own runner a clone is a
/// plain increment (see `state.rs`, `local_refs`).
pub(super) static WAKER: RawWakerVTable = RawWakerVTable::new(clone_waker, wake, wake_by_ref, drop_waker);

/// Wakes through `waker`. A parasite is attached to this stack if that is possible. Called only at
/// await points.
#[inline]
pub(crate) fn wake_attached(waker: Waker) {
    wake_here(waker, WakePriority::Soon, || true);
}

/// As [`wake_attached`], if `owner` is the thread that is polled here. Otherwise the parasite is
/// queued with the priority `turn`, as other threads are.
#[inline]
pub(crate) fn wake_at(waker: Waker, owner: &Waker, turn: WakePriority) {
    wake_here(waker, turn, || is_own(owner));
}

/// Wakes through `waker`. A thread of ours is queued with the priority `turn`.
pub(crate) fn wake_next(waker: Waker, turn: WakePriority) {
    if is_ours(&waker) {
        wake_here(waker, turn, || false);
    } else {
        waker.wake();
    }
}

#[inline(always)]
fn wake_here(waker: Waker, turn: WakePriority, attach: impl FnOnce() -> bool) {
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
    unsafe { wake_frame::<false>(frame, WakePriority::Soon, || false) };
}

/// # Safety
/// The caller has a reference; with `GIVE_UP` it is given up.
#[inline(always)]
unsafe fn wake_frame<const GIVE_UP: bool>(
    frame: NonNull<Header>,
    turn: WakePriority,
    attach: impl FnOnce() -> bool,
) {
    // SAFETY: the caller has a reference, which keeps the frame.
    let header = unsafe { frame.as_ref() };
    // SAFETY: a frame's machine, and so the virtual processor that it names, lives as long as the
    // frame.
    let last = unsafe { &*header.address() };
    if let Some(worker) = Worker::current().filter(|worker| last.is_of_same_machine(worker.processor())) {
        // SAFETY: `worker` is current and of the frame's machine. The token is ours where the state
        // word says so, and `Free` makes the frame ours.
        unsafe {
            match header.state.wake(GIVE_UP) {
                Woken::Token => submit(worker, Ready::from_frame(frame), turn, attach),
                Woken::Already => (),
                Woken::Free => drop_frame(frame),
            }
        }
        return;
    }
    // The wake comes from outside of the machine. Our reference keeps the machine's memory while we
    // push.
    if header.state.wake(false) == Woken::Token {
        // SAFETY: `Token` says that the token is ours.
        let thread = unsafe { Ready::from_frame(frame) };
        // SAFETY: the frame keeps its machine, and so every virtual processor that it names. The
        // pointer is read again, since the thread's last run is over only now.
        let last = unsafe { &*header.address() };
        last.push(thread);
    }
    if GIVE_UP {
        // SAFETY: the caller has a reference, and gives it up.
        unsafe { release(frame) };
    }
}

/// Claims the token of a thread that waits for a wake; with `delayed` also that of a delayed
/// thread.
///
/// # Safety
/// The frame's memory, and its machine, stay for the time of the call.
pub(crate) unsafe fn claim(frame: NonNull<Header>, delayed: bool) -> Option<Ready> {
    // SAFETY: the frame's memory stays for the time of the call. The token is ours where the state word says so.
    unsafe { frame.as_ref().state.claim(delayed).then(|| Ready::from_frame(frame)) }
}

/// # Safety
/// As for [`run`].
#[inline(never)]
unsafe fn run_attached(worker: &Worker, thread: Ready) {
    worker.counters().attached.add_one();
    worker.depth.set(worker.depth.get() + 1);
    // SAFETY: `worker` is the current virtual processor.
    unsafe { run(worker, thread) };
    worker.depth.set(worker.depth.get() - 1);
}

#[inline(always)]
fn submit(worker: &Worker, thread: Ready, turn: WakePriority, attach: impl FnOnce() -> bool) {
    match thread.kind() {
        Kind::Parasite if worker.may_attach() && attach() => {
            // SAFETY: `worker` is current.
            unsafe { run_attached(worker, thread) };
        }
        Kind::Parasite | Kind::Host => worker.enqueue_woken(thread, turn),
        Kind::Pinned | Kind::Local => {
            // SAFETY: the token keeps its frame, and the frame keeps its machine.
            let at = unsafe { &*thread.header().address() };
            if worker.is_at(at) {
                worker.enqueue_woken(thread, turn);
            } else {
                at.push(thread);
            }
        }
    }
}

/// Whether `frame` is the thread that this OS thread polls right now.
#[inline(always)]
fn is_running(frame: NonNull<Header>) -> bool {
    Worker::current().is_some_and(|worker| ptr::eq(worker.running.get(), frame.as_ptr()))
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
    unsafe { wake_frame::<true>(frame_of(data), WakePriority::Soon, || false) };
}

unsafe fn wake_by_ref(data: *const ()) {
    // SAFETY: the waker keeps its reference.
    unsafe { wake_frame::<false>(frame_of(data), WakePriority::Soon, || false) };
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
