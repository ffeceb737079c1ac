//! Virtual processors and machines as values.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use chanter::prelude::*;
use chanter::{
    current_vp,
    policy::{Attributes, Bands, Fifo, LeastLoaded, Places, Policy, Ready, Reason, RoundRobin},
    topology::Topology,
};

use crate::common::FOREVER;
use crate::common::watchdog;

fn machine(vps: usize) -> Machine {
    Machine::builder().vps(vps).build().expect("a machine")
}

#[test]
fn handles_say_where_they_are() {
    watchdog!();
    assert!(current_vp().is_none());
    let (one, other) = (machine(3), machine(3));
    assert_eq!(one.vp(2), one.vp(2));
    assert_ne!(one.vp(2), one.vp(1));
    assert_ne!(one.vp(2), other.vp(2));
    let second = one.vp(1);
    one.block_on(async {
        assert_eq!(current_vp().unwrap().index(), 0);
        let there = second.spawn(async { current_vp().unwrap() }).join().await.unwrap();
        assert_eq!(there, second);
        assert_eq!(there.sibling(2).unwrap().index(), 2);
        assert!(there.sibling(3).is_none());
        assert!(there.stats().dispatched > 0);
    });
}

#[test]
#[should_panic(expected = "use `Machine::spawn_on`")]
fn to_spawn_through_a_handle_takes_its_machine() {
    let machine = machine(2);
    machine.vp(0).spawn(async {});
}

/// Machines are independent, and their threads talk to each other.
#[test]
fn several_machines_in_one_process() {
    watchdog!();
    let machines: Vec<_> = (1..4).map(machine).collect();
    let (tx, rx) = channel::<usize>();
    let (back_tx, back_rx) = channel::<usize>();
    let mut threads = Vec::new();
    for (index, machine) in machines.iter().enumerate() {
        let (rx, back_tx) = (rx.clone(), back_tx.clone());
        threads.push(machine.spawn(async move {
            let mut count = 0;
            while let Ok(n) = rx.recv().await {
                // A thread of this machine's own.
                let sum = spawn(async move { n + index }).join().await.unwrap();
                back_tx.send(sum - index).await.unwrap();
                count += 1;
            }
            count
        }));
    }
    drop((rx, back_tx));
    let driver = machine(2);
    let sum = driver.block_on(async {
        let sender = spawn(async move {
            for n in 0..300 {
                tx.send(n).await.unwrap();
            }
        });
        let mut sum = 0;
        while let Ok(n) = back_rx.recv().await {
            sum += n;
        }
        sender.join().await.unwrap();
        sum
    });
    assert_eq!(sum, 299 * 300 / 2);
    let served: usize = threads.into_iter().map(|thread| thread.join().sync_blocking().unwrap()).sum();
    assert_eq!(served, 300);
    // They end in any order.
    drop(machines);
    drop(driver);
}

#[test]
fn one_machine_ends_while_another_waits_for_its_threads() {
    watchdog!();
    let (one, other) = (machine(2), machine(2));
    let lost = one.spawn(async { never::<()>().await });
    let waiter = other.spawn(async move { lost.join().await });
    drop(one);
    assert!(waiter.join().sync_blocking().unwrap().unwrap_err().is_cancelled());
}

#[test]
fn more_virtual_processors_than_cores() {
    watchdog!();
    let machine = machine(16);
    let ran = Arc::new(AtomicUsize::new(0));
    machine.block_on(async {
        let threads: Vec<_> = (0..64)
            .map(|n| {
                let ran = Arc::clone(&ran);
                Thread::builder().on(n % 16).spawn(async move {
                    assert_eq!(current_vp().unwrap().index(), n % 16);
                    ran.fetch_add(1, Ordering::SeqCst);
                })
            })
            .collect();
        for thread in threads {
            thread.join().await.unwrap();
        }
    });
    assert_eq!(ran.load(Ordering::SeqCst), 64);
}

