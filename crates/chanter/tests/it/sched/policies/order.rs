//! The order in which each policy runs threads.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use chanter::policy::{
    Attributes, Bands, Deque, EarliestDeadline, Fifo, GlobalQueue, Lifo, Lottery, Policy, Priority, Ready,
    ReadyQueue, Reason, RoundRobin, WorkStealing, set_attributes,
};
use chanter::prelude::*;

use crate::common::watchdog;

fn machine(policy: impl Fn() -> Box<dyn Policy> + 'static) -> Machine {
    // One OS thread at a time: then the order is the policy's.
    let builder = Machine::builder().vps(1).hand_off_after(None);
    builder.policy(move |_| policy()).build().expect("a machine")
}

/// The order in which threads that were spawned in a row take `turns` turns.
fn order(
    policy: impl Fn() -> Box<dyn Policy> + 'static,
    threads: Vec<(char, Attributes)>,
    turns: usize,
) -> String {
    let log = Arc::new(Mutex::new(String::new()));
    machine(policy).block_on(async {
        // To await a thread that has not run would steal it.
        let (tx, rx) = mailbox::<()>();
        let threads: Vec<_> = threads
            .into_iter()
            .map(|(name, attributes)| {
                let (log, tx) = (Arc::clone(&log), tx.clone());
                Thread::builder().attributes(attributes).spawn(async move {
                    let _end = tx;
                    for turn in 0..turns {
                        if turn > 0 {
                            yield_now().await;
                        }
                        log.lock().unwrap().push(name);
                    }
                })
            })
            .collect();
        drop(tx);
        assert!(rx.recv().await.is_err());
        for thread in threads {
            thread.join().await.unwrap();
        }
    });
    Arc::try_unwrap(log).unwrap().into_inner().unwrap()
}

fn plain(names: &str) -> Vec<(char, Attributes)> {
    names.chars().map(|name| (name, Attributes::new())).collect()
}

#[test]
fn fifo_and_round_robin_take_turns() {
    watchdog!();
    assert_eq!(order(|| Box::new(Fifo::new()), plain("abc"), 2), "abcabc");
    assert_eq!(order(|| Box::new(RoundRobin::new(1)), plain("abc"), 2), "abcabc");
    let queue = GlobalQueue::new();
    assert_eq!(order(move || Box::new(queue.member()), plain("abc"), 2), "abcabc");
}

#[test]
fn lifo_and_deque_run_the_newest() {
    watchdog!();
    assert_eq!(order(|| Box::new(Lifo::new()), plain("abc"), 1), "cba");
    assert_eq!(order(|| Box::new(Deque::new()), plain("abc"), 1), "cba");
    // A thread that yields lets the others go first.
    assert_eq!(order(|| Box::new(Lifo::new()), plain("abc"), 2), "cbacba");
}

fn urgencies(list: &[(char, i8)]) -> Vec<(char, Attributes)> {
    list.iter().map(|(name, priority)| (*name, Attributes::new().priority(*priority))).collect()
}

#[test]
fn priority_runs_the_most_urgent() {
    watchdog!();
    let threads = urgencies(&[('a', 0), ('b', -3), ('c', 5), ('d', 0), ('e', 7), ('f', 100)]);
    assert_eq!(order(|| Box::new(Priority::new()), threads, 1), "efcadb");
}

#[test]
fn priority_ages() {
    watchdog!();
    let threads = urgencies(&[('a', 1), ('b', 0)]);
    let strict = order(|| Box::new(Priority::with_patience(u32::MAX)), threads.clone(), 20);
    assert_eq!(strict, format!("{}{}", "a".repeat(20), "b".repeat(20)));
    let aged = order(|| Box::new(Priority::with_patience(3)), threads, 20);
    assert_eq!(&aged[..12], "aaabaaabaaab");
}

#[test]
fn the_earliest_deadline_is_first() {
    watchdog!();
    let now = Instant::now();
    let due = |name, secs| (name, Attributes::new().deadline(now + Duration::from_secs(secs)));
    let threads = vec![due('a', 30), ('b', Attributes::new()), due('c', 10), due('d', 20), due('e', 10)];
    assert_eq!(order(|| Box::new(EarliestDeadline::new()), threads, 1), "cedab");
}

#[test]
fn lotteries_give_shares() {
    watchdog!();
    const DRAWS: usize = 8000;
    let tickets = |name, n| (name, Attributes::new().tickets(n));
    let threads = vec![tickets('a', 3), tickets('b', 1), tickets('c', 0)];
    let turns = order(|| Box::new(Lottery::new()), threads, DRAWS);
    // The draws while all three play: up to the end of `a`, which wins most.
    let end = turns.rfind('a').unwrap();
    let count = |name| turns[..end].matches(name).count() as f64;
    for loser in ['b', 'c'] {
        let ratio = DRAWS as f64 / count(loser);
        // Six standard deviations.
        assert!((2.7..3.3).contains(&ratio), "3 to 1 tickets won {ratio} to 1");
    }
}

