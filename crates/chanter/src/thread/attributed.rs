//! Spawning threads with options: attributes for the policy, a name, a virtual processor, or a
//! thread near which they are to run.

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
use crate::sched::{Address, Pool, Processor, Worker};
use crate::sync::Lock;

/// A host's frame, with the options of its thread. The attributes are behind a lock, because a
/// policy may hold a stale token while a stealer runs the thread.
#[repr(C)]
struct AttributedFrame<F: Future> {
    host: HostFrame<F>,
    attributes: Lock<Attributes>,
    /// The thread's name, which stays until the end of the frame.
    name: Option<Arc<str>>,
}

/// The options of a thread that is to be spawned.
#[derive(Clone, Debug, Default)]
pub(crate) struct SpawnOptions {
    pub(crate) attributes: Option<Attributes>,
    pub(crate) name: Option<Arc<str>>,
    /// The index of the virtual processor on which it stays; `None`: it may run on any.
    pub(crate) on: Option<usize>,
    /// The virtual processor on which it begins, if nothing is said of where it stays.
    pub(crate) near: Option<Near>,
    /// Whether it is not to be stolen.
    pub(crate) is_kept: bool,
    /// Whether the scheduler makes no hosts of its parasites.
    pub(crate) forbids_inflation: bool,
}

/// The virtual processor where another thread ran last: an address to compare with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Near(usize);

impl Near {
    pub(super) fn to<T>(thread: &Thread<T>) -> Self {
        // ORDER: Relaxed: only a hint.
        Self(thread.header().address().addr())
    }

    fn is(self, processor: &Processor) -> bool {
        self.0 == ptr::from_ref(&processor.address).addr()
    }
}

impl SpawnOptions {
    fn marks(&self) -> Marks {
        Marks { is_kept: self.is_kept, forbids_inflation: self.forbids_inflation }
    }

    /// Whether nothing is said that its frame keeps.
    fn is_only_placed(&self) -> bool {
        self.attributes.is_none() && self.name.is_none()
    }
}

impl<F: Future> AttributedFrame<F> {
    const VTABLE: &'static Vtable = &Self::extend(HostFrame::<F>::VTABLE, Self::drop_frame);
    const DELAYED_VTABLE: &'static Vtable = &Vtable {
        evaluate: |frame, cx, place| {
            // SAFETY: the caller is the runner of a frame of ours, and `place` is of its value's
            // type.
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
        // SAFETY: the caller keeps the frame, which is an `AttributedFrame<F>`.
        Some(unsafe { NonNull::new_unchecked(&raw mut (*frame.cast::<Self>().as_ptr()).attributes) })
    }

    unsafe fn name(frame: NonNull<Header>) -> Option<NonNull<Arc<str>>> {
        // SAFETY: the caller keeps the frame, which is an `AttributedFrame<F>`.
        unsafe { (*frame.cast::<Self>().as_ptr()).name.as_ref().map(NonNull::from) }
    }

    unsafe fn drop_frame(frame: NonNull<Header>) {
        // SAFETY: the caller frees the frame, so nobody else refers to it. The name goes last,
        // because the report of a panic needs it.
        unsafe {
            (HostFrame::<F>::VTABLE.drop_frame)(frame);
            (*frame.cast::<Self>().as_ptr()).name = None;
        }
    }

    /// # Safety
    /// As for the vtable's function `evaluate`. `of` is the host's vtable.
    unsafe fn evaluate(
        frame: NonNull<Header>,
        cx: &mut Context<'_>,
        place: *mut (),
        of: &'static Vtable,
    ) -> Evaluated {
        // SAFETY: the caller is the runner, and `place` is of the value's type. A frame that yields
        // its value may be freed without `drop_frame`, so the name goes here. The runner is also
        // the owner of the only handle, so nobody else uses the name.
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
            // SAFETY: the caller is the runner of a frame of ours, and `place` is of its value's
            // type.
            unsafe { Self::evaluate(frame, cx, place, HostFrame::<F>::BOXED_DELAYED_VTABLE) }
        },
        ..Self::extend(HostFrame::<F>::BOXED_DELAYED_VTABLE, Self::drop_frame)
    };
}

/// Spawns a host of which something is said, from anywhere.
///
/// # Panics
/// If the machine has no virtual processor `said.on`.
pub(crate) fn spawn_said_in<F>(machine: &Pool, said: SpawnOptions, future: F, site: Site) -> Thread<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    let here = Worker::current().filter(|vp| ptr::eq(vp.machine(), machine));
    let vps = machine.processors.len();
    let near = said.near.filter(|_| said.on.is_none());
    let near = near.and_then(|near| machine.processors.iter().position(|vp| near.is(vp)));
    let home = match (said.on.or(near), here) {
        (Some(index), _) => machine.processors.get(index).map_or_else(
            || panic!("no virtual processor {index}: the machine has {vps}"),
            |home| &home.address,
        ),
        (None, Some(vp)) => match vp.place(vps) {
            Some(index) => &machine.processors[index].address,
            None => &vp.processor().address,
        },
        (None, None) => &machine.any_vp().address,
    };
    let marks = said.marks();
    if said.is_only_placed() {
        let kind = if said.on.is_some() { Kind::Pinned } else { Kind::Host };
        // SAFETY: the body is 'static and `Send`.
        let make = |arena: &Arena| unsafe { new_host::<false, _>(arena, home, future, kind) };
        return spawn_at(machine, here, home, marks, make, site);
    }
    // SAFETY: the body is 'static and `Send`.
    let make = |arena: &Arena| unsafe { new_attributed_host::<false, _>(arena, home, said, future) };
    spawn_at(machine, here, home, marks, make, site)
}

