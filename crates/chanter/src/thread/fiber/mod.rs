//! Fibers: hosts with a plain closure as their body, and with their own stack.
//!
//! A fiber may block at any call depth. The functions [`Event::sync_blocking`] and
//! [`block_on`](crate::block_on) suspend it, even in a callback of a library, and leave the virtual
//! processor to other threads. So code without `async` can run on Chanter's threads: parsers with
//! callbacks, recursive searches, C libraries.
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
//! # Placement
//!
//! Until a fiber begins, it is a host like others. Its place is chosen by the policy, by
//! [`Builder::on`], or by a thread that demands its value (see [`delay`](crate::delay)) and so
//! starts it. The fiber gets a stack with its first turn, and keeps it to its end. A fiber that has
//! begun is bound to its OS thread, since values on a stack need not be `Send`. That OS thread may
//! stop running its virtual processor: a [`Machine::block_on`](crate::Machine::block_on) returns,
//! or the machine ends. Then the fiber *is ended*: it unwinds from its blocking call, its
//! destructors run, and its joiners get a cancelled [`JoinError`](crate::JoinError). Such a
//! destructor should not block: it would block the virtual processor's OS thread, as it does in a
//! panic, and in an async host.
//!
//! A `catch_unwind` in the fiber sees the unwinding as a panic. If the fiber goes on, the next
//! operation that would block unwinds again.
//!
//! # Stacks
//!
//! Each virtual processor keeps the stacks of its ended fibers, and uses the last one first. It
//! gives their pages back after it has been idle for 50 ms. A stack is a reservation: pages that
//! were never touched cost no memory. It has 256 KiB, unless [`Builder::stack_size`] says
//! otherwise.
//!
//! A fiber that overflows its stack ends the process, with a message on stderr: the fiber's name,
//! and the place of its spawn. For this a guard lies below each stack. A handler of SIGSEGV and
//! SIGBUS distinguishes the guard's fault from others. It is installed when the first fiber begins,
//! and passes other faults to the previous handler.
//!
//! Parasites that a fiber spawns or attaches run on its stack, if at least 64 KiB and a quarter of
//! it are left. Otherwise they are queued. If such a parasite calls `sync_blocking`, it suspends
//! the fiber that it runs on.
//!
//! The counters `fibers_created`, `stacks_allocated`, `stacks_reused` and `stacks_recycled` of
//! [`Stats`](crate::Stats) follow figure 7 of STING; section 3 describes its threads and their
//! control blocks.

mod body;

use std::fmt;
use std::future::Future;
use std::panic::Location;
use std::sync::Arc;

use super::spawn::{OUTSIDE, spawn_fiber_here, spawn_named_fiber};
use super::{Thread, ThreadBuilder};
#[allow(unused_imports, reason = "for the documentation")]
use crate::event::Event;
use crate::frame::Attributes;
use crate::sched::fiber::{Lent, default_size};
use crate::sched::{Worker, entered};
use body::{Body, Plan};

/// Spawns a fiber: a thread that the policy schedules, with a closure that may block at any call
/// depth.
///
/// A panic becomes the thread's result, as for [`spawn`](crate::spawn). If the OS has no memory for
/// its stack, the fiber panics before it begins.
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

/// A builder that spawns a fiber with options.
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
    lent: Option<Lent>,
    attributes: Option<Attributes>,
    pub(crate) on: Option<usize>,
}

impl Builder {
    /// A builder of a fiber without a name, with a stack of 256 KiB, on any virtual processor.
    #[inline]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the fiber's name. Messages and [`name`] show it, as does everything that shows the
    /// names of [threads](crate::ThreadBuilder).
    pub fn name(mut self, name: impl Into<Arc<str>>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Sets the least size of its stack in bytes. It is rounded up to a power of two, and to 16 KiB
    /// or more. The runtime uses a small part of it. A panic hook that prints a backtrace also runs
    /// on it, and needs some 30 KiB. With more than a gibibyte the fiber panics before it begins.
    pub fn stack_size(mut self, bytes: usize) -> Self {
        self.size = Some(bytes);
        self
    }

    /// Sets memory of the caller's as its stack, without a guard. A size that is no stack's makes the fiber panic
    /// before it begins.
    ///
    /// # Safety
    /// The memory is writable. Nobody else uses it until the one fiber that is spawned has ended and was dropped.
    #[doc(hidden)]
    pub unsafe fn stack_memory(mut self, memory: std::ptr::NonNull<u8>, size: usize) -> Self {
        self.lent = Some(Lent(memory));
        self.size = Some(size);
        self
    }

    /// Sets the attributes that policies see, as [`ThreadBuilder::attributes`] does.
    #[doc(hidden)]
    pub fn attributes(mut self, attributes: Attributes) -> Self {
        self.attributes = Some(attributes);
        self
    }

    /// Sets the index of the virtual processor on which it runs.
    pub fn on(mut self, vp: usize) -> Self {
        self.on = Some(vp);
        self
    }

    /// Spawns the fiber on the caller's machine; see [`spawn_fiber`].
    ///
    /// # Panics
    /// Outside of a machine, or if the machine has no virtual processor with the index given to
    /// [`on`](Self::on).
    #[inline]
    #[track_caller]
    pub fn spawn<F, T>(self, closure: F) -> Thread<T>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        let (name, on) = (self.name.clone(), self.on);
        if self.has_attributes() {
            return self.host().spawn(self.body(closure, Location::caller()).0);
        }
        let (body, site) = self.body(closure, Location::caller());
        match name {
            None => spawn_fiber_here(on, body, site),
            Some(name) => spawn_named_fiber(&entered().expect(OUTSIDE), name, on, body, site),
        }
    }

