//! Spawning of hosts, local hosts, delayed hosts and parasites.

use std::any::type_name;
use std::cell::Cell;
use std::fmt;
use std::future::Future;
use std::mem::ManuallyDrop;
use std::panic::Location;
use std::ptr::{self, NonNull};
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use super::attributed::{SpawnOptions, spawn_said_in};
use super::join::{HostFrame, Thread};
use crate::event::Event;
use crate::frame::body::{ParasiteFrame, Vtable, fits};
use crate::frame::slab::class_of;
use crate::frame::state::State;
use crate::frame::{Arena, Header, JoinError, Kind, Site, environment, span};
use crate::policy::{Ready, Reason};
use crate::sched::run::{polling, settle};
use crate::sched::{Shared, Spawn, Vp, entered};

pub(crate) const OUTSIDE: &str =
    "threads are spawned on a machine: use `#[chanter::main]`, `Machine::block_on` or `Machine::spawn`";

/// Spawns a host: a thread that the policy schedules, beside the caller.
///
/// The future must be `Send`, because it may continue on any virtual processor. A panic becomes the
/// thread's result; see [`Thread::join`]. An event may be given instead of a future, as in
/// `spawn(tx.send(1))`.
///
/// # Panics
/// Outside of a machine (use [`Machine::spawn`](crate::Machine::spawn) there).
///
/// ```
/// # use chanter::prelude::*;
/// # chanter::block_on(async {
/// let thread = spawn(async { 6 * 7 });
/// assert_eq!(thread.join().await.unwrap(), 42);
///
/// let (tx, rx) = channel();
/// spawn(tx.send("from an event"));
/// assert_eq!(rx.recv().await.unwrap(), "from an event");
/// # });
/// ```
#[inline]
#[track_caller]
pub fn spawn<F>(future: F) -> Thread<F::Output>
where
    F: IntoFuture,
    F::IntoFuture: Send + 'static,
    F::Output: Send + 'static,
{
    let future = future.into_future();
    spawn_at(future, Location::caller())
}

/// As [`spawn`], for the place `site`.
#[inline]
#[track_caller]
pub(super) fn spawn_at<F>(future: F, site: Site) -> Thread<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    match Vp::current() {
        Some(vp) => spawn_here(vp, future, site),
        None => spawn_in(&entered().expect(OUTSIDE), None, future, site),
    }
}

/// Spawns a fiber, whose `body` makes one, from a thread of a machine.
#[inline]
pub(super) fn spawn_fiber_here<F>(on: Option<usize>, body: F, site: Site) -> Thread<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    match Vp::current() {
        Some(vp) if on.is_none() => {
            vp.counters.fibers.add_one();
            spawn_here(vp, body, site)
        }
        _ => spawn_fiber_in(&entered().expect(OUTSIDE), on, body, site),
    }
}

/// Spawns a fiber on `machine`, from any OS thread.
pub(crate) fn spawn_fiber_in<F>(machine: &Shared, on: Option<usize>, body: F, site: Site) -> Thread<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    machine.outside.counters.fibers.add_one_shared();
    spawn_in(machine, on, body, site)
}

/// Spawns a fiber with a name on `machine`, from any OS thread.
pub(crate) fn spawn_named_fiber<F>(
    machine: &Shared,
    name: Arc<str>,
    on: Option<usize>,
    body: F,
    site: Site,
) -> Thread<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    machine.outside.counters.fibers.add_one_shared();
    spawn_said_in(machine, SpawnOptions { name: Some(name), on, ..SpawnOptions::default() }, body, site)
}

fn spawn_here<F>(vp: &Vp, future: F, site: Site) -> Thread<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    // SAFETY: we drive `vp`. The body is `'static` and `Send`.
    unsafe { spawn_borrowing_here(vp, future, site) }
}

/// # Safety
/// As for [`spawn_borrowing`]; the caller drives `vp`.
unsafe fn spawn_borrowing_here<F: Future>(vp: &Vp, future: F, site: Site) -> Thread<F::Output> {
    let vps = vp.machine().vps.len();
    if vps > 1
        && let Some(index) = vp.place(vps).filter(|index| *index != vp.index)
    {
        // SAFETY: the caller drives `vp`, and so owns its arena. The body is `Send`, and what it
        // borrows outlives it.
        let (frame, thread) =
            unsafe { new_host::<false, _>(&vp.worker.arena, &vp.machine().vps[index], future, Kind::Host) };
        vp.counters.hosts.add_one();
        vp.machine().spawned(frame, site);
        // SAFETY: this is the only token of the new frame.
        vp.machine().vps[index].push(unsafe { Ready::from_frame(frame) });
        return thread;
    }
    // SAFETY: the caller drives `vp`. The body is `Send`, and what it borrows outlives it.
    unsafe { spawn_body(vp, future, Kind::Host, site) }
}

