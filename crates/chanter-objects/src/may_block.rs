//! `MayBlock`: a call of a method that may suspend (Concert's schema *may-block*, section 4.2.2).
//!
//! The paper makes a heap context when the method blocks, and links it to its caller's. Here the method's future lies in its
//! caller's from birth: the caller's frame is the context, wherever that is. So a method that blocks costs no more than
//! the caller's suspension, and nothing is saved or copied.

use std::fmt;
use std::future::Future;
use std::mem::{self, ManuallyDrop, MaybeUninit};
use std::pin::Pin;
use std::task::{Context, Poll};

use crate::apart::{Apart, Ended};
use crate::begin::{Begin, Inside};
use crate::hold::{Hold, Last, Marked};
use crate::progress::{Progress, Stage};
use crate::{ObjectError, Ref};

/// A call of an async method: yields what the method returns.
///
/// The method begins when this is polled and the object lets it in; it is polled in place.
///
/// **Cancel safety.** Dropped while it waits, it was not made. Dropped while the method is suspended, the method ends there and
/// the object is free.
#[must_use = "calls do nothing unless awaited"]
#[repr(C)]
pub(crate) struct MayBlock<T, I, A, F, C> {
    pub(crate) progress: Progress<T>,
    _inside: I,
    parts: Parts<T, A, F, C>,
}

/// The parts of a call that are initialized at its stage. They share their space, since a call is a part of its
/// caller's frame.
union Parts<T, A, F, C> {
    before: ManuallyDrop<Before<T, A, C>>,
    within: ManuallyDrop<Within<T, F>>,
}

/// Until it is `Running`.
struct Before<T, A, C> {
    /// Makes the method's future of the object. There while it is `Fresh` or `Waiting`.
    method: MaybeUninit<A>,
    /// There while it is `Waiting` or `Away`: on the heap, since few calls are, and all are moved.
    apart: MaybeUninit<Apart<T, C>>,
}

/// While it is `Running`.
struct Within<T, F> {
    /// Pinned.
    running: MaybeUninit<F>,
    hold: MaybeUninit<Hold<T>>,
}

impl<T, I, A, F, C> fmt::Debug for MayBlock<T, I, A, F, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MayBlock(..)")
    }
}

/// The call of an async method that has not begun. (It is small; what is awaited is made in its place.)
#[must_use = "calls do nothing unless awaited"]
pub(crate) struct ToBlock<T, I, A> {
    at: Ref<T>,
    inside: I,
    method: A,
}

/// The call of an async method: `method` makes its future.
///
/// # Safety
/// The pointer is the value's, as long as that future lives, and no longer: neither its output nor anything else
/// keeps a borrow. It is exclusive if the call is made [`Alone`](crate::begin::Alone). If the call is made
/// [`Shared`](crate::begin::Shared), others use the value meanwhile: `T` is `Sync`.
#[inline(always)]
pub(crate) unsafe fn may_block<T, I: Inside, A: Begin<T, ()>>(
    to: Ref<T>,
    inside: I,
    method: A,
) -> ToBlock<T, I, A> {
    ToBlock { at: to, inside, method }
}

impl<T, I: Inside, A: Begin<T, ()>> IntoFuture for ToBlock<T, I, A> {
    type Output = Result<<A::Method as Future>::Output, ObjectError>;
    type IntoFuture = MayBlock<T, I, A, A::Method, A::Away>;

    #[inline(always)]
    fn into_future(self) -> Self::IntoFuture {
        // SAFETY: `may_block`'s contract.
        unsafe { MayBlock::new(self.at, self.inside, self.method) }
    }
}

impl<T, I, A, F, C> MayBlock<T, I, A, F, C> {
    /// # Safety
    /// As for [`may_block`].
    #[inline(always)]
    pub(crate) unsafe fn new(to: Ref<T>, inside: I, method: A) -> Self {
        let before = Before { method: MaybeUninit::new(method), apart: MaybeUninit::uninit() };
        let parts = Parts { before: ManuallyDrop::new(before) };
        Self { progress: Progress::fresh(to), _inside: inside, parts }
    }

