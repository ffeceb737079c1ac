//! Simulation: a machine that one OS thread drives. Its policy decides everything that is left to chance, and its
//! clock jumps.
//!
//! A [`Simulation`] is a policy with a few more questions. It is asked before each synchronization of a thread
//! whether the thread goes on, and for each random number. So the budget is always 0 on a simulated machine. Every
//! operation takes the cold path of `budget.rs`, which leads here, and the hot paths of other machines stay as they
//! are.
//!
//! Time stands still while threads are ready, unless the simulation says otherwise. When none is, the clock jumps to
//! the next timer. When there is no timer either, nothing can ever run again. The future that is simulated, and
//! everything that it started, is a closed world, without I/O and without help from other OS threads.

mod explain;
mod note;

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::fmt;
use std::mem::ManuallyDrop;
use std::panic::{Location, resume_unwind};
use std::ptr;
use std::sync::{Arc, OnceLock};
use std::task::Context;
use std::time::Instant;

pub use note::Note;

use super::deadlock::numbers::Numbers;
use super::deadlock::{Deadlock, ThreadReport};
use crate::event::{WakeList, is_of_user};
use crate::frame::report::{Holder, Place, Waits};
use crate::frame::{Header, Kind, Site, catch_panic};
use crate::machine::Machine;
use crate::policy::{Policy, Ready, Reason};
use crate::sched::policy_guard::{Payload, call};
use crate::sched::pool::Entered;
use crate::sched::replace::WakeSource;
use crate::sched::run_loop::{AbortOnUnwind, Driving};
use crate::sched::simulate::Simulate;
use crate::sched::{self, Worker};
use crate::sync::random::{self, RandomGuard};
use crate::thread;

/// A policy that explores: it decides everything that could happen in more than one way. One object serves one
/// machine, built with [`Builder::simulation`](crate::Builder::simulation), in one simulation at a time. Threads are
/// named by numbers that count up from 0, the main thread; [`Ready::tag`] tells them.
///
/// No lock of the runtime is held during any call. If a call panics, the schedule ends: [`Machine::simulate`] goes on
/// with the panic, when every thread has ended.
pub trait Simulation: Policy {
    /// Decides at a point where thread `thread` is about to begin an operation that may block. True: the thread lets
    /// others go first. It comes back through [`enqueue`](Policy::enqueue), and is asked again when it runs.
    ///
    /// `nested`: the thread is a parasite that another thread has spawned or attached, and runs on that thread's
    /// stack. It goes on whatever the answer is, unless the schedule [is over](Simulation::is_over).
    fn point(&self, thread: u64, nested: bool) -> bool;

    /// Chooses a number below `alternatives`: the alternative where a fair choice begins to look.
    fn choose(&self, alternatives: usize) -> usize;

    /// Tells that the alternative which [`choose`](Simulation::choose) has chosen last was not ready. The next ready
    /// one was taken instead, with a wrap to the first; `None`: none was ready.
    fn came_to(&self, _alternative: Option<usize>) {}

    /// Tells whether a timer is set. It is called before a [`point`](Simulation::point), if this has changed since
    /// the last one. A schedule begins without any timer.
    fn has_timer(&self, _is_set: bool) {}

    /// Whether the clock jumps to the next timer although threads may be ready. It is asked before each turn while a
    /// timer is set. (The clock jumps in any case when no thread is ready.)
    fn jumps(&self) -> bool {
        false
    }

    /// Whether [`note`](Simulation::note) is to be called.
    fn takes_notes(&self) -> bool {
        false
    }

    /// Tells the simulation of a step that has happened.
    fn note(&self, _note: Note) {}

    /// Whether a parasite starts in its spawner's place; otherwise it starts as a host.
    fn is_in_place(&self) -> bool {
        true
    }

    /// Tells that a thread panicked and nobody joined it, or that a destructor panicked.
    fn panicked(&self, whose: &str, message: &str);

