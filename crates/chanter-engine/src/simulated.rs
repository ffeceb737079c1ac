//! A simulated network with faults.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use chanter::base::choose;
use chanter::now;

use crate::alarm::Alarm;
use crate::engine::{
    Caps, Engine, Full, Idle, Lane, Leave, Loss, NodeId, Notifier, Order, Polled, ProcessId, Sink,
};
use crate::local::Local;
use crate::wire::Body;

/// Number of frames of a lane that may be on their way from one process to another.
const CAPACITY: usize = 1024;

/// A fault that may happen to a frame, or along with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// The frame is lost.
    Lose,
    /// The frame comes twice: now and [later](Faults::delay).
    Duplicate,
    /// The frame comes later, and later frames to the same process come after it.
    Delay,
    /// The frame comes later, and later frames overtake it.
    Reorder,
    /// The frame is lost, and so are later frames between its two processes, in both directions, as long as this
    /// fault is chosen for each of them. Each choice counts as one fault.
    Cut,
    /// The process is killed first, if the frame is from it or to it. See [`Simulated::kill`].
    Kill(ProcessId),
}

/// The faults of a network.
///
/// Under an explorer (the crate `chanter-explore`), the explorer decides for each frame, and an exhaustive search
/// tries each decision. Otherwise chance decides; the same seed decides the same for the first frame, the second, and
/// so on.
#[derive(Clone, Debug)]
pub struct Faults {
    /// Kinds of faults that may happen.
    pub kinds: Vec<Fault>,
    /// Largest number of faults that are chosen. Once they are used up, every frame arrives.
    pub most: u32,
    /// Faults that happen in any case, by the number of their frame among all frames of the network. They serve to
    /// repeat faults, or to try them one by one. Their kinds must be among [`kinds`](Self::kinds).
    pub at: Vec<(u64, Fault)>,
    /// Delay of a frame that does not come at once. 10 ms by default.
    pub delay: Duration,
    /// Without an explorer: chance chooses for one frame in this many, on average; no fault is one of its choices. 4
    /// by default.
    pub one_in: u32,
    /// Without an explorer: seed of the random numbers.
    pub seed: u64,
}

impl Default for Faults {
    /// No faults.
    fn default() -> Self {
        Self {
            kinds: Vec::new(),
            most: 0,
            at: Vec::new(),
            delay: Duration::from_millis(10),
            one_in: 4,
            seed: 0,
        }
    }
}

impl Faults {
    /// Faults of these kinds, at most `most` of them.
    pub fn of(kinds: &[Fault], most: u32) -> Self {
        Self { kinds: kinds.to_vec(), most, ..Self::default() }
    }

    fn has(&self, kinds: &[Fault]) -> bool {
        self.kinds.iter().any(|kind| kinds.contains(kind))
    }
}

/// The engine of a process in a simulated network.
///
/// The processes are within one OS process, as with [`Local`], and have no threads of their own to be killed. A
/// killed process is not heard any more, and hears nothing. Time is the machine's, which is virtual on a simulated
/// machine.
///
/// ```
/// use chanter::prelude::*;
/// use chanter_engine::{Fault, Faults, Simulated};
/// use chanter_cluster::{ANYONE, Process};
///
/// # let machine = Machine::new()?;
/// # machine.block_on(async {
/// // Half of all frames are lost, come twice, or too late. The messages do not show it.
/// let faults = Faults { one_in: 2, ..Faults::of(&[Fault::Lose, Fault::Duplicate, Fault::Reorder], u32::MAX) };
/// let network = Simulated::cluster(2, faults);
/// let [first, second] = <[_; 2]>::try_from(network).unwrap().map(Process::start);
/// let (here, there) = (first.inbox().unwrap(), second.inbox().unwrap());
/// for number in 0..10_u32 {
///     here.send(there.name(), 0, &number).await.unwrap();
///     assert_eq!(there.recv::<u32>(ANYONE, 0).await.unwrap().value, number);
/// }
/// # });
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Simulated {
    me: ProcessId,
    network: Arc<Network>,
}

