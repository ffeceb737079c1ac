//! The memory that processes share. Process 0 receives, 1 keeps to the protocol, and 2 writes arbitrary bits.
//!
//! If the first byte is even, 2 writes into its own slots, the ports and the links, which are hints. Then all that 1
//! has sent comes, once and in order. If the byte is odd, 2 writes anywhere, and harms only messages.

use super::Input;
use crate::shm::pull::{Found, Incoming, Info, LANES, Link, Memory, Outgoing, Port, Quota, Slot, stamp};
use crate::shm::{Assemble, LONGEST};

const PROCESSES: usize = 3;
const SLOTS: usize = 6;
const HONEST: usize = 1;
const HOSTILE: usize = 2;
const QUOTA: Quota = Quota { lanes: [4; LANES], reserve: 1, names_next: true };

struct Segment {
    slots: Vec<Slot>,
    ports: Vec<Port>,
}

impl Memory for Segment {
    fn processes(&self) -> usize {
        PROCESSES
    }

    fn slots(&self) -> usize {
        SLOTS
    }

    fn slot(&self, process: usize, slot: usize) -> &Slot {
        assert!(process < PROCESSES && slot < SLOTS, "it is in bounds");
        &self.slots[process * SLOTS + slot]
    }

    fn port(&self, process: usize) -> &Port {
        &self.ports[process]
    }
}

struct Node {
    segment: Segment,
    incoming: Incoming,
    /// Sending sides of all three processes.
    outgoing: Vec<Outgoing>,
    begun: [Vec<u8>; LANES],
    /// Number of messages sent by the honest process.
    sent: u64,
    came: u64,
    is_confined: bool,
}

/// Checks INV-PULL.
pub fn target(bytes: &[u8]) {
    run(bytes, |_| ());
}

fn run(bytes: &[u8], prepare: impl FnOnce(&mut Incoming)) {
    let mut input = Input(bytes);
    let mut node = Node::new(input.byte().is_multiple_of(2));
    prepare(&mut node.incoming);
    while !input.is_empty() {
        node.step(&mut input);
    }
    // No process writes any more, so in the end all published pieces are found.
    for _ in 0..=SLOTS {
        node.incoming.scan(&node.segment);
        for taken in 0.. {
            assert!(taken <= PROCESSES * SLOTS, "what lies there is taken once");
            if !node.take() {
                break;
            }
        }
    }
    if node.is_confined {
        assert_eq!(node.came, node.sent, "INV-PULL: nothing is lost");
    }
}

impl Node {
    fn new(is_confined: bool) -> Self {
        let segment = Segment {
            slots: (0..PROCESSES * SLOTS).map(|_| Slot::new()).collect(),
            ports: (0..PROCESSES).map(|_| Port::new()).collect(),
        };
        Self {
            incoming: Incoming::new(0, &segment),
            outgoing: (0..PROCESSES).map(|me| Outgoing::new(me, QUOTA, &segment)).collect(),
            segment,
            begun: Default::default(),
            sent: 0,
            came: 0,
            is_confined,
        }
    }

    fn step(&mut self, input: &mut Input<'_>) {
        match input.byte() % 8 {
            0 => {
                let number = self.sent.to_le_bytes();
                self.sent += u64::from(self.send(HONEST, 0, input.byte(), &number));
            }
            1 => {
                self.take();
            }
            2 => self.incoming.scan(&self.segment),
            3 => {
                // It takes room that others ask for, and is a receiver that frees nothing.
                self.send(0, HOSTILE, input.byte(), b"something");
                self.segment.port(HOSTILE).is_to_be_woken();
            }
            4 => {
                self.send(HOSTILE, 0, input.byte(), b"something else");
            }
            5 => {
                let (at, bits) = (input.byte(), input.long());
                self.scribble(at, input.byte(), bits);
            }
            6 => {
                let (at, field) = (input.byte(), input.byte());
                let bits = Self::plausible(input);
                self.scribble(at, field, bits);
            }
            _ => {
                let (field, bits) = (input.byte(), Self::plausible(input));
                self.segment.port(usize::from(field >> 4) % PROCESSES).scribble(field, bits);
            }
        }
        assert!(self.begun.iter().all(|begun| begun.len() <= LONGEST));
    }

    fn send(&mut self, from: usize, to: usize, lane: u8, bytes: &[u8]) -> bool {
        let info = Info {
            length: bytes.len(),
            lane: usize::from(lane) % LANES,
            has_more: from == HOSTILE && lane > 127,
        };
        self.outgoing[from].send(&self.segment, to, info, bytes).is_ok()
    }