    /// Whether the schedule ends here, before its main thread does.
    fn is_over(&self) -> bool;

    /// Tells that the schedule has ended: threads that are left come through `next` now, in any order, and are
    /// dropped.
    fn end(&self);
}

/// The end of a simulated schedule.
#[derive(Debug)]
#[non_exhaustive]
pub enum Outcome<T> {
    /// The main thread returned.
    Done(T),
    /// The main thread panicked.
    Panicked(Box<dyn Any + Send>),
    /// Nothing could run any more.
    Deadlocked(Deadlock),
    /// The simulation ended it. The report says what the threads that block wait on. Threads that had ended are among
    /// them, as if they were ready.
    Stopped(Deadlock),
}

/// State of a simulated virtual processor.
pub(crate) struct Simulated {
    /// The simulation, which is a user's: its drop may panic.
    simulation: ManuallyDrop<Arc<dyn Simulation>>,
    /// The payload of its panic, if it has panicked.
    failure: Cell<Option<Payload>>,
    /// Whether it has panicked in this schedule.
    has_failed: Cell<bool>,
    now: Cell<Instant>,
    /// The thread with which the current turn began. Others that run are nested in it.
    turn: Cell<*const Header>,
    /// The number of that thread.
    turn_of: Cell<Option<u64>>,
    /// Whether that thread has been told to pause in this turn.
    paused: Cell<bool>,
    /// Whether the schedule has ended: a thread that would begin an operation pauses.
    ended: Cell<bool>,
    /// A deadlock that was found in the middle of a turn, in a thread that blocks its processor.
    stuck: Cell<Option<Deadlock>>,
    /// Whether the simulation takes notes of this schedule.
    takes_notes: Cell<bool>,
    /// The numbers of the channels and locks that notes, and the report, name.
    numbers: RefCell<Numbers>,
    /// Whether a timer is set, as the simulation was told.
    has_timer: Cell<bool>,
    /// Number of choices that have been made.
    choices: Cell<u64>,
    /// Whether alarms that help nobody have gone off since an operation has begun: see
    /// [`last_look`](Self::last_look).
    has_rung: Cell<bool>,
}

impl fmt::Debug for Simulated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Simulated").field("now", &self.now).finish_non_exhaustive()
    }
}

/// The policy of a simulated virtual processor.
pub(crate) struct SimulatedPolicy(pub(crate) Arc<dyn Simulation>);

impl Policy for SimulatedPolicy {
    fn enqueue(&self, thread: Ready, reason: Reason) -> Option<Ready> {
        if matches!(reason, Reason::Woken { .. } | Reason::Timer | Reason::Remote)
            && let Some((vp, simulated)) = Worker::current().and_then(|vp| Some((vp, vp.simulation()?)))
        {
            // A thread that ends wakes others when it does not run any more.
            let by = vp.running_tag().or(simulated.turn_of.get());
            simulated.note(|| Note::Woken { thread: thread.tag(), by });
        }
        self.0.enqueue(thread, reason)
    }

    fn next(&self) -> Option<Ready> {
        self.0.next()
    }
}

/// A panic payload, thrown through a thread that blocks its processor when the schedule ends.
struct Ended;

/// A number below `alternatives` that the simulation chooses; `None`: the calling OS thread drives no simulated
/// machine.
///
/// # Panics
/// Panics if there are no alternatives.
pub fn choose(alternatives: usize) -> Option<usize> {
    assert!(alternatives > 0, "a choice has alternatives");
    Worker::current()?.processor().simulated.as_ref().map(|simulated| simulated.choose(alternatives))
}

/// A number that the simulation chooses, instead of a random one.
fn chosen(bound: usize) -> Option<usize> {
    let simulated = Worker::current()?.processor().simulated.as_ref()?;
    Some(if bound > 1 { simulated.choose(bound) } else { 0 })
}

