//! Spawning threads of which something is said: attributes for the policy, or
//! a thread that they are to run near to.

use std::future::Future;
use std::panic::Location;
use std::ptr::{self, NonNull};

use super::body::{HostFrame, Stage, Vtable, fits};
use super::frame::{Arena, Header, Kind, class_of};
use super::join::{Joiners, Thread};
use super::spawn::{OUTSIDE, new_host};
use super::state::State;
use crate::policy::{Attributes, Ready, Reason};
use crate::sync::atomic::Ordering;
use crate::sync::{Lock, UnsafeCell};
use crate::vp::{Shared, Site, Vp, entered};

/// A host's frame, and what is said of its thread. Behind a lock: a policy may
/// hold a token that is stale, while a thief runs the thread.
#[repr(C)]
struct AttributedFrame<F: Future> {
    host: HostFrame<F>,
    attributes: Lock<Attributes>,
}

impl<F: Future> AttributedFrame<F> {
    const VTABLE: &'static Vtable =
        &Vtable { size: size_of::<Self>(), attributes: Self::attributes, ..*HostFrame::<F>::VTABLE };

    unsafe fn attributes(frame: NonNull<Header>) -> Option<NonNull<Lock<Attributes>>> {
        // SAFETY: the caller keeps the frame, which is one of ours.
        Some(unsafe { NonNull::new_unchecked(&raw mut (*frame.cast::<Self>().as_ptr()).attributes) })
    }
}

impl<T, F: Future<Output = Box<T>>> AttributedFrame<F> {
    const BOXED_VTABLE: &'static Vtable =
        &Vtable { size: size_of::<Self>(), attributes: Self::attributes, ..*HostFrame::<F>::BOXED_VTABLE };
}

/// The attributes of the thread whose frame this is, if it has any.
///
/// # Safety
/// The caller keeps the frame for as long as it uses the lock: it holds the
/// token, even a stale one, or is the runner.
pub(crate) unsafe fn attributes_of<'a>(frame: NonNull<Header>) -> Option<&'a Lock<Attributes>> {
    // SAFETY: the caller's contract.
    unsafe { (frame.as_ref().vtable.get().attributes)(frame).map(|lock| lock.as_ref()) }
}

/// Changes the attributes of the thread that runs here, for its next turns.
/// False: it was spawned without any (see [`spawn_with`]), or there is none.
///
/// ```
/// # use chanter::prelude::*;
/// use chanter::policy::{Attributes, set_attributes};
///
/// # chanter::block_on(async {
/// let thread = spawn_with(Attributes::new().priority(3), async {
///     // The urgent part is done.
///     assert!(set_attributes(Attributes::new().priority(-1)));
///     yield_now().await;
/// });
/// # thread.join().await.unwrap();
/// # });
/// ```
pub fn set_attributes(attributes: Attributes) -> bool {
    let Some(vp) = Vp::current() else { return false };
    let Some(frame) = NonNull::new(vp.running.get()) else { return false };
    // SAFETY: it is being polled by us.
    match unsafe { attributes_of(frame) } {
        Some(place) => {
            *place.lock() = attributes;
            true
        }
        None => false,
    }
}

/// Spawns a host, and tells policies of it; see [`spawn`](crate::spawn).
///
/// The attributes cost the thread their own size; threads without them pay
/// nothing.
///
/// # Panics
/// Outside of a machine (use [`Machine::spawn_with`](crate::Machine::spawn_with)
/// there).
///
/// STING, section 4: the policy manager "establishes a priority and quantum"
/// for threads.
#[track_caller]
pub fn spawn_with<F>(attributes: Attributes, future: F) -> Thread<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    spawn_with_in(&entered().expect(OUTSIDE), attributes, future, Location::caller())
}

pub(crate) fn spawn_with_in<F>(
    machine: &Shared,
    attributes: Attributes,
    future: F,
    site: Site,
) -> Thread<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    let here = Vp::current().filter(|vp| ptr::eq(vp.machine(), machine));
    let vps = machine.vps.len();
    let home = match here {
        Some(vp) => match vp.policy().place(vps).filter(|index| *index < vps) {
            Some(index) => &*machine.vps[index],
            None => vp,
        },
        None => machine.any_vp(),
    };
    // SAFETY: the body is 'static and `Send`.
    let make = |arena: &Arena| unsafe { new_attributed_host(arena, home, attributes, future) };
    spawn_at(machine, here, home, make, site)
}

