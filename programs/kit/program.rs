//! Programs, and their places in the list.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use chanter::{Event, Machine, Stats};

use super::run::ensure;
use super::{Failure, Form, Load, Run, Size};

/// A program of the papers.
pub trait Program: 'static {
    /// Its name: its folder's, with hyphens.
    const NAME: &'static str;
    /// Description of the computation, in a line.
    const ABOUT: &'static str;
    /// The forms that it has, [`Form::Serial`] among them.
    const FORMS: &'static [Form];

    /// Its input.
    type Input: Send + Sync + 'static;
    /// Its answer.
    type Answer: PartialEq + fmt::Debug + Send + Sync + 'static;

    /// The input, the same each time.
    fn input(size: Size) -> Self::Input;

    /// The answer, without threads and without their overheads, by the best algorithm.
    fn serial(input: &Self::Input) -> Self::Answer;

    /// The answer, without threads, by the algorithm that the threads divide among them. To be written where that is
    /// not the best one; [`FORMS`](Self::FORMS) then has [`Form::SerialSame`].
    fn serial_same(input: &Self::Input) -> Self::Answer {
        Self::serial(input)
    }

    /// The answer, on the threads of the present pool of rayon's. To be written where [`FORMS`](Self::FORMS) has
    /// [`Form::Rayon`].
    fn rayon(input: &Self::Input) -> Self::Answer {
        Self::serial(input)
    }

    /// The answer, by OS threads that are written by hand. `threads`: their number, with the caller. Written where
    /// [`FORMS`](Self::FORMS) has [`Form::ByHand`].
    fn by_hand(input: &Self::Input, threads: usize) -> Self::Answer {
        let _ = threads;
        Self::serial(input)
    }

    /// The answer, by threads. `form` is one of [`FORMS`](Self::FORMS), and has threads.
    fn threads(
        input: Arc<Self::Input>,
        form: Form,
    ) -> impl Future<Output = Done<Self::Answer>> + Send + 'static;

    /// Checks a serial answer against facts that are known from elsewhere.
    ///
    /// # Errors
    /// [`Failure::Wrong`].
    fn check(size: Size, input: &Self::Input, answer: &Self::Answer) -> Result<(), Failure>;
}

/// An answer, and the counts of its computation.
#[derive(Clone, Copy, Debug)]
pub struct Done<A> {
    /// The answer.
    pub answer: A,
    /// See [`Run::communications`].
    pub communications: u64,
    /// See [`Run::at_once`].
    pub at_once: u64,
}

impl<A> Done<A> {
    /// Nothing was counted.
    pub const fn new(answer: A) -> Self {
        Self { answer, communications: 0, at_once: 0 }
    }

    /// Number of messages from one thread to another.
    #[must_use]
    pub fn communications(mut self, communications: u64) -> Self {
        self.communications = communications;
        self
    }

    /// Most threads that were evaluating at the same time.
    #[must_use]
    pub fn at_once(mut self, at_once: u64) -> Self {
        self.at_once = at_once;
        self
    }
}

/// A program in the list.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// Its name on the command line.
    pub name: &'static str,
    /// Description of the computation, in a line.
    pub about: &'static str,
    /// The forms that it has.
    pub forms: &'static [Form],
    prepare: fn(Size) -> Result<Box<dyn Prepared>, Failure>,
}

impl Entry {
    /// The entry of `P`.
    pub fn of<P: Program>() -> Self {
        Self { name: P::NAME, about: P::ABOUT, forms: P::FORMS, prepare: prepare::<P> }
    }

    /// Makes the input, computes the answer serially, and checks it.
    ///
    ///  # Errors
    /// [`Failure::Wrong`]: the serial version gives another answer than the known one.
    pub fn prepare(&self, size: Size) -> Result<Box<dyn Prepared>, Failure> {
        (self.prepare)(size)
    }
}

/// A program with its input, and the expected answer.
pub trait Prepared: Send + Sync {
    /// Runs it, on a machine of its own, and compares the answer.
    ///
    /// # Errors
    /// See [`Failure`].
    fn run(&self, load: &Load) -> Result<Run, Failure>;
}

struct WithInput<P: Program> {
    input: Arc<P::Input>,
    answer: P::Answer,
}

fn prepare<P: Program>(size: Size) -> Result<Box<dyn Prepared>, Failure> {
    let input = P::input(size);
    let answer = P::serial(&input);
    P::check(size, &input, &answer)?;
    Ok(Box::new(WithInput::<P> { input: Arc::new(input), answer }))
}

impl<P: Program> Prepared for WithInput<P> {
    fn run(&self, load: &Load) -> Result<Run, Failure> {
        if !P::FORMS.contains(&load.form) {
            return Err(Failure::NoForm(load.form));
        }
        let (done, elapsed, stats) = if load.form.is_serial() {
            serially::<P>(&self.input, load.form)
        } else if load.form == Form::Rayon {
            by_rayon::<P>(&self.input, load.vps)?
        } else if load.form == Form::ByHand {
            let clock = Instant::now();
            let answer = P::by_hand(&self.input, load.vps);
            (Done::new(answer), clock.elapsed(), Stats::default())
        } else {
            self.by_threads(load)?
        };
        ensure("the answer", &done.answer, &self.answer)?;
        Ok(Run { elapsed, stats, communications: done.communications, at_once: done.at_once })
    }
}

type Outcome<A> = (Done<A>, Duration, Stats);

fn serially<P: Program>(input: &P::Input, form: Form) -> Outcome<P::Answer> {
    let clock = Instant::now();
    let answer = if form == Form::Serial { P::serial(input) } else { P::serial_same(input) };
    (Done::new(answer), clock.elapsed(), Stats::default())
}

fn by_rayon<P: Program>(input: &P::Input, threads: usize) -> Result<Outcome<P::Answer>, Failure> {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
    let pool = pool.map_err(|error| Failure::Machine(std::io::Error::other(error)))?;
    let (answer, elapsed) = pool.install(|| {
        let clock = Instant::now();
        let answer = P::rayon(input);
        (answer, clock.elapsed())
    });
    Ok((Done::new(answer), elapsed, Stats::default()))
}

impl<P: Program> WithInput<P> {
    fn by_threads(&self, load: &Load) -> Result<Outcome<P::Answer>, Failure> {
        let mut machine = Machine::builder().vps(load.vps).name(P::NAME).genealogy(load.counted);
        if let Some(policies) = load.policies {
            machine = machine.policy(policies());
        }
        let machine = machine.build().map_err(Failure::Machine)?;
        if load.bound {
            for vp in 0..load.vps {
                machine.vp(vp).bind(vp).map_err(Failure::Machine)?;
            }
        }
        let (input, form) = (Arc::clone(&self.input), load.form);
        // Spawned from outside, so that it is a thread like others: scheduled, and not stolen.
        let main = machine.spawn(async move {
            let clock = Instant::now();
            let done = P::threads(input, form).await;
            (done, clock.elapsed())
        });
        let (done, elapsed) = main.join().sync_blocking().map_err(Failure::Ended)?;
        Ok((done, elapsed, machine.stats()))
    }
}