#[test]
fn bands_are_served_in_order_and_with_patience() {
    watchdog!();
    let bands = |patience| {
        move || -> Box<dyn Policy> {
            let inner: [Box<dyn Policy>; 2] = [Box::new(Fifo::new()), Box::new(Lifo::new())];
            let of = |thread: &Ready, _| usize::from(thread.attributes().priority < 0);
            Box::new(Bands::new(inner, of).patience(patience))
        }
    };
    let threads = urgencies(&[('a', 0), ('x', -1), ('b', 0), ('y', -1)]);
    assert_eq!(order(bands(u32::MAX), threads.clone(), 1), "abyx");
    let turns = order(bands(2), threads, 10);
    // The main thread's turns are of the first band, too.
    let served = turns.find('y').unwrap();
    assert!(served < 6, "{turns}");
    assert_eq!(turns[..served].matches('x').count(), 0, "{turns}");
}

/// Threads that WorkStealing would put on the run-next list run first in their band, and not before the bands above
/// it.
#[test]
fn bands_hold_what_their_policies_let_run() {
    watchdog!();
    let bands = || -> Box<dyn Policy> {
        let inner: [Box<dyn Policy>; 2] = [Box::new(Fifo::new()), Box::new(WorkStealing::new())];
        let of = |thread: &Ready, _| usize::from(thread.attributes().priority < 0);
        Box::new(Bands::new(inner, of).patience(u32::MAX))
    };
    let log = Arc::new(Mutex::new(String::new()));
    machine(bands).block_on(async {
        let (tx, rx) = channel();
        let (low, high) = (Arc::clone(&log), Arc::clone(&log));
        let woken = Thread::builder().attributes(Attributes::new().priority(-1)).spawn(async move {
            rx.recv().await.unwrap();
            low.lock().unwrap().push('w');
        });
        // Everything of the upper band is done before the woken one runs.
        after(Duration::from_millis(2)).await;
        for _ in 0..3 {
            let high = Arc::clone(&high);
            drop(spawn(async move { high.lock().unwrap().push('h') }));
        }
        tx.send(()).await.unwrap();
        woken.join().await.unwrap();
    });
    assert_eq!(*log.lock().unwrap(), "hhhw");
}

#[test]
fn threads_change_their_own_attributes() {
    watchdog!();
    assert!(!set_attributes(Attributes::new()), "there is no thread here");
    let log = Arc::new(Mutex::new(String::new()));
    machine(|| Box::new(Priority::with_patience(u32::MAX))).block_on(async {
        let names = [('a', -1), ('b', 1)];
        let (tx, rx) = mailbox::<()>();
        let threads = names.map(|(name, later)| {
            let (log, tx) = (Arc::clone(&log), tx.clone());
            Thread::builder().attributes(Attributes::new()).spawn(async move {
                let _end = tx;
                assert!(set_attributes(Attributes::new().priority(later)));
                yield_now().await;
                log.lock().unwrap().push(name);
            })
        });
        let without = spawn(async { set_attributes(Attributes::new()) });
        drop(tx);
        assert!(rx.recv().await.is_err());
        assert!(!without.join().await.unwrap());
        for thread in threads {
            thread.join().await.unwrap();
        }
    });
    assert_eq!(*log.lock().unwrap(), "ba");
}

/// Bodies that are too large for a frame, and large outputs.
#[test]
fn large_threads_have_attributes_too() {
    watchdog!();
    let log = Arc::new(Mutex::new(String::new()));
    machine(|| Box::new(Priority::new())).block_on(async {
        let (tx, rx) = mailbox::<()>();
        let make = |name, priority| {
            let (log, tx) = (Arc::clone(&log), tx.clone());
            let large = [name as u8; 4096];
            Thread::builder().attributes(Attributes::new().priority(priority)).spawn(async move {
                let _end = tx;
                yield_now().await;
                log.lock().unwrap().push(name);
                large
            })
        };
        let threads = [make('a', -2), make('b', 2)];
        drop(tx);
        assert!(rx.recv().await.is_err());
        for (thread, name) in threads.into_iter().zip("ab".bytes()) {
            assert_eq!(thread.join().await.unwrap(), [name; 4096]);
        }
    });
    assert_eq!(*log.lock().unwrap(), "ba");
}

