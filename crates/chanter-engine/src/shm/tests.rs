//! Tests of the shared-memory engine. They run the conformance kit with engines in one OS process, kill processes at
//! each point of the protocol, and fill a segment with nonsense.

mod neighbours;

use std::os::fd::AsFd;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::AtomicBool;

use chanter::prelude::*;

use super::mapping::{SLOTS, create};
use super::*;
use crate::conformance::Kit;
use crate::socket::tests::{On, launched, unhurried};
use crate::socket::{Beside, Config};

/// The engines of a cluster that shares a segment, except for the processes that do not.
async fn engines(count: u32, is_near: impl Fn(u32) -> bool) -> Vec<Shm> {
    engines_by(Protocol::Pull, count, is_near).await
}

async fn engines_by(protocol: Protocol, count: u32, is_near: impl Fn(u32) -> bool) -> Vec<Shm> {
    engines_in(&create(count, protocol).unwrap(), count, is_near, unhurried()).await
}

async fn engines_in(
    segment: &OwnedFd,
    count: u32,
    is_near: impl Fn(u32) -> bool,
    config: Config,
) -> Vec<Shm> {
    let (launched, _folder) = launched(count, On::Unix);
    let mut starting = Vec::new();
    for launched in launched {
        let shm_slot =
            ShmSlot::take(segment.try_clone().unwrap(), ProcessId(launched.number), count).unwrap();
        if !is_near(launched.number) {
            // Like a process whose launcher has given it no segment.
            shm_slot.memory.port(shm_slot.me).detach();
        }
        starting.push((shm_slot, spawn(Sockets::start(launched, config.clone()))));
    }
    let mut engines = Vec::new();
    for (shm_slot, starting) in starting {
        engines.push((shm_slot, starting.join().await.unwrap().unwrap()));
    }
    engines.into_iter().map(|(shm_slot, sockets)| Shm::new(shm_slot, sockets)).collect()
}

#[chanter::test]
async fn it_keeps_what_an_engine_promises() {
    Kit::new(async |count| engines(count, |_| true).await).killed_by(Shm::kill).run().await.unwrap();
}

#[chanter::test]
async fn it_keeps_what_an_engine_promises_by_push() {
    let engines = async |count| engines_by(Protocol::Push, count, |_| true).await;
    Kit::new(engines).killed_by(Shm::kill).run().await.unwrap();
}

#[chanter::test]
async fn some_processes_share_memory_and_others_do_not() {
    let kit = Kit::new(async |count| engines(count, |process| process != 1).await);
    kit.killed_by(Shm::kill).run().await.unwrap();
}

/// Both sides of a pair use the same way. Otherwise the end of a process could come before its last pieces.
#[chanter::test]
async fn processes_are_near_if_both_read_from_the_segment() {
    let engines = engines(3, |process| process != 1).await;
    let near = |of: usize| (0..3).filter(|to| engines[of].is_near(ProcessId(*to))).collect::<Vec<_>>();
    assert_eq!([near(0), near(1), near(2)], [vec![2], vec![], vec![0]]);
}

#[test]
fn a_segment_of_another_job_or_build_is_refused() {
    let refused = |segment: OwnedFd, processes| {
        ShmSlot::take(segment, ProcessId(0), processes).unwrap_err().to_string()
    };
    assert!(refused(create(3, Protocol::Pull).unwrap(), 2).contains("no segment for so many processes"));
    assert!(refused(tempfile::tempfile().unwrap().into(), 2).contains("no segment for so many processes"));
    let other = std::fs::File::from(create(2, Protocol::Pull).unwrap());
    std::os::unix::fs::FileExt::write_at(&other, b"chanter segment0", 0).unwrap();
    assert!(refused(other.into(), 2).contains("of another build"));
    assert!(ShmSlot::take(create(2, Protocol::Pull).unwrap(), ProcessId(2), 2).is_err());
    assert!(create(0, Protocol::Pull).is_err() && create(4097, Protocol::Pull).is_err());
}

/// The file's mode does not depend on the mask of this process.
#[test]
fn a_segment_is_its_owners_alone() {
    use std::os::unix::fs::MetadataExt;

    let segment = std::fs::File::from(create(2, Protocol::Pull).unwrap());
    let found = segment.metadata().unwrap();
    assert_eq!((found.mode() & 0o7777, found.nlink()), (0o600, 0));
}

