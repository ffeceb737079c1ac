//! Spawning threads of which something is said: attributes for the policy, a name,
//! or a thread that they are to run near to.

use std::future::Future;
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::task::Context;

use super::join::{HostFrame, Thread};
use super::spawn::new_host;
use crate::frame::body::{Evaluated, Vtable, fits};
use crate::frame::slab::class_of;
use crate::frame::state::State;
use crate::frame::{Arena, Header, Kind, Site};
use crate::policy::{Attributes, Ready, Reason};
use crate::sched::{Shared, Vp};
use crate::sync::Lock;

/// A host's frame, and what is said of its thread. Behind a lock: a policy may
/// hold a token that is stale, while a stealer runs the thread.
#[repr(C)]
struct AttributedFrame<F: Future> {
    host: HostFrame<F>,
    attributes: Lock<Attributes>,
    /// Until the end of the frame.
    name: Option<Arc<str>>,
}

/// What is said of a thread.
#[derive(Clone, Debug, Default)]
pub(crate) struct SpawnOptions {
    pub(crate) attributes: Option<Attributes>,
    pub(crate) name: Option<Arc<str>>,
    /// The virtual processor on which it stays.
    pub(crate) on: Option<usize>,
    /// The virtual processor on which it begins, if nothing is said of where it stays.
    pub(crate) near: Option<Near>,
}

/// Where another thread ran last: an address to compare with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Near(usize);

impl Near {
    pub(super) fn to<T>(thread: &Thread<T>) -> Self {
        Self(thread.header().vp().addr())
    }

    fn is(self, vp: &Vp) -> bool {
        self.0 == ptr::from_ref(vp).addr()
    }
}

impl SpawnOptions {
    /// Whether nothing is said but where it is.
    fn is_only_placed(&self) -> bool {
        self.attributes.is_none() && self.name.is_none()
    }
}

impl<F: Future> AttributedFrame<F> {
    const VTABLE: &'static Vtable = &Self::extend(HostFrame::<F>::VTABLE, Self::drop_frame);
    const DELAYED_VTABLE: &'static Vtable = &Vtable {
        evaluate: |frame, cx, place| {
            // SAFETY: the caller's contract.
            unsafe { Self::evaluate(frame, cx, place, HostFrame::<F>::DELAYED_VTABLE) }
        },
        ..Self::extend(HostFrame::<F>::DELAYED_VTABLE, Self::drop_frame)
    };

    const fn extend(vtable: &Vtable, drop_frame: unsafe fn(NonNull<Header>)) -> Vtable {
        Vtable {
            size: size_of::<Self>(),
            attributes: Self::attributes,
            name: Self::name,
            drop_frame,
            ..*vtable
        }
    }

    unsafe fn attributes(frame: NonNull<Header>) -> Option<NonNull<Lock<Attributes>>> {
        // SAFETY: the caller keeps the frame, which is one of ours.
        Some(unsafe { NonNull::new_unchecked(&raw mut (*frame.cast::<Self>().as_ptr()).attributes) })
    }

    unsafe fn name(frame: NonNull<Header>) -> Option<NonNull<Arc<str>>> {
        // SAFETY: as in `attributes`.
        unsafe { (*frame.cast::<Self>().as_ptr()).name.as_ref().map(NonNull::from) }
    }

    unsafe fn drop_frame(frame: NonNull<Header>) {
        // SAFETY: the caller frees the frame: it is alone with it. The report of a
        // panic has the name.
        unsafe {
            (HostFrame::<F>::VTABLE.drop_frame)(frame);
            (*frame.cast::<Self>().as_ptr()).name = None;
        }
    }

    /// # Safety
    /// As for the vtable's function, of which `of` has one for the host.
    unsafe fn evaluate(
        frame: NonNull<Header>,
        cx: &mut Context<'_>,
        place: *mut (),
        of: &'static Vtable,
    ) -> Evaluated {
        // SAFETY: the caller's contract. With its value the frame may go without
        // being buried; it is its runner's and its only handle's, who are one.
        unsafe {
            let evaluated = (of.evaluate)(frame, cx, place);
            if evaluated == Evaluated::Value {
                (*frame.cast::<Self>().as_ptr()).name = None;
            }
            evaluated
        }
    }
}

impl<T, F: Future<Output = Box<T>>> AttributedFrame<F> {
    const BOXED_VTABLE: &'static Vtable = &Self::extend(HostFrame::<F>::BOXED_VTABLE, Self::drop_frame);
    const BOXED_DELAYED_VTABLE: &'static Vtable = &Vtable {
        evaluate: |frame, cx, place| {
            // SAFETY: the caller's contract.
            unsafe { Self::evaluate(frame, cx, place, HostFrame::<F>::BOXED_DELAYED_VTABLE) }
        },
        ..Self::extend(HostFrame::<F>::BOXED_DELAYED_VTABLE, Self::drop_frame)
    };
}

