//! Peers that send without end, or read nothing: what they cost is bounded.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use chanter::prelude::*;
use chanter_cluster::ANYONE;
use chanter_cluster::engine::{Lane, Why};
use chanter_cluster::wire::{Header, Kind, Number, Slot};

use crate::job::*;
use crate::memory::growth;

const MIB: usize = 1 << 20;
/// So many messages of a process wait in an inbox.
const WINDOW: usize = 64;

/// More than its window: what is within it is there, its sender is told and cut off, and the receiver is not pressed.
#[test]
fn messages_without_credit() {
    let mut job = Job::start(unhurried());
    let inbox = job.open(0);
    let to = inbox.name().thread;
    let flood = message(Header { to, tag: 1, ..header(Kind::Message) }, &[0; 100]).repeat(100);
    let grown = growth(|| {
        let honest = job.honest[0].clone();
        job.hostile[0].flood(&flood, || honest.down(ME).is_some());
        assert_eq!(job.lost(0), Why::Unreachable);
    });
    assert_eq!(inbox.len(), WINDOW);
    assert!(job.honest[0].dropped() > 0);
    assert!(grown < 24 * MIB, "{grown}");
    job.goes_on();
    for _ in 0..WINDOW {
        job.machine.block_on(inbox.recv::<[u8; 32]>(ANYONE, 1)).unwrap_err();
    }
    assert!(inbox.is_empty());
}

/// One message more than a window: the process that has sent it hears that it was given up.
#[test]
fn who_is_over_its_window_is_told() {
    let mut job = Job::start(unhurried());
    let inbox = job.open(0);
    let to = inbox.name().thread;
    let one = message(Header { to, tag: 1, ..header(Kind::Message) }, &[5]);
    job.hostile[0].write(&one.repeat(WINDOW));
    for _ in 0..WINDOW / 2 {
        job.machine.block_on(inbox.recv::<u8>(ANYONE, 1)).unwrap();
    }
    assert_eq!(job.hostile[0].message().0.kind, Kind::Acknowledge);
    assert_eq!(job.honest[0].down(ME), None, "it has kept to the rules");
    job.hostile[0].write(&one.repeat(WINDOW / 2 + 1));
    assert_eq!(job.hostile[0].message().0.kind, Kind::GivenUp);
    assert_eq!(job.lost(0), Why::Unreachable);
    assert_eq!(inbox.len(), WINDOW);
    job.goes_on();
}

/// Messages that begin and do not end: three lanes may hold the longest one each.
#[test]
fn messages_without_end() {
    let mut job = Job::start(unhurried());
    let piece = frame(PIECE, Lane::Bulk, &vec![0; 64 << 10]);
    let grown = growth(|| {
        // It is cut off in the middle.
        let honest = job.honest[0].clone();
        job.hostile[0].flood(&piece, || honest.down(ME).is_some());
        assert_eq!(job.lost(0), Why::Unreachable);
    });
    // As a vector that grows, once.
    assert!(grown < 56 * MIB, "{grown}");
    job.goes_on();
}

/// Questions whose answers are not read: who asks too many is given up.
#[test]
fn questions_without_end() {
    let lookup = message(header(Kind::Lookup), b"echo").repeat(64);
    let stale = message(header(Kind::Message), b"").repeat(64);
    // Of a service that there is not.
    let calls = |service: &str| {
        let number = Number::of(service).0;
        let to = Slot { index: number as u32, generation: (number >> 32) as u32 };
        let call = |request| message(Header { to, request, ..header(Kind::Call) }, b"");
        (1..=64).flat_map(call).collect::<Vec<u8>>()
    };
    for flood in [lookup, stale, calls("nobody")] {
        let mut job = Job::start(unhurried());
        let echo = job.machine.block_on({
            let here = job.honest[0].clone();
            async move { here.open("echo").unwrap() }
        });
        let grown = growth(|| {
            let honest = job.honest[0].clone();
            job.hostile[0].flood(&flood, || honest.down(ME).is_some());
            assert_eq!(job.lost(0), Why::Unreachable);
        });
        assert!(grown < 64 * MIB, "{grown}");
        drop(echo);
        job.goes_on();
    }
}

/// Names that nobody has: its own share of those who may wait, and room for the others.
#[test]
fn names_without_end() {
    let mut job = Job::start(unhurried());
    let grown = growth(|| {
        for number in 0..70_000_u64 {
            let name = format!("{number:>255}");
            let header = Header { request: number + 1, ..header(Kind::Lookup) };
            job.hostile[0].write(&message(header, name.as_bytes()));
            if number % 4096 == 4095 {
                // It reads the refusals, so that it is not given up.
                job.hostile[0].write(&message(self::header(Kind::Message), &[]));
                while job.hostile[0].message().0.kind != Kind::Gone {}
            }
        }
    });
    assert!(grown < 24 * MIB, "{grown}");
    job.goes_on();
    let [first, second] = job.honest.clone();
    job.machine.block_on(async move {
        let (found, waits) = (second.lookup("late@0"), second.lookup("nobody@0"));
        let asked = choose((found.wrap(Some), waits.wrap(Some)));
        let asked = spawn(async move { asked.await });
        let late = first.open("late").unwrap();
        assert_eq!(asked.join().await.unwrap(), Some(Ok(late.name())));
    });
}

/// Who reads nothing, and gives back room that is not its own, does not make its sender keep ever more.
#[test]
fn a_slow_reader_that_says_it_has_taken_everything() {
    const MESSAGE: usize = 8 << 10;
    const TOO_MANY: u32 = 4000;
    let mut job = Job::start(unhurried());
    let (inbox, heard) = (job.open(0), job.open(0));
    let (name, back) = (heard.name(), hostile_name());
    let sent = Arc::new(AtomicU32::new(0));
    let sending = job.machine.spawn({
        let sent = Arc::clone(&sent);
        async move {
            let value = vec![1_u8; MESSAGE];
            while sent.load(Ordering::Relaxed) < TOO_MANY && inbox.send(back, 1, &value).await.is_ok() {
                sent.fetch_add(1, Ordering::Relaxed);
            }
        }
    });
    let grown = growth(|| {
        for round in 0..1000 {
            let before = sent.load(Ordering::Relaxed);
            // Lies, and what may be true of all that has left the sender.
            for (tag, credit, bytes) in [(round, 64, 1 << 20), (before, 1, 1 << 13), (before, 1, 1 << 13)] {
                let from = back.thread;
                let credit = Header { tag, credit, request: bytes, from, ..header(Kind::Acknowledge) };
                job.hostile[0].write(&message(credit, &[]));
            }
            for _ in 0..1000 {
                if sent.load(Ordering::Relaxed) > before {
                    break;
                }
                std::thread::yield_now();
            }
        }
        job.hostile[0].write(&message(Header { to: name.thread, ..header(Kind::Message) }, &[1]));
        assert_eq!(job.machine.block_on(heard.recv::<u8>(ANYONE, 0)).unwrap().value, 1);
    });
    let sent = sent.load(Ordering::Relaxed);
    assert!(grown < 24 * MIB && sent < TOO_MANY, "{grown} bytes, {sent} sent");
    job.goes_on();
    // The end of the connection is the sender's, too.
    job.hostile[0].0.shutdown(std::net::Shutdown::Both).unwrap();
    job.machine.block_on(async move { sending.join().await.unwrap() });
}
