//! Chant's own forms of polling (section 4.2): each thread posts a receive to MPI (`MPI_Irecv`), and a scheduler tests
//! them. The scheduler is a policy of this program. The threads are fibers, as Chant's threads had stacks.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use chanter::fiber::yield_now;
use chanter::policy::{Policy, Ready, Reason};
use chanter::prelude::*;
use chanter_cluster::engine::{Engine, ProcessId};
use chanter_mpi::{Mpi, MpiError, Posted};

use super::exercise::{self, ITERATIONS, Round, THREADS, Who, compute};
use super::process::Line;
use super::talk::Failure;
use crate::{Stop, report};

/// Rounds of tests after which the scheduler runs a thread whose message has not come. Other work of its processor,
/// such as timers, then has its turn.
const LOOKS: usize = 10_000;

/// The scheduler, and what its threads wait for. Threads have numbers from 0 on; a thread's tag is its number and 1.
struct Chant(Mutex<State>);

struct State {
    form: Who,
    posted: Posted,
    /// New threads that still get a number. They are spawned in the order of their numbers.
    expected: u64,
    /// Whether each thread waits for its message.
    waits: [bool; THREADS as usize],
    /// Threads that may run. With a partial switch threads that wait are among them.
    ready: VecDeque<Ready>,
    /// The waiting queue.
    waiting: Vec<Ready>,
    error: Option<MpiError>,
    counts: Counts,
}

#[derive(Clone, Copy, Default)]
struct Counts {
    switches: u64,
    tests: u64,
    /// Scheduling points, and the threads that waited at each, added up.
    points: u64,
    waiting: u64,
}

impl State {
    /// Tests for the message of a thread that waits.
    fn test(&mut self, thread: usize) {
        self.counts.tests += 1;
        match self.posted.test(thread) {
            Ok(is_done) => self.waits[thread] = !is_done,
            Err(error) => self.fail(error),
        }
    }

    /// Makes one test for all messages.
    fn test_any(&mut self) {
        self.counts.tests += 1;
        let waits = &mut self.waits;
        if let Err(error) = self.posted.test_all(|thread| waits[thread] = false) {
            self.fail(error);
        }
    }

    /// MPI has failed: nobody waits any more, and all threads see the error.
    fn fail(&mut self, error: MpiError) {
        self.error.get_or_insert(error);
        self.waits.fill(false);
    }

    fn has_to_wait(&self, thread: &Ready) -> bool {
        number(thread).is_some_and(|number| self.waits[number])
    }

    /// Tests for the next thread before the switch to it. If its message is not there, it goes back (figure 6).
    fn partial_switch(&mut self) -> Option<Ready> {
        for _ in 0..LOOKS {
            let thread = self.ready.pop_front()?;
            match number(&thread) {
                Some(number) if self.waits[number] => self.test(number),
                _ => return Some(thread),
            }
            if !self.has_to_wait(&thread) {
                return Some(thread);
            }
            self.ready.push_back(thread);
        }
        self.ready.pop_front()
    }

    /// Tests for all threads of the waiting queue, and takes the first one that is ready.
    fn take_queued(&mut self) -> Option<Ready> {
        for _ in 0..LOOKS {
            if self.form == Who::QueueAny {
                self.test_any();
            } else {
                let numbers: Vec<usize> = self.waiting.iter().filter_map(number).collect();
                numbers.into_iter().for_each(|number| self.test(number));
            }
            let waits = self.waits;
            let is_ready = |thread: &mut Ready| number(thread).is_none_or(|number| !waits[number]);
            self.ready.extend(self.waiting.extract_if(.., is_ready));
            if !self.ready.is_empty() || self.waiting.is_empty() {
                break;
            }
        }
        self.ready.pop_front().or_else(|| self.waiting.pop())
    }
}

/// The number of a thread of the exercise.
fn number(thread: &Ready) -> Option<usize> {
    thread.tag().checked_sub(1).map(|number| number as usize)
}

impl Chant {
    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Receives a message from the thread with the same number in another process.
    fn receive(&self, me: usize, from: ProcessId) -> Result<u32, Failure> {
        let polls = {
            let mut state = self.state();
            state.posted.receive(me, from, me as u16)?;
            state.waits[me] = true;
            state.form == Who::ThreadPolls
        };
        loop {
            if polls {
                self.state().test(me);
            }
            if !self.state().waits[me] {
                break;
            }
            yield_now();
        }
        let state = self.state();
        match &state.error {
            Some(error) => Err(error.clone().into()),
            None => Ok(u32::from_le_bytes(state.posted.message(me).try_into()?)),
        }
    }

