//! The link between frames and the scheduler: a frame names a virtual processor, and asks the scheduler by the trait
//! [`Schedule`].

use std::any::Any;
use std::ptr::NonNull;
use std::sync::Arc;

use super::{Address, Pool, Processor, Worker, run};
use crate::frame::environment;
use crate::frame::{Activity, Header, Kind, Observer, Schedule, Site, span};
use crate::policy::{Policy, Processors, Ready};
use crate::sync::atomic::Ordering;

impl Header {
    /// The address at which the thread ran last, or is to run. A frame that is free may name none.
    ///
    /// A frame keeps its machine, and so the address.
    #[inline(always)]
    pub(crate) fn address(&self) -> *const Address {
        self.address.load(Ordering::Relaxed).cast_const().cast()
    }

    /// The thread is at `address` from now on.
    #[inline(always)]
    pub(crate) fn set_address(&self, address: &Address) {
        self.address.store(address.opaque().cast_mut(), Ordering::Relaxed);
    }

    /// The machine that the frame belongs to; the caller keeps the frame.
    pub(crate) fn machine(&self) -> &Pool {
        // SAFETY: a frame keeps its machine, whatever address it names.
        unsafe { &*self.address() }.machine()
    }

    /// The thread's activity, unless a request holds it.
    pub(crate) fn activity(&self) -> Activity {
        match self.state.activity() {
            Activity::Ready if self.machine().find_worker(&|worker| worker.is_running(self)).is_some() => {
                Activity::Running
            }
            activity => activity,
        }
    }
}

impl Pool {
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
        // First, as the observer shows the thread to others.
        // SAFETY: the frame is new, its table is set, and nobody else knows it.
        let inherits = unsafe { environment::inherit(frame) };
        if let Some(observer) = self.observer() {
            self.write_birth(observer, frame, site);
        }
        if inherits {
            // SAFETY: the caller has made the frame, and `inherit` has extended it.
            unsafe { environment::made(frame) };
        }
        inherits
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
        let processor = &self.processors[0];
        if let Some(simulated) = &processor.simulated {
            header.tag.set(id);
            // SAFETY: the frame is in use, as no one else knows the new thread.
            let name = unsafe { (vtable.name)(frame).map(|name| Arc::clone(name.as_ref())) };
            simulated.note_birth(processor.regular_worker(), id, site, name);
        }
    }
}

impl Processor {
    /// The time, by the clock of the machine.
    #[inline]
    pub(crate) fn now(&self) -> std::time::Instant {
        match &self.simulated {
            None => std::time::Instant::now(),
            Some(simulated) => simulated.now(),
        }
    }
}

impl Worker {
    /// From now on each birth on this worker inherits the bindings of its maker. The caller is the worker, and enters
    /// their extent.
    pub(crate) fn lets_inherit(&self) {
        // ORDER: Relaxed: the makers of threads within the extent come after us, wherever they run. (The look spares a
        // store to a word that all workers read.)
        if !self.machine().tells_of_births() {
            self.machine().tells_of_births.store(true, Ordering::Relaxed);
        }
        // From now on, as `trust_guard` says.
        self.ask_closer_look();
    }
}

impl Processors for Pool {
    fn count(&self) -> usize {
        self.processors.len()
    }

    fn give(&self, index: usize, stealer: &dyn Policy) -> Option<Ready> {
        self.processors[index].give(stealer)
    }

    fn is_asleep(&self, index: usize) -> bool {
        self.processors[index].is_asleep()
    }

    fn waiting(&self, index: usize) -> usize {
        self.processors[index].gives()
    }
}

/// This scheduler.
pub(super) struct Scheduler;

impl Schedule for Scheduler {
    fn running(&self) -> Option<NonNull<Header>> {
        NonNull::new(Worker::current()?.running.get())
    }

    fn lets_inherit(&self) {
        if let Some(worker) = Worker::current() {
            worker.lets_inherit();
        }
    }

    fn is_in_test(&self) -> bool {
        Worker::current().is_some_and(|worker| worker.machine().is_in_test())
    }

    fn is_unwinding(&self) -> bool {
        Worker::current().is_some_and(|worker| worker.bound.fibers.is_ending())
    }

    fn takes_panic(&self, whose: &str, payload: &(dyn Any + Send), message: Option<&str>) -> bool {
        let Some(worker) = Worker::current() else { return false };
        if let Some(simulated) = &worker.processor().simulated {
            simulated.panicked(whose, payload, message.unwrap_or("no message"));
            return true;
        }
        // One without a message is none: it unwinds a fiber on whose stack a parasite ran.
        message.is_none() && worker.bound.fibers.is_ending()
    }

    unsafe fn give_up(&self, frame: NonNull<Header>) {
        // SAFETY: the caller of this trait method gives up the frame's token.
        run::give_up(unsafe { Ready::from_frame(frame) });
    }

    unsafe fn send_home(&self, frame: NonNull<Header>) {
        // SAFETY: the caller of this trait method gives up the frame's token.
        Worker::send_home(unsafe { Ready::from_frame(frame) });
    }
}
