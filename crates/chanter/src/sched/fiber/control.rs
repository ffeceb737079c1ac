//! The control block of a fiber, at the top of its stack. The fiber needs it to suspend, to be
//! ended, and to be named when its stack overflows.

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

use super::bound::may_be_suspended;
use super::overflow;
use super::pool::{Origin, Pool};
use super::stack::Stack;
use crate::frame::{Header, catch_panic, environment, span};
use crate::policy::Ready;
use crate::sched::Worker;
use crate::sched::fork::ForkScope;
use crate::sched::limits::{DEPTH, STACK_RESERVE, STACKS_IDLE};
use crate::sched::run::Revoked;
use crate::sched::wake::{claim, waker_of};
use crate::sync::{os_thread, stack_local};
use std::cell::{Cell, UnsafeCell};

/// The mark that is added to `Header::local_refs` when a thread yields and must be queued again. It
/// is more than the number of references that are ever borrowed, and than [`BESIDE`].
pub(crate) const YIELDED: i32 = (1 << 30) + (1 << 29);
/// The number of references, lent or owed, that may be counted beside [`YIELDED`].
const BESIDE: u32 = 1 << 28;

/// The control block of a fiber that has begun to run. Only its OS thread uses it; a signal handler
/// on that OS thread reads it.
pub(crate) struct FiberControl {
    frame: NonNull<Header>,
    worker: *const Worker,
    yielder: Cell<*const Yielder<(), ()>>,
    /// The addresses where the guard begins and ends.
    pub(crate) guard: (usize, usize),
    pub(crate) size: usize,
    /// The address below which no parasite is nested on the stack any more.
    nest_limit: usize,
    /// The number of nested attaches on the stack.
    depth: Cell<u32>,
    /// The shared job that runs on its stack, while the fiber is suspended; see `Forks::context`.
    context: Cell<*const ForkScope>,
    /// The number of resumptions, modulo 2^32.
    turns: Cell<u32>,
    /// True if the fiber is being ended: an operation that would block unwinds.
    ending: Cell<bool>,
    /// The thread that ran when the end began. `outer` is the fiber that was being ended then. Both
    /// count while this one is being ended.
    below: Cell<*const Header>,
    outer: Cell<*const FiberControl>,
    os_thread: u32,
    pub(crate) name: Option<Arc<str>>,
    pub(crate) site: &'static Location<'static>,
    /// The spans of the threads that are polled on its stack, while it is suspended.
    parked: span::Parked,
    /// The stack-local values of its stack, while it is suspended: INV-STACK-LOCAL.
    locals: Cell<*const stack_local::Node>,
    /// The links of the list of fibers that have begun on a virtual processor.
    next: Cell<*const FiberControl>,
    prev: Cell<*const FiberControl>,
}

/// The fibers of a virtual processor. Only its worker uses this.
pub(crate) struct Fibers {
    /// The fiber that runs; null if there is none.
    current: Cell<*const FiberControl>,
    /// The first of the fibers that have begun and not ended.
    first: Cell<*const FiberControl>,
    /// The innermost fiber that is being ended; null if there is none.
    ending: Cell<*const FiberControl>,
    /// The number of the OS thread that is prepared for overflows.
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
    /// The caller is the worker, and keeps the borrow for one operation.
    #[allow(clippy::mut_from_ref, reason = "the driver's own")]
    unsafe fn pool(&self) -> &mut Pool {
        // SAFETY: the caller is the worker and keeps the borrow for one operation, so there is no
        // other borrow.
        unsafe { &mut *self.pool.get() }
    }

    /// The fiber with the stack that the caller, the worker, is on. `None` while it unwinds,
    /// because then it cannot be suspended.
    #[inline(always)]
    pub(crate) fn current(&self) -> Option<&FiberControl> {
        // SAFETY: `current` is set only while the fiber runs on this OS thread, and so lives.
        let head = unsafe { self.current.get().as_ref() }?;
        (!std::thread::panicking()).then_some(head)
    }

    /// The address of the fiber with the stack that the caller is on; null if there is none.
    #[cfg(feature = "tokio")]
    pub(crate) fn address_here() -> *const () {
        let fiber = Worker::current().and_then(|worker| worker.bound.fibers.current());
        fiber.map_or(ptr::null(), |fiber| ptr::from_ref(fiber).cast())
    }

    /// The fiber with the stack that the caller is on, even while it unwinds.
    pub(crate) fn running(&self) -> Option<&FiberControl> {
        // SAFETY: `current` is set only while the fiber runs on this OS thread, and so lives.
        unsafe { self.current.get().as_ref() }
    }

