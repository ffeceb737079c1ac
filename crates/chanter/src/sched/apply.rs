//! The target's part of requests: a thread that is about to run first acts on its pending requests.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::ptr::NonNull;
use std::task::{Context, Poll};

use super::Worker;
use super::pending_requests::{Pending, Step, refuse};
use super::run::{complete, polling, settle};
use crate::frame::report::Waiting;
use crate::frame::{Header, JoinError, catch_panic};

/// Acts on the pending requests of a thread. True: the caller, its runner, must poll the body.
/// False: the caller must not touch the frame any more.
///
/// # Safety
/// The caller is the frame's runner and is `worker`, where the thread is.
#[cold]
#[inline(never)]
pub(crate) unsafe fn apply(worker: &Worker, frame: NonNull<Header>) -> bool {
    // SAFETY: the caller is the runner, until `settle` or `complete`.
    let header = unsafe { frame.as_ref() };
    let pending_requests = &worker.machine().pending_requests;
    loop {
        match pending_requests.step(&header.state) {
            Step::Run => return true,
            Step::Grant(Pending { hold, ask, .. }) => {
                catch_panic(|| drop(hold));
                catch_panic(|| ask.grant());
            }
            Step::Terminate(Pending { mut ask, .. }) => {
                // SAFETY: we are the runner. The value is of the thread's type, since its handle
                // has made the request, and is moved out once. The frame is not touched after it is
                // complete.
                unsafe {
                    let vtable = header.vtable.get();
                    polling(worker, frame, |_| match ask.value() {
                        Some(value) => (vtable.terminate)(frame, value.as_ptr()),
                        None => (vtable.cancel)(frame),
                    });
                    complete(frame, header.local_refs.replace(0));
                }
                catch_panic(|| ask.grant());
                return false;
            }
            Step::Poll(mut hold) => {
                // SAFETY: we are the runner.
                let poll = unsafe { polling(worker, frame, |cx| poll_contained(hold.as_mut(), cx)) };
                let mut hold = Some(hold);
                if poll.is_ready() {
                    pending_requests.arrived(&header.state);
                } else if pending_requests.wait_on(&header.state, &mut hold) {
                    // SAFETY: we are the runner, and do not touch the frame afterwards.
                    unsafe { settle(worker, frame, Poll::Pending) };
                    return false;
                }
                // The hold is dropped while the thread counts as running, because it may hold
                // wakers of the thread.
                // SAFETY: we are the runner.
                unsafe { polling(worker, frame, |_| catch_panic(|| drop(hold))) };
            }
            Step::Stay => {
                worker.answer(|waits| {
                    waits.push(Waiting::Other("its resumption"));
                    // Any holder of its handle may resume it.
                    waits.strangers = true;
                });
                // SAFETY: we are the runner, and do not touch the frame afterwards.
                unsafe { settle(worker, frame, Poll::Pending) };
                return false;
            }
        }
    }
}

fn poll_contained(hold: Pin<&mut (dyn Future<Output = ()> + Send)>, cx: &mut Context<'_>) -> Poll<()> {
    catch_unwind(AssertUnwindSafe(|| hold.poll(cx))).unwrap_or_else(|payload| {
        JoinError::panicked(payload).report("a condition that a thread was to wait for");
        Poll::Ready(())
    })
}

/// Refuses all pending requests: the thread is over, or its frame is about to be freed.
///
/// # Safety
/// The caller keeps the frame.
#[cold]
#[inline(never)]
pub(crate) unsafe fn close(frame: NonNull<Header>) {
    // SAFETY: the caller keeps the frame.
    let header = unsafe { frame.as_ref() };
    let (refused, hold) = header.machine().pending_requests.close(&header.state);
    catch_panic(|| drop(hold));
    catch_panic(|| refuse(refused));
}