/// Spawns a host on `machine`, from any OS thread.
pub(crate) fn spawn_in<F>(machine: &Shared, on: Option<usize>, future: F, site: Site) -> Thread<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    // SAFETY: the body is `'static` and `Send`.
    unsafe { spawn_any_in(machine, on, future, site) }
}

/// Spawns a host with a body that may borrow on `machine`, from any OS thread.
///
/// # Safety
/// The body and its output are `Send`. The data that the body borrows outlives it. The output
/// borrows nothing that might not outlive the frame. The machine has not ended.
pub(super) unsafe fn spawn_borrowing<F: Future>(
    machine: &Shared,
    future: F,
    site: Site,
) -> Thread<F::Output> {
    // SAFETY: the body and its output are `Send`, their borrows last long enough, and the machine
    // has not ended, as the caller has promised.
    unsafe { spawn_any_in(machine, None, future, site) }
}

/// # Safety
/// As for [`spawn_borrowing`].
unsafe fn spawn_any_in<F: Future>(
    machine: &Shared,
    on: Option<usize>,
    future: F,
    site: Site,
) -> Thread<F::Output> {
    let here = Vp::current().filter(|vp| ptr::eq(vp.machine(), machine));
    if let (Some(vp), None) = (here, on) {
        // SAFETY: we drive `vp`. The body and its output are `Send`, and their borrows last long
        // enough, as the caller has promised.
        return unsafe { spawn_borrowing_here(vp, future, site) };
    }
    let (home, kind) = match on {
        Some(index) => {
            let home = machine.vps.get(index).unwrap_or_else(|| {
                panic!("no virtual processor {index}: the machine has {}", machine.vps.len())
            });
            (&**home, Kind::Pinned)
        }
        None => (machine.any_vp(), Kind::Host),
    };
    let make = |arena: &Arena| {
        // SAFETY: the arena belongs to us: we drive its processor, or hold its lock. The body and
        // its output are `Send`, and their borrows last long enough, as the caller has promised.
        unsafe { new_host::<false, _>(arena, home, future, kind) }
    };
    let (frame, thread) = match here {
        Some(vp) => make(&vp.worker.arena),
        None => machine.with_arena(make),
    };
    machine.outside.counters.hosts.add_one_shared();
    machine.spawned(frame, site);
    // SAFETY: this is the only token of the new frame.
    home.push(unsafe { Ready::from_frame(frame) });
    thread
}

/// Creates a *delayed* host: a thread that runs only when somebody demands its value, or schedules
/// it with [`Thread::run`].
///
/// The value is demanded by an await of the handle, or by a synchronization on [`Thread::join`]. A
/// demander on a thread of the machine *steals* a thread that has not run: it polls the thread at
/// once, on its own stack. This costs about as much as a few calls. A stolen thread that blocks
/// goes on as a host. Other demanders schedule the thread. So a delayed thread is a lazy value that
/// may block, and may be shared. Spawned threads that still wait for their first turn are stolen in
/// the same way.
///
/// If the last handle of a delayed thread is dropped, the thread never runs, and its future is
/// dropped. A delayed thread takes the memory of its future and its result, and some 80 bytes.
///
/// # Panics
/// Outside of a machine.
///
/// ```
/// # use chanter::prelude::*;
/// # use chanter::thread::Progress;
/// # chanter::block_on(async {
/// let sum = delay(async { (1..=100).sum::<u32>() });
/// assert_eq!(sum.progress(), Progress::Delayed);
/// assert_eq!(sum.await.unwrap(), 5050);
/// # });
/// ```
///
/// STING, section 3.1 (`create-thread`, and stealing).
#[inline]
#[track_caller]
pub fn delay<F>(future: F) -> Thread<F::Output>
where
    F: IntoFuture,
    F::IntoFuture: Send + 'static,
    F::Output: Send + 'static,
{
    let future = future.into_future();
    match Vp::current() {
        Some(vp) => {
            vp.counters.delayed.add_one();
            // SAFETY: we drive `vp`. The body is `'static` and `Send`.
            unsafe { delay_body(vp, future, Location::caller()) }
        }
        // The future is boxed here, so that its address does not escape in this function, and the
        // compiler makes it directly in its place.
        None => delay_outside(&entered().expect(OUTSIDE), Box::new(future), Location::caller()),
    }
}

