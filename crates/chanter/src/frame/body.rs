//! Bodies, the content of a frame after its header, and how they are polled.
//!
//! A parasite's body is its future alone. A host's body is its future, and then its result, with
//! the queue of its joiners.

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

/// Shows the result of a thread in its place.
pub(crate) type Look = unsafe fn(NonNull<Header>) -> Result<NonNull<()>, NonNull<JoinError>>;

/// The operations on a body with its type erased. The runner calls those that change the future;
/// the others are called as their comments say, while the caller keeps the frame.
#[derive(Debug)]
pub(crate) struct Vtable {
    /// Polls the future. On `Ready` the future is gone, and the result is in its place.
    pub(crate) poll: unsafe fn(NonNull<Header>, &mut Context<'_>) -> Poll<()>,
    /// Polls the future as `poll` does, but writes a value to the given place, which has the
    /// value's type.
    pub(crate) evaluate: unsafe fn(NonNull<Header>, &mut Context<'_>, *mut ()) -> Evaluated,
    /// Drops the future and leaves `Cancelled` as the result.
    pub(crate) cancel: unsafe fn(NonNull<Header>),
    /// Drops the future and leaves a value as the result. The value is moved out of the given
    /// place, which has the handle's type.
    pub(crate) terminate: unsafe fn(NonNull<Header>, *mut ()),
    /// Moves the result out, to a `Result<T, JoinError>`: for the caller that set TAKEN.
    pub(crate) take: unsafe fn(NonNull<Header>, *mut ()),
    /// The place of the value, or of the failure, of a complete thread: for a caller that set LENT.
    pub(crate) look: Look,
    /// Drops the remains of a complete body before its frame is freed.
    pub(crate) drop_frame: unsafe fn(NonNull<Header>),
    /// True if a future that is left may hold other threads, to any depth: see `deferred_drop.rs`.
    pub(crate) holds: bool,
    /// True if a complete body leaves nothing behind, so that its frame is freed without a drop.
    pub(crate) needs_no_drop: bool,
    /// The waiters for the result, if the body can have any: a [`Completion`].
    pub(crate) joiners: unsafe fn(NonNull<Header>) -> Option<NonNull<()>>,
    /// [`Completion::complete`] of these waiters. The caller has a reference.
    pub(crate) complete_all: unsafe fn(NonNull<Header>),
    /// The size of the frame in bytes. Data inside the frame belongs to the thread.
    pub(crate) size: usize,
    /// The attributes that the thread was given at its spawn, if it was given any.
    pub(crate) attributes: unsafe fn(NonNull<Header>) -> Option<NonNull<Lock<Attributes>>>,
    /// The thread's name, if it was given one.
    pub(crate) name: unsafe fn(NonNull<Header>) -> Option<NonNull<Arc<str>>>,
    /// The name of the future's type.
    pub(crate) body: fn() -> &'static str,
}

/// The waiters for the end of a host. They lie in its frame.
pub(crate) trait Completion {
    /// Nobody.
    fn new() -> Self;

    /// Wakes all waiters of a thread that is complete.
    fn complete(&self);
}

/// The outcome of a future that was polled for its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Evaluated {
    /// The future is pending.
    Blocked,
    /// The future is gone, and its value is in the given place.
    Value,
    /// The future is gone, and the failure is the thread's result.
    Failed,
}

impl Vtable {
    /// Whether this is [`NONE`].
    pub(crate) fn is_none(&self) -> bool {
        self.size == 0
    }
}

/// The vtable of a frame that holds no body yet.
pub(crate) const NONE: &Vtable = &Vtable {
    poll: |_, _| Poll::Ready(()),
    evaluate: |_, _, _| Evaluated::Blocked,
    cancel: |_| (),
    terminate: |_, _| (),
    take: |_, _| (),
    look: |_| unreachable!("a body without a result"),
    drop_frame: |_| (),
    holds: false,
    needs_no_drop: false,
    joiners: |_| None,
    complete_all: |_| (),
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

/// A host's frame. It is made part by part and used through its address, because it is shared
/// before it is whole.
#[repr(C)]
pub(crate) struct HostFrame<F: Future, J> {
    pub(crate) header: Header,
    pub(crate) joiners: J,
    /// Written by the runner until the thread is complete, then by the caller that set TAKEN.
    body: Body<F>,
}

/// The future or the result; the state word says which of them is there: see [`Left`].
union Body<F: Future> {
    future: ManuallyDrop<F>,
    result: ManuallyDrop<Result<F::Output, JoinError>>,
}

/// Whether a frame type fits an arena's classes. If it does not, its future is boxed.
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

    /// Polls the future, and drops it and its output when it is ready. A panic counts as ready and
    /// is reported.
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
        // The payload is the one that unwinds the fiber on whose stack the thread ran.
        // SAFETY: the caller keeps the frame.
        return unsafe { cancelled(frame) };
    }
    // SAFETY: the caller keeps the frame.
    JoinError::panicked_in(payload, unsafe { about(frame) })
}

