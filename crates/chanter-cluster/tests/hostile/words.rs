//! A peer that has said hello, and then what makes no sense.

use chanter_cluster::ANYONE;
use chanter_cluster::engine::{Lane, Why};
use chanter_cluster::wire::{Header, Kind, LENGTH, Slot};

use crate::job::*;

/// The lengths of a frame, and of a message, are over every limit.
#[test]
fn lengths_that_are_lies() {
    for length in [u32::MAX, 1 << 31, (64 << 10) + 1] {
        let mut job = Job::start(unhurried());
        job.hostile[0].write(&frame_of(LAST, Lane::User, length, &[0; 100]));
        assert_eq!(job.lost(0), Why::Unreachable);
        assert!(job.hostile[0].is_closed());
        assert_eq!(job.honest[1].down(ME), None, "it has done nothing to that one");
        job.goes_on();
    }
    // What the header says is held against what has come.
    for length in [0, 1, 3, u32::MAX] {
        is_cut_off_by(|to| {
            let header = Header { to, length, ..header(Kind::Message) };
            frame(LAST, Lane::User, &[&header.encode()[..], b"ab"].concat())
        });
    }
}

/// A process that says `words` to an inbox is told that it is given up. Nothing of them is received.
fn is_cut_off_by(words: impl Fn(Slot) -> Vec<u8>) {
    let mut job = Job::start(unhurried());
    let inbox = job.open(0);
    let to = inbox.name().thread;
    job.hostile[0].write(&message(Header { to, ..header(Kind::Message) }, &[7]));
    job.hostile[0].write(&words(to));
    assert_eq!(job.hostile[0].message().0.kind, Kind::GivenUp);
    assert_eq!(job.lost(0), Why::Unreachable);
    let got = job.machine.block_on(inbox.recv::<u8>(ANYONE, 0)).unwrap();
    assert_eq!((got.value, got.from), (7, hostile_name()));
    assert!(inbox.is_empty());
    job.goes_on();
}

/// Half a frame, and no more: who lives on without a word is lost.
#[test]
fn half_a_frame_and_then_silence() {
    let mut job = Job::start(hurried());
    job.hostile[0].write(&frame_of(LAST, Lane::User, 1000, &[1; 500]));
    assert_eq!(job.lost(0), Why::Unreachable);
    assert!(job.hostile[0].is_closed());
    job.goes_on();
}

/// What was whole is received; then it has died.
#[test]
fn the_end_in_the_middle() {
    let mut job = Job::start(unhurried());
    let inbox = job.open(0);
    let header = Header { to: inbox.name().thread, ..header(Kind::Message) };
    job.hostile[0].write(&message(header, &[1]));
    job.hostile[0].write(&frame(PIECE, Lane::Bulk, &[1; 1000]));
    job.hostile[0].write(&message(header, &[2])[..LENGTH]);
    job.hostile[0].0.shutdown(std::net::Shutdown::Both).unwrap();
    assert_eq!(job.lost(0), Why::Died);
    assert_eq!(job.machine.block_on(inbox.recv::<u8>(ANYONE, 0)).unwrap().value, 1);
    assert!(inbox.is_empty());
    job.goes_on();
}

/// Names of threads that have gone, or never were: they are told so, and nobody else gets it.
#[test]
fn stale_names() {
    let mut job = Job::start(unhurried());
    let stale = job.open(0).name().thread;
    let next = job.open(0);
    assert_eq!(next.name().thread.index, stale.index, "it has the place of the one before");
    let never = Slot { index: u32::MAX, generation: 1 };
    for to in [stale, never, Slot { index: stale.index, generation: u32::MAX }, Slot::default()] {
        job.hostile[0].write(&message(Header { to, ..header(Kind::Message) }, b"for the dead"));
        let (gone, body) = job.hostile[0].message();
        assert_eq!((gone.kind, gone.from, body.len()), (Kind::Gone, to, 0));
    }
    job.dropped(0, 4);
    assert!(next.is_empty());
    job.goes_on();
}

/// Messages in another's name, of kinds that there are not, or that answer what nobody asked.
#[test]
fn words_that_are_not_its_own() {
    for process in [0, 1, 3, u32::MAX] {
        is_cut_off_by(|to| message(Header { to, process, ..header(Kind::Message) }, &[9]));
    }
    for kind in [0, 99, 255] {
        is_cut_off_by(|to| {
            let mut bytes = message(Header { to, ..header(Kind::Message) }, &[9]);
            bytes[8] = kind;
            bytes
        });
    }
    let mut job = Job::start(unhurried());
    let inbox = job.open(0);
    let to = inbox.name().thread;
    let mut nonsense = 0;
    // A call without a number.
    job.hostile[0].write(&message(Header { to, ..header(Kind::Call) }, &[9]));
    nonsense += 1;
    job.hostile[0].write(&message(header(Kind::Leave), &[]));
    nonsense += 1;
    // Room for what nobody has sent.
    let credit = Header { credit: u16::MAX, request: u64::MAX, tag: 77, ..header(Kind::Acknowledge) };
    job.hostile[0].write(&message(credit, &[]));
    nonsense += 1;
    // Answers to no question, and a name that is no text.
    job.hostile[0].write(&message(Header { request: 1, ..header(Kind::Found) }, &[]));
    job.hostile[0].write(&message(header(Kind::Gone), &[]));
    job.hostile[0].write(&message(header(Kind::Lookup), &[0xff; 10]));
    job.hostile[0].write(&message(header(Kind::Lookup), &[b'a'; 256]));
    nonsense += 2;
    job.hostile[0].write(&message(Header { to, ..header(Kind::Message) }, &[7]));
    assert_eq!(job.machine.block_on(inbox.recv::<u8>(ANYONE, 0)).unwrap().value, 7);
    job.dropped(0, nonsense);
    assert!(inbox.is_empty());
    job.goes_on();
}

