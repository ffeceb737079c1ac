//! The dynamic environment of a thread. A binding holds for the extent of a call or of a poll. Threads that are spawned
//! within the extent inherit it.
//!
//! The bindings of a thread are a list, the newest first. While a poll of the thread is within their extent, a
//! stack-local value names the list and its *owner*, the thread that is polled. Polls nest on a stack: a parasite is
//! attached within the poll of another thread. So a list counts only if its owner is the thread that runs.
//!
//! A thread that is spawned within an extent gets a table of its own ([`Extended`]), whose functions bind the list
//! again around the body's. Threads that are spawned elsewhere have no part in this.
//!
//! Only machines on which an extent was entered look for bindings when a thread is made. So the scheduler is told of
//! each extent, on whichever worker it is entered.
//!
//! * INV-EXTENDED: the table is set by the thread's maker, before others know the thread, and freed together with
//!   the frame. Its thread is SHARED from its birth, so that its frame is never freed without `drop_frame`.

use std::any::Any;
use std::ptr::NonNull;
use std::sync::Arc;
use std::task::{Context, Poll};

use super::arena;
use super::body::{Vtable, catch_panic};
use super::header::Header;
use super::schedule::scheduler;
use crate::sync::stack_local;

/// A value that is bound.
pub(crate) trait Bound: Any + Send + Sync {
    /// A thread has been made within the extent, in `frame`. Its maker keeps it, and has not run it. Runs no user code.
    fn made(&self, _frame: NonNull<Header>) {}

    /// The body of such a thread is over. It is told once for each, before the frame is freed.
    fn ended(&self, _frame: NonNull<Header>) {}
}

/// A binding, and those around it.
pub(crate) struct Binding {
    /// Names the variable. No two variables share a number; 0 names none.
    key: u32,
    value: Arc<dyn Bound>,
    outer: Option<Environment>,
}

/// A list of bindings, the newest first.
pub(crate) type Environment = Arc<Binding>;

impl Binding {
    /// Adds a binding to a list.
    pub(crate) fn new(key: u32, value: Arc<dyn Bound>, outer: Option<Environment>) -> Environment {
        let outer = if key == 0 { outer } else { Self::without(key, outer) };
        Arc::new(Self { key, value, outer })
    }

    /// The list without a binding of `key`. Nobody sees that any more within a new binding, and threads that spawn their
    /// successors within ever new ones would keep all of them.
    fn without(key: u32, list: Option<Environment>) -> Option<Environment> {
        let Some(hidden) = list.as_ref().and_then(|list| list.all().position(|binding| binding.key == key))
        else {
            return list;
        };
        let mut all = list.iter().flat_map(|list| list.all());
        let before: Vec<_> = all.by_ref().take(hidden).collect();
        let after = all.next().and_then(|hidden| hidden.outer.clone());
        before.into_iter().rev().fold(after, |outer, binding| {
            Some(Arc::new(Self { key: binding.key, value: Arc::clone(&binding.value), outer }))
        })
    }

    /// The innermost value of the variable `key`.
    pub(crate) fn find(&self, key: u32) -> Option<&dyn Any> {
        self.all().find(|binding| binding.key == key).map(Self::value)
    }

    /// The values, the innermost first.
    pub(crate) fn values(&self) -> impl Iterator<Item = &dyn Any> {
        self.all().map(Self::value)
    }

    fn value(&self) -> &dyn Any {
        &*self.value
    }

    fn all(&self) -> impl Iterator<Item = &Self> {
        std::iter::successors(Some(self), |binding| binding.outer.as_deref())
    }
}

impl Drop for Binding {
    fn drop(&mut self) {
        // A long list is dropped in bounded stack.
        let mut next = self.outer.take();
        while let Some(mut binding) = next.and_then(Arc::into_inner) {
            next = binding.outer.take();
        }
    }
}

/// The bindings of the thread `owner` on this stack; null: of code that is no thread.
struct Extent {
    owner: *const Header,
    bindings: Environment,
}

fn running() -> *const Header {
    let running = scheduler().and_then(|scheduler| scheduler.running());
    running.map_or(std::ptr::null(), |frame| frame.as_ptr().cast_const())
}

/// Runs `body` within the extent of `bindings`.
pub(crate) fn within<R>(bindings: &Environment, body: impl FnOnce() -> R) -> R {
    if let Some(scheduler) = scheduler() {
        scheduler.lets_inherit();
    }
    stack_local::set(&Extent { owner: running(), bindings: Arc::clone(bindings) }, body)
}

/// Runs `body` with the bindings of the thread, or other code, that runs here.
pub(crate) fn with<R>(body: impl FnOnce(Option<&Environment>) -> R) -> R {
    stack_local::with(|extent: Option<&Extent>| {
        let own = extent.filter(|extent| std::ptr::eq(extent.owner, running()));
        body(own.map(|extent| &extent.bindings))
    })
}

