//! Checks on machines.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use super::Family;
use chanter::prelude::*;
use chanter::{
    base::Threads,
    current_vp,
    policy::{Fifo, Policy, Reason, WorkStealing},
};

type Found = Result<(), String>;

/// Time limit of each check. None takes so long, unless a thread is lost.
const PATIENCE: Duration = Duration::from_secs(20);
const CROWD: usize = 40;
const ROUNDS: usize = 50;
/// Threads that an idle virtual processor could take.
const SHARED: usize = 8;

/// Runs `work` on an OS thread of its own, which is abandoned if it does not end in time.
fn within_patience(what: &str, work: impl FnOnce() -> Found + Send + 'static) -> Found {
    let (done, ended) = mpsc::channel();
    let worker = std::thread::spawn(move || {
        // Perhaps nobody waits for it any more.
        let _ = done.send(work());
    });
    match ended.recv_timeout(PATIENCE) {
        Ok(found) => {
            worker.join().map_err(|_| format!("{what}: panicked"))?;
            found
        }
        Err(mpsc::RecvTimeoutError::Disconnected) => Err(format!("{what}: panicked")),
        Err(mpsc::RecvTimeoutError::Timeout) => {
            Err(format!("{what} had not ended after {PATIENCE:?}: threads are lost"))
        }
    }
}

fn machine(vps: usize, family: impl Fn(usize) -> Box<dyn Policy> + 'static) -> Machine {
    Machine::builder()
        // A spare worker would hide a fault.
        .hand_off_after(None)
        .vps(vps)
        .name("conformance")
        .policy(family)
        .build()
        .expect("the OS grants pollers and threads")
}

/// Runs threads that talk, sleep, yield and compute. Returns the sum of the numbers that they received.
async fn crowd() -> Result<usize, JoinError> {
    let (tx, rx) = channel::<usize>();
    let (late_tx, late_rx) = mailbox::<usize>();
    let mut threads = Vec::new();
    for index in 0..CROWD {
        let (tx, late_tx) = (tx.clone(), late_tx.clone());
        threads.push(spawn(async move {
            for round in 0..ROUNDS {
                match (index + round) % 5 {
                    0 => yield_now().await,
                    1 if round % 25 == 1 => after(Duration::from_micros(50)).await,
                    2 => spawn_parasite(async { yield_now().await }),
                    _ => (),
                }
                // A closed channel shows in the sum.
                let _ = tx.send(1).await;
            }
            let _ = late_tx.send(1).await;
        }));
    }
    drop((tx, late_tx));
    let adder = spawn(async move {
        let mut sum = 0;
        while let Ok(n) = rx.recv().await {
            sum += n;
        }
        while let Ok(n) = late_rx.recv().await {
            sum += n;
        }
        sum
    });
    for thread in threads {
        thread.join().await?;
    }
    adder.join().await
}

/// Fails if the policy has panicked: the machine has replaced it, and has gone on.
fn expect_sound(machine: &Machine, found: Found) -> Found {
    match machine.stats().policies_failed {
        0 => found,
        _ => Err("the policy panicked".to_owned()),
    }
}

fn expect_all(sum: Result<usize, JoinError>) -> Found {
    match sum {
        Ok(sum) if sum == CROWD * (ROUNDS + 1) => Ok(()),
        Ok(sum) => Err(format!("{sum} messages came, not {}", CROWD * (ROUNDS + 1))),
        Err(error) => Err(format!("a thread has not ended as it should: {error}")),
    }
}

pub(super) fn runs(family: Family) -> Found {
    within_patience("a crowd", move || {
        let machine = machine(2, family);
        let found = expect_all(machine.block_on(crowd()));
        expect_sound(&machine, found)
    })
}

pub(super) fn panics(family: Family) -> Found {
    /// A panic without a message on standard error.
    fn fail() {
        std::panic::resume_unwind(Box::new("as planned"));
    }
    within_patience("a crowd beside threads that panic", move || {
        let machine = machine(2, family);
        let found = machine.block_on(async {
            let wrong: Vec<_> = (0..CROWD)
                .map(|index| {
                    spawn(async move {
                        for _ in 0..index % 3 {
                            yield_now().await;
                        }
                        fail();
                    })
                })
                .collect();
            let sum = crowd().await;
            for thread in wrong {
                match thread.join().await {
                    Err(error) if error.is_panic() => (),
                    other => return Err(format!("a thread that panicked ended with {other:?}")),
                }
            }
            expect_all(sum)
        });
        expect_sound(&machine, found)
    })
}

