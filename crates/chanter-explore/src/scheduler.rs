//! The policy that lets a strategy decide.

use std::sync::{Mutex, MutexGuard};

use chanter::policy::{Policy, Ready, Reason};
use chanter::simulation::{Note, Simulation};

use crate::explorer::Parasites;
use crate::strategy::{CLOCK, Decision, Kind, Strategy};
use crate::trace::{Step, Trace};

/// The policy of a simulated machine. The lock is never contended, since one OS thread runs everything.
pub(crate) struct Scheduler {
    state: Mutex<State>,
    parasites: Parasites,
    /// Whether timers may fire while threads are ready.
    early_timers: bool,
    /// Largest number of steps of a schedule.
    steps: u64,
}

#[derive(Default)]
struct State {
    strategy: Option<Box<dyn Strategy>>,
    /// Threads that are ready, in the order of their ids.
    ready: Vec<Ready>,
    /// All threads, by id.
    threads: Vec<Known>,
    /// The thread that runs, and has been told to pause.
    pausing: Option<u64>,
    /// The thread that was chosen instead, or to be next.
    chosen: Option<u64>,
    /// Whether a timer is set.
    has_timer: bool,
    /// Threads that have not run since the clock jumped early. The clock lets them go first, or a thread that ticks
    /// would starve them.
    clock_yields_to: Vec<u64>,
    /// Record of the schedule, step by step, if one is wanted.
    trace: Option<Trace>,
    /// Description of the program so far.
    shape: u64,
    run: Run,
    over: bool,
    ended: bool,
    /// Kept for its memory.
    alternatives: Vec<u64>,
}

/// The scheduler's record of a thread.
#[derive(Clone, Default)]
struct Known {
    /// Whether it was told to pause: its next operation goes ahead.
    is_paused: bool,
    /// Threads to which it has yielded, and that have not run since.
    yields_to: Vec<u64>,
    /// The step at which it ran last.
    ran: u64,
}

/// Record of one schedule.
#[derive(Clone, Debug, Default)]
pub(crate) struct Run {
    pub(crate) decisions: Vec<u32>,
    /// Description of the program at each decision.
    pub(crate) marks: Vec<u8>,
    /// The threads that ran, turn by turn.
    pub(crate) turns: Vec<u64>,
    /// Number of turns and operations.
    pub(crate) steps: u64,
    pub(crate) is_too_long: bool,
    /// Whether the schedule is equivalent to one that has been run.
    pub(crate) is_redundant: bool,
    /// Panics that nobody saw.
    pub(crate) panics: Vec<String>,
    /// The step at which each thread ran last, by id.
    pub(crate) ran: Vec<u64>,
    /// Threads that were ready at the end.
    pub(crate) ready: Vec<u64>,
}

/// Largest number of turns that are kept for the report.
const TURNS: usize = 1 << 16;

impl Scheduler {
    pub(crate) fn new(parasites: Parasites, early_timers: bool, steps: u64) -> Self {
        Self { state: Mutex::default(), parasites, early_timers, steps }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Gets ready for a schedule of `strategy`, perhaps one that is traced.
    pub(crate) fn begin(&self, strategy: Box<dyn Strategy>, is_traced: bool) {
        let state = &mut *self.state();
        state.strategy = Some(strategy);
        state.trace = is_traced.then(Trace::default);
        state.shape = 0;
        state.has_timer = false;
        state.clock_yields_to.clear();
        state.threads.clear();
        state.pausing = None;
        state.chosen = None;
        state.run.decisions.clear();
        state.run.marks.clear();
        state.run.is_redundant = false;
        state.run.turns.clear();
        state.run.steps = 0;
        state.run.is_too_long = false;
        state.run.panics.clear();
        state.run.ready.clear();
        state.over = false;
        state.ended = false;
    }

    /// Ends a schedule, and gives the strategy back.
    pub(crate) fn finish(&self) -> Box<dyn Strategy> {
        self.state().strategy.take().expect("finished once")
    }

    /// Whether the schedule has failed in a way that its outcome does not show.
    pub(crate) fn has_failed(&self) -> bool {
        let run = &self.state().run;
        run.is_too_long || !run.panics.is_empty()
    }

    pub(crate) fn steps(&self) -> u64 {
        self.state().run.steps
    }

    /// Whether the schedule was not finished, since it is equivalent to one that has been run.
    pub(crate) fn is_redundant(&self) -> bool {
        self.state().run.is_redundant
    }

    /// Trace of the schedule, if it was traced.
    pub(crate) fn trace(&self) -> Vec<Step> {
        self.state().trace.take().map(|trace| trace.steps).unwrap_or_default()
    }

    /// The record of the schedule that has ended.
    pub(crate) fn run(&self) -> Run {
        let state = &mut *self.state();
        state.run.ran = state.threads.iter().map(|known| known.ran).collect();
        state.run.clone()
    }
}

impl State {
    fn known(&mut self, thread: u64) -> &mut Known {
        let place = thread as usize;
        if place >= self.threads.len() {
            self.threads.resize(place + 1, Known::default());
        }
        &mut self.threads[place]
    }

    /// Threads that are ready, and have not yielded to others that are.
    fn collect_alternatives(&mut self, running: Option<u64>) {
        self.alternatives.clear();
        self.alternatives.extend(running);
        for thread in &self.ready {
            let id = thread.tag();
            if self.threads.get(id as usize).is_none_or(|known| known.yields_to.is_empty()) {
                self.alternatives.push(id);
            }
        }
        if self.alternatives.is_empty() {
            self.alternatives.extend(self.ready.iter().map(Ready::tag));
        }
    }

