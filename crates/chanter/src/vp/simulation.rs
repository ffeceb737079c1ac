//! Simulation: a machine that one OS thread drives, whose policy decides
//! everything that is left to chance, and whose clock jumps.
//!
//! A [`Simulation`] is a policy with a few questions more. It is asked before
//! each synchronization of a thread whether the thread goes on, and for each
//! random number. So the budget is always 0 on a simulated machine: every
//! operation takes the cold path of `budget.rs`, which leads here, and the hot
//! paths of other machines stay as they are.
//!
//! Time stands still while threads are ready. When none is, the clock jumps to
//! the next timer; when there is none either, nothing can ever run again: the
//! future that is simulated, and everything that it started, is a closed
//! world, without I/O and without help from other OS threads.

use std::any::Any;
use std::cell::Cell;
use std::fmt;
use std::mem::ManuallyDrop;
use std::panic::{Location, resume_unwind};
use std::ptr;
use std::sync::{Arc, OnceLock};
use std::task::Context;
use std::time::Instant;

use super::replace::Cause;
use super::worker::{AbortOnUnwind, Driving};
use super::{Entered, Machine, Vp};
use crate::deadlock::{Deadlock, Holder};
use crate::event::Wakes;
use crate::policy::{Payload, Policy, Ready, Reason, call};
use crate::thread::body::contain;
use crate::thread::frame::{Header, Kind};
use crate::thread::{self, RandomGuard};

/// A policy that explores: it decides all that could happen one way or
/// another. One object serves one machine, built with
/// [`Builder::simulation`](crate::Builder::simulation), in one simulation at a
/// time. Threads are named by numbers that count up from 0, the main thread;
/// [`Ready::tag`] tells them.
///
/// No lock of the runtime is held during any call. If one panics, the schedule ends:
/// [`Machine::simulate`] goes on with the panic, when every thread has ended.
pub trait Simulation: Policy {
    /// Thread `thread` is about to begin an operation that may block. True: it
    /// lets others go first; it comes back through
    /// [`enqueue`](Policy::enqueue), and is asked again when it runs.
    ///
    /// `nested`: it is a parasite that another thread has spawned or
    /// attached, and runs on that thread's stack; it goes on whatever the
    /// answer is, unless the schedule [is over](Simulation::is_over).
    fn point(&self, thread: u64, nested: bool) -> bool;

    /// A number below `alternatives`: where a fair choice begins to look.
    fn choose(&self, alternatives: usize) -> usize;

    /// Whether a parasite starts in its spawner's place; if not, as a host.
    fn is_in_place(&self) -> bool {
        true
    }

    /// A thread panicked and nobody joined it, or a destructor panicked.
    fn panicked(&self, whose: &str, message: &str);

    /// Whether the schedule ends here, before its main thread does.
    fn is_over(&self) -> bool;

    /// The schedule has ended: threads that are left come through `next` now,
    /// in any order, and are dropped.
    fn end(&self);
}

/// How a simulated schedule ended.
#[derive(Debug)]
#[non_exhaustive]
pub enum Outcome<T> {
    /// The main thread returned.
    Done(T),
    /// The main thread panicked.
    Panicked(Box<dyn Any + Send>),
    /// Nothing could run any more.
    Deadlocked(Deadlock),
    /// The simulation ended it; what the threads that block wait on. Those that
    /// had ended are among them, as if they were ready.
    Stopped(Deadlock),
}

/// What a simulated virtual processor has besides.
pub(crate) struct Simulated {
    /// A user's: its end may panic.
    simulation: ManuallyDrop<Arc<dyn Simulation>>,
    /// What it has panicked with, if it has.
    failure: Cell<Option<Payload>>,
    has_failed: Cell<bool>,
    now: Cell<Instant>,
    /// The thread that the present turn began with: others that run are
    /// nested in it.
    turn: Cell<*const Header>,
    /// It has been told to pause in this turn.
    paused: Cell<bool>,
    /// Nothing runs any more: who would begin an operation pauses.
    ended: Cell<bool>,
    /// Found in the middle of a turn, in a thread that blocks its processor.
    stuck: Cell<Option<Deadlock>>,
}

