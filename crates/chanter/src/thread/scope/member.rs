//! A scope's thread: its future, what it borrows, and where its value goes.

use std::any::Any;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use super::crowd::{Crowd, Member};
use crate::frame::JoinError;
use crate::inspect::genealogy::here_panicked;
use crate::sync::Lock;

/// What a scope lends to its threads, if that is the scope's own.
pub(super) type Home = Arc<dyn Any + Send + Sync>;

/// The future of a scope's thread.
///
/// Its value does not go to the frame, as that of other threads does: a frame stays
/// for as long as anybody has a waker, and the value may borrow. So when the future is
/// over, nothing that borrows is left but in packets, which the scope's handles share.
///
/// The order of the fields is the order in which they go: what borrows, what is
/// borrowed, and then the crowd is left (INV-CROWD), even if a destructor panics.
pub(super) struct Scoped<F: Future> {
    future: F,
    packet: Arc<Packet<F::Output>>,
    #[allow(dead_code, reason = "kept for its threads")]
    home: Option<Home>,
    member: Member<Arc<Crowd>>,
}

impl<F: Future> Scoped<F> {
    pub(super) fn new(future: F, packet: Arc<Packet<F::Output>>, home: Option<Home>) -> Self {
        let member = Member::new(Arc::clone(&packet.crowd));
        Self { future, packet, home, member }
    }
}

impl<F: Future> Future for Scoped<F> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        // SAFETY: the future stays where it is.
        let this = unsafe { self.get_unchecked_mut() };
        if this.member.is_cancelled() {
            return Poll::Ready(());
        }
        // SAFETY: as above.
        let future = unsafe { Pin::new_unchecked(&mut this.future) };
        let result = match catch_unwind(AssertUnwindSafe(|| future.poll(cx))) {
            Ok(Poll::Pending) if this.member.wait(cx.waker()) => return Poll::Pending,
            // Cancelled.
            Ok(Poll::Pending) => return Poll::Ready(()),
            Ok(Poll::Ready(value)) => Ok(value),
            Err(payload) => Err(here_panicked(payload)),
        };
        *this.packet.result.lock() = Parcel::Here(result);
        Poll::Ready(())
    }
}

/// The value of a scope's thread.
pub(super) struct Packet<T> {
    result: Lock<Parcel<T>>,
    crowd: Arc<Crowd>,
}

/// What is in a packet.
pub(super) enum Parcel<T> {
    /// Nothing, and if the thread has ended there never will be.
    Empty,
    Here(Result<T, JoinError>),
    Taken,
}

impl<T> Packet<T> {
    pub(super) fn new(crowd: &Arc<Crowd>) -> Arc<Self> {
        Arc::new(Self { result: Lock::new(Parcel::Empty), crowd: Arc::clone(crowd) })
    }

    /// Takes what is there.
    pub(super) fn take(&self) -> Parcel<T> {
        let mut result = self.result.lock();
        if matches!(*result, Parcel::Empty) {
            return Parcel::Empty;
        }
        std::mem::replace(&mut *result, Parcel::Taken)
    }
}

impl<T> Drop for Packet<T> {
    fn drop(&mut self) {
        match self.take() {
            Parcel::Here(Err(error)) => {
                if let Ok(payload) = error.into_panic() {
                    self.crowd.leave_panic(payload);
                }
            }
            // A value's destructor may panic where the program drops its handle.
            parcel => drop(parcel),
        }
    }
}
