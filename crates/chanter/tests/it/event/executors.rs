//! The same conversation between threads of every kind: hosts, parasites, OS
//! threads and Tokio's tasks, in all pairs, over every flavour of channel.

use crate::common;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use chanter::prelude::*;
use common::{Ledger, Payload, machine, millis, watchdog};
use tokio::runtime::Runtime;

/// The executor that runs one side of a conversation.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Side {
    Host,
    Parasite,
    Os,
    Tokio,
    /// Another machine of the same process.
    OtherHost,
}

const SIDES: [Side; 5] = [Side::Host, Side::Parasite, Side::Os, Side::Tokio, Side::OtherHost];

struct Stage {
    machine: Machine,
    other: Machine,
    tokio: Runtime,
}

impl Stage {
    fn new(vps: usize) -> Self {
        let tokio =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        Self { machine: machine(vps), other: machine(1), tokio }
    }

    /// Runs `body` as `side`; its value arrives in the variable.
    fn run<F, T>(&self, side: Side, body: F) -> IVar<T>
    where
        F: Future<Output = T> + Send + 'static,
        T: Clone + Send + Sync + 'static,
    {
        let done = IVar::new();
        let put = done.clone();
        let body = async move {
            let value = body.await;
            assert!(put.put(value).is_ok());
        };
        match side {
            Side::Host => drop(self.machine.spawn(body)),
            Side::OtherHost => drop(self.other.spawn(body)),
            Side::Parasite => drop(self.machine.spawn(async move { spawn_parasite(body) })),
            Side::Os => drop(std::thread::spawn(move || futures::executor::block_on(body))),
            Side::Tokio => drop(self.tokio.spawn(body)),
        }
        done
    }
}

type Make<T> = fn() -> (Sender<T>, Receiver<T>);
const FLAVOURS: [(&str, Make<Payload>); 4] = [
    ("rendezvous", channel),
    ("bounded(1)", || bounded(1)),
    ("bounded(4)", || bounded(4)),
    ("mailbox", mailbox),
];

#[test]
fn one_sends_and_one_receives_in_all_pairs() {
    watchdog!();
    const COUNT: usize = 500;
    for vps in [1, 2] {
        let stage = Stage::new(vps);
        for (name, make) in FLAVOURS {
            for from in SIDES {
                for to in SIDES {
                    let ledger = Ledger::new();
                    let (tx, rx) = make();
                    let book = ledger.clone();
                    let sent = stage.run(from, async move {
                        for n in 0..COUNT {
                            tx.send(book.payload(n)).await.unwrap();
                        }
                    });
                    let got = stage.run(to, async move {
                        let mut got = Vec::new();
                        while let Ok(message) = rx.recv().await {
                            got.push(message.id);
                        }
                        got
                    });
                    sent.get().sync_blocking();
                    assert_eq!(
                        got.get().sync_blocking(),
                        (0..COUNT).collect::<Vec<_>>(),
                        "{name}: {from:?} to {to:?}"
                    );
                    ledger.check();
                }
            }
        }
    }
}

#[test]
fn calls_and_answers_in_all_pairs() {
    watchdog!();
    const COUNT: u64 = 500;
    let stage = Stage::new(2);
    for client in SIDES {
        for server in SIDES {
            let (ask, asked) = channel::<(u64, Sender<u64>)>();
            let served = stage.run(server, async move {
                let mut count = 0;
                while let Ok((n, reply)) = asked.recv().await {
                    reply.send(n * n).await.unwrap();
                    count += 1;
                }
                count
            });
            let called = stage.run(client, async move {
                for n in 0..COUNT {
                    let (reply, answer) = channel();
                    ask.send((n, reply)).await.unwrap();
                    assert_eq!(answer.recv().await, Ok(n * n));
                }
            });
            called.get().sync_blocking();
            assert_eq!(served.get().sync_blocking(), COUNT, "{client:?} calls {server:?}");
        }
    }
}

