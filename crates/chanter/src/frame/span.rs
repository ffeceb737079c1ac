//! A span of `tracing` for each thread (feature `tracing`; without it `no_span.rs` stands here).
//!
//! The header of a frame has a pointer to the thread's span, null if it has none: then a poll costs a look at it.
//! The span is made at the spawn, below the one that is current there, and goes when the thread is determined. It
//! is entered while the thread is polled, wherever that is, and while its future is dropped.
//!
//! Polls nest on a stack: a parasite is attached within the poll of another thread, a thread that blocks an OS thread has
//! others run above it. The innermost [`Entered`] of an OS thread is the head of a list through its stack. A fiber that is
//! suspended takes the part of that list with it that lies on its own stack ([`Parked`]).
//!
//! INV-SPAN: the pointer is the runner's, and before the first poll the spawner's. It is null in a frame that is free.

use std::cell::Cell;
use std::ptr::{self, NonNull};

use tracing::level_filters::{LevelFilter, STATIC_MAX_LEVEL};
use tracing::{Level, Span};

use super::Progress;
use super::about::{body_of, id_of, name_of, path_of};
use super::header::{Header, Kind};
use super::report::Site;

/// How much attention the spans ask for.
const LEVEL: Level = Level::INFO;

/// The type of a fiber's body, up to that of its closure.
const FIBER: &str = "chanter::thread::fiber::body::Body<";

thread_local! {
    static INNERMOST: Cell<*const Entered> = const { Cell::new(ptr::null()) };
}

/// What a header has.
pub(crate) struct Place(Cell<*mut Span>);

impl Place {
    #[inline(always)]
    pub(super) const fn new() -> Self {
        Self(Cell::new(ptr::null_mut()))
    }

    fn put(&self, span: Span) {
        // Disabled by a filter: as if there were none.
        if !span.is_disabled() {
            self.0.set(Box::into_raw(Box::new(span)));
        }
    }
}

/// Whether anybody may want spans.
#[inline(always)]
fn is_wanted() -> bool {
    LEVEL <= STATIC_MAX_LEVEL && LEVEL <= LevelFilter::current()
}

fn make(kind: &str, name: Option<&str>, id: Option<u64>, site: Site) -> Span {
    tracing::span!(target: "chanter::thread", LEVEL, "thread", kind, name, id, site = %site)
}

/// A thread has been made, and has not run.
///
/// # Safety
/// The caller has made it.
#[inline(always)]
pub(crate) unsafe fn open(frame: NonNull<Header>, site: Site) {
    if is_wanted() {
        // SAFETY: the caller's contract.
        unsafe { open_now(frame, site) };
    }
}

/// # Safety
/// As for [`open`].
#[cold]
unsafe fn open_now(frame: NonNull<Header>, site: Site) {
    // SAFETY: the caller's contract.
    unsafe {
        let header = frame.as_ref();
        if !header.span.0.get().is_null() {
            // It was polled outside of the machine first.
            return;
        }
        let body = (header.vtable.get().body)();
        let of_fiber = body.strip_prefix(FIBER).and_then(|rest| rest.split("::{{closure}}").next());
        let kind = match header.kind.get() {
            _ if of_fiber.is_some() => "fiber",
            Kind::Parasite => "parasite",
            _ if header.state.progress() == Progress::Delayed => "delayed",
            _ => "host",
        };
        let name = name_of(frame).map(|name| &**name).or_else(|| of_fiber.or_else(|| body_of(frame)));
        header.span.put(make(kind, name, id_of(frame), site));
    }
}

/// A parasite is about to be polled where it is spawned: its frame does not know its type.
///
/// # Safety
/// As for [`open`].
#[inline(always)]
pub(crate) unsafe fn open_in_place(frame: NonNull<Header>, body: fn() -> &'static str, site: Site) {
    if is_wanted() {
        // SAFETY: the caller's contract.
        unsafe { open_in_place_now(frame, body(), site) };
    }
}

/// # Safety
/// As for [`open`].
#[cold]
unsafe fn open_in_place_now(frame: NonNull<Header>, body: &'static str, site: Site) {
    // SAFETY: the caller's contract.
    unsafe { frame.as_ref().span.put(make("parasite", path_of(body), id_of(frame), site)) };
}

/// The thread is determined, or its frame is about to be freed.
///
/// # Safety
/// INV-SPAN: the caller is the runner, or alone with the frame.
#[inline(always)]
pub(crate) unsafe fn close(frame: NonNull<Header>) {
    // SAFETY: the caller keeps the frame.
    let place = unsafe { &frame.as_ref().span };
    if !place.0.get().is_null() {
        close_now(place);
    }
}

#[cold]
fn close_now(place: &Place) {
    let span = place.0.replace(ptr::null_mut());
    // SAFETY: made in `put`, and taken once. A subscriber that panics harms nobody.
    super::body::catch_panic(|| drop(unsafe { Box::from_raw(span) }));
}

/// A thread that is polled on this OS thread, and whose span is entered meanwhile. It lies on the stack.
struct Entered {
    span: *const Span,
    outer: Cell<*const Entered>,
}

