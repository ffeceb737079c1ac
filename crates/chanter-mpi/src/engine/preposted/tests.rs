//! INV-PREPOSTED, in all orders: the messages of a process, and the receiver's reads, posts and results, step by
//! step.

use std::collections::{HashSet, VecDeque};

use chanter_engine::Lane;
use chanter_engine::wire::LENGTH;

use super::*;

/// Two classes of each of two processes.
const KINDS: usize = 4;

fn kind(at: usize) -> Kind {
    (at as u32 / 2, Class::of(Lane::Bulk, LENGTH + (100_000 << (at % 2))))
}

/// The sender, the receiver, and the messages that MPI has between them. Frames of a class of a process are told
/// apart by their number in it.
#[derive(Clone, PartialEq, Eq, Hash)]
struct World {
    /// How many frames of each class are still to be sent, and how many were.
    to_send: [u8; KINDS],
    sent: [u8; KINDS],
    /// Descriptors on their way, of each process in order: the class, and which of its frames.
    descriptors: [VecDeque<(usize, u8)>; 2],
    /// Bodies on their way, of each class in order.
    bodies: [VecDeque<u8>; KINDS],
    /// Receives of each class that MPI has, in the order in which they were posted.
    posted: [VecDeque<Ticket>; KINDS],
    /// Those that it has filled, and with which frame.
    done: Vec<(Ticket, usize, u8)>,
    /// Bodies that have come and are not handed out yet, as the receiver knows, also before they are announced.
    filled: Vec<(Ticket, usize, u8)>,
    early: Vec<(Ticket, usize, u8)>,
    /// Each descriptor that was read.
    read: Vec<(usize, u8)>,
    handed_out: [u8; KINDS],
    expected: Expected,
}

#[derive(Clone, Copy, Debug)]
enum Step {
    /// The next frame of that class is sent: its bytes and its descriptor.
    Send(usize),
    /// The next descriptor of that process is read.
    Read(usize),
    /// A receive is posted for a descriptor that waits.
    Post,
    /// MPI gives the next body of that class to the first receive.
    Match(usize),
    /// The receiver finds that a receive is done.
    Find(usize),
    /// It hands the frame out.
    HandOut(usize),
}

impl World {
    fn new(to_send: [u8; KINDS], without: Option<Rule>) -> Self {
        Self {
            to_send,
            sent: [0; KINDS],
            descriptors: Default::default(),
            bodies: Default::default(),
            posted: Default::default(),
            done: Vec::new(),
            filled: Vec::new(),
            early: Vec::new(),
            read: Vec::new(),
            handed_out: [0; KINDS],
            expected: Expected { without, ..Expected::default() },
        }
    }

    fn steps(&self) -> Vec<Step> {
        let each = || 0..KINDS;
        let mut steps: Vec<Step> = each().filter(|at| self.to_send[*at] > 0).map(Step::Send).collect();
        steps.extend((0..2).filter(|from| !self.descriptors[*from].is_empty()).map(Step::Read));
        if self.expected.clone().next().is_some() {
            steps.push(Step::Post);
        }
        let matches = |at: &usize| !self.bodies[*at].is_empty() && !self.posted[*at].is_empty();
        steps.extend(each().filter(matches).map(Step::Match));
        steps.extend((0..self.done.len()).map(Step::Find));
        steps.extend((0..self.filled.len()).map(Step::HandOut));
        steps
    }

    fn posts(&mut self, at: usize, ticket: Ticket) -> Result<(), String> {
        self.posted[at].push_back(ticket);
        let under_way = self.posted.iter().map(VecDeque::len).sum::<usize>() + self.done.len();
        if under_way > FILLS + PREPOSTED {
            return Err("there is no request for it".into());
        }
        Ok(())
    }