#[cold]
#[allow(clippy::boxed_local, reason = "see the caller")]
fn delay_outside<F>(machine: &Shared, future: Box<F>, site: Site) -> Thread<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    let home = machine.any_vp();
    let (frame, thread) = machine.with_arena(|arena| {
        // SAFETY: the holder of the lock owns the arena. The body is `'static` and `Send`.
        unsafe { new_host::<true, _>(arena, home, *future, Kind::Host) }
    });
    machine.outside.counters.delayed.add_one_shared();
    machine.spawned(frame, site);
    thread
}

/// Spawns a host of any kind on the current virtual processor.
///
/// # Safety
/// The caller drives `vp`. The body is `Send` unless `kind` is `Local`. It outlives the thread: it
/// is `'static`, or the caller waits for the thread's end.
pub(crate) unsafe fn spawn_body<F: Future>(vp: &Vp, future: F, kind: Kind, site: Site) -> Thread<F::Output> {
    // A local thread belongs to the OS thread, and so to a spare worker's virtual processor, if one
    // drives.
    let home = if kind == Kind::Local { vp } else { vp.principal() };
    // SAFETY: the caller drives `vp`.
    let (frame, thread) = unsafe { new_host::<false, _>(&vp.worker.arena, home, future, kind) };
    vp.counters.hosts.add_one();
    vp.machine().spawned(frame, site);
    // SAFETY: this is the only token of the new frame.
    vp.enqueue(unsafe { Ready::from_frame(frame) }, Reason::New);
    thread
}

/// As [`spawn_body`], for a delayed host.
///
/// # Safety
/// As for [`spawn_body`].
#[inline(always)]
pub(super) unsafe fn delay_body<F: Future>(vp: &Vp, future: F, site: Site) -> Thread<F::Output> {
    // SAFETY: the caller drives `vp`.
    let (frame, thread) =
        unsafe { new_host::<true, _>(&vp.worker.arena, vp.principal(), future, Kind::Host) };
    vp.machine().spawned(frame, site);
    thread
}

/// # Safety
/// The caller owns `arena`. The body is as for [`spawn_body`].
#[inline]
pub(super) unsafe fn new_host<const DELAYED: bool, F: Future>(
    arena: &Arena,
    home: &Vp,
    future: F,
    kind: Kind,
) -> (NonNull<Header>, Thread<F::Output>) {
    if !fits::<HostFrame<F>>() {
        // The body is wrapped, with its future and its output in boxes.
        let boxed = Box::pin(async move { Box::new(future.await) });
        // SAFETY: the caller owns `arena`, and the body is as for `spawn_body`, boxed or not. The
        // vtable unpacks the output.
        return unsafe { new_boxed_host::<DELAYED, _, _>(arena, home, boxed, kind) };
    }
    // SAFETY: the caller owns `arena`, and the body is as for `spawn_body`. The frame is new, and
    // its handle's reference is ours.
    unsafe {
        let vtable = if DELAYED { HostFrame::<F>::DELAYED_VTABLE } else { HostFrame::<F>::VTABLE };
        let frame = new_fitting_host::<DELAYED, _>(arena, home, future, kind, vtable);
        (frame, Thread::from_frame(frame))
    }
}

unsafe fn new_boxed_host<const DELAYED: bool, T, F: Future<Output = Box<T>>>(
    arena: &Arena,
    home: &Vp,
    future: F,
    kind: Kind,
) -> (NonNull<Header>, Thread<T>) {
    // SAFETY: the caller, `new_host`, owns `arena`, and the body is as for `spawn_body`. The vtable
    // unpacks the output, so the handle's type is `T`.
    unsafe {
        let vtable =
            if DELAYED { HostFrame::<F>::BOXED_DELAYED_VTABLE } else { HostFrame::<F>::BOXED_VTABLE };
        let frame = new_fitting_host::<DELAYED, _>(arena, home, future, kind, vtable);
        (frame, Thread::from_frame(frame))
    }
}

