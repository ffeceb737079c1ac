//! Spawning of parasites: in place, or as a queued host where that would hold others up.

use std::any::type_name;
use std::cell::Cell;
use std::future::Future;
use std::mem::ManuallyDrop;
use std::panic::Location;
use std::ptr::{self, NonNull};
use std::task::{Context, Poll, Waker};

use super::spawn::OUTSIDE;
use crate::frame::body::{ParasiteFrame, fits};
use crate::frame::slab::class_of;
use crate::frame::state::State;
use crate::frame::{Arena, Header, JoinError, Kind, Site, environment, span};
use crate::policy::{Ready, Reason};
use crate::sched::limits::{LEAST_BUDGET, PENALTY};
use crate::sched::run::{polling, settle};
use crate::sched::{Address, Pool, Spawn, Worker, entered};
use crate::sync::switches;

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
    spawn::<true, _>(future.into_future());
}

/// Spawns a parasite that begins where it is spawned. The scheduler makes no host of it, nor of the parasites that it
/// spawns.
///
/// Its spawner waits until it ends or blocks, however long that is. Only [`inflate`](super::inflate) makes a host of
/// it. If the stack is nearly used up, it begins in the queue. Otherwise this is
/// [`spawn_parasite`](crate::spawn_parasite). A host whose parasites are all like that is made by
/// [`Thread::builder().inflation(false)`](crate::ThreadBuilder::inflation), and a machine by
/// [`Builder::inflation`](crate::Builder::inflation).
///
/// # Panics
/// Outside of a machine. A panic of `future` does not reach the caller.
///
/// ```
/// # use chanter::prelude::*;
/// use chanter::parasite;
/// # chanter::block_on(async {
/// let (tx, rx) = mailbox();
/// for n in 0..100 {
///     let tx = tx.clone();
///     parasite::spawn_in_place(async move { tx.send(n).await });
///     // It has run already.
///     assert_eq!(rx.try_recv(), Ok(n));
/// }
/// # });
/// ```
///
/// Featherweight Threads, section 2.3.1: "we leave it to the programmer to choose the appropriate inflation policy".
#[track_caller]
pub fn spawn_in_place<F>(future: F)
where
    F: IntoFuture,
    F::IntoFuture: Send + 'static,
{
    spawn::<false, _>(future.into_future());
}

/// Spawns a parasite. `MAY_INFLATE`: whether the scheduler may make a host of it.
#[inline(always)]
#[track_caller]
fn spawn<const MAY_INFLATE: bool, F: Future + Send + 'static>(future: F) {
    match Worker::current() {
        Some(vp)
            if fits::<ParasiteFrame<F>>() && vp.may_spawn_in_place() && vp.budget.get() >= LEAST_BUDGET =>
        {
            // SAFETY: we drive `vp`, and the frame fits a class.
            unsafe { begin_in_place(vp, future, Location::caller(), Untold::<MAY_INFLATE>) };
        }
        Some(vp) => spawn_slowly(vp, future, Location::caller(), MAY_INFLATE),
        None => spawn_outside(future, Location::caller(), MAY_INFLATE),
    }
}

/// The work at the birth of a parasite in place, and around its first poll.
trait Birth {
    /// The parasite has a frame, and has not been polled.
    fn tell<F: Future>(&self, frame: NonNull<Header>);
    /// Whether the scheduler may make a host of it.
    fn may_inflate(&self) -> bool;
    /// Polls the parasite by `poll`.
    fn poll(&self, frame: NonNull<Header>, poll: impl FnOnce() -> Poll<()>) -> Poll<()>;
}

/// Nobody is told, and nothing is inherited.
struct Untold<const MAY_INFLATE: bool>;

impl<const MAY_INFLATE: bool> Birth for Untold<MAY_INFLATE> {
    #[inline(always)]
    fn tell<F: Future>(&self, _frame: NonNull<Header>) {}

    #[inline(always)]
    fn may_inflate(&self) -> bool {
        MAY_INFLATE
    }

    #[inline(always)]
    fn poll(&self, _frame: NonNull<Header>, poll: impl FnOnce() -> Poll<()>) -> Poll<()> {
        poll()
    }
}

