//! Bodies: what a frame holds after its header, and how it is polled.
//!
//! A parasite's body is its future alone. A host's body is its future, then
//! its result, and the queue of those who wait for it.

use std::any::{Any, type_name};
use std::future::Future;
use std::mem::ManuallyDrop;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::ptr::NonNull;
use std::sync::Arc;
use std::task::{Context, Poll};

use super::about::{about, describe};
use super::attributes::Attributes;
use super::error::JoinError;
use super::header::Header;
use super::schedule::scheduler;
use super::slab::{ALIGN, LARGEST};
use super::state::Left;
use crate::sync::Lock;

/// How to handle a body whose type is forgotten. Each function is called by
/// the runner only.
#[derive(Debug)]
pub(crate) struct Vtable {
    /// Polls the future; on `Ready` it is gone and the result in its place.
    pub(crate) poll: unsafe fn(NonNull<Header>, &mut Context<'_>) -> Poll<()>,
    /// As `poll`, but a value goes to a place of its type.
    pub(crate) evaluate: unsafe fn(NonNull<Header>, &mut Context<'_>, *mut ()) -> Evaluated,
    /// Drops the future and leaves `Cancelled` as the result.
    pub(crate) cancel: unsafe fn(NonNull<Header>),
    /// Drops the future and leaves the value that is moved out of a place, whose
    /// type is the handle's, as the result.
    pub(crate) terminate: unsafe fn(NonNull<Header>, *mut ()),
    /// Moves the result out, to a `Result<T, JoinError>`: for whoever set
    /// TAKEN.
    pub(crate) take: unsafe fn(NonNull<Header>, *mut ()),
    /// Drops what is left of a complete body before its frame is freed.
    pub(crate) drop_frame: unsafe fn(NonNull<Header>),
    /// What is left may be of any depth: see `deferred_drop.rs`.
    pub(crate) holds: bool,
    /// Nothing is left of a complete body: there is nothing to bury.
    pub(crate) needs_no_drop: bool,
    /// Those who wait for the result, if the body can have any: a [`Completion`].
    pub(crate) joiners: unsafe fn(NonNull<Header>) -> Option<NonNull<()>>,
    /// [`Completion::complete_owner`] of those.
    pub(crate) complete_owner: unsafe fn(NonNull<Header>),
    /// [`Completion::complete_all`] of those.
    pub(crate) complete_all: unsafe fn(NonNull<Header>, bool),
    /// The size of the frame in bytes: what lies in it belongs to the thread.
    pub(crate) size: usize,
    /// What was said of the thread at its spawn, if anything was.
    pub(crate) attributes: unsafe fn(NonNull<Header>) -> Option<NonNull<Lock<Attributes>>>,
    /// Its name, if it was given one.
    pub(crate) name: unsafe fn(NonNull<Header>) -> Option<NonNull<Arc<str>>>,
    /// The type of the future.
    pub(crate) body: fn() -> &'static str,
}

/// Those who wait for the end of a host. They lie in its frame.
pub(crate) trait Completion {
    /// Nobody.
    fn new() -> Self;

    /// The thread is complete: wakes the owner waiter, who alone waits.
    ///
    /// # Safety
    /// The caller completed the thread and found HEIR; once. Afterwards the frame may be gone.
    unsafe fn complete_owner(this: NonNull<Self>);

    /// The thread is complete: wakes all who wait.
    ///
    /// # Safety
    /// As for `complete_owner` if `inherited`; the caller has a reference.
    unsafe fn complete_all(&self, inherited: bool);
}

/// What became of a future that was polled for its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Evaluated {
    /// It is not over.
    Blocked,
    /// It is gone, and its value in its place.
    Value,
    /// It is gone, and the failure is the thread's result.
    Failed,
}

/// The vtable of a frame that holds no body yet.
pub(crate) const NONE: &Vtable = &Vtable {
    poll: |_, _| Poll::Ready(()),
    evaluate: |_, _, _| Evaluated::Blocked,
    cancel: |_| (),
    terminate: |_, _| (),
    take: |_, _| (),
    drop_frame: |_| (),
    holds: false,
    needs_no_drop: false,
    joiners: |_| None,
    complete_owner: |_| (),
    complete_all: |_, _| (),
    size: 0,
    attributes: |_| None,
    name: |_| None,
    body: || "",
};

/// A parasite's frame.
#[repr(C)]
pub(crate) struct ParasiteFrame<F> {
    pub(crate) header: Header,
    pub(crate) future: ManuallyDrop<F>,
}

/// A host's frame. Made part by part, and used through its address, since it
/// is shared before it is whole.
#[repr(C)]
pub(crate) struct HostFrame<F: Future, J> {
    pub(crate) header: Header,
    pub(crate) joiners: J,
    /// Written by the runner until complete, then by whoever set TAKEN.
    body: Body<F>,
}

/// The state word says which of them is there: see [`Left`].
union Body<F: Future> {
    future: ManuallyDrop<F>,
    result: ManuallyDrop<Result<F::Output, JoinError>>,
}

/// Whether a frame type fits an arena's classes; if not, its future is boxed.
pub(crate) const fn fits<T>() -> bool {
    size_of::<T>() <= LARGEST && align_of::<T>() <= ALIGN
}

impl<F: Future> ParasiteFrame<F> {
    pub(crate) const VTABLE: &'static Vtable = &Vtable {
        poll: Self::poll,
        cancel: Self::cancel,
        needs_no_drop: true,
        size: size_of::<Self>(),
        body: type_name::<F>,
        ..*NONE
    };

