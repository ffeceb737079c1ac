//! The engine that carries frames by MPI.

mod buffer_pool;
mod class;
mod counters;
mod in_flight;
mod lanes;
mod peer;
mod posted;
mod preposted;
mod ring;
mod state;

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use chanter_engine::combining_lock::{CombiningLock, Within};
use chanter_engine::wire::{Body, LENGTH};
use chanter_engine::{
    Caps, Death, Engine, Full, Idle, Lane, Leave, Loss, NodeId, Notifier, Order, Polled, ProcessId, Sink,
};

use counters::Counters;
pub use counters::Counts;
use lanes::Outgoing;
#[doc(hidden)]
pub use posted::Posted;
use state::{LONGEST, State};

use crate::detect::{Detected, StartError, detect};
use crate::shim::{self, MpiError, MpiToken};

/// Largest number of frames that are handed in while another thread is inside.
const OUTBOX: usize = 256;
/// Times for which an idle processor tests, if something has come since the last time. The long one is longer than a
/// pause and the way out of it. Otherwise two processes that both sleep would miss each other's answers for ever. It
/// is used on processors that have gained by it, and is tried on others now and then.
const LONG_LINGER: Duration = Duration::from_micros(150);
const SHORT_LINGER: Duration = Duration::from_micros(20);
const RARELY: u32 = 16;
/// The same time while large bodies are on their way.
const MOVING_LINGER: Duration = Duration::from_micros(500);
/// Tests before the clock is read, and between two looks at it.
const FIRST_TESTS: u32 = 16;
const TESTS: u32 = 8;
/// The first pause, in microseconds. The next ones are twice as long up to the second number. Then they grow slowly, up
/// to the third in about a quarter of a second.
const SHORTEST_PAUSE: u32 = 50;
const LONG_PAUSE: u32 = 1000;
const LONGEST_PAUSE: u32 = 5000;

/// An engine that carries frames by MPI, between the processes that `mpirun` has started.
///
/// Any OS thread may call MPI, but one at a time (`MPI_THREAD_SERIALIZED`). An OS thread that finds another one
/// inside leaves its frame there and goes on. MPI wakes no thread: a [`Pump`](chanter_cluster::Pump) has to poll this
/// engine, as [`run`](crate::run) does.
///
/// If a process dies, `mpirun` ends all others ([`Death::Aborts`]).
pub struct Mpi {
    lock: CombiningLock<State>,
    me: u32,
    nodes: Vec<u32>,
    /// Whether this computer has no more processes than processors, so that an OS thread that tests takes no time
    /// from the others.
    may_linger: bool,
    notifier: OnceLock<Notifier>,
    /// Lanes in which a sender was refused, a bit for each. The notifier tells when there is room.
    refused: AtomicU8,
    counters: Arc<Counters>,
    has_ended: AtomicBool,
    sleep: Sleep,
}

/// The sleep of an OS thread that polls.
#[derive(Default)]
struct Sleep {
    /// Microseconds of the last pause; 0 if something has come since.
    pause: AtomicU32,
    /// Lingers in vain, one after the other.
    vain: AtomicU32,
}

/// For tests: the nodes as if there were as many as this variable says.
fn pretended(nodes: Vec<u32>) -> Vec<u32> {
    let count = std::env::var("CHANTER_MPI_NODES").ok().and_then(|count| count.parse::<u32>().ok());
    match count {
        Some(count @ 1..) => (0..nodes.len() as u32).map(|process| process % count).collect(),
        _ => nodes,
    }
}

/// Number of processors of this computer, whichever of them this process may use: `mpirun` gives each process some of
/// its own.
pub(crate) fn processors() -> usize {
    #[cfg(unix)]
    {
        // SAFETY: this asks the system for a number.
        let online = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) };
        usize::try_from(online).unwrap_or(1)
    }
    #[cfg(not(unix))]
    thread::available_parallelism().map_or(1, usize::from)
}

impl Mpi {
    /// Initializes MPI, for the whole job at once: the OS thread is blocked until all its processes do so.
    ///
    /// # Errors
    /// This process was not started by this MPI's `mpirun`; MPI was initialized before, or does not let any
    /// thread call it; or it has failed. If it fails while the processes meet, this ends the whole job: the others would
    /// wait for ever.
    pub fn start() -> Result<Self, StartError> {
        match detect() {
            Ok(Detected::Launched) => {}
            Ok(Detected::Alone) => return Err(StartError::NotLaunched),
            Err(error) => return Err(error),
        }
        Self::start_anyway()
    }

    /// Like [`start`](Self::start); without `mpirun`, this process is a job of its own.
    ///
    /// # Errors
    /// The errors of `start`.
    pub fn start_anyway() -> Result<Self, StartError> {
        shim::open().map_err(|why| StartError::Missing(why.to_owned()))?;
        let token = MpiToken::begin().ok_or(StartError::Twice)??;
        let starting = token.starting();
        let started = Self::started(token);
        if let Err(error) = &started {
            starting.fails(error);
        }
        Ok(started?)
    }

