//! Lost choices leave memory flat, whatever they waited for. In a process of its
//! own, because it looks at the resident memory of the process.
#![cfg(all(target_os = "linux", not(miri)))]

mod common;

use std::sync::Mutex;
use std::time::Duration;

use chanter::prelude::*;
use chanter::sync::{
    Barrier, Broadcast, CVar, MVar, Multicast, Swap, SwapChannel, Watched, broadcast, multicast, rpc, swap,
    watch,
};
use chanter::thread::Group;
use common::memory::{flat, resident};
use common::{machine, poll, watchdog};

static ALONE: Mutex<()> = Mutex::new(());
const CHOICES: usize = if cfg!(debug_assertions) { 50_000 } else { 500_000 };
const HOUR: Duration = Duration::from_secs(3600);

/// One of each, which nobody ever serves.
struct All {
    empty: MVar<u32>,
    full: MVar<u32>,
    ends: (Swap<u32, u32>, Swap<u32, u32>),
    equals: SwapChannel<u32>,
    news: Multicast<u32>,
    ticks: Broadcast<u32>,
    value: Watched<u32>,
    barrier: Barrier,
    over: CVar,
    calls: (chanter::sync::Client<u32, u32>, chanter::sync::Server<u32, u32>),
}

impl All {
    fn new() -> Self {
        Self {
            empty: MVar::empty(),
            full: MVar::new(1),
            ends: swap(),
            equals: SwapChannel::new(),
            news: multicast(),
            ticks: broadcast(2),
            value: watch(1).0,
            barrier: Barrier::new(2),
            over: CVar::new(),
            calls: rpc(),
        }
    }

    /// Waits for all of them at once, and for `other`.
    fn event<'a>(&self, other: impl Event<Output = u32> + Send + 'a) -> BoxEvent<'a, u32> {
        // Ports and watchers are made anew each time, too.
        let (port, subscriber) = (self.news.port(), self.ticks.subscribe());
        choose(vec![
            self.empty.take().boxed(),
            self.empty.read().boxed(),
            self.empty.swap(1).boxed(),
            self.full.put(1).wrap(|()| 0).boxed(),
            self.ends.0.swap(1).wrap(|_| 0).boxed(),
            self.equals.swap(1).boxed(),
            port.recv().wrap(|_| 0).boxed(),
            subscriber.recv().wrap(|_| 0).boxed(),
            self.value.watcher().changed().wrap(|_| 0).boxed(),
            self.barrier.wait().wrap(|_| 0).boxed(),
            self.over.wait().wrap(|_| 0).boxed(),
            self.calls.0.call(1).timeout(HOUR).wrap(|_| 0).boxed(),
            other.boxed(),
        ])
        .boxed()
    }
}

#[test]
fn choices_that_wait_and_lose() {
    let _alone = ALONE.lock().unwrap_or_else(|e| e.into_inner());
    watchdog!(120);
    machine(1).block_on(async {
        let all = All::new();
        let (tx, rx) = channel();
        drop(spawn(async move { while tx.send(7).await.is_ok() {} }));
        let mut before = 0;
        for n in 0..CHOICES + CHOICES / 10 {
            // Offered everywhere before the sender comes.
            assert_eq!(all.event(rx.recv().wrap(|n| n.unwrap())).await, 7);
            if n == CHOICES / 10 {
                before = resident();
            }
        }
        let grown = resident().saturating_sub(before);
        assert!(grown < 512 * 1024, "{CHOICES} lost choices left {grown} bytes");
        assert!(all.calls.1.is_empty());
    });
}

#[test]
fn waits_that_are_dropped() {
    let _alone = ALONE.lock().unwrap_or_else(|e| e.into_inner());
    watchdog!(120);
    let all = All::new();
    flat(CHOICES, || {
        let mut wait = Box::pin(all.event(after(HOUR).wrap(|()| 0)).sync());
        assert!(poll(&mut wait).is_pending());
    });
    flat(CHOICES, || {
        // Never polled; and tried only.
        drop(all.event(never()));
        assert_eq!(all.event(never()).try_sync(), None);
    });
}

/// Committed, and dropped before it was taken: what comes back is used again.
#[test]
fn commits_that_are_dropped() {
    let _alone = ALONE.lock().unwrap_or_else(|e| e.into_inner());
    watchdog!(120);
    let all = All::new();
    let (port, subscriber) = (all.news.port(), all.ticks.subscribe());
    flat(CHOICES, || {
        let mut wait = Box::pin(choose((all.empty.take(), never())).sync());
        assert!(poll(&mut wait).is_pending());
        all.empty.try_put(1).unwrap();
        drop(wait);
        assert_eq!(all.empty.try_take(), Some(1));
        let mut wait = Box::pin(choose((all.ends.0.swap(1), never())).sync());
        assert!(poll(&mut wait).is_pending());
        assert_eq!(all.ends.1.try_swap(2), Ok(1));
        drop(wait);
        let mut wait = Box::pin(choose((port.recv(), never())).sync());
        assert!(poll(&mut wait).is_pending());
        all.news.send(1).unwrap();
        drop(wait);
        assert_eq!(port.try_recv(), Ok(1));
        let mut wait = Box::pin(choose((subscriber.recv(), never())).sync());
        assert!(poll(&mut wait).is_pending());
        all.ticks.send(1).unwrap();
        drop(wait);
        assert_eq!(subscriber.try_recv(), Ok(Some(1)));
        let mut accept = Box::pin(choose((all.calls.1.accept(), never())).sync());
        assert!(poll(&mut accept).is_pending());
        let mut call = Box::pin(all.calls.0.call(1).sync());
        assert!(poll(&mut call).is_pending());
        drop(call);
        drop(accept);
        assert!(all.calls.1.is_empty());
    });
}

#[test]
fn joins_of_a_group_that_are_dropped() {
    let _alone = ALONE.lock().unwrap_or_else(|e| e.into_inner());
    watchdog!(120);
    let (machine, group) = (machine(1), Group::new());
    group.enter(|| drop(machine.spawn(never::<()>().into_future())));
    flat(CHOICES, || {
        let mut join = Box::pin(group.join());
        assert!(poll(&mut join).is_pending());
    });
}
