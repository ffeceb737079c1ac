//! A replicated key-value store whose replicas are killed under load, and an account of every request:
//! `chanter launch -n 5 --keep-going target/release/examples/store [OPERATIONS] [SEED]`.
//!
//! Process 0 has the clients, the others are replicas. The first living replica is the primary. It writes a value to
//! all other living replicas before it reports the write as done. It alone answers reads. While the clients ask,
//! process 0 kills all replicas but one
//! with SIGKILL. Each request is in the end *done*, *unknown* (its replica died, it may have happened) or *refused*
//! (it has not happened). For each key the history is linearizable: see `history.rs`.

mod history;
mod replica;

use std::error::Error;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use chanter::prelude::*;
use chanter_cluster::{Begun, CallError, Process};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use history::{Done, History};
use replica::{GET, KEYS, NotPrimary, PID, PUT, Replica};

/// Threads that ask.
const CLIENTS: u64 = 8;
const END: u32 = 1;

type Failure = Box<dyn Error + Send + Sync>;

/// Outcomes of requests.
#[derive(Default)]
struct Accounts {
    done: AtomicU64,
    unknown: AtomicU64,
    refused: AtomicU64,
}

struct Load {
    here: Process,
    operations: u64,
    /// The order of events, as the clients see it.
    clock: AtomicU64,
    accounts: Accounts,
    histories: Vec<Mutex<History>>,
}

impl Load {
    fn tick(&self) -> u64 {
        self.clock.fetch_add(1, Ordering::SeqCst)
    }

    fn primary(&self) -> u32 {
        let lives = |process: &u32| self.here.down(*process).is_none();
        (1..self.here.count()).find(lives).expect("one replica is not killed")
    }

    /// A client: each of its values is its own, and was never written before.
    async fn ask(&self, client: u64, seed: u64) -> Result<(), Failure> {
        let mut random = fastrand::Rng::with_seed(seed ^ client);
        for operation in 0..self.operations {
            let key = random.u32(..KEYS);
            let value = random.bool().then_some(1 + client * self.operations + operation);
            let there = self.here.at(self.primary());
            let from = self.tick();
            let answer = match value {
                Some(value) => {
                    there.call(PUT.ask(&(key, value))).await.map(|done| done.map(|()| Done::Wrote(value)))
                }
                None => there.call(GET.ask(&key)).await.map(|read| read.map(Done::Read)),
            };
            let until = self.tick();
            let history = &self.histories[key as usize];
            let note = |done, until| {
                history.lock().unwrap_or_else(PoisonError::into_inner).note(done, from, until);
            };
            let account = match (answer, value) {
                (Ok(Ok(done)), _) => {
                    note(done, until);
                    &self.accounts.done
                }
                (Err(CallError::Lost { begun: Begun::Unknown, .. }), value) => {
                    // It happens at any time from now on, or never.
                    if let Some(value) = value {
                        note(Done::Wrote(value), u64::MAX);
                    }
                    &self.accounts.unknown
                }
                (Ok(Err(NotPrimary)) | Err(CallError::Lost { begun: Begun::No, .. }), _) => {
                    // The replicas do not know yet who is the first of them, or this process does not.
                    after(Duration::from_millis(1)).await;
                    &self.accounts.refused
                }
                (Err(error), _) => return Err(error.into()),
            };
            account.fetch_add(1, Ordering::SeqCst);
        }
        Ok(())
    }

    fn ended(&self) -> u64 {
        let Accounts { done, unknown, refused } = &self.accounts;
        [done, unknown, refused].into_iter().map(|count| count.load(Ordering::SeqCst)).sum()
    }
}

/// Kills all replicas but one, in any order, at even distances of the load.
async fn kill_replicas(load: &Load, pids: Vec<(u32, i32)>, seed: u64) -> Result<usize, Failure> {
    let mut living = pids;
    let all = living.len() as u64;
    let mut random = fastrand::Rng::with_seed(seed);
    while living.len() > 1 {
        let killed = all - living.len() as u64;
        while load.ended() < CLIENTS * load.operations * (killed + 1) / (all + 1) {
            yield_now().await;
        }
        let (_, pid) = living.swap_remove(random.usize(..living.len()));
        kill(Pid::from_raw(pid), Signal::SIGKILL)?;
    }
    Ok(all as usize - 1)
}

async fn clients(here: &Process) -> Result<(), Failure> {
    let argument =
        |at, otherwise| std::env::args().nth(at).map_or(Ok(otherwise), |number| number.parse::<u64>());
    let (operations, seed) = (argument(1, 2000)?, argument(2, 0)?);
    // The replicas serve when they have opened this.
    let mut replicas = Vec::new();
    let me = here.open("clients")?;
    let mut pids = Vec::new();
    for process in 1..here.count() {
        replicas.push(here.lookup(&format!("replica@{process}")).await?);
        pids.push((process, here.at(process).call(PID.ask(&())).await?));
    }
    let load = Arc::new(Load {
        here: here.clone(),
        operations,
        clock: AtomicU64::new(0),
        accounts: Accounts::default(),
        histories: (0..KEYS).map(|_| Mutex::default()).collect(),
    });
    let asking: Vec<_> = (0..CLIENTS)
        .map(|client| {
            let load = Arc::clone(&load);
            spawn(async move { load.ask(client, seed).await })
        })
        .collect();
    let killed = kill_replicas(&load, pids, seed).await?;
    for client in asking {
        client.await??;
    }
    let Accounts { done, unknown, refused } = &load.accounts;
    let [done, unknown, refused] = [done, unknown, refused].map(|count| count.load(Ordering::SeqCst));
    assert_eq!(done + unknown + refused, CLIENTS * operations, "a request was not accounted for");
    for (key, history) in load.histories.iter().enumerate() {
        let history = history.lock().unwrap_or_else(PoisonError::into_inner);
        history.check().map_err(|why| format!("key {key}: {why}"))?;
    }
    println!(
        "{} requests: {done} done, {unknown} unknown, {refused} refused; {killed} replicas killed; \
         every key is linearizable",
        CLIENTS * operations
    );
    for replica in replicas {
        // Most are dead.
        let _ = me.send(replica, END, &()).await;
    }
    Ok(())
}

async fn replica(here: &Process) -> Result<(), Failure> {
    let serving = Arc::new(Replica::new(here.clone())).serve()?;
    let me = here.open("replica")?;
    let clients = here.lookup("clients@0").await?;
    me.recv::<()>(clients, END).await?;
    drop(serving);
    Ok(())
}

#[chanter_cluster::main]
async fn main(here: Process) -> Result<(), Failure> {
    if here.number() == 0 { clients(&here).await } else { replica(&here).await }
}