struct Network {
    ends: Vec<Local>,
    notifiers: Vec<OnceLock<Notifier>>,
    faults: Faults,
    state: Mutex<State>,
    alarm: Alarm,
}

struct State {
    /// Number of faults that may still happen.
    left: u32,
    random: fastrand::Rng,
    /// Pairs of processes that are cut, the lower number first.
    cuts: BTreeMap<(ProcessId, ProcessId), By>,
    /// Frames on their way, by the time at which they come and the order in which they were sent.
    flights: BTreeMap<(Instant, u64), Flight>,
    sent: u64,
    /// Number of frames that have been decided about.
    frames: u64,
    /// Processes that were refused because too many frames are on their way.
    refused: BTreeSet<ProcessId>,
    /// Processes that leave when none of their frames is on its way.
    leaving: BTreeSet<ProcessId>,
}

/// The cause of a cut.
#[derive(Clone, Copy, PartialEq, Eq)]
enum By {
    Hand,
    Chance,
}

struct Flight {
    from: ProcessId,
    to: ProcessId,
    lane: Lane,
    body: Body,
    /// Whether later frames must come after it.
    is_in_order: bool,
}

/// The fate of a frame.
enum Fate {
    Delivered,
    Lost,
    Doubled,
    Late { is_in_order: bool },
}

fn pair(one: ProcessId, other: ProcessId) -> (ProcessId, ProcessId) {
    (one.min(other), one.max(other))
}

impl State {
    /// Chooses one of several alternatives, of which the first is the ordinary one.
    fn choose(&mut self, faults: &Faults, alternatives: usize) -> usize {
        choose(alternatives).unwrap_or_else(|| match self.random.u32(0..faults.one_in.max(1)) {
            0 => self.random.usize(0..alternatives),
            _ => 0,
        })
    }

    /// Time at which the last frame of this pair comes that later ones must not overtake.
    fn last_in_order(&self, from: ProcessId, to: ProcessId) -> Option<Instant> {
        let is_before = |flight: &Flight| flight.is_in_order && (flight.from, flight.to) == (from, to);
        self.flights.iter().rev().find(|(_, flight)| is_before(flight)).map(|((due, _), _)| *due)
    }

    /// Whether a lane has as many frames on their way as it may have.
    fn is_full(&self, from: ProcessId, to: ProcessId, lane: Lane) -> bool {
        let is_there = |flight: &&Flight| (flight.from, flight.to, flight.lane) == (from, to, lane);
        self.flights.len() >= CAPACITY && self.flights.values().filter(is_there).count() >= CAPACITY
    }

    fn take_off(&mut self, due: Instant, flight: Flight) {
        self.sent += 1;
        self.flights.insert((due, self.sent), flight);
    }
}

impl Network {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Decides the fate of a frame.
    fn fate(&self, state: &mut State, from: ProcessId, to: ProcessId) -> Fate {
        let number = state.frames;
        state.frames += 1;
        let is_cut = state.cuts.get(&pair(from, to)).copied();
        if is_cut == Some(By::Hand) {
            return Fate::Lost;
        }
        let planned = self.faults.at.iter().find(|(at, _)| *at == number).map(|(_, fault)| *fault);
        let fault = planned.or_else(|| self.chosen(state, from, to, is_cut.is_some()));
        if fault == Some(Fault::Cut) {
            state.cuts.insert(pair(from, to), By::Chance);
            return Fate::Lost;
        }
        state.cuts.remove(&pair(from, to));
        match fault {
            None => Fate::Delivered,
            Some(Fault::Lose | Fault::Cut) => Fate::Lost,
            Some(Fault::Duplicate) => Fate::Doubled,
            Some(Fault::Delay) => Fate::Late { is_in_order: true },
            Some(Fault::Reorder) => Fate::Late { is_in_order: false },
            Some(Fault::Kill(peer)) => {
                self.kill(state, peer);
                Fate::Lost
            }
        }
    }

