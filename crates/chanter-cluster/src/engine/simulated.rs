//! A network that misbehaves.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use chanter::base::choose;
use chanter::now;

use super::alarm::Alarm;
use super::{
    Caps, Engine, Full, Idle, Lane, Leave, Local, Loss, NodeId, Notifier, Order, Polled, ProcessId, Sink,
};
use crate::wire::Body;

/// So many frames of a lane may be on their way from one process to another.
const CAPACITY: usize = 1024;

/// What may happen to a frame, or with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// It is lost.
    Lose,
    /// It comes twice: now and [later](Faults::delay).
    Duplicate,
    /// It comes later, and what is sent to the same process after it comes behind it.
    Delay,
    /// It comes later, and what is sent after it overtakes it.
    Reorder,
    /// It is lost, and so are all between its two processes, in both directions, as long as this goes on to be
    /// chosen: for each of them anew. It counts as often.
    Cut,
    /// This process is killed first, if the frame is from it or to it. See [`Simulated::kill`].
    Kill(ProcessId),
}

/// How a network misbehaves.
///
/// Under an explorer (the crate `chanter-explore`) that decides for each frame, and an exhaustive search tries each
/// decision. Otherwise chance does: then the same seed decides the same for the first frame, the second, and so on.
#[derive(Clone, Debug)]
pub struct Faults {
    /// What may happen.
    pub kinds: Vec<Fault>,
    /// How often in all; if this is not endless, everything comes at last.
    pub most: u32,
    /// What happens in any case, and to which frames, by their number among all of the network: to find again, or to try
    /// one by one, what may happen. The kinds must be among [`kinds`](Self::kinds).
    pub at: Vec<(u64, Fault)>,
    /// How long a frame takes that does not come at once. 10 ms by default.
    pub delay: Duration,
    /// Without an explorer: something happens to one frame in so many. 4 by default.
    pub one_in: u32,
    /// Without an explorer: of the random numbers.
    pub seed: u64,
}

impl Default for Faults {
    /// Nothing ever happens.
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
    /// These happen at most so often.
    pub fn of(kinds: &[Fault], most: u32) -> Self {
        Self { kinds: kinds.to_vec(), most, ..Self::default() }
    }

    fn has(&self, kinds: &[Fault]) -> bool {
        self.kinds.iter().any(|kind| kinds.contains(kind))
    }
}

/// The engine of a process in a simulated network.
///
/// The processes are parts of one, as those of [`Local`], and have no threads of their own to be killed: who is
/// killed is not heard any more, and hears nothing. Time is that of the machine: virtual on a simulated one.
///
/// ```
/// use chanter::prelude::*;
/// use chanter_cluster::engine::{Fault, Faults, Simulated};
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
    /// So many faults may still happen.
    left: u32,
    random: fastrand::Rng,
    /// Pairs between which nothing comes, the lower number first.
    cuts: BTreeMap<(ProcessId, ProcessId), By>,
    /// What is on its way, by when it comes, and in which order it was sent.
    flights: BTreeMap<(Instant, u64), Flight>,
    sent: u64,
    /// So many frames have been decided about.
    frames: u64,
    /// Who was told that too much is on its way.
    refused: BTreeSet<ProcessId>,
    /// These leave when nothing of theirs is on its way.
    leaving: BTreeSet<ProcessId>,
}

/// Who has cut a pair.
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
    /// What is sent later comes behind it.
    is_in_order: bool,
}

/// What becomes of a frame.
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
    /// One of several, of which the first is the ordinary one.
    fn choose(&mut self, faults: &Faults, alternatives: usize) -> usize {
        choose(alternatives).unwrap_or_else(|| match self.random.u32(0..faults.one_in.max(1)) {
            0 => self.random.usize(0..alternatives),
            _ => 0,
        })
    }

    /// When the last frame comes that others from and to there must not overtake.
    fn last_in_order(&self, from: ProcessId, to: ProcessId) -> Option<Instant> {
        let is_before = |flight: &Flight| flight.is_in_order && (flight.from, flight.to) == (from, to);
        self.flights.iter().rev().find(|(_, flight)| is_before(flight)).map(|((due, _), _)| *due)
    }

    /// Whether as much of a lane is on its way there as may be.
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

    /// Decides about a frame.
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

    /// What the explorer, or chance, lets happen to a frame.
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

    /// Frames whose time has come arrive.
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
    /// The engines of so many processes, which are numbered from 0, in a network that misbehaves like this.
    ///
    /// # Panics
    /// What happens in any case is not among what may happen.
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

    /// The process ends without a word, as if it had been killed. What it has sent and is on its way does not come any
    /// more; the others are told after what has come.
    pub fn kill(&self) {
        self.network.kill(&mut self.network.lock(), self.me);
    }

    /// Nothing comes from this process to `to`, or from there, until it is [healed](Self::heal).
    ///
    /// # Panics
    /// [`Fault::Cut`] is not among the network's faults: nobody is prepared for losses.
    pub fn cut(&self, to: ProcessId) {
        assert!(self.network.faults.has(&[Fault::Cut]), "the network may be cut");
        self.network.lock().cuts.insert(pair(self.me, to), By::Hand);
    }

    /// What is sent from now on comes again.
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

    /// What is lost and what order is kept, as its faults allow; the rest as [`Local`].
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
