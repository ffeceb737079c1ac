//! `Lazy`: continuations that are made when they are needed (Concert's schema *continuation-passing*, section 4.2.2).
//!
//! A method that takes a continuation answers by it, rather than by returning. Until somebody has to keep it, a
//! continuation is a place in its caller's frame, which the method borrows. Only a continuation that is kept becomes
//! an object on the heap.
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

use crate::answer::Answer;
use crate::apart::Nowhere;
use crate::begin::{Begin, Inside};
use crate::may_block::MayBlock;
use crate::progress::{Progress, Stage};
use crate::promise::{Continuation, IntoTouch, Promise};
use crate::{ObjectError, Ref};

/// The right to answer a call, within the method that was called.
///
/// A dropped continuation does not answer: the caller gets [`ObjectError::Unanswered`] when the method ends.
#[must_use = "a call whose continuation is dropped is not answered"]
pub struct Lazy<'a, T> {
    answer: &'a mut Answer<T>,
}

impl<T> fmt::Debug for Lazy<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Lazy(..)")
    }
}

impl<'a, T> Lazy<'a, T> {
    /// # Safety
    /// The answer lives, and no other code uses it, as long as this value lives.
    #[inline(always)]
    pub(crate) unsafe fn new(answer: *mut Answer<T>) -> Self {
        // SAFETY: the caller keeps the answer alive, and lends it to nobody else, while this lives.
        Self { answer: unsafe { &mut *answer } }
    }

    /// Answers. The caller goes on when the method ends.
    #[inline(always)]
    pub fn fill(self, value: T) {
        self.answer.fill(value);
    }

    /// Lets another call give this method's answer, on this stack: `k.forward(other.method(..)).await`. The future is
    /// ready when the other method has ended.
    ///
    /// If the other object cannot be called, that is the answer.
    #[inline(always)]
    pub fn forward<C: Forward<Answer = T>>(self, call: C) -> Forwarding<'a, C> {
        Forwarding { call, answer: self.answer }
    }

    /// Like [`forward`](Self::forward), with the other method's frame on the heap: for one that, by whatever way, may
    /// call the method that forwards. (A frame cannot be a part of itself.)
    #[inline(always)]
    pub fn forward_boxed<C: Forward<Answer = T>>(self, call: C) -> Forwarding<'a, Pin<Box<C::IntoFuture>>> {
        Forwarding { call: Box::pin(call.into_future()), answer: self.answer }
    }

    /// Makes a continuation that may be kept, sent and filled later, from anywhere. The caller waits until it is
    /// filled.
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
    IntoFuture<Output = Result<Self::Answer, ObjectError>, IntoFuture: Answers<Self::Answer>>
{
    /// The type of the call's answer.
    type Answer;
}

impl<T, C: IntoFuture<Output = Result<T, ObjectError>, IntoFuture: Answers<T>>> Forward for C {
    type Answer = T;
}

/// A call in progress that answers by a continuation: its caller's, or one that was forwarded.
///
/// # Safety
/// `poll_for` lets go of the answer's place before it is ready.
pub unsafe trait Answers<T>: Future<Output = Result<T, ObjectError>> {
    /// # Safety
    /// The answer is there, and nobody else's, until this is ready or dropped; it is the same in each call, and
    /// the future itself is never polled.
    #[doc(hidden)]
    unsafe fn poll_for(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        answer: *mut Answer<T>,
    ) -> Poll<Result<(), ObjectError>>;
}

