//! Promises of the engine, between processes that `mpirun` has started. This program is both the test and, when it
//! has been started so, the processes.

#[path = "../../chanter-cluster/tests/all_to_all/traffic.rs"]
mod traffic;

use std::process::Output;

use chanter_cluster::{ANYONE, Plain, Process};
use chanter_engine::wire::{Body, Header, Kind, LENGTH};
use chanter_engine::{Caps, Change, Death, Engine, Idle, Lane, Leave, Order, Polled, ProcessId, Sink, Why};
use chanter_mpi::{Detected, Mpi, detect, mpirun};

const RUN: &str = "CHANTER_TEST_RUN";
const LANES: [Lane; 3] = [Lane::Control, Lane::User, Lane::Bulk];

type Program = fn(Mpi);

fn main() {
    let engines: [(&str, u32, Program); 4] =
        [("sizes", 2, sizes), ("order", 3, order), ("flood", 2, flood), ("leaving", 4, leaving)];
    let Ok(name) = std::env::var(RUN) else {
        if mpirun(1).is_none() {
            println!("skipped: {}", detect().unwrap_err());
            return;
        }
        for (name, count, _) in engines {
            succeeds(name, count, &[]);
        }
        // By shared memory, by MPI, and by both.
        for (variable, value) in
            [("CHANTER_MPI_NODES", "1"), ("CHANTER_MPI_ONLY", "1"), ("CHANTER_MPI_NODES", "2")]
        {
            let variables = [(variable, value)];
            succeeds("threads", 2, &variables);
            succeeds("threads", 4, &variables);
            succeeds("traffic of 2", 3, &variables);
            succeeds("traffic of 64", 4, &variables);
        }
        panics();
        misses();
        alone();
        return;
    };
    match engines.iter().find(|(other, ..)| *other == name) {
        Some((.., process)) => process(Mpi::start().unwrap()),
        None if name == "threads" => chanter_mpi::run(threads).unwrap(),
        None if name == "misses" => misled(),
        None if name.starts_with("traffic") => chanter_mpi::run(traffic).unwrap(),
        None => chanter_mpi::run(async |here: Process| {
            // The others wait for a message that never comes.
            assert!(here.number() != 1, "on purpose");
            here.inbox().unwrap().recv::<()>(ANYONE, 1).await.unwrap();
        })
        .unwrap(),
    }
}

fn start(name: &str, count: u32, variables: &[(&str, &str)]) -> Output {
    let this = std::env::current_exe().unwrap();
    let variables = variables.iter().copied();
    mpirun(count).unwrap().arg(this).env(RUN, name).envs(variables).output().unwrap()
}

fn succeeds(name: &str, count: u32, variables: &[(&str, &str)]) {
    let output = start(name, count, variables);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{name}: {}\n{said}", output.status);
    let done = String::from_utf8_lossy(&output.stdout).matches("done\n").count();
    assert_eq!(done, count as usize, "{name}: each process says that it is done");
    println!("test {name} with {count} processes {variables:?} ... ok");
}

/// A process that panics ends the job.
fn panics() {
    let output = start("panics", 3, &[]);
    assert!(!output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).contains("on purpose"));
    println!("test panics ... ok");
}

/// A process that does not find the others of its node ends the job, although the program ignores the error.
fn misses() {
    if !cfg!(target_os = "linux") {
        return;
    }
    let output = start("misses", 3, &[]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success(), "{said}");
    assert!(said.contains("has not found the others"), "{said}");
    println!("test misses ... ok");
}

/// The last process takes the first one alone for its node's, and so has another memory in mind.
fn misled() {
    let rank = ["OMPI_COMM_WORLD_RANK", "PMI_RANK"].into_iter().find_map(|name| std::env::var(name).ok());
    let nodes = if rank.as_deref() == Some("2") { "2" } else { "1" };
    // SAFETY: no other thread runs yet.
    unsafe { std::env::set_var("CHANTER_MPI_NODES", nodes) };
    let ran = chanter_mpi::run(async |here: Process| {
        here.inbox().unwrap().recv::<()>(ANYONE, 1).await.unwrap();
    });
    drop(ran);
}

