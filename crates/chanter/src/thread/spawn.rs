//! Spawning of hosts, local hosts and delayed hosts. Parasites are in `spawn_parasite.rs`.

use std::cell::Cell;
use std::fmt;
use std::future::Future;
use std::panic::Location;
use std::ptr::{self, NonNull};
use std::rc::Rc;
use std::sync::Arc;

use super::attributed::{SpawnOptions, spawn_said_in};
use super::join::{HostFrame, Thread};
use crate::event::Event;
use crate::frame::body::{Vtable, fits};
use crate::frame::slab::class_of;
use crate::frame::state::State;
use crate::frame::{Arena, Header, JoinError, Kind, Site};
use crate::policy::{Ready, Reason};
use crate::sched::{Address, Pool, Worker, entered};

pub(crate) const OUTSIDE: &str =
    "threads are spawned on a machine: use `#[chanter::main]`, `Machine::block_on` or `Machine::spawn`";

/// Spawns a host: a thread that the policy schedules, beside the caller.
///
/// The future must be `Send`, because it may continue on any virtual processor. A panic becomes the
/// thread's result; see [`Thread::join`]. An event may be given instead of a future, as in
/// `spawn(tx.into_send(1))`.
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
/// spawn(tx.into_send("from an event"));
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
    match Worker::current() {
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
    match Worker::current() {
        Some(vp) if on.is_none() => {
            vp.counters().fibers.add_one();
            spawn_here(vp, body, site)
        }
        _ => spawn_fiber_in(&entered().expect(OUTSIDE), on, body, site),
    }
}

/// Spawns a fiber on `machine`, from any OS thread.
pub(crate) fn spawn_fiber_in<F>(machine: &Pool, on: Option<usize>, body: F, site: Site) -> Thread<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    machine.outside.counters.fibers.add_one_shared();
    spawn_in(machine, on, body, site)
}

/// Spawns a fiber with a name on `machine`, from any OS thread.
pub(crate) fn spawn_named_fiber<F>(
    machine: &Pool,
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

fn spawn_here<F>(vp: &Worker, future: F, site: Site) -> Thread<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    // SAFETY: we drive `vp`. The body is `'static` and `Send`.
    unsafe { spawn_borrowing_here(vp, future, site) }
}

/// # Safety
/// As for [`spawn_borrowing`]; the caller drives `vp`.
unsafe fn spawn_borrowing_here<F: Future>(vp: &Worker, future: F, site: Site) -> Thread<F::Output> {
    let vps = vp.machine().processors.len();
    if vps > 1
        && let Some(index) = vp.place(vps).filter(|index| *index != vp.processor().index)
    {
        // SAFETY: the caller drives `vp`, and so owns its arena. The body is `Send`, and what it
        // borrows outlives it.
        let (frame, thread) = unsafe {
            new_host::<false, _>(&vp.arena, &vp.machine().processors[index].address, future, Kind::Host)
        };
        vp.counters().hosts.add_one();
        vp.machine().spawned(frame, site);
        // SAFETY: this is the only token of the new frame.
        vp.machine().processors[index].address.push(unsafe { Ready::from_frame(frame) });
        return thread;
    }
    // SAFETY: the caller drives `vp`. The body is `Send`, and what it borrows outlives it.
    unsafe { spawn_body(vp, future, Kind::Host, site) }
}

/// Spawns a host on `machine`, from any OS thread.
pub(crate) fn spawn_in<F>(machine: &Pool, on: Option<usize>, future: F, site: Site) -> Thread<F::Output>
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
pub(super) unsafe fn spawn_borrowing<F: Future>(machine: &Pool, future: F, site: Site) -> Thread<F::Output> {
    // SAFETY: the body and its output are `Send`, their borrows last long enough, and the machine
    // has not ended, as the caller has promised.
    unsafe { spawn_any_in(machine, None, future, site) }
}

/// # Safety
/// As for [`spawn_borrowing`].
unsafe fn spawn_any_in<F: Future>(
    machine: &Pool,
    on: Option<usize>,
    future: F,
    site: Site,
) -> Thread<F::Output> {
    let here = Worker::current().filter(|vp| ptr::eq(vp.machine(), machine));
    if let (Some(vp), None) = (here, on) {
        // SAFETY: we drive `vp`. The body and its output are `Send`, and their borrows last long
        // enough, as the caller has promised.
        return unsafe { spawn_borrowing_here(vp, future, site) };
    }
    let (home, kind) = match on {
        Some(index) => {
            let home = machine.processors.get(index).unwrap_or_else(|| {
                panic!("no virtual processor {index}: the machine has {}", machine.processors.len())
            });
            (&home.address, Kind::Pinned)
        }
        None => (&machine.any_vp().address, Kind::Host),
    };
    let make = |arena: &Arena| {
        // SAFETY: the arena belongs to us: we drive its processor, or hold its lock. The body and
        // its output are `Send`, and their borrows last long enough, as the caller has promised.
        unsafe { new_host::<false, _>(arena, home, future, kind) }
    };
    let (frame, thread) = match here {
        Some(vp) => make(&vp.arena),
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
    match Worker::current() {
        Some(vp) => {
            vp.counters().delayed.add_one();
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
fn delay_outside<F>(machine: &Pool, future: Box<F>, site: Site) -> Thread<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    let home = &machine.any_vp().address;
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
pub(crate) unsafe fn spawn_body<F: Future>(
    vp: &Worker,
    future: F,
    kind: Kind,
    site: Site,
) -> Thread<F::Output> {
    // A local thread belongs to the OS thread, and so to a spare worker's virtual processor, if one
    // drives.
    let home = if kind == Kind::Local { vp.bound_address() } else { &vp.processor().address };
    // SAFETY: the caller drives `vp`.
    let (frame, thread) = unsafe { new_host::<false, _>(&vp.arena, home, future, kind) };
    vp.counters().hosts.add_one();
    vp.machine().spawned(frame, site);
    // SAFETY: this is the only token of the new frame.
    vp.enqueue(unsafe { Ready::from_frame(frame) }, Reason::New);
    thread
}

/// Like [`spawn_body`], for a delayed host.
///
/// # Safety
/// As for [`spawn_body`].
#[inline(always)]
pub(super) unsafe fn delay_body<F: Future>(vp: &Worker, future: F, site: Site) -> Thread<F::Output> {
    // SAFETY: the caller drives `vp`.
    let (frame, thread) =
        unsafe { new_host::<true, _>(&vp.arena, &vp.processor().address, future, Kind::Host) };
    vp.machine().spawned(frame, site);
    thread
}

/// # Safety
/// The caller owns `arena`. The body is as for [`spawn_body`].
#[inline]
pub(super) unsafe fn new_host<const DELAYED: bool, F: Future>(
    arena: &Arena,
    home: &Address,
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
    home: &Address,
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
    home: &Address,
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
    let vp = Worker::current().expect("local threads are spawned on a thread of a machine");
    let value = Rc::new(Cell::new(None));
    let slot = Rc::clone(&value);
    let body = async move { slot.set(Some(future.await)) };
    vp.bound.has_locals.set(true);
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
