//! `Lazy`: continuations that are made when they are needed (Concert's schema *continuation-passing*, section 4.2.2).
//!
//! A method that takes one answers by it, rather than by returning. Until somebody has to keep it, a continuation is a place in
//! its caller's frame, which the method borrows: to fill it is a store, and to forward it to another object passes the borrow on,
//! so that the answer goes to the first caller, not back through the middle. Only one that is kept becomes an object on the heap.
//!
//! No protocol is needed for the place: it is borrowed exclusively as long as the method's future lives, and looked at
//! when that has been dropped.

use std::cell::UnsafeCell;
use std::fmt;
use std::future::Future;
use std::marker::{PhantomData, PhantomPinned};
use std::mem::{self, ManuallyDrop, MaybeUninit};
use std::pin::Pin;
use std::ptr;
use std::task::{Context, Poll};

use chanter::event::Sync;

use crate::apart::Far;
use crate::may_block::{Begin, Inside, MayBlock};
use crate::promise::{Continuation, Promise, Touch};
use crate::{Gone, Ref};

/// The right to answer a call, within the method that was called.
///
/// One that is dropped does not answer: the caller gets [`Gone::Unanswered`] when the method ends.
#[must_use = "a call whose continuation is dropped is not answered"]
pub struct Lazy<'a, T> {
    answer: &'a mut Answer<T>,
}

impl<T> fmt::Debug for Lazy<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Lazy(..)")
    }
}

/// Where a caller finds its answer.
#[doc(hidden)]
pub enum Answer<T> {
    None,
    Filled(T),
    /// Where it was forwarded to it was not heard.
    Failed(Gone),
    Kept(Promise<T>),
    /// It was kept, the method has ended, and the caller waits.
    Awaited(Pin<Box<Sync<Touch<T>>>>),
    /// The caller is another process: who has this may let a third one answer it.
    #[cfg(feature = "cluster")]
    Owed(chanter_cluster::__table::Duty),
}

impl<T> fmt::Debug for Answer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Answer(..)")
    }
}

impl<T> Answer<T> {
    /// In place of what is there: nothing, unless the caller is another process.
    #[inline(always)]
    fn fill(&mut self, value: T) {
        if !matches!(self, Self::None) {
            self.clear();
        }
        // (Made where it lies, behind that: what is made before is copied.)
        // SAFETY: there is nothing that has to be dropped.
        unsafe { ptr::write(self, Self::Filled(value)) }
    }

    #[cold]
    #[inline(never)]
    fn clear(&mut self) {
        *self = Self::None;
    }

    #[cold]
    #[inline(never)]
    fn fail(&mut self, gone: Gone) {
        *self = Self::Failed(gone);
    }
}

impl<'a, T> Lazy<'a, T> {
    /// # Safety
    /// The answer is there, and nobody else's, as long as this is.
    #[inline(always)]
    pub(crate) unsafe fn new(answer: *mut Answer<T>) -> Self {
        // SAFETY: the caller's contract.
        Self { answer: unsafe { &mut *answer } }
    }

    /// Answers. The caller goes on when the method ends.
    #[inline(always)]
    pub fn fill(self, value: T) {
        self.answer.fill(value);
    }

    /// Lets another call answer in its place, on this stack: `k.forward(other.method(..)).await`. Ends when that method does.
    ///
    /// If the other object cannot be called, that is the answer.
    #[inline(always)]
    pub fn forward<C: Forward<Answer = T>>(self, call: C) -> Forwarding<'a, C> {
        Forwarding { call, answer: self.answer }
    }

    /// As [`forward`](Self::forward), with the other method's frame on the heap: for one that, by whatever way, may call the
    /// method that forwards. (A frame cannot be a part of itself.)
    #[inline(always)]
    pub fn forward_boxed<C: Forward<Answer = T>>(self, call: C) -> Forwarding<'a, Pin<Box<C::IntoFuture>>> {
        Forwarding { call: Box::pin(call.into_future()), answer: self.answer }
    }

    /// Makes a continuation that may be kept, sent and filled later, from anywhere. The caller waits for that.
    pub fn keep(self) -> Continuation<T>
    where
        T: Send + 'static,
    {
        let (promise, continuation) = Promise::new();
        *self.answer = Answer::Kept(promise);
        continuation
    }
}

