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

use chanter::base::Mode;

use crate::apart::{Apart, Ended, Far};
use crate::hold::{Hold, Last, Marked};
use crate::{Gone, Ref};

/// Beside others that read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shared;

/// With nobody else.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Alone;

/// A way of being inside, as a type.
pub(crate) trait Inside {
    const MODE: Mode;
}

impl Inside for Shared {
    const MODE: Mode = Mode::Shared;
}

impl Inside for Alone {
    const MODE: Mode = Mode::Alone;
}

/// What makes a method's future of its object.
pub(crate) trait Begin<T> {
    /// The future.
    type Method: Future;
    fn begin(self, value: *mut T) -> Self::Method;
    /// Calls it where the object is, which is another process.
    fn far(self, to: Ref<T>) -> Result<Far<<Self::Method as Future>::Output>, Gone>
    where
        Self: Sized,
    {
        let _ = to;
        Err(Gone::Elsewhere)
    }
}

impl<T, F: Future, A: FnOnce(*mut T) -> F> Begin<T> for A {
    type Method = F;

    #[inline(always)]
    fn begin(self, value: *mut T) -> F {
        self(value)
    }
}

/// A call of an async method: yields what the method returns.
///
/// The method begins when this is polled and the object lets it in; it is polled in place.
///
/// **Cancel safety.** Dropped while it waits, it was not made. Dropped while the method is suspended, the method ends there and
/// the object is free.
#[must_use = "calls do nothing unless awaited"]
pub(crate) struct MayBlock<T, I, A, F: Future> {
    stage: Stage,
    _inside: I,
    parts: Parts<T, A, F>,
}

/// What there is of a call, as its stage says. One lies where the other was: a call is a part of its caller's frame.
union Parts<T, A, F: Future> {
    before: ManuallyDrop<Before<T, A, F::Output>>,
    within: ManuallyDrop<Within<T, F>>,
}

/// Until it is `Running`.
struct Before<T, A, R> {
    at: Ref<T>,
    /// Makes the method's future of the object. There while it is `Fresh` or `Waiting`.
    method: MaybeUninit<A>,
    /// There while it is `Waiting` or `Away`: on the heap, since few calls are, and all are moved.
    apart: MaybeUninit<Apart<T, R>>,
}

/// While it is `Running`.
struct Within<T, F> {
    /// Pinned.
    running: MaybeUninit<F>,
    hold: MaybeUninit<Hold<T>>,
}

/// How far a call is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    Fresh,
    Waiting,
    /// In another process.
    Away,
    Running,
    Over,
}

impl<T, I, A, F: Future> fmt::Debug for MayBlock<T, I, A, F> {
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
/// The pointer is the value's, exclusive if the call is made [`Alone`], as long as that future lives, and no longer:
/// neither its output nor anything else keeps a borrow. Made [`Shared`], it may be used beside others: `T` is `Sync`.
#[inline(always)]
pub(crate) unsafe fn may_block<T, I: Inside, A: Begin<T>>(
    to: Ref<T>,
    inside: I,
    method: A,
) -> ToBlock<T, I, A> {
    ToBlock { at: to, inside, method }
}

impl<T, I: Inside, A: Begin<T>> IntoFuture for ToBlock<T, I, A> {
    type Output = Result<<A::Method as Future>::Output, Gone>;
    type IntoFuture = MayBlock<T, I, A, A::Method>;

    #[inline(always)]
    fn into_future(self) -> Self::IntoFuture {
        // SAFETY: `may_block`'s contract.
        unsafe { MayBlock::new(self.at.again(), self.inside, self.method) }
    }
}

impl<T, I, A, F: Future> MayBlock<T, I, A, F> {
    /// # Safety
    /// As for [`may_block`].
    #[inline(always)]
    pub(crate) unsafe fn new(at: Ref<T>, inside: I, method: A) -> Self {
        let before = Before { at, method: MaybeUninit::new(method), apart: MaybeUninit::uninit() };
        Self { stage: Stage::Fresh, _inside: inside, parts: Parts { before: ManuallyDrop::new(before) } }
    }

    /// Whether it has ended: then there is nothing in it.
    #[inline(always)]
    pub(crate) fn is_over(&self) -> bool {
        self.stage == Stage::Over
    }

    /// # Safety
    /// It has not begun to run.
    #[inline(always)]
    unsafe fn before(&mut self) -> &mut Before<T, A, F::Output> {
        // SAFETY: the caller's contract.
        unsafe { &mut self.parts.before }
    }