    /// Whether the caller, the worker, is on the stack of a fiber that is being ended.
    pub(crate) fn is_ending(&self) -> bool {
        // SAFETY: `current` is set only while the fiber runs on this OS thread, and so lives.
        unsafe { self.current.get().as_ref() }.is_some_and(|head| head.ending.get())
    }

    /// Whether a thread, other than the fibers that are being ended, is being polled on the stacks
    /// of the worker. `running` is the innermost thread.
    pub(crate) fn is_polled_below(&self, running: *const Header) -> bool {
        let (mut running, mut ending) = (running, self.ending.get());
        // SAFETY: fibers that are being ended live.
        while let Some(head) = unsafe { ending.as_ref() } {
            if !ptr::eq(running, head.frame.as_ptr()) {
                return true;
            }
            (running, ending) = (head.below.get(), head.outer.get());
        }
        !running.is_null()
    }

    /// Yields, if the caller is on a fiber that may be suspended. If the fiber is ended meanwhile, this returns, and the
    /// end begins anew at the next operation that blocks.
    #[cold]
    pub(crate) fn let_others_run(&self) {
        if let Some(fiber) = self.current()
            && !fiber.ending.get()
            && may_be_suspended(fiber)
        {
            // The caller has something on this stack that others use.
            drop(catch_unwind(AssertUnwindSafe(|| fiber.yield_now())));
        }
    }

    /// Calls `f` as if the worker were on no fiber's stack: blocking operations in `f` nest. `f`
    /// does not unwind.
    pub(crate) fn without(&self, f: impl FnOnce()) {
        let outer = self.current.replace(ptr::null());
        stack_local::apart(f);
        self.current.set(outer);
    }

    /// Whether no fiber is bound to the worker.
    pub(crate) fn is_empty(&self) -> bool {
        self.first.get().is_null()
    }

    /// Claims the token of a fiber that waits, if there is one. The caller is the worker.
    pub(crate) fn claim_one(&self) -> Option<Ready> {
        let mut next = self.first.get();
        // SAFETY: fibers in the list live.
        while let Some(head) = unsafe { next.as_ref() } {
            // SAFETY: the fiber has not ended, so its frame and machine live.
            if let Some(token) = unsafe { claim(head.frame, false) } {
                return Some(token);
            }
            next = head.next.get();
        }
        None
    }

    /// The frames of the fibers that have begun, and not ended. The caller is the worker.
    pub(crate) fn frames(&self) -> Vec<NonNull<Header>> {
        let mut frames = Vec::new();
        let mut next = self.first.get();
        // SAFETY: fibers in the list live.
        while let Some(head) = unsafe { next.as_ref() } {
            frames.push(head.frame);
            next = head.next.get();
        }
        frames
    }

    /// Revokes the fibers that have tokens, wherever these are. The caller is the worker, and polls
    /// nothing.
    pub(crate) fn revoke_thread(&self, revoked_threads: &mut Vec<Revoked>) {
        let mut next = self.first.get();
        // SAFETY: fibers in the list live, and are bound to this OS thread.
        while let Some(head) = unsafe { next.as_ref() } {
            // SAFETY: the fiber has not ended, so its frame is in use. It is bound to this OS
            // thread, which polls nothing.
            revoked_threads.extend(unsafe { Revoked::take(head.frame) });
            next = head.next.get();
        }
    }

    /// The time that the worker may sleep before stacks are given back; `None`: there is no such
    /// limit.
    pub(crate) fn patience(&self) -> Option<Duration> {
        // SAFETY: the caller is the worker.
        unsafe { self.pool() }.is_fat().then_some(STACKS_IDLE)
    }

    /// Gives stacks back if the worker has slept for [`STACKS_IDLE`] or longer.
    pub(crate) fn slept(&self, time: Duration) {
        if time >= STACKS_IDLE {
            self.shrink();
        }
    }

    /// Gives stacks back: the caller, the worker, has no work.
    pub(crate) fn shrink(&self) {
        // SAFETY: the caller is the worker.
        unsafe { self.pool() }.shrink();
    }

    /// Gives all stacks back: the machine ends, and no worker except the caller is left.
    pub(crate) fn clear(&self) {
        // SAFETY: no other worker is left, so nobody else uses the pool.
        unsafe { self.pool() }.clear();
    }
}