#[test]
fn attributes_cost_nothing_but_their_own_size() {
    watchdog!();
    struct Peek(Mutex<ReadyQueue>, Arc<Mutex<Vec<Attributes>>>);
    impl Policy for Peek {
        fn enqueue(&self, thread: Ready, _: Reason) -> Option<Ready> {
            self.1.lock().unwrap().push(thread.attributes());
            self.0.lock().unwrap().push_back(thread);
            None
        }
        fn next(&self) -> Option<Ready> {
            self.0.lock().unwrap().pop_front()
        }
    }
    let seen = Arc::new(Mutex::new(Vec::new()));
    let list = Arc::clone(&seen);
    let machine = machine(move || Box::new(Peek(Mutex::default(), Arc::clone(&list))));
    machine.block_on_local(async {
        spawn(async {}).join().await.unwrap();
        spawn_local(async {}).join().await.unwrap();
        Thread::builder().attributes(Attributes::new().tickets(9)).spawn(async {}).join().await.unwrap();
    });
    machine.spawn_with(Attributes::new().priority(9), async {}).join().sync_blocking().unwrap();
    let seen = seen.lock().unwrap();
    let mut special: Vec<_> =
        seen.iter().filter(|attributes| **attributes != Attributes::default()).collect();
    // A token may come more than once: of a thread that was stolen it is left over.
    special.dedup();
    assert_eq!(special, [&Attributes::new().tickets(9), &Attributes::new().priority(9)]);
}

/// Passes everything on to another policy, and counts what it hands out.
struct Counted<P> {
    inner: P,
    next: Arc<AtomicUsize>,
    withdrawn: Arc<AtomicUsize>,
}

impl<P: Policy> Policy for Counted<P> {
    fn enqueue(&self, thread: Ready, reason: Reason) -> Option<Ready> {
        self.inner.enqueue(thread, reason)
    }

    fn lets_woken_run(&self) -> bool {
        self.inner.lets_woken_run()
    }

    fn next(&self) -> Option<Ready> {
        let next = self.inner.next();
        self.next.fetch_add(usize::from(next.is_some()), Ordering::Relaxed);
        next
    }

    fn withdraw(&self, id: u64) -> Option<Ready> {
        let thread = self.inner.withdraw(id);
        self.withdrawn.fetch_add(usize::from(thread.is_some()), Ordering::Relaxed);
        thread
    }
}

fn what_is_awaited_at_once_is_withdrawn<P: Policy>(make: impl Fn() -> P + Send + Sync + 'static) {
    let counts: [Arc<AtomicUsize>; 2] = Default::default();
    let [next, withdrawn] = counts.clone();
    let machine = machine(move || {
        Box::new(Counted { inner: make(), next: Arc::clone(&next), withdrawn: Arc::clone(&withdrawn) })
    });
    machine.block_on(async {
        let before = counts[0].load(Ordering::Relaxed);
        for n in 0..100 {
            assert_eq!(spawn(async move { n }).await.unwrap(), n);
            assert_eq!(spawn(async move { n }).join().await.unwrap(), n);
            // A tree that is awaited from its end.
            let (one, two, three) = (spawn(async { 1 }), spawn(async { 2 }), spawn(async { 3 }));
            assert_eq!(three.await.unwrap() + two.await.unwrap() + one.await.unwrap(), 6);
        }
        // The turns that remain belong to the thread that awaits the others.
        let turns = counts[0].load(Ordering::Relaxed) - before;
        assert!(turns < 50, "{turns}: dead tokens were queued");
    });
    // Now and then such a turn ends before the demand.
    let withdrawn = counts[1].load(Ordering::Relaxed);
    assert!((450..=500).contains(&withdrawn), "{withdrawn}");
}

#[test]
fn threads_that_are_awaited_at_once_leave_no_dead_tokens() {
    watchdog!();
    what_is_awaited_at_once_is_withdrawn(WorkStealing::new);
    what_is_awaited_at_once_is_withdrawn(Fifo::new);
    what_is_awaited_at_once_is_withdrawn(Lifo::new);
    what_is_awaited_at_once_is_withdrawn(Deque::new);
    what_is_awaited_at_once_is_withdrawn(|| RoundRobin::new(1000));
    what_is_awaited_at_once_is_withdrawn(|| GlobalQueue::new().member());
}

/// Withdraws whatever is first.
struct Errs(Mutex<ReadyQueue>);

impl Policy for Errs {
    fn enqueue(&self, thread: Ready, _: Reason) -> Option<Ready> {
        self.0.lock().unwrap().push_back(thread);
        None
    }

    fn next(&self) -> Option<Ready> {
        self.0.lock().unwrap().pop_front()
    }

    fn withdraw(&self, _: u64) -> Option<Ready> {
        self.next()
    }
}