    /// # Safety
    /// What is used of it is there, or is to be written.
    #[inline(always)]
    unsafe fn within(&mut self) -> &mut Within<T, F> {
        // SAFETY: it may be uninitialized.
        unsafe { &mut self.parts.within }
    }
}

impl<T, I: Inside, A: Begin<T, Method = F>, F: Future> MayBlock<T, I, A, F> {
    /// What makes the method's future, if it has not.
    #[inline(always)]
    pub(crate) fn method_mut(&mut self) -> Option<&mut A> {
        // SAFETY: there while it is fresh.
        (self.stage == Stage::Fresh).then(|| unsafe { self.before().method.assume_init_mut() })
    }

    /// # Safety
    /// Fresh, or it was waiting and that has been dropped.
    #[inline(always)]
    unsafe fn begin(&mut self, hold: Hold<T>) {
        self.stage = Stage::Over;
        // SAFETY: there, and not taken again.
        let method = unsafe { self.before().method.assume_init_read() };
        // SAFETY: both are written.
        let within = unsafe { self.within() };
        within.running.write(method.begin(hold.value()));
        within.hold.write(hold);
        self.stage = Stage::Running;
    }

    /// As [`poll_slowly`](Self::poll_slowly), with the value, if it is `Ready(Ok)`, in `late`: so that what the usual way yields
    /// stays in registers.
    ///
    /// # Safety
    /// Pinned.
    #[cold]
    #[inline(never)]
    unsafe fn poll_apart(
        &mut self,
        cx: &mut Context<'_>,
        late: &mut MaybeUninit<F::Output>,
    ) -> Poll<Result<(), Gone>> {
        // SAFETY: pinned.
        unsafe { self.poll_slowly(cx) }.map_ok(|value| {
            late.write(value);
        })
    }

    /// Not by a bias, or not for the first time.
    ///
    /// # Safety
    /// Pinned.
    unsafe fn poll_slowly(&mut self, cx: &mut Context<'_>) -> Poll<Result<F::Output, Gone>> {
        assert!(self.stage != Stage::Over, "a call is polled behind its end");
        if self.stage != Stage::Running {
            let now = match self.stage {
                // SAFETY: fresh.
                Stage::Fresh => unsafe { self.before() }.at.try_hold(I::MODE, true),
                _ => Ok(None),
            };
            match now {
                // SAFETY: fresh.
                Ok(Some(hold)) => unsafe { self.begin(hold) },
                // SAFETY: fresh, waiting or away, and pinned.
                other => match unsafe { self.wait(cx, other.err()) } {
                    Poll::Ready(None) => (),
                    Poll::Ready(Some(result)) => return Poll::Ready(result),
                    Poll::Pending => return Poll::Pending,
                },
            }
        }
        // SAFETY: running, and pinned.
        unsafe { self.run(cx) }.map(Ok)
    }

