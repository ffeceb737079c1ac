//! Probes: the poll of a blocked thread that asks what it waits for. The caller keeps its token.
//!
//! The waker of a probe is *masked*: it wakes the same thread, but no future can have seen it
//! before. So a future that waits for something foreign must clone it ("only the waker of the
//! latest poll should be woken"). The clone is noticed. The clone is an ordinary waker. Our own
//! synchronizations look behind the mask and clone nothing.

use std::mem::ManuallyDrop;
use std::ptr;
use std::task::{Context, Poll, RawWaker, RawWakerVTable, Waker};

use super::Worker;
use super::apply::apply;
use super::run::{arrive, settle};
use super::wake::WAKER;
use crate::frame::report::Waits;
use crate::frame::state::Begun;
use crate::policy::Ready;

/// The vtable of a borrowed waker: only its clones own a reference.
static MASKED: RawWakerVTable = RawWakerVTable::new(clone_masked, wake_masked, wake_masked, |_| ());

unsafe fn clone_masked(data: *const ()) -> RawWaker {
    if let Some(worker) = Worker::current() {
        worker.answer(|waits| waits.strangers = true);
    }
    // SAFETY: the data is a frame, as for a waker of ours, and the runner's right to the frame
    // stands for its reference. The clone is counted as any other.
    let copy = unsafe { ManuallyDrop::new(Waker::new(data, &WAKER)) }.clone();
    let copy = ManuallyDrop::new(copy);
    RawWaker::new(copy.data(), copy.vtable())
}

unsafe fn wake_masked(data: *const ()) {
    // SAFETY: the data is a frame, as for a waker of ours, and the runner's right to the frame
    // stands for its reference. A wake by reference gives nothing up.
    unsafe { ManuallyDrop::new(Waker::new(data, &WAKER)) }.wake_by_ref();
}

/// The waker behind the mask, if `waker` is masked.
pub(crate) fn unmasked(waker: &Waker) -> Option<ManuallyDrop<Waker>> {
    let masked = ptr::eq(waker.vtable(), &MASKED);
    // SAFETY: the data is a frame, as for a waker of ours. The result is borrowed, as the masked
    // waker is.
    masked.then(|| unsafe { ManuallyDrop::new(Waker::new(waker.data(), &WAKER)) })
}

/// Polls a thread with a masked waker. `Some`: it still blocks. The caller has its token, and so
/// the right to look into its frame, and must pass it to [`let_go`]. `None`: it has been woken, or
/// has ended.
///
/// # Safety
/// `worker` is the current virtual processor.
pub(crate) unsafe fn probe(worker: &Worker, thread: Ready) -> Option<Ready> {
    let frame = thread.into_frame();
    // SAFETY: the token is ours until `settle`.
    let header = unsafe { frame.as_ref() };
    arrive(worker, header);
    match header.state.begin() {
        Begun::Run => (),
        // SAFETY: we are the runner now.
        Begun::Requested => unsafe {
            if !apply(worker, frame) {
                return None;
            }
        },
        Begun::Stale | Begun::Free => unreachable!("who blocks has begun, and cannot be demanded"),
    }
    let poll = header.vtable.get().poll;
    let outer = worker.running.replace(frame.as_ptr());
    // SAFETY: `MASKED`'s functions take such pointers.
    let waker = ManuallyDrop::new(unsafe { Waker::new(frame.as_ptr().cast(), &MASKED) });
    // SAFETY: we are the runner now; bodies do not unwind.
    let result = unsafe { poll(frame, &mut Context::from_waker(&waker)) };
    worker.running.set(outer);
    if result.is_pending() && !header.state.is_notified() {
        // SAFETY: the token is still ours, since no transition of ours has given it up.
        return Some(unsafe { Ready::from_frame(frame) });
    }
    // SAFETY: we are the runner, and do not touch the frame afterwards.
    unsafe { settle(worker, frame, result) };
    None
}

/// Ends a probe: the thread goes back to its wakers, or is queued if it was woken meanwhile.
///
/// # Safety
/// `worker` is the current virtual processor, and the token comes from [`probe`].
pub(crate) unsafe fn let_go(worker: &Worker, thread: Ready) {
    // SAFETY: the token's holder is its runner.
    unsafe { settle(worker, thread.into_frame(), Poll::Pending) };
}

impl Worker {
    /// Whether a snapshot is being taken.
    pub(crate) fn is_asking(&self) -> bool {
        !self.turn.asking.get().is_null()
    }

    /// Called by a future that may be polled for a snapshot. True: it is, and the thread goes on.
    pub(crate) fn answer(&self, answer: impl FnOnce(&mut Waits)) -> bool {
        // SAFETY: set by `ask` on this OS thread, for the time of a poll; the
        // borrow ends with the call, which runs no other answer.
        let Some(waits) = (unsafe { self.turn.asking.get().as_mut() }) else { return false };
        answer(waits);
        waits.went_on
    }
}
