//! A link. An input is a sequence of acts of its user, the network and the clock, with frames of any content.

use std::time::{Duration, Instant};

use super::Input;
use crate::wire::{Arrival, Body, Header, Kind, LENGTH, LaneLink, NUMBERED, Pace};

const SESSION: u64 = 77;
const WINDOW: u32 = 4;

/// Checks `LaneLink`, INV-LINK-4: at most a window of arrivals is kept, and nothing is acknowledged that was not
/// sent.
pub fn target(bytes: &[u8]) {
    let pace = Pace { session: SESSION, window: WINDOW, ..Pace::default() };
    let mut link = LaneLink::new(pace);
    let (mut input, mut now) = (Input(bytes), Instant::now());
    let (mut sent, mut out, mut acknowledged, mut taken) = (0_u32, 0_u32, 0_u32, 0_u32);
    while !input.is_empty() {
        match input.byte() % 6 {
            0 => {
                let has_room = link.has_room();
                assert_eq!(link.send(message(sent), now).is_ok(), has_room);
                sent += u32::from(has_room);
            }
            1 => {
                if let Some(frame) = link.next_frame(0, now) {
                    let header =
                        Header::decode(frame.frame(), u32::MAX).expect("a link sends what has a header");
                    if header.flags & NUMBERED != 0 {
                        assert!(header.sequence < sent);
                        out = out.max(header.sequence + 1);
                    }
                    assert_eq!(header.acknowledgement, taken);
                }
            }
            2 => now += Duration::from_millis(input.byte().into()),
            // A frame of any bytes, and one that is nearly right.
            3 => {
                let length = usize::from(input.byte());
                arrives(&mut link, input.bytes(length).to_vec(), now, &mut acknowledged);
            }
            4 => {
                let (sequence, acknowledgement) = (input.byte(), input.byte());
                let mut frame = message(0);
                frame.set_sequence(taken.wrapping_add(sequence.into()).wrapping_sub(2));
                frame.set_acknowledgement(acknowledged.wrapping_add(acknowledgement.into()).wrapping_sub(2));
                frame.extend_from_slice(&SESSION.to_le_bytes());
                arrives(&mut link, frame.into_frame(), now, &mut acknowledged);
            }
            _ => {
                while link.take().is_some() {
                    taken += 1;
                }
            }
        }
        assert!(acknowledged <= out, "INV-LINK-4: what was not sent");
        assert_eq!(link.due().is_none(), link.is_idle(), "INV-LINK-3");
        assert_eq!(link.has_room(), sent - acknowledged < WINDOW, "INV-LINK-2");
    }
    link.abandon();
    assert!(link.is_idle() && link.due().is_none());
}

fn arrives(link: &mut LaneLink, frame: Vec<u8>, now: Instant, acknowledged: &mut u32) {
    let is_ours = frame.len() >= LENGTH && frame.ends_with(&SESSION.to_le_bytes());
    let Some(frame) = Body::of_frame(frame) else { return };
    let (arrival, new) = link.arrived(frame, now);
    assert!(is_ours || (arrival, new) == (Arrival::Refused, 0), "it is of another session");
    *acknowledged += new;
}

fn message(number: u32) -> Body {
    let mut body = Body::copied_from(&number.to_le_bytes());
    body.set_header(&Header { length: 4, ..Header::new(Kind::Message) });
    body
}

#[cfg(test)]
pub(super) fn seeds() -> Vec<(&'static str, Vec<u8>)> {
    let frame = |session: u64, kind: u8| {
        let mut bytes = message(1).into_frame();
        bytes[0] = kind;
        bytes.extend_from_slice(&session.to_le_bytes());
        [&[3, bytes.len() as u8][..], &bytes].concat()
    };
    vec![
        ("talk", vec![0, 1, 0, 1, 4, 2, 2, 4, 3, 2, 5, 4, 2, 4, 5, 1]),
        ("gap", vec![4, 4, 2, 4, 3, 2, 5, 4, 2, 2, 5, 1]),
        ("beyond-the-window", vec![4, 9, 2, 4, 5, 2, 5]),
        ("acknowledges-too-much", vec![0, 0, 1, 4, 2, 9, 4, 2, 3]),
        ("again", vec![0, 1, 2, 60, 1, 2, 120, 1, 4, 2, 3]),
        ("another-session", [frame(SESSION, 1), frame(SESSION + 1, 1)].concat()),
        ("no-kind", frame(SESSION, 99)),
        ("full", vec![0; 6]),
    ]
}