    /// Meets the other processes.
    fn started(token: MpiToken) -> Result<Self, MpiError> {
        let (me, count, nodes) = (token.rank()?, token.size()?, pretended(token.nodes()?));
        let near = nodes.iter().filter(|node| **node == nodes[me as usize]).count();
        let counters = Arc::new(Counters::default());
        let state = State::new(token, me, count, Arc::clone(&counters))?;
        // Nobody sends before all receive: an early message would be copied once more.
        state.token.barrier()?;
        Ok(Self {
            lock: CombiningLock::new(state, OUTBOX),
            me,
            nodes,
            may_linger: near <= processors(),
            notifier: OnceLock::new(),
            refused: AtomicU8::new(0),
            counters,
            has_ended: AtomicBool::new(count == 1),
            sleep: Sleep::default(),
        })
    }

    /// The MPI library's description of itself; empty if there is none.
    pub fn library() -> String {
        shim::library()
    }

    /// The counters of this engine.
    pub fn counts(&self) -> Counts {
        self.counters.read()
    }

    /// Leaves, waits until all others have left, and finalizes MPI. The OS thread is blocked.
    ///
    /// # Errors
    /// MPI has failed, now or before, and is not finalized: this process should end.
    pub fn finish(&self) -> Result<(), MpiError> {
        self.leave(Leave::Drain);
        let mut pause = Duration::ZERO;
        while !self.has_ended() {
            if self.poll(u32::MAX, &mut Nobody).has_found() {
                pause = Duration::ZERO;
            } else {
                thread::sleep(pause);
                pause = (2 * pause + Duration::from_micros(10)).min(Duration::from_millis(1));
            }
        }
        let mut within = self.enter();
        if let Some(error) = within.broken.take() {
            return Err(error);
        }
        within.close()?;
        within.token.end()
    }

    /// Ends all processes of the job at once, with this exit code. Comes back only if MPI cannot do that.
    pub fn abort(&self, code: i32) {
        self.enter().token.abort(code);
    }

    /// Gives all processes the bytes of each, in the order of their numbers. All processes call this. The OS thread is
    /// blocked.
    #[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "only there do processes share memory"))]
    pub(crate) fn exchange<const N: usize>(&self, mine: &[u8; N]) -> Result<Vec<[u8; N]>, MpiError> {
        self.enter().token.exchange(mine)
    }

    /// Makes round trips of messages of this length (at least 4 bytes) between this process and `other`, which calls
    /// this too. It uses `MPI_Isend`, `MPI_Irecv` and `MPI_Test` alone, as the yardstick of the engine. Returns the
    /// number of wrong messages. The OS thread is blocked, and nothing else comes meanwhile.
    ///
    /// # Errors
    /// MPI has failed.
    ///
    /// # Panics
    /// There are too few bytes for a number.
    #[doc(hidden)]
    pub fn raw_round_trips(&self, other: ProcessId, bytes: usize, rounds: u32) -> Result<u32, MpiError> {
        self.enter().token.round_trips(other.0, self.me < other.0, bytes, rounds)
    }

    /// Runs barriers of MPI itself, for measurements: all processes of the job call this. The OS thread is blocked.
    ///
    /// # Errors
    /// MPI has failed.
    #[doc(hidden)]
    pub fn raw_barriers(&self, rounds: u32) -> Result<(), MpiError> {
        self.enter().token.barriers(rounds)
    }

    /// Makes sums of MPI itself that all processes get, for measurements: all call this. Returns the number of wrong
    /// messages. The OS thread is blocked.
    ///
    /// # Errors
    /// MPI has failed.
    #[doc(hidden)]
    pub fn raw_reductions(&self, rounds: u32) -> Result<u32, MpiError> {
        self.enter().token.reductions(rounds)
    }

    /// Enters, once no other thread is inside. A thread does not stay inside for long.
    fn enter(&self) -> Within<'_, State> {
        loop {
            if let Some(within) = self.lock.try_enter() {
                return within;
            }
            thread::yield_now();
        }
    }

    /// Lanes in which a refused sender should try again.
    #[inline]
    fn may_retry(&self, within: &State) -> u8 {
        // ORDER: Relaxed: it is looked at again and again as long as it is set.
        match self.refused.load(Ordering::Relaxed) {
            0 => 0,
            refused => within.lanes_with_room(refused),
        }
    }

    /// Leaves, and notifies of what the work inside has changed.
    #[inline]
    fn after(&self, mut within: Within<'_, State>) {
        let retry = self.may_retry(&within);
        let ends = within.has_ended() && !std::mem::replace(&mut within.others.is_end_told, true);
        drop(within);
        if ends {
            // ORDER: Release: an OS thread that sees the end sees what was done inside before it.
            self.has_ended.store(true, Ordering::Release);
        }
        // ORDER: Relaxed: flags. A sender that is refused from now on sets its bit again, and the next look finds it.
        if ends || (retry != 0 && self.refused.fetch_and(!retry, Ordering::Relaxed) & retry != 0) {
            self.notifier.get().inspect(|notifier| notifier.notify());
        }
    }
}

/// A sink that drops all that it is told.
struct Nobody;