/// Creates a delayed host with options, from any OS thread; see [`delay`](crate::delay).
pub(super) fn delay_said_in<F>(machine: &Pool, said: SpawnOptions, future: F, site: Site) -> Thread<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    let here = Worker::current().filter(|vp| ptr::eq(vp.machine(), machine));
    let home = match said.on {
        Some(index) => machine.processors.get(index).map_or_else(
            || panic!("no virtual processor {index}: the machine has {}", machine.processors.len()),
            |home| &home.address,
        ),
        None => &here.map_or_else(|| machine.any_vp(), Worker::processor).address,
    };
    let marks = said.marks();
    // SAFETY: the body is 'static and `Send`.
    let make = |arena: &Arena| unsafe { new_attributed_host::<true, _>(arena, home, said, future) };
    let (frame, thread) = match here {
        Some(vp) => {
            vp.counters().delayed.add_one();
            make(&vp.arena)
        }
        None => {
            machine.outside.counters.delayed.add_one_shared();
            machine.with_arena(make)
        }
    };
    marks.set(&thread);
    machine.spawned(frame, site);
    thread
}

/// Options that stand in a thread's header.
#[derive(Clone, Copy)]
struct Marks {
    is_kept: bool,
    forbids_inflation: bool,
}

impl Marks {
    /// Marks a new thread.
    fn set<T>(self, thread: &Thread<T>) {
        let header = thread.header();
        if self.is_kept {
            header.kind.keep();
            // The owner of the only handle would run it otherwise, without a look at its kind.
            header.state.disown();
        }
        header.penalty.forbid_inflation(self.forbids_inflation);
    }
}

/// Makes a host and gives it to `home`; `here` is driven by the caller.
fn spawn_at<T>(
    machine: &Pool,
    here: Option<&Worker>,
    home: &Address,
    marks: Marks,
    make: impl FnOnce(&Arena) -> (NonNull<Header>, Thread<T>),
    site: Site,
) -> Thread<T> {
    let (frame, thread) = match here {
        Some(vp) => make(&vp.arena),
        None => machine.with_arena(make),
    };
    match here {
        Some(vp) => vp.counters().hosts.add_one(),
        None => machine.outside.counters.hosts.add_one_shared(),
    }
    marks.set(&thread);
    machine.spawned(frame, site);
    // SAFETY: this is the only token of the new frame.
    let ready = unsafe { Ready::from_frame(frame) };
    match here {
        Some(vp) if ptr::eq(&vp.processor().address, home) => vp.enqueue(ready, Reason::New),
        _ => home.push(ready),
    }
    thread
}

/// # Safety
/// The caller owns `arena`. The body is `Send`, and outlives the thread.
unsafe fn new_attributed_host<const DELAYED: bool, F: Future>(
    arena: &Arena,
    home: &Address,
    said: SpawnOptions,
    future: F,
) -> (NonNull<Header>, Thread<F::Output>) {
    if fits::<AttributedFrame<F>>() {
        let vtable =
            if DELAYED { AttributedFrame::<F>::DELAYED_VTABLE } else { AttributedFrame::<F>::VTABLE };
        // SAFETY: the caller owns `arena`; the body is `Send` and outlives the thread. The frame is
        // new, and its handle's reference is ours.
        unsafe {
            let frame = new_frame::<DELAYED, _>(arena, home, said, future, vtable);
            return (frame, Thread::from_frame(frame));
        }
    }
    // The body is boxed, as other large bodies are. The options stay in the frame.
    let boxed = Box::pin(async move { Box::new(future.await) });
    // SAFETY: the caller owns `arena`; the body is `Send` and outlives the thread. The vtable
    // unpacks the output.
    unsafe { new_boxed::<DELAYED, _, _>(arena, home, said, boxed) }
}

/// # Safety
/// As for [`new_attributed_host`].
unsafe fn new_boxed<const DELAYED: bool, T, F: Future<Output = Box<T>>>(
    arena: &Arena,
    home: &Address,
    said: SpawnOptions,
    future: F,
) -> (NonNull<Header>, Thread<T>) {
    let vtable =
        if DELAYED { AttributedFrame::<F>::BOXED_DELAYED_VTABLE } else { AttributedFrame::<F>::BOXED_VTABLE };
    // SAFETY: the caller owns `arena`; the body is `Send` and outlives the thread. The vtable
    // unpacks the output, so the handle's type is `T`.
    unsafe {
        let frame = new_frame::<DELAYED, _>(arena, home, said, future, vtable);
        (frame, Thread::from_frame(frame))
    }
}

/// # Safety
/// As for [`new_attributed_host`].
unsafe fn new_frame<const DELAYED: bool, F: Future>(
    arena: &Arena,
    home: &Address,
    said: SpawnOptions,
    future: F,
    vtable: &'static Vtable,
) -> NonNull<Header> {
    assert!(fits::<AttributedFrame<F>>(), "the body fits a frame");
    let state = if DELAYED { State::new_delayed() } else { State::new_host() };
    let kind = if said.on.is_some() { Kind::Pinned } else { Kind::Host };
    // SAFETY: the caller owns the arena, the class is large enough, and the frame is new. The
    // caller's handle takes one reference; the token, if there is one, has the other.
    unsafe {
        let frame = arena.take(class_of(size_of::<AttributedFrame<F>>()));
        let place = frame.cast::<AttributedFrame<F>>().as_ptr();
        (&raw mut (*place).attributes).write(Lock::new(said.attributes.unwrap_or_default()));
        (&raw mut (*place).name).write(said.name);
        let header = Header::new(state, vtable, kind, home.opaque()).with_options();
        HostFrame::<F>::write(frame, header, future);
        frame
    }
}
