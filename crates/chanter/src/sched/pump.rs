//! Pumps: they bring messages from elsewhere, when nothing else wakes a worker for them.
//!
//! A communication library that makes progress only when it is called (MPI) has no file descriptor to wait on.
//! The scheduler calls it (Chant, section 4.2: the scheduler polls). Each worker does so about every 100 us while
//! threads run, and before it goes to sleep. A machine without a pump is not slower for it: a worker makes one look
//! more when it looks around. A source that wakes sleepers may have a pump too, for messages that come while a worker
//! spins. A message through shared memory is there sooner than a worker is awake.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{Pool, Processor, Worker};

/// Brings messages. Called by the workers of a machine, several at a time; none of the runtime's locks is held
/// meanwhile. Calls must be short, and must not panic: the process would end.
pub trait Pump: Send + Sync + 'static {
    /// Whether [`pump`](Self::pump) would do something. The test must be fast.
    fn has_work(&self) -> bool;

    /// As [`has_work`](Self::has_work), but asked between any two turns of a worker, if the test is fast enough.
    /// `None`, the default: the pump is asked about every 100 us.
    fn has_work_at_a_turn(&self) -> Option<bool> {
        None
    }

    /// Does the pending work; it may wake threads. A caller that finds another OS thread inside returns at once.
    fn pump(&self);

    /// Waits until [`pump`](Self::pump) would do something, for as long as that is worth it, or until `is_over`.
    /// Returns whether it would. The caller is a worker that has nothing to run, and is awake. A thread that waits
    /// for a message is then run by the worker that has looked for it, and no other is woken in between. `is_over` is
    /// to be asked every microsecond or so. The default does not wait.
    fn wait(&self, is_over: &dyn Fn() -> bool) -> bool {
        let _ = is_over;
        self.has_work()
    }

    /// Says how long a worker, which is about to sleep, may do so. It has told those that may wake it, and what they
    /// sent before must be seen here. Every call is followed by one of [`rise`](Self::rise).
    fn rest(&self) -> Rest;

    /// Says that the worker does not sleep any more.
    fn rise(&self);
}

/// Has the workers of the current machine call `pump` from now on. False: it has one already, or the caller is no
/// thread of a machine.
pub fn attach_pump(pump: Arc<dyn Pump>) -> bool {
    Worker::current().is_some_and(|worker| {
        worker.processor().simulated.is_none() && worker.machine().pump.set(pump).is_ok()
    })
}

/// Whether the worker has something to do besides the running thread: a thread that polls by itself yields then. It
/// has to yield now and then anyway. True if no processor is driven here, or if another owner has it.
pub fn is_wanted() -> bool {
    let Some(worker) =
        Worker::current().filter(|worker| worker.processor().simulated.is_none() && worker.enter())
    else {
        return true;
    };
    let is_wanted = worker.has_local_work();
    worker.exit();
    is_wanted
}

/// Whether the [`Pump`] of this machine has work for the end of the turn. A loop that runs many threads in one turn
/// yields then: other processes may wait for an answer. A pump that is not asked at each turn has none.
#[inline]
pub fn has_messages() -> bool {
    Worker::current().and_then(|worker| worker.machine().pump.get()?.has_work_at_a_turn()) == Some(true)
}

/// How long a worker may sleep, as far as a [`Pump`] goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Rest {
    /// Not at all: there is work.
    Work,
    /// For this long; nothing wakes it for the pump.
    For(Duration),
    /// For as long as it likes: a thread of the machine is woken when there is work.
    Notified,
}

/// Calls `wake`; the threads that it wakes go before those that are to run soon, if a [`Pump`] calls this. An example
/// is the thread that serves requests, for which other processes wait. After its turn at least one other thread has
/// its turn.
pub fn wake_first(wake: impl FnOnce()) {
    let worker = Worker::current();
    worker.inspect(|worker| worker.turn.wakes_first.set(true));
    wake();
    worker.inspect(|worker| worker.turn.wakes_first.set(false));
}

impl Pool {
    /// Pumps, if there is anything to bring.
    #[inline]
    pub(super) fn pump(&self) {
        self.pump.get().filter(|pump| pump.has_work()).inspect(|pump| pump.pump());
    }
}

impl Worker {
    /// Pumps between two turns, if the pump is to be asked at each turn; returns whether it is. The caller is inside.
    pub(super) fn pump_at_a_turn(&self) -> bool {
        let Some(pump) = self.machine().pump.get() else { return false };
        let Some(has_work) = pump.has_work_at_a_turn() else { return false };
        // After the turn of a thread that went first, other threads have theirs.
        if has_work && self.processor().core.goes_first.get() != self.processor().core.turns.get() {
            pump.pump();
        }
        true
    }

    /// Whether a thread that is woken now goes first. If so, the next turn is noted as that of such a thread.
    #[inline]
    pub(super) fn is_first(&self) -> bool {
        let is_first = self.turn.wakes_first.get();
        if is_first {
            let core = &self.processor().core;
            core.goes_first.set(core.turns.get() + 1);
        }
        is_first
    }

    /// Waits for the pump, as there is nothing to run, and pumps once it has something, which is often at once.
    /// False: it has nothing, or there is something else to do; or some awake processors have no core, and would have
    /// this one's. The caller is inside.
    pub(super) fn wait_for_pump(&self, over: &dyn Fn() -> bool) -> bool {
        let Some(pump) = self.machine().pump.get() else { return false };
        let machine = self.machine();
        let is_due =
            |processor: &Processor| processor.timers.next_due().is_some_and(|due| due <= Instant::now());
        let is_over = || {
            self.announcement.get().acknowledge();
            over()
                || self.processors().any(|processor| !processor.address.inbox.is_empty() || is_due(processor))
                || self.others_wait()
                || !machine.has_cores_for(0)
        };
        // Other machines may need the OS thread.
        let has_work = if self.carried().is_some() { pump.has_work() } else { pump.wait(&is_over) };
        if has_work {
            self.owner.hold(|| pump.pump());
        }
        has_work
    }
}

/// How long a worker may sleep that has announced its sleep. `None`: not at all, there is work. `Some(None)`: for
/// ever.
pub(super) fn rest_of_pump(pump: Option<&Arc<dyn Pump>>) -> Option<Option<Duration>> {
    match pump.map_or(Rest::Notified, |pump| pump.rest()) {
        Rest::Work => None,
        Rest::For(time) => Some(Some(time)),
        Rest::Notified => Some(None),
    }
}