    /// Bits with a meaning: a link, or a slot's stamp.
    fn plausible(input: &mut Input<'_>) -> u64 {
        let [process, slot, number] = input.array::<3>();
        let (process, number) = (usize::from(process), u64::from(number % 8));
        match process & 0x80 {
            0 => Link { process: process % PROCESSES, slot: usize::from(slot) % (SLOTS + 1), number }.bits(),
            _ => stamp(process % PROCESSES, number),
        }
    }

    fn scribble(&self, at: u8, field: u8, bits: u64) {
        let (at, field) = (usize::from(at), if self.is_confined && at < 128 { 1 } else { field });
        let process = if !self.is_confined { at % PROCESSES } else { HOSTILE - usize::from(at < 128) };
        self.segment.slot(process, at / PROCESSES % SLOTS).scribble(field, bits);
    }

    /// Takes the next piece. False: there was none.
    fn take(&mut self) -> bool {
        let Found::Piece(from, piece) = self.incoming.take(&self.segment) else { return false };
        assert_ne!(from, 0, "nobody sends to himself");
        if from == HONEST && self.is_confined {
            let mut bytes = Vec::new();
            piece.copy_to(&mut bytes);
            assert_eq!(bytes, self.came.to_le_bytes(), "INV-PULL: once, and in order");
            self.came += 1;
        } else if let Ok(Some((_, frame))) = self.begun.assemble(&piece) {
            assert!(frame.frame().len() <= LONGEST);
        }
        true
    }
}

#[cfg(test)]
pub(super) fn seeds() -> Vec<(&'static str, Vec<u8>)> {
    let link = |process: u8, slot: u8, number: u8| [process, slot, number];
    let ports = |field: u8, link: [u8; 3]| [&[7, field][..], &link].concat();
    let slots = |at: u8, field: u8, link: [u8; 3]| [&[6, at, field][..], &link].concat();
    let talk = [0, 0, 1, 0, 1, 1, 0, 2, 4, 0, 1, 1, 1];
    vec![
        ("talk", [&[0][..], &talk, &talk].concat()),
        ("full", [&[0][..], &[0, 1].repeat(20), &[1].repeat(6), &[0, 1].repeat(8)].concat()),
        ("scan", vec![0, 0, 0, 0, 0, 2, 1, 0, 0, 1, 1, 2, 1, 1]),
        ("tail-lost", [&[0, 0, 0, 0, 0][..], &[7, 0], &[0, 0, 0], &[1, 1, 0, 0, 1, 1]].concat()),
        ("tail-astray", [vec![0, 0, 0], ports(0, link(2, 3, 1)), vec![1, 0, 0, 1, 1]].concat()),
        ("first-astray", [vec![0, 0, 0], ports(1, link(1, 6, 1)), vec![1, 1]].concat()),
        (
            "circle",
            [vec![0, 0, 0, 0, 0], slots(3, 1, link(1, 5, 1)), slots(0, 1, link(1, 5, 1)), vec![1; 5]]
                .concat(),
        ),
        (
            "stamps",
            [vec![0], slots(128, 0, [0x80 + 1, 0, 1]), slots(131, 0, [0x80 + 1, 0, 1]), vec![2, 1, 1]]
                .concat(),
        ),
        ("numbers", [&[1, 4, 0, 4, 0, 5, 2, 0][..], &[0xff; 8], &[0, 1, 1, 2, 1]].concat()),
        (
            "anywhere",
            [vec![1, 0, 0, 3, 0], slots(1, 0, link(2, 1, 1)), slots(3, 2, [9; 3]), vec![1, 3, 1, 2, 1]]
                .concat(),
        ),
        ("room", [&[1][..], &[3, 0].repeat(12), &[7, 0x23, 0, 0, 1], &[3, 1]].concat()),
    ]
}

/// Checks that the target notices a receiver that breaks a rule.
#[test]
fn a_receiver_without_a_rule_is_found_out() {
    use crate::shm::pull::Rules;

    let all = Rules { numbers: true, scans: true, passes: true };
    let fails = |rules: Rules| {
        seeds().iter().any(|(_, bytes)| {
            std::panic::catch_unwind(|| run(bytes, |incoming| incoming.rules = rules)).is_err()
        })
    };
    assert!(!fails(all));
    assert!(fails(Rules { numbers: false, ..all }));
    assert!(fails(Rules { scans: false, ..all }));
}