/// A process of the tests below, which sends numbers to process 0. Its standard input is the shared memory.
#[test]
fn a_sender() {
    let Ok(said) = std::env::var("CHANTER_SENDER") else { return };
    let [me, count, way]: [u64; 3] =
        said.split(' ').map(|number| number.parse().unwrap()).collect::<Vec<_>>().try_into().unwrap();
    let segment = std::io::stdin().as_fd().try_clone_to_owned().unwrap();
    let memory = Mapping::open(segment, 3).unwrap();
    let mut outgoing =
        Outgoing::new(me as usize, Quota { names_next: way == Way::Watched as u64, ..QUOTA }, &memory);
    for number in 0..count {
        let bytes = number.to_le_bytes();
        let info = Info { length: bytes.len(), lane: (number % 3) as usize, has_more: false };
        while outgoing.send(&memory, 0, info, &bytes).is_err() {
            std::thread::yield_now();
        }
    }
}

/// The way of pieces to their receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// By pull, and linked.
    Linked,
    /// By pull, and all but the first watched.
    Watched,
    Pushed,
}

impl Way {
    fn protocol(self) -> Protocol {
        if self == Self::Pushed { Protocol::Push } else { Protocol::Pull }
    }
}

fn start_sender(segment: &OwnedFd, me: usize, count: u64, way: Way, crash: &str) -> Child {
    let test = "shm::tests::a_sender";
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", test, "--test-threads", "1"]).stdin(Stdio::from(segment.try_clone().unwrap()));
    command.env("CHANTER_SENDER", format!("{me} {count} {}", way as u8)).env("CHANTER_CRASH", crash);
    command.stdout(Stdio::null()).stderr(Stdio::inherit()).spawn().unwrap()
}

/// Takes all pieces that are there. The pieces of a lane come in order.
fn drain(incoming: &mut Incoming, memory: &Mapping, got: &mut [[u64; LANES]; 3]) {
    loop {
        match incoming.take(memory) {
            Found::Piece(from, piece) => {
                let mut bytes = Vec::new();
                piece.copy_to(&mut bytes);
                let (number, lane) =
                    (u64::from_le_bytes(bytes.try_into().unwrap()), piece.info.unwrap().lane);
                let expected = got[from][lane] * LANES as u64 + lane as u64;
                assert_eq!(number, expected, "INV-PULL or INV-PUSH: process {from}");
                got[from][lane] += 1;
            }
            Found::Nothing | Found::Waits => return,
            Found::Astray => incoming.scan(memory),
        }
    }
}

/// One sender dies, and one goes on to its end. No published piece is lost or comes twice. Returns the number of
/// pieces that have come.
fn one_dies(way: Way, crash: &str, kill_after: Option<u64>) -> u64 {
    const COUNT: u64 = 2000;
    let segment = create(3, way.protocol()).unwrap();
    let memory = Mapping::open(segment.try_clone().unwrap(), 3).unwrap();
    let mut incoming = Incoming::new(0, &memory);
    let mut got = [[0; LANES]; 3];
    let count = |got: [u64; LANES]| got.iter().sum::<u64>();
    let dying_count = if crash.is_empty() { u64::MAX } else { COUNT };
    let mut dying = start_sender(&segment, 1, dying_count, way, crash);
    let mut other = start_sender(&segment, 2, COUNT, way, "");
    while dying.try_wait().unwrap().is_none() {
        drain(&mut incoming, &memory, &mut got);
        if kill_after.is_some_and(|kill_after| count(got[1]) > kill_after) {
            // The process may have ended by itself.
            let _ = dying.kill();
        }
        std::thread::yield_now();
    }
    incoming.scan(&memory);
    drain(&mut incoming, &memory, &mut got);
    assert!(!incoming.is_scanning(&memory));
    incoming.forget(&memory, 1);
    let of_the_dead = count(got[1]);
    while count(got[2]) < COUNT {
        drain(&mut incoming, &memory, &mut got);
        std::thread::yield_now();
    }
    assert!(other.wait().unwrap().success());
    drain(&mut incoming, &memory, &mut got);
    assert_eq!(got.map(count), [0, of_the_dead, COUNT], "nothing comes after a scan for the dead");
    of_the_dead
}