/// Without `mpirun` a program runs alone.
fn alone() {
    assert_eq!(detect(), Ok(Detected::Alone));
    assert_eq!(chanter_mpi::run(async |here: Process| (here.number(), here.count())), Ok((0, 1)));
    println!("test alone ... ok");
}

/// Events of an engine.
#[derive(Default)]
struct Seen {
    arrived: Vec<(ProcessId, Lane, Body)>,
    changes: Vec<(ProcessId, Change)>,
}

impl Sink for Seen {
    fn arrived(&mut self, from: ProcessId, lane: Lane, frame: Body) {
        assert!(!self.changes.iter().any(|(peer, _)| *peer == from), "after it had gone");
        self.arrived.push((from, lane, frame));
    }

    fn peer(&mut self, peer: ProcessId, change: Change) {
        self.changes.push((peer, change));
    }
}

/// Polls until that is so.
fn until(engine: &Mpi, seen: &mut Seen, done: impl Fn(&Seen) -> bool) {
    while !done(seen) {
        if engine.poll(16, seen) == Polled::Nothing {
            std::thread::yield_now();
        }
    }
}

fn frame(length: usize, number: u64) -> Body {
    let mut body = Body::with_capacity(length);
    (0..length).for_each(|at| body.extend_from_slice(&[(at as u64 * 31 + number) as u8]));
    body.set_header(&Header { length: length as u32, request: number, ..Header::new(Kind::Message) });
    body
}

/// Sends, and meanwhile receives the messages that keep it from sending.
fn send(engine: &Mpi, to: u32, lane: Lane, body: Body, seen: &mut Seen) {
    let mut body = Some(body);
    while let Some(full) = engine.try_send(ProcessId(to), lane, body.take().unwrap()).err() {
        body = Some(full.body);
        engine.poll(16, seen);
    }
}

/// Leaves when the other one does. All that was sent has been looked at.
fn end(engine: &Mpi, seen: &mut Seen, others: usize) {
    engine.leave(Leave::Drain);
    until(engine, seen, |seen| seen.changes.len() == others);
    assert!(seen.changes.iter().all(|(_, change)| *change == Change::Down(Why::Left)));
    engine.finish().unwrap();
    assert!(engine.has_ended());
    assert_eq!(engine.park(), Idle::Notified);
    println!("done");
}

/// Frames of all sizes come as they were sent, in all lanes.
fn sizes(engine: Mpi) {
    let mut sizes = vec![0, 1, 463, 464, 465, 1000, 16 << 20];
    // About the size up to which a frame is one message.
    sizes.extend((8 * 1024 + 14)..(8 * 1024 + 19));
    sizes.extend([8 * 1024 - LENGTH, 8 * 1024, 8 * 1024 + 1, 65_536, 1 << 20]);
    let Caps { order, death, eager, .. } = engine.caps(ProcessId(1));
    assert_eq!((order, death), (Order::PerPeer, Death::Aborts));
    assert!(eager >= 16 << 20);
    let other = 1 - engine.me().0;
    let mut seen = Seen::default();
    let all = LANES.len() * sizes.len();
    for (number, size) in (0..).zip(&sizes) {
        for lane in LANES {
            send(&engine, other, lane, frame(*size, number), &mut seen);
        }
    }
    until(&engine, &mut seen, |seen| seen.arrived.len() == all);
    for lane in LANES {
        let came: Vec<&Body> =
            seen.arrived.iter().filter(|(_, of, _)| *of == lane).map(|(.., body)| body).collect();
        for ((number, size), body) in (0..).zip(&sizes).zip(came) {
            assert!(*body == frame(*size, number), "{size} bytes in {lane:?}");
        }
    }
    end(&engine, &mut seen, 1);
}

/// Short and long frames of several senders come in each one's order.
fn order(engine: Mpi) {
    const FRAMES: u64 = 2000;
    let me = engine.me().0;
    let size = |number: u64| if number % 7 == 3 { 9000 + number as usize } else { number as usize % 300 };
    let mut seen = Seen::default();
    for number in 0..FRAMES {
        for to in (0..3).filter(|to| *to != me) {
            send(&engine, to, LANES[number as usize % 3], frame(size(number), number), &mut seen);
        }
    }
    until(&engine, &mut seen, |seen| seen.arrived.len() as u64 == 2 * FRAMES);
    for from in (0..3).filter(|from| *from != me) {
        for (at, lane) in (0..).zip(LANES) {
            let came = seen.arrived.iter().filter(|(of, on, _)| *of == ProcessId(from) && *on == lane);
            let mut wanted = (at..FRAMES).step_by(3);
            for (.., body) in came {
                let number = wanted.next().unwrap();
                assert!(*body == frame(size(number), number), "{number} of {from} in {lane:?}");
            }
            assert_eq!(wanted.next(), None);
        }
    }
    end(&engine, &mut seen, 2);
}

