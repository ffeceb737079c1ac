//! The link between frames and the scheduler: a frame names a virtual processor, and asks the scheduler by the trait
//! [`Schedule`].

use std::any::Any;
use std::ptr::{self, NonNull};
use std::sync::Arc;

use super::{Shared, Vp, run};
use crate::frame::environment;
use crate::frame::{Activity, Header, Kind, Observer, OpaqueVp, Schedule, Site, span};
use crate::policy::{Policy, Processors, Ready};
use crate::sync::atomic::Ordering;

impl Header {
    /// The virtual processor on which the thread ran last, or is to run. A frame that is free may name none.
    ///
    /// A frame keeps its machine, and so the virtual processor.
    #[inline(always)]
    pub(crate) fn vp(&self) -> *const Vp {
        self.vp.load(Ordering::Relaxed).cast_const().cast()
    }

    /// The thread runs on `vp`, or is to run there.
    #[inline(always)]
    pub(crate) fn set_vp(&self, vp: &Vp) {
        self.vp.store(vp.opaque().cast_mut(), Ordering::Relaxed);
    }

    /// The machine that the frame belongs to; the caller keeps the frame.
    pub(crate) fn machine(&self) -> &Shared {
        // SAFETY: a frame keeps its machine, whatever virtual processor it names.
        unsafe { &*self.vp() }.machine()
    }

    /// The thread's activity, unless a request holds it.
    pub(crate) fn activity(&self) -> Activity {
        // SAFETY: a frame keeps its machine, whatever virtual processor it names.
        let vp = unsafe { &*self.vp() };
        match self.state.activity() {
            Activity::Ready if self.rest.seems_to_rest() => Activity::Blocked,
            Activity::Ready if vp.seems_to_run(self) => Activity::Running,
            activity => activity,
        }
    }
}

impl Shared {
    /// A thread has been made, and has not run.
    #[inline(always)]
    pub(crate) fn spawned(&self, frame: NonNull<Header>, site: Site) {
        if self.tells_of_births() {
            // SAFETY: the caller has made the frame, whose table is set.
            unsafe { self.tell_of_birth(frame, site) };
        }
        // SAFETY: the caller has made it.
        unsafe { span::open(frame, site) };
    }

    /// Tells the observer, and gives the thread its maker's bindings. True: it has some.
    ///
    /// # Safety
    /// The frame is new, its table is set, and nobody else knows it.
    #[cold]
    #[inline(never)]
    pub(crate) unsafe fn tell_of_birth(&self, frame: NonNull<Header>, site: Site) -> bool {
        if let Some(observer) = self.observer() {
            self.write_birth(observer, frame, site);
        }
        // SAFETY: the frame is new, its table is set, and nobody but the observer knows it.
        unsafe { environment::inherit(frame) }
    }

    fn write_birth(&self, observer: &dyn Observer, frame: NonNull<Header>, site: Site) {
        let id = observer.born(frame, site);
        // SAFETY: no one else knows the new thread, whose frame the caller keeps.
        let header = unsafe { frame.as_ref() };
        let vtable = header.vtable.get();
        // A parasite that begins in place has no table of its own yet, and one
        // that is promoted is no host to `Stats`: nobody can join it.
        // SAFETY: the frame is in use, as no one else knows the new thread; where the kind is not a parasite's, the
        // table is the body's.
        let is_host = header.kind.get() != Kind::Parasite && unsafe { (vtable.joiners)(frame) }.is_some();
        if is_host {
            self.outside.host_bytes.add_many_shared((vtable.size - size_of::<Header>()) as u64);
        }
        let vp = &self.vps[0];
        if let Some(simulated) = &vp.simulated {
            header.tag.set(id);
            // SAFETY: the frame is in use, as no one else knows the new thread.
            let name = unsafe { (vtable.name)(frame).map(|name| Arc::clone(name.as_ref())) };
            simulated.note_birth(vp, id, site, name);
        }
    }
}

impl Vp {
    /// From now on each birth on this machine inherits the bindings of its maker. The caller drives this processor,
    /// and enters their extent.
    pub(crate) fn lets_inherit(&self) {
        self.machine().tells_of_births.store(true, Ordering::Relaxed);
        self.ask_closer_look();
    }

    /// The time, by the clock of the machine.
    #[inline]
    pub(crate) fn now(&self) -> std::time::Instant {
        match &self.simulated {
            None => std::time::Instant::now(),
            Some(simulated) => simulated.now(),
        }
    }

    /// The virtual processor, as frames name it.
    #[inline(always)]
    pub(crate) fn opaque(&self) -> *const OpaqueVp {
        ptr::from_ref(self).cast()
    }
}

impl Processors for Shared {
    fn count(&self) -> usize {
        self.vps.len()
    }

    fn give(&self, index: usize, stealer: &dyn Policy) -> Option<Ready> {
        self.vps[index].give(stealer)
    }

    fn is_asleep(&self, index: usize) -> bool {
        self.vps[index].is_asleep()
    }

    fn waiting(&self, index: usize) -> usize {
        self.vps[index].gives()
    }
}

/// This scheduler.
pub(super) struct Scheduler;

impl Schedule for Scheduler {
    fn running(&self) -> Option<NonNull<Header>> {
        NonNull::new(Vp::current()?.worker.running.get())
    }

    fn is_in_test(&self) -> bool {
        Vp::current().is_some_and(|vp| vp.machine().is_in_test())
    }

    fn is_unwinding(&self) -> bool {
        Vp::current().is_some_and(|vp| vp.worker.fibers.is_ending())
    }

    fn takes_panic(&self, whose: &str, payload: &(dyn Any + Send), message: Option<&str>) -> bool {
        let Some(vp) = Vp::current() else { return false };
        if let Some(simulated) = &vp.simulated {
            simulated.panicked(whose, payload, message.unwrap_or("no message"));
            return true;
        }
        // One without a message is none: it unwinds a fiber on whose stack a parasite ran.
        message.is_none() && vp.worker.fibers.is_ending()
    }

    unsafe fn give_up(&self, frame: NonNull<Header>) {
        // SAFETY: the caller of this trait method gives up the frame's token.
        run::give_up(unsafe { Ready::from_frame(frame) });
    }

    unsafe fn send_home(&self, frame: NonNull<Header>) {
        // SAFETY: the caller of this trait method gives up the frame's token.
        Vp::send_home(unsafe { Ready::from_frame(frame) });
    }
}