/// Spawns a host near `thread`: on the virtual processor on which that ran
/// last, or is to run. Nothing keeps it there: see
/// [`spawn_on`](crate::spawn_on) for that. If `thread` is of another machine,
/// as [`spawn`](crate::spawn).
///
/// # Panics
/// Outside of a machine.
///
/// ```
/// # use chanter::prelude::*;
/// # chanter::block_on(async {
/// let (tx, rx) = channel();
/// let sender = spawn(async move { tx.send(1).await });
/// // They talk: to be neighbours saves time.
/// let receiver = spawn_near(&sender, async move { rx.recv().await });
/// assert_eq!(receiver.join().await.unwrap(), Ok(1));
/// # });
/// ```
///
/// STING, section 4: a thread "known to communicate closely with Q (which is
/// executing on VP V) should also run on a VP topologically near V".
#[track_caller]
pub fn spawn_near<T, F>(thread: &Thread<T>, future: F) -> Thread<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    let machine = entered().expect(OUTSIDE);
    let there = thread.vp();
    let here = Vp::current().filter(|vp| ptr::eq(vp.machine(), &*machine));
    let Some(home) = machine.vps.iter().find(|vp| ptr::eq(&***vp, there)) else {
        return super::spawn_in(&machine, None, future, Location::caller());
    };
    // SAFETY: the body is 'static and `Send`.
    let make = |arena: &Arena| unsafe { new_host::<false, _>(arena, home, future, Kind::Host) };
    spawn_at(&machine, here, home, make, Location::caller())
}

/// Makes a host and gives it to `home`; `here` is driven by the caller.
fn spawn_at<T>(
    machine: &Shared,
    here: Option<&Vp>,
    home: &Vp,
    make: impl FnOnce(&Arena) -> (NonNull<Header>, Thread<T>),
    site: Site,
) -> Thread<T> {
    let (frame, thread) = match here {
        Some(vp) => make(&vp.arena),
        None => machine.with_arena(make),
    };
    match here {
        Some(vp) => vp.counters.hosts.add_one(),
        None => machine.outside.hosts.add_one_shared(),
    }
    machine.born(frame, site);
    // SAFETY: the new frame's token.
    let ready = unsafe { Ready::from_frame(frame) };
    match here {
        Some(vp) if ptr::eq(vp, home) => vp.enqueue(ready, Reason::New),
        _ => home.push(ready),
    }
    thread
}

/// # Safety
/// The caller owns `arena`; the body is `Send`, and outlives the thread.
unsafe fn new_attributed_host<F: Future>(
    arena: &Arena,
    home: &Vp,
    attributes: Attributes,
    future: F,
) -> (NonNull<Header>, Thread<F::Output>) {
    if fits::<AttributedFrame<F>>() {
        // SAFETY: the caller's contract.
        unsafe {
            let frame = new_frame(arena, home, attributes, future, AttributedFrame::<F>::VTABLE);
            return (frame, Thread::from_frame(frame));
        }
    }
    // As for other bodies that are too large; the attributes stay in the frame.
    let boxed = Box::pin(async move { Box::new(future.await) });
    // SAFETY: the caller's contract; the vtable unpacks the output.
    unsafe { new_boxed(arena, home, attributes, boxed) }
}

/// # Safety
/// As for [`new_attributed_host`].
unsafe fn new_boxed<T, F: Future<Output = Box<T>>>(
    arena: &Arena,
    home: &Vp,
    attributes: Attributes,
    future: F,
) -> (NonNull<Header>, Thread<T>) {
    // SAFETY: the caller's contract; the vtable unpacks the output.
    unsafe {
        let frame = new_frame(arena, home, attributes, future, AttributedFrame::<F>::BOXED_VTABLE);
        (frame, Thread::from_frame(frame))
    }
}

/// # Safety
/// As for [`new_attributed_host`].
unsafe fn new_frame<F: Future>(
    arena: &Arena,
    home: &Vp,
    attributes: Attributes,
    future: F,
    vtable: &'static Vtable,
) -> NonNull<Header> {
    assert!(fits::<AttributedFrame<F>>(), "the body fits a frame");
    // SAFETY: the class is large enough, and the frame new. Of the two
    // references of a new host, the caller's handle takes one.
    unsafe {
        let frame = arena.take(class_of(size_of::<AttributedFrame<F>>()));
        frame.cast::<AttributedFrame<F>>().write(AttributedFrame {
            host: HostFrame {
                header: Header::new(State::new_host(), vtable, Kind::Host, home),
                joiners: Joiners::new(),
                stage: UnsafeCell::new(Stage::Future(future)),
            },
            attributes: Lock::new(attributes),
        });
        frame
    }
}

impl<T> Thread<T> {
    /// Where it ran last, or is to run.
    fn vp(&self) -> *const Vp {
        self.header().vp.load(Ordering::Relaxed)
    }
}
