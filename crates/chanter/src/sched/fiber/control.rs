//! The head of a fiber, at the top of its stack: what it needs to suspend, to
//! be ended, and to be named when its stack overflows.

use std::future::Future;
use std::io;
use std::mem::ManuallyDrop;
use std::panic::{AssertUnwindSafe, Location, catch_unwind, resume_unwind};
use std::pin::pin;
use std::ptr::{self, NonNull};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::time::Duration;

use corosensei::Yielder;

use super::overflow;
use super::pool::Pool;
use super::stack::Stack;
use crate::frame::{Header, catch_panic, span};
use crate::policy::Ready;
use crate::sched::fork::ForkScope;
use crate::sched::run::{Revoked, claim, waker_of};
use crate::sched::{DEPTH, Vp};
use crate::sync::{os_thread, stack_local};
use std::cell::{Cell, UnsafeCell};

/// What of a stack a parasite that is nested on it leaves to the fiber.
const RESERVE: usize = 64 * 1024;

/// After so long without anything to do, stacks are given back.
const IDLE: Duration = Duration::from_millis(50);

/// Added to `Header::local_refs`: the thread has given its processor away, and is
/// to be queued again. More than is ever borrowed, and than fits beside it.
pub(crate) const YIELDED: i32 = (1 << 30) + (1 << 29);
/// So many references, or owed ones, may be counted beside it.
const BESIDE: u32 = 1 << 28;

/// A fiber that has begun to run. All of it is its OS thread's; a handler of
/// signals on that OS thread reads.
pub(crate) struct FiberControl {
    frame: NonNull<Header>,
    vp: *const Vp,
    yielder: Cell<*const Yielder<(), ()>>,
    /// What the guard covers.
    pub(crate) guard: (usize, usize),
    pub(crate) size: usize,
    /// Below this address nothing more is nested on the stack.
    nest_limit: usize,
    /// How deep attaches are nested on it.
    depth: Cell<u32>,
    /// While it is suspended: the shared job that runs on its stack; see `Forks::context`.
    context: Cell<*const ForkScope>,
    /// Counts resumptions.
    turns: Cell<u32>,
    /// It is being ended: who would block unwinds.
    ending: Cell<bool>,
    /// While it is: who ran when that began, and the fiber that was being ended then.
    below: Cell<*const Header>,
    outer: Cell<*const FiberControl>,
    os_thread: u32,
    pub(crate) name: Option<Arc<str>>,
    pub(crate) site: &'static Location<'static>,
    /// Those that are polled on its stack, while it is suspended.
    parked: span::Parked,
    /// What holds for its stack, while it is suspended: INV-STACK-LOCAL.
    locals: Cell<*const stack_local::Node>,
    /// The list of those that have begun on a virtual processor.
    next: Cell<*const FiberControl>,
    prev: Cell<*const FiberControl>,
}

/// What a virtual processor knows of fibers: its driver's.
pub(crate) struct Fibers {
    /// The one that runs.
    current: Cell<*const FiberControl>,
    /// Those that have begun.
    first: Cell<*const FiberControl>,
    /// The one that is being ended, the innermost.
    ending: Cell<*const FiberControl>,
    /// The OS thread that is prepared for overflows.
    prepared: Cell<u32>,
    pool: UnsafeCell<Pool>,
}

impl Fibers {
    pub(crate) fn new() -> Self {
        Self {
            current: Cell::new(ptr::null()),
            first: Cell::new(ptr::null()),
            ending: Cell::new(ptr::null()),
            prepared: Cell::new(0),
            pool: UnsafeCell::new(Pool::default()),
        }
    }

    /// # Safety
    /// The caller is the driver, and keeps the borrow for one operation.
    #[allow(clippy::mut_from_ref, reason = "the driver's own")]
    unsafe fn pool(&self) -> &mut Pool {
        // SAFETY: the caller's contract.
        unsafe { &mut *self.pool.get() }
    }