/// A call that answers by a continuation: it is awaited, or [forwarded](Lazy::forward) to.
pub trait Forward:
    IntoFuture<Output = Result<Self::Answer, Gone>, IntoFuture: Answers<Self::Answer>>
{
    /// What the call yields.
    type Answer;
}

impl<T, C: IntoFuture<Output = Result<T, Gone>, IntoFuture: Answers<T>>> Forward for C {
    type Answer = T;
}

/// A call that is being made, and answers by a continuation: its caller's, or one that was forwarded.
///
/// # Safety
/// `poll_for` lets go of the answer's place before it is ready.
pub unsafe trait Answers<T>: Future<Output = Result<T, Gone>> {
    /// # Safety
    /// The answer is there, and nobody else's, until this is ready or dropped; it is the same in each call, and
    /// the future itself is never polled.
    #[doc(hidden)]
    unsafe fn poll_for(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        answer: *mut Answer<T>,
    ) -> Poll<Result<(), Gone>>;
}

// SAFETY: the call's.
unsafe impl<T, F: Answers<T>> Answers<T> for Pin<Box<F>> {
    #[inline(always)]
    unsafe fn poll_for(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        answer: *mut Answer<T>,
    ) -> Poll<Result<(), Gone>> {
        // SAFETY: the caller's contract.
        unsafe { self.get_mut().as_mut().poll_for(cx, answer) }
    }
}

/// A continuation that is forwarded: see [`Lazy::forward`].
#[must_use = "it does nothing unless awaited"]
pub struct Forwarding<'a, C: Forward> {
    call: C,
    answer: &'a mut Answer<C::Answer>,
}

impl<C: Forward> fmt::Debug for Forwarding<'_, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Forwarding(..)")
    }
}

impl<'a, C: Forward> IntoFuture for Forwarding<'a, C> {
    type Output = ();
    type IntoFuture = Forwarded<'a, C::IntoFuture, C::Answer>;

    #[inline(always)]
    fn into_future(self) -> Self::IntoFuture {
        Forwarded { call: self.call.into_future(), answer: self.answer }
    }
}

/// The future of a continuation that is forwarded.
#[must_use = "futures do nothing unless awaited"]
pub struct Forwarded<'a, F, T> {
    /// Pinned. Before the place that it uses.
    call: F,
    answer: &'a mut Answer<T>,
}

impl<F, T> fmt::Debug for Forwarded<'_, F, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Forwarded(..)")
    }
}

impl<T, F: Answers<T>> Future for Forwarded<'_, F, T> {
    type Output = ();

    #[inline(always)]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        // SAFETY: `call` is not moved, and the answer is ours, and not pinned.
        let (call, answer) = unsafe {
            let this = self.get_unchecked_mut();
            (Pin::new_unchecked(&mut this.call), &raw mut *this.answer)
        };
        // SAFETY: see above.
        let Poll::Ready(result) = (unsafe { call.poll_for(cx, answer) }) else { return Poll::Pending };
        if let Err(gone) = result {
            // SAFETY: the call has let go of it.
            unsafe { (*answer).fail(gone) };
        }
        Poll::Ready(())
    }
}

/// A call of a method that takes its continuation.
///
/// Both parts are dropped by one look each, in that order: when it has ended at once, there is nothing in either.
pub(crate) struct LazyCall<T, I, A, F: Future, R> {
    /// Pinned. It uses the place.
    call: ManuallyDrop<MayBlock<T, I, For<A, R>, F>>,
    /// Where the method answers, if the call is awaited rather than forwarded to. When that has ended, what has become of it.
    answer: UnsafeCell<ManuallyDrop<Answer<R>>>,
    _pinned: PhantomPinned,
}