    fn take(&mut self, step: Step) -> Result<(), String> {
        let at_of = |wanted: Kind| (0..KINDS).find(|at| kind(*at) == wanted).expect("one of them");
        match step {
            Step::Send(at) => {
                self.to_send[at] -= 1;
                self.bodies[at].push_back(self.sent[at]);
                self.descriptors[at / 2].push_back((at, self.sent[at]));
                self.sent[at] += 1;
            }
            Step::Read(from) => {
                let (at, frame) = self.descriptors[from].pop_front().unwrap();
                self.read.push((at, frame));
                let number = self.read.len() as u64 - 1;
                if let Given::Process(ticket) = self.expected.announce(number, kind(at)) {
                    let place = self.early.iter().position(|(of, ..)| *of == ticket);
                    self.filled.push(self.early.remove(place.ok_or("it is not here")?));
                }
            }
            Step::Post => {
                let announced = self.expected.next().unwrap();
                let at = at_of(announced.kind);
                let ticket = self.expected.post(announced);
                self.posts(at, ticket)?;
            }
            Step::Match(at) => {
                let (frame, ticket) =
                    (self.bodies[at].pop_front().unwrap(), self.posted[at].pop_front().unwrap());
                self.done.push((ticket, at, frame));
            }
            Step::Find(place) => {
                let done = self.done.remove(place);
                let is_announced = self.expected.came(done.0);
                if is_announced { &mut self.filled } else { &mut self.early }.push(done);
            }
            Step::HandOut(place) => {
                let (ticket, at, frame) = self.filled.remove(place);
                let number = self.expected.take(ticket).ok_or("it is nobody's")?;
                if self.read[number as usize] != (at, frame) {
                    return Err(format!("frame {frame} of class {at} is handed out as another one"));
                }
                self.handed_out[at] += 1;
                if self.expected.may_post_ahead(kind(at)) {
                    let ticket = self.expected.post_ahead(kind(at));
                    self.posts(at, ticket)?;
                }
            }
        }
        Ok(())
    }
}

/// The number of worlds, or the fault of one of them.
fn explore(first: World) -> Result<usize, String> {
    let all = first.to_send;
    let mut seen = HashSet::from([first.clone()]);
    let mut open = vec![first];
    while let Some(world) = open.pop() {
        let steps = world.steps();
        if steps.is_empty() && world.handed_out != all {
            return Err("a frame is never handed out".into());
        }
        for step in steps {
            let mut next = world.clone();
            next.take(step).map_err(|what| format!("{what}, after {step:?}"))?;
            if seen.insert(next.clone()) {
                open.push(next);
            }
        }
    }
    Ok(seen.len())
}

#[test]
fn inv_ahead_each_frame_has_its_own_bytes() {
    let mut worlds = vec![[5, 0, 0, 0], [2, 2, 0, 0], [2, 0, 1, 0]];
    if std::env::var_os("CHANTER_STRESS").is_some() {
        worlds.extend([[7, 0, 0, 0], [3, 2, 0, 0], [2, 0, 2, 0], [1, 1, 1, 1]]);
    }
    for to_send in worlds {
        let count = explore(World::new(to_send, None)).unwrap();
        assert!(count > 100, "{count}");
    }
}

/// Each rule is needed.
#[test]
fn without_one_of_its_rules_a_frame_has_the_bytes_of_another() {
    for rule in [Rule::Give, Rule::Wait, Rule::One] {
        assert!(explore(World::new([5, 0, 0, 0], Some(rule))).is_err(), "{rule:?}");
    }
    let without = explore(World::new([7, 0, 0, 0], Some(Rule::Room)));
    assert!(without.is_err_and(|what| what.contains("there is no request for it")));
}

/// The room is given back, too.
#[test]
fn nothing_is_kept_of_what_was_handed_out() {
    let mut expected = Expected::default();
    let kind = kind(0);
    for number in 0..10 {
        match expected.announce(number, kind) {
            Given::Waits => {
                let announced = expected.next().unwrap();
                let ticket = expected.post(announced);
                assert!(expected.came(ticket));
                assert_eq!(expected.take(ticket), Some(number));
            }
            given => panic!("nothing is posted: {given:?}"),
        }
        let ticket = expected.post_ahead(kind);
        assert!(!expected.may_post_ahead(kind) && expected.is_preposted(ticket));
        assert!(!expected.came(ticket));
        let Given::Process(same) = expected.announce(number, kind) else { panic!("it has come") };
        assert_eq!((same, expected.take(ticket)), (ticket, Some(number)));
    }
    assert_eq!(expected, Expected { last: expected.last, ..Expected::default() });
}
