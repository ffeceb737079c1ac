//! Loom models of push. How to run them: `cargo xtask loom push`.

use std::sync::atomic::Ordering::{self, Relaxed};

use loom::sync::Arc;
use loom::thread::{self, JoinHandle};

use super::super::models::{INFO, Node, RECEIVER, check, needs};
use super::super::pull::{Found, Info, Memory};
use super::super::sync::{ENDS_AT, YIELDS};
use super::{Incoming, Outgoing};

/// Rings of one slot for control and bulk, and of two for users.
const SLOTS: usize = 4;
const CONTROL: Info = INFO;

/// A process that sends `count` bytes, each a piece, as far as there is room at once. It ends at the point `ends_at` of the
/// first piece, if that is given. Its value: its side, and the number of sent pieces.
fn sender(
    node: &Arc<Node>,
    me: usize,
    info: Info,
    count: u8,
    ends_at: Option<&'static str>,
) -> JoinHandle<(Outgoing, u8)> {
    let node = Arc::clone(node);
    thread::spawn(move || {
        let mut outgoing = Outgoing::new(me, &*node);
        ENDS_AT.with(|at| at.set(ends_at));
        let mut sent = 0;
        while sent < count && outgoing.send(&*node, RECEIVER, info, &[sent]).is_ok() {
            sent += 1;
            // The receiver may look between two pieces.
            thread::yield_now();
        }
        (outgoing, sent)
    })
}

/// The bytes that have come from each process.
#[derive(Default)]
struct Got([Vec<u8>; 3]);

impl Got {
    /// Takes all pieces that are there.
    fn take(&mut self, incoming: &mut Incoming, node: &Node) {
        loop {
            match incoming.take(node) {
                Found::Piece(from, piece) => piece.copy_to(&mut self.0[from]),
                Found::Nothing => return,
                found => panic!("INV-PUSH: all keep to the protocol, and there is {found:?}"),
            }
        }
    }

    fn is(&self, first: u8, second: u8) {
        let sent = |count: u8| (0..count).collect::<Vec<u8>>();
        assert_eq!(self.0, [vec![], sent(first), sent(second)], "INV-PUSH");
    }
}

/// Two processes send a piece each, and the receiver looks meanwhile and afterwards. With room for one piece, one of
/// them may find none.
fn sent_by_two(info: Info) {
    let node = Node::new(SLOTS);
    let senders = [1, 2].map(|me| sender(&node, me, info, 1, None));
    let mut incoming = Incoming::new(RECEIVER, &*node);
    let mut got = Got::default();
    // The senders begin.
    thread::yield_now();
    got.take(&mut incoming, &node);
    let [first, second] = senders.map(|sender| sender.join().unwrap().1);
    got.take(&mut incoming, &node);
    let least = if info.lane == 1 { 2 } else { 1 };
    assert!(first + second >= least, "INV-PUSH: there is room");
    got.is(first, second);
    assert!(!incoming.places().has_work(&*node));
}

#[test]
fn what_is_pushed_is_taken_once_and_in_order() {
    check(|| sent_by_two(Info { lane: 1, ..INFO }));
    check(|| sent_by_two(CONTROL));
}

/// One process sends two pieces by a ring of one slot. The receiver looks twice, so there is room for the second one or
/// not.
fn sent_again() {
    let node = Node::new(SLOTS);
    let sending = sender(&node, 1, CONTROL, 2, None);
    let mut incoming = Incoming::new(RECEIVER, &*node);
    let mut got = Got::default();
    for _ in 0..2 {
        thread::yield_now();
        got.take(&mut incoming, &node);
    }
    let (_, sent) = sending.join().unwrap();
    got.take(&mut incoming, &node);
    got.is(sent, 0);
}

#[test]
fn slots_are_claimed_again() {
    check(sent_again);
}

/// One process sends several pieces, and the receiver looks meanwhile: it may pass over the first claim, and then find the
/// second one.
fn sent_in_a_row(count: u8) {
    let node = Node::new(SLOTS);
    let sending = sender(&node, 1, Info { lane: 1, ..INFO }, count, None);
    let mut incoming = Incoming::new(RECEIVER, &*node);
    let mut got = Got::default();
    thread::yield_now();
    got.take(&mut incoming, &node);
    assert!(!incoming.is_odd(), "INV-PUSH: a second claim comes after the first piece");
    let (_, sent) = sending.join().unwrap();
    assert_eq!(sent, count, "INV-PUSH: there is room");
    got.take(&mut incoming, &node);
    got.is(count, 0);
    assert!(!incoming.is_odd());
}

/// The receiver passes over the first claim of a process. It looks again when the first piece is published and the second
/// slot is claimed.
fn passed_twice() {
    let node = Node::new(SLOTS);
    let sending = {
        let node = Arc::clone(&node);
        thread::spawn(move || {
            YIELDS.with(|yields| yields.set(true));
            let mut outgoing = Outgoing::new(1, &*node);
            for number in 0..2 {
                outgoing
                    .send(&*node, RECEIVER, Info { lane: 1, ..INFO }, &[number])
                    .expect("INV-PUSH: there is room");
            }
        })
    };
    let mut incoming = Incoming::new(RECEIVER, &*node);
    let mut got = Got::default();
    thread::yield_now();
    got.take(&mut incoming, &node);
    // The sender passes four points: claimed, filled and published, and the second claim.
    (0..4).for_each(|_| thread::yield_now());
    got.take(&mut incoming, &node);
    assert!(!incoming.is_odd(), "INV-PUSH: a second claim comes after the first piece");
    sending.join().unwrap();
    got.take(&mut incoming, &node);
    got.is(2, 0);
    assert!(!incoming.is_odd());
}