impl fmt::Debug for Simulated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Simulated").field("now", &self.now).finish_non_exhaustive()
    }
}

/// The policy of a simulated virtual processor.
pub(super) struct SimulatedPolicy(pub(super) Arc<dyn Simulation>);

impl Policy for SimulatedPolicy {
    fn enqueue(&self, thread: Ready, reason: Reason) -> Option<Ready> {
        self.0.enqueue(thread, reason)
    }

    fn next(&self) -> Option<Ready> {
        self.0.next()
    }
}

/// Thrown through a thread that blocks its processor when the schedule ends.
struct Ended;

/// When every simulation begins: the same instant, so that schedules can be
/// repeated.
fn epoch() -> Instant {
    static EPOCH: OnceLock<Instant> = OnceLock::new();
    *EPOCH.get_or_init(Instant::now)
}

impl Simulated {
    pub(super) fn new(simulation: Arc<dyn Simulation>) -> Self {
        Self {
            simulation: ManuallyDrop::new(simulation),
            failure: Cell::new(None),
            has_failed: Cell::new(false),
            now: Cell::new(epoch()),
            turn: Cell::new(ptr::null()),
            paused: Cell::new(false),
            ended: Cell::new(false),
            stuck: Cell::new(None),
        }
    }

    pub(crate) fn now(&self) -> Instant {
        self.now.get()
    }

    pub(crate) fn choose(&self, alternatives: usize) -> usize {
        self.ask(0, |simulation| simulation.choose(alternatives)).min(alternatives - 1)
    }

    pub(crate) fn is_in_place(&self) -> bool {
        self.ask(false, |simulation| simulation.is_in_place())
    }

    /// A panic that nobody will see otherwise.
    pub(crate) fn panicked(&self, whose: &str, payload: &(dyn Any + Send), message: &str) {
        if !payload.is::<Ended>() {
            self.ask((), |simulation| simulation.panicked(whose, message));
        }
    }

    /// Asks the simulation; `nothing` is the answer when it has ended, or panics.
    fn ask<R>(&self, nothing: R, question: impl FnOnce(&dyn Simulation) -> R) -> R {
        if self.ended.get() {
            return nothing;
        }
        call(|| question(&**self.simulation)).unwrap_or_else(|payload| {
            self.fail(payload);
            nothing
        })
    }

    /// The simulation has panicked: the schedule ends.
    pub(crate) fn fail(&self, payload: Payload) {
        self.ended.set(true);
        if self.has_failed.replace(true) {
            contain(|| drop(payload));
        } else {
            self.failure.set(Some(payload));
        }
    }

    /// Whether the schedule ends here.
    fn is_over(&self) -> bool {
        self.ask(true, |simulation| simulation.is_over()) || self.ended.get()
    }

    /// An operation is about to begin; true: it has been woken and must return
    /// `Pending`.
    pub(super) fn pause(&self, vp: &Vp, cx: &Context<'_>) -> bool {
        let own = thread::is_own(cx.waker());
        let pauses = if self.is_over() {
            // Also for another executor, which may poll again at once: it is
            // thrown out of when it blocks, or ends at the next pause.
            own || !self.paused.replace(true)
        } else if !ptr::eq(vp.running.get(), self.turn.get()) {
            // SAFETY: the running thread is being polled by us.
            let thread = unsafe { vp.running.get().as_ref() }.map_or(0, |header| header.tag.get());
            self.ask(true, |simulation| simulation.point(thread, true)) && self.is_over()
        } else if self.paused.get() {
            // Other operations of a thread that has been told to pause.
            own
        } else {
            // SAFETY: as above.
            let thread = unsafe { vp.running.get().as_ref() }.map_or(0, |header| header.tag.get());
            let pauses = self.ask(true, |simulation| simulation.point(thread, false));
            self.paused.set(pauses);
            pauses
        };
        if pauses {
            cx.waker().wake_by_ref();
        }
        pauses
    }