#[inline]
unsafe fn new_fitting_host<const DELAYED: bool, F: Future>(
    arena: &Arena,
    home: &Vp,
    future: F,
    kind: Kind,
    vtable: &'static Vtable,
) -> NonNull<Header> {
    assert!(fits::<HostFrame<F>>(), "the body fits a frame");
    // SAFETY: the caller owns the arena, the class is large enough, and the frame is new. The
    // caller's handle takes one reference; the token, if there is one, has the other.
    unsafe {
        let frame = arena.take(class_of(size_of::<HostFrame<F>>()));
        let state = if DELAYED { State::new_delayed() } else { State::new_host() };
        HostFrame::<F>::write(frame, Header::new(state, vtable, kind, home.opaque()), future);
        frame
    }
}

/// Spawns a host with a future that need not be `Send`: it stays on the OS thread that spawns it.
/// It ends at the latest when that OS thread stops running its virtual processor, because
/// `block_on` returns or the machine ends.
///
/// # Panics
/// On an OS thread that runs no virtual processor.
#[track_caller]
pub fn spawn_local<F>(future: F) -> LocalThread<F::Output>
where
    F: IntoFuture,
    F::IntoFuture: 'static,
    F::Output: 'static,
{
    let future = future.into_future();
    let vp = Vp::current().expect("local threads are spawned on a thread of a machine");
    let value = Rc::new(Cell::new(None));
    let slot = Rc::clone(&value);
    let body = async move { slot.set(Some(future.await)) };
    vp.worker.has_locals.set(true);
    // SAFETY: we drive `vp`. The body is `'static` and stays on this OS thread. Its result, which
    // may be dropped on any OS thread, is `()`.
    let thread = unsafe { spawn_body(vp, body, Kind::Local, Location::caller()) };
    LocalThread { thread, value }
}

/// A handle of a local thread; see [`spawn_local`].
pub struct LocalThread<T> {
    thread: Thread<()>,
    value: Rc<Cell<Option<T>>>,
}

impl<T: 'static> LocalThread<T> {
    /// The event of the thread's completion; see [`Thread::join`].
    pub fn join(&self) -> impl Event<Output = Result<T, JoinError>> + use<T> {
        let value = Rc::clone(&self.value);
        self.thread.join().wrap(move |result| result.and_then(|()| value.take().ok_or_else(JoinError::taken)))
    }

    /// Whether the thread is determined.
    pub fn is_determined(&self) -> bool {
        self.thread.is_determined()
    }
}

impl<T> LocalThread<T> {
    pub(super) fn thread(&self) -> &Thread<()> {
        &self.thread
    }
}

impl<T> fmt::Debug for LocalThread<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.thread.fmt(f)
    }
}

/// Spawns a parasite: polls `future` at once, here, on the caller's stack.
///
/// A parasite that does not block costs about as much as a call. If it blocks, it is *reified*, and
/// the caller goes on. Its unblocker *attaches* it to the unblocker's own stack, or queues it if
/// the stack is deep or the scheduler has waited for long. Semantically it is a host; use it for
/// work that is usually short. Its output is dropped, and its panic is reported.
///
/// The caller may spawn parasites for a while without a pause while another virtual processor
/// searches for work. Then a parasite now and then starts as a queued host instead.
///
/// # Panics
/// Outside of a machine. A panic of `future` does not reach the caller.
///
/// ```
/// # use chanter::prelude::*;
/// # chanter::block_on(async {
/// let (tx, rx) = channel();
/// spawn_parasite(async move { tx.send("an asynchronous send").await });
/// assert_eq!(rx.recv().await.unwrap(), "an asynchronous send");
/// # });
/// ```
///
/// Featherweight Threads, section 2.3 (`spawnParasite`).
#[inline(always)]
#[track_caller]
pub fn spawn_parasite<F>(future: F)
where
    F: IntoFuture,
    F::IntoFuture: Send + 'static,
{
    let future = future.into_future();
    match Vp::current() {
        Some(vp)
            if fits::<ParasiteFrame<F>>() && vp.may_spawn_in_place() && vp.worker.budget.get() >= FEW =>
        {
            // SAFETY: we drive `vp`, and the frame fits a class.
            unsafe { spawn_in_place(vp, future, Location::caller(), Untold) };
        }
        Some(vp) => spawn_slowly(vp, future, Location::caller()),
        None => spawn_outside(future, Location::caller()),
    }
}

/// What is done at the birth of a parasite in place, and around its first poll.
trait Birth {
    /// The parasite has a frame, and has not been polled.
    fn tell<F: Future>(&self, frame: NonNull<Header>);
    /// Polls the parasite by `poll`.
    fn poll(&self, frame: NonNull<Header>, poll: impl FnOnce() -> Poll<()>) -> Poll<()>;
}

