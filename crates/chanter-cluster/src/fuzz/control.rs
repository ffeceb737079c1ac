//! Frames from a hostile process: a sequence of them with any bytes, with or without the right process and length in
//! their headers.

use std::sync::{Arc, OnceLock};

use chanter::prelude::*;

use super::Input;
use crate::RecvError;
use crate::engine::{Engine, Lane, Local, ProcessId, Sink};
use crate::inbox::{ANYONE, Inbox};
use crate::node::Node;
use crate::wire::{Body, Header, Kind, LENGTH};

const LANES: [Lane; 3] = [Lane::Control, Lane::User, Lane::Bulk];
const WINDOW: usize = 64;
/// Tag of messages that the process sends to itself.
const OWN: u32 = 0xffff_fff0;

/// Checks `Sink`: the process keeps at most a window of what comes for each inbox, and goes on.
///
/// # Panics
/// The check fails, or a machine cannot be made.
pub fn target(bytes: &[u8]) {
    static MACHINE: OnceLock<Machine> = OnceLock::new();
    let machine = MACHINE.get_or_init(|| Machine::builder().vps(1).build().expect("a machine"));
    let bytes = bytes.to_vec();
    machine.block_on(async move { frames_come(Input(&bytes)).await });
}

async fn frames_come(mut input: Input<'_>) {
    let [first, second] = <[Local; 2]>::try_from(Local::cluster(2)).expect("two");
    let node = Node::start(Arc::new(first), false);
    let open = node.open(Some("open")).expect("an inbox");
    let closed = node.open(Some("closed")).expect("an inbox");
    // No other process can end this port.
    let port = crate::Process::of(Arc::clone(&node)).port::<u32>().expect("a port");
    let sender = port.sender();
    // Messages to the hostile process, so that there is something to acknowledge.
    let there = {
        let mut name = open.name();
        name.process = ProcessId(1);
        name
    };
    for number in 0..3_u32 {
        assert_eq!(open.send(there, number, &number).await, Ok(()));
    }
    drop(closed);
    let mut messages = 0;
    while !input.is_empty() {
        let frame = frame(&mut input);
        messages += usize::from(frame.frame()[0] == Kind::Message as u8);
        let lane = LANES[usize::from(input.byte()) % LANES.len()];
        if second.try_send(ProcessId(0), lane, frame).is_err() {
            while node.poll().has_found() {}
        }
    }
    while node.poll().has_found() {}
    assert!(open.len() <= messages.min(WINDOW), "a window's worth, and what was sent");
    goes_on(&node, &open).await;
    while let Some(got) = port.recv().try_sync() {
        assert_ne!(got, Err(RecvError::Closed), "it has a sender");
    }
    drop((sender, port));
    let mut answers = Answers(0);
    while second.poll(64, &mut answers).has_found() {}
}

/// Checks that the process's own threads talk as before.
async fn goes_on(node: &Arc<Node>, open: &Inbox) {
    assert_eq!(node.lookup("open@0").await, Ok(open.name()));
    let me = node.open(None).expect("an inbox");
    assert_eq!(me.send(open.name(), OWN, "still there").await, Ok(()));
    let got = open.recv::<String>(me.name(), OWN).await.expect("a message");
    assert_eq!(got.value, "still there");
    // Messages from the other process may or may not be values; they are taken out either way.
    while open.recv::<u32>(ANYONE, crate::ANY_TAG).try_sync().is_some() {}
    assert!(open.is_empty());
}

fn frame(input: &mut Input<'_>) -> Body {
    let (how, length) = (input.byte(), usize::from(input.byte()));
    let mut bytes = input.bytes(LENGTH + length % 64).to_vec();
    bytes.resize(bytes.len().max(LENGTH), 0);
    let body = (bytes.len() - LENGTH) as u32;
    if how & 1 == 0 {
        bytes[24..28].copy_from_slice(&1_u32.to_le_bytes());
    }
    if how & 2 == 0 {
        bytes[28..32].copy_from_slice(&body.to_le_bytes());
    }
    if how & 4 == 0 {
        bytes[0] = bytes[0] % 22 + 1;
    }
    if how & 8 == 0 {
        // To the open inbox, or from the thread to which this process has sent.
        let slot = crate::wire::Slot { index: 0, generation: 1 };
        let header = Header { to: slot, from: slot, ..Header::new(Kind::Message) }.encode();
        bytes[8..24].copy_from_slice(&header[8..24]);
    }
    Body::of_frame(bytes).expect("there is a header")
}

