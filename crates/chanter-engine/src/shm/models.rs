//! Loom models of the pull queue and its notifiers. How to run them: `cargo xtask loom shm`.

use std::sync::atomic::Ordering::{self, Relaxed, Release};

use loom::sync::Arc;
use loom::thread::{self, JoinHandle};

use super::pull::{Found, Incoming, Info, LANES, Memory, Outgoing, Port, Quota, Rules, Slot, SlotsNeeded};
use super::sync::{ENDS_AT, weakened};

pub(super) const RECEIVER: usize = 0;

/// The memory of three processes.
pub(super) struct Node {
    slots: Vec<Vec<Slot>>,
    ports: Vec<Port>,
}

impl Node {
    pub(super) fn new(slots: usize) -> Arc<Self> {
        let slots = (0..3).map(|_| (0..slots).map(|_| Slot::new()).collect()).collect();
        Arc::new(Self { slots, ports: (0..3).map(|_| Port::new()).collect() })
    }
}

impl Memory for Node {
    fn processes(&self) -> usize {
        3
    }

    fn slots(&self) -> usize {
        self.slots[0].len()
    }

    fn slot(&self, process: usize, slot: usize) -> &Slot {
        &self.slots[process][slot]
    }

    fn port(&self, process: usize) -> &Port {
        &self.ports[process]
    }
}

pub(super) fn check(model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = builder.preemption_bound.or(Some(2));
    builder.max_branches = builder.max_branches.max(10_000);
    builder.check(model);
}

/// Asserts that `model` fails once the ordering `name` is no more than `weaker`.
pub(super) fn needs(name: &'static str, weaker: Ordering, model: impl Fn() + Sync + Send + 'static) {
    let noticed = weakened::is_noticed(name, weaker, || check(model));
    assert!(noticed, "the model does not need {name} to be more than {weaker:?}");
}

const LINKED: Quota = Quota { lanes: [4; LANES], reserve: 0, names_next: false };
/// All but the first piece of a process are in watched places, as long as the process has two free slots.
const WATCHED: Quota = Quota { names_next: true, ..LINKED };
pub(super) const INFO: Info = Info { length: 1, lane: 0, has_more: false };

/// A process that sends `count` bytes, each a piece. It ends at the point `ends_at` of the first piece, if that is
/// given.
fn sender(node: &Arc<Node>, me: usize, count: u8, ends_at: Option<&'static str>) -> JoinHandle<()> {
    sender_by(LINKED, node, me, count, ends_at.map(|at| (0, at)))
}