// SAFETY: the answer's place is used by the method, which is a part of this.
unsafe impl<T: Send, I: Send, A: Send, F: Future + Send, R: Send> Send for LazyCall<T, I, A, F, R> {}

/// A method, and where it answers.
struct For<A, R> {
    method: A,
    /// There when it begins.
    answer: MaybeUninit<*mut Answer<R>>,
}

impl<T, R, A: BeginFor<T, R>> Begin<T> for For<A, R> {
    type Method = A::Method;

    #[inline(always)]
    fn begin(self, value: *mut T) -> A::Method {
        // SAFETY: `poll_for` has said it.
        self.method.begin(value, unsafe { self.answer.assume_init() })
    }

    fn far(self, to: Ref<T>) -> Result<Far<()>, Gone> {
        // SAFETY: nobody else's as long as the call lives, of which what this makes is a part: `poll_for`'s contract.
        unsafe { self.method.far(to, self.answer.assume_init()) }
    }
}

/// What makes a method's future of its object, and of where it answers.
pub(crate) trait BeginFor<T, R> {
    /// The future.
    type Method: Future<Output = ()>;
    fn begin(self, value: *mut T, answer: *mut Answer<R>) -> Self::Method;
    /// Calls it where the object is, which is another process.
    ///
    /// # Safety
    /// The answer's place is there, and nobody else's, as long as what this makes lives.
    unsafe fn far(self, to: Ref<T>, answer: *mut Answer<R>) -> Result<Far<()>, Gone>
    where
        Self: Sized,
    {
        let _ = (to, answer);
        Err(Gone::Elsewhere)
    }
}

impl<T, R, F: Future<Output = ()>, A: FnOnce(*mut T, *mut Answer<R>) -> F> BeginFor<T, R> for A {
    type Method = F;

    #[inline(always)]
    fn begin(self, value: *mut T, answer: *mut Answer<R>) -> F {
        self(value, answer)
    }
}

/// The call of a method that takes its continuation.
///
/// # Safety
/// As for [`may_block`](crate::may_block::may_block); and the second pointer is that of an answer that is nobody else's as
/// long as the method's future lives.
#[inline(always)]
pub(crate) unsafe fn lazy_call<T, I, A: BeginFor<T, R>, R>(
    to: Ref<T>,
    inside: I,
    method: A,
) -> ToAnswer<T, I, A, R> {
    ToAnswer { at: to, inside, method, answers: PhantomData }
}

/// A call that has not begun. (It is small; what is awaited is made in its place.)
#[must_use = "calls do nothing unless awaited"]
pub(crate) struct ToAnswer<T, I, A, R> {
    at: Ref<T>,
    inside: I,
    method: A,
    answers: PhantomData<fn() -> R>,
}

impl<T, I: Inside + Copy, A: BeginFor<T, R>, R> IntoFuture for ToAnswer<T, I, A, R> {
    type Output = Result<R, Gone>;
    type IntoFuture = LazyCall<T, I, A, A::Method, R>;

    #[inline(always)]
    fn into_future(self) -> Self::IntoFuture {
        let method = For { method: self.method, answer: MaybeUninit::uninit() };
        LazyCall {
            // SAFETY: `lazy_call`'s contract; and who polls says where the answer is.
            call: ManuallyDrop::new(unsafe { MayBlock::new(self.at.again(), self.inside, method) }),
            answer: UnsafeCell::new(ManuallyDrop::new(Answer::None)),
            _pinned: PhantomPinned,
        }
    }
}

// SAFETY: the method's future has ended, and has been dropped, when it is ready.
unsafe impl<T, I, A, F, R> Answers<R> for LazyCall<T, I, A, F, R>
where
    I: Inside + Copy,
    A: BeginFor<T, R, Method = F>,
    F: Future<Output = ()>,
{
    #[inline(always)]
    unsafe fn poll_for(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        answer: *mut Answer<R>,
    ) -> Poll<Result<(), Gone>> {
        // SAFETY: `call` is not moved.
        let this = unsafe { self.get_unchecked_mut() };
        if let Some(method) = this.call.method_mut() {
            method.answer.write(answer);
        }
        // SAFETY: pinned with us.
        unsafe { Pin::new_unchecked(&mut *this.call) }.poll(cx)
    }
}