    /// The fault, if any, that the explorer or chance chooses for a frame.
    fn chosen(&self, state: &mut State, from: ProcessId, to: ProcessId, is_cut: bool) -> Option<Fault> {
        if state.left == 0 {
            return None;
        }
        let may_happen = |fault: &&Fault| match fault {
            Fault::Kill(peer) => !is_cut && (*peer == from || *peer == to),
            Fault::Cut => true,
            _ => !is_cut,
        };
        let kinds: Vec<Fault> = self.faults.kinds.iter().filter(may_happen).copied().collect();
        let chosen = state.choose(&self.faults, kinds.len() + 1).checked_sub(1)?;
        state.left -= 1;
        Some(kinds[chosen])
    }

    fn kill(&self, state: &mut State, peer: ProcessId) {
        state.flights.retain(|_, flight| flight.from != peer && flight.to != peer);
        state.leaving.remove(&peer);
        if let Some(end) = self.ends.get(peer.0 as usize) {
            end.kill();
        }
    }

    fn notify(&self, peer: ProcessId) {
        if let Some(notifier) = self.notifiers.get(peer.0 as usize).and_then(OnceLock::get) {
            notifier.notify();
        }
    }

    /// Delivers the frames whose time has come.
    fn land(&self) {
        let now = now();
        let state = &mut *self.lock();
        while let Some(first) = state.flights.first_entry().filter(|first| first.key().0 <= now) {
            let ((_, number), Flight { from, to, lane, body, is_in_order }) = first.remove_entry();
            let goes_before = |((_, other), flight): (&(Instant, u64), &Flight)| {
                flight.is_in_order && (flight.from, flight.to) == (from, to) && *other < number
            };
            let waits = is_in_order && state.flights.iter().any(goes_before);
            let sent = if waits { Err(Full { body }) } else { self.end(from).try_send(to, lane, body) };
            if let Err(Full { body }) = sent {
                let due = now + self.faults.delay.max(Duration::from_millis(1));
                state.flights.insert((due, number), Flight { from, to, lane, body, is_in_order });
            }
        }
        std::mem::take(&mut state.refused).into_iter().for_each(|peer| self.notify(peer));
        let flights = &state.flights;
        let is_flying = |peer: ProcessId| flights.values().any(|flight| flight.from == peer);
        state.leaving.retain(|peer| {
            let stays = is_flying(*peer);
            if !stays {
                self.end(*peer).leave(Leave::Drain);
                self.notify(*peer);
            }
            stays
        });
        if let Some((due, _)) = state.flights.keys().next() {
            self.alarm.set(*due);
        }
    }

    fn end(&self, peer: ProcessId) -> &Local {
        &self.ends[peer.0 as usize]
    }
}

impl Simulated {
    /// The engines of `count` processes, numbered from 0, in a network with these faults.
    ///
    /// # Panics
    /// A fault in [`Faults::at`] is not among [`Faults::kinds`].
    pub fn cluster(count: u32, faults: Faults) -> Vec<Self> {
        assert!(faults.at.iter().all(|(_, fault)| faults.has(&[*fault])), "what happens may happen");
        let state = State {
            left: faults.most,
            random: fastrand::Rng::with_seed(faults.seed),
            cuts: BTreeMap::new(),
            flights: BTreeMap::new(),
            sent: 0,
            frames: 0,
            refused: BTreeSet::new(),
            leaving: BTreeSet::new(),
        };
        let network = Arc::new(Network {
            ends: Local::cluster(count),
            notifiers: (0..count).map(|_| OnceLock::new()).collect(),
            faults,
            state: Mutex::new(state),
            alarm: Alarm::default(),
        });
        (0..count).map(|me| Self { me: ProcessId(me), network: Arc::clone(&network) }).collect()
    }

    /// Ends the process as if it had been killed. Frames to or from it that are on their way are lost. The others get
    /// the frames that have come, and then learn of its end.
    pub fn kill(&self) {
        self.network.kill(&mut self.network.lock(), self.me);
    }