/// A process that sends `count` bytes, and ends at a point of the piece with a given number.
fn sender_by(
    quota: Quota,
    node: &Arc<Node>,
    me: usize,
    count: u8,
    ends_at: Option<(u8, &'static str)>,
) -> JoinHandle<()> {
    let node = Arc::clone(node);
    thread::spawn(move || {
        let mut outgoing = Outgoing::new(me, quota, &*node);
        for number in 0..count {
            let ends_at = ends_at.filter(|(last, _)| *last == number).map(|(_, at)| at);
            ENDS_AT.with(|at| at.set(ends_at));
            while outgoing.send(&*node, RECEIVER, INFO, &[number]).is_err() {
                thread::yield_now();
            }
            if ends_at.is_some() {
                return;
            }
        }
    })
}

/// The bytes that have come from each process.
#[derive(Default)]
struct Got([Vec<u8>; 3]);

impl Got {
    /// Takes all pieces that are there, and scans when the links lead astray. True: a link is still missing.
    fn take(&mut self, incoming: &mut Incoming, node: &Node) -> bool {
        // The loop is bounded, as a receiver without rules takes the same pieces for ever.
        for _ in 0..12 {
            match incoming.take(node) {
                Found::Piece(from, piece) => {
                    assert_eq!(piece.info, Some(INFO));
                    piece.copy_to(&mut self.0[from]);
                }
                Found::Nothing => return false,
                Found::Waits => return true,
                Found::Astray => incoming.scan(node),
            }
        }
        true
    }

    fn is(&self, first: u8, second: u8) {
        let sent = |count: u8| (0..count).collect::<Vec<u8>>();
        assert_eq!(self.0, [vec![], sent(first), sent(second)], "INV-PULL");
    }
}

/// Two processes send, and the receiver looks meanwhile and afterwards.
fn sent_by_two(first: u8, slots: usize) {
    let node = Node::new(slots);
    let senders = [sender(&node, 1, first, None), sender(&node, 2, 1, None)];
    let mut incoming = Incoming::new(RECEIVER, &*node);
    let mut got = Got::default();
    got.take(&mut incoming, &node);
    if slots < usize::from(first) {
        // The first process waits for its slots.
        while got.0[1].len() < usize::from(first) {
            got.take(&mut incoming, &node);
            thread::yield_now();
        }
    }
    senders.into_iter().for_each(|sender| sender.join().unwrap());
    assert!(!got.take(&mut incoming, &node), "all is linked");
    got.is(first, 1);
    assert!(!node.port(RECEIVER).has_work());
}

#[test]
fn what_is_sent_is_taken_once_and_in_order() {
    check(|| sent_by_two(1, 1));
    check(|| sent_by_two(2, 2));
}

/// One process sends more pieces than it has slots.
fn sent_again(count: u8) {
    let node = Node::new(1);
    let sending = sender(&node, 1, count, None);
    let mut incoming = Incoming::new(RECEIVER, &*node);
    let mut got = Got::default();
    while got.0[1].len() < usize::from(count) {
        got.take(&mut incoming, &node);
        thread::yield_now();
    }
    sending.join().unwrap();
    got.is(count, 0);
}

#[test]
fn slots_are_filled_again() {
    check(|| sent_again(3));
}

/// The receiver takes all pieces. It then learns of a death, scans, and takes the pieces that the scan has found.
fn takes_before_and_after_a_death(node: &Arc<Node>, dying: JoinHandle<()>, rules: Rules) -> (Incoming, Got) {
    let mut incoming = Incoming::new(RECEIVER, &**node);
    incoming.rules = rules;
    let mut got = Got::default();
    got.take(&mut incoming, node);
    dying.join().unwrap();
    incoming.scan(&**node);
    got.take(&mut incoming, node);
    (incoming, got)
}

/// One process dies at a point, and the other goes on. The receiver learns of the death and scans at any time.
fn one_dies(at: &'static str, others: u8, rules: Rules) {
    let node = Node::new(2);
    let dying = sender(&node, 2, 1, Some(at));
    let other = sender(&node, 1, others, None);
    let (mut incoming, mut got) = takes_before_and_after_a_death(&node, dying, rules);
    other.join().unwrap();
    got.take(&mut incoming, &node);
    got.is(others, u8::from(at != "pull.filled"));
}

const ALL: Rules = Rules { numbers: true, scans: true, passes: true };
const POINTS: [&str; 3] = ["pull.filled", "pull.published", "pull.swapped"];

#[test]
fn what_the_dead_have_published_is_taken_once() {
    for at in POINTS {
        check(move || one_dies(at, 1, ALL));
    }
}

fn fails(rules: Rules, others: u8) {
    let failed = |at| std::panic::catch_unwind(move || check(move || one_dies(at, others, rules))).is_err();
    assert!(POINTS.into_iter().any(failed), "the model does not need the rule: {rules:?}");
}

#[test]
fn without_numbers_it_fails() {
    fails(Rules { numbers: false, ..ALL }, 1);
}

#[test]
fn without_scans_it_fails() {
    fails(Rules { scans: false, ..ALL }, 1);
}

#[test]
fn if_freed_slots_are_not_passed_over_it_fails() {
    fails(Rules { passes: false, ..ALL }, 2);
}

/// A scan finds a piece that was published in time.
fn published_while_scanned() {
    let node = Node::new(1);
    let sending = sender(&node, 1, 1, Some("pull.published"));
    let mut incoming = Incoming::new(RECEIVER, &*node);
    let mut got = Got::default();
    incoming.scan(&*node);
    got.take(&mut incoming, &node);
    sending.join().unwrap();
    incoming.scan(&*node);
    got.take(&mut incoming, &node);
    got.is(1, 0);
}

#[test]
fn publication_must_release() {
    needs("pull_publish", Relaxed, published_while_scanned);
}

#[test]
fn taking_must_acquire() {
    needs("pull_take", Relaxed, published_while_scanned);
}

#[test]
fn the_tail_is_emptied_after_the_first_was_followed() {
    needs("pull_empty", Relaxed, || sent_by_two(1, 1));
}

#[test]
fn freeing_must_release() {
    needs("pull_free", Relaxed, || sent_again(2));
}

#[test]
fn filling_again_must_acquire() {
    needs("pull_reuse", Relaxed, || sent_again(2));
}

#[test]
fn a_scan_must_see_what_was_swapped_before() {
    needs("pull_scan", Release, || one_swaps_and_the_other_scans());
}

/// A receiver that empties the tail of a swapped link sees the piece published before the swap.
fn one_swaps_and_the_other_scans() {
    let node = Node::new(1);
    let sending = sender(&node, 1, 1, Some("pull.swapped"));
    let mut incoming = Incoming::new(RECEIVER, &*node);
    let mut got = Got::default();
    let was_sent = node.port(RECEIVER).seems_to_have_work();
    incoming.scan(&*node);
    got.take(&mut incoming, &node);
    assert!(!was_sent || got.0[1] == [0], "INV-PULL: it was swapped before the scan");
    sending.join().unwrap();
}

/// One process sends pieces, all watched except the first; another one links a piece.
fn watched_of_two(count: u8) {
    let node = Node::new(2);
    let senders = [sender_by(WATCHED, &node, 1, count, None), sender(&node, 2, 1, None)];
    let mut incoming = Incoming::new(RECEIVER, &*node);
    let mut got = Got::default();
    got.take(&mut incoming, &node);
    senders.into_iter().for_each(|sender| sender.join().unwrap());
    assert!(!got.take(&mut incoming, &node), "nothing is left");
    got.is(count, 1);
    assert!(!node.port(RECEIVER).has_work() && !incoming.watches().has_work(&*node));
}

#[test]
fn what_is_watched_is_taken_once_and_in_order() {
    check(|| watched_of_two(1));
    check(|| watched_of_two(2));
}

/// With two slots some pieces name the next one. A piece that was not named is linked.
#[test]
fn places_that_are_watched_are_filled_again() {
    check(|| {
        let node = Node::new(2);
        let sending = sender_by(WATCHED, &node, 1, 4, None);
        let mut incoming = Incoming::new(RECEIVER, &*node);
        let mut got = Got::default();
        while got.0[1].len() < 4 {
            got.take(&mut incoming, &node);
            thread::yield_now();
        }
        sending.join().unwrap();
        got.is(4, 0);
    });
}

/// The sender dies at its second piece, which is watched.
fn one_dies_while_it_is_watched(at: &'static str, rules: Rules) {
    let node = Node::new(2);
    let dying = sender_by(WATCHED, &node, 2, 2, Some((1, at)));
    let (_, got) = takes_before_and_after_a_death(&node, dying, rules);
    got.is(0, if at == "pull.filled" { 1 } else { 2 });
}

#[test]
fn what_the_dead_have_published_where_it_is_watched_is_taken_once() {
    for at in ["pull.filled", "pull.published"] {
        check(move || one_dies_while_it_is_watched(at, ALL));
    }
}

#[test]
fn publication_must_release_where_it_is_watched() {
    needs("pull_publish_watched", Relaxed, || one_dies_while_it_is_watched("pull.published", ALL));
}

/// INV-NOTIFY: a receiver that falls asleep while a piece is sent sees the piece or is woken.
fn falls_asleep(node: &Arc<Node>, mut outgoing: Outgoing, incoming: &Incoming) {
    let sending = {
        let node = Arc::clone(node);
        thread::spawn(move || {
            outgoing.send(&*node, RECEIVER, INFO, &[1]).unwrap();
            node.port(RECEIVER).is_to_be_woken()
        })
    };
    node.port(RECEIVER).fall_asleep();
    let sleeps = !node.port(RECEIVER).has_work() && !incoming.watches().has_work(&**node);
    let rings = sending.join().unwrap();
    assert!(!sleeps || rings, "INV-NOTIFY: it sleeps, and nobody wakes it");
}

/// INV-NOTIFY for a watched piece: one of two OS threads takes and then sleeps; the other one does so before or
/// afterwards.
fn woken_by_what_is_watched() {
    let node = Node::new(2);
    let mut outgoing = Outgoing::new(1, WATCHED, &*node);
    outgoing.send(&*node, RECEIVER, INFO, &[0]).unwrap();
    let mut incoming = Incoming::new(RECEIVER, &*node);
    assert!(!Got::default().take(&mut incoming, &node));
    falls_asleep(&node, outgoing, &incoming);
}

#[test]
fn who_falls_asleep_sees_what_it_watches_or_is_woken() {
    check(woken_by_what_is_watched);
}

#[test]
fn bells_need_their_order_where_it_is_watched() {
    needs("notify_fence_of_sleeper", Ordering::AcqRel, woken_by_what_is_watched);
    needs("notify_fence_of_sender", Ordering::AcqRel, woken_by_what_is_watched);
}

/// One OS thread takes a piece and looks for the next, which may be sent meanwhile. Another thread of the process
/// falls asleep. When the first one falls asleep afterwards, it sees the next piece, or the sender notifies.
fn one_takes_and_another_one_falls_asleep() {
    let node = Node::new(2);
    let mut outgoing = Outgoing::new(1, WATCHED, &*node);
    for number in 0..2 {
        outgoing.send(&*node, RECEIVER, INFO, &[number]).unwrap();
    }
    let mut incoming = Incoming::new(RECEIVER, &*node);
    let mut got = Got::default();
    let watches = incoming.watches();
    let looking = {
        let node = Arc::clone(&node);
        thread::spawn(move || {
            node.port(RECEIVER).fall_asleep();
            !node.port(RECEIVER).has_work() && !watches.has_work(&*node)
        })
    };
    got.take(&mut incoming, &node);
    let sleeps = looking.join().unwrap();
    outgoing.send(&*node, RECEIVER, INFO, &[2]).unwrap();
    let rings = node.port(RECEIVER).is_to_be_woken();
    assert!(!sleeps || rings);
    got.take(&mut incoming, &node);
    got.is(3, 0);
}

#[test]
fn others_look_while_one_takes() {
    check(one_takes_and_another_one_falls_asleep);
}

/// INV-NOTIFY for a linked piece.
fn woken() {
    let node = Node::new(1);
    let quota = Quota { lanes: [1; LANES], ..LINKED };
    falls_asleep(&node, Outgoing::new(1, quota, &*node), &Incoming::new(RECEIVER, &*node));
}

#[test]
fn who_falls_asleep_sees_the_message_or_is_woken() {
    check(woken);
}

#[test]
fn bells_need_their_order() {
    needs("notify_fence_of_sleeper", Ordering::AcqRel, woken);
    needs("notify_fence_of_sender", Ordering::AcqRel, woken);
}

/// Looks for room and asks for it, as the engine does. True: there is none.
fn waits_for_room(outgoing: &mut Outgoing, node: &Node, receiver: usize) -> bool {
    loop {
        match outgoing.find_slots(node, receiver, 0) {
            Ok(()) => return false,
            Err(needed) if node.port(1).want_slots(needed) => {}
            Err(_) => return true,
        }
    }
}

/// A receiver takes a piece and gives its sender room. The result says whether it is to wake the sender.
fn takes_and_gives_room(node: &Arc<Node>, receiver: usize) -> JoinHandle<bool> {
    let node = Arc::clone(node);
    thread::spawn(move || {
        let mut got = Got::default();
        assert!(!got.take(&mut Incoming::new(receiver, &*node), &node));
        node.port(1).give_room(receiver)
    })
}

/// INV-NOTIFY for room: a sender waits `times` times for a slot, and sleeps if it sees none. `taker` has the sender's
/// only slot. If `taker` is the receiver, the sender asks for its slots; otherwise it asks for slots of any process.
fn told_of_room(times: u8, taker: usize) {
    let node = Node::new(1);
    let quota = Quota { lanes: [1; LANES], ..LINKED };
    let mut outgoing = Outgoing::new(1, quota, &*node);
    outgoing.send(&*node, taker, INFO, &[0]).unwrap();
    let taking = takes_and_gives_room(&node, taker);
    let port = node.port(1);
    let waits = (0..times).all(|_| waits_for_room(&mut outgoing, &node, RECEIVER));
    port.fall_asleep();
    let sleeps = waits && !port.is_given_room();
    let rings = taking.join().unwrap();
    assert!(!sleeps || rings, "INV-NOTIFY: it waits for room, and nobody wakes it");
}

#[test]
fn who_wants_room_sees_it_or_is_woken() {
    check(|| told_of_room(1, RECEIVER));
    check(|| told_of_room(2, RECEIVER));
}

#[test]
fn who_wants_room_of_anyone_is_told_by_each() {
    check(|| told_of_room(1, 2));
}

#[test]
fn room_needs_its_order() {
    needs("notify_fence_of_sleeper", Ordering::AcqRel, || told_of_room(1, RECEIVER));
    needs("notify_fence_of_sender", Ordering::AcqRel, || told_of_room(1, RECEIVER));
}

/// Two receivers give room that a sender wants from both. It takes the room meanwhile, tries again, and falls asleep.
#[test]
fn what_two_give_is_taken_or_wakes() {
    check(|| {
        let node = Node::new(2);
        let quota = Quota { lanes: [1; LANES], ..LINKED };
        let mut outgoing = Outgoing::new(1, quota, &*node);
        let receivers = [RECEIVER, 2];
        let taking = receivers.map(|receiver| {
            outgoing.send(&*node, receiver, INFO, &[0]).unwrap();
            takes_and_gives_room(&node, receiver)
        });
        let mut all_wait = || receivers.map(|receiver| waits_for_room(&mut outgoing, &node, receiver));
        let mut waits = all_wait();
        let port = node.port(1);
        if port.take_room() {
            waits = all_wait();
        }
        port.fall_asleep();
        let sleeps = waits.contains(&true) && !port.is_given_room();
        let rings = taking.map(|taking| taking.join().unwrap());
        assert!(!sleeps || rings.contains(&true), "INV-NOTIFY: it waits for room, and nobody wakes it");
    });
}

/// Room given by one receiver is not lost when room of another one is asked for meanwhile.
fn wanted_twice() {
    let node = Node::new(1);
    let port = node.port(1);
    assert!(port.want_slots(SlotsNeeded::of(RECEIVER)));
    let giving = {
        let node = Arc::clone(&node);
        thread::spawn(move || {
            node.port(1).give_room(RECEIVER);
        })
    };
    assert!(port.want_slots(SlotsNeeded::of(2)));
    giving.join().unwrap();
    assert!(port.take_room(), "INV-NOTIFY: room was given, and nobody has seen it");
    assert!(!port.take_room());
    port.give_room(2);
    assert!(port.take_room(), "INV-NOTIFY: room is wanted, and was not given");
}

#[test]
fn room_that_is_wanted_twice_is_seen() {
    check(wanted_twice);
}