#[test]
fn spawned_near_another_thread() {
    watchdog!();
    // Nothing is stolen, so threads run where they are put.
    let machine = Machine::builder().vps(3).policy(|_| Box::new(Fifo::new())).build().unwrap();
    let elsewhere = self::machine(1).spawn(async {});
    machine.block_on(async move {
        for home in [0, 1, 2] {
            let (tx, rx) = channel::<()>();
            let thread = Thread::builder().on(home).spawn(async move {
                let _ = rx.recv().await;
            });
            // To await a thread that has not run would steal it.
            let (there_tx, there_rx) = mailbox();
            let tell = |tx: Sender<usize>| async move { tx.send(current_vp().unwrap().index()).await };
            drop(Thread::builder().near(&thread).spawn(tell(there_tx.clone())));
            assert_eq!(there_rx.recv().await, Ok(home));
            drop(tx);
            thread.join().await.unwrap();
            // Ended threads still say where they were.
            drop(Thread::builder().near(&thread).spawn(tell(there_tx)));
            assert_eq!(there_rx.recv().await, Ok(home));
        }
        // Of another machine, which may be gone.
        assert_eq!(Thread::builder().near(&elsewhere).spawn(async { 1 }).join().await.unwrap(), 1);
    });
}

/// Sends new threads to processor 1, and counts how often it was asked where they go.
struct Elsewhere {
    inner: chanter::policy::Fifo,
    places: bool,
    asked: Arc<AtomicUsize>,
}

impl Policy for Elsewhere {
    fn enqueue(&self, thread: Ready, reason: Reason) -> Option<Ready> {
        self.inner.enqueue(thread, reason)
    }
    fn next(&self) -> Option<Ready> {
        self.inner.next()
    }
    fn place(&self, _places: Places<'_>) -> Option<usize> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        Some(1)
    }
    fn places(&self) -> bool {
        self.places
    }
}

/// Also as the first of bands.
#[test]
fn policies_that_place_no_threads_are_not_asked() {
    watchdog!();
    for (places, banded) in [(true, false), (true, true), (false, false), (false, true)] {
        let asked = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&asked);
        let policy = move |_| -> Box<dyn Policy> {
            let inner: Box<dyn Policy> =
                Box::new(Elsewhere { inner: Fifo::new(), places, asked: Arc::clone(&count) });
            if banded { Box::new(Bands::new([inner], |_: &Ready, _| 0)) } else { inner }
        };
        let machine = Machine::builder().vps(2).policy(policy).build().unwrap();
        let index = machine.block_on(async {
            let (to, from) = channel();
            // (A thread that joins one that has not begun runs it where it is.)
            drop(spawn(async move { to.send(current_vp().unwrap().index()).await }));
            from.recv().await.unwrap()
        });
        let is_asked = asked.load(Ordering::SeqCst) > 0;
        assert_eq!((index, is_asked), (usize::from(places), places), "banded: {banded}");
    }
}

/// How many of `threads` threads, spawned in one turn, run on each of four processors. Each leaves its first turn when
/// all are there.
fn placed(policy: fn() -> Box<dyn Policy>, threads: usize) -> Vec<usize> {
    let machine = Machine::builder().vps(4).policy(move |_| policy()).build().unwrap();
    machine.block_on(async move {
        let (to, from) = mailbox();
        for _ in 0..threads {
            let to = to.clone();
            drop(spawn(async move { to.try_send(current_vp().unwrap().index()).unwrap() }));
        }
        let mut counts = vec![0; 4];
        for _ in 0..threads {
            counts[from.recv().await.unwrap()] += 1;
        }
        counts
    })
}

#[test]
fn round_robin_places_threads_in_turn() {
    watchdog!();
    assert_eq!(placed(|| Box::new(RoundRobin::new(8)), 40), [10; 4]);
    assert_eq!(placed(|| Box::new(RoundRobin::new(8)), 3).iter().sum::<usize>(), 3);
}

/// Asks as [`LeastLoaded`] asks, and notes what it was told; gives nothing away.
struct Noting {
    inner: LeastLoaded,
    placed: Arc<[AtomicUsize]>,
    waited: Arc<AtomicUsize>,
}

impl Policy for Noting {
    fn enqueue(&self, thread: Ready, reason: Reason) -> Option<Ready> {
        self.inner.enqueue(thread, reason)
    }
    fn next(&self) -> Option<Ready> {
        self.inner.next()
    }
    fn waiting(&self) -> usize {
        self.inner.waiting()
    }
    fn place(&self, places: Places<'_>) -> Option<usize> {
        assert_eq!((places.len(), places.is_empty()), (4, false));
        assert_eq!(places.waiting(4), 0, "there is no such processor");
        let most = (0..places.len()).map(|index| places.waiting(index)).max().unwrap();
        self.waited.fetch_max(most, Ordering::SeqCst);
        let place = self.inner.place(places)?;
        self.placed[place].fetch_add(1, Ordering::SeqCst);
        Some(place)
    }
}