    /// # Safety
    /// It has not begun to run.
    #[inline(always)]
    unsafe fn before(&mut self) -> &mut Before<T, A, C> {
        // SAFETY: the caller says that the call has not begun to run, so `before` is the initialized field.
        unsafe { &mut self.parts.before }
    }

    /// # Safety
    /// The caller uses only those fields that are initialized, or writes them first.
    #[inline(always)]
    unsafe fn within(&mut self) -> &mut Within<T, F> {
        // SAFETY: it may be uninitialized.
        unsafe { &mut self.parts.within }
    }
}

impl<T, I: Inside, A, F: Future, C: Future<Output = Result<F::Output, ObjectError>>> MayBlock<T, I, A, F, C> {
    /// # Safety
    /// Fresh, or it was waiting and that has been dropped.
    unsafe fn begin<W>(&mut self, hold: Hold<T>, with: W)
    where
        A: Begin<T, W, Method = F, Away = C>,
    {
        self.progress.end();
        // SAFETY: there, and not taken again.
        let method = unsafe { self.before().method.assume_init_read() };
        // SAFETY: both are written.
        let within = unsafe { self.within() };
        within.running.write(method.begin(hold.value(), with));
        within.hold.write(hold);
        self.progress.set(Stage::Running);
    }

    /// Like [`poll_slowly`](Self::poll_slowly), with the value, if it is `Ready(Ok)`, in `late`: so that what the usual
    /// way yields stays in registers.
    ///
    /// # Safety
    /// Pinned.
    #[cold]
    #[inline(never)]
    unsafe fn poll_apart(
        &mut self,
        cx: &mut Context<'_>,
        late: &mut MaybeUninit<F::Output>,
    ) -> Poll<Result<(), ObjectError>>
    where
        A: Begin<T, (), Method = F, Away = C>,
    {
        // SAFETY: pinned.
        unsafe { self.poll_slowly(cx, ()) }.map_ok(|value| {
            late.write(value);
        })
    }

    /// Polls a call that no bias lets in, or that has been polled before.
    ///
    /// # Safety
    /// Pinned. `with` is the same in each call, and as [`Begin::remote`] wants it.
    pub(crate) unsafe fn poll_slowly<W: Copy>(
        &mut self,
        cx: &mut Context<'_>,
        with: W,
    ) -> Poll<Result<F::Output, ObjectError>>
    where
        A: Begin<T, W, Method = F, Away = C>,
    {
        assert!(!self.progress.is_over(), "a call is polled behind its end");
        if !self.progress.is(Stage::Running) {
            let now = match self.progress.stage() {
                Stage::Fresh => self.progress.to().try_hold(I::MODE, true),
                _ => Ok(None),
            };
            match now {
                // SAFETY: fresh.
                Ok(Some(hold)) => unsafe { self.begin(hold, with) },
                // SAFETY: fresh, waiting or away, and pinned.
                other => match unsafe { self.wait(cx, other.err(), with) } {
                    Poll::Ready(None) => (),
                    Poll::Ready(Some(result)) => return Poll::Ready(result),
                    Poll::Pending => return Poll::Pending,
                },
            }
        }
        // SAFETY: running, and pinned.
        unsafe { self.run(cx) }.map(Ok)
    }

    /// First poll of a call that a bias has let in. The hold is stored only if the method blocks. If this is ready,
    /// the call is over.
    ///
    /// # Safety
    /// Fresh, and pinned.
    #[inline(always)]
    pub(crate) unsafe fn run_at_once<W>(
        &mut self,
        inside: Marked<T>,
        cx: &mut Context<'_>,
        with: W,
    ) -> Poll<F::Output>
    where
        A: Begin<T, W, Method = F, Away = C>,
    {
        let mut undo = Undo { call: self, inside, has_begun: false };
        // SAFETY: there, and not taken again: if this panics, the call is over.
        let method = unsafe { undo.call.before().method.assume_init_read() };
        // SAFETY: it is written.
        let running = unsafe { &mut undo.call.within().running };
        let running = running.write(method.begin(inside.value(), with));
        undo.has_begun = true;
        // SAFETY: there; pinned with us.
        let poll = unsafe { Pin::new_unchecked(running) }.poll(cx);
        mem::forget(undo);
        if poll.is_ready() {
            let over = Over(self);
            let last = Last(inside, I::MODE);
            // SAFETY: there, and never used again.
            unsafe { over.0.within().running.assume_init_drop() };
            mem::forget(last);
            inside.leave(I::MODE);
            mem::forget(over);
            // This store comes last, so the compiler sees that the stage stays `Over`.
            self.progress.end();
        } else {
            self.suspend(inside);
        }
        poll
    }