/// Spawns a host of which something is said, from anywhere.
///
/// # Panics
/// If the machine has no virtual processor as asked for.
pub(crate) fn spawn_said_in<F>(
    machine: &Shared,
    said: SpawnOptions,
    future: F,
    site: Site,
) -> Thread<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    let here = Vp::current().filter(|vp| ptr::eq(vp.machine(), machine));
    let vps = machine.vps.len();
    let near = said.near.filter(|_| said.on.is_none());
    let near = near.and_then(|near| machine.vps.iter().position(|vp| near.is(vp)));
    let home = match (said.on.or(near), here) {
        (Some(index), _) => machine
            .vps
            .get(index)
            .map_or_else(|| panic!("no virtual processor {index}: the machine has {vps}"), |home| &**home),
        (None, Some(vp)) => match vp.place(vps) {
            Some(index) => &*machine.vps[index],
            None => vp.principal(),
        },
        (None, None) => machine.any_vp(),
    };
    if said.is_only_placed() {
        let kind = if said.on.is_some() { Kind::Pinned } else { Kind::Host };
        // SAFETY: the body is 'static and `Send`.
        let make = |arena: &Arena| unsafe { new_host::<false, _>(arena, home, future, kind) };
        return spawn_at(machine, here, home, make, site);
    }
    // SAFETY: the body is 'static and `Send`.
    let make = |arena: &Arena| unsafe { new_attributed_host::<false, _>(arena, home, said, future) };
    spawn_at(machine, here, home, make, site)
}

/// Creates a delayed host of which something is said, from anywhere; see
/// [`delay`](crate::delay).
pub(super) fn delay_said_in<F>(
    machine: &Shared,
    said: SpawnOptions,
    future: F,
    site: Site,
) -> Thread<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    let here = Vp::current().filter(|vp| ptr::eq(vp.machine(), machine));
    let home = match said.on {
        Some(index) => machine.vps.get(index).map_or_else(
            || panic!("no virtual processor {index}: the machine has {}", machine.vps.len()),
            |home| &**home,
        ),
        None => here.unwrap_or_else(|| machine.any_vp()),
    };
    // SAFETY: the body is 'static and `Send`.
    let make = |arena: &Arena| unsafe { new_attributed_host::<true, _>(arena, home, said, future) };
    let (frame, thread) = match here {
        Some(vp) => {
            vp.counters.delayed.add_one();
            make(&vp.arena)
        }
        None => {
            machine.outside.delayed.add_one_shared();
            machine.with_arena(make)
        }
    };
    machine.spawned(frame, site);
    thread
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
    machine.spawned(frame, site);
    // SAFETY: the new frame's token.
    let ready = unsafe { Ready::from_frame(frame) };
    match here {
        Some(vp) if ptr::eq(vp.principal(), home) => vp.enqueue(ready, Reason::New),
        _ => home.push(ready),
    }
    thread
}

/// # Safety
/// The caller owns `arena`; the body is `Send`, and outlives the thread.
unsafe fn new_attributed_host<const DELAYED: bool, F: Future>(
    arena: &Arena,
    home: &Vp,
    said: SpawnOptions,
    future: F,
) -> (NonNull<Header>, Thread<F::Output>) {
    if fits::<AttributedFrame<F>>() {
        let vtable =
            if DELAYED { AttributedFrame::<F>::DELAYED_VTABLE } else { AttributedFrame::<F>::VTABLE };
        // SAFETY: the caller's contract.
        unsafe {
            let frame = new_frame::<DELAYED, _>(arena, home, said, future, vtable);
            return (frame, Thread::from_frame(frame));
        }
    }
    // As for other bodies that are too large; what is said stays in the frame.
    let boxed = Box::pin(async move { Box::new(future.await) });
    // SAFETY: the caller's contract; the vtable unpacks the output.
    unsafe { new_boxed::<DELAYED, _, _>(arena, home, said, boxed) }
}

/// # Safety
/// As for [`new_attributed_host`].
unsafe fn new_boxed<const DELAYED: bool, T, F: Future<Output = Box<T>>>(
    arena: &Arena,
    home: &Vp,
    said: SpawnOptions,
    future: F,
) -> (NonNull<Header>, Thread<T>) {
    let vtable =
        if DELAYED { AttributedFrame::<F>::BOXED_DELAYED_VTABLE } else { AttributedFrame::<F>::BOXED_VTABLE };
    // SAFETY: the caller's contract; the vtable unpacks the output.
    unsafe {
        let frame = new_frame::<DELAYED, _>(arena, home, said, future, vtable);
        (frame, Thread::from_frame(frame))
    }
}

/// # Safety
/// As for [`new_attributed_host`].
unsafe fn new_frame<const DELAYED: bool, F: Future>(
    arena: &Arena,
    home: &Vp,
    said: SpawnOptions,
    future: F,
    vtable: &'static Vtable,
) -> NonNull<Header> {
    assert!(fits::<AttributedFrame<F>>(), "the body fits a frame");
    let state = if DELAYED { State::new_delayed() } else { State::new_host() };
    let kind = if said.on.is_some() { Kind::Pinned } else { Kind::Host };
    // SAFETY: the class is large enough, and the frame new. The caller's handle
    // takes one reference; a token that there is has the other.
    unsafe {
        let frame = arena.take(class_of(size_of::<AttributedFrame<F>>()));
        let place = frame.cast::<AttributedFrame<F>>().as_ptr();
        (&raw mut (*place).attributes).write(Lock::new(said.attributes.unwrap_or_default()));
        (&raw mut (*place).name).write(said.name);
        HostFrame::<F>::write(frame, Header::new(state, vtable, kind, home.opaque()), future);
        frame
    }
}
