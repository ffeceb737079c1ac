//! One computation of a program, on a thread of the runtime: an interpreter of terms.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Instant;

use chanter::parasite::inflate;
use chanter::prelude::*;

use super::books::{Books, Serial, Side};
use crate::outcome::{Datum, End, Observation, StrandOutcome, Wait};
use crate::random::Random;
use crate::term::{self, Constant, Exp, Term, Var};
use crate::value::{ChannelName, Environment, Name};

/// Number of operations that a thread may do before the runtime makes it yield. A synchronization that
/// yields for this reason is pending without being blocked, which the books do not know.
const LONGEST: usize = 250;

/// Nanoseconds: some operations long.
const TICK: u32 = 4096;

type Env = Environment<Value>;

/// A value of the runtime.
#[derive(Clone)]
pub(super) enum Value {
    Constant(Constant),
    Channel(Arc<Channel>),
    Closure(Option<Var>, Exp, Env),
}

impl Value {
    const UNIT: Self = Self::Constant(Constant::Unit);

    fn datum(&self) -> Datum {
        match self {
            Self::Constant(constant) => Datum::Constant(*constant),
            Self::Channel(channel) => Datum::Channel(channel.name.clone()),
            Self::Closure(..) => Datum::Function,
        }
    }

    fn channel(&self) -> Result<&Arc<Channel>, Stop> {
        if let Self::Channel(channel) = self { Ok(channel) } else { Err(Stop::Stuck) }
    }
}

/// A channel of the runtime.
pub(super) struct Channel {
    name: ChannelName,
    sender: Sender<Letter>,
    receiver: Receiver<Letter>,
}

impl Channel {
    pub(super) fn close(&self) {
        self.sender.close();
        self.receiver.close();
    }
}

/// A message: a value, and a number by which both sides know it.
#[derive(Debug)]
struct Letter {
    value: Value,
    serial: Serial,
    _counted: Counted,
}

impl std::fmt::Debug for Value {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Debug::fmt(&self.datum(), f)
    }
}

/// Counts the living.
#[derive(Debug)]
pub(super) struct Counted(Arc<AtomicI64>);

impl Counted {
    fn new(count: &Arc<AtomicI64>) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(count.clone())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Disturbances of strands.
#[derive(Clone, Copy, Debug)]
pub(super) struct Disturbance {
    /// Yields once in this number of operations.
    pub(super) yields: usize,
    /// Inflates once in this number of operations.
    pub(super) inflates: usize,
    /// Operations begin at the ticks of a clock, so that those on different processors meet.
    pub(super) ticks: bool,
    /// The runtime draws where a choice begins; else we do, and it is biased.
    pub(super) fair: bool,
}

/// State that the strands of one run share.
pub(super) struct Run {
    pub(super) books: Books,
    pub(super) channels: Mutex<Vec<Arc<Channel>>>,
    pub(super) records: Mutex<Vec<(Name, Arc<Mutex<StrandOutcome>>)>>,
    pub(super) disturbance: Disturbance,
    pub(super) seed: u64,
    pub(super) begin: Instant,
    /// Strands and messages that have not been dropped, of all runs on this machine.
    pub(super) living: Arc<AtomicI64>,
    pub(super) serials: AtomicU64,
}

/// Why an evaluation stops before its end.
enum Stop {
    /// The program is wrong.
    Stuck,
    /// The run is over, and its channels closed.
    Closed,
}

/// One computation, booked as running unless `blocked`.
pub(super) struct Strand {
    run: Arc<Run>,
    name: Name,
    record: Arc<Mutex<StrandOutcome>>,
    spawned: u16,
    channels: u16,
    random: Random,
    blocked: bool,
    ended: bool,
    _counted: Counted,
}

/// Result of a committed leaf.
struct Reply {
    leaf: usize,
    /// The message, and our side of it.
    message: Option<(Serial, Side)>,
    /// `None`: the channel is closed.
    result: Option<Value>,
}

impl Strand {
    pub(super) fn new(run: &Arc<Run>, name: Name) -> Self {
        run.books.begin();
        let record = StrandOutcome { log: Vec::new(), end: End::Blocked(Vec::new()) };
        let record = Arc::new(Mutex::new(record));
        lock(&run.records).push((name.clone(), record.clone()));
        let random = Random::new(
            name.path()
                .iter()
                .fold(run.seed, |seed, index| Random::new(seed ^ (u64::from(*index) + 1)).next()),
        );
        let _counted = Counted::new(&run.living);
        let run = run.clone();
        Self { run, name, record, spawned: 0, channels: 0, random, blocked: false, ended: false, _counted }
    }

