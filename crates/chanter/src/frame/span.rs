//! Spans of `tracing`, one for each thread (feature `tracing`; without it `no_span.rs` replaces
//! this file).
//!
//! The header of a frame has a pointer to the thread's span, or null; then a poll costs one
//! comparison. The span is made at the spawn, as a child of the current one, and is closed when the
//! thread is determined. It is entered while the thread is polled, wherever that is, and while its
//! future is dropped.
//!
//! Polls nest on a stack. A parasite is attached within the poll of another thread, and others run
//! above a thread that blocks its OS thread. The innermost [`Entered`] of an OS thread is the head
//! of a list through its stack. A suspended fiber keeps the part of this list on its own stack
//! ([`Parked`]).
//!
//! INV-SPAN: the pointer belongs to the runner, and before the first poll to the spawner. It is
//! null in a free frame.

use std::cell::Cell;
use std::ptr::{self, NonNull};

use tracing::level_filters::{LevelFilter, STATIC_MAX_LEVEL};
use tracing::{Level, Span};

use super::Progress;
use super::about::{body_of, id_of, name_of, path_of};
use super::header::{Header, Kind};
use super::report::Site;

/// The level of the spans.
const LEVEL: Level = Level::INFO;

/// The beginning of the type name of a fiber's body, up to the name of its closure.
const FIBER: &str = "chanter::threads::fiber::body::Body<";

thread_local! {
    static INNERMOST: Cell<*const Entered> = const { Cell::new(ptr::null()) };
}

/// The pointer in a header to the thread's span; null if it has none.
pub(crate) struct Place(Cell<*mut Span>);

impl Place {
    #[inline(always)]
    pub(super) const fn new() -> Self {
        Self(Cell::new(ptr::null_mut()))
    }

    fn put(&self, span: Span) {
        // A span that a filter disables counts as none.
        if !span.is_disabled() {
            self.0.set(Box::into_raw(Box::new(span)));
        }
    }
}

/// Whether a subscriber may want spans.
#[inline(always)]
fn is_wanted() -> bool {
    LEVEL <= STATIC_MAX_LEVEL && LEVEL <= LevelFilter::current()
}

fn make(kind: &str, name: Option<&str>, id: Option<u64>, site: Site) -> Span {
    tracing::span!(target: "chanter::thread", LEVEL, "thread", kind, name, id, site = %site)
}

/// Opens the span of a thread that has been made, and has not run.
///
/// # Safety
/// The caller has made it.
#[inline(always)]
pub(crate) unsafe fn open(frame: NonNull<Header>, site: Site) {
    if is_wanted() {
        // SAFETY: the caller has made the thread, so the frame is initialized and nobody polls it
        // yet.
        unsafe { open_now(frame, site) };
    }
}

/// # Safety
/// As for [`open`].
#[cold]
unsafe fn open_now(frame: NonNull<Header>, site: Site) {
    // SAFETY: the caller has made the thread, so the frame is initialized and nobody polls it yet.
    unsafe {
        let header = frame.as_ref();
        if !header.span.0.get().is_null() {
            // The thread was polled outside of the machine first, and has its span.
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

/// Opens the span of a parasite that is about to be polled where it is spawned. Its frame does not
/// know its type.
///
/// # Safety
/// As for [`open`].
#[inline(always)]
pub(crate) unsafe fn open_in_place(frame: NonNull<Header>, body: fn() -> &'static str, site: Site) {
    if is_wanted() {
        // SAFETY: the caller has made the thread, so the frame is initialized and nobody polls it
        // yet.
        unsafe { open_in_place_now(frame, body(), site) };
    }
}

/// # Safety
/// As for [`open`].
#[cold]
unsafe fn open_in_place_now(frame: NonNull<Header>, body: &'static str, site: Site) {
    // SAFETY: the caller has made the thread, so the frame is initialized and nobody polls it yet.
    unsafe { frame.as_ref().span.put(make("parasite", path_of(body), id_of(frame), site)) };
}

/// Closes the span: the thread is determined, or its frame is about to be freed.
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
    // SAFETY: the box was made in `put`, and the pointer is taken once. A panic of a subscriber is
    // caught.
    super::body::catch_panic(|| drop(unsafe { Box::from_raw(span) }));
}

/// A thread that is polled on this OS thread, with its span entered. It lies on the stack of the
/// poll.
struct Entered {
    span: *const Span,
    outer: Cell<*const Entered>,
}

impl Entered {
    /// # Safety
    /// The caller is the runner of `frame`, and keeps it until [`Entered::leave`].
    #[inline(always)]
    unsafe fn new(frame: NonNull<Header>) -> Self {
        // SAFETY: the caller is the runner of `frame`, and keeps it, and so its span (INV-SPAN).
        Self { span: unsafe { frame.as_ref() }.span.0.get(), outer: Cell::new(ptr::null()) }
    }

    /// Enters the span, before the poll. From here on `self` must not be moved.
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

    /// Leaves the span, after the poll.
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
    // SAFETY: the caller is the runner of `frame`, or alone with it, and keeps it until the call
    // returns.
    let entered = unsafe { Entered::new(frame) };
    entered.enter();
    let result = f();
    entered.leave();
    result
}

/// The threads whose polls are on the stack of a suspended fiber.
pub(crate) struct Parked {
    /// The innermost of them; null if there is none.
    top: Cell<*const Entered>,
    /// The innermost thread below the fiber's stack when the fiber was last run.
    base: Cell<*const Entered>,
}

impl Parked {
    pub(crate) const fn new() -> Self {
        Self { top: Cell::new(ptr::null()), base: Cell::new(ptr::null()) }
    }

    /// Enters the spans again: the fiber is about to run. Not called on its stack, nor as the
    /// current fiber, because this calls subscribers, which may block.
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
            // SAFETY: the entries on the fiber's stack live while it is suspended.
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

    /// Leaves the spans: the fiber has been suspended, or has ended. Called under the same
    /// conditions as [`resume`](Self::resume).
    #[inline]
    pub(crate) fn suspend(&self) {
        let (top, base) = (INNERMOST.get(), self.base.get());
        if ptr::eq(top, base) {
            return;
        }
        // The list is cut first, because others run on this stack if a subscriber blocks.
        self.top.set(top);
        INNERMOST.set(base);
        let mut next = top;
        while !ptr::eq(next, base) {
            // SAFETY: the entries on the fiber's stack live while it is suspended, which is at
            // least until we return.
            let entered = unsafe { &*next };
            entered.tell(false);
            next = entered.outer.get();
        }
    }
}

/// The span of a parasite that is polled on an OS thread outside of the machine, before it has a
/// frame.
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

    /// Moves the span to the frame that the parasite gets when it blocks.
    ///
    /// # Safety
    /// The caller has made the frame.
    pub(crate) unsafe fn move_to(self, frame: NonNull<Header>) {
        // SAFETY: the caller has made the frame, so it is initialized and nobody polls it yet.
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