impl Sink for Nobody {
    fn arrived(&mut self, _from: ProcessId, _lane: Lane, _frame: Body) {}

    fn peer(&mut self, _peer: ProcessId, _change: chanter_engine::Change) {}
}

impl Engine for Mpi {
    fn me(&self) -> ProcessId {
        ProcessId(self.me)
    }

    fn roster(&self) -> Vec<(ProcessId, NodeId)> {
        (0..).zip(&self.nodes).map(|(peer, node)| (ProcessId(peer), NodeId(*node))).collect()
    }

    fn caps(&self, _to: ProcessId) -> Caps {
        let eager = (LONGEST - LENGTH) as u32;
        Caps { order: Order::PerPeer, loss: Loss::Never, death: Death::Aborts, eager }
    }

    fn has_ended(&self) -> bool {
        self.has_ended.load(Ordering::Acquire)
    }

    fn attach(&self, notifier: Notifier) {
        // Called once.
        let _ = self.notifier.set(notifier);
    }

    fn try_send(&self, to: ProcessId, lane: Lane, body: Body) -> Result<(), Full> {
        if to.0 as usize >= self.nodes.len() {
            return Ok(());
        }
        if body.frame().len() > LONGEST {
            return Err(Full { body });
        }
        self.lock.hand_in(Outgoing { to: to.0, lane, body }).or_else(|outgoing| {
            // Sends that are done make room, whether or not anybody polls.
            self.has_any_work();
            self.lock.hand_in(outgoing).map_err(|outgoing| {
                self.refused.fetch_or(1 << lane as u8, Ordering::Relaxed);
                Full { body: outgoing.body }
            })
        })
    }

    #[inline]
    fn has_work(&self) -> bool {
        self.lock.try_enter().is_some_and(|mut within| within.look() || self.may_retry(&within) != 0)
    }

    fn poll(&self, budget: u32, sink: &mut dyn Sink) -> Polled {
        let Some(mut within) = self.lock.try_enter() else { return Polled::Busy };
        let (count, has_more) = within.poll(budget, sink);
        self.after(within);
        if count > 0 {
            self.sleep.pause.store(0, Ordering::Relaxed);
        }
        match (count, has_more) {
            (0, _) => Polled::Nothing,
            (_, false) => Polled::Some,
            (_, true) => Polled::More,
        }
    }

    fn wait(&self, is_over: &dyn Fn() -> bool) -> bool {
        // Mostly an answer is near.
        let Some(mut within) = self.lock.try_enter() else { return self.linger(is_over) };
        let has_work = (0..FIRST_TESTS).any(|_| within.look()) || self.may_retry(&within) != 0;
        drop(within);
        has_work || self.linger(is_over)
    }

    fn park(&self) -> Idle {
        if self.has_ended() {
            return Idle::Notified;
        }
        if self.has_any_work() {
            return Idle::Work;
        }
        // ORDER: Relaxed: a guess, which may be lost.
        let last = self.sleep.pause.load(Ordering::Relaxed);
        let next = if last < LONG_PAUSE { (2 * last).min(LONG_PAUSE) } else { last + last / 64 };
        let pause = next.clamp(SHORTEST_PAUSE, LONGEST_PAUSE);
        self.sleep.pause.store(pause, Ordering::Relaxed);
        Idle::For(Duration::from_micros(pause.into()))
    }

    fn unpark(&self) {}

    fn leave(&self, _how: Leave) {
        let mut within = self.enter();
        within.leave();
        self.after(within);
    }
}

impl Mpi {
    /// Whether there is work, like `has_work`, but nothing is left to a later look.
    fn has_any_work(&self) -> bool {
        self.lock
            .try_enter()
            .is_some_and(|mut within| within.look_everywhere() || self.may_retry(&within) != 0)
    }

    /// Tests for a while: an answer is often there before a processor could fall asleep and be woken.
    fn linger(&self, is_over: &dyn Fn() -> bool) -> bool {
        // ORDER: Relaxed: guesses, which may be lost.
        if !self.may_linger || is_over() || self.sleep.pause.load(Ordering::Relaxed) > 0 {
            return false;
        }
        let vain = self.sleep.vain.load(Ordering::Relaxed);
        let time = if vain.is_multiple_of(RARELY) { LONG_LINGER } else { SHORT_LINGER };
        let (begin, mut from) = (Instant::now(), Instant::now());
        loop {
            let now = Instant::now();
            if now - from >= time {
                break;
            }
            if is_over() {
                return false;
            }
            let Some(mut within) = self.lock.try_enter() else { continue };
            if (0..TESTS).any(|_| within.look()) || self.may_retry(&within) != 0 {
                self.sleep.vain.store(0, Ordering::Relaxed);
                return true;
            }
            // Bodies under way need our help, and an answer comes when it is here.
            if within.is_moving() && now - begin < MOVING_LINGER {
                from = now;
            }
        }
        self.sleep.vain.store(vain.wrapping_add(1), Ordering::Relaxed);
        false
    }
}

impl fmt::Debug for Mpi {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mpi").field("me", &self.me).field("of", &self.nodes.len()).finish_non_exhaustive()
    }
}