    /// Cuts the connection between this process and `to`, in both directions, until it is [healed](Self::heal).
    ///
    /// # Panics
    /// [`Fault::Cut`] is not among the network's faults, so the processes are not prepared for losses.
    pub fn cut(&self, to: ProcessId) {
        assert!(self.network.faults.has(&[Fault::Cut]), "the network may be cut");
        self.network.lock().cuts.insert(pair(self.me, to), By::Hand);
    }

    /// Restores the connection: frames sent from now on arrive.
    pub fn heal(&self, to: ProcessId) {
        self.network.lock().cuts.remove(&pair(self.me, to));
    }

    fn own(&self) -> &Local {
        self.network.end(self.me)
    }
}

impl Engine for Simulated {
    fn me(&self) -> ProcessId {
        self.me
    }

    fn roster(&self) -> Vec<(ProcessId, NodeId)> {
        self.own().roster()
    }

    /// Loss and order follow from the faults; the rest is as for [`Local`].
    fn caps(&self, to: ProcessId) -> Caps {
        let faults = &self.network.faults;
        let loses = faults.has(&[Fault::Lose, Fault::Cut]);
        let is_ordered = !faults.has(&[Fault::Duplicate, Fault::Reorder]);
        Caps {
            order: if is_ordered { Order::PerPeer } else { Order::None },
            loss: if loses { Loss::Any } else { Loss::Never },
            ..self.own().caps(to)
        }
    }

    fn attach(&self, notifier: Notifier) {
        let network = &self.network;
        network.alarm.start(Arc::downgrade(network), |network| &network.alarm, Network::land);
        let _ = network.notifiers[self.me.0 as usize].set(notifier.clone());
        self.own().attach(notifier);
    }

    fn try_send(&self, to: ProcessId, lane: Lane, body: Body) -> Result<(), Full> {
        let network = &self.network;
        let state = &mut *network.lock();
        let is_there = to != self.me && network.ends.get(to.0 as usize).is_some_and(|end| !end.has_ended());
        if !is_there || self.own().has_ended() || state.leaving.contains(&self.me) {
            return Ok(());
        }
        if state.is_full(self.me, to, lane) {
            state.refused.insert(self.me);
            return Err(Full { body });
        }
        let mut flight = Flight { from: self.me, to, lane, body, is_in_order: true };
        let due = match network.fate(state, self.me, to) {
            Fate::Lost => return Ok(()),
            Fate::Late { is_in_order } => {
                flight.is_in_order = is_in_order;
                let due = now() + network.faults.delay;
                if is_in_order { state.last_in_order(self.me, to).unwrap_or(due).max(due) } else { due }
            }
            fate => {
                if let Fate::Doubled = fate {
                    let copy = Flight { body: flight.body.clone(), is_in_order: false, ..flight };
                    let due = now() + network.faults.delay;
                    state.take_off(due, copy);
                    network.alarm.set(due);
                }
                match state.last_in_order(self.me, to) {
                    Some(due) => due,
                    None => return self.own().try_send(to, lane, flight.body),
                }
            }
        };
        state.take_off(due, flight);
        network.alarm.set(due);
        Ok(())
    }

    fn has_ended(&self) -> bool {
        self.own().has_ended()
    }

    fn has_work(&self) -> bool {
        self.own().has_work()
    }

    fn poll(&self, budget: u32, sink: &mut dyn Sink) -> Polled {
        self.own().poll(budget, sink)
    }

    fn park(&self) -> Idle {
        self.own().park()
    }

    fn unpark(&self) {
        self.own().unpark();
    }

    fn leave(&self, how: Leave) {
        let state = &mut *self.network.lock();
        let flies = state.flights.values().any(|flight| flight.from == self.me);
        if how == Leave::Drain && flies {
            state.leaving.insert(self.me);
            return;
        }
        state.flights.retain(|_, flight| flight.from != self.me);
        state.leaving.remove(&self.me);
        self.own().leave(how);
    }
}

impl Drop for Simulated {
    fn drop(&mut self) {
        self.kill();
    }
}

impl fmt::Debug for Simulated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { me, network } = self;
        f.debug_struct("Simulated").field("me", me).field("faults", &network.faults).finish_non_exhaustive()
    }
}