    /// The fiber on whose stack the caller, who drives, is. None while it
    /// unwinds: then it cannot be suspended.
    #[inline(always)]
    pub(crate) fn current(&self) -> Option<&FiberControl> {
        // SAFETY: set while the fiber runs on this OS thread.
        let head = unsafe { self.current.get().as_ref() }?;
        (!std::thread::panicking()).then_some(head)
    }

    /// The fiber on whose stack the caller is, whatever it does.
    pub(crate) fn running(&self) -> Option<&FiberControl> {
        // SAFETY: as in `current`.
        unsafe { self.current.get().as_ref() }
    }

    /// Whether the caller, who drives, is on the stack of a fiber that is being
    /// ended.
    pub(crate) fn is_ending(&self) -> bool {
        // SAFETY: as in `current`.
        unsafe { self.current.get().as_ref() }.is_some_and(|head| head.ending.get())
    }

    /// Whether a thread is being polled on the stacks of the driver, while fibers are ended there, and not just
    /// those. `running` is the innermost thread.
    pub(crate) fn is_polled_below(&self, running: *const Header) -> bool {
        let (mut running, mut ending) = (running, self.ending.get());
        // SAFETY: those that are being ended live.
        while let Some(head) = unsafe { ending.as_ref() } {
            if !ptr::eq(running, head.frame.as_ptr()) {
                return true;
            }
            (running, ending) = (head.below.get(), head.outer.get());
        }
        !running.is_null()
    }

    /// Calls `f`, which the driver makes on a fiber's stack, or on none, as if it were
    /// on none: what blocks in it nests. `f` does not unwind.
    pub(crate) fn without(&self, f: impl FnOnce()) {
        let outer = self.current.replace(ptr::null());
        stack_local::apart(f);
        self.current.set(outer);
    }

    /// Whether no fiber is bound to the driver.
    pub(crate) fn is_empty(&self) -> bool {
        self.first.get().is_null()
    }

    /// The token of a fiber that waits, if there is one. The caller drives.
    pub(crate) fn claim_one(&self) -> Option<Ready> {
        let mut next = self.first.get();
        // SAFETY: those in the list live.
        while let Some(head) = unsafe { next.as_ref() } {
            // SAFETY: as long as it has not ended, neither has its frame.
            if let Some(token) = unsafe { claim(head.frame, false) } {
                return Some(token);
            }
            next = head.next.get();
        }
        None
    }

    /// The frames of those that have begun, and not ended. The caller drives.
    pub(crate) fn frames(&self) -> Vec<NonNull<Header>> {
        let mut frames = Vec::new();
        let mut next = self.first.get();
        // SAFETY: those in the list live.
        while let Some(head) = unsafe { next.as_ref() } {
            frames.push(head.frame);
            next = head.next.get();
        }
        frames
    }

    /// Takes the fibers from their tokens, wherever those are. The caller drives, and polls nothing.
    pub(crate) fn revoke_thread(&self, revoked_threads: &mut Vec<Revoked>) {
        let mut next = self.first.get();
        // SAFETY: those in the list live, and are bound to this OS thread.
        while let Some(head) = unsafe { next.as_ref() } {
            // SAFETY: as above; as long as it has not ended, neither has its frame.
            revoked_threads.extend(unsafe { Revoked::take(head.frame) });
            next = head.next.get();
        }
    }

    /// How long the driver may sleep before stacks are given back.
    pub(crate) fn patience(&self) -> Option<Duration> {
        // SAFETY: the caller is the driver.
        unsafe { self.pool() }.is_fat().then_some(IDLE)
    }

    /// The driver has slept for so long.
    pub(crate) fn slept(&self, time: Duration) {
        if time >= IDLE {
            self.shrink();
        }
    }

    /// The caller, who drives, has nothing to do.
    pub(crate) fn shrink(&self) {
        // SAFETY: the caller is the driver.
        unsafe { self.pool() }.shrink();
    }

    /// The machine ends: no driver is left but the caller.
    pub(crate) fn clear(&self) {
        // SAFETY: nobody else uses it.
        unsafe { self.pool() }.clear();
    }
}