#[test]
fn what_was_published_by_those_who_die_at_any_point_is_taken() {
    for (way, points) in [
        (Way::Linked, &["pull.filled", "pull.published", "pull.swapped", "pull.linked"][..]),
        (Way::Watched, &["pull.filled", "pull.published"]),
        (Way::Pushed, &["push.marked", "push.claimed", "push.filled", "push.published"]),
    ] {
        for point in points {
            for count in [1, 2, 60, 1500] {
                let came = one_dies(way, &format!("{point}:{count}"), None);
                let is_published =
                    !["pull.filled", "push.marked", "push.claimed", "push.filled"].contains(point);
                assert_eq!(came, count - u64::from(!is_published), "{point} for the {count}th time");
            }
        }
    }
}

#[test]
fn who_is_killed_at_random_loses_nothing_that_it_published() {
    let kills = std::env::var("CHANTER_KILLS").map_or(12, |kills| kills.parse().unwrap());
    for kill in 0..kills {
        // At least this many have come by then; the exact moment depends on the machine.
        let after = 1 + kill * 37 % 5000;
        let way = [Way::Linked, Way::Watched, Way::Pushed][kill as usize % 3];
        assert!(one_dies(way, "", Some(after)) > after);
    }
}

/// A process writes arbitrary bytes into the shared memory. This process may get fewer messages from it, and suffers
/// nothing else.
#[test]
fn nonsense_in_a_segment_does_no_harm() {
    for protocol in [Protocol::Pull, Protocol::Push] {
        nonsense_does_no_harm(protocol);
    }
}

fn nonsense_does_no_harm(protocol: Protocol) {
    let segment = create(3, protocol).unwrap();
    let memory = Mapping::open(segment.try_clone().unwrap(), 3).unwrap();
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = move || {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random
    };
    for round in 0..8 {
        let mut incoming = Incoming::new(0, &memory);
        let mut outgoing = Outgoing::new(0, QUOTA, &memory);
        // At times, bytes of which many are 0 or look like links.
        memory.fill(|| match next() {
            bits if bits.is_multiple_of(3) || round % 2 == 0 => (bits >> 32) as u8,
            bits if bits.is_multiple_of(5) => 0x80,
            _ => 0,
        });
        let mut begun: [Vec<u8>; LANES] = Default::default();
        for _ in 0..2000 {
            match incoming.take(&memory) {
                Found::Piece(_, piece) => _ = begun.assemble(&piece),
                Found::Nothing | Found::Waits | Found::Astray => incoming.scan(&memory),
            }
            let info = Info { length: 9, lane: (next() % 3) as usize, has_more: false };
            let _ = outgoing.send(&memory, 1 + (next() % 2) as usize, info, b"something");
            memory.port(1).is_to_be_woken();
        }
        assert!(begun.iter().all(|begun| begun.len() <= LONGEST));
    }
}

/// One receiver has all pieces that may be published for it, and takes none. Other receivers that take pieces wake no
/// process.
#[test]
fn room_that_one_lacks_is_given_by_that_one() {
    let segment = create(3, Protocol::Pull).unwrap();
    let memory = Mapping::open(segment, 3).unwrap();
    let mut outgoing = Outgoing::new(0, QUOTA, &memory);
    let info = Info { length: 1, lane: 1, has_more: false };
    let needed = loop {
        if let Err(needed) = outgoing.send(&memory, 1, info, b"x") {
            break needed;
        }
    };
    let port = memory.port(0);
    assert!(port.want_slots(needed) && !port.want_slots(needed), "it is wanted already");
    port.fall_asleep();
    outgoing.send(&memory, 2, info, b"x").unwrap();
    for receiver in [2, 1] {
        let mut incoming = pull::Incoming::new(receiver, &memory);
        let of = std::iter::repeat_with(|| {
            assert!(matches!(incoming.take(&memory), Found::Piece(0, _) | Found::Nothing));
            incoming.freed().next()
        });
        assert_eq!(of.flatten().next(), Some(0), "it frees what it has taken, with the next");
        assert_eq!(port.give_room(receiver), receiver == 1);
    }
    assert!(port.take_room() && outgoing.send(&memory, 1, info, b"x").is_ok());
    assert!(!port.give_room(1), "it is not wanted any more");
}

