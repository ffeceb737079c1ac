//! Spawning: hosts, local hosts and parasites.

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
use crate::frame::{Arena, Header, JoinError, Kind, Site, span};
use crate::policy::{Ready, Reason};
use crate::sched::run::{polling, settle};
use crate::sched::{Shared, Spawn, Vp, entered};

pub(crate) const OUTSIDE: &str =
    "threads are spawned on a machine: use `#[chanter::main]`, `Machine::block_on` or `Machine::spawn`";

/// Spawns a host: a thread that the policy schedules, beside the caller.
///
/// The future must be `Send` because it may go on on any virtual processor.
/// A panic becomes the thread's value; see [`Thread::join`]. An event may stand
/// for a future that synchronizes on it, as in `spawn(tx.send(1))`.
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
    match Vp::current() {
        Some(vp) => spawn_here(vp, future, Location::caller()),
        None => spawn_in(&entered().expect(OUTSIDE), None, future, Location::caller()),
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

/// Spawns a fiber on `machine` from anywhere.
pub(crate) fn spawn_fiber_in<F>(machine: &Shared, on: Option<usize>, body: F, site: Site) -> Thread<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    machine.outside.fibers.add_one_shared();
    spawn_in(machine, on, body, site)
}

/// Spawns a fiber with a name on `machine` from anywhere.
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
    machine.outside.fibers.add_one_shared();
    spawn_said_in(machine, SpawnOptions { name: Some(name), on, ..SpawnOptions::default() }, body, site)
}

fn spawn_here<F>(vp: &Vp, future: F, site: Site) -> Thread<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    // SAFETY: we drive `vp`; the body is 'static and `Send`.
    unsafe { spawn_borrowing_here(vp, future, site) }
}

/// # Safety
/// As for [`spawn_borrowing`]; the caller drives `vp`.
unsafe fn spawn_borrowing_here<F: Future>(vp: &Vp, future: F, site: Site) -> Thread<F::Output> {
    let vps = vp.machine().vps.len();
    if vps > 1
        && let Some(index) = vp.place(vps).filter(|index| *index != vp.index)
    {
        // SAFETY: the caller's contract.
        let (frame, thread) =
            unsafe { new_host::<false, _>(&vp.arena, &vp.machine().vps[index], future, Kind::Host) };
        vp.counters.hosts.add_one();
        vp.machine().spawned(frame, site);
        // SAFETY: the new frame's token.
        vp.machine().vps[index].push(unsafe { Ready::from_frame(frame) });
        return thread;
    }
    // SAFETY: the caller's contract.
    unsafe { spawn_body(vp, future, Kind::Host, site) }
}

/// Spawns a host on `machine` from anywhere.
pub(crate) fn spawn_in<F>(machine: &Shared, on: Option<usize>, future: F, site: Site) -> Thread<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    // SAFETY: the body is 'static and `Send`.
    unsafe { spawn_any_in(machine, on, future, site) }
}

/// Spawns a host whose body may borrow on `machine`, from anywhere.
///
/// # Safety
/// The body and its output are `Send`. What it borrows outlives it, and its output
/// borrows nothing that might not outlive the frame. The machine has not ended.
pub(super) unsafe fn spawn_borrowing<F: Future>(
    machine: &Shared,
    future: F,
    site: Site,
) -> Thread<F::Output> {
    // SAFETY: the caller's contract.
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
        // SAFETY: the caller's contract; we drive `vp`.
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
        // SAFETY: the arena's owner is the driver, or the lock's holder. The
        // caller's contract.
        unsafe { new_host::<false, _>(arena, home, future, kind) }
    };
    let (frame, thread) = match here {
        Some(vp) => make(&vp.arena),
        None => machine.with_arena(make),
    };
    machine.outside.hosts.add_one_shared();
    machine.spawned(frame, site);
    // SAFETY: the new frame's token.
    home.push(unsafe { Ready::from_frame(frame) });
    thread
}

/// Creates a *delayed* host: it runs only when somebody demands its value, or
/// schedules it with [`Thread::run`].
///
/// To await the handle, or to synchronize on [`Thread::join`], demands the
/// value. Whoever does that on a thread of the machine *steals* a thread that
/// has not run yet: polls it at once, on its own stack, at about the cost of a
/// few calls; it goes on as a host if it blocks. Others schedule it. So a
/// delayed thread is a lazy value that may block, and be shared. Spawned
/// threads that still wait for their first turn are stolen likewise.
///
/// A delayed thread whose last handle is dropped never runs: its future is
/// dropped. It takes no more memory than its future, its result and some 80
/// bytes.
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
            // SAFETY: we drive `vp`; the body is 'static and `Send`.
            unsafe { delay_body(vp, future, Location::caller()) }
        }
        // In a box, so that the address of this one is nobody's business, and it is
        // made right where it is to be.
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
        // SAFETY: the lock's holder owns the arena. The body is 'static and `Send`.
        unsafe { new_host::<true, _>(arena, home, *future, Kind::Host) }
    });
    machine.outside.delayed.add_one_shared();
    machine.spawned(frame, site);
    thread
}

