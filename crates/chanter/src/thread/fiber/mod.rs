//! Fibers: hosts whose body is a plain closure on a stack of its own.
//!
//! A fiber may block at any call depth: [`Event::sync_blocking`] and
//! [`block_on`](crate::block_on), called in a function that a function calls
//! that a library calls, suspend the fiber and leave the virtual processor to
//! other threads. So code that knows nothing of `async` runs on Chanter's threads:
//! parsers that call back, recursive searches, C libraries.
//!
//! ```
//! use chanter::prelude::*;
//!
//! /// An ordinary function, and recursive: each leaf of the tree is sent.
//! fn walk(depth: u32, tx: &Sender<u32>) {
//!     if depth == 0 {
//!         tx.send(1).sync_blocking().unwrap();
//!     } else {
//!         walk(depth - 1, tx);
//!         walk(depth - 1, tx);
//!     }
//! }
//!
//! chanter::block_on(async {
//!     let (tx, rx) = channel();
//!     let fiber = spawn_fiber(move || walk(6, &tx));
//!     let mut leaves = 0;
//!     while let Ok(n) = rx.recv().await {
//!         leaves += n;
//!     }
//!     assert_eq!(leaves, 64);
//!     fiber.join().await.unwrap();
//! });
//! ```
//!
//! # Where it runs
//!
//! Until it begins a fiber is a host like others: the policy decides where it
//! starts, or [`Builder::on`] does, or who demands its value before (see
//! [`delay`](crate::delay)) starts it there and then. It gets a
//! stack with its first turn, and keeps it to its end. A fiber that has begun is bound to the OS thread that it runs on, since what lies on a stack need not
//! be `Send`. When that OS thread stops driving its virtual processor (a
//! [`Machine::block_on`](crate::Machine::block_on) returns, or the machine ends) the fiber *is ended*: it
//! unwinds from where it blocks, its destructors run, and those who join it get
//! a cancelled [`JoinError`](crate::JoinError). Such a destructor should not
//! block: it would block the OS thread of the virtual processor, as it does in a
//! panic, and in an async host.
//!
//! A `catch_unwind` in the fiber sees the unwinding as a panic. If it goes on, the next
//! operation that would block unwinds again.
//!
//! # Stacks
//!
//! Each virtual processor keeps the stacks that its fibers have left, the last
//! one first, and gives their pages back when it has been idle for 50 ms. A stack
//! is a reservation: what was never touched costs no memory. 256 KiB unless
//! [`Builder::stack_size`] says otherwise.
//!
//! Who overflows it ends the process: the message on stderr has the fiber's
//! name, and where it was spawned. (A guard lies below each stack. Its fault is
//! told from all others by a handler of SIGSEGV and SIGBUS, which is installed
//! when the first fiber begins, and calls the one that it found.)
//!
//! Parasites that a fiber spawns or attaches run on its stack, if 64 KiB and a
//! quarter of it are left; otherwise they are queued. If such a parasite calls
//! `sync_blocking` it suspends the fiber that it runs on.
//!
//! STING, section 3 (threads and their control blocks) and figure 7 (what is
//! counted); `fibers_created`, `stacks_allocated` and `stacks_reused` of
//! [`Stats`](crate::Stats).

mod body;

use std::fmt;
use std::future::Future;
use std::panic::Location;
use std::sync::Arc;

use super::spawn::{OUTSIDE, spawn_fiber_here, spawn_named_fiber};
use super::{Thread, ThreadBuilder};
#[allow(unused_imports, reason = "for the documentation")]
use crate::event::Event;
use crate::sched::fiber::default_size;
use crate::sched::{Vp, entered};
use body::{Body, Plan};

/// Spawns a fiber: a thread that the policy schedules, and whose body is a
/// closure that may block at any call depth.
///
/// A panic becomes the thread's value, as for [`spawn`](crate::spawn). If the OS
/// has no memory for its stack the fiber panics before it begins.
///
/// # Panics
/// Outside of a machine (use [`Machine::spawn_fiber`](crate::Machine::spawn_fiber) there).
///
/// ```
/// # use chanter::prelude::*;
/// # use std::time::Duration;
/// # chanter::block_on(async {
/// let fiber = spawn_fiber(|| {
///     after(Duration::from_millis(1)).sync_blocking();
///     6 * 7
/// });
/// assert_eq!(fiber.join().await.unwrap(), 42);
/// # });
/// ```
#[inline]
#[track_caller]
pub fn spawn_fiber<F, T>(closure: F) -> Thread<T>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    Builder::new().spawn(closure)
}

/// How a fiber is to be spawned.
///
/// ```
/// # use chanter::prelude::*;
/// # use chanter::fiber;
/// # chanter::block_on(async {
/// let parser = fiber::Builder::new().name("parser").stack_size(1 << 20).on(0);
/// let name = parser.spawn(fiber::name).join().await.unwrap();
/// assert_eq!(name.as_deref(), Some("parser"));
/// # });
/// ```
#[derive(Clone, Default)]
#[must_use = "a builder spawns nothing by itself"]
pub struct Builder {
    pub(crate) name: Option<Arc<str>>,
    size: Option<usize>,
    pub(crate) on: Option<usize>,
}

impl Builder {
    /// A fiber without name, with a stack of 256 KiB, on any virtual processor.
    #[inline]
    pub fn new() -> Self {
        Self::default()
    }