/// A part of a frame of `total` bytes.
fn part(at: u32, total: u64, piece: &[u8]) -> Vec<u8> {
    message(Header { tag: at, request: total, ..header(Kind::Part) }, piece)
}

/// Parts that do not follow each other, or make a frame that is not allowed.
#[test]
fn parts_of_nothing() {
    let whole = |to, kind| [&Header { to, length: 9, ..header(kind) }.encode()[..], &[9; 9]].concat();
    let total = LENGTH as u64 + 9;
    // No part is empty, begins later, or is longer than its frame.
    is_cut_off_by(|_| part(0, total, &[]));
    is_cut_off_by(|_| part(5, total, &[9; 9]));
    is_cut_off_by(|_| part(0, total, &[9; LENGTH + 10]));
    is_cut_off_by(|to| {
        let whole = whole(to, Kind::Message);
        [part(0, total, &whole[..30]), part(29, total, &whole[29..])].concat()
    });
    is_cut_off_by(|to| {
        let whole = whole(to, Kind::Message);
        [part(0, total, &whole[..30]), part(30, total - 1, &whole[30..])].concat()
    });
    // Frames without a header, or longer than any.
    is_cut_off_by(|_| part(0, LENGTH as u64 - 1, &[9; LENGTH - 1]));
    for long in [LENGTH as u64 + (1 << 30) + 1, u64::from(u32::MAX) + 100, u64::MAX] {
        is_cut_off_by(|_| part(0, long, &[9; 100]));
    }
    // Parts of a part, and of a frame in another's name.
    is_cut_off_by(|to| part(0, total, &whole(to, Kind::Part)));
    is_cut_off_by(|to| part(0, LENGTH as u64, &Header { to, process: 3, ..header(Kind::Message) }.encode()));
    // Parts that follow each other make a message.
    let mut job = Job::start(unhurried());
    let inbox = job.open(0);
    let whole =
        [&Header { to: inbox.name().thread, length: 1, ..header(Kind::Message) }.encode()[..], &[7]].concat();
    for (at, byte) in (0..).zip(&whole) {
        job.hostile[0].write(&part(at, whole.len() as u64, &[*byte]));
    }
    assert_eq!(job.machine.block_on(inbox.recv::<u8>(ANYONE, 0)).unwrap().value, 7);
    job.goes_on();
}

/// A peer that says that it leaves and talks on, and one that says words of the end that are not its turn.
#[test]
fn an_end_out_of_turn() {
    let mut job = Job::start(unhurried());
    let inbox = job.open(0);
    let header = Header { to: inbox.name().thread, ..header(Kind::Message) };
    job.hostile[0].write(&[frame(LEAVE, Lane::Control, &[]), message(header, &[1])].concat());
    assert_eq!(job.lost(0), Why::Left);
    assert!(job.hostile[0].is_closed());
    // Good-bye, though nobody has left.
    job.hostile[1].write(&frame(5, Lane::Control, &[]));
    assert_eq!(job.lost(1), Why::Unreachable);
    assert!(inbox.is_empty());
    job.goes_on();
}

/// Who leaves does not wait for ever for one who lives, and takes nothing.
#[test]
fn a_peer_that_never_says_good_bye() {
    let mut job = Job::start(hurried());
    let there = job.open(0);
    for number in 0..10_u32 {
        job.machine.block_on(there.send(hostile_name(), 1, &number)).unwrap();
    }
    let mut alive = job.hostile[0].0.try_clone().unwrap();
    let breathing = std::thread::spawn(move || {
        use std::io::Write;
        // Until the other end has closed.
        while alive.write_all(&frame(ALIVE, Lane::Control, &[])).is_ok() {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
    });
    let first = job.honest[0].clone();
    job.machine.block_on(async move { first.leave().await });
    breathing.join().unwrap();
    assert!(job.hostile[0].is_closed());
}

/// The next message to a process gives it credit for its messages that were received, once. Such credit is checked like
/// credit that comes alone.
#[test]
fn credit_that_messages_bring() {
    const COUNT: u16 = 16;
    let mut job = Job::start(unhurried());
    let inbox = job.open(0);
    let to = inbox.name().thread;
    let ours = |credit: u16, taken: u64| {
        let request = taken << 32 | u64::from(credit);
        message(Header { to, tag: 1, credit, request, ..header(Kind::Message) }, &[5])
    };
    for _ in 0..COUNT {
        job.hostile[0].write(&ours(0, 0));
        assert_eq!(job.machine.block_on(inbox.recv::<u8>(ANYONE, 1)).unwrap().value, 5);
    }
    for credit in [COUNT, 0] {
        job.machine.block_on(inbox.send(hostile_name(), 2, &7_u8)).unwrap();
        let (answer, body) = job.hostile[0].message();
        let count = u64::from(credit);
        assert_eq!((answer.kind, answer.tag, &body[..]), (Kind::Message, 2, &[7][..]));
        assert_eq!((answer.credit, answer.request), (credit, count << 32 | count));
    }
    // More than has gone there; then what was; then what nobody has a window for any more: the message is there.
    job.hostile[0].write(&ours(3, 3));
    job.hostile[0].write(&ours(1, 2));
    let from = Slot { index: 77, generation: 7 };
    let header = Header { to, from, tag: 1, credit: 1, request: 2 << 32 | 1, ..header(Kind::Message) };
    job.hostile[0].write(&message(header, &[6]));
    for value in [5, 5, 6] {
        assert_eq!(job.machine.block_on(inbox.recv::<u8>(ANYONE, 1)).unwrap().value, value);
    }
    job.dropped(0, 1);
    assert!(inbox.is_empty());
    job.goes_on();
}