    /// Polls the future and drops it, and its output, when it is ready; a
    /// panic counts as ready and is reported.
    ///
    /// # Safety
    /// The caller is the runner of this frame.
    #[inline(always)]
    pub(crate) unsafe fn poll(frame: NonNull<Header>, cx: &mut Context<'_>) -> Poll<()> {
        let body = frame.cast::<Self>().as_ptr();
        let mut alive = true;
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            // SAFETY: the runner has exclusive use of the future, which never
            // moves; it is dropped once, after its last poll.
            unsafe {
                let future = &mut (*body).future;
                let poll = Pin::new_unchecked(&mut **future).poll(cx);
                if poll.is_ready() {
                    alive = false;
                    ManuallyDrop::drop(future);
                }
                // The output is dropped here, where a panic is caught.
                poll.map(drop)
            }
        }));
        outcome.unwrap_or_else(|payload| {
            if alive {
                // SAFETY: the poll panicked before the future was dropped.
                unsafe { Self::cancel(frame) };
            }
            parasite_panicked(payload, frame, Self::VTABLE);
            Poll::Ready(())
        })
    }

    unsafe fn cancel(frame: NonNull<Header>) {
        let frame = frame.cast::<Self>().as_ptr();
        // SAFETY: the runner drops the future, once.
        catch_panic(|| unsafe { ManuallyDrop::drop(&mut (*frame).future) });
    }
}

/// # Safety
/// The caller keeps the frame.
#[cold]
unsafe fn panicked(payload: Box<dyn Any + Send>, frame: NonNull<Header>) -> JoinError {
    if scheduler().is_some_and(|scheduler| scheduler.is_unwinding()) {
        // What unwinds the fiber on whose stack it ran.
        // SAFETY: the caller's contract.
        return unsafe { cancelled(frame) };
    }
    // SAFETY: the caller's contract.
    JoinError::panicked_in(payload, unsafe { about(frame) })
}

/// # Safety
/// The caller keeps the frame.
#[cold]
unsafe fn cancelled(frame: NonNull<Header>) -> JoinError {
    // SAFETY: the caller's contract.
    JoinError::cancelled_in(unsafe { about(frame) })
}

#[cold]
fn parasite_panicked(payload: Box<dyn Any + Send>, frame: NonNull<Header>, vtable: &'static Vtable) {
    // SAFETY: its runner calls. A frame that has never blocked does not know its vtable, and may be fresh again.
    let whose = unsafe {
        let before = frame.as_ref().vtable.replace(vtable);
        let whose = describe("a parasite", frame);
        frame.as_ref().vtable.set(before);
        whose
    };
    JoinError::panicked(payload).report(&whose);
}

/// Runs `f` and reports a panic: for destructors and foreign wakers, which
/// nobody can answer for.
pub(crate) fn catch_panic(f: impl FnOnce()) {
    if let Err(payload) = catch_unwind(AssertUnwindSafe(f)) {
        JoinError::panicked(payload).report("a destructor or a foreign waker");
    }
}