    /// The fiber's name, for messages, [`name`], and what names of
    /// [threads](crate::ThreadBuilder) are for.
    pub fn name(mut self, name: impl Into<Arc<str>>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// How large its stack is at least, in bytes. It becomes a power of two, and
    /// 16 KiB or more; a small part of it is the runtime's. (A panic hook that prints a
    /// backtrace runs on it too, and needs some 30 KiB.) With more than a
    /// gibibyte the fiber panics before it begins.
    pub fn stack_size(mut self, bytes: usize) -> Self {
        self.size = Some(bytes);
        self
    }

    /// The virtual processor on which it runs.
    pub fn on(mut self, vp: usize) -> Self {
        self.on = Some(vp);
        self
    }

    /// Spawns the fiber on the caller's machine; see [`spawn_fiber`].
    ///
    /// # Panics
    /// Outside of a machine, or if it has no virtual processor as asked for.
    #[inline]
    #[track_caller]
    pub fn spawn<F, T>(self, closure: F) -> Thread<T>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        let (name, on) = (self.name.clone(), self.on);
        let (body, site) = self.body(closure, Location::caller());
        match name {
            None => spawn_fiber_here(on, body, site),
            Some(name) => spawn_named_fiber(&entered().expect(OUTSIDE), name, on, body, site),
        }
    }

    /// Makes a fiber that is delayed: it runs when its value is demanded, or when it is
    /// [scheduled](Thread::run); see [`delay`](crate::delay). Who demands it starts it at once, on a stack of
    /// the fiber's own.
    ///
    /// # Panics
    /// As for [`spawn`](Self::spawn).
    ///
    /// ```
    /// # use chanter::prelude::*;
    /// # use chanter::fiber;
    /// fn leaves(depth: u32) -> u64 {
    ///     if depth == 0 {
    ///         return 1;
    ///     }
    ///     let left = fiber::Builder::new().delay(move || leaves(depth - 1));
    ///     leaves(depth - 1) + left.join().sync_blocking().unwrap()
    /// }
    ///
    /// # chanter::block_on(async {
    /// assert_eq!(spawn_fiber(|| leaves(8)).await.unwrap(), 256);
    /// # });
    /// ```
    #[track_caller]
    pub fn delay<F, T>(self, closure: F) -> Thread<T>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        let (name, on) = (self.name.clone(), self.on);
        let (body, _) = self.body(closure, Location::caller());
        match Vp::current() {
            Some(vp) => vp.counters.fibers.add_one(),
            None => entered().expect(OUTSIDE).outside.fibers.add_one_shared(),
        }
        if name.is_none() && on.is_none() {
            return super::spawn::delay(body);
        }
        let mut builder = ThreadBuilder::new();
        if let Some(name) = name {
            builder = builder.name(name);
        }
        if let Some(vp) = on {
            builder = builder.on(vp);
        }
        builder.delay(body)
    }

    #[inline]
    pub(crate) fn body<F: FnOnce() -> T, T>(
        self,
        closure: F,
        site: &'static Location<'static>,
    ) -> (Body<F, T>, &'static Location<'static>) {
        let size = self.size.unwrap_or_else(default_size);
        (Body::new(closure, Plan { size, name: self.name, site }), site)
    }
}

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder")
            .field("name", &self.name)
            .field("stack_size", &self.size)
            .field("on", &self.on)
            .finish()
    }
}

/// The body of a fiber without a name, for a host that is spawned elsewhere.
pub(super) fn body_of<F: FnOnce() -> T + Send, T: Send>(
    closure: F,
    site: &'static Location<'static>,
) -> impl Future<Output = T> + Send {
    if let Some(vp) = Vp::current() {
        vp.counters.fibers.add_one();
    }
    Builder::new().body(closure, site).0
}

/// Whether the caller is on a fiber's stack, and so may block without blocking
/// its virtual processor. Not while a panic unwinds it.
pub fn is_fiber() -> bool {
    Vp::current().is_some_and(|vp| vp.fibers.current().is_some())
}

/// The name of the fiber that calls, if it has one.
pub fn name() -> Option<String> {
    let vp = Vp::current()?;
    vp.fibers.running()?.name.as_deref().map(str::to_owned)
}

/// Lets the other threads of the virtual processor run first: the blocking form
/// of [`yield_now`](crate::yield_now), and the cheapest on a fiber. On an OS
/// thread that drives nothing it lets the OS choose.
///
/// ```
/// # use chanter::prelude::*;
/// # chanter::block_on(async {
/// spawn_fiber(|| (0..10).for_each(|_| chanter::fiber::yield_now())).join().await.unwrap();
/// # });
/// ```
#[inline]
pub fn yield_now() {
    let Some(vp) = Vp::current() else { return std::thread::yield_now() };
    match vp.fibers.current() {
        Some(head) => head.yield_now(),
        None => crate::sched::block_here(crate::sched::yield_now()),
    }
}

/// Yields, as a thread that has used up its quantum, if
/// [`checkpoint`](crate::checkpoint) says so: the blocking form of
/// [`yield_if_requested`](crate::yield_if_requested). Whether it did. On an OS thread
/// that drives nothing it never does.
///
/// ```
/// # use chanter::prelude::*;
/// # chanter::block_on(async {
/// let fiber = spawn_fiber(|| {
///     (0..1000_u64).fold(0, |sum, n| {
///         chanter::fiber::yield_if_requested();
///         sum + n
///     })
/// });
/// assert_eq!(fiber.join().await.unwrap(), 499_500);
/// # });
/// ```
#[inline]
pub fn yield_if_requested() -> bool {
    let is_asked = crate::sched::checkpoint();
    if is_asked {
        crate::sched::end_long_turn();
        yield_now();
    }
    is_asked
}