/// The time at which every simulation begins: always the same instant, so that schedules can be repeated.
fn epoch() -> Instant {
    static EPOCH: OnceLock<Instant> = OnceLock::new();
    *EPOCH.get_or_init(Instant::now)
}

impl Simulated {
    pub(crate) fn new(simulation: Arc<dyn Simulation>) -> Self {
        random::ask_first(chosen);
        Self {
            simulation: ManuallyDrop::new(simulation),
            failure: Cell::new(None),
            has_failed: Cell::new(false),
            now: Cell::new(epoch()),
            turn: Cell::new(ptr::null()),
            turn_of: Cell::new(None),
            paused: Cell::new(false),
            ended: Cell::new(false),
            stuck: Cell::new(None),
            takes_notes: Cell::new(false),
            numbers: RefCell::default(),
            has_timer: Cell::new(false),
            choices: Cell::new(0),
            has_rung: Cell::new(false),
        }
    }

    /// Asks the simulation. `nothing` is the answer when the schedule has ended, or the simulation panics.
    fn ask<R>(&self, nothing: R, question: impl FnOnce(&dyn Simulation) -> R) -> R {
        if self.ended.get() {
            return nothing;
        }
        call(|| question(&**self.simulation)).unwrap_or_else(|payload| {
            self.fail(payload);
            nothing
        })
    }

    /// Whether the schedule ends here.
    fn is_over(&self) -> bool {
        self.ask(true, |simulation| simulation.is_over()) || self.ended.get()
    }

    /// Runs one turn of a ready thread, or one jump of the clock. False: nothing will ever run again.
    fn step(&self, vp: &Worker) -> bool {
        vp.drain_inbox();
        let is_early = vp.processor().timers.may_help() && self.ask(false, |simulation| simulation.jumps());
        if is_early {
            return self.jump(vp, true);
        }
        let Some(thread) = vp.policy().next() else { return self.jump(vp, false) };
        let Some(thread) = vp.admit(thread) else { return true };
        let (frame, tag) = (ptr::from_ref(thread.header()), thread.tag());
        let turn = self.turn.replace(thread.header());
        let turn_of = self.turn_of.replace(Some(tag));
        let paused = self.paused.replace(false);
        let budget = vp.budget.replace(0);
        vp.counters().polls.add_one();
        // SAFETY: this OS thread drives `vp`.
        unsafe { sched::run::run(vp, thread) };
        vp.budget.set(budget);
        self.paused.set(paused);
        self.turn.set(turn);
        self.turn_of.set(turn_of);
        self.note_turn(frame, tag);
        true
    }

    fn jump(&self, vp: &Worker, is_early: bool) -> bool {
        if !vp.processor().timers.may_help() {
            return self.last_look(vp);
        }
        self.has_rung.set(false);
        let Some(due) = vp.processor().timers.next_due() else { return false };
        self.jump_to(vp, due, is_early);
        true
    }

    /// Fires alarms that help nobody once, when nothing else is left, since a thread may have turned away from what
    /// it waited for. If that changes nothing, nothing will.
    fn last_look(&self, vp: &Worker) -> bool {
        let last = vp.processor().timers.last_due().filter(|_| !self.has_rung.replace(true));
        if let Some(due) = last {
            self.jump_to(vp, due, false);
        }
        last.is_some()
    }

    fn jump_to(&self, vp: &Worker, due: Instant, is_early: bool) {
        let by = due.saturating_duration_since(self.now.get());
        self.note(|| Note::Jumped { by, is_early });
        self.now.set(due.max(self.now.get()));
        let mut wakes = WakeList::new();
        vp.processor().timers.fire(self.now.get(), &mut wakes);
        let outer = vp.turn.cause.replace(WakeSource::Timer);
        catch_panic(|| wakes.queue());
        vp.turn.cause.set(outer);
    }

    /// The report of a deadlock. Channels and locks that have a number in notes keep it.
    fn report(&self, threads: Vec<ThreadReport>, holders: &[Holder]) -> Deadlock {
        Deadlock::numbered(threads, holders, &mut self.numbers.borrow_mut())
    }