/// The bindings of the thread, or other code, that runs here.
pub(crate) fn current() -> Option<Environment> {
    with(|bindings| bindings.cloned())
}

/// A call that has the bindings of its maker, wherever it is made.
pub(crate) fn carry<R>(body: impl FnOnce() -> R) -> impl FnOnce() -> R {
    let bindings = current();
    move || match bindings {
        Some(bindings) => within(&bindings, body),
        None => body(),
    }
}

/// Whether the code that runs here has bindings.
pub(crate) fn is_bound() -> bool {
    with(|bindings| bindings.is_some())
}

/// The table of a thread that was spawned within an extent.
#[repr(C)]
struct Extended {
    vtable: Vtable,
    of: &'static Vtable,
    bindings: Environment,
}

/// Gives a new thread the bindings of its maker, if there are any. True: there are, and the caller calls [`made`] when
/// nothing is left to write to the frame.
///
/// # Safety
/// The frame is new, its table is set, and nobody else knows it.
pub(crate) unsafe fn inherit(frame: NonNull<Header>) -> bool {
    let Some(bindings) = current() else { return false };
    // SAFETY: the frame is new, and ours.
    let header = unsafe { frame.as_ref() };
    debug_assert!(is_unknown(frame), "INV-EXTENDED: an observer has shown the thread already");
    let of = header.vtable.get();
    let vtable = Vtable { poll, cancel, terminate, drop_frame, holds: true, needs_no_drop: false, ..*of };
    let extended = Box::leak(Box::new(Extended { vtable, of, bindings }));
    header.vtable.set(&extended.vtable);
    header.state.disown();
    true
}

/// Whether no observer knows the thread in a frame of the caller's.
fn is_unknown(frame: NonNull<Header>) -> bool {
    // SAFETY: the caller keeps the frame.
    unsafe { arena::observer_of(frame).is_none_or(|observer| observer.id(frame).is_none()) }
}

/// Tells the bindings of a new thread that it has been made: others may know it from now on.
///
/// # Safety
/// [`inherit`] has extended the frame. Its maker calls this once, and keeps it.
pub(crate) unsafe fn made(frame: NonNull<Header>) {
    // SAFETY: the caller keeps the frame, whose table is ours.
    unsafe { extended(frame) }.bindings.all().for_each(|binding| binding.value.made(frame));
}

/// The table of an extended thread.
///
/// # Safety
/// The frame is one that [`inherit`] has extended, and the caller keeps it.
unsafe fn extended<'a>(frame: NonNull<Header>) -> &'a Extended {
    // SAFETY: INV-EXTENDED: the table is the first field of an `Extended`, which lives as long as the frame.
    unsafe { &*std::ptr::from_ref(frame.as_ref().vtable.get()).cast::<Extended>() }
}

impl Extended {
    fn ended(&self, frame: NonNull<Header>) {
        // A foreign waker may panic, and its thread is not ours.
        self.bindings.all().for_each(|binding| catch_panic(|| binding.value.ended(frame)));
    }
}

unsafe fn poll(frame: NonNull<Header>, cx: &mut Context<'_>) -> Poll<()> {
    // SAFETY: the caller is the runner of this frame, whose table is ours.
    unsafe { poll_within(frame, || (extended(frame).of.poll)(frame, cx)) }
}

/// Polls the body of a thread that [`inherit`] has extended by `poll`.
///
/// # Safety
/// The caller is the runner of the frame.
pub(crate) unsafe fn poll_within(frame: NonNull<Header>, poll: impl FnOnce() -> Poll<()>) -> Poll<()> {
    // SAFETY: the caller is the runner of this frame, whose table is ours.
    let this = unsafe { extended(frame) };
    let poll = within(&this.bindings, poll);
    if poll.is_ready() {
        this.ended(frame);
    }
    poll
}

unsafe fn cancel(frame: NonNull<Header>) {
    // SAFETY: the caller is the runner of this frame, whose table is ours.
    unsafe {
        let this = extended(frame);
        within(&this.bindings, || (this.of.cancel)(frame));
        this.ended(frame);
    }
}

unsafe fn terminate(frame: NonNull<Header>, place: *mut ()) {
    // SAFETY: the caller is the runner of this frame, whose table is ours, and `place` is as it must be.
    unsafe {
        let this = extended(frame);
        within(&this.bindings, || (this.of.terminate)(frame, place));
        this.ended(frame);
    }
}

unsafe fn drop_frame(frame: NonNull<Header>) {
    // SAFETY: nobody else refers to the frame. Its table was leaked by `inherit`, and is freed once, here.
    unsafe {
        let this = Box::from_raw(std::ptr::from_ref(extended(frame)).cast_mut());
        let never_ran = frame.as_ref().state.left() == super::state::Left::Future;
        frame.as_ref().vtable.set(this.of);
        within(&this.bindings, || (this.of.drop_frame)(frame));
        if never_ran {
            this.ended(frame);
        }
        catch_panic(|| drop(this));
    }
}