    /// Evaluates `e` to its end.
    pub(super) async fn run(mut self, e: Exp, env: Env) {
        match self.eval(e, env).await {
            Ok(value) => lock(&self.record).end = End::Ended(value.datum()),
            Err(Stop::Stuck) => lock(&self.record).end = End::Stuck,
            Err(Stop::Closed) => {}
        }
        self.ended = true;
        self.run.books.end();
    }

    fn eval(
        &mut self,
        mut e: Exp,
        mut env: Env,
    ) -> Pin<Box<dyn Future<Output = Result<Value, Stop>> + Send + '_>> {
        Box::pin(async move {
            loop {
                let value = match &*e {
                    Term::Constant(constant) => Value::Constant(*constant),
                    Term::Variable(x) => env.get(x).ok_or(Stop::Stuck)?,
                    Term::Lambda(x, body) => Value::Closure(x.clone(), body.clone(), env.clone()),
                    Term::Apply(function, argument) => {
                        let function = self.eval(function.clone(), env.clone()).await?;
                        let argument = self.eval(argument.clone(), env.clone()).await?;
                        let Value::Closure(x, body, closed) = function else { return Err(Stop::Stuck) };
                        (e, env) = (body, closed.with(x.as_ref(), argument));
                        continue;
                    }
                    Term::Spawn(body) => {
                        self.be_disturbed().await;
                        let strand = self.child();
                        // The thread goes on without its handle.
                        drop(spawn(strand.run(body.clone(), env.clone())));
                        Value::UNIT
                    }
                    Term::SpawnParasite(body) => {
                        self.be_disturbed().await;
                        let strand = self.child();
                        spawn_parasite(strand.run(body.clone(), env.clone()));
                        Value::UNIT
                    }
                    Term::Channel => {
                        self.be_disturbed().await;
                        self.channel()
                    }
                    Term::Send(channel, value) => {
                        let channel = self.eval(channel.clone(), env.clone()).await?;
                        channel.channel()?;
                        let value = self.eval(value.clone(), env.clone()).await?;
                        self.be_disturbed().await;
                        self.send(channel.channel()?, value).await?
                    }
                    Term::Receive(channel) => {
                        let channel = self.eval(channel.clone(), env.clone()).await?;
                        let channel = channel.channel()?;
                        self.be_disturbed().await;
                        self.receive(channel).await?
                    }
                    Term::Inflate(inner) => {
                        inflate().await;
                        e = inner.clone();
                        continue;
                    }
                    Term::Log(inner) => {
                        let value = self.eval(inner.clone(), env.clone()).await?;
                        self.be_disturbed().await;
                        self.observe(Observation::Logged(value.datum()));
                        value
                    }
                    Term::Sync(event) => {
                        let mut parts = Vec::new();
                        for part in event.parts() {
                            parts.push(self.eval(part.clone(), env.clone()).await?);
                        }
                        self.be_disturbed().await;
                        self.synchronize(event, parts).await?
                    }
                };
                return Ok(value);
            }
        })
    }

    fn child(&mut self) -> Self {
        let name = self.name.child(self.spawned);
        self.spawned += 1;
        Self::new(&self.run, name)
    }

    fn channel(&mut self) -> Value {
        let name = ChannelName { maker: self.name.clone(), index: self.channels };
        self.channels += 1;
        let (sender, receiver) = channel();
        let channel = Arc::new(Channel { name, sender, receiver });
        lock(&self.run.channels).push(channel.clone());
        Value::Channel(channel)
    }

    fn letter(&self, value: Value) -> Letter {
        let serial = self.run.serials.fetch_add(1, Ordering::Relaxed);
        Letter { value, serial, _counted: Counted::new(&self.run.living) }
    }

    async fn send(&mut self, channel: &Channel, value: Value) -> Result<Value, Stop> {
        let waits = vec![Wait::Send(channel.name.clone(), value.datum())];
        let letter = self.letter(value);
        let serial = letter.serial;
        match self.track(waits, channel.sender.send(letter)).await {
            Ok(()) => self.run.books.book(serial, Side::Sent),
            Err(SendError(letter)) => {
                if letter.serial != serial {
                    self.run.books.fail(format!("message {serial} came back as {}", letter.serial));
                }
                return Err(Stop::Closed);
            }
        }
        Ok(Value::UNIT)
    }