    /// Begins a schedule. The one before may have ended with a panic of the simulation.
    fn begin(&self, vp: &Worker) {
        self.takes_notes.set(self.simulation.takes_notes());
        self.numbers.replace(Numbers::default());
        self.choices.set(0);
        self.has_timer.set(false);
        self.has_rung.set(false);
        if self.has_failed.replace(false) {
            vp.put_in_force_again(Box::new(SimulatedPolicy(Arc::clone(&self.simulation))));
        }
    }

    /// Ends every thread that is left.
    fn end(&self, vp: &Worker) {
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
                // Other code has the tokens of the threads that are left.
                // SAFETY: no other driver is left, and nothing is being polled.
                if !unsafe { vp.machine().revoke_threads(true) } {
                    break;
                }
                if !vp.end_one_revoked() {
                    // Another OS thread is ending the thread.
                    std::thread::yield_now();
                }
            }
        }
    }
}

impl Simulate for Simulated {
    fn now(&self) -> Instant {
        self.now.get()
    }

    fn choose(&self, alternatives: usize) -> usize {
        self.choices.set(self.choices.get() + 1);
        self.ask(0, |simulation| simulation.choose(alternatives)).min(alternatives - 1)
    }

    fn choices(&self) -> u64 {
        self.choices.get()
    }

    fn came_to(&self, alternative: Option<usize>) {
        self.ask((), |simulation| simulation.came_to(alternative));
    }

    fn is_in_place(&self) -> bool {
        self.ask(false, |simulation| simulation.is_in_place())
    }

    fn pause(&self, vp: &Worker, cx: &Context<'_>) -> bool {
        let own = sched::is_own(cx.waker());
        let point = |nested| {
            let thread = vp.running_tag().unwrap_or(0);
            self.ask(true, |simulation| {
                self.has_rung.set(false);
                let has_timer = vp.processor().timers.may_help();
                if self.has_timer.replace(has_timer) != has_timer {
                    simulation.has_timer(has_timer);
                }
                simulation.point(thread, nested)
            })
        };
        let pauses = if self.is_over() {
            // Also for another executor, which may poll again at once: it is
            // thrown out of when it blocks, or ends at the next pause.
            own || !self.paused.replace(true)
        } else if !ptr::eq(vp.running.get(), self.turn.get()) {
            point(true) && self.is_over()
        } else if self.paused.get() {
            // Other operations of a thread that has been told to pause.
            own
        } else {
            let pauses = point(false);
            self.paused.set(pauses);
            pauses
        };
        if pauses {
            cx.waker().wake_by_ref();
        }
        pauses
    }

    fn take_pause(&self) -> bool {
        self.paused.replace(false)
    }

    fn step_nested(&self, vp: &Worker) {
        if self.is_over() {
            resume_unwind(Box::new(Ended));
        }
        if !self.step(vp) {
            let snapshot = vp.snapshot(false);
            self.stuck.set(Some(self.report(snapshot.threads, &snapshot.holders)));
            resume_unwind(Box::new(Ended));
        }
    }

    fn fail(&self, payload: Payload) {
        self.ended.set(true);
        if self.has_failed.replace(true) {
            catch_panic(|| drop(payload));
        } else {
            self.failure.set(Some(payload));
        }
    }

    fn panicked(&self, whose: &str, payload: &(dyn Any + Send), message: &str) {
        if !payload.is::<Ended>() {
            self.ask((), |simulation| simulation.panicked(whose, message));
        }
    }

    fn takes_notes(&self) -> bool {
        self.takes_notes.get() && !self.ended.get()
    }

    fn note_birth(&self, vp: &Worker, thread: u64, site: Site, name: Option<Arc<str>>) {
        self.note(|| Note::Spawned { thread, by: vp.running_tag(), name, site });
    }