#[test]
fn a_claim_after_a_passed_one_is_no_nonsense() {
    check(|| sent_in_a_row(2));
    check(passed_twice);
}

/// One process dies at a point, and the other one goes on. The receiver learns of the death and scans at any time.
fn one_dies(at: &'static str) {
    let node = Node::new(SLOTS);
    let info = Info { lane: 1, ..INFO };
    let dying = sender(&node, 2, info, 1, Some(at));
    let other = sender(&node, 1, info, 1, None);
    let mut incoming = Incoming::new(RECEIVER, &*node);
    let mut got = Got::default();
    dying.join().unwrap();
    incoming.scan(&*node);
    got.take(&mut incoming, &node);
    // The death is reported once the scan is over, perhaps already now.
    let early = (!incoming.is_scanning(&*node)).then_some(got.0[2].len());
    let (mut other, sent) = other.join().unwrap();
    assert_eq!(sent, 1, "INV-PUSH: there is room");
    got.take(&mut incoming, &node);
    assert!(!incoming.is_scanning(&*node), "INV-PUSH: what was published is taken");
    let of_the_dead = early.unwrap_or(got.0[2].len());
    incoming.forget(&*node, 2);
    // Frees the slot of the piece that was taken last.
    got.take(&mut incoming, &node);
    for number in [1, 2] {
        other.send(&*node, RECEIVER, info, &[number]).expect("INV-PUSH: no slot is lost");
    }
    got.take(&mut incoming, &node);
    got.is(3, u8::from(at == "push.published"));
    assert_eq!(got.0[2].len(), of_the_dead, "INV-PUSH: nothing comes after the scan");
    assert!(!incoming.is_odd() && !incoming.places().has_work(&*node));
}

#[test]
fn who_dies_leaves_what_was_published_and_no_claim() {
    for at in ["push.claimed", "push.filled", "push.published"] {
        check(move || one_dies(at));
    }
}

/// INV-NOTIFY: a receiver that falls asleep while a piece is sent sees the piece or is woken.
fn woken() {
    let node = Node::new(SLOTS);
    let incoming = Incoming::new(RECEIVER, &*node);
    let sending = {
        let node = Arc::clone(&node);
        thread::spawn(move || {
            Outgoing::new(1, &*node).send(&*node, RECEIVER, INFO, &[1]).unwrap();
            node.port(RECEIVER).is_to_be_woken()
        })
    };
    node.port(RECEIVER).fall_asleep();
    let sleeps = !incoming.places().has_work(&*node);
    let rings = sending.join().unwrap();
    assert!(!sleeps || rings, "INV-NOTIFY: it sleeps, and nobody wakes it");
}

/// INV-NOTIFY for a claim that the receiver has passed over before.
fn woken_by_what_was_passed() {
    let node = Node::new(SLOTS);
    let mut incoming = Incoming::new(RECEIVER, &*node);
    let sending = {
        let node = Arc::clone(&node);
        thread::spawn(move || {
            Outgoing::new(1, &*node).send(&*node, RECEIVER, INFO, &[0]).unwrap();
            node.port(RECEIVER).is_to_be_woken()
        })
    };
    let mut got = Got::default();
    got.take(&mut incoming, &node);
    node.port(RECEIVER).fall_asleep();
    let sleeps = !incoming.places().has_work(&*node);
    let rings = sending.join().unwrap();
    assert!(!got.0[1].is_empty() || !sleeps || rings, "INV-NOTIFY: it sleeps, and nobody wakes it");
    got.take(&mut incoming, &node);
    got.is(1, 0);
}

#[test]
fn who_falls_asleep_sees_what_was_pushed_or_is_woken() {
    check(woken);
    check(woken_by_what_was_passed);
}

/// INV-NOTIFY for room: one process has filled the ring, and another one waits for room.
fn told_of_room() {
    let node = Node::new(SLOTS);
    Outgoing::new(2, &*node).send(&*node, RECEIVER, INFO, &[0]).unwrap();
    let taking = {
        let node = Arc::clone(&node);
        thread::spawn(move || {
            let mut incoming = Incoming::new(RECEIVER, &*node);
            let mut got = Got::default();
            got.take(&mut incoming, &node);
            incoming.freed().filter(|sender| node.port(*sender).give_room(RECEIVER)).count() > 0
        })
    };
    let mut outgoing = Outgoing::new(1, &*node);
    let port = node.port(1);
    let waits = loop {
        match outgoing.send(&*node, RECEIVER, INFO, &[0]) {
            Ok(()) => break false,
            Err(needed) if port.want_slots(needed) => {}
            Err(_) => break true,
        }
    };
    port.fall_asleep();
    let sleeps = waits && !port.is_given_room();
    let rings = taking.join().unwrap();
    assert!(!sleeps || rings, "INV-NOTIFY: it waits for room, and nobody wakes it");
}

#[test]
fn who_waits_for_a_receivers_room_sees_it_or_is_woken() {
    check(told_of_room);
}

#[test]
fn what_is_pushed_needs_its_orderings() {
    needs("push_publish", Relaxed, || sent_by_two(Info { lane: 1, ..INFO }));
    needs("push_take", Relaxed, || sent_by_two(Info { lane: 1, ..INFO }));
    needs("push_free", Relaxed, sent_again);
    needs("push_look", Relaxed, sent_again);
    for fence in ["notify_fence_of_sleeper", "notify_fence_of_sender"] {
        needs(fence, Ordering::AcqRel, woken);
        needs(fence, Ordering::AcqRel, told_of_room);
    }
    // `push_claim` is not among them. To loom, a sequentially consistent load sees each such store before it. So the
    // look at a passed claim finds the publication without that ordering.
}