    async fn receive(&mut self, channel: &Channel) -> Result<Value, Stop> {
        let waits = vec![Wait::Receive(channel.name.clone())];
        let letter = self.track(waits, channel.receiver.recv()).await.map_err(|_closed| Stop::Closed)?;
        self.run.books.book(letter.serial, Side::Received);
        self.observe(Observation::Received(letter.value.datum()));
        Ok(letter.value)
    }

    async fn synchronize(&mut self, event: &term::Event, parts: Vec<Value>) -> Result<Value, Stop> {
        let mut waits = Vec::new();
        let event = self.event(event, &mut parts.into_iter(), &mut waits)?;
        let Reply { leaf, message, result } = self.track(waits, event).await;
        let result = result.ok_or(Stop::Closed)?;
        if let Some((serial, side)) = message {
            self.run.books.book(serial, side);
        }
        self.observe(Observation::Chose(leaf, result.datum()));
        Ok(result)
    }

    /// The runtime's event for a term. `waits` has one entry for each leaf up to now.
    fn event(
        &mut self,
        event: &term::Event,
        parts: &mut std::vec::IntoIter<Value>,
        waits: &mut Vec<Wait>,
    ) -> Result<BoxEvent<'static, Reply>, Stop> {
        let leaf = waits.len();
        let mut part = || parts.next().ok_or(Stop::Stuck);
        Ok(match event {
            term::Event::Send(..) => {
                let (channel, value) = (part()?, part()?);
                let channel = channel.channel()?;
                waits.push(Wait::Send(channel.name.clone(), value.datum()));
                let letter = self.letter(value);
                let message = Some((letter.serial, Side::Sent));
                let sent = channel.sender.clone().into_send(letter);
                sent.wrap(move |sent| Reply { leaf, message, result: sent.ok().map(|()| Value::UNIT) })
                    .boxed()
            }
            term::Event::Receive(_) => {
                let channel = part()?;
                let channel = channel.channel()?;
                waits.push(Wait::Receive(channel.name.clone()));
                let reply = move |got: Result<Letter, Closed>| {
                    let message = got.as_ref().ok().map(|letter| (letter.serial, Side::Received));
                    Reply { leaf, message, result: got.ok().map(|letter| letter.value) }
                };
                channel.receiver.clone().into_recv().wrap(reply).boxed()
            }
            term::Event::Always(_) => {
                waits.push(Wait::Never);
                always(Reply { leaf, message: None, result: Some(part()?) }).boxed()
            }
            term::Event::Never => {
                waits.push(Wait::Never);
                never::<Reply>().boxed()
            }
            term::Event::Choose(events) => {
                let mut list = Vec::new();
                for event in events {
                    list.push(self.event(event, parts, waits)?);
                }
                if self.run.disturbance.fair {
                    choose(list).boxed()
                } else {
                    self.random.shuffle(&mut list);
                    choose_biased(list).boxed()
                }
            }
            term::Event::Wrap(event, constant) => {
                let constant = Value::Constant(*constant);
                let replace = |reply: Reply| Reply { result: reply.result.map(|_| constant), ..reply };
                self.event(event, parts, waits)?.wrap(replace).boxed()
            }
        })
    }

    /// Synchronizes, and books when it is pending.
    async fn track<E: Event>(&mut self, waits: Vec<Wait>, event: E) -> E::Output {
        if self.run.books.synchronize() > LONGEST {
            self.run.books.fail(format!("more than {LONGEST} synchronizations"));
        }
        lock(&self.record).end = End::Blocked(waits);
        let mut sync = pin!(event.sync());
        poll_fn(|cx| {
            if std::mem::take(&mut self.blocked) {
                self.run.books.resume();
            }
            let poll = sync.as_mut().poll(cx);
            if poll.is_pending() {
                self.blocked = true;
                self.run.books.block();
            }
            poll
        })
        .await
    }

    fn observe(&self, observation: Observation) {
        lock(&self.record).log.push(observation);
    }

    /// Before an operation: lets others run, or becomes a host, as the dice have it.
    async fn be_disturbed(&mut self) {
        let Disturbance { yields, inflates, ticks, .. } = self.run.disturbance;
        while self.random.once_in(yields) {
            yield_now().await;
        }
        if self.random.once_in(inflates) {
            inflate().await;
        }
        if ticks {
            let ticked = || self.run.begin.elapsed().subsec_nanos() % TICK < TICK / 16;
            while !ticked() {
                std::hint::spin_loop();
            }
        }
    }
}

impl Drop for Strand {
    fn drop(&mut self) {
        if !self.ended {
            self.run.books.lost(&self.name, !self.blocked);
        }
    }
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|e| e.into_inner())
}