    /// One turn of a ready thread, or one jump of the clock; false: nothing
    /// will ever run again.
    fn step(&self, vp: &Vp) -> bool {
        vp.drain_inbox();
        let Some(thread) = vp.policy().next() else { return self.jump(vp) };
        let Some(thread) = vp.admit(thread) else { return true };
        let turn = self.turn.replace(thread.header());
        let paused = self.paused.replace(false);
        let budget = vp.budget.replace(0);
        vp.counters.polls.add_one();
        // SAFETY: this OS thread drives `vp`.
        unsafe { thread::run(vp, thread) };
        vp.budget.set(budget);
        self.paused.set(paused);
        self.turn.set(turn);
        true
    }

    fn jump(&self, vp: &Vp) -> bool {
        let Some(due) = vp.timers.next_due() else { return false };
        self.now.set(due.max(self.now.get()));
        let mut wakes = Wakes::new();
        vp.timers.fire(self.now.get(), &mut wakes);
        let outer = vp.cause.replace(Cause::Timer);
        contain(|| wakes.queue());
        vp.cause.set(outer);
        true
    }

    /// A thread blocks its processor, and waits to be woken.
    ///
    /// # Panics
    /// If the schedule ends before.
    pub(super) fn step_nested(&self, vp: &Vp) {
        if self.is_over() {
            resume_unwind(Box::new(Ended));
        }
        if !self.step(vp) {
            self.stuck.set(Some(Deadlock::new(vp.snapshot(false).threads, &[])));
            resume_unwind(Box::new(Ended));
        }
    }

    /// Whether the thread that blocks its processor was told to pause.
    pub(super) fn take_pause(&self) -> bool {
        self.paused.replace(false)
    }

    /// A schedule begins; the one before may have ended with a panic of the simulation's.
    fn begin(&self, vp: &Vp) {
        if self.has_failed.replace(false) {
            vp.put_in_force_again(Box::new(SimulatedPolicy(Arc::clone(&self.simulation))));
        }
    }

    /// Ends every thread that is left.
    fn end(&self, vp: &Vp) {
        self.ended.set(true);
        if !self.has_failed.get()
            && let Err(payload) = call(|| self.simulation.end())
        {
            self.fail(payload);
        }
        loop {
            let queued = vp.drop_queued();
            // SAFETY: this OS thread drives `vp`, and nothing is being polled.
            let idle = unsafe { vp.arena.each_in_use(&mut |frame| vp.cancel_idle(frame)) };
            let outside = vp.machine().with_arena(|arena| {
                let mut frames = Vec::new();
                // SAFETY: the lock's holder owns the arena.
                unsafe {
                    arena.each_in_use(&mut |frame| {
                        frames.push(frame);
                        false
                    })
                };
                frames
            });
            let outside = outside.into_iter().filter(|frame| vp.cancel_idle(*frame)).count() > 0;
            if !queued && !idle && !outside {
                // Of others somebody has the token.
                // SAFETY: no other driver is left, and nothing is being polled.
                if !unsafe { vp.machine().seize_threads() } {
                    break;
                }
                if !vp.end_one_seized() {
                    // It is ended elsewhere.
                    std::thread::yield_now();
                }
            }
        }
    }
}

impl Drop for Simulated {
    fn drop(&mut self) {
        // SAFETY: dropped once, here.
        contain(|| unsafe { ManuallyDrop::drop(&mut self.simulation) });
    }
}

impl Vp {
    /// Ends a thread that nobody runs or is about to run.
    fn cancel_idle(&self, frame: ptr::NonNull<Header>) -> bool {
        // SAFETY: a frame's memory stays while its machine lives.
        unsafe { thread::claim(frame, true) }.map(thread::cancel).is_some()
    }
}

