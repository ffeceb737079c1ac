//! Members: the virtual processors that a physical processor runs.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::super::Worker;
use super::super::os_threads::Running;
use super::super::pool::Entered;
use super::baton::Carrier;
use super::shift::{Begin, Shift};
use crate::policy::physical::Contender;
use crate::sync::Lock;

/// A virtual processor, as one that a physical processor runs.
pub(super) struct Member {
    /// Its number, among all members of the workers.
    pub(super) id: u64,
    worker: *const Worker,
    /// Keeps the machine, which waits for its end.
    running: Running,
    name: Arc<str>,
    status: Lock<Status>,
}

// SAFETY: a worker is `Sync`, and `running` keeps its machine.
unsafe impl Send for Member {}
// SAFETY: a worker is `Sync`, and `running` keeps its machine.
unsafe impl Sync for Member {}

struct Status {
    state: State,
    /// The carrier to which threads of the worker are bound; 0: none.
    bound: Carrier,
    used: Duration,
    /// The part of `used` that the policy has not been told of.
    untold: Duration,
    /// Time when it last came to rest.
    since: Instant,
    /// Time when it began to run with the baton, if it does.
    begun: Option<Instant>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Fresh,
    Ready,
    Asleep { until: Option<Instant>, is_notified: bool },
    Runs,
}

/// Whether the holder of the baton can run a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Look {
    /// It runs, on a carrier without the baton.
    Runs,
    /// It sleeps, until then.
    Sleeps(Option<Instant>),
    /// It may run.
    Ready,
}

impl Status {
    fn charge(&mut self) {
        let time = self.begun.take().map_or(Duration::ZERO, |begun| begun.elapsed());
        self.used += time;
        self.untold += time;
    }
}

impl Member {
    pub(super) fn new(id: u64, worker: &Worker, running: Running) -> Self {
        let name = Arc::from(running.pool().name());
        let status = Status {
            state: State::Fresh,
            bound: 0,
            used: Duration::ZERO,
            untold: Duration::ZERO,
            since: Instant::now(),
            begun: None,
        };
        Self { id, worker, running, name, status: Lock::new(status) }
    }

    pub(super) fn worker(&self) -> &Worker {
        // SAFETY: `running` keeps the machine, and so its workers.
        unsafe { &*self.worker }
    }

    pub(super) fn look(&self, now: Instant) -> Look {
        match self.status.lock().state {
            State::Runs => Look::Runs,
            // Threads that are bound to the regular worker wait for it.
            _ if self.worker().leader().is_handed_off() => Look::Ready,
            State::Asleep { until, is_notified } => {
                let is_due = until.is_some_and(|until| until <= now);
                let is_ready = is_notified || is_due || !self.worker().sleeper().is_asleep();
                if is_ready { Look::Ready } else { Look::Sleeps(until) }
            }
            State::Fresh | State::Ready => Look::Ready,
        }
    }

    /// Whether it is about to leave, so that it runs without being chosen.
    pub(super) fn leaves(&self) -> bool {
        self.running.pool().has_to_leave(self.worker())
    }

    /// Notes that its poller has something.
    pub(super) fn notify(&self) {
        if let State::Asleep { is_notified, .. } = &mut self.status.lock().state {
            *is_notified = true;
        }
    }

    /// The carrier to which it is bound; 0: none.
    pub(super) fn bound(&self) -> Carrier {
        self.status.lock().bound
    }

    pub(super) fn contender(&self, now: Instant) -> Contender {
        let status = self.status.lock();
        Contender {
            id: self.id,
            machine: Arc::clone(&self.name),
            index: self.worker().leader().index,
            used: status.used,
            waited: now.saturating_duration_since(status.since),
        }
    }

    /// The time that it has had since this was last asked.
    pub(super) fn take_untold(&self) -> Duration {
        std::mem::take(&mut self.status.lock().untold)
    }

    /// Notes the time that it had until now: its shift ends, or its carrier has lost the baton.
    pub(super) fn charge(&self) {
        self.status.lock().charge();
    }

    /// Runs it until `is_over`.
    pub(super) fn run(&self, is_over: &dyn Fn() -> bool) -> Shift {
        let mut status = self.status.lock();
        status.begun = Some(Instant::now());
        let begin = match std::mem::replace(&mut status.state, State::Runs) {
            State::Fresh => Begin::First,
            State::Asleep { .. } => Begin::Awake,
            State::Ready => Begin::On,
            State::Runs => unreachable!("INV-CARRIED"),
        };
        drop(status);
        let _entered = Entered::new(Arc::clone(self.running.pool()));
        self.running.pool().shift(self.worker(), begin, is_over)
    }

    /// Notes how its shift has ended, on `me`. Others may run it from now on.
    pub(super) fn put_back(&self, me: Carrier, is_only: bool, shift: Shift) {
        // No other carrier runs it yet.
        let is_bound = shift != Shift::Left && self.worker().is_bound_to_os_thread(is_only);
        let mut status = self.status.lock();
        status.charge();
        status.bound = if is_bound { me } else { 0 };
        status.since = Instant::now();
        status.state = match shift {
            Shift::Asleep(until) => State::Asleep { until, is_notified: false },
            Shift::Over => State::Ready,
            Shift::Left => State::Runs,
        };
    }
}