/// Spawns a host with any body on the current virtual processor.
///
/// # Safety
/// The caller drives `vp`. The body is `Send` unless `kind` is `Local`, and it
/// outlives the thread: it is 'static, or the caller waits for the end.
pub(crate) unsafe fn spawn_body<F: Future>(vp: &Vp, future: F, kind: Kind, site: Site) -> Thread<F::Output> {
    // What belongs to the OS thread belongs to a stand-in, if that drives.
    let home = if kind == Kind::Local { vp } else { vp.principal() };
    // SAFETY: the caller drives `vp`.
    let (frame, thread) = unsafe { new_host::<false, _>(&vp.arena, home, future, kind) };
    vp.counters.hosts.add_one();
    vp.machine().spawned(frame, site);
    // SAFETY: the new frame's token.
    vp.enqueue(unsafe { Ready::from_frame(frame) }, Reason::New);
    thread
}

/// As [`spawn_body`], a host that is delayed.
///
/// # Safety
/// As for [`spawn_body`].
#[inline(always)]
pub(super) unsafe fn delay_body<F: Future>(vp: &Vp, future: F, site: Site) -> Thread<F::Output> {
    // SAFETY: the caller drives `vp`.
    let (frame, thread) = unsafe { new_host::<true, _>(&vp.arena, vp.principal(), future, Kind::Host) };
    vp.machine().spawned(frame, site);
    thread
}

/// # Safety
/// The caller owns `arena`; for the body see [`spawn_body`].
#[inline]
pub(super) unsafe fn new_host<const DELAYED: bool, F: Future>(
    arena: &Arena,
    home: &Vp,
    future: F,
    kind: Kind,
) -> (NonNull<Header>, Thread<F::Output>) {
    if !fits::<HostFrame<F>>() {
        // The same body, with its future and its output behind pointers.
        let boxed = Box::pin(async move { Box::new(future.await) });
        // SAFETY: the caller's contract; the vtable unpacks the output.
        return unsafe { new_boxed_host::<DELAYED, _, _>(arena, home, boxed, kind) };
    }
    // SAFETY: the caller's contract.
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
    // SAFETY: the caller's contract.
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
    // SAFETY: the class is large enough, and the frame new. The caller's handle
    // takes one reference; a token that there is has the other.
    unsafe {
        let frame = arena.take(class_of(size_of::<HostFrame<F>>()));
        let state = if DELAYED { State::new_delayed() } else { State::new_host() };
        HostFrame::<F>::write(frame, Header::new(state, vtable, kind, home.opaque()), future);
        frame
    }
}

/// Spawns a host whose future need not be `Send`: it stays on the OS thread
/// that spawns it, and ends at the latest when that OS thread stops driving
/// its virtual processor (when `block_on` returns, or the machine ends).
///
/// # Panics
/// On an OS thread that drives no virtual processor.
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
    vp.has_locals.set(true);
    // SAFETY: we drive `vp`; the body is 'static and stays here. Its result,
    // which may be dropped anywhere, is `()`.
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
/// If it does not block, that is all: the cost is about that of a call. If it
/// blocks, it is *reified*, the caller goes on, and whoever unblocks it
/// *attaches* it to its own stack (or queues it, if the stack is deep or the
/// scheduler has waited for long). Semantically it is a host; use it for what
/// is usually short. Its output is dropped, its panic reported.
///
/// If the caller has spawned parasites for a while without a pause, beside a
/// hungry virtual processor, now and then one is queued for that instead, as a
/// host.
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
        Some(vp) if fits::<ParasiteFrame<F>>() && vp.may_spawn_in_place() && vp.budget.get() >= FEW => {
            // SAFETY: we drive `vp`, and the frame fits.
            unsafe { spawn_in_place(vp, future, Location::caller(), |_| (), |_| ()) };
        }
        Some(vp) => spawn_slowly(vp, future, Location::caller()),
        None => spawn_outside(future, Location::caller()),
    }
}

/// # Safety
/// The caller drives `vp`; a `ParasiteFrame<F>` fits a class.
#[inline(always)]
unsafe fn spawn_in_place<F: Future + Send + 'static>(
    vp: &Vp,
    future: F,
    site: Site,
    born: impl FnOnce(NonNull<Header>),
    dies: impl FnOnce(NonNull<Header>),
) {
    let class = class_of(size_of::<ParasiteFrame<F>>());
    let future = ManuallyDrop::new(future);
    // SAFETY: the frame is fresh and large enough, and we are its runner. The future is moved by hand, once: a closure
    // that owned it would have been moved before.
    unsafe {
        let frame = vp.arena.take(class);
        vp.parasites.add_one();
        born(frame);
        span::open_in_place(frame, type_name::<F>, site);
        let poll = polling(vp, frame, |cx| {
            // Written last, so that the compiler need not read it again.
            let body = frame.cast::<ParasiteFrame<F>>().as_ptr();
            ptr::copy_nonoverlapping(&raw const future, &raw mut (*body).future, 1);
            ParasiteFrame::<F>::poll(frame, cx)
        });
        if poll.is_ready() && frame.as_ref().is_fresh() {
            dies(frame);
            span::close(frame);
            vp.arena.put_back_fresh(frame, class);
        } else {
            // Whoever resumes it needs to know what it is.
            frame.as_ref().vtable.set(ParasiteFrame::<F>::VTABLE);
            leave_in_place(vp, frame, poll);
        }
    }
}

