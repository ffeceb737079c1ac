//! `lost-choice`: choices that have a branch which loses every time. Nothing of a loser may stay behind.

use std::any::Any;
use std::cell::{Cell, OnceCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use chanter::prelude::*;
use chanter::{
    event::from_cancel_safe,
    io::{TcpListener, UnixStream},
    sync::{
        Barrier, CVar, MVar, Mutex, RwLock, Semaphore, SwapChannel, broadcast, multicast, rpc, swap, watch,
    },
};

use super::on_machine;
use crate::case::{Case, Failure, Load, Outcome, Sample, expect, sum_below};
use crate::memory::resident;

/// No timer of this benchmark fires.
const FAR: Duration = Duration::from_secs(24 * 3600);

/// Number of looks at the memory.
const LOOKS: u64 = 16;

/// Every kind of loser.
pub(crate) const LOSERS: [&str; 28] = [
    "timer",
    "wrapped timer",
    "silent channel",
    "send",
    "send to a full buffer",
    "IVar",
    "MVar take",
    "MVar read",
    "MVar put",
    "MVar swap",
    "CVar",
    "swap",
    "swap channel",
    "multicast",
    "broadcast",
    "watch",
    "barrier",
    "call",
    "accept",
    "mutex",
    "rwlock read",
    "rwlock write",
    "semaphore",
    "join",
    "readable",
    "connection",
    "future",
    "gather",
];

pub(crate) fn cases(vps: usize) -> Vec<Case> {
    LOSERS.into_iter().map(|loser| case(loser, vps)).collect()
}

fn alone(loser: &'static str, vps: usize, run: impl Fn(Load) -> Outcome + Send + Sync + 'static) -> Case {
    Case::new("lost-choice", "chanter", loser, run).isolated().at_most_rounds(1).load_of(1_000_000, vps)
}

/// A loser that a guard makes of `make`'s thing, and that is wrapped. The thing is made on the machine, and leaked.
fn guarded<S: 'static, E: Event + 'static>(
    loser: &'static str,
    vps: usize,
    make: fn() -> S,
    event: fn(&'static S) -> E,
) -> Case {
    alone(loser, vps, move |load| {
        let thing = OnceCell::<&'static S>::new();
        lose(load, async |rx, won| {
            let event = event(*thing.get_or_init(|| Box::leak(Box::new(make()))));
            choose((rx.recv().wrap(keep(won)), guard(move || event).wrap(drop))).await;
        })
    })
}

fn held<L>(lock: L, hold: impl FnOnce(Arc<L>) -> Box<dyn Any>) -> (Arc<L>, Box<dyn Any>) {
    let lock = Arc::new(lock);
    (lock.clone(), hold(lock))
}

fn case(loser: &'static str, vps: usize) -> Case {
    match loser {
        "timer" => alone(loser, vps, |load| {
            lose(load, async |rx, won| choose((rx.recv().wrap(keep(won)), after(FAR))).await)
        }),
        "wrapped timer" => guarded(loser, vps, || (), |()| after(FAR)),
        "silent channel" => alone(loser, vps, |load| {
            // Nobody sends on this channel while it stays open.
            let (_open, silent) = channel::<u64>();
            lose(load, async |rx, won| choose((rx.recv().wrap(keep(won)), silent.recv().wrap(drop))).await)
        }),
        "send" => guarded(loser, vps, channel::<u64>, |(tx, _)| tx.send(1)),
        "send to a full buffer" => {
            let full = || {
                let (tx, rx) = bounded::<u64>(1);
                let _ = tx.try_send(0);
                (tx, rx)
            };
            guarded(loser, vps, full, |(tx, _)| tx.send(1))
        }
        "IVar" => guarded(loser, vps, IVar::<u64>::new, IVar::get),
        "MVar take" => guarded(loser, vps, MVar::<u64>::empty, MVar::take),
        "MVar read" => guarded(loser, vps, MVar::<u64>::empty, MVar::read),
        "MVar put" => guarded(loser, vps, || MVar::new(0_u64), |place| place.put(1)),
        "MVar swap" => guarded(loser, vps, MVar::<u64>::empty, |place| place.swap(1)),
        "CVar" => guarded(loser, vps, CVar::new, CVar::wait),
        "swap" => guarded(loser, vps, swap::<u64, u64>, |(left, _)| left.swap(1)),
        "swap channel" => guarded(loser, vps, SwapChannel::<u64>::new, |place| place.swap(1)),
        "multicast" => guarded(loser, vps, multicast::<u64>, |news| news.port().recv()),
        "broadcast" => guarded(loser, vps, || broadcast::<u64>(2), |news| news.subscribe().recv()),
        "watch" => guarded(loser, vps, || watch(0_u64), |(_, watcher)| watcher.changed()),
        "barrier" => guarded(loser, vps, || Barrier::new(2), Barrier::wait),
        "call" => guarded(loser, vps, rpc::<u64, u64>, |(client, _)| client.call(1)),
        "accept" => guarded(loser, vps, rpc::<u64, u64>, |(_, server)| server.accept()),
        "mutex" => {
            let locked = || held(Mutex::new(()), |lock| Box::new(lock.try_lock_owned()));
            guarded(loser, vps, locked, |(lock, _)| lock.clone().lock_owned())
        }
        "rwlock read" => {
            let written = || held(RwLock::new(()), |lock| Box::new(lock.write_owned().sync_blocking()));
            guarded(loser, vps, written, |(lock, _)| lock.clone().read_owned())
        }
        "rwlock write" => {
            let read = || held(RwLock::new(()), |lock| Box::new(lock.read_owned().sync_blocking()));
            guarded(loser, vps, read, |(lock, _)| lock.clone().write_owned())
        }
        "semaphore" => {
            guarded(loser, vps, || Arc::new(Semaphore::new(1)), |few| few.clone().acquire_owned(2))
        }
        "join" => guarded(loser, vps, || spawn(never::<()>().sync()), Thread::join),
        "readable" => {
            let quiet = || {
                let (here, there) = UnixStream::pair().expect("a pair of sockets");
                // It is assumed to be ready until a read finds nothing.
                let _ = here.try_read(&mut [0]);
                (here, there)
            };
            guarded(loser, vps, quiet, |(here, _)| here.readable())
        }
        "connection" => {
            let quiet = || TcpListener::bind("127.0.0.1:0").expect("a listener");
            guarded(loser, vps, quiet, TcpListener::accept)
        }
        "future" => guarded(loser, vps, || (), |()| from_cancel_safe(std::future::pending::<()>())),
        "gather" => guarded(loser, vps, channel::<u64>, |(_, rx)| {
            gather((rx.clone().into_recv(), rx.clone().into_recv()))
        }),
        _ => unreachable!("{loser}"),
    }
}

/// The message that won, and nothing else, gets here.
type Won = Rc<Cell<u64>>;

fn keep(won: &Won) -> impl FnOnce(Result<u64, Closed>) + use<> {
    let won = won.clone();
    move |message| won.set(message.unwrap_or(u64::MAX))
}

/// Receives `n` messages from a host, each by a choice with a branch that never wins.
fn lose(load: Load, choice: impl AsyncFn(&Receiver<u64>, &Won)) -> Outcome {
    on_machine(load.vps, async move {
        let (tx, rx) = channel();
        spawn(async move {
            for value in 0..load.n {
                if tx.send(value).await.is_err() {
                    break;
                }
            }
        });
        let won = Won::new(Cell::new(u64::MAX));
        let clock = Instant::now();
        let look_every = (load.n / LOOKS).max(1);
        let (mut first, mut most, mut sum) = (0, 0, 0_u64);
        for done in 1..=load.n {
            choice(&rx, &won).await;
            sum = sum.wrapping_add(won.replace(u64::MAX));
            if done % look_every == 0 {
                let now = resident()?;
                // The first look comes after a sixteenth: caches are full by then.
                first = if first == 0 { now } else { first };
                most = most.max(now);
            }
        }
        let elapsed = clock.elapsed();
        expect("sum of what won", sum, sum_below(load.n))?;
        Ok::<_, Failure>(Sample::new(load.n, elapsed).with("rss_growth_bytes", (most - first) as f64))
    })?
}