/// By push all senders share the receiver's buffer. Each lane has its own, and a sender that waits is told of room.
#[test]
fn senders_share_the_buffer_of_their_receiver() {
    let segment = create(3, Protocol::Push).unwrap();
    let memory = Mapping::open(segment, 3).unwrap();
    let mut senders = [1, 2].map(|me| Outgoing::new(me, QUOTA, &memory));
    let mut incoming = Incoming::new(0, &memory);
    for lane in 0..LANES {
        let info = Info { length: 1, lane, has_more: false };
        let count = (0..).take_while(|at| senders[at % 2].send(&memory, 0, info, b"x").is_ok()).count();
        assert_eq!(count, [SLOTS / 4, SLOTS / 2, SLOTS / 4][lane]);
        assert!(senders.iter_mut().all(|sender| sender.send(&memory, 0, info, b"x").is_err()));
    }
    let ports = [1, 2].map(|sender| memory.port(sender));
    assert!(ports.into_iter().all(|port| port.want_slots(pull::SlotsNeeded::of(0))));
    let mut told = Vec::new();
    for _ in 0..2 {
        assert!(matches!(incoming.take(&memory), Found::Piece(..)));
        incoming.freed(|sender| told.push(sender));
    }
    assert_eq!(told, [1, 2], "a piece is freed with the next, and both may have its slot");
}

/// All memory is allocated at the beginning, as a signal would end a process that writes where there is none.
#[test]
fn a_segment_has_all_its_memory() {
    use std::os::unix::fs::MetadataExt;

    for processes in [1, 5] {
        let segment = std::fs::File::from(create(processes, Protocol::Pull).unwrap()).metadata().unwrap();
        assert!(512 * segment.blocks() >= segment.len(), "{} of {}", 512 * segment.blocks(), segment.len());
    }
}

/// Frames that have come, and processes that are down.
#[derive(Default)]
struct Heard {
    frames: usize,
    down: Vec<ProcessId>,
}

impl Sink for Heard {
    fn arrived(&mut self, _from: ProcessId, _lane: Lane, _frame: Body) {
        self.frames += 1;
    }

    fn peer(&mut self, peer: ProcessId, change: Change) {
        if matches!(change, Change::Down(_)) {
            self.down.push(peer);
        }
    }
}

/// A receiver that is slow to take what it has scanned hears of newer pieces meanwhile. Its neighbour has done nothing wrong.
#[chanter::test]
async fn a_newer_statement_has_a_scan_of_its_own() {
    for protocol in [Protocol::Pull, Protocol::Push] {
        states_twice(protocol).await;
    }
}

async fn states_twice(protocol: Protocol) {
    const BUDGET: u32 = 3;
    let [sender, receiver] = <[Shm; 2]>::try_from(engines_by(protocol, 2, |_| true).await).unwrap();
    let is_broken = || receiver.receiving.try_lock().expect("nobody polls").broken[0];
    // As many frames as there is room for.
    let send_and_state = || {
        let send = || sender.try_send(ProcessId(1), Lane::User, Body::copied_from(&[0; 64])).is_ok();
        let sent = (0..).take_while(|_| send()).count();
        let said = sender.ledger.says(ProcessId(1)).expect("there is news");
        receiver.ledger.hears(ProcessId(0), said);
        sent
    };
    let mut heard = Heard::default();
    let mut sent = send_and_state();
    assert!(sent > 2 * BUDGET as usize, "{sent} are more than a poll takes");
    receiver.poll(BUDGET, &mut heard);
    sent += send_and_state();
    while heard.frames < sent && heard.down.is_empty() && !is_broken() {
        receiver.poll(BUDGET, &mut heard);
    }
    receiver.poll(BUDGET, &mut heard);
    assert_eq!((heard.frames, heard.down), (sent, Vec::new()));
    assert!(!is_broken(), "it has kept to the protocol");
}