pub(super) fn need_thread(families: &Arc<dyn Fn() -> Family + Send + Sync>) -> Found {
    let gives = {
        let threads = Threads::new();
        let family = families();
        let policy = family(0);
        for thread in threads.take(SHARED) {
            drop(policy.enqueue(thread, Reason::New));
        }
        // A policy that gives away only some threads might have none of these.
        let gives = policy.waiting() >= SHARED;
        while policy.drain().is_some() {}
        gives
    };
    if !gives {
        return Ok(());
    }
    let family = families();
    within_patience("an idle virtual processor", move || {
        let machine = machine(2, family);
        let ran = Arc::new(AtomicUsize::new(0));
        let seen = Arc::clone(&ran);
        machine.block_on(async move {
            let busy = Thread::builder().on(0).spawn(async move {
                // Several threads: a single one is often awaited at once, so stealers leave it alone for a while.
                for _ in 0..SHARED {
                    let ran = Arc::clone(&ran);
                    spawn(async move { ran.fetch_add(1, Ordering::SeqCst) });
                }
                let patience = Instant::now() + PATIENCE / 4;
                while seen.load(Ordering::SeqCst) == 0 && Instant::now() < patience {
                    std::thread::yield_now();
                }
                seen.load(Ordering::SeqCst) > 0
            });
            match busy.join().await {
                Ok(true) => Ok(()),
                Ok(false) => {
                    Err("threads waited on a busy virtual processor while another one was idle".to_owned())
                }
                Err(error) => Err(error.to_string()),
            }
        })
    })
}

pub(super) fn replaced(family: Family) -> Found {
    within_patience("a crowd under policies that are replaced", move || {
        let family = Arc::new(family);
        let machine = machine(2, {
            let family = Arc::clone(&family);
            move |vp| family(vp)
        });
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let (machine, over, maker) = (&machine, &over, &family);
            scope.spawn(move || {
                for round in 0.. {
                    let vp = machine.vp(round / 3 % 2);
                    let done = match round % 3 {
                        0 => vp.set_policy(Fifo::new()),
                        1 => vp.set_policy(WorkStealing::new()),
                        _ => vp.set_policy(maker(vp.index())),
                    };
                    if round % 4 == 0 {
                        done.wait().sync_blocking();
                    }
                    if over.load(Ordering::SeqCst) {
                        break;
                    }
                    std::thread::sleep(Duration::from_micros(100));
                }
            });
            let found = machine.block_on(async {
                let family = Arc::clone(&family);
                let inside = spawn(async move {
                    for _ in 0..50 {
                        if let Some(vp) = current_vp() {
                            vp.set_policy(family(vp.index()));
                        }
                        after(Duration::from_micros(100)).await;
                    }
                });
                let mut found = Ok(());
                for _ in 0..5 {
                    found = found.and(expect_all(crowd().await));
                }
                let ended = inside.join().await.map_err(|error| error.to_string());
                found.and(ended)
            });
            over.store(true, Ordering::SeqCst);
            expect_sound(machine, found)
        })
    })
}

pub(super) fn ends(family: Family) -> Found {
    struct End(Arc<AtomicUsize>);
    impl Drop for End {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
    within_patience("a machine that ends", move || {
        let machine = machine(2, family);
        let ended = Arc::new(AtomicUsize::new(0));
        let all = Arc::clone(&ended);
        machine.block_on(async move {
            for index in 0..CROWD {
                let end = End(Arc::clone(&all));
                spawn(async move {
                    let _end = end;
                    loop {
                        match index % 2 {
                            0 => yield_now().await,
                            _ => never::<()>().await,
                        }
                    }
                });
            }
            yield_now().await;
        });
        let vps = [0, 1].map(|vp| machine.vp(vp));
        drop(machine);
        let stats = vps.map(|vp| vp.stats());
        match ended.load(Ordering::SeqCst) {
            _ if stats.iter().any(|stats| stats.policies_failed > 0) => Err("the policy panicked".to_owned()),
            _ if stats.iter().any(|stats| stats.tokens_kept > 0) => {
                Err("the policy has not handed over all of its threads".to_owned())
            }
            CROWD => Ok(()),
            few => Err(format!("{few} of {CROWD} threads were ended")),
        }
    })
}