impl FiberControl {
    /// A stack for the thread in `frame`, which begins to run, with its head in
    /// place.
    ///
    /// # Errors
    /// The OS refuses.
    pub(crate) fn begin(
        vp: &Vp,
        frame: NonNull<Header>,
        size: usize,
        name: Option<Arc<str>>,
        site: &'static Location<'static>,
    ) -> io::Result<Stack> {
        let os_thread = os_thread();
        if vp.fibers.prepared.replace(os_thread) != os_thread {
            overflow::prepare();
        }
        // SAFETY: we drive `vp`.
        let (stack, reused) = unsafe { vp.fibers.pool() }.take(size)?;
        let counter = if reused { &vp.counters.stacks_reused } else { &vp.counters.stacks_allocated };
        counter.add_one();
        let guard = stack.guard();
        let place = stack.head();
        let next = vp.fibers.first.get();
        // SAFETY: the stack's memory is ours, and those in the list live.
        unsafe {
            place.write(Self {
                frame,
                vp,
                yielder: Cell::new(ptr::null()),
                guard,
                size: stack.size(),
                nest_limit: guard.1 + (stack.size() / 4).max(RESERVE),
                depth: Cell::new(0),
                context: Cell::new(ptr::null()),
                turns: Cell::new(0),
                ending: Cell::new(false),
                below: Cell::new(ptr::null()),
                outer: Cell::new(ptr::null()),
                os_thread,
                name,
                site,
                parked: span::Parked::new(),
                locals: Cell::new(ptr::null()),
                next: Cell::new(next),
                prev: Cell::new(ptr::null()),
            });
            if let Some(next) = next.as_ref() {
                next.prev.set(place.as_ptr());
            }
        }
        vp.fibers.first.set(place.as_ptr());
        // It must not leave this OS thread any more, since what lies on its
        // stack need not be `Send`.
        // SAFETY: we are its runner.
        let header = unsafe { frame.as_ref() };
        header.kind.set(crate::frame::Kind::Local);
        // A stand-in that drives keeps it.
        header.set_vp(vp);
        vp.has_locals.set(true);
        Ok(stack)
    }

    /// The fiber has ended: its stack is free.
    ///
    /// # Safety
    /// The stack has its head, and nothing else on it is in use.
    pub(crate) unsafe fn end(stack: Stack) {
        // SAFETY: the head is dropped here, once; those in the list live. It
        // runs on, and we drive, the virtual processor that it names.
        let (vp, name) = unsafe {
            let head = stack.head().as_mut();
            let (prev, next) = (head.prev.get(), head.next.get());
            let vp = &*head.vp;
            match prev.as_ref() {
                Some(prev) => prev.next.set(next),
                None => vp.fibers.first.set(next),
            }
            if let Some(next) = next.as_ref() {
                next.prev.set(prev);
            }
            (vp, head.name.take())
        };
        // SAFETY: as above.
        drop(unsafe { vp.fibers.pool() }.put(stack));
        drop(name);
    }

    /// Called on the stack, first of all.
    pub(crate) fn arrive(&self, yielder: &Yielder<(), ()>) {
        self.yielder.set(yielder);
    }

    /// Runs `switch`, which switches to the stack and comes back, and does not unwind.
    ///
    /// INV-STACK: while `Fibers::current` names the fiber, the OS thread is on the fiber's stack, but for `switch` itself. So no code
    /// of a user runs between the two changes of `current`: on this stack it would suspend the fiber where it does not run.
    #[inline(always)]
    pub(crate) fn run<R>(&self, switch: impl FnOnce() -> R) -> R {
        debug_assert_eq!(self.os_thread, os_thread(), "a fiber stays on its OS thread");
        // SAFETY: the machine lives while its thread runs.
        let vp = unsafe { &*self.vp };
        // Subscribers of `tracing` are told here, and on the way back: they are user code.
        self.parked.resume();
        let outer = vp.fibers.current.replace(self);
        let limit = vp.change_stack(self.nest_limit);
        let depth = vp.depth.replace(self.depth.get());
        let locals = stack_local::exchange(self.locals.get());
        let context = vp.forks.change_context(self.context.get());
        let result = switch();
        self.context.set(vp.forks.change_context(context));
        self.locals.set(stack_local::exchange(locals));
        self.depth.set(vp.depth.replace(depth));
        vp.change_stack(limit);
        vp.fibers.current.set(outer);
        self.parked.suspend();
        result
    }