/// # Safety
/// The caller keeps the frame.
#[cold]
unsafe fn cancelled(frame: NonNull<Header>) -> JoinError {
    // SAFETY: the caller keeps the frame.
    JoinError::cancelled_in(unsafe { about(frame) })
}

#[cold]
fn parasite_panicked(payload: Box<dyn Any + Send>, frame: NonNull<Header>, vtable: &'static Vtable) {
    // SAFETY: the caller is the runner, so the frame lives. A frame that has never blocked does not
    // know its vtable, and may be fresh again. So the vtable is lent to it for the description.
    let whose = unsafe {
        let before = frame.as_ref().vtable.get();
        let is_lent = before.is_none();
        if is_lent {
            frame.as_ref().vtable.set(vtable);
        }
        let whose = describe("a parasite", frame);
        if is_lent {
            frame.as_ref().vtable.set(before);
        }
        whose
    };
    JoinError::panicked(payload).report(&whose);
}

/// Runs `f` and reports a panic: for destructors and foreign wakers, which belong to no thread that
/// could report it.
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
        look: Self::look,
        drop_frame: Self::drop_frame,
        holds: std::mem::needs_drop::<F>() || std::mem::needs_drop::<F::Output>(),
        joiners: Self::joiners,
        complete_all: Self::complete_all,
        size: size_of::<Self>(),
        body: type_name::<F>,
        ..*NONE
    };

    /// The vtable of delayed threads. It is a separate one, because a future's `poll` is not
    /// inlined if it has two callers.
    pub(crate) const DELAYED_VTABLE: &'static Vtable = &Vtable { evaluate: Self::evaluate, ..*Self::VTABLE };

    /// Makes a host. Its future is moved first, and only once, to its final place.
    ///
    /// # Safety
    /// The caller has exclusive use of `frame`, which is large enough.
    #[inline(always)]
    pub(crate) unsafe fn write(frame: NonNull<Header>, header: Header, future: F) {
        let place = frame.cast::<Self>().as_ptr();
        // SAFETY: the caller has exclusive use of the frame, which is large enough for `Self`.
        unsafe {
            Self::future(frame).write(future);
            (&raw mut (*place).joiners).write(J::new());
            frame.write(header);
        }
    }

    /// A pointer to the future. Only the runner uses it.
    #[inline(always)]
    fn future(frame: NonNull<Header>) -> *mut F {
        // SAFETY: only the address is taken.
        unsafe { (&raw mut (*frame.cast::<Self>().as_ptr()).body.future).cast() }
    }

    /// The result: for the completer, and then for the caller that set TAKEN.
    #[inline(always)]
    fn result(frame: NonNull<Header>) -> *mut Result<F::Output, JoinError> {
        // SAFETY: only the address is taken.
        unsafe { (&raw mut (*frame.cast::<Self>().as_ptr()).body.result).cast() }
    }

    unsafe fn poll(frame: NonNull<Header>, cx: &mut Context<'_>) -> Poll<()> {
        // SAFETY: the caller is the runner.
        let result = match unsafe { Self::poll_future(frame, cx) } {
            Ok(Poll::Pending) => return Poll::Pending,
            Ok(Poll::Ready(value)) => Ok(value),
            // SAFETY: the caller is the runner, and so keeps the frame.
            Err(payload) => Err(unsafe { panicked(payload, frame) }),
        };
        // SAFETY: the caller is the runner, and the thread is not complete.
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
                // SAFETY: the caller is the runner, and the thread is not complete.
                unsafe { Self::drop_future(frame) };
                Evaluated::Value
            }
            Err(payload) => {
                // SAFETY: the caller is the runner, and so keeps the frame; the thread is not
                // complete.
                unsafe { Self::settle(frame, Err(panicked(payload, frame))) };
                Evaluated::Failed
            }
        }
    }

    /// Polls the future and returns the outcome unchanged: small values then stay in registers.
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

    /// Drops the future, and puts `result` in its place.
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

    /// Drops the future, and puts nothing in its place.
    ///
    /// # Safety
    /// As for [`HostFrame::settle`].
    #[inline(always)]
    unsafe fn drop_future(frame: NonNull<Header>) {
        if std::mem::needs_drop::<F>() {
            // SAFETY: the runner has exclusive use of the future. It is dropped in place, since it
            // is pinned, and never again, even if its destructor panics.
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
        // SAFETY: the caller frees the frame, so nobody else refers to it. Joiners hold references,
        // so they are gone.
        unsafe {
            match frame.as_ref().state.left() {
                Left::Future => Self::drop_future(frame),
                Left::Result => Self::drop_result(frame, Self::result(frame).read()),
                Left::Seen => catch_panic(|| drop(Self::result(frame).read())),
                Left::Nothing => (),
            }
            std::ptr::drop_in_place(&raw mut (*frame.cast::<Self>().as_ptr()).joiners);
        }
    }

    /// Drops a result that nobody took, and reports a panic.
    #[inline(always)]
    fn drop_result(frame: NonNull<Header>, result: Result<F::Output, JoinError>) {
        match result {
            Ok(value) if std::mem::needs_drop::<F::Output>() => catch_panic(|| drop(value)),
            Ok(_) => (),
            Err(error) if error.is_panic() => {
                // SAFETY: the caller is about to free the frame, so it still lives.
                error.report(&unsafe { describe("a thread that nobody joined", frame) });
            }
            Err(_) => (),
        }
    }

    unsafe fn take(frame: NonNull<Header>, place: *mut ()) {
        // SAFETY: the caller set TAKEN, and `place` has the result's type.
        unsafe { place.cast::<Result<F::Output, JoinError>>().write(Self::result(frame).read()) };
    }

    unsafe fn look(frame: NonNull<Header>) -> Result<NonNull<()>, NonNull<JoinError>> {
        // SAFETY: the caller set LENT after the completion, so the result is there, and nobody changes it.
        match unsafe { &*Self::result(frame) } {
            Ok(value) => Ok(NonNull::from(value).cast()),
            Err(error) => Err(NonNull::from(error)),
        }
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

    unsafe fn complete_all(frame: NonNull<Header>) {
        // SAFETY: the caller has a reference.
        unsafe { Self::completion(frame).as_ref() }.complete();
    }
}

impl<T, F: Future<Output = Box<T>>, J: Completion> HostFrame<F, J> {
    /// The vtable for bodies that are too large for a frame. The handle expects a `T`, the future
    /// returns a `Box<T>`.
    pub(crate) const BOXED_VTABLE: &'static Vtable = &Vtable {
        terminate: Self::terminate_unboxed,
        take: Self::take_unboxed,
        look: Self::look_unboxed,
        ..*Self::VTABLE
    };

    /// The vtable for delayed threads whose body is too large for a frame.
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

    unsafe fn look_unboxed(frame: NonNull<Header>) -> Result<NonNull<()>, NonNull<JoinError>> {
        // SAFETY: the caller set LENT after the completion, so the result is there, and nobody changes it.
        match unsafe { &*Self::result(frame) } {
            Ok(value) => Ok(NonNull::from(&**value).cast()),
            Err(error) => Err(NonNull::from(error)),
        }
    }

    unsafe fn take_unboxed(frame: NonNull<Header>, place: *mut ()) {
        // SAFETY: the caller set TAKEN, and `place` has the handle's type.
        unsafe { place.cast::<Result<T, JoinError>>().write(Self::result(frame).read().map(|value| *value)) };
    }
}