impl<T, I, A, F, R> Future for LazyCall<T, I, A, F, R>
where
    I: Inside + Copy,
    A: BeginFor<T, R, Method = F>,
    F: Future<Output = ()>,
{
    type Output = Result<R, Gone>;

    #[inline(always)]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<R, Gone>> {
        let answer: *mut Answer<R> = self.answer.get().cast();
        let runs = !self.call.is_over();
        if runs {
            // SAFETY: pinned with us, and the method's.
            match unsafe { self.as_mut().poll_for(cx, answer) } {
                Poll::Ready(Ok(())) => (),
                Poll::Ready(Err(gone)) => return Poll::Ready(Err(gone)),
                Poll::Pending => return Poll::Pending,
            }
        }
        loop {
            // SAFETY: the method has let go of it.
            if let Answer::Filled(value) = unsafe { &*answer } {
                // (By itself: it was just stored so. Whoever loads it along with its mark waits for both stores.)
                // SAFETY: there, and not taken again: overwritten without a drop.
                let value = unsafe {
                    let value = ptr::read(value);
                    ptr::write(answer, Answer::None);
                    value
                };
                return Poll::Ready(Ok(value));
            }
            // SAFETY: nothing that is pinned is moved.
            match unsafe { self.as_mut().get_unchecked_mut() }.settle(cx, runs) {
                Poll::Ready(Ok(())) => (),
                Poll::Ready(Err(gone)) => return Poll::Ready(Err(gone)),
                Poll::Pending => return Poll::Pending,
            }
        }
    }
}

impl<T, I, A, F: Future, R> LazyCall<T, I, A, F, R> {
    /// The method has ended (`now`: just so), and there is no value. `Ready(Ok)`: there is one.
    #[cold]
    #[inline(never)]
    fn settle(&mut self, cx: &mut Context<'_>, now: bool) -> Poll<Result<(), Gone>> {
        let answer: &mut Answer<R> = self.answer.get_mut();
        if let Answer::Kept(_) = answer
            && let Answer::Kept(promise) = mem::replace(answer, Answer::None)
        {
            // On the heap, as the continuation is.
            *answer = Answer::Awaited(Box::pin(promise.into_future()));
        }
        let gone = match answer {
            Answer::Awaited(touch) => match touch.as_mut().poll(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Ok(value)) => {
                    *answer = Answer::Filled(value);
                    return Poll::Ready(Ok(()));
                }
                Poll::Ready(Err(gone)) => gone,
            },
            Answer::Failed(gone) => *gone,
            _ => {
                assert!(now, "a call is polled behind its end");
                Gone::Unanswered
            }
        };
        *answer = Answer::None;
        Poll::Ready(Err(gone))
    }

    #[cold]
    #[inline(never)]
    fn drop_before_its_end(&mut self) {
        /// Drops it behind who uses it, also if that panics.
        struct Last<R>(*mut ManuallyDrop<Answer<R>>);

        impl<R> Drop for Last<R> {
            fn drop(&mut self) {
                // SAFETY: there, nobody else's any more, and never used again.
                unsafe { ManuallyDrop::drop(&mut *self.0) }
            }
        }

        let _behind_the_method = Last(self.answer.get());
        // SAFETY: there, and never used again.
        unsafe { ManuallyDrop::drop(&mut self.call) }
    }
}

impl<T, I, A, F: Future, R> Drop for LazyCall<T, I, A, F, R> {
    #[inline(always)]
    fn drop(&mut self) {
        // (The place is looked at only when the method has let go of it.)
        if !self.call.is_over() || !matches!(**self.answer.get_mut(), Answer::None) {
            self.drop_before_its_end();
        }
    }
}