impl FiberControl {
    /// Takes a stack for the thread in `frame`, which begins to run, and puts its control block in
    /// place. The stack is `lent` if that is given.
    ///
    /// # Errors
    /// The error of the OS, if it refuses, or if no such large stack is supported.
    pub(crate) fn begin(
        worker: &Worker,
        frame: NonNull<Header>,
        size: usize,
        lent: Option<Lent>,
        name: Option<Arc<str>>,
        site: &'static Location<'static>,
    ) -> io::Result<Stack> {
        let os_thread = os_thread();
        if worker.bound.fibers.prepared.replace(os_thread) != os_thread {
            overflow::prepare();
        }
        let (stack, origin) = match lent {
            // SAFETY: the memory is lent for as long as the fiber lives.
            Some(Lent(memory)) => (unsafe { Stack::lent(memory, size) }?, Origin::New),
            // SAFETY: we are `worker`.
            None => unsafe { worker.bound.fibers.pool() }.take(size)?,
        };
        let counters = worker.counters();
        match origin {
            Origin::New => counters.stacks.allocated.add_one(),
            Origin::Kept => counters.stacks.pooled.add_one(),
            Origin::JustEnded => counters.stacks.recycled.add_one(),
        }
        let guard = stack.guard();
        let place = stack.head();
        let next = worker.bound.fibers.first.get();
        // SAFETY: the stack's memory is ours, and fibers in the list live.
        unsafe {
            place.write(Self {
                frame,
                worker,
                yielder: Cell::new(ptr::null()),
                guard,
                size: stack.size(),
                nest_limit: guard.1 + (stack.size() / 4).max(STACK_RESERVE),
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
        worker.bound.fibers.first.set(place.as_ptr());
        // The fiber must not leave this OS thread any more, since values on its stack need not be
        // `Send`.
        // SAFETY: we are the thread's runner.
        let header = unsafe { frame.as_ref() };
        header.kind.set(crate::frame::Kind::Local);
        // The fiber stays with a spare worker's virtual processor, if one drives.
        header.set_address(worker.bound_address());
        worker.bound.has_locals.set(true);
        Ok(stack)
    }

    /// Gives back the stack of a fiber that has ended.
    ///
    /// # Safety
    /// The stack has its control block in place, and nothing else on it is in use.
    pub(crate) unsafe fn end(stack: Stack) {
        // SAFETY: the control block is in place and ends here, once. Fibers in the list live. We
        // drive the virtual processor that it names.
        let (worker, name) = unsafe {
            let head = stack.head().as_mut();
            let (prev, next) = (head.prev.get(), head.next.get());
            let worker = &*head.worker;
            match prev.as_ref() {
                Some(prev) => prev.next.set(next),
                None => worker.bound.fibers.first.set(next),
            }
            if let Some(next) = next.as_ref() {
                next.prev.set(prev);
            }
            (worker, head.name.take())
        };
        // SAFETY: we are `worker`.
        drop(unsafe { worker.bound.fibers.pool() }.put(stack));
        drop(name);
    }

    /// Notes the yielder. This is called first on the new stack.
    pub(crate) fn arrive(&self, yielder: &Yielder<(), ()>) {
        self.yielder.set(yielder);
    }

    /// Runs `switch`, which switches to the stack and comes back, and does not unwind.
    ///
    /// INV-STACK: while `Fibers::current` names the fiber, the OS thread is on the fiber's stack,
    /// except within `switch` itself. So no user code runs on the old stack between the two changes
    /// of `current`: it would suspend the fiber where it does not run.
    #[inline(always)]
    pub(crate) fn run<R>(&self, switch: impl FnOnce() -> R) -> R {
        debug_assert_eq!(self.os_thread, os_thread(), "a fiber stays on its OS thread");
        // SAFETY: the machine, and so the virtual processor, lives while its thread runs.
        let worker = unsafe { &*self.worker };
        // Subscribers of `tracing`, which are user code, are called here and on the way back.
        self.parked.resume();
        let outer = worker.bound.fibers.current.replace(self);
        let limit = worker.change_stack(self.nest_limit);
        let depth = worker.depth.replace(self.depth.get());
        let locals = stack_local::exchange(self.locals.get());
        let context = worker.forks.change_context(self.context.get());
        let result = switch();
        self.context.set(worker.forks.change_context(context));
        self.locals.set(stack_local::exchange(locals));
        self.depth.set(worker.depth.replace(depth));
        worker.change_stack(limit);
        worker.bound.fibers.current.set(outer);
        self.parked.suspend();
        result
    }

    /// Ends the fiber early: runs `unwind`, which drops the values on its stack.
    pub(crate) fn end_early(&self, unwind: impl FnOnce()) {
        self.ending.set(true);
        // No parasite is attached on the stack from now on: see `Worker::end_local_threads`.
        self.depth.set(DEPTH);
        // SAFETY: the machine, and so the virtual processor, lives while its thread runs.
        let worker = unsafe { &*self.worker };
        let running = Running { worker, outer: worker.running.replace(self.frame.as_ptr()) };
        self.below.set(running.outer);
        self.outer.set(worker.bound.fibers.ending.replace(self));
        let unwound = self.run(|| catch_unwind(AssertUnwindSafe(unwind)));
        worker.bound.fibers.ending.set(self.outer.get());
        drop(running);
        // The report and the payload's destructor are user code. They run only after the fiber has
        // ceased to be current.
        catch_panic(|| {
            if let Err(payload) = unwound {
                resume_unwind(payload);
            }
        });
    }

    /// Goes back to the scheduler, and returns when the fiber is run again. Unwinds if the fiber is
    /// being ended.
    #[inline(always)]
    fn suspend(&self) {
        // SAFETY: the yielder is at the bottom of our stack, and lives as long as the fiber runs.
        unsafe { &*self.yielder.get() }.suspend(());
        self.turns.set(self.turns.get().wrapping_add(1));
    }

    /// Polls `future` as the fiber until it is ready. The fiber is suspended between polls.
    #[inline(always)]
    pub(crate) fn block<F: Future>(&self, future: F) -> F::Output {
        // SAFETY: the machine, and so the virtual processor, lives while its thread runs.
        let worker = unsafe { &*self.worker };
        if ptr::eq(worker.running.get(), self.frame.as_ptr()) {
            return self.block_as_itself(worker, future);
        }
        self.block_for(worker, future)
    }

    /// As [`block`](Self::block), for a parasite that is nested on our stack, and keeps its bindings.
    #[cold]
    #[inline(never)]
    fn block_for<F: Future>(&self, worker: &Worker, future: F) -> F::Output {
        let bindings = environment::current();
        let _running = Running { worker, outer: worker.running.replace(self.frame.as_ptr()) };
        match bindings {
            Some(bindings) => environment::within(&bindings, || self.block_as_itself(worker, future)),
            None => self.block_as_itself(worker, future),
        }
    }

    #[inline(always)]
    fn block_as_itself<F: Future>(&self, worker: &Worker, future: F) -> F::Output {
        let mut future = pin!(future);
        let _running = Running { worker, outer: worker.running.replace(self.frame.as_ptr()) };
        if self.ending.get() {
            // Somebody has caught the unwinding, which begins anew.
            self.suspend();
        }
        // SAFETY: the frame lives while its thread runs. The runner's right to it stands for a
        // reference, which is never given up.
        let waker = ManuallyDrop::new(unsafe { waker_of(self.frame) });
        let mut cx = Context::from_waker(&waker);
        loop {
            let turn = self.turns.get();
            match future.as_mut().poll(&mut cx) {
                // The fiber was ended while the poll was blocked, by a thread that ran on this
                // stack.
                Poll::Ready(_value) if self.ending.get() => self.suspend(),
                Poll::Ready(value) => return value,
                Poll::Pending if self.turns.get() == turn => self.suspend(),
                // The poll itself has blocked, and may have consumed a wake-up that was meant for
                // this fiber.
                Poll::Pending => (),
            }
        }
    }

    /// Lets the other threads run first.
    #[inline]
    pub(crate) fn yield_now(&self) {
        // SAFETY: we are the thread's runner.
        let local_refs = &unsafe { self.frame.as_ref() }.local_refs;
        if local_refs.get().unsigned_abs() < BESIDE && !self.ending.get() {
            // The runner stays the runner until it has queued the token again, so the state word
            // need not change.
            local_refs.set(local_refs.get() + YIELDED);
            // SAFETY: the machine, and so the virtual processor, lives while its thread runs.
            let worker = unsafe { &*self.worker };
            let _running = Running { worker, outer: worker.running.get() };
            self.suspend();
        } else {
            self.block(crate::sched::yield_now());
        }
    }
}

/// The lowest byte of memory that a caller lends to a fiber, as its stack.
#[derive(Clone, Copy)]
pub(crate) struct Lent(pub(crate) NonNull<u8>);

// SAFETY: it is plain memory, and only the fiber uses it.
unsafe impl Send for Lent {}
// SAFETY: a shared address does nothing.
unsafe impl Sync for Lent {}

/// Restores the running thread when it is dropped, also if the stack unwinds.
struct Running<'a> {
    worker: &'a Worker,
    outer: *mut Header,
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.worker.running.set(self.outer);
    }
}

/// The default size of a stack in bytes.
pub(crate) fn default_size() -> usize {
    static SIZE: OnceLock<usize> = OnceLock::new();
    *SIZE.get_or_init(|| (256 * 1024).max(4 * super::stack::page_size()))
}