    /// Inside by a bias, for the first time: while the method does not block, the hold is not stored.
    ///
    /// # Safety
    /// Fresh, and pinned.
    #[inline(always)]
    unsafe fn run_at_once(&mut self, inside: Marked<T>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let mut undo = Undo { call: self, inside, has_begun: false };
        // SAFETY: there, and not taken again: if this panics, the call is over.
        let method = unsafe { undo.call.before().method.assume_init_read() };
        // SAFETY: it is written.
        let running = unsafe { &mut undo.call.within().running };
        let running = running.write(method.begin(inside.value()));
        undo.has_begun = true;
        // SAFETY: there; pinned with us.
        let poll = unsafe { Pin::new_unchecked(running) }.poll(cx);
        mem::forget(undo);
        if poll.is_ready() {
            self.stage = Stage::Over;
            let last = Last(inside, I::MODE);
            // SAFETY: there, and never used again.
            unsafe { self.within().running.assume_init_drop() };
            mem::forget(last);
            inside.leave(I::MODE);
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
        self.stage = Stage::Running;
    }

    /// The object does not let it in, or is elsewhere. `Ready(None)`: it is running.
    ///
    /// # Safety
    /// Fresh, waiting or away; pinned.
    #[cold]
    #[inline(never)]
    unsafe fn wait(
        &mut self,
        cx: &mut Context<'_>,
        gone: Option<Gone>,
    ) -> Poll<Option<Result<F::Output, Gone>>> {
        if self.stage == Stage::Fresh {
            if let Some(gone) = gone {
                // SAFETY: fresh.
                return unsafe { self.go_away(cx, gone) };
            }
            // SAFETY: fresh.
            let before = unsafe { self.before() };
            before.apart.write(Apart::waiting(before.at, I::MODE));
            self.stage = Stage::Waiting;
        }
        // SAFETY: there.
        let apart = unsafe { self.before().apart.assume_init_mut() };
        let Poll::Ready(ended) = apart.poll(cx) else { return Poll::Pending };
        let hold = match ended {
            Ended::Over(result) => {
                self.stage = Stage::Over;
                // SAFETY: there, and never used again.
                unsafe { self.before().apart.assume_init_drop() };
                return Poll::Ready(Some(result));
            }
            Ended::In(hold) => hold,
        };
        self.stage = Stage::Fresh;
        // SAFETY: there, and never used again.
        unsafe { self.before().apart.assume_init_drop() };
        match hold {
            Ok(hold) => {
                // SAFETY: fresh.
                unsafe { self.begin(hold) };
                Poll::Ready(None)
            }
            // SAFETY: fresh.
            Err(gone) => unsafe { self.go_away(cx, gone) },
        }
    }

    /// It is not here: makes the call where it is.
    ///
    /// # Safety
    /// Fresh; pinned.
    unsafe fn go_away(&mut self, cx: &mut Context<'_>, gone: Gone) -> Poll<Option<Result<F::Output, Gone>>> {
        if gone != Gone::Elsewhere {
            return Poll::Ready(Some(Err(gone)));
        }
        self.stage = Stage::Over;
        // SAFETY: there, and not taken again.
        let before = unsafe { self.before() };
        // SAFETY: there, and not taken again.
        let method = unsafe { before.method.assume_init_read() };
        match method.far(before.at) {
            Ok(far) => before.apart.write(Apart::Away(far)),
            Err(gone) => return Poll::Ready(Some(Err(gone))),
        };
        self.stage = Stage::Away;
        // SAFETY: away; pinned.
        unsafe { self.wait(cx, None) }
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
        let poll = unsafe { Pin::new_unchecked(running) }.poll(cx);
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
        self.stage = Stage::Over;
        // SAFETY: there, and never used again. (A panic leaks the hold to nobody: it is dropped behind the future.)
        unsafe {
            let within = self.within();
            let hold = within.hold.assume_init_read();
            within.running.assume_init_drop();
            drop(hold);
        }
    }
}

impl<T, I: Inside, A: Begin<T, Method = F>, F: Future> Future for MayBlock<T, I, A, F> {
    type Output = Result<F::Output, Gone>;

    #[inline(always)]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        // SAFETY: `waiting` and `running` are not moved; nothing else is pinned.
        let this = unsafe { self.get_unchecked_mut() };
        if this.stage == Stage::Fresh
            // SAFETY: fresh.
            && let Some(inside) = unsafe { this.before() }.at.again().try_mark(I::MODE)
        {
            // SAFETY: fresh, and pinned.
            return unsafe { this.run_at_once(inside, cx) }.map(Ok);
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

/// While a method runs for the first time: dropped if it panics.
struct Undo<'a, T, I: Inside, A, F: Future> {
    call: &'a mut MayBlock<T, I, A, F>,
    inside: Marked<T>,
    has_begun: bool,
}

impl<T, I: Inside, A, F: Future> Undo<'_, T, I, A, F> {
    #[cold]
    #[inline(never)]
    fn undo(call: &mut MayBlock<T, I, A, F>, inside: Marked<T>, has_begun: bool) {
        call.stage = Stage::Over;
        let _behind_the_future = Last(inside, I::MODE);
        if has_begun {
            // SAFETY: there, and never used again.
            unsafe { call.within().running.assume_init_drop() };
        }
    }
}

impl<T, I: Inside, A, F: Future> Drop for Undo<'_, T, I, A, F> {
    // Inlined, so that it lies nowhere until then.
    #[inline(always)]
    fn drop(&mut self) {
        Self::undo(self.call, self.inside, self.has_begun);
    }
}

impl<T, I, A, F: Future> Drop for MayBlock<T, I, A, F> {
    #[inline(always)]
    fn drop(&mut self) {
        // What has ended at once is dropped by one look.
        if self.stage != Stage::Over {
            self.drop_before_its_end();
        }
    }
}

impl<T, I, A, F: Future> MayBlock<T, I, A, F> {
    #[cold]
    #[inline(never)]
    fn drop_before_its_end(&mut self) {
        // SAFETY: the stage says what is there.
        unsafe {
            match self.stage {
                Stage::Over => (),
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