/// Both sides choose, with timers beside.
#[test]
fn choices_in_all_pairs() {
    watchdog!();
    const COUNT: u64 = 300;
    let stage = Stage::new(2);
    for left in SIDES {
        for right in SIDES {
            let (a_tx, a_rx) = channel::<u64>();
            let (b_tx, b_rx) = channel::<u64>();
            let talk = |tx: Sender<u64>, rx: Receiver<u64>| async move {
                let (mut sent, mut sum, mut open) = (0, 0, true);
                while sent < COUNT {
                    let send = tx.send(sent + 1).wrap(|result| {
                        result.expect("the other side receives to the end");
                        None
                    });
                    let receive = if open { rx.recv().wrap(Some).boxed() } else { never().boxed() };
                    let late = after(Duration::from_secs(600)).wrap(|()| panic!("a timer fired early"));
                    match choose((send, receive, late)).await {
                        None => sent += 1,
                        Some(Ok(n)) => sum += n,
                        Some(Err(Closed)) => open = false,
                    }
                }
                drop(tx);
                while let Ok(n) = rx.recv().await {
                    sum += n;
                }
                sum
            };
            let first = stage.run(left, talk(a_tx, b_rx));
            let second = stage.run(right, talk(b_tx, a_rx));
            for side in [first, second] {
                assert_eq!(side.get().sync_blocking(), COUNT * (COUNT + 1) / 2, "{left:?} {right:?}");
            }
        }
    }
}

#[test]
fn threads_are_joined_from_anywhere() {
    watchdog!();
    let stage = Stage::new(2);
    for side in SIDES {
        for n in 0..50u32 {
            let thread = stage.machine.spawn(async move {
                if n % 2 == 0 {
                    yield_now().await;
                }
                n
            });
            let joined = stage.run(side, async move { thread.join().await.unwrap() });
            assert_eq!(joined.get().sync_blocking(), n, "{side:?}");
        }
    }
}

#[test]
fn timers_run_everywhere() {
    watchdog!();
    let stage = Stage::new(2);
    for side in SIDES {
        // One that is late by chance is not late again and again.
        let is_soon = (0..20).any(|_| {
            let took = stage.run(side, async {
                let start = Instant::now();
                after(millis(15)).await;
                start.elapsed()
            });
            let took = took.get().sync_blocking();
            assert!(took >= millis(15), "{side:?}: too early");
            took < millis(1500)
        });
        assert!(is_soon, "{side:?}: always too late");
    }
}

/// Many producers and consumers of all kinds on one channel.
#[test]
fn all_kinds_share_a_channel() {
    watchdog!();
    const EACH: usize = 400;
    for (name, make) in FLAVOURS {
        let stage = Stage::new(2);
        let ledger = Ledger::new();
        let (tx, rx) = make();
        let senders: Vec<_> = SIDES
            .iter()
            .enumerate()
            .map(|(me, side)| {
                let (tx, ledger) = (tx.clone(), ledger.clone());
                stage.run(*side, async move {
                    for n in 0..EACH {
                        tx.send(ledger.payload(me * EACH + n)).await.unwrap();
                    }
                })
            })
            .collect();
        let receivers: Vec<_> = SIDES
            .iter()
            .map(|side| {
                let rx = rx.clone();
                stage.run(*side, async move {
                    let mut got = Vec::new();
                    while let Ok(message) = choose((rx.recv(), rx.recv(), never())).await {
                        got.push(message.id);
                    }
                    got
                })
            })
            .collect();
        drop((tx, rx));
        for sender in senders {
            sender.get().sync_blocking();
        }
        let mut all = Vec::new();
        for receiver in receivers {
            let got = receiver.get().sync_blocking();
            // The messages of one sender arrive in order at each receiver.
            for me in 0..SIDES.len() {
                let of_one: Vec<_> = got.iter().filter(|id| **id / EACH == me).collect();
                assert!(of_one.is_sorted(), "{name}: out of order");
            }
            all.extend(got);
        }
        all.sort_unstable();
        assert_eq!(all, (0..SIDES.len() * EACH).collect::<Vec<_>>(), "{name}");
        ledger.check();
    }
}

/// `sync_blocking` on a thread of a machine lets the others go on.
#[test]
fn blocking_on_a_machine_serves_its_threads() {
    watchdog!();
    for vps in [1, 2] {
        machine(vps).block_on(async {
            let (tx, rx) = channel::<u32>();
            let sender = spawn(async move {
                for n in 0..100 {
                    tx.send(n).await.unwrap();
                    after(Duration::from_micros(100)).await;
                }
            });
            for n in 0..100 {
                assert_eq!(rx.recv().sync_blocking(), Ok(n));
            }
            after(millis(1)).sync_blocking();
            sender.join().sync_blocking().unwrap();
            assert_eq!(chanter::block_on(async { spawn(async { 5 }).join().await.unwrap() }), 5);
        });
    }
}

