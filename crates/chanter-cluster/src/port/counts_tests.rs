//! INV-PORT, in all orders: three processes pass senders of a port around, drop them and are killed, at every step.

use std::collections::HashSet;
use std::hash::BuildHasher;

use foldhash::fast::FixedState as RandomState;

use super::*;
use crate::engine::NodeId;

const PORT: Slot = Slot { index: 0, generation: 1 };
const HOME: usize = 0;

fn port() -> ThreadName {
    ThreadName { pe: NodeId(0), process: ProcessId(HOME as u32), thread: PORT }
}

/// The rule that is left out.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Without {
    Nothing,
    /// A process that sends a sender keeps no transfer for it.
    Parcels,
    /// Nobody asks who has seen a death.
    Seeing,
    /// Only the home does.
    SeeingBySenders,
    /// Messages between two processes may be reordered.
    Order,
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Item {
    PortMessage(PortMessage),
    /// A message with a sender, of that transfer.
    Message(u64),
    Down,
}

type Counts = State<(ProcessId, u64), ThreadName>;

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Process {
    counts: Counts,
    senders: u8,
    is_alive: bool,
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct World {
    processes: Vec<Process>,
    /// The messages on their way, by sender and receiver.
    ways: BTreeMap<(usize, usize), VecDeque<Item>>,
    sends: u8,
    kills: u8,
    has_ended: bool,
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Send(usize, usize),
    Drop(usize),
    Kill(usize),
    /// The next thing on a way arrives, or the one behind it.
    Arrive(usize, usize, usize),
}

impl World {
    fn new(count: usize, sends: u8, kills: u8) -> Self {
        let peers = || (0..count as u32).map(ProcessId);
        let process = |at| Process { counts: State::new(ProcessId(at), peers()), senders: 0, is_alive: true };
        let mut world = Self {
            processes: (0..count as u32).map(process).collect(),
            ways: BTreeMap::new(),
            sends,
            kills,
            has_ended: false,
        };
        let home = &mut world.processes[HOME];
        home.counts.open(PORT);
        home.counts.acquire(port(), None);
        home.senders = 1;
        world.settle(HOME).unwrap();
        world
    }

    fn steps(&self, without: Without) -> Vec<Step> {
        let mut steps = Vec::new();
        let all = 0..self.processes.len();
        for (at, process) in self.processes.iter().enumerate().filter(|(_, process)| process.is_alive) {
            if process.senders > 0 {
                steps.push(Step::Drop(at));
                if self.sends > 0 {
                    steps.extend(all.clone().filter(|to| *to != at).map(|to| Step::Send(at, to)));
                }
            }
            if self.kills > 0 {
                steps.push(Step::Kill(at));
            }
        }
        for ((from, to), way) in &self.ways {
            if self.processes[*to].is_alive && !way.is_empty() {
                steps.push(Step::Arrive(*from, *to, 0));
                if without == Without::Order && way.len() > 1 && way[1] != Item::Down {
                    steps.push(Step::Arrive(*from, *to, 1));
                }
            }
        }
        steps
    }

    /// Does the leftover work, and puts the messages on their way.
    fn settle(&mut self, at: usize) -> Result<(), String> {
        loop {
            let process = &mut self.processes[at];
            let Leftover { covers, transfers, ended } = process.counts.leftover();
            let is_done = covers.is_empty() && transfers.is_empty();
            covers.iter().for_each(|(from, transfer)| process.counts.unpack(*from, *transfer));
            transfers.iter().for_each(|port| process.counts.release(*port));
            while let Some((to, word)) = process.counts.next_word(true) {
                let way = self.ways.entry((at, to.0 as usize)).or_default();
                way.push_back(Item::PortMessage(word));
            }
            for _ in ended {
                if std::mem::replace(&mut self.has_ended, true) {
                    return Err("it has ended twice".into());
                }
            }
            if is_done {
                break;
            }
        }
        if self.has_ended && self.processes[HOME].is_alive {
            if self.processes.iter().any(|process| process.is_alive && process.senders > 0) {
                return Err("it has ended, and somebody has a sender".into());
            }
            let is_carried = |way: &VecDeque<Item>| way.iter().any(|item| matches!(item, Item::Message(_)));
            if self.ways.iter().any(|((_, to), way)| self.processes[*to].is_alive && is_carried(way)) {
                return Err("it has ended, and a sender is on its way".into());
            }
        }
        Ok(())
    }

    fn take(&mut self, step: Step, without: Without) -> Result<(), String> {
        let at = match step {
            Step::Send(at, to) => {
                self.sends -= 1;
                let counts = &mut self.processes[at].counts;
                counts.acquire(port(), None);
                if let Some(transfer) = counts.pack(ProcessId(to as u32), port()) {
                    if without == Without::Parcels {
                        counts.is_unpacked(ProcessId(to as u32), transfer);
                    }
                    self.ways.entry((at, to)).or_default().push_back(Item::Message(transfer));
                }
                at
            }
            Step::Drop(at) => {
                let process = &mut self.processes[at];
                process.senders -= 1;
                process.counts.release(port());
                at
            }
            Step::Kill(at) => {
                self.kills -= 1;
                self.processes[at].is_alive = false;
                for to in (0..self.processes.len()).filter(|to| *to != at) {
                    self.ways.entry((at, to)).or_default().push_back(Item::Down);
                    self.ways.remove(&(to, at));
                }
                return Ok(());
            }
            Step::Arrive(from, to, nth) => {
                let way = self.ways.get_mut(&(from, to)).unwrap();
                let item = way.remove(nth).unwrap();
                if way.is_empty() {
                    self.ways.remove(&(from, to));
                }
                let process = &mut self.processes[to];
                let from = ProcessId(from as u32);
                match item {
                    Item::PortMessage(word) => process.counts.hear(from, word),
                    Item::Message(transfer) => {
                        process.counts.acquire(port(), Some((from, transfer)));
                        process.senders += 1;
                    }
                    Item::Down => {
                        process.counts.lose(from);
                        let sees_all = match without {
                            Without::Seeing => true,
                            Without::SeeingBySenders => to != HOME,
                            _ => false,
                        };
                        if sees_all {
                            (0..3).for_each(|by| process.counts.is_seen(from, ProcessId(by)));
                            process.counts.see_who_has_ended();
                        }
                    }
                }
                to
            }
        };
        self.settle(at)
    }

    /// Nothing is under way: if nobody has a sender, it has ended, and nothing is kept for anybody.
    fn is_right_at_the_end(&self) -> Result<(), String> {
        let has_senders = self.processes.iter().any(|process| process.is_alive && process.senders > 0);
        if self.processes[HOME].is_alive && !has_senders && !self.has_ended {
            return Err("nobody has a sender, and it has not ended".into());
        }
        let mut alive = self.processes.iter().filter(|process| process.is_alive);
        if alive.any(|process| !process.counts.is_settled()) {
            return Err("something is kept for ever".into());
        }
        Ok(())
    }
}

/// The number of worlds; or the fault of one of them, and the way to it.
fn explore(first: World, without: Without) -> Result<usize, String> {
    let hash = |world: &World| RandomState::with_seed(20).hash_one(world);
    let mut seen = HashSet::from([hash(&first)]);
    // How each world came to be: from which, and by which step.
    let mut origins = vec![(0, None)];
    let mut open = vec![(first, 0)];
    while let Some((world, at)) = open.pop() {
        let told = |what: String, last: Option<Step>| {
            let mut way: Vec<Step> = last.into_iter().collect();
            let mut at = at;
            while let (before, Some(step)) = origins[at] {
                way.push(step);
                at = before;
            }
            way.reverse();
            format!("{what}: {way:?}")
        };
        let steps = world.steps(without);
        if steps.iter().all(|step| !matches!(step, Step::Arrive(..))) {
            world.is_right_at_the_end().map_err(|what| told(what, None))?;
        }
        let mut news = Vec::new();
        for step in steps {
            let mut next = world.clone();
            next.take(step, without).map_err(|what| told(what, Some(step)))?;
            if seen.insert(hash(&next)) {
                news.push((next, step));
            }
        }
        for (next, step) in news {
            open.push((next, origins.len()));
            origins.push((at, Some(step)));
        }
    }
    Ok(seen.len())
}

/// All of it with three messages; with `CHANTER_STRESS` set, more of them, and more deaths.
#[test]
fn a_port_ends_once_and_not_too_early() {
    let mut worlds = vec![(World::new(2, 3, 1), 1_000), (World::new(3, 2, 1), 10_000)];
    if std::env::var_os("CHANTER_STRESS").is_some() {
        worlds.extend([(World::new(3, 3, 1), 10_000), (World::new(3, 2, 2), 10_000)]);
    }
    for (world, least) in worlds {
        let count = explore(world, Without::Nothing).unwrap();
        assert!(count > least, "{count}");
    }
}

/// Each rule is needed.
#[test]
fn without_one_of_its_rules_a_port_ends_too_early() {
    for without in [Without::Parcels, Without::Seeing, Without::Order] {
        assert!(explore(World::new(3, 2, 1), without).is_err());
    }
    if std::env::var_os("CHANTER_STRESS").is_some() {
        assert!(explore(World::new(3, 3, 1), Without::SeeingBySenders).is_err());
    }
}