/// The answers of the process.
struct Answers(usize);

impl Sink for Answers {
    fn arrived(&mut self, from: ProcessId, _lane: Lane, frame: Body) {
        let header = Header::decode(frame.frame(), u32::MAX).expect("a header");
        assert_eq!((header.process, from), (0, ProcessId(0)));
        assert_eq!(header.length as usize, frame.len());
        self.0 += 1;
    }

    fn peer(&mut self, _peer: ProcessId, _change: crate::engine::Change) {}
}

#[cfg(test)]
pub(super) fn seeds() -> Vec<(&'static str, Vec<u8>)> {
    use crate::wire::CARRIES;

    let header = |kind| Header { tag: 1, credit: 2, request: 9, ..Header::new(kind) };
    let frame = |how: u8, header: Header, body: &[u8]| {
        let mut bytes = header.encode().to_vec();
        bytes[0] -= 1;
        [&[how, body.len() as u8][..], &bytes, body, &[1]].concat()
    };
    let stale = crate::wire::Slot { index: 1, generation: 1 };
    let never = crate::wire::Slot { index: u32::MAX, generation: u32::MAX };
    let message = frame(0, header(Kind::Message), b"hello");
    let port = crate::wire::Slot { index: 2, generation: 1 };
    // Ports of this process, of the hostile one, and of none; then their count, and the transfer's number.
    let words: [u32; 12] = [0, 2, 1, 1, 7, 1, 9, 9, 9, 3, 5, 0];
    let ports = [&b"x"[..], words.map(u32::to_le_bytes).as_flattened()].concat();
    let carrying = |flags: u8, body: &[u8]| frame(0, Header { flags, ..header(Kind::Message) }, body);
    let lookup = |name: &[u8]| frame(0, header(Kind::Lookup), name);
    vec![
        ("message", message.clone()),
        ("flood", message.repeat(70)),
        ("stale", frame(8, Header { to: stale, ..header(Kind::Message) }, b"x")),
        ("never", frame(8, Header { to: never, ..header(Kind::Message) }, b"x")),
        ("another-process", frame(1, Header { process: 7, ..header(Kind::Message) }, b"x")),
        ("another-length", frame(2, Header { length: u32::MAX, ..header(Kind::Message) }, b"x")),
        (
            "lookups",
            [lookup(b"open"), lookup(b"closed"), lookup(b"nobody"), lookup(&[0xff; 9]), lookup(b"")].concat(),
        ),
        (
            "found",
            [frame(0, header(Kind::Found), b""), frame(0, Header { request: 1, ..header(Kind::Found) }, b"")]
                .concat(),
        ),
        (
            "credit",
            frame(0, Header { credit: u16::MAX, request: u64::MAX, ..header(Kind::Acknowledge) }, b""),
        ),
        ("gone", [frame(0, header(Kind::Gone), b""), frame(0, header(Kind::Acknowledge), b"")].concat()),
        (
            "ports",
            [
                Kind::Hold,
                Kind::Held,
                Kind::Release,
                Kind::Unpacked,
                Kind::Confirm,
                Kind::Confirmed,
                Kind::Hold,
            ]
            .map(|kind| frame(0, Header { tag: 0, to: port, request: 1, ..Header::new(kind) }, b""))
            .concat(),
        ),
        (
            "senders",
            [carrying(0, &ports), carrying(CARRIES, &ports), carrying(CARRIES, &ports[..9])].concat(),
        ),
        ("all", (0..12).flat_map(|kind| [&[4, 0, kind][..], &[0; LENGTH - 1], &[0]].concat()).collect()),
    ]
}
