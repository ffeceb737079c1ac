//! The door of each function: panics stay inside, results become codes, and cancelled threads leave.

use std::any::Any;
use std::ffi::c_int;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use chanter::{Event, always, choose_biased};

use crate::current::{self, Current, Place};

/// The result of a call within the door: an `errno` code, if it failed.
pub(crate) type Done<T = ()> = Result<T, c_int>;

/// Runs the body of a function of the interface.
#[inline(always)]
pub(crate) fn door(body: impl FnOnce() -> Done) -> c_int {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(())) => 0,
        Ok(Err(code)) => code,
        Err(payload) => unwound(payload),
    }
}

/// The body has unwound: by a panic, or because the calling fiber is being ended.
#[cold]
#[inline(never)]
fn unwound(payload: Box<dyn Any + Send>) -> c_int {
    if is_panic(&*payload) {
        return libc::EFAULT;
    }
    drop(payload);
    // All that the body owned was dropped when it unwound. So nothing but plain frames is left.
    current::cancelled();
    libc::ECANCELED
}

/// Panics of the library have a text, and were reported by the hook. The end of a fiber has another payload.
fn is_panic(payload: &(dyn Any + Send)) -> bool {
    payload.is::<&'static str>() || payload.is::<String>()
}

/// A part of a body that has unwound.
pub(crate) struct Unwound(Box<dyn Any + Send>);

impl Unwound {
    /// Whether the door leaves the caller's stack, and so returns nothing to it.
    pub(crate) fn leaves(&self) -> bool {
        !is_panic(&*self.0) && current::can_leave()
    }

    pub(crate) fn resume(self) -> ! {
        resume_unwind(self.0)
    }
}

/// Runs a part of a body that has to know how it unwinds.
#[inline(always)]
pub(crate) fn attempt<R>(part: impl FnOnce() -> R) -> Result<R, Unwound> {
    catch_unwind(AssertUnwindSafe(part)).map_err(Unwound)
}

/// How long a call may wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Limit {
    Now,
    At(Instant),
    Forever,
}

impl Limit {
    /// The limit of a deadline in nanoseconds.
    #[inline(always)]
    pub(crate) fn of(deadline: u64) -> Self {
        match deadline {
            u64::MAX => Self::Forever,
            0 => Self::Now,
            _ => Self::later(deadline),
        }
    }

    #[inline(never)]
    fn later(deadline: u64) -> Self {
        match deadline.checked_sub(now()) {
            None | Some(0) => Self::Now,
            Some(rest) => {
                Instant::now().checked_add(Duration::from_nanos(rest)).map_or(Self::Forever, Self::At)
            }
        }
    }
}

/// The time of the monotonic clock in nanoseconds.
pub(crate) fn now() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call writes the record, and nothing else.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    (time.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(time.tv_nsec as u64)
}

/// Whether the caller may block.
#[inline(always)]
pub(crate) fn may_block() -> Done {
    current::with(|current| match current.map(Current::place) {
        None | Some(Place::Fiber) => Ok(()),
        Some(Place::Poll | Place::Callback) => Err(libc::EPERM),
    })
}

/// Synchronizes, no longer than `limit` says.
#[inline(always)]
pub(crate) fn wait<E: Event>(event: E, limit: Limit) -> Done<E::Output> {
    match limit {
        Limit::Now => event.try_sync().ok_or(libc::ETIMEDOUT),
        Limit::Forever => {
            may_block()?;
            Ok(event.sync_blocking())
        }
        Limit::At(time) => {
            may_block()?;
            event.by(time).sync_blocking().ok_or(libc::ETIMEDOUT)
        }
    }
}

/// Synchronizes only if the event can commit at once. Never blocks, also where a fiber that is being ended would be told.
pub(crate) fn once<E: Event>(event: E) -> Option<E::Output> {
    let mut future = pin!(choose_biased((event.wrap(Some), always(()).wrap(|()| None))).sync());
    let mut task = Context::from_waker(Waker::noop());
    // The first poll begins nothing if the budget of the thread is spent.
    for _ in 0..2 {
        if let Poll::Ready(result) = future.as_mut().poll(&mut task) {
            return result;
        }
    }
    None
}

/// Writes a result through a pointer of the caller's.
///
/// # Safety
/// The pointer is null, or may be written.
#[inline(always)]
pub(crate) unsafe fn store<T>(place: *mut T, value: T) -> Done {
    if place.is_null() || !place.is_aligned() {
        return Err(libc::EINVAL);
    }
    // SAFETY: the caller keeps the contract, and the pointer is not null.
    unsafe { place.write(value) };
    Ok(())
}

/// Whether a result can be written there: not null, and aligned.
#[inline(always)]
pub(crate) fn check<T>(place: *mut T) -> Done {
    if place.is_null() || !place.is_aligned() { Err(libc::EINVAL) } else { Ok(()) }
}