/// Placed by the policy of one processor, in one turn. The others are busy meanwhile, so loads only grow.
#[test]
fn the_least_loaded_processor_gets_the_next_thread() {
    watchdog!();
    let placed: Arc<[AtomicUsize]> = (0..4).map(|_| AtomicUsize::new(0)).collect();
    let waited = Arc::new(AtomicUsize::new(0));
    let (counts, most) = (Arc::clone(&placed), Arc::clone(&waited));
    let policy = move |_| -> Box<dyn Policy> {
        let (placed, waited) = (Arc::clone(&counts), Arc::clone(&most));
        Box::new(Noting { inner: LeastLoaded::new(), placed, waited })
    };
    let machine = Machine::builder().vps(4).policy(policy).build().unwrap();
    let (others, released) = ([1, 2, 3].map(|index| machine.vp(index)), Arc::new(AtomicBool::new(false)));
    machine.block_on(async {
        let (to, from) = mailbox();
        for other in &others {
            let (to, released) = (to.clone(), Arc::clone(&released));
            drop(other.spawn(async move {
                to.try_send(()).unwrap();
                while !released.load(Ordering::SeqCst) {
                    std::thread::yield_now();
                }
            }));
        }
        for _ in &others {
            from.recv().await.unwrap();
        }
        let threads: Vec<_> = (0..40).map(|_| spawn(async {})).collect();
        released.store(true, Ordering::SeqCst);
        for thread in threads {
            thread.wait().await;
        }
    });
    let placed: Vec<_> = placed.iter().map(|count| count.load(Ordering::SeqCst)).collect();
    assert_eq!(placed, [10; 4]);
    assert!(waited.load(Ordering::SeqCst) > 0, "threads wait on the spawner's processor meanwhile");
}

/// It holds from the next turn on, also if another thread changes it.
#[test]
fn a_thread_has_a_quantum_of_its_own() {
    watchdog!();
    let machine = Machine::builder().vps(1).policy(|_| Box::new(RoundRobin::new(7))).build().unwrap();
    machine.block_on(async {
        let (tx, rx) = mailbox::<char>();
        let talk = |name: char, quantum: Option<u32>| {
            let tx = tx.clone();
            let body = async move {
                for _ in 0..1000 {
                    tx.send(name).await.unwrap();
                }
            };
            match quantum {
                Some(quantum) => Thread::builder().attributes(Attributes::new().quantum(quantum)).spawn(body),
                None => spawn(body),
            }
        };
        let (a, b, c) = (talk('a', Some(3)), talk('b', None), talk('c', Some(0)));
        assert!(c.set_attributes(Attributes::new().quantum(20)));
        assert_eq!(c.attributes().and_then(|attributes| attributes.quantum), Some(20));
        assert!(!b.set_attributes(Attributes::new()), "it was spawned without");
        for thread in [&a, &b, &c] {
            thread.wait().await;
        }
        drop(tx);
        let mut all = Vec::new();
        while let Ok(name) = rx.recv().await {
            all.push(name);
        }
        assert_eq!(all.len(), 3000);
        let runs: Vec<_> = all.chunk_by(|a, b| a == b).map(|run| (run[0], run.len())).collect();
        for (name, quantum) in [('a', 3), ('b', 7), ('c', 20)] {
            let first = runs.iter().filter(|run| run.0 == name).take(10);
            assert!(first.clone().all(|run| run.1 == quantum), "{name}: {runs:?}");
        }
    });
}

/// A torus of threads, each on the virtual processor that its place is mapped
/// to, adds up what its neighbours have, until all know the sum.
#[test]
fn a_topology_over_a_machine() {
    watchdog!();
    let torus = Topology::torus(4, 4);
    let machine = machine(3);
    let sums = machine.block_on(async {
        let channels: Vec<_> = (0..torus.len()).map(|_| mailbox::<(usize, usize)>()).collect();
        let threads: Vec<_> = (0..torus.len())
            .map(|place| {
                let next: Vec<_> = torus.neighbours(place).map(|n| channels[n].0.clone()).collect();
                let rx = channels[place].1.clone();
                Thread::builder().on(torus.vp_of(place, 3)).spawn(async move {
                    let mut known = [false; 16];
                    let mut news = vec![(place, place)];
                    while let Some((from, value)) = news.pop() {
                        if !std::mem::replace(&mut known[from], true) {
                            for tx in &next {
                                let _ = tx.send((from, value)).await;
                            }
                        }
                        if known.contains(&false) {
                            news.push(rx.recv().await.unwrap());
                        }
                    }
                    known.iter().filter(|known| **known).count()
                })
            })
            .collect();
        let mut sums = Vec::new();
        for thread in threads {
            sums.push(thread.join().await.unwrap());
        }
        sums
    });
    assert_eq!(sums, [16; 16]);
}

