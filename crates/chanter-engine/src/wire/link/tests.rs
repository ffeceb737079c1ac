use std::time::{Duration, Instant};

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::wire::LENGTH;

const WINDOW: u32 = 4;

fn pace() -> Pace {
    Pace { session: 77, window: WINDOW, ..Pace::default() }
}

/// A frame whose body is its number.
fn frame(number: u32) -> Body {
    let mut body = Body::copied_from(&number.to_le_bytes());
    body.set_header(&Header { length: 4, ..Header::new(Kind::Message) });
    body
}

fn number(frame: &Body) -> u32 {
    u32::from_le_bytes(frame.as_ref().try_into().unwrap())
}

/// The next step of the network, the users or the clock. `end` is 0 or 1; numbers are taken round.
#[derive(Clone, Debug)]
enum Step {
    Send {
        end: usize,
    },
    /// The engine takes all that the link has for it.
    Flush {
        end: usize,
    },
    /// One of the frames that are on their way to `end` comes, wherever it is in the row.
    Deliver {
        end: usize,
        which: usize,
    },
    Duplicate {
        end: usize,
        which: usize,
    },
    Lose {
        end: usize,
        which: usize,
    },
    Pass {
        milliseconds: u64,
    },
}

fn step() -> impl Strategy<Value = Step> {
    let (end, which) = (0..2_usize, 0..16_usize);
    prop_oneof![
        3 => end.clone().prop_map(|end| Step::Send { end }),
        3 => end.clone().prop_map(|end| Step::Flush { end }),
        5 => (end.clone(), which.clone()).prop_map(|(end, which)| Step::Deliver { end, which }),
        1 => (end.clone(), which.clone()).prop_map(|(end, which)| Step::Duplicate { end, which }),
        2 => (end, which).prop_map(|(end, which)| Step::Lose { end, which }),
        1 => (0..2_000_u64).prop_map(|milliseconds| Step::Pass { milliseconds }),
    ]
}

/// Two ends, and the frames that are on their way to each.
struct Network {
    ends: [LaneLink; 2],
    on_their_way: [Vec<Body>; 2],
    sent: [u32; 2],
    taken: [u32; 2],
    acknowledged: [u32; 2],
    now: Instant,
}

impl Network {
    fn new(first: u32, acknowledge: Duration) -> Self {
        Self {
            ends: [(); 2].map(|()| LaneLink::starting_at(first, Pace { acknowledge, ..pace() })),
            on_their_way: Default::default(),
            sent: [0; 2],
            taken: [0; 2],
            acknowledged: [0; 2],
            now: Instant::now(),
        }
    }

    fn flush(&mut self, end: usize) {
        while let Some(frame) = self.ends[end].next_frame(end as u32, self.now) {
            self.on_their_way[1 - end].push(frame);
        }
    }

    fn deliver(&mut self, end: usize, frame: Body) {
        let (arrival, acknowledged) = self.ends[end].arrived(frame, self.now);
        assert_ne!(arrival, Arrival::Refused, "the peer keeps to its window");
        self.acknowledged[end] += acknowledged;
        while let Some(frame) = self.ends[end].take() {
            assert_eq!(number(&frame), self.taken[end], "INV-LINK-1");
            assert_eq!(frame, self::frame(self.taken[end]), "it is as it was sent");
            self.taken[end] += 1;
        }
    }

    fn step(&mut self, step: &Step) {
        match *step {
            Step::Send { end } => {
                let room = self.ends[end].has_room();
                let sent = self.ends[end].send(frame(self.sent[end]), self.now);
                assert_eq!(sent.map_err(|frame| number(&frame)), room.then_some(()).ok_or(self.sent[end]));
                self.sent[end] += u32::from(room);
            }
            Step::Flush { end } => self.flush(end),
            Step::Pass { milliseconds } => self.now += Duration::from_millis(milliseconds),
            Step::Deliver { end, which } | Step::Duplicate { end, which } | Step::Lose { end, which } => {
                let frames = &mut self.on_their_way[end];
                if frames.is_empty() {
                    return;
                }
                let which = which % frames.len();
                match step {
                    Step::Duplicate { .. } => {
                        let copy = frames[which].clone();
                        frames.push(copy);
                    }
                    Step::Lose { .. } => drop(frames.swap_remove(which)),
                    _ => {
                        let frame = frames.swap_remove(which);
                        self.deliver(end, frame);
                    }
                }
            }
        }
        for end in 0..2 {
            assert!(self.acknowledged[end] <= self.taken[1 - end], "INV-LINK-2: what did not come");
            assert!(self.taken[1 - end] <= self.sent[end], "INV-LINK-2: what was not sent");
        }
    }