    /// Runs `unwind`, which ends what is left on the stack.
    pub(crate) fn end_early(&self, unwind: impl FnOnce()) {
        self.ending.set(true);
        // Nothing is attached from now on: see `Vp::end_local_threads`.
        self.depth.set(DEPTH);
        // SAFETY: as in `run`.
        let vp = unsafe { &*self.vp };
        let running = Running { vp, outer: vp.running.replace(self.frame.as_ptr()) };
        self.below.set(running.outer);
        self.outer.set(vp.fibers.ending.replace(self));
        let unwound = self.run(|| catch_unwind(AssertUnwindSafe(unwind)));
        vp.fibers.ending.set(self.outer.get());
        drop(running);
        // The report, and the payload, are code of a user: not before the fiber is current no more.
        catch_panic(|| {
            if let Err(payload) = unwound {
                resume_unwind(payload);
            }
        });
    }

    /// Goes back to the scheduler; returns when it is run again. Unwinds if it
    /// is being ended.
    #[inline(always)]
    fn suspend(&self) {
        // SAFETY: the yielder is at the bottom of our stack.
        unsafe { &*self.yielder.get() }.suspend(());
        self.turns.set(self.turns.get().wrapping_add(1));
    }

    /// Polls `future` as the fiber, which is suspended in between.
    #[inline(always)]
    pub(crate) fn block<F: Future>(&self, future: F) -> F::Output {
        let mut future = pin!(future);
        // SAFETY: as in `run`.
        let vp = unsafe { &*self.vp };
        // A parasite that is nested on our stack may be the one that blocks.
        let _running = Running { vp, outer: vp.running.replace(self.frame.as_ptr()) };
        if self.ending.get() {
            // Somebody has caught what unwinds it.
            self.suspend();
        }
        // SAFETY: the frame lives while its thread runs: our right to it stands
        // for a reference, which is not given up.
        let waker = ManuallyDrop::new(unsafe { waker_of(self.frame) });
        let mut cx = Context::from_waker(&waker);
        loop {
            let turn = self.turns.get();
            match future.as_mut().poll(&mut cx) {
                // A thread that ran on this stack has ended instead of us.
                Poll::Ready(_value) if self.ending.get() => self.suspend(),
                Poll::Ready(value) => return value,
                Poll::Pending if self.turns.get() == turn => self.suspend(),
                // The poll itself has blocked, and may have used up a wake-up
                // that was meant for us.
                Poll::Pending => (),
            }
        }
    }

    /// Lets the others run first.
    #[inline]
    pub(crate) fn yield_now(&self) {
        // SAFETY: we are its runner.
        let local_refs = &unsafe { self.frame.as_ref() }.local_refs;
        if local_refs.get().unsigned_abs() < BESIDE && !self.ending.get() {
            // The runner stays the runner until it has queued the token again:
            // the state word need not know.
            local_refs.set(local_refs.get() + YIELDED);
            // SAFETY: as in `run`.
            let vp = unsafe { &*self.vp };
            let _running = Running { vp, outer: vp.running.get() };
            self.suspend();
        } else {
            self.block(crate::sched::yield_now());
        }
    }
}

/// Restores who runs, also if it unwinds.
struct Running<'a> {
    vp: &'a Vp,
    outer: *mut Header,
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.vp.running.set(self.outer);
    }
}

/// The stack that is used if none is asked for, in bytes.
pub(crate) fn default_size() -> usize {
    static SIZE: OnceLock<usize> = OnceLock::new();
    *SIZE.get_or_init(|| (256 * 1024).max(4 * super::stack::page_size()))
}