#[test]
fn what_cannot_be_bound_says_so() {
    watchdog!();
    let machine = machine(1);
    let error = machine.vp(0).bind(1 << 20).unwrap_err();
    let kind = if cfg!(target_os = "linux") {
        std::io::ErrorKind::InvalidInput
    } else {
        std::io::ErrorKind::Unsupported
    };
    assert_eq!(error.kind(), kind);
    assert_eq!(machine.vp(0).core(), None);
}

#[cfg(target_os = "linux")]
mod binding {
    use super::*;

    /// The cores that this OS thread may use, as the OS lists them.
    fn cores() -> String {
        let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
        let line = status.lines().find(|line| line.starts_with("Cpus_allowed_list:")).unwrap();
        line.split(':').nth(1).unwrap().trim().to_owned()
    }

    /// Some core that the process may use.
    fn first_core() -> usize {
        cores().split(['-', ',']).next().unwrap().parse().unwrap()
    }

    /// Waits until this OS thread's cores are `expected`.
    async fn become_bound(expected: &str) {
        let patience = Instant::now() + FOREVER;
        while cores() != expected {
            assert!(Instant::now() < patience, "{} rather than {expected}", cores());
            yield_now().await;
        }
    }

    #[test]
    fn bound_processors_stay_on_their_core_and_leave_it_behind() {
        watchdog!();
        let (core, before) = (first_core(), cores());
        let machine = machine(2);
        let only = core.to_string();
        machine.vp(1).bind(core).unwrap();
        assert_eq!(machine.vp(1).core(), Some(core));
        let expected = only.clone();
        machine.spawn_on(1, async move { become_bound(&expected).await }).join().sync_blocking().unwrap();
        machine.block_on(async {
            let here = current_vp().unwrap();
            here.bind(core).unwrap();
            yield_now().await;
            become_bound(&only).await;
        });
        // The caller of `block_on` has its cores back.
        assert_eq!(cores(), before);
        // Bound again, when it is driven again.
        let expected = only.clone();
        machine.block_on(async move { assert_eq!(cores(), expected) });
        machine.vp(1).unbind();
        let expected = before.clone();
        machine.spawn_on(1, async move { become_bound(&expected).await }).join().sync_blocking().unwrap();
        assert_eq!(machine.vp(1).core(), None);
        assert_eq!(cores(), before);
    }

    /// A machine that is made on a bound virtual processor is not bound.
    #[test]
    fn workers_do_not_inherit_a_binding() {
        watchdog!();
        let (core, before) = (first_core(), cores());
        let outer = machine(1);
        outer.block_on(async {
            current_vp().unwrap().bind(core).unwrap();
            yield_now().await;
            become_bound(&core.to_string()).await;
            let inner = machine(2);
            let seen = inner.spawn_on(1, async { cores() }).join().await.unwrap();
            assert_eq!(seen, before);
        });
    }
}

/// A policy that blocks its worker for a moment at each other look at how many threads wait.
#[derive(Default)]
struct Pauses {
    inner: Fifo,
    looks: AtomicUsize,
}

impl Policy for Pauses {
    fn enqueue(&self, thread: Ready, reason: Reason) -> Option<Ready> {
        self.inner.enqueue(thread, reason)
    }

    fn next(&self) -> Option<Ready> {
        self.inner.next()
    }

    fn give(&self, stealer: &dyn Policy) -> Option<Ready> {
        self.inner.give(stealer)
    }

    fn waiting(&self) -> usize {
        if self.looks.fetch_add(1, Ordering::SeqCst).is_multiple_of(2) {
            after(Duration::from_millis(1)).sync_blocking();
        }
        self.inner.waiting()
    }
}

/// The last looks before a sleep call the policy. Its worker parked within the look, woke up, and slept on as one that is
/// awake, whom nobody wakes.
#[test]
fn a_policy_that_blocks_its_worker_costs_no_wake() {
    watchdog!();
    let machine =
        Machine::builder().vps(1).hand_off_after(None).policy(|_| Box::<Pauses>::default()).build().unwrap();
    for round in 0..20 {
        assert_eq!(machine.spawn(async move { round }).join().sync_blocking().unwrap(), round);
        std::thread::sleep(Duration::from_millis(5));
    }
}