impl Entered {
    /// # Safety
    /// The caller is the runner of `frame`, and keeps it until [`Entered::leave`].
    #[inline(always)]
    unsafe fn new(frame: NonNull<Header>) -> Self {
        // SAFETY: the caller's contract.
        Self { span: unsafe { frame.as_ref() }.span.0.get(), outer: Cell::new(ptr::null()) }
    }

    /// Before the poll. From here on it must not be moved.
    #[inline(always)]
    fn enter(&self) {
        if !self.span.is_null() {
            self.enter_now();
        }
    }

    #[cold]
    fn enter_now(&self) {
        self.outer.set(INNERMOST.replace(self));
        self.tell(true);
    }

    /// After the poll.
    #[inline(always)]
    fn leave(&self) {
        if !self.span.is_null() {
            self.leave_now();
        }
    }

    #[cold]
    fn leave_now(&self) {
        debug_assert!(ptr::eq(INNERMOST.get(), self), "INV-SPAN: polls nest");
        self.tell(false);
        INNERMOST.set(self.outer.get());
    }

    fn tell(&self, enter: bool) {
        // SAFETY: the runner keeps the span while it polls.
        let span = unsafe { &*self.span };
        super::body::catch_panic(|| {
            span.with_subscriber(|(id, subscriber)| {
                if enter {
                    subscriber.enter(id);
                } else {
                    subscriber.exit(id);
                }
            });
        });
    }
}

/// Calls `f` with the span of `frame` entered, if it has one. `f` does not unwind.
///
/// # Safety
/// The caller is the runner of `frame`, and keeps it, or is alone with it.
#[inline(always)]
pub(crate) unsafe fn within<R>(frame: NonNull<Header>, f: impl FnOnce() -> R) -> R {
    // SAFETY: the caller's contract.
    let entered = unsafe { Entered::new(frame) };
    entered.enter();
    let result = f();
    entered.leave();
    result
}

/// The threads that are polled on the stack of a fiber, which is suspended.
pub(crate) struct Parked {
    /// The innermost; null if there is none.
    top: Cell<*const Entered>,
    /// What was innermost below the fiber's stack when it was last run.
    base: Cell<*const Entered>,
}

impl Parked {
    pub(crate) const fn new() -> Self {
        Self { top: Cell::new(ptr::null()), base: Cell::new(ptr::null()) }
    }

    /// The fiber is about to run. Not on its stack, nor as the current fiber: this calls subscribers, which may block.
    #[inline]
    pub(crate) fn resume(&self) {
        let base = INNERMOST.get();
        let top = self.top.replace(ptr::null());
        let old = self.base.replace(base);
        if top.is_null() {
            return;
        }
        let mut nested = Vec::new();
        let mut next = top;
        while !ptr::eq(next, old) {
            // SAFETY: those on the fiber's stack live as long as that is suspended.
            let entered = unsafe { &*next };
            nested.push(entered);
            next = entered.outer.get();
        }
        if let Some(outermost) = nested.last() {
            outermost.outer.set(base);
        }
        nested.iter().rev().for_each(|entered| entered.tell(true));
        INNERMOST.set(top);
    }

    /// The fiber has been suspended, or has ended. As for [`resume`](Self::resume).
    #[inline]
    pub(crate) fn suspend(&self) {
        let (top, base) = (INNERMOST.get(), self.base.get());
        if ptr::eq(top, base) {
            return;
        }
        // First of all: a subscriber that blocks has others run on this stack.
        self.top.set(top);
        INNERMOST.set(base);
        let mut next = top;
        while !ptr::eq(next, base) {
            // SAFETY: those on the fiber's stack live as long as that is suspended, which is until we return.
            let entered = unsafe { &*next };
            entered.tell(false);
            next = entered.outer.get();
        }
    }
}

/// A parasite that is polled on an OS thread outside of the machine, before it has a frame.
pub(crate) struct Outside(Place);

impl Outside {
    pub(crate) fn open(body: fn() -> &'static str, site: Site) -> Self {
        let place = Place::new();
        if is_wanted() {
            place.put(make("parasite", path_of(body()), None, site));
        }
        Self(place)
    }

    /// Calls `f` with the span entered. `f` does not unwind.
    pub(crate) fn within<R>(&self, f: impl FnOnce() -> R) -> R {
        let entered = Entered { span: self.0.0.get(), outer: Cell::new(ptr::null()) };
        entered.enter();
        let result = f();
        entered.leave();
        result
    }

    /// It has blocked, and got a frame.
    ///
    /// # Safety
    /// The caller has made the frame.
    pub(crate) unsafe fn move_to(self, frame: NonNull<Header>) {
        // SAFETY: the caller's contract.
        unsafe { frame.as_ref() }.span.0.set(self.0.0.replace(ptr::null_mut()));
    }
}

impl Drop for Outside {
    fn drop(&mut self) {
        if !self.0.0.get().is_null() {
            close_now(&self.0);
        }
    }
}