    /// Makes a delayed fiber: it runs when its value is demanded, or when it is
    /// [scheduled](Thread::run); see [`delay`](crate::delay). A demand starts it at once, on the
    /// fiber's own stack.
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
        let is_plain = self.name.is_none() && self.on.is_none() && !self.has_attributes();
        let host = (!is_plain).then(|| self.host());
        let (body, _) = self.body(closure, Location::caller());
        match Worker::current() {
            Some(vp) => vp.counters().fibers.add_one(),
            None => entered().expect(OUTSIDE).outside.counters.fibers.add_one_shared(),
        }
        if host.is_none() {
            return super::spawn::delay(body);
        }
        host.unwrap_or_default().delay(body)
    }

    /// A builder of a host with the name, the place and the attributes of the fiber.
    pub(crate) fn host(&self) -> ThreadBuilder {
        let mut builder = ThreadBuilder::new();
        if let Some(name) = &self.name {
            builder = builder.name(Arc::clone(name));
        }
        if let Some(vp) = self.on {
            builder = builder.on(vp);
        }
        if let Some(attributes) = self.attributes {
            builder = builder.attributes(attributes);
        }
        builder
    }

    /// Whether the fiber needs a builder of a host.
    pub(crate) fn has_attributes(&self) -> bool {
        self.attributes.is_some()
    }

    #[inline]
    pub(crate) fn body<F: FnOnce() -> T, T>(
        self,
        closure: F,
        site: &'static Location<'static>,
    ) -> (Body<F, T>, &'static Location<'static>) {
        let size = self.size.unwrap_or_else(default_size);
        (Body::new(closure, Plan { size, lent: self.lent, name: self.name, site }), site)
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
    if let Some(vp) = Worker::current() {
        vp.counters().fibers.add_one();
    }
    Builder::new().body(closure, site).0
}

/// Whether the caller is on a fiber's stack, and so may block without blocking its virtual
/// processor. False while a panic unwinds the stack.
pub fn is_fiber() -> bool {
    Worker::current().is_some_and(|vp| vp.bound.fibers.current().is_some())
}

/// The name of the calling fiber, if it has one.
pub fn name() -> Option<String> {
    let vp = Worker::current()?;
    vp.bound.fibers.running()?.name.as_deref().map(str::to_owned)
}

/// Lets the other threads of the virtual processor run first. This is the blocking form of
/// [`yield_now`](crate::yield_now), and the cheapest form on a fiber. On an OS thread that runs no
/// virtual processor it yields to the OS.
///
/// ```
/// # use chanter::prelude::*;
/// # chanter::block_on(async {
/// spawn_fiber(|| (0..10).for_each(|_| chanter::fiber::yield_now())).join().await.unwrap();
/// # });
/// ```
#[inline]
pub fn yield_now() {
    let Some(vp) = Worker::current() else { return std::thread::yield_now() };
    match vp.bound.fibers.current() {
        Some(head) => head.yield_now(),
        None => crate::sched::block_here(crate::sched::yield_now()),
    }
}

/// Ends the turn of the fiber whose stack this is. Elsewhere it does nothing: the caller may be in the middle of a
/// future's poll.
#[cold]
#[inline(never)]
pub(crate) fn end_turn() {
    if let Some(vp) = Worker::current()
        && let Some(head) = vp.bound.fibers.current()
    {
        crate::sched::end_long_turn();
        head.yield_now();
    }
}

/// Yields, as a thread that has used up its quantum, if [`checkpoint`](crate::checkpoint) says so,
/// and returns whether it did. This is the blocking form of
/// [`yield_if_requested`](crate::yield_if_requested). On an OS thread that runs no virtual processor it
/// never yields.
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