/// A parasite blocked where it was spawned, or others know it.
///
/// # Safety
/// The caller drives `vp` and is the frame's runner.
#[inline(never)]
unsafe fn leave_in_place(vp: &Vp, frame: NonNull<Header>, poll: Poll<()>) {
    // SAFETY: as the caller's; `running` is the spawner, being polled below
    // us on this stack.
    unsafe {
        if poll.is_pending() {
            vp.counters.reified.add_one();
            let size = frame.as_ref().vtable.get().size;
            vp.counters.reified_bytes.add_many((size - size_of::<Header>()) as u64);
            if vp.budget.get() == 0
                && vp.simulated.is_none()
                && vp.machine().inflates
                && frame.as_ref().state.is_notified()
            {
                // It used its quantum up: it is long, hence a host, and its
                // spawner's next ones are likely to be long too.
                vp.inflate(frame.as_ref());
                if let Some(spawner) = vp.running.get().as_ref() {
                    spawner.penalty.set(PENALTY);
                    vp.ask_closer_look();
                }
            }
        }
        settle(vp, frame, poll);
    }
}

/// A spawner that has fewer operations left does not share them with its parasites: what is left would not
/// tell a long parasite from a short one.
const FEW: u32 = 8;

impl Vp {
    /// `spawn` polls a parasite in place: if its spawner's budget is nearly spent, on one of its own.
    fn lend_budget(&self, spawn: impl FnOnce()) {
        let spawners = self.budget.get();
        if spawners >= FEW || self.simulated.is_some() {
            return spawn();
        }
        self.budget.set(self.quantum());
        spawn();
        self.budget.set(spawners);
    }
}

/// Parasites that a thread spawns as hosts after one was long
/// (Featherweight Threads, section 5.3).
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
            let dies = |frame| {
                if let Some(observer) = machine.observer() {
                    observer.died(frame);
                }
            };
            return vp.lend_budget(|| {
                // SAFETY: we drive `vp`; the caller has made it fit.
                unsafe { spawn_in_place(vp, future, site, |frame| machine.note_birth(frame, site), dies) };
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
    vp.parasites.add_one();
    // SAFETY: we drive `vp`; the frame is new and fits; its token is queued.
    unsafe {
        let frame = queued_parasite(&vp.arena, vp.principal(), future, kind);
        vp.machine().spawned(frame, site);
        vp.enqueue(Ready::from_frame(frame), Reason::New);
    }
    if kind == Kind::Host {
        vp.machine().wake_one(vp);
    }
}

/// # Safety
/// The caller owns `arena`; a `ParasiteFrame<F>` fits a class.
unsafe fn queued_parasite<F: Future + Send + 'static>(
    arena: &Arena,
    home: &Vp,
    future: F,
    kind: Kind,
) -> NonNull<Header> {
    // SAFETY: the frame is new and large enough.
    unsafe {
        let frame = arena.take(class_of(size_of::<ParasiteFrame<F>>()));
        frame.cast::<ParasiteFrame<F>>().write(ParasiteFrame {
            header: Header::new(State::new_parasite(), ParasiteFrame::<F>::VTABLE, kind, home.opaque()),
            future: ManuallyDrop::new(future),
        });
        frame
    }
}

/// On an OS thread that has entered a machine but drives no part of it: the
/// parasite is polled here, and goes on on the machine if it blocks.
#[cold]
fn spawn_outside<F: Future + Send + 'static>(future: F, site: Site) {
    let machine = entered().expect(OUTSIDE);
    let mut future = Box::pin(future);
    let home = machine.any_vp();
    machine.outside_parasites.add_one_shared();
    // Polled once with a waker that does nothing; if it blocks, the machine
    // polls it again, with its own.
    let mut cx = Context::from_waker(Waker::noop());
    let span = span::Outside::open(type_name::<F>, site);
    let poll = span.within(|| {
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| future.as_mut().poll(&mut cx).map(drop)))
    });
    match poll {
        Ok(Poll::Ready(())) => (),
        Err(payload) => JoinError::panicked(payload).report("a parasite"),
        Ok(Poll::Pending) => {
            machine.outside.reified.add_one_shared();
            machine.outside.reified_bytes.add_many_shared(size_of_val(&*future) as u64);
            // SAFETY: the lock's holder owns the arena; a box fits.
            let frame =
                machine.with_arena(|arena| unsafe { queued_parasite(arena, home, future, Kind::Parasite) });
            // SAFETY: we have made the frame.
            unsafe { span.move_to(frame) };
            machine.spawned(frame, site);
            // SAFETY: the new frame's token.
            home.push(unsafe { Ready::from_frame(frame) });
        }
    }
}