/// Another executor's `block_on` inside of a thread: operations that are
/// ready do not wait for a scheduler that cannot run.
#[test]
fn a_foreign_executor_may_run_inside_of_a_thread() {
    watchdog!();
    let (done, finished) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        machine(1).block_on(async {
            let (tx, rx) = mailbox();
            for n in 0..2000u32 {
                tx.try_send(n).unwrap();
            }
            futures::executor::block_on(async {
                for n in 0..2000 {
                    assert_eq!(rx.recv().await, Ok(n));
                }
            });
        });
        done.send(()).unwrap();
    });
    finished.recv_timeout(common::FOREVER).expect("a foreign executor spins without end");
}

/// Nested blocking is bounded by what the stack holds: many threads of one
/// processor may block their OS thread.
#[test]
#[cfg_attr(miri, ignore = "Miri starts no processes")]
fn many_threads_may_block_on_one_processor() {
    watchdog!();
    // Its own process: a stack that overflows kills it.
    if std::env::var_os("CHANTER_TEST_NEST").is_none() {
        let status = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "event::executors::many_threads_may_block_on_one_processor", "--nocapture"])
            .env("CHANTER_TEST_NEST", "1")
            .env("RUST_BACKTRACE", "0")
            // It tells of each thread that finds no room.
            .stderr(std::process::Stdio::null())
            .status()
            .unwrap();
        assert!(status.success(), "the stack overflowed: {status}");
        return;
    }
    machine(1).block_on(async {
        let (tx, rx) = mailbox::<u32>();
        let threads: Vec<_> = (0..20_000)
            .map(|_| {
                let rx = rx.clone();
                spawn(async move { rx.recv().sync_blocking() })
            })
            .collect();
        for n in 0..3 {
            yield_now().await;
            tx.try_send(n).unwrap();
        }
        for n in 3..20_000 {
            tx.try_send(n).unwrap();
        }
        for thread in threads {
            // Those for whom the stack has no room are told so, by a panic.
            match thread.join().await {
                Ok(message) => assert!(message.is_ok()),
                Err(error) => assert!(error.message().unwrap().contains("await instead of blocking")),
            }
        }
    });
}

/// An idle processor takes a host that was spawned by one that computes.
#[test]
fn a_spawned_host_does_not_wait_for_its_spawner() {
    watchdog!();
    let machine = machine(2);
    // The second processor is fast asleep.
    std::thread::sleep(millis(50));
    for round in 0..20 {
        let ran = machine.block_on(async move {
            if round % 2 == 0 {
                after(millis(5)).await;
            }
            let flag = Arc::new(AtomicBool::new(false));
            let set = flag.clone();
            let host = spawn(async move { set.store(true, Ordering::Release) });
            let end = Instant::now() + common::FOREVER;
            while !flag.load(Ordering::Acquire) && Instant::now() < end {
                std::hint::spin_loop();
            }
            let ran = flag.load(Ordering::Acquire);
            host.join().await.unwrap();
            ran
        });
        assert!(ran, "round {round}: the host waited for a spawner that computes, beside an idle processor");
    }
}

/// The main future runs on processor 0 whatever else the machine does.
#[test]
fn block_on_may_follow_a_spawn_from_outside() {
    watchdog!();
    for vps in [1, 2] {
        let machine = machine(vps);
        let (tx, rx) = channel::<u32>();
        let background = machine.spawn(async move {
            while rx.recv().await.is_ok() {
                after(Duration::from_micros(50)).await;
            }
        });
        std::thread::sleep(millis(5));
        for n in 0..20 {
            let got = machine.block_on_local(async {
                tx.send(n).await.unwrap();
                let local = std::rc::Rc::new(n);
                let same = local.clone();
                spawn_parasite(async {});
                let thread = spawn_local(async move { *same });
                thread.join().await.unwrap()
            });
            assert_eq!(got, n);
        }
        drop(tx);
        background.join().sync_blocking().unwrap();
    }
}

#[test]
fn two_callers_of_block_on_share_a_machine() {
    watchdog!();
    let machine = machine(2);
    let (tx, rx) = channel::<u32>();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            machine.block_on(async {
                for n in 0..2000 {
                    tx.send(n).await.unwrap();
                }
            });
        });
        machine.block_on(async {
            for n in 0..2000 {
                assert_eq!(rx.recv().await, Ok(n));
            }
            let threads: Vec<_> = (0..100u32).map(|n| spawn(async move { n })).collect();
            for (n, thread) in threads.into_iter().enumerate() {
                assert_eq!(thread.join().await.unwrap(), n as u32);
            }
        });
    });
}

#[test]
#[should_panic(expected = "on a machine")]
fn spawning_outside_of_a_machine_says_so() {
    let _ = spawn(async {});
}