    /// From now on nothing is lost: everything comes, after a number of resends that is bounded.
    fn heal(&mut self) {
        for _ in 0..4 * (self.sent[0] + self.sent[1]) + 8 {
            for end in [0, 1, 0, 1] {
                self.flush(end);
                for frame in std::mem::take(&mut self.on_their_way[1 - end]) {
                    self.deliver(1 - end, frame);
                }
            }
            let due = self.ends.iter().flat_map(|end| [end.due(), end.owes()]).flatten().min();
            self.now = self.now.max(due.unwrap_or(self.now));
        }
        for end in 0..2 {
            assert_eq!(self.taken[1 - end], self.sent[end]);
            assert_eq!(self.acknowledged[end], self.sent[end]);
            assert!(self.ends[end].is_idle() && self.ends[end].due().is_none());
        }
    }
}

proptest! {
    /// INV-LINK-1 to 3, whatever the network does; also where the numbers begin again at 0.
    #[test]
    fn each_frame_is_taken_once_and_in_order(
        first in prop_oneof![Just(0), (u32::MAX - 20)..=u32::MAX, any::<u32>()],
        acknowledge in prop_oneof![Just(0), 1..50_u64].prop_map(Duration::from_millis),
        steps in vec(step(), 0..200),
    ) {
        let mut network = Network::new(first, acknowledge);
        steps.iter().for_each(|step| network.step(step));
        network.heal();
    }

    /// INV-LINK-4: whatever comes, no panic, no more than a window is kept, nothing is given twice.
    #[test]
    fn whatever_arrives_is_bounded(
        first in any::<u32>(),
        frames in vec((vec(any::<u8>(), 0..80), 0..6_u32, any::<bool>(), any::<bool>(), any::<u32>()), 0..100),
    ) {
        let now = Instant::now();
        let mut link = LaneLink::starting_at(first, pace());
        let (mut acknowledged, mut taken, mut out) = (0, 0, 0);
        for (mut bytes, near, is_ours, is_near, other) in frames {
            if is_ours && bytes.len() >= LENGTH {
                bytes[0] = Kind::Message as u8;
                bytes.extend_from_slice(&pace().session.to_le_bytes());
            }
            let Some(mut frame) = Body::of_frame(bytes) else { continue };
            let _ = link.send(super::tests::frame(0), now);
            if is_near && let Some(frame) = link.next_frame(0, now) {
                out += u32::from(frame.frame()[1] & NUMBERED);
            }
            frame.set_acknowledgement(if is_near { first.wrapping_add(near) } else { other });
            if is_near {
                frame.set_sequence(first.wrapping_add(taken).wrapping_add(near));
            }
            let (arrival, new) = link.arrived(frame, now);
            prop_assert!(is_ours || arrival == Arrival::Refused);
            acknowledged += new;
            prop_assert!(acknowledged <= out, "what was not sent");
            while link.take().is_some() {
                taken += 1;
            }
            prop_assert!(link.early.len() <= WINDOW as usize && link.unacknowledged.len() <= WINDOW as usize);
        }
        prop_assert_eq!(link.expected, first.wrapping_add(taken));
    }
}

fn exchange(from: &mut LaneLink, to: &mut LaneLink, now: Instant) -> Vec<Arrival> {
    let mut arrivals = Vec::new();
    while let Some(frame) = from.next_frame(0, now) {
        arrivals.push(to.arrived(frame, now).0);
        while to.take().is_some() {}
    }
    arrivals
}

#[test]
fn a_frame_of_another_session_is_refused() {
    let now = Instant::now();
    let mut old = LaneLink::new(Pace { session: 76, ..pace() });
    let mut new = LaneLink::new(pace());
    old.send(frame(0), now).unwrap();
    assert_eq!(exchange(&mut old, &mut new, now), [Arrival::Refused]);
    assert_eq!((new.expected, new.owes), (0, None));
}

#[test]
fn a_frame_beyond_the_window_is_given_back_until_there_is_room() {
    let now = Instant::now();
    let (mut here, mut there) = (LaneLink::new(pace()), LaneLink::new(pace()));
    (0..WINDOW).for_each(|number| here.send(frame(number), now).unwrap());
    assert_eq!(here.send(frame(WINDOW), now).map_err(|frame| number(&frame)), Err(WINDOW));
    exchange(&mut here, &mut there, now);
    exchange(&mut there, &mut here, now);
    assert!(here.is_idle() && here.due().is_none());
    here.send(frame(WINDOW), now).unwrap();
}