    /// The exercise's thread (figure 9).
    fn thread(&self, me: usize, other: ProcessId, alpha: u32, beta: u32) -> Result<(), Failure> {
        for iteration in 0..ITERATIONS {
            compute(alpha);
            self.state().posted.send(other, me as u16, &iteration.to_le_bytes())?;
            compute(beta);
            let got = self.receive(me, other)?;
            if got != iteration {
                return Err(format!("iteration {iteration} of thread {me} was {got}").into());
            }
        }
        Ok(())
    }

    /// Prepares a round.
    fn begin(&self, form: Who) {
        let mut state = self.state();
        (state.form, state.expected, state.counts) = (form, THREADS.into(), Counts::default());
    }
}

/// The policy of the only processor.
struct Scheduler(Arc<Chant>);

impl Policy for Scheduler {
    fn enqueue(&self, mut thread: Ready, reason: Reason) -> Option<Ready> {
        let mut state = self.0.state();
        if matches!(reason, Reason::New) {
            let tag = if state.expected > 0 { u64::from(THREADS) - state.expected + 1 } else { 0 };
            thread.set_tag(tag);
            state.expected = state.expected.saturating_sub(1);
        }
        let queues = matches!(state.form, Who::QueueEach | Who::QueueAny);
        if queues && state.has_to_wait(&thread) {
            state.waiting.push(thread);
        } else {
            state.ready.push_back(thread);
        }
        None
    }

    fn next(&self) -> Option<Ready> {
        let mut state = self.0.state();
        state.counts.points += 1;
        state.counts.waiting += state.waits.iter().filter(|waits| **waits).count() as u64;
        let thread = match state.form {
            Who::PartialSwitch => state.partial_switch(),
            Who::QueueEach | Who::QueueAny => state.take_queued(),
            Who::ThreadPolls | Who::Ring => state.ready.pop_front(),
        }?;
        state.counts.switches += u64::from(number(&thread).is_some());
        Some(thread)
    }

    fn drain(&self) -> Option<Ready> {
        let mut state = self.0.state();
        state.ready.pop_front().or_else(|| state.waiting.pop())
    }
}

/// Runs all rounds. Both processes do the same, and the first one prints the results.
pub(super) fn run(engine: &Arc<Mpi>, rounds: u32, is_quick: bool) -> Result<(), Stop> {
    let chant = Arc::new(Chant(Mutex::new(State {
        form: Who::ThreadPolls,
        posted: Posted::new(Arc::clone(engine), THREADS as usize, size_of::<u32>()),
        expected: 0,
        waits: [false; THREADS as usize],
        ready: VecDeque::new(),
        waiting: Vec::new(),
        error: None,
        counts: Counts::default(),
    })));
    let scheduler = Arc::clone(&chant);
    let machine = Machine::builder()
        .vps(1)
        .hand_off_after(None)
        .policy(move |_| Box::new(Scheduler(Arc::clone(&scheduler))))
        .build()?;
    for _ in 0..rounds {
        for (alpha, beta) in exercise::cells(is_quick) {
            for form in exercise::CHANTS {
                engine.raw_barriers(1)?;
                let round = machine
                    .block_on(round(&chant, engine, (form, alpha, beta)))
                    .map_err(|error| Stop(1, error.to_string()))?;
                if engine.me() == ProcessId(0) {
                    report::json_line(&mut io::stdout().lock(), &Line::Exercise(round))?;
                }
            }
        }
    }
    engine.raw_barriers(1)?;
    Ok(())
}

async fn round(
    chant: &Arc<Chant>,
    engine: &Arc<Mpi>,
    (form, alpha, beta): (Who, u32, u32),
) -> Result<Round, Failure> {
    let other = ProcessId(1 - engine.me().0);
    chant.begin(form);
    let clock = Instant::now();
    let threads: Vec<_> = (0..THREADS)
        .map(|me| {
            let chant = Arc::clone(chant);
            spawn_fiber(move || chant.thread(me as usize, other, alpha, beta))
        })
        .collect();
    for thread in threads {
        thread.join().await??;
    }
    let ms = clock.elapsed().as_secs_f64() * 1e3;
    let Counts { switches, tests, points, waiting } = chant.state().counts;
    Ok(Round {
        who: form,
        alpha,
        beta,
        ms,
        switches: switches as f64,
        tests: tests as f64,
        waiting: Some(waiting as f64 / points.max(1) as f64),
        checked: true,
    })
}