// SAFETY: the boxed call lets go of the answer's place before it is ready, by its own `Answers`.
unsafe impl<T, F: Answers<T>> Answers<T> for Pin<Box<F>> {
    #[inline(always)]
    unsafe fn poll_for(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        answer: *mut Answer<T>,
    ) -> Poll<Result<(), ObjectError>> {
        // SAFETY: the caller keeps the answer's place alive and unshared, gives the same place in each call, and
        // never polls the future itself. The box pins it.
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
    /// The call, which is pinned. It stands before the place that it uses, and so is dropped first.
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
        // SAFETY: `call` is pinned with us and polled here only. The answer is borrowed exclusively while this lives,
        // and is the same in each poll.
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
/// The stage says which parts are initialized, so one test is all that the drop of an ended call costs.
#[repr(C)]
pub(crate) struct LazyCall<T, I, A, F, C, R> {
    /// The method's future, which is pinned and uses the place. When the future has ended, so has the method.
    call: ManuallyDrop<MayBlock<T, I, A, F, C>>,
    /// The place of the answer, if the call is awaited rather than forwarded to. It is initialized while the call is
    /// neither fresh nor over.
    answer: UnsafeCell<MaybeUninit<Answer<R>>>,
    _pinned: PhantomPinned,
}

// SAFETY: the answer's place is used by the method, which is a part of this.
unsafe impl<T: Send, I: Send, A: Send, F: Send, C: Send, R: Send> Send for LazyCall<T, I, A, F, C, R> {}

impl<T, R, F: Future<Output = ()>, A: FnOnce(*mut T, *mut Answer<R>) -> F> Begin<T, *mut Answer<R>> for A {
    type Method = F;
    type Away = Nowhere<()>;

    #[inline(always)]
    fn begin(self, value: *mut T, answer: *mut Answer<R>) -> F {
        self(value, answer)
    }
}

/// The call of a method that takes its continuation.
///
/// # Safety
/// The conditions of [`may_block`](crate::may_block::may_block); and the second pointer is that of an answer that
/// nothing else uses as long as the method's future lives.
#[inline(always)]
pub(crate) unsafe fn lazy_call<T, I, A: Begin<T, *mut Answer<R>>, R>(
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

impl<T, I, A, F, R> IntoFuture for ToAnswer<T, I, A, R>
where
    I: Inside,
    A: Begin<T, *mut Answer<R>, Method = F>,
    F: Future<Output = ()>,
{
    type Output = Result<R, ObjectError>;
    type IntoFuture = LazyCall<T, I, A, F, A::Away, R>;

    #[inline(always)]
    fn into_future(self) -> Self::IntoFuture {
        LazyCall {
            // SAFETY: `lazy_call`'s contract; and who polls says where the answer is.
            call: ManuallyDrop::new(unsafe { MayBlock::new(self.at, self.inside, self.method) }),
            answer: UnsafeCell::new(MaybeUninit::uninit()),
            _pinned: PhantomPinned,
        }
    }
}

// SAFETY: the method's future has ended, and has been dropped, when it is ready.
unsafe impl<T, I, A, F, C, R> Answers<R> for LazyCall<T, I, A, F, C, R>
where
    I: Inside,
    A: Begin<T, *mut Answer<R>, Method = F, Away = C>,
    F: Future<Output = ()>,
    C: Future<Output = Result<(), ObjectError>>,
{
    #[inline(always)]
    unsafe fn poll_for(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        answer: *mut Answer<R>,
    ) -> Poll<Result<(), ObjectError>> {
        // SAFETY: `call` is not moved.
        let this = unsafe { self.get_unchecked_mut() };
        match this.progress().try_mark(I::MODE) {
            // SAFETY: fresh, and pinned with us.
            Some(inside) => match unsafe { this.call.run_at_once(inside, cx, answer) } {
                Poll::Ready(()) => Poll::Ready(Ok(())),
                Poll::Pending => {
                    this.has_no_answer();
                    Poll::Pending
                }
            },
            // SAFETY: the call is pinned; the caller keeps the answer's place alive and unshared, and gives the same
            // place in each call.
            None => unsafe { this.poll_for_slowly(cx, answer) },
        }
    }
}

impl<T, I, A, F, C, R> Future for LazyCall<T, I, A, F, C, R>
where
    I: Inside,
    A: Begin<T, *mut Answer<R>, Method = F, Away = C>,
    F: Future<Output = ()>,
    C: Future<Output = Result<(), ObjectError>>,
{
    type Output = Result<R, ObjectError>;

    #[inline(always)]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<R, ObjectError>> {
        // SAFETY: `call` is not moved.
        let this = unsafe { self.get_unchecked_mut() };
        if let Some(inside) = this.progress().try_mark(I::MODE) {
            this.has_no_answer();
            let answer: *mut Answer<R> = this.answer.get().cast();
            let panics = DropAnswer(answer);
            // SAFETY: fresh, and pinned with us; the place is the method's.
            let poll = unsafe { this.call.run_at_once(inside, cx, answer) };
            mem::forget(panics);
            if poll.is_pending() {
                return Poll::Pending;
            }
            // SAFETY: there: the method has let go of it. (The tag is loaded by itself, since it was just stored so.
            // A load of the tag along with the value waits for both stores.) The call is over, and its answer is not
            // read again.
            if let Answer::Filled(value) = unsafe { &*answer } {
                // SAFETY: there, and not taken again.
                return Poll::Ready(Ok(unsafe { ptr::read(value) }));
            }
            this.progress().set(Stage::Ended);
        }
        let mut late = MaybeUninit::uninit();
        // SAFETY: pinned.
        match unsafe { this.poll_apart(cx, &mut late) } {
            // SAFETY: it is there.
            Poll::Ready(Ok(())) => Poll::Ready(Ok(unsafe { late.assume_init() })),
            Poll::Ready(Err(gone)) => Poll::Ready(Err(gone)),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl<T, I, A, F, C, R> LazyCall<T, I, A, F, C, R>
where
    I: Inside,
    A: Begin<T, *mut Answer<R>, Method = F, Away = C>,
    F: Future<Output = ()>,
    C: Future<Output = Result<(), ObjectError>>,
{
    /// Like `poll_for`, for calls that no bias lets in.
    ///
    /// # Safety
    /// Pinned; and as for `poll_for`.
    #[cold]
    #[inline(never)]
    unsafe fn poll_for_slowly(
        &mut self,
        cx: &mut Context<'_>,
        answer: *mut Answer<R>,
    ) -> Poll<Result<(), ObjectError>> {
        self.has_no_answer();
        // SAFETY: the call is pinned; the caller keeps the answer's place alive and unshared, and gives the same
        // place in each call.
        unsafe { self.call.poll_slowly(cx, answer) }
    }

    /// Like `poll`, for calls that no bias lets in. A value is put into `late`.
    ///
    /// # Safety
    /// Pinned.
    #[cold]
    #[inline(never)]
    unsafe fn poll_apart(
        &mut self,
        cx: &mut Context<'_>,
        late: &mut MaybeUninit<R>,
    ) -> Poll<Result<(), ObjectError>> {
        if self.progress().is(Stage::Fresh) {
            self.has_no_answer();
        }
        if !self.progress().is(Stage::Ended) {
            let answer = self.answer.get().cast();
            // SAFETY: pinned with us; the place is the method's.
            match unsafe { self.call.poll_slowly(cx, answer) } {
                Poll::Ready(Ok(())) => self.progress().set(Stage::Ended),
                other => return other,
            }
        }
        // SAFETY: the method has ended, and let go of it.
        let answer = unsafe { self.answer.get_mut().assume_init_mut() };
        let result = match mem::replace(answer, Answer::None) {
            Answer::Filled(value) => Ok(value),
            Answer::Failed(gone) => Err(gone),
            // The wait is on the heap, like the continuation.
            Answer::Kept(promise) => return self.touch(Box::pin(promise.into_future()), cx, late),
            Answer::Awaited(touch) => return self.touch(touch, cx, late),
            #[cfg(feature = "cluster")]
            Answer::Owed(_) => Err(ObjectError::Unanswered),
            Answer::None => Err(ObjectError::Unanswered),
        };
        self.progress().end();
        Poll::Ready(result.map(|value| {
            late.write(value);
        }))
    }
}

impl<T, I, A, F, C, R> LazyCall<T, I, A, F, C, R> {
    /// The progress of the call. (Not by `ManuallyDrop::deref`: a shared reference to all of the call would freeze the
    /// method's future, which may have borrows of itself.)
    #[inline(always)]
    fn progress(&mut self) -> &mut Progress<T> {
        let call: *mut MayBlock<T, I, A, F, C> = (&raw mut self.call).cast();
        // SAFETY: ours, and `ManuallyDrop` is transparent; what else the call consists of is not referred to.
        unsafe { &mut (*call).progress }
    }

    /// Writes that there is no answer yet.
    #[inline(always)]
    fn has_no_answer(&mut self) {
        self.answer.get_mut().write(Answer::None);
    }

    /// Polls for the answer of a method that has ended, and whose continuation was kept.
    fn touch(
        &mut self,
        mut touch: Pin<Box<Sync<IntoTouch<R>>>>,
        cx: &mut Context<'_>,
        late: &mut MaybeUninit<R>,
    ) -> Poll<Result<(), ObjectError>> {
        let Poll::Ready(result) = touch.as_mut().poll(cx) else {
            self.answer.get_mut().write(Answer::Awaited(touch));
            return Poll::Pending;
        };
        self.progress().end();
        Poll::Ready(result.map(|value| {
            late.write(value);
        }))
    }

    #[cold]
    #[inline(never)]
    fn drop_before_its_end(&mut self) {
        let is_there = !self.progress().is(Stage::Fresh);
        let _behind_the_method = is_there.then(|| DropAnswer::<R>(self.answer.get().cast()));
        // SAFETY: there, and never used again.
        unsafe { ManuallyDrop::drop(&mut self.call) }
    }
}

/// Drops an answer after the method that uses its place has been dropped, also if that drop panics.
struct DropAnswer<R>(*mut Answer<R>);

impl<R> Drop for DropAnswer<R> {
    #[inline(always)]
    fn drop(&mut self) {
        // SAFETY: there, nobody else's any more, and never used again: the call is over, or is dropped.
        unsafe { ptr::drop_in_place(self.0) }
    }
}

impl<T, I, A, F, C, R> Drop for LazyCall<T, I, A, F, C, R> {
    #[inline(always)]
    fn drop(&mut self) {
        if !self.progress().is_over() {
            self.drop_before_its_end();
        }
    }
}