    fn decide(&mut self, kind: Kind, alternatives: usize) -> usize {
        if alternatives < 2 {
            return 0;
        }
        let Some(strategy) = &mut self.strategy else { return 0 };
        let threads = if kind == Kind::Number { &[][..] } else { &self.alternatives };
        for part in [kind as u64, alternatives as u64].iter().chain(threads) {
            self.shape = (self.shape.rotate_left(5) ^ part).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        }
        let mark = (self.shape >> 58) as u8;
        let made = strategy.decide(&Decision { kind, threads, alternatives, mark });
        self.run.decisions.push(made as u32);
        self.run.marks.push(mark);
        // The program is not the one that it should be.
        self.over |= strategy.is_confused();
        made
    }

    /// Notes the threads that are ready, as the clock is about to jump early.
    fn take_clock(&mut self) {
        self.clock_yields_to.clear();
        self.clock_yields_to.extend(self.ready.iter().map(Ready::tag));
    }

    fn count_step(&mut self, most: u64) {
        self.run.steps += 1;
        if self.run.steps > most {
            self.run.is_too_long = true;
            self.over = true;
        }
    }

    /// Begins a turn of a thread.
    fn take(&mut self, thread: u64) -> Option<Ready> {
        let place = self.ready.iter().position(|ready| ready.tag() == thread)?;
        let step = self.run.steps;
        let known = self.known(thread);
        known.ran = step;
        known.yields_to.clear();
        for other in &mut self.threads {
            if !other.yields_to.is_empty() {
                other.yields_to.retain(|id| *id != thread);
            }
        }
        self.clock_yields_to.retain(|id| *id != thread);
        if self.run.turns.len() < TURNS {
            self.run.turns.push(thread);
        }
        if let Some(trace) = &mut self.trace {
            trace.turn(step, thread);
        }
        Some(self.ready.remove(place))
    }
}

impl Policy for Scheduler {
    fn enqueue(&self, thread: Ready, reason: Reason) -> Option<Ready> {
        let state = &mut *self.state();
        let id = thread.tag();
        if matches!(reason, Reason::Spent | Reason::Yielded) && !state.ended {
            let is_preempted = state.pausing == Some(id);
            if let Some(trace) = &mut state.trace {
                trace.pause(state.run.steps, id, is_preempted);
            }
            if is_preempted {
                state.pausing = None;
            } else {
                let others = state.ready.iter().map(Ready::tag).collect();
                state.known(id).yields_to = others;
            }
        }
        let place = state.ready.partition_point(|ready| ready.tag() < id);
        state.ready.insert(place, thread);
        None
    }

    fn next(&self) -> Option<Ready> {
        let state = &mut *self.state();
        if state.ended {
            return state.ready.pop();
        }
        if state.ready.is_empty() {
            return None;
        }
        state.count_step(self.steps);
        if let Some(chosen) = state.chosen.take()
            && let Some(thread) = state.take(chosen)
        {
            return Some(thread);
        }
        state.collect_alternatives(None);
        let made = state.decide(Kind::Switch, state.alternatives.len());
        let thread = state.alternatives[made];
        state.take(thread)
    }
}

impl Simulation for Scheduler {
    fn point(&self, thread: u64, nested: bool) -> bool {
        let state = &mut *self.state();
        state.count_step(self.steps);
        if state.over {
            return true;
        }
        if nested || std::mem::take(&mut state.known(thread).is_paused) {
            return false;
        }
        let may_jump = self.early_timers && state.has_timer && state.clock_yields_to.is_empty();
        if state.ready.is_empty() && !may_jump {
            return false;
        }
        state.collect_alternatives(Some(thread));
        state.alternatives.extend(may_jump.then_some(CLOCK));
        let made = state.decide(Kind::Preempt, state.alternatives.len());
        if made == 0 {
            return false;
        }
        state.chosen = Some(state.alternatives[made]);
        state.known(thread).is_paused = true;
        state.pausing = Some(thread);
        true
    }

    fn choose(&self, alternatives: usize) -> usize {
        self.state().decide(Kind::Number, alternatives)
    }

    fn came_to(&self, alternative: Option<usize>) {
        let state = &mut *self.state();
        if let Some(strategy) = &mut state.strategy
            && strategy.came_to(alternative)
        {
            state.run.is_redundant = true;
            state.over = true;
        }
    }

    fn has_timer(&self, is_set: bool) {
        self.state().has_timer = is_set;
    }

    fn jumps(&self) -> bool {
        let state = &mut *self.state();
        if !self.early_timers || state.over || state.ready.is_empty() {
            return false;
        }
        // (A timer is set: otherwise this would not be called.)
        if state.chosen.is_none() && state.clock_yields_to.is_empty() {
            state.collect_alternatives(None);
            state.alternatives.push(CLOCK);
            let made = state.decide(Kind::Switch, state.alternatives.len());
            state.chosen = Some(state.alternatives[made]);
        }
        let jumps = state.chosen == Some(CLOCK);
        if jumps {
            state.chosen = None;
            state.count_step(self.steps);
            state.take_clock();
        }
        jumps
    }

    fn takes_notes(&self) -> bool {
        self.state().trace.is_some()
    }

    fn note(&self, note: Note) {
        let state = &mut *self.state();
        if let Some(trace) = &mut state.trace
            && !state.ended
        {
            trace.note(state.run.steps, note);
        }
    }

    fn is_in_place(&self) -> bool {
        self.parasites == Parasites::InPlace
    }

    fn panicked(&self, whose: &str, message: &str) {
        let state = &mut *self.state();
        if !state.ended {
            state.run.panics.push(format!("{whose} panicked: {message}"));
            state.over = true;
        }
    }

    fn is_over(&self) -> bool {
        self.state().over
    }

    fn end(&self) {
        let state = &mut *self.state();
        state.run.ready = state.ready.iter().map(Ready::tag).collect();
        state.ended = true;
        state.over = true;
    }
}