/// One sends more than the other one takes: it is refused, and loses nothing. Several threads call.
fn flood(engine: Mpi) {
    const FRAMES: u64 = 20_000;
    let mut seen = Seen::default();
    if engine.me() == ProcessId(0) {
        std::thread::scope(|scope| {
            for thread in 0..2 {
                let engine = &engine;
                scope.spawn(move || {
                    let mut seen = Seen::default();
                    for number in (thread..FRAMES).step_by(2) {
                        send(engine, 1, Lane::User, frame(4000, number), &mut seen);
                    }
                    assert_eq!(seen.changes, []);
                });
            }
        });
        assert_eq!(engine.counts().sent, FRAMES);
    } else {
        until(&engine, &mut seen, |seen| seen.arrived.len() as u64 == FRAMES);
        let mut next = [0, 1];
        for (.., body) in &seen.arrived {
            let number = Header::decode(body.frame(), u32::MAX).unwrap().request;
            assert_eq!(number, next[number as usize % 2], "each thread's frames are in order");
            assert!(*body == frame(4000, number));
            next[number as usize % 2] += 2;
        }
        assert_eq!(engine.counts().received, FRAMES);
    }
    end(&engine, &mut seen, 1);
}

/// Messages that were sent before leaving arrive before the others are told. Messages for a process that has left are
/// dropped.
fn leaving(engine: Mpi) {
    let me = engine.me().0;
    let mut seen = Seen::default();
    for to in (0..4).filter(|to| *to != me) {
        send(&engine, to, Lane::Bulk, frame(100_000, u64::from(me)), &mut seen);
        send(&engine, to, Lane::Control, frame(10, u64::from(me)), &mut seen);
    }
    if me > 0 {
        // The first leaves before anybody else.
        until(&engine, &mut seen, |seen| seen.changes.iter().any(|(peer, _)| *peer == ProcessId(0)));
        let of_first = seen.arrived.iter().filter(|(from, ..)| *from == ProcessId(0)).count();
        assert_eq!(of_first, 2);
        send(&engine, 0, Lane::User, frame(100_000, 0), &mut seen);
    }
    end(&engine, &mut seen, 3);
    assert_eq!(seen.arrived.len(), 6);
}

/// Has all processes send to all, with `senders` threads in each.
async fn traffic(here: Process) {
    let senders = std::env::var(RUN).unwrap().rsplit(' ').next().unwrap().parse().unwrap();
    let messages = if senders == 2 { 1000 } else { 40 };
    traffic::Traffic { senders, messages }.run(here).await;
    println!("done");
}

/// Has threads of all processes talk with those of the first one, in short values and long ones.
async fn threads(here: Process) {
    const ROUNDS: u64 = 200;
    let me = here.open("threads").unwrap();
    if here.number() == 0 {
        for _ in 0..ROUNDS * u64::from(here.count() - 1) {
            let got = me.recv::<(u64, Plain<f64>)>(ANYONE, 1).await.unwrap();
            let (round, Plain(row)) = got.value;
            assert!(row.iter().all(|cell| *cell == round as f64));
            me.send(got.from, 2, &(round + row.len() as u64)).await.unwrap();
        }
    } else {
        let first = here.lookup("threads@0").await.unwrap();
        for round in 0..ROUNDS {
            let length = if round % 10 == 0 { 10_000 } else { 10 };
            me.send(first, 1, &(round, Plain(vec![round as f64; length]))).await.unwrap();
            let answer = me.recv::<u64>(first, 2).await.unwrap().value;
            assert_eq!(answer, round + length as u64);
        }
    }
    assert_eq!(here.dropped(), 0);
    println!("done");
}