impl Machine {
    /// Runs one schedule of `future` as this simulated machine's
    /// [`Simulation`] decides, on the calling OS thread, and ends every thread
    /// that it leaves behind. The machine can be used again.
    ///
    /// `explains`: if the schedule fails, find out also which threads could
    /// have helped (it costs microseconds for each).
    ///
    /// # Panics
    /// If the machine was not built with a simulation, if it is running one,
    /// or on a thread of a machine. With what the simulation panics with.
    #[track_caller]
    pub fn simulate<F: IntoFuture>(&self, future: F, explains: bool) -> Outcome<F::Output> {
        let site = Location::caller();
        let shared = self.shared();
        let vp = &*shared.vps[0];
        let simulated = vp.simulated.as_ref().expect("the machine was built with `Builder::simulation`");
        assert!(Vp::current().is_none(), "a simulation begins outside of every machine");
        let future = future.into_future();
        assert!(vp.sleeper.occupy(), "one simulation at a time");
        let _entered = Entered::new(Arc::clone(shared));
        if let Some(genealogy) = shared.genealogy() {
            genealogy.clear();
        }
        simulated.now.set(epoch());
        simulated.ended.set(false);
        simulated.stuck.set(None);
        simulated.begin(vp);
        let outcome = 'outcome: {
            let _driving = Driving::new(vp);
            let _random = RandomGuard::new();
            let output = Cell::new(None);
            let body = async { output.set(Some(future.await)) };
            // What runs below borrows from this frame.
            let bomb = AbortOnUnwind;
            // SAFETY: we drive `vp`. The body borrows from this frame: `end`
            // ends it before we return.
            let main = unsafe { thread::spawn_body(vp, body, Kind::Local, site) };
            let stop = loop {
                if main.is_determined() || simulated.is_over() {
                    break None;
                }
                if !simulated.step(vp) {
                    break Some(vp.explain(explains));
                }
            };
            let stop = match (stop, simulated.stuck.take()) {
                (_, Some(stuck)) => Some(Outcome::Deadlocked(stuck)),
                (Some(deadlock), _) => Some(Outcome::Deadlocked(deadlock)),
                (None, None) if !main.is_determined() => {
                    Some(Outcome::Stopped(Deadlock::new(vp.snapshot(true).threads, &[])))
                }
                (None, None) => None,
            };
            simulated.end(vp);
            std::mem::forget(bomb);
            if let Some(payload) = simulated.failure.take() {
                drop(main);
                break 'outcome Err(payload);
            }
            Ok(match (stop, main.join().try_determined()) {
                (Some(stop), result) => {
                    drop(result);
                    stop
                }
                (None, Ok(())) => {
                    Outcome::Done(output.take().expect("a thread that returned left its output"))
                }
                (None, Err(error)) => match error.into_panic() {
                    Ok(payload) => Outcome::Panicked(payload),
                    // Its token was dropped.
                    Err(_) => Outcome::Stopped(Deadlock::new(Vec::new(), &[])),
                },
            })
        };
        vp.sleeper.vacate();
        outcome.unwrap_or_else(|payload| resume_unwind(payload))
    }
}

impl Vp {
    /// Who waits on what; with `holders`, ends the threads one by one to see
    /// which ends of channels each of them holds.
    fn explain(&self, holders: bool) -> Deadlock {
        let snapshot = self.snapshot(false);
        if !holders {
            return Deadlock::new(snapshot.threads, &[]);
        }
        if let Some(simulated) = &self.simulated {
            // What destructors begin does not matter any more.
            simulated.ended.set(true);
        }
        let channels = snapshot.channels;
        // SAFETY: those who wait there have not gone on: a share each.
        channels.iter().for_each(|probe| unsafe { (probe.retain)(probe.channel) });
        // SAFETY: our shares.
        let count =
            || channels.iter().map(|probe| unsafe { (probe.handles)(probe.channel) }).collect::<Vec<_>>();
        let mut found = Vec::new();
        let mut before = count();
        for (thread, frame) in snapshot.blocked {
            self.cancel_idle(frame);
            let after = count();
            for (index, probe) in channels.iter().enumerate() {
                for (side, sends) in [(0, true), (1, false)] {
                    if after[index][side] < before[index][side] {
                        found.push(Holder { channel: probe.channel.as_ptr() as usize, sends, thread });
                    }
                }
            }
            before = after;
        }
        let deadlock = Deadlock::new(snapshot.threads, &found);
        // SAFETY: taken above.
        channels.iter().for_each(|probe| unsafe { (probe.release)(probe.channel) });
        deadlock
    }
}
