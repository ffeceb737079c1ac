//! Guards that communicate: their events are made by a future, when a synchronization begins.

use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use super::branch::NoLeaf;
use super::leaves::Leaves;
use super::{Branch, Event, Nack, Shape, into_future, with_nack};

/// The event that the future of `make` returns, made anew by each synchronization.
///
/// It is [`guard`](super::guard()) for a function that communicates. The future runs as a part of the synchronization,
/// on the thread that synchronizes, before anything is polled. It may block. The guards of a choice run one after the
/// other. Until all have ended, no branch of the choice can commit.
///
/// [`try_sync`](Event::try_sync) waits for the future, too.
///
/// If the synchronization is dropped meanwhile, so is the future, and its messages that were sent stay sent. If `make`
/// or the future panics, the synchronization never happened.
///
/// Law: synchronizing on `guard_async(f)` is `f().await.await`.
///
/// ```
/// # use chanter::prelude::*;
/// # use chanter::event::guard_async;
/// # block_on(async {
/// let (ask, asked) = channel();
/// let server = async move {
///     let reply: Sender<u32> = asked.recv().await.unwrap();
///     reply.send(42).await.unwrap();
/// };
/// drop(spawn(server));
/// let question = guard_async(|| async {
///     let (reply, replies) = channel();
///     ask.send(reply).await.unwrap();
///     replies.into_recv()
/// });
/// assert_eq!(choose((question.wrap(Result::ok), never())).await, Some(42));
/// # });
/// ```
///
/// Parallel CML, section 2.1 (`guard`).
pub fn guard_async<F, M>(make: F) -> GuardAsync<F, M>
where
    F: FnOnce() -> M,
    M: Future<Output: Event>,
{
    GuardAsync { make, held: PhantomData }
}

/// The event that the future of `make` returns. `make` is given an event that tells when this one is not chosen.
///
/// It is [`with_nack`] for a function that communicates: `with_nack(|nack| guard_async(|| make(nack)))`. If the
/// synchronization is dropped while the future runs, the nack is enabled.
///
/// The paper's remote procedure call (figure 4) is such an event. The server learns whether its client still waits:
///
/// ```
/// # use chanter::prelude::*;
/// # use chanter::event::with_nack_async;
/// type Request = (u32, Sender<u32>, Nack);
///
/// fn rpc(server: &Sender<Request>, request: u32) -> impl Event<Output = Result<u32, Closed>> {
///     with_nack_async(async move |nack| {
///         let (reply, replies) = channel();
///         server.send((request, reply, nack)).await.expect("the server runs");
///         replies.into_recv()
///     })
/// }
///
/// # block_on(async {
/// let (ask, asked) = channel::<Request>();
/// let server = async move {
///     let (request, reply, nack) = asked.recv().await.unwrap();
///     choose((reply.send(request + 1).wrap(drop), nack)).await;
/// };
/// drop(spawn(server));
/// assert_eq!(rpc(&ask, 41).await, Ok(42));
/// # });
/// ```
///
/// Parallel CML, section 2.1 (`withNack`).
pub fn with_nack_async<F, M>(make: F) -> impl Event<Output = <M::Output as IntoFuture>::Output>
where
    F: FnOnce(Nack) -> M,
    M: Future<Output: Event>,
{
    with_nack(|nack| guard_async(|| make(nack)))
}

/// The event of [`guard_async`].
#[must_use = "events do nothing unless synchronized"]
pub struct GuardAsync<F, M: Future> {
    make: F,
    // The synchronization will hold both, so it is `Send` only if both are.
    held: PhantomData<(M, M::Output)>,
}

impl<F: Clone, M: Future> Clone for GuardAsync<F, M> {
    fn clone(&self) -> Self {
        Self { make: self.make.clone(), held: PhantomData }
    }
}

impl<F, M: Future> fmt::Debug for GuardAsync<F, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("GuardAsync(..)")
    }
}

into_future!([F: FnOnce() -> M, M: Future<Output: Event>] GuardAsync<F, M>, <M::Output as IntoFuture>::Output);

// SAFETY: the branch holds an `F`, an `M` or the branch of an `M::Output`. The event is `Send` only if all three are.
unsafe impl<F: FnOnce() -> M, M: Future<Output: Event>> Event for GuardAsync<F, M> {
    type Branch = GuardAsyncBranch<F, M>;

    fn into_branch(self) -> Self::Branch {
        GuardAsyncBranch { make: Some(self.make), making: None, inner: None }
    }
}

#[doc(hidden)]
pub struct GuardAsyncBranch<F, M: Future<Output: Event>> {
    make: Option<F>,
    /// The future that makes the event. It is pinned.
    making: Option<M>,
    /// The branch of the event, once that is made. It is pinned.
    inner: Option<<M::Output as Event>::Branch>,
}

impl<F, M: Future<Output: Event>> fmt::Debug for GuardAsyncBranch<F, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("GuardAsyncBranch(..)")
    }
}

impl<F, M: Future<Output: Event>> GuardAsyncBranch<F, M> {
    fn inner(self: Pin<&mut Self>) -> Option<Pin<&mut <M::Output as Event>::Branch>> {
        // SAFETY: `inner` is pinned with the whole, and never moved.
        unsafe { self.map_unchecked_mut(|this| &mut this.inner) }.as_pin_mut()
    }
}

// SAFETY: the leaves are the inner branch's, which keeps the contract. It is made before they are listed.
unsafe impl<F: FnOnce() -> M, M: Future<Output: Event>> Branch for GuardAsyncBranch<F, M> {
    type Output = <M::Output as IntoFuture>::Output;
    type Only = NoLeaf;
    const SHAPE: Shape = <M::Output as Event>::Branch::SHAPE.deferred();

    fn list<'a>(self: Pin<&'a mut Self>, leaves: &mut Leaves<'a>) {
        if let Some(inner) = self.inner() {
            inner.list(leaves);
        }
    }

    fn poll_begin(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        // SAFETY: `make` is not pinned, `making` is not moved, and `inner` is written before anything pins it.
        let this = unsafe { self.as_mut().get_unchecked_mut() };
        if let Some(make) = this.make.take() {
            this.making = Some(make());
        }
        // SAFETY: `making` is pinned from its first poll on, and never moved.
        let mut making = unsafe { Pin::new_unchecked(&mut this.making) };
        if let Some(future) = making.as_mut().as_pin_mut() {
            let event = ready!(future.poll(cx));
            making.set(None);
            this.inner = Some(event.into_branch());
        }
        match self.inner() {
            Some(inner) => inner.poll_begin(cx),
            None => unreachable!("the event is made"),
        }
    }

    fn finish(self: Pin<&mut Self>, leaf: usize) -> Self::Output {
        self.inner().expect("made before").finish(leaf)
    }

    fn poll_finish(self: Pin<&mut Self>, leaf: usize, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.inner().expect("made before").poll_finish(leaf, cx)
    }
}