impl<F: Future, J: Completion> HostFrame<F, J> {
    pub(crate) const VTABLE: &'static Vtable = &Vtable {
        poll: Self::poll,
        cancel: Self::cancel,
        terminate: Self::terminate,
        take: Self::take,
        drop_frame: Self::drop_frame,
        holds: std::mem::needs_drop::<F>() || std::mem::needs_drop::<F::Output>(),
        joiners: Self::joiners,
        complete_owner: Self::complete_owner,
        complete_all: Self::complete_all,
        size: size_of::<Self>(),
        body: type_name::<F>,
        ..*NONE
    };

    /// For delayed threads. One of their own, since two callers of a future's
    /// `poll` keep it from being inlined.
    pub(crate) const DELAYED_VTABLE: &'static Vtable = &Vtable { evaluate: Self::evaluate, ..*Self::VTABLE };

    /// Makes a host, whose future is moved to its place first, and once.
    ///
    /// # Safety
    /// `frame` is the caller's, and large enough.
    #[inline(always)]
    pub(crate) unsafe fn write(frame: NonNull<Header>, header: Header, future: F) {
        let place = frame.cast::<Self>().as_ptr();
        // SAFETY: the caller's contract.
        unsafe {
            Self::future(frame).write(future);
            (&raw mut (*place).joiners).write(J::new());
            frame.write(header);
        }
    }

    /// The future, for the runner.
    #[inline(always)]
    fn future(frame: NonNull<Header>) -> *mut F {
        // SAFETY: only the address is taken.
        unsafe { (&raw mut (*frame.cast::<Self>().as_ptr()).body.future).cast() }
    }

    /// The result, for the completer, and then for whoever set TAKEN.
    #[inline(always)]
    fn result(frame: NonNull<Header>) -> *mut Result<F::Output, JoinError> {
        // SAFETY: as above.
        unsafe { (&raw mut (*frame.cast::<Self>().as_ptr()).body.result).cast() }
    }

    unsafe fn poll(frame: NonNull<Header>, cx: &mut Context<'_>) -> Poll<()> {
        // SAFETY: the caller is the runner.
        let result = match unsafe { Self::poll_future(frame, cx) } {
            Ok(Poll::Pending) => return Poll::Pending,
            Ok(Poll::Ready(value)) => Ok(value),
            // SAFETY: as above.
            Err(payload) => Err(unsafe { panicked(payload, frame) }),
        };
        // SAFETY: as above.
        unsafe { Self::settle(frame, result) };
        Poll::Ready(())
    }

    unsafe fn evaluate(frame: NonNull<Header>, cx: &mut Context<'_>, place: *mut ()) -> Evaluated {
        // SAFETY: the caller is the runner; `place` has the output's type.
        unsafe { Self::evaluate_to(frame, cx, |value| place.cast::<F::Output>().write(value)) }
    }

    /// # Safety
    /// The caller is the runner.
    #[inline(always)]
    unsafe fn evaluate_to(
        frame: NonNull<Header>,
        cx: &mut Context<'_>,
        keep: impl FnOnce(F::Output),
    ) -> Evaluated {
        // SAFETY: the caller is the runner.
        match unsafe { Self::poll_future(frame, cx) } {
            Ok(Poll::Pending) => Evaluated::Blocked,
            Ok(Poll::Ready(value)) => {
                keep(value);
                // SAFETY: as above.
                unsafe { Self::drop_future(frame) };
                Evaluated::Value
            }
            Err(payload) => {
                // SAFETY: as above.
                unsafe { Self::settle(frame, Err(panicked(payload, frame))) };
                Evaluated::Failed
            }
        }
    }

    /// The outcome as it is, since small values then stay in registers.
    ///
    /// # Safety
    /// The caller is the runner, and the thread is not complete.
    #[inline(always)]
    unsafe fn poll_future(
        frame: NonNull<Header>,
        cx: &mut Context<'_>,
    ) -> std::thread::Result<Poll<F::Output>> {
        catch_unwind(AssertUnwindSafe(|| {
            // SAFETY: the runner has exclusive use of the future, which never
            // moves while it is pinned.
            unsafe { Pin::new_unchecked(&mut *Self::future(frame)) }.poll(cx)
        }))
    }

    /// The future ends, and `result` takes its place.
    ///
    /// # Safety
    /// The caller is the runner, and the thread is not complete.
    #[inline(always)]
    unsafe fn settle(frame: NonNull<Header>, result: Result<F::Output, JoinError>) {
        // SAFETY: the runner has exclusive use of the body.
        unsafe {
            Self::drop_future(frame);
            Self::result(frame).write(result);
        }
    }

    /// The future ends, and nothing takes its place.
    ///
    /// # Safety
    /// As for [`HostFrame::settle`].
    #[inline(always)]
    unsafe fn drop_future(frame: NonNull<Header>) {
        if std::mem::needs_drop::<F>() {
            // SAFETY: the runner has exclusive use of the future; dropped in
            // place, since it is pinned, and never again, even if that panics.
            catch_panic(|| unsafe { std::ptr::drop_in_place(Self::future(frame)) });
        }
    }

    unsafe fn cancel(frame: NonNull<Header>) {
        // SAFETY: the caller is the runner.
        unsafe { Self::settle(frame, Err(cancelled(frame))) };
    }

    unsafe fn terminate(frame: NonNull<Header>, place: *mut ()) {
        // SAFETY: the caller is the runner; `place` has the output's type.
        unsafe { Self::settle(frame, Ok(place.cast::<F::Output>().read())) };
    }

    unsafe fn drop_frame(frame: NonNull<Header>) {
        // SAFETY: the caller frees the frame: it is alone with it. Joiners, who
        // hold references, are gone.
        unsafe {
            match frame.as_ref().state.left() {
                Left::Future => Self::drop_future(frame),
                Left::Result => Self::drop_result(frame, Self::result(frame).read()),
                Left::Nothing => (),
            }
            std::ptr::drop_in_place(&raw mut (*frame.cast::<Self>().as_ptr()).joiners);
        }
    }

    /// Drops what nobody took, and reports a panic.
    #[inline(always)]
    fn drop_result(frame: NonNull<Header>, result: Result<F::Output, JoinError>) {
        match result {
            Ok(value) if std::mem::needs_drop::<F::Output>() => catch_panic(|| drop(value)),
            Ok(_) => (),
            Err(error) if error.is_panic() => {
                // SAFETY: the caller has the frame.
                error.report(&unsafe { describe("a thread that nobody joined", frame) });
            }
            Err(_) => (),
        }
    }

    unsafe fn take(frame: NonNull<Header>, place: *mut ()) {
        // SAFETY: the caller set TAKEN, and `place` has the result's type.
        unsafe { place.cast::<Result<F::Output, JoinError>>().write(Self::result(frame).read()) };
    }

    unsafe fn joiners(frame: NonNull<Header>) -> Option<NonNull<()>> {
        // SAFETY: the frame lives while the caller refers to it.
        Some(unsafe { Self::completion(frame) }.cast())
    }

    /// # Safety
    /// The frame lives.
    #[inline(always)]
    unsafe fn completion(frame: NonNull<Header>) -> NonNull<J> {
        // SAFETY: only the address is taken, which is not null.
        unsafe { NonNull::new_unchecked(&raw mut (*frame.cast::<Self>().as_ptr()).joiners) }
    }

    unsafe fn complete_owner(frame: NonNull<Header>) {
        // SAFETY: the caller's contract is that of `Completion`.
        unsafe { J::complete_owner(Self::completion(frame)) };
    }

    unsafe fn complete_all(frame: NonNull<Header>, inherited: bool) {
        // SAFETY: the caller has a reference, and its contract is that of `Completion`.
        unsafe { Self::completion(frame).as_ref().complete_all(inherited) };
    }
}