    fn note_synchronization(
        &self,
        vp: &Worker,
        mut waits: Waits,
        winner: Option<usize>,
        place: Option<Place>,
    ) {
        let Some(thread) = vp.running_tag() else { return };
        self.note(|| {
            vp.name_joined(&mut waits);
            let mut on = waits.list;
            self.numbers.borrow_mut().number(&mut on);
            let chosen = winner.filter(|winner| *winner < on.len());
            Note::Synchronized {
                thread,
                on,
                is_done: winner.is_some(),
                chosen,
                place: place.filter(is_of_user),
            }
        });
    }

    fn note_look(&self, vp: &Worker, waits: Waits) {
        let Some(thread) = vp.running_tag() else { return };
        let mut on = waits.list;
        if !on.is_empty() {
            self.numbers.borrow_mut().number(&mut on);
            self.note(|| Note::Looked { thread, on });
        }
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl Drop for Simulated {
    fn drop(&mut self) {
        // SAFETY: the simulation is dropped once, here, and not used afterwards.
        catch_panic(|| unsafe { ManuallyDrop::drop(&mut self.simulation) });
    }
}

impl Worker {
    /// The simulation that it belongs to.
    pub(super) fn simulation(&self) -> Option<&Simulated> {
        self.processor().simulated.as_ref()?.as_any().downcast_ref()
    }

    /// Cancels a thread that nobody runs or is about to run.
    fn cancel_idle(&self, frame: ptr::NonNull<Header>) -> bool {
        // SAFETY: the memory of frames stays while the machine lives.
        unsafe { sched::claim(frame, true) }.map(sched::cancel).is_some()
    }
}

impl Machine {
    /// Runs one schedule of `future` as this simulated machine's [`Simulation`] decides, on the calling OS thread,
    /// and ends every thread that it leaves behind. The machine can be used again.
    ///
    /// `explains`: if the schedule fails, finds out also which threads could have helped (it costs microseconds for
    /// each).
    ///
    /// # Panics
    /// Panics if the machine was not built with a simulation, if it is running one, or on a thread of a machine. If
    /// the simulation panics, this panics with the same payload.
    #[track_caller]
    pub fn simulate<F: IntoFuture>(&self, future: F, explains: bool) -> Outcome<F::Output> {
        let site = Location::caller();
        let pool = self.pool();
        let vp = &*pool.workers[0];
        let simulated = vp.simulation().expect("the machine was built with `Builder::simulation`");
        assert!(Worker::current().is_none(), "a simulation begins outside of every machine");
        let future = future.into_future();
        assert!(vp.processor().sleeper.occupy(), "one simulation at a time");
        let _entered = Entered::new(Arc::clone(pool));
        if let Some(genealogy) = pool.genealogy() {
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
            // Threads that run below borrow from this frame, so it must not unwind.
            let bomb = AbortOnUnwind;
            // SAFETY: we drive `vp`. The body borrows from this frame: `end` ends it before we return.
            let main = unsafe { thread::spawn_body(vp, body, Kind::Local, site) };
            let stop = loop {
                if main.is_determined() || simulated.is_over() {
                    break None;
                }
                if !simulated.step(vp) {
                    break Some(vp.explain(simulated, explains));
                }
            };
            let stop = match (stop, simulated.stuck.take()) {
                (_, Some(stuck)) => Some(Outcome::Deadlocked(stuck)),
                (Some(deadlock), _) => Some(Outcome::Deadlocked(deadlock)),
                (None, None) if !main.is_determined() => {
                    Some(Outcome::Stopped(simulated.report(vp.snapshot(true).threads, &[])))
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
                    // The main thread's token was dropped.
                    Err(_) => Outcome::Stopped(Deadlock::new(Vec::new(), &[])),
                },
            })
        };
        vp.processor().sleeper.vacate();
        outcome.unwrap_or_else(|payload| resume_unwind(payload))
    }
}