    #[cold]
    #[inline(never)]
    fn suspend(&mut self, inside: Marked<T>) {
        // SAFETY: it is written.
        unsafe { self.within() }.hold.write(inside.hold(I::MODE));
        self.progress.set(Stage::Running);
    }

    /// Waits: the object does not let the call in, or is in another process. `Ready(None)`: it is running.
    ///
    /// # Safety
    /// Fresh, waiting or away; pinned. `with` as for [`poll_slowly`](Self::poll_slowly).
    #[cold]
    #[inline(never)]
    unsafe fn wait<W: Copy>(
        &mut self,
        cx: &mut Context<'_>,
        gone: Option<ObjectError>,
        with: W,
    ) -> Poll<Option<Result<F::Output, ObjectError>>>
    where
        A: Begin<T, W, Method = F, Away = C>,
    {
        if self.progress.is(Stage::Fresh) {
            if let Some(gone) = gone {
                // SAFETY: fresh.
                return unsafe { self.go_away(cx, gone, with) };
            }
            let apart = Apart::waiting(self.progress.to(), I::MODE);
            // SAFETY: fresh.
            unsafe { self.before() }.apart.write(apart);
            self.progress.set(Stage::Waiting);
        }
        // SAFETY: there.
        let apart = unsafe { self.before().apart.assume_init_mut() };
        let Poll::Ready(ended) = apart.poll(cx) else { return Poll::Pending };
        let hold = match ended {
            Ended::Over(result) => {
                self.progress.end();
                // SAFETY: there, and never used again.
                unsafe { self.before().apart.assume_init_drop() };
                return Poll::Ready(Some(result));
            }
            Ended::In(hold) => hold,
        };
        self.progress.set(Stage::Fresh);
        // SAFETY: there, and never used again.
        unsafe { self.before().apart.assume_init_drop() };
        match hold {
            Ok(hold) => {
                // SAFETY: fresh.
                unsafe { self.begin(hold, with) };
                Poll::Ready(None)
            }
            // SAFETY: fresh.
            Err(gone) => unsafe { self.go_away(cx, gone, with) },
        }
    }

    /// Makes the call in the process of the object, which is not this one.
    ///
    /// # Safety
    /// Fresh; pinned. `with` as for [`poll_slowly`](Self::poll_slowly).
    unsafe fn go_away<W: Copy>(
        &mut self,
        cx: &mut Context<'_>,
        gone: ObjectError,
        with: W,
    ) -> Poll<Option<Result<F::Output, ObjectError>>>
    where
        A: Begin<T, W, Method = F, Away = C>,
    {
        if gone != ObjectError::Elsewhere {
            return Poll::Ready(Some(Err(gone)));
        }
        let to = self.progress.to();
        self.progress.end();
        // SAFETY: there, and not taken again.
        let before = unsafe { self.before() };
        // SAFETY: there, and not taken again.
        let method = unsafe { before.method.assume_init_read() };
        // SAFETY: the caller says that `with` is as `Begin::remote` wants it: a place in it lives, unshared, as long
        // as the remote call.
        match unsafe { method.remote(to, with) } {
            Ok(remote) => before.apart.write(Apart::away(remote)),
            Err(gone) => return Poll::Ready(Some(Err(gone))),
        };
        self.progress.set(Stage::Away);
        // SAFETY: away; pinned.
        unsafe { self.wait(cx, None, with) }
    }