impl<T, F: Future<Output = Box<T>>, J: Completion> HostFrame<F, J> {
    /// For bodies that are too large for a frame: the handle expects a `T`.
    pub(crate) const BOXED_VTABLE: &'static Vtable =
        &Vtable { terminate: Self::terminate_unboxed, take: Self::take_unboxed, ..*Self::VTABLE };

    /// For those that are delayed, too.
    pub(crate) const BOXED_DELAYED_VTABLE: &'static Vtable =
        &Vtable { evaluate: Self::evaluate_unboxed, ..*Self::BOXED_VTABLE };

    unsafe fn evaluate_unboxed(frame: NonNull<Header>, cx: &mut Context<'_>, place: *mut ()) -> Evaluated {
        // SAFETY: the caller is the runner; `place` has the handle's type.
        unsafe { Self::evaluate_to(frame, cx, |value| place.cast::<T>().write(*value)) }
    }

    unsafe fn terminate_unboxed(frame: NonNull<Header>, place: *mut ()) {
        // SAFETY: the caller is the runner; `place` has the handle's type.
        unsafe { Self::settle(frame, Ok(Box::new(place.cast::<T>().read()))) };
    }

    unsafe fn take_unboxed(frame: NonNull<Header>, place: *mut ()) {
        // SAFETY: the caller set TAKEN, and `place` has the handle's type.
        unsafe { place.cast::<Result<T, JoinError>>().write(Self::result(frame).read().map(|value| *value)) };
    }
}