#[test]
fn a_policy_that_withdraws_others_loses_nothing() {
    watchdog!();
    let machine = machine(|| Box::new(Errs(Mutex::default())));
    let sum = machine.block_on(async {
        let mut sum = 0;
        for n in 0..100 {
            let (one, two, three) = (spawn(async move { n }), spawn(async { 2 }), spawn(async { 3 }));
            sum += two.await.unwrap() + three.join().await.unwrap() + one.await.unwrap();
        }
        sum
    });
    assert_eq!(sum, 100 * 5 + (0..100).sum::<i32>());
}

/// Writes down why threads are ready.
struct Why(Mutex<ReadyQueue>, Arc<Mutex<Vec<(u64, Reason)>>>);

impl Policy for Why {
    fn enqueue(&self, thread: Ready, reason: Reason) -> Option<Ready> {
        self.1.lock().unwrap().push((thread.id(), reason));
        self.0.lock().unwrap().push_back(thread);
        None
    }

    fn next(&self) -> Option<Ready> {
        self.0.lock().unwrap().pop_front()
    }
}

#[test]
#[cfg_attr(miri, ignore = "under Miri nothing is watched")]
fn policies_see_why() {
    watchdog!();
    use futures::{AsyncReadExt, AsyncWriteExt};
    let seen = Arc::new(Mutex::new(Vec::new()));
    let list = Arc::clone(&seen);
    let machine = machine(move || Box::new(Why(Mutex::default(), Arc::clone(&list))));
    let since = |what: &str| {
        let reasons: Vec<_> = seen.lock().unwrap().drain(..).map(|(_, reason)| reason).collect();
        assert!(!reasons.is_empty(), "{what}");
        reasons
    };
    machine.block_on(async {
        yield_now().await;
        assert_eq!(since("yielded"), [Reason::New, Reason::Yielded]);
        after(Duration::from_millis(1)).await;
        assert_eq!(since("timer"), [Reason::Timer]);
        let (mut left, mut right) = chanter::io::UnixStream::pair().unwrap();
        let writer = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(20));
            chanter::block_on(async move { left.write_all(b"x").await.unwrap() });
        });
        let mut byte = [0];
        right.read_exact(&mut byte).await.unwrap();
        assert_eq!(since("io"), [Reason::Io]);
        writer.join().unwrap();

        // Two threads wake each other: each is told which thread woke it.
        let (tx, rx) = channel::<()>();
        let (back_tx, back_rx) = channel::<()>();
        let one = spawn(async move {
            rx.recv().await.unwrap();
            back_tx.send(()).await.unwrap();
        });
        yield_now().await;
        seen.lock().unwrap().clear();
        tx.send(()).await.unwrap();
        back_rx.recv().await.unwrap();
        one.join().await.unwrap();
        let list: Vec<_> = seen.lock().unwrap().drain(..).collect();
        let woken: Vec<_> = list
            .iter()
            .filter_map(|(id, reason)| match reason {
                Reason::Woken { by: Some(by) } => Some((*id, *by)),
                _ => None,
            })
            .collect();
        assert!(woken.len() >= 2, "{list:?}");
        let (a, b) = woken[0];
        assert!(a != b && woken[1] == (b, a), "{list:?}");

        // From outside.
        let (tx, rx) = channel::<()>();
        let sender = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(20));
            tx.send(()).sync_blocking().unwrap();
        });
        rx.recv().await.unwrap();
        assert_eq!(since("remote"), [Reason::Remote]);
        sender.join().unwrap();

        // A quantum that is used up.
        let (tx, rx) = mailbox::<u32>();
        for n in 0..1000 {
            tx.try_send(n).unwrap();
        }
        for _ in 0..1000 {
            rx.recv().await.unwrap();
        }
        assert!(since("spent").contains(&Reason::Spent));
    });
}

/// How many operations a thread does before it has to leave.
#[test]
fn quanta_are_what_the_policy_says() {
    watchdog!();
    for quantum in [0, 1, 7, 256] {
        let machine = machine(move || Box::new(RoundRobin::new(quantum)));
        let longest = machine.block_on(async {
            let (tx, rx) = mailbox::<char>();
            let threads = ['a', 'b'].map(|name| {
                let tx = tx.clone();
                spawn(async move {
                    for _ in 0..1000 {
                        tx.send(name).await.unwrap();
                    }
                })
            });
            drop(tx);
            // Both have ended before we look.
            while !threads.iter().all(Thread::is_determined) {
                after(Duration::from_millis(1)).await;
            }
            let mut all = Vec::new();
            while let Ok(name) = rx.recv().await {
                all.push(name);
            }
            assert_eq!(all.len(), 2000);
            all.chunk_by(|a, b| a == b).take(3).map(<[char]>::len).max().unwrap()
        });
        assert_eq!(longest, quantum.max(1) as usize);
    }
}