/// Nobody is told, and nothing is inherited.
struct Untold;

impl Birth for Untold {
    #[inline(always)]
    fn tell<F: Future>(&self, _frame: NonNull<Header>) {}

    #[inline(always)]
    fn poll(&self, _frame: NonNull<Header>, poll: impl FnOnce() -> Poll<()>) -> Poll<()> {
        poll()
    }
}

/// The machine is told.
struct Told<'a> {
    machine: &'a Shared,
    site: Site,
    inherits: Cell<bool>,
}

impl Birth for Told<'_> {
    fn tell<F: Future>(&self, frame: NonNull<Header>) {
        // The observer may show the thread to others, so its table does not change any more.
        // SAFETY: the frame is new, and ours.
        unsafe {
            frame.as_ref().vtable.set(ParasiteFrame::<F>::VTABLE);
            self.inherits.set(self.machine.tell_of_birth(frame, self.site));
        }
    }

    fn poll(&self, frame: NonNull<Header>, poll: impl FnOnce() -> Poll<()>) -> Poll<()> {
        if self.inherits.get() {
            // SAFETY: the caller is the frame's runner, and the thread inherits.
            unsafe { environment::poll_within(frame, poll) }
        } else {
            poll()
        }
    }
}

/// # Safety
/// The caller drives `vp`; a `ParasiteFrame<F>` fits a class.
#[inline(always)]
unsafe fn spawn_in_place<F: Future + Send + 'static>(vp: &Vp, future: F, site: Site, birth: impl Birth) {
    let class = class_of(size_of::<ParasiteFrame<F>>());
    let future = ManuallyDrop::new(future);
    // SAFETY: we drive `vp`, so we own its arena. The frame is fresh and large enough, and we are
    // its runner. The future is moved by hand, once; a closure that owned it would cause another
    // move.
    unsafe {
        let frame = vp.worker.arena.take(class);
        vp.worker.parasites.add_one();
        birth.tell::<F>(frame);
        span::open_in_place(frame, type_name::<F>, site);
        let poll = polling(vp, frame, |cx| {
            // The future is written last, so that the compiler need not read it again.
            let body = frame.cast::<ParasiteFrame<F>>().as_ptr();
            ptr::copy_nonoverlapping(&raw const future, &raw mut (*body).future, 1);
            birth.poll(frame, || ParasiteFrame::<F>::poll(frame, cx))
        });
        if poll.is_ready() && frame.as_ref().is_fresh() {
            span::close(frame);
            vp.worker.arena.put_back_fresh(frame, class);
        } else {
            // The resumer of the parasite needs its vtable. On a machine that has an observer, others may read it.
            let vtable = &frame.as_ref().vtable;
            if vtable.get().is_none() {
                vtable.set(ParasiteFrame::<F>::VTABLE);
            }
            leave_in_place(vp, frame, poll);
        }
    }
}

/// Ends the poll of a parasite that blocked where it was spawned, or that is known to others.
///
/// # Safety
/// The caller drives `vp` and is the frame's runner.
#[inline(never)]
unsafe fn leave_in_place(vp: &Vp, frame: NonNull<Header>, poll: Poll<()>) {
    // SAFETY: the caller drives `vp` and is the frame's runner. `running` is the spawner, which is
    // being polled below us on this stack.
    unsafe {
        if poll.is_pending() {
            vp.counters.reified.add_one();
            let size = frame.as_ref().vtable.get().size;
            vp.counters.reified_bytes.add_many((size - size_of::<Header>()) as u64);
            if vp.worker.budget.get() == 0
                && vp.simulated.is_none()
                && vp.machine().config.inflates
                && frame.as_ref().state.is_notified()
            {
                // It has used up its quantum, so it is long, and becomes a host. Its spawner's next
                // parasites are likely to be long, too.
                vp.inflate(frame.as_ref());
                if let Some(spawner) = vp.worker.running.get().as_ref() {
                    spawner.penalty.set_count(PENALTY);
                    vp.ask_closer_look();
                }
            }
        }
        settle(vp, frame, poll);
    }
}

/// The number of operations below which a spawner does not share its budget with its parasites. So
/// few would not tell a long parasite from a short one.
const FEW: u32 = 8;