/// A frame that the engine was not given cannot have arrived.
#[test]
fn a_fresh_frame_is_not_acknowledged() {
    let now = Instant::now();
    let (mut here, mut there) = (LaneLink::new(pace()), LaneLink::new(pace()));
    here.send(frame(0), now).unwrap();
    there.owes = Some(now);
    let mut forged = there.next_frame(0, now).unwrap();
    forged.set_acknowledgement(1);
    assert_eq!(here.arrived(forged.clone(), now), (Arrival::Heard, 0));
    assert!(here.next_frame(0, now).is_some());
    assert_eq!(here.arrived(forged, now), (Arrival::Heard, 1));
}

#[test]
fn a_frame_is_sent_again_ever_more_slowly_until_the_peer_is_lost() {
    let begun = Instant::now();
    let mut link = LaneLink::new(pace());
    link.send(frame(0), begun).unwrap();
    assert!(link.next_frame(0, begun).is_some());
    let (mut tries, mut last, mut pause) = (0, begun, Duration::ZERO);
    while let Some(due) = link.due().filter(|due| !link.is_lost(*due)) {
        assert!(due - last >= pause && due - last <= pace().slowest);
        assert!(link.next_frame(0, due - Duration::from_nanos(1)).is_none(), "early");
        assert_eq!(link.next_frame(0, due).map(|frame| frame.len()), Some(12));
        assert!(link.next_frame(0, due).is_none(), "twice");
        (pause, last, tries) = (due - last, due, tries + 1);
    }
    assert!(tries > 20);
    assert!(link.due().is_some_and(|due| due - begun >= pace().lost_after));
}

/// One resend for each gap: the next suspect goes as soon as the one before is acknowledged.
#[test]
fn all_frames_of_a_lost_window_go_again_without_more_timers() {
    let now = Instant::now();
    let (mut here, mut there) = (LaneLink::new(pace()), LaneLink::new(pace()));
    (0..4).for_each(|number| here.send(frame(number), now).unwrap());
    while here.next_frame(0, now).is_some() {}
    let due = here.due().unwrap();
    for _ in 0..4 {
        assert_eq!(exchange(&mut here, &mut there, due), [Arrival::Kept]);
        assert_eq!(exchange(&mut there, &mut here, due), [Arrival::Heard]);
    }
    assert!(here.is_idle());
}

fn patient() -> Pace {
    Pace { window: 16, acknowledge: Duration::from_millis(10), ..pace() }
}

/// INV-LINK-5: what goes the other way takes the acknowledgement along; without that, it goes by itself when it is due.
#[test]
fn an_acknowledgement_waits_for_company_but_not_for_long() {
    let now = Instant::now();
    let (mut here, mut there) = (LaneLink::new(patient()), LaneLink::new(patient()));
    here.send(frame(0), now).unwrap();
    exchange(&mut here, &mut there, now);
    let due = there.owes().unwrap();
    assert_eq!(due, now + patient().acknowledge);
    assert!(there.next_frame(0, due - Duration::from_nanos(1)).is_none(), "early");
    there.send(frame(0), now).unwrap();
    assert_eq!(exchange(&mut there, &mut here, now), [Arrival::Kept]);
    assert!(here.is_idle() && there.owes().is_none());
    let due = here.owes().unwrap();
    assert_eq!(exchange(&mut here, &mut there, due), [Arrival::Heard]);
    assert!(there.is_idle() && here.owes().is_none());
}

/// The sender is not kept waiting by a window that is owed.
#[test]
fn a_quarter_of_a_window_is_acknowledged_at_once() {
    let now = Instant::now();
    let (mut here, mut there) = (LaneLink::new(patient()), LaneLink::new(patient()));
    (0..4).for_each(|number| here.send(frame(number), now).unwrap());
    exchange(&mut here, &mut there, now);
    assert_eq!(exchange(&mut there, &mut here, now), [Arrival::Heard]);
    assert!(here.is_idle());
}

/// And so is a frame that was sent again: others wait behind it.
#[test]
fn a_frame_that_was_lost_is_acknowledged_at_once() {
    let now = Instant::now();
    let (mut here, mut there) = (LaneLink::new(patient()), LaneLink::new(patient()));
    (0..8).for_each(|number| here.send(frame(number), now).unwrap());
    while here.next_frame(0, now).is_some() {}
    let due = here.due().unwrap();
    for _ in 0..8 {
        assert_eq!(exchange(&mut here, &mut there, due), [Arrival::Kept]);
        assert_eq!(exchange(&mut there, &mut here, due), [Arrival::Heard]);
    }
    assert!(here.is_idle());
}