    /// # Safety
    /// Running; pinned.
    #[inline(always)]
    unsafe fn run(&mut self, cx: &mut Context<'_>) -> Poll<F::Output> {
        // SAFETY: there.
        let within = unsafe { self.within() };
        // SAFETY: there.
        let (running, hold) = unsafe { (within.running.assume_init_mut(), within.hold.assume_init_ref()) };
        let armed = hold.armed();
        // SAFETY: pinned with us.
        let running = unsafe { Pin::new_unchecked(running) };
        #[cfg(feature = "cluster")]
        let poll = {
            let (slot, generation) = hold.place();
            crate::remote::inside(slot, generation, || running.poll(cx))
        };
        #[cfg(not(feature = "cluster"))]
        let poll = running.poll(cx);
        mem::forget(armed);
        if poll.is_ready() {
            // SAFETY: running.
            unsafe { self.end() };
        }
        poll
    }

    /// # Safety
    /// Running.
    #[inline(always)]
    unsafe fn end(&mut self) {
        self.progress.end();
        // SAFETY: there, and never used again. (The hold is dropped after the future, also if the drop of the future
        // panics.)
        unsafe {
            let within = self.within();
            let hold = within.hold.assume_init_read();
            within.running.assume_init_drop();
            drop(hold);
        }
    }
}

impl<T, I, A, F, C> Future for MayBlock<T, I, A, F, C>
where
    I: Inside,
    A: Begin<T, (), Method = F, Away = C>,
    F: Future,
    C: Future<Output = Result<F::Output, ObjectError>>,
{
    type Output = Result<F::Output, ObjectError>;

    #[inline(always)]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        // SAFETY: `waiting` and `running` are not moved; nothing else is pinned.
        let this = unsafe { self.get_unchecked_mut() };
        if let Some(inside) = this.progress.try_mark(I::MODE) {
            // SAFETY: fresh, and pinned.
            return unsafe { this.run_at_once(inside, cx, ()) }.map(Ok);
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

/// Guard that is dropped if a method's future panics in its own drop: it ends the call.
struct Over<'a, T, I, A, F, C>(&'a mut MayBlock<T, I, A, F, C>);

impl<T, I, A, F, C> Drop for Over<'_, T, I, A, F, C> {
    #[inline(always)]
    fn drop(&mut self) {
        self.0.progress.end();
    }
}

/// Guard of a method's first poll: dropped if that panics.
struct Undo<'a, T, I: Inside, A, F, C> {
    call: &'a mut MayBlock<T, I, A, F, C>,
    inside: Marked<T>,
    has_begun: bool,
}

impl<T, I: Inside, A, F, C> Undo<'_, T, I, A, F, C> {
    #[cold]
    #[inline(never)]
    fn undo(call: &mut MayBlock<T, I, A, F, C>, inside: Marked<T>, has_begun: bool) {
        call.progress.end();
        let _behind_the_future = Last(inside, I::MODE);
        if has_begun {
            // SAFETY: there, and never used again.
            unsafe { call.within().running.assume_init_drop() };
        }
    }
}

impl<T, I: Inside, A, F, C> Drop for Undo<'_, T, I, A, F, C> {
    // Inlined, so that the guard is not stored before a panic.
    #[inline(always)]
    fn drop(&mut self) {
        Self::undo(self.call, self.inside, self.has_begun);
    }
}

impl<T, I, A, F, C> Drop for MayBlock<T, I, A, F, C> {
    #[inline(always)]
    fn drop(&mut self) {
        // One test is all that the drop of an ended call costs.
        if !self.progress.is_over() {
            self.drop_before_its_end();
        }
    }
}

impl<T, I, A, F, C> MayBlock<T, I, A, F, C> {
    #[cold]
    #[inline(never)]
    fn drop_before_its_end(&mut self) {
        // SAFETY: the stage says what is there.
        unsafe {
            match self.progress.stage() {
                Stage::Over | Stage::Ended => (),
                Stage::Running => {
                    let within = self.within();
                    let _behind_the_future = within.hold.assume_init_read();
                    within.running.assume_init_drop();
                }
                Stage::Away => self.before().apart.assume_init_drop(),
                stage => {
                    let before = self.before();
                    if stage == Stage::Waiting {
                        before.apart.assume_init_drop();
                    }
                    before.method.assume_init_drop();
                }
            }
        }
    }
}