impl Vp {
    /// Calls `spawn`, which polls a parasite in place. If the spawner's budget is nearly spent, the
    /// parasite gets a budget of its own.
    fn lend_budget(&self, spawn: impl FnOnce()) {
        let spawners = self.worker.budget.get();
        if spawners >= FEW || self.simulated.is_some() {
            return spawn();
        }
        self.worker.budget.set(self.quantum());
        spawn();
        self.worker.budget.set(spawners);
    }
}

/// The number of parasites that a thread spawns as hosts after one was long (Featherweight Threads,
/// section 5.3).
const PENALTY: u8 = 10;

#[cold]
#[inline(never)]
fn spawn_slowly<F: Future + Send + 'static>(vp: &Vp, future: F, site: Site) {
    if !fits::<ParasiteFrame<F>>() {
        return spawn_fitting_slowly(vp, Box::pin(future), site);
    }
    spawn_fitting_slowly(vp, future, site);
}

fn spawn_fitting_slowly<F: Future + Send + 'static>(vp: &Vp, future: F, site: Site) {
    let kind = match if vp.may_spawn_in_place() { Spawn::InPlace } else { vp.look_closer() } {
        Spawn::InPlace => {
            let machine = vp.machine();
            return vp.lend_budget(|| {
                // SAFETY: we drive `vp`, and the caller has made the future fit.
                unsafe {
                    if machine.tells_of_births() {
                        spawn_in_place(vp, future, site, Told { machine, site, inherits: Cell::new(false) });
                    } else {
                        spawn_in_place(vp, future, site, Untold);
                    }
                }
            });
        }
        Spawn::Queue => {
            vp.counters.queued.add_one();
            Kind::Parasite
        }
        Spawn::Promote => {
            vp.counters.promoted.add_one();
            Kind::Host
        }
    };
    vp.worker.parasites.add_one();
    // SAFETY: we drive `vp`, and so own its arena. The caller has made the future fit. The new
    // frame's only token is queued.
    unsafe {
        let frame = queued_parasite(&vp.worker.arena, vp.principal(), future, kind);
        vp.machine().spawned(frame, site);
        vp.enqueue(Ready::from_frame(frame), Reason::New);
    }
    if kind == Kind::Host {
        vp.machine().wake_one(vp);
    }
}

/// # Safety
/// The caller owns `arena`, and a `ParasiteFrame<F>` fits a class.
unsafe fn queued_parasite<F: Future + Send + 'static>(
    arena: &Arena,
    home: &Vp,
    future: F,
    kind: Kind,
) -> NonNull<Header> {
    // SAFETY: the caller owns the arena. The frame is new and large enough.
    unsafe {
        let frame = arena.take(class_of(size_of::<ParasiteFrame<F>>()));
        frame.cast::<ParasiteFrame<F>>().write(ParasiteFrame {
            header: Header::new(State::new_parasite(), ParasiteFrame::<F>::VTABLE, kind, home.opaque()),
            future: ManuallyDrop::new(future),
        });
        frame
    }
}

/// Spawns a parasite on an OS thread that has entered a machine but runs no part of it. The
/// parasite is polled here, and continues on the machine if it blocks.
#[cold]
fn spawn_outside<F: Future + Send + 'static>(future: F, site: Site) {
    let machine = entered().expect(OUTSIDE);
    let mut future = Box::pin(future);
    let home = machine.any_vp();
    machine.outside.parasites.add_one_shared();
    // It is polled once with a waker that does nothing. If it blocks, the machine polls it again,
    // with its own waker.
    let mut cx = Context::from_waker(Waker::noop());
    let span = span::Outside::open(type_name::<F>, site);
    let poll = span.within(|| {
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| future.as_mut().poll(&mut cx).map(drop)))
    });
    match poll {
        Ok(Poll::Ready(())) => (),
        Err(payload) => JoinError::panicked(payload).report("a parasite"),
        Ok(Poll::Pending) => {
            machine.outside.counters.reified.add_one_shared();
            machine.outside.counters.reified_bytes.add_many_shared(size_of_val(&*future) as u64);
            // SAFETY: the holder of the lock owns the arena, and a box fits a class.
            let frame =
                machine.with_arena(|arena| unsafe { queued_parasite(arena, home, future, Kind::Parasite) });
            // SAFETY: we have made the frame, and nobody polls it yet.
            unsafe { span.move_to(frame) };
            machine.spawned(frame, site);
            // SAFETY: this is the only token of the new frame.
            home.push(unsafe { Ready::from_frame(frame) });
        }
    }
}