/// The machine is told.
struct Told<'a> {
    machine: &'a Pool,
    site: Site,
    may_inflate: bool,
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

    fn may_inflate(&self) -> bool {
        self.may_inflate
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
unsafe fn begin_in_place<F: Future + Send + 'static>(vp: &Worker, future: F, site: Site, birth: impl Birth) {
    let class = class_of(size_of::<ParasiteFrame<F>>());
    let future = ManuallyDrop::new(future);
    // SAFETY: we drive `vp`, so we own its arena. The frame is fresh and large enough, and we are
    // its runner. The future is moved by hand, once; a closure that owned it would cause another
    // move.
    unsafe {
        let frame = vp.arena.take(class);
        vp.parasites.add_one();
        birth.tell::<F>(frame);
        span::open_in_place(frame, type_name::<F>, site);
        if !birth.may_inflate() {
            frame.as_ref().penalty.forbid_inflation(true);
        }
        let poll = polling(vp, frame, |cx| {
            // The future is written last, so that the compiler need not read it again.
            let body = frame.cast::<ParasiteFrame<F>>().as_ptr();
            ptr::copy_nonoverlapping(&raw const future, &raw mut (*body).future, 1);
            birth.poll(frame, || ParasiteFrame::<F>::poll(frame, cx))
        });
        if !birth.may_inflate() && poll.is_ready() {
            // So its frame is fresh again.
            frame.as_ref().penalty.forbid_inflation(false);
        }
        if poll.is_ready() && frame.as_ref().is_fresh() {
            span::close(frame);
            vp.arena.put_back_fresh(frame, class);
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
unsafe fn leave_in_place(vp: &Worker, frame: NonNull<Header>, poll: Poll<()>) {
    // SAFETY: the caller drives `vp` and is the frame's runner. `running` is the spawner, which is
    // being polled below us on this stack.
    unsafe {
        if poll.is_pending() {
            let spawner = vp.running.get().as_ref();
            if spawner.is_some_and(|spawner| spawner.penalty.forbids_inflation()) {
                // Its later runners do not know the spawner.
                frame.as_ref().penalty.forbid_inflation(true);
            }
            vp.counters().reified.add_one();
            let size = frame.as_ref().vtable.get().size;
            vp.counters().reified_bytes.add_many((size - size_of::<Header>()) as u64);
            if vp.budget.get() == 0
                && vp.processor().simulated.is_none()
                && vp.may_inflate(frame.as_ref())
                && frame.as_ref().state.is_notified()
            {
                // It has used up its quantum, so it is long, and becomes a host. Its spawner's next
                // parasites are likely to be long, too.
                vp.inflate(frame.as_ref());
                if switches::PENALTY
                    && let Some(spawner) = spawner
                {
                    spawner.penalty.set_count(PENALTY);
                    vp.ask_closer_look();
                }
            }
        }
        settle(vp, frame, poll);
    }
}

impl Worker {
    /// Calls `spawn`, which polls a parasite in place. If the spawner's budget is nearly spent, the
    /// parasite gets a budget of its own.
    fn lend_budget(&self, spawn: impl FnOnce()) {
        let spawners = self.budget.get();
        if spawners >= LEAST_BUDGET || self.processor().simulated.is_some() {
            return spawn();
        }
        self.budget.set(self.quantum());
        spawn();
        self.budget.set(spawners);
    }
}

#[cold]
#[inline(never)]
fn spawn_slowly<F: Future + Send + 'static>(vp: &Worker, future: F, site: Site, may_inflate: bool) {
    if !fits::<ParasiteFrame<F>>() {
        return spawn_fitting_slowly(vp, Box::pin(future), site, may_inflate);
    }
    spawn_fitting_slowly(vp, future, site, may_inflate);
}

fn spawn_fitting_slowly<F: Future + Send + 'static>(vp: &Worker, future: F, site: Site, may_inflate: bool) {
    let kind = match if vp.may_spawn_in_place() { Spawn::InPlace } else { vp.look_closer(may_inflate) } {
        Spawn::InPlace => {
            let machine = vp.machine();
            return vp.lend_budget(|| {
                // SAFETY: we drive `vp`, and the caller has made the future fit.
                unsafe {
                    if machine.tells_of_births() {
                        let inherits = Cell::new(false);
                        begin_in_place(vp, future, site, Told { machine, site, may_inflate, inherits });
                    } else if may_inflate {
                        begin_in_place(vp, future, site, Untold::<true>);
                    } else {
                        begin_in_place(vp, future, site, Untold::<false>);
                    }
                }
            });
        }
        Spawn::Queue => {
            vp.counters().queued.add_one();
            Kind::Parasite
        }
        Spawn::Promote => {
            vp.counters().promoted.add_one();
            Kind::Host
        }
    };
    vp.parasites.add_one();
    // SAFETY: we drive `vp`, and so own its arena. The caller has made the future fit. The new
    // frame's only token is queued.
    unsafe {
        let frame = queued_parasite(&vp.arena, &vp.processor().address, future, kind);
        frame.as_ref().penalty.forbid_inflation(!may_inflate);
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
    home: &Address,
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
fn spawn_outside<F: Future + Send + 'static>(future: F, site: Site, may_inflate: bool) {
    let machine = entered().expect(OUTSIDE);
    let mut future = Box::pin(future);
    let home = &machine.any_vp().address;
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
            unsafe {
                frame.as_ref().penalty.forbid_inflation(!may_inflate);
                span.move_to(frame);
            }
            machine.spawned(frame, site);
            // SAFETY: this is the only token of the new frame.
            home.push(unsafe { Ready::from_frame(frame) });
        }
    }
}
