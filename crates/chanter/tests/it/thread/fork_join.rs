//! Fork and join: results, panics, borrowing, sharing, and what must not
//! deadlock.

use crate::common;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use chanter::prelude::*;
use common::watchdog;

fn fib(n: u32) -> u64 {
    if n < 2 {
        return u64::from(n);
    }
    let (a, b) = fork_join(|| fib(n - 1), || fib(n - 2));
    a + b
}

/// Computes for about so long.
fn work(time: Duration) {
    let begin = Instant::now();
    while begin.elapsed() < time {
        std::hint::spin_loop();
    }
}

/// A tree of `leaves`, each of which takes a while: long enough to be shared.
fn tree(leaves: u64, visit: &(impl Fn(u64) + Sync)) -> u64 {
    fn range(from: u64, to: u64, visit: &(impl Fn(u64) + Sync)) -> u64 {
        if to - from == 1 {
            visit(from);
            work(Duration::from_micros(20));
            return from;
        }
        let middle = (from + to) / 2;
        let (a, b) = fork_join(|| range(from, middle, visit), || range(middle, to, visit));
        a + b
    }
    range(0, leaves, visit)
}

#[test]
fn both_halves_have_their_results() {
    watchdog!();
    for vps in [1, 2, 4] {
        let machine = Machine::builder().vps(vps).build().unwrap();
        assert_eq!(machine.block_on(async { fib(20) }), 6765);
        let thread = machine.spawn(async { fib(15) });
        assert_eq!(thread.join().sync_blocking().unwrap(), 610);
    }
    assert_eq!(fib(10), 55, "outside of a machine");
}

#[test]
fn halves_borrow() {
    watchdog!();
    let machine = Machine::builder().vps(2).build().unwrap();
    let mut numbers: Vec<u64> = (0..100_000).rev().collect();
    fn sort(numbers: &mut [u64]) {
        if numbers.len() < 64 {
            return numbers.sort_unstable();
        }
        let middle = numbers.len() / 2;
        let (_, pivot, _) = numbers.select_nth_unstable(middle);
        let pivot = *pivot;
        let (left, right) = numbers.split_at_mut(middle);
        assert!(right[0] == pivot);
        fork_join(|| sort(left), || sort(right));
    }
    machine.block_on(async { sort(&mut numbers) });
    assert!(numbers.iter().copied().eq(0..100_000));
}

#[test]
fn hungry_processors_get_a_share_and_each_leaf_is_visited_once() {
    watchdog!();
    let rounds = std::env::var("CHANTER_STRESS_ROUNDS").map_or(5, |rounds| rounds.parse().unwrap());
    let (mut shared, mut round) = (0, 0);
    // A processor that searches for work may have no core for long.
    while round < rounds || shared == 0 {
        let vps = 2 + round % 3;
        let machine = Machine::builder().vps(vps).build().unwrap();
        let leaves = 1000;
        let visits: Vec<AtomicUsize> = (0..leaves).map(|_| AtomicUsize::new(0)).collect();
        let sum = machine.block_on(async {
            tree(leaves, &|leaf| {
                visits[leaf as usize].fetch_add(1, Ordering::Relaxed);
            })
        });
        assert_eq!(sum, (0..leaves).sum());
        assert!(visits.iter().all(|count| count.load(Ordering::Relaxed) == 1));
        shared += machine.stats().shared;
        round += 1;
    }
}

/// Waits until another thread sets `flag`.
fn await_flag(flag: &AtomicBool) {
    while !flag.load(Ordering::SeqCst) {
        std::hint::spin_loop();
    }
}

/// Forks once; the first half ends when the second one has begun.
fn two_halves_that_meet() {
    let begun = AtomicBool::new(false);
    fork_join(|| await_flag(&begun), || begun.store(true, Ordering::SeqCst));
}

#[test]
fn an_idle_processor_takes_the_second_half_of_a_lone_fork() {
    watchdog!();
    let rounds = std::env::var("CHANTER_STRESS_ROUNDS").map_or(20, |rounds| rounds.parse().unwrap());
    for vps in [2, 4] {
        for _ in 0..rounds {
            let machine = Machine::builder().vps(vps).build().unwrap();
            // The first turn; another one, when all have slept; and many in one.
            machine.block_on(async { two_halves_that_meet() });
            machine.block_on(async { two_halves_that_meet() });
            machine.block_on(async { (0..100).for_each(|_| two_halves_that_meet()) });
        }
    }
}

#[test]
fn who_becomes_idle_later_takes_a_half_that_was_forked_before() {
    watchdog!();
    let machine = Machine::builder().vps(2).build().unwrap();
    for _ in 0..100 {
        machine.block_on(async {
            let (occupied, free) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
            let occupant = {
                let (occupied, free) = (Arc::clone(&occupied), Arc::clone(&free));
                Thread::builder().on(1).spawn(async move {
                    occupied.store(true, Ordering::SeqCst);
                    await_flag(&free);
                })
            };
            await_flag(&occupied);
            let begun = AtomicBool::new(false);
            fork_join(
                || {
                    free.store(true, Ordering::SeqCst);
                    await_flag(&begun);
                },
                || begun.store(true, Ordering::SeqCst),
            );
            occupant.join().await.unwrap();
        });
    }
}

#[test]
fn the_next_half_is_taken_when_the_oldest_one_is_gone() {
    watchdog!();
    let machine = Machine::builder().vps(2).build().unwrap();
    for _ in 0..100 {
        machine.block_on(async {
            let begun = [const { AtomicBool::new(false) }; 3];
            let begin = |half: usize| begun[half].store(true, Ordering::SeqCst);
            // The halves lie on the stack, one above the other, and are taken one by one.
            fork_join(
                || {
                    await_flag(&begun[0]);
                    fork_join(
                        || {
                            await_flag(&begun[1]);
                            fork_join(|| await_flag(&begun[2]), || begin(2));
                        },
                        || begin(1),
                    );
                },
                || begin(0),
            );
        });
    }
}

#[test]
fn who_waits_for_a_half_takes_a_part_of_it() {
    watchdog!();
    let machine = Machine::builder().vps(2).build().unwrap();
    for _ in 0..100 {
        machine.block_on(async {
            let begun = AtomicBool::new(false);
            // The first half ends when the second one runs elsewhere: its owner has to wait for it.
            fork_join(
                || await_flag(&begun),
                || {
                    begun.store(true, Ordering::SeqCst);
                    two_halves_that_meet();
                },
            );
        });
    }
}

#[test]
fn who_stands_in_steals_a_half_and_parts_of_it_are_stolen_from_there() {
    watchdog!();
    let quantum = Some(Duration::from_millis(1));
    let machine = Machine::builder().vps(2).hand_off_after(quantum).build().unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = stop.clone();
    // It blocks, rather than computes: its core is free for the spare worker.
    machine.spawn_on(1, async move {
        while !stopped.load(Ordering::SeqCst) {
            std::thread::sleep(Duration::from_micros(100));
        }
    });
    while machine.stats().hand_offs == 0 {
        std::thread::sleep(Duration::from_millis(1));
    }
    for _ in 0..20 {
        machine.block_on(async {
            let begun = AtomicBool::new(false);
            fork_join(
                || await_flag(&begun),
                || {
                    begun.store(true, Ordering::SeqCst);
                    two_halves_that_meet();
                },
            );
        });
    }
    stop.store(true, Ordering::SeqCst);
}

#[test]
fn a_panic_waits_for_the_other_half_and_goes_on() {
    watchdog!();
    for vps in [1, 2] {
        let machine = Machine::builder().vps(vps).build().unwrap();
        let after_that = machine.block_on(async {
            let begun = AtomicBool::new(false);
            let ended = AtomicBool::new(false);
            for time in [0, 2] {
                // In the first half: the second may have begun elsewhere.
                let first = catch_unwind(AssertUnwindSafe(|| {
                    fork_join(
                        || {
                            // It forks, so that another processor may ask for a share.
                            tree(1 + time * 100, &|_| ());
                            panic!("first")
                        },
                        || {
                            begun.store(true, Ordering::SeqCst);
                            work(Duration::from_millis(1));
                            ended.store(true, Ordering::SeqCst);
                        },
                    )
                }));
                assert_eq!(*first.unwrap_err().downcast::<&str>().unwrap(), "first");
                assert_eq!(begun.load(Ordering::SeqCst), ended.load(Ordering::SeqCst));
                // In the second, wherever it runs.
                let second = catch_unwind(AssertUnwindSafe(|| {
                    fork_join(|| tree(1 + time * 100, &|_| ()), || -> u64 { panic!("second") })
                }));
                assert_eq!(*second.unwrap_err().downcast::<&str>().unwrap(), "second");
            }
            fib(10)
        });
        assert_eq!(after_that, 55);
    }
}

#[test]
fn what_the_second_half_holds_is_dropped_once() {
    watchdog!();
    struct Count<'a>(&'a AtomicUsize);
    impl Drop for Count<'_> {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
    let machine = Machine::builder().vps(2).build().unwrap();
    machine.block_on(async {
        for panics in [false, true] {
            for size in [1, 200] {
                let drops = AtomicUsize::new(0);
                let count = Count(&drops);
                let outcome = catch_unwind(AssertUnwindSafe(|| {
                    fork_join(
                        || {
                            tree(size, &|_| ());
                            assert!(!panics, "on purpose");
                        },
                        move || {
                            let _held = count;
                        },
                    )
                }));
                assert_eq!(outcome.is_err(), panics);
                assert_eq!(drops.load(Ordering::SeqCst), 1);
            }
        }
    });
}

#[test]
#[cfg_attr(miri, ignore = "Miri switches no stacks")]
fn fibers_and_blocking_halves_fork_too() {
    watchdog!();
    for vps in [1, 2] {
        let machine = Machine::builder().vps(vps).build().unwrap();
        machine.block_on(async {
            let (tx, rx) = channel::<u64>();
            let fibers: Vec<_> = (0..4)
                .map(|n| {
                    let (tx, rx) = (tx.clone(), rx.clone());
                    spawn_fiber(move || {
                        // Halves of several fibers lie in the list, in no order.
                        let (a, b) = fork_join(
                            || {
                                if n % 2 == 0 {
                                    tx.send(n).sync_blocking().map(|()| n)
                                } else {
                                    Ok(rx.recv().sync_blocking().unwrap())
                                }
                            },
                            || fib(12) + tree(20, &|_| ()),
                        );
                        (a.unwrap(), b)
                    })
                })
                .collect();
            let mut met = Vec::new();
            for fiber in fibers {
                let (talked, computed) = fiber.await.unwrap();
                assert_eq!(computed, 144 + 190);
                met.push(talked);
            }
            met.sort_unstable();
            assert_eq!(met, [0, 0, 2, 2]);
        });
    }
}

/// The shape of rayon's issue 592: a lock is held during a join, and the waiter must not run other work that wants
/// the lock.
#[test]
fn a_lock_may_be_held_across_a_join() {
    watchdog!();
    let machine = Machine::builder().vps(4).build().unwrap();
    let lock = Arc::new(Mutex::new(0));
    let threads: Vec<_> = (0..16)
        .map(|_| {
            let lock = Arc::clone(&lock);
            machine.spawn(async move {
                let mut held = lock.lock().unwrap();
                let (a, b) = fork_join(|| tree(30, &|_| ()), || tree(30, &|_| ()));
                *held += a + b;
            })
        })
        .collect();
    for thread in threads {
        thread.join().sync_blocking().unwrap();
    }
    assert_eq!(*lock.lock().unwrap(), 16 * 2 * 435);
}

/// The shape of rayon's issue 1174: a value that is made once, by a computation
/// that forks, and wanted by other halves meanwhile.
#[test]
fn a_value_that_is_made_once_may_be_made_by_forks() {
    watchdog!();
    for _ in 0..5 {
        let machine = Machine::builder().vps(4).build().unwrap();
        let once = OnceLock::new();
        let makers = AtomicU64::new(0);
        let sum = machine.block_on(async {
            fn all(n: u32, f: &(impl Fn() -> u64 + Sync)) -> u64 {
                if n == 0 {
                    return f();
                }
                let (a, b) = fork_join(|| all(n - 1, f), || all(n - 1, f));
                a + b
            }
            all(6, &|| {
                work(Duration::from_micros(50));
                *once.get_or_init(|| {
                    makers.fetch_add(1, Ordering::SeqCst);
                    tree(100, &|_| ())
                })
            })
        });
        assert_eq!((sum, makers.into_inner()), (64 * 4950, 1));
    }
}

#[test]
fn a_machine_that_ends_waits_for_what_forks() {
    watchdog!();
    let done = Arc::new(AtomicBool::new(false));
    let machine = Machine::builder().vps(2).build().unwrap();
    // Not one of ours: the thread must not wait.
    let (begin, begun) = std::sync::mpsc::channel();
    let note = Arc::clone(&done);
    machine
        .spawn(async move {
            begin.send(()).unwrap();
            assert_eq!(tree(500, &|_| ()), 500 * 499 / 2);
            note.store(true, Ordering::SeqCst);
        })
        .run();
    begun.recv().unwrap();
    drop(machine);
    assert!(done.load(Ordering::SeqCst), "its poll had begun");
}

/// Keeps every new thread that comes to it until it may let them run: a demand takes them.
struct Reluctant(chanter::policy::Fifo, Arc<AtomicBool>);

impl chanter::policy::Policy for Reluctant {
    fn enqueue(
        &self,
        thread: chanter::policy::Ready,
        reason: chanter::policy::Reason,
    ) -> Option<chanter::policy::Ready> {
        self.0.enqueue(thread, reason)
    }
    fn next(&self) -> Option<chanter::policy::Ready> {
        if self.1.load(Ordering::SeqCst) { self.0.next() } else { None }
    }
    fn drain(&self) -> Option<chanter::policy::Ready> {
        self.0.next()
    }
}

/// A machine of two virtual processors, of which the second one steals halves and runs nothing, and what lets it.
fn reluctant() -> (Machine, Arc<AtomicBool>) {
    let lets = Arc::new(AtomicBool::new(false));
    let theirs = Arc::clone(&lets);
    let policy = move |vp: usize| -> Box<dyn chanter::policy::Policy> {
        let lets = if vp == 0 { Arc::new(AtomicBool::new(true)) } else { Arc::clone(&theirs) };
        Box::new(Reluctant(chanter::policy::Fifo::new(), lets))
    };
    (Machine::builder().vps(2).policy(policy).hand_off_after(None).build().unwrap(), lets)
}

/// Two fibers run halves that were stolen, and given back by a policy that does not run them. Both halves block,
/// and the one that began first ends first.
#[test]
#[cfg_attr(miri, ignore = "Miri switches no stacks")]
fn halves_that_block_on_fibers_end_in_any_order() {
    common::apart!();
    let (machine, lets) = reluctant();
    for round in 0..50 {
        let shared = machine.stats().shared;
        machine.block_on(async {
            let fiber = |rounds: u64, (tx, rx): (Sender<()>, Receiver<()>)| {
                let until_stolen = {
                    let machine = Machine::current().unwrap();
                    move || while machine.stats().shared < shared + rounds {}
                };
                let (begin, begun) = mailbox();
                let fiber = spawn_fiber(move || {
                    let ((), sum) = fork_join(until_stolen, move || {
                        begin.try_send(()).unwrap();
                        rx.recv().sync_blocking().unwrap();
                        fib(5)
                    });
                    sum
                });
                (fiber, tx, begun)
            };
            let (first, tell_first, begun) = fiber(1, channel());
            begun.recv().await.unwrap();
            let (second, tell_second, begun) = fiber(2, channel());
            begun.recv().await.unwrap();
            tell_first.send(()).await.unwrap();
            assert_eq!(first.await.unwrap(), 5);
            // Other fibers have its stack now, or nobody.
            let others: Vec<_> = (0..20).map(|_| spawn_fiber(|| tree(8, &|_| ()))).collect();
            tell_second.send(()).await.unwrap();
            assert_eq!(second.await.unwrap(), 5);
            for other in others {
                assert_eq!(other.await.unwrap(), 28);
            }
        });
        // They are within nothing any more.
        assert_eq!(machine.block_on(async { tree(20, &|_| ()) }), 190, "round {round}");
    }
    lets.store(true, Ordering::SeqCst);
}

/// A part of a half that is waited for blocks on a fiber, which is suspended. Other work that forks there meanwhile
/// is no part of the half, so the waiter runs none of it.
#[test]
#[cfg_attr(miri, ignore = "Miri switches no stacks")]
fn what_runs_beside_a_half_that_blocks_is_no_part_of_it() {
    common::apart!();
    let machine = Machine::builder().vps(2).hand_off_after(None).build().unwrap();
    let here = machine.block_on(async {
        let (begin, begun) = mailbox();
        let (tx, rx) = channel::<()>();
        let fiber = chanter::fiber::Builder::new().on(0).spawn(move || {
            let (half, part) = (AtomicBool::new(false), AtomicBool::new(false));
            fork_join(
                || await_flag(&half),
                // On the other virtual processor.
                || {
                    half.store(true, Ordering::SeqCst);
                    fork_join(
                        || await_flag(&part),
                        // On this one again, since the fiber waits for the half.
                        || {
                            part.store(true, Ordering::SeqCst);
                            begin.try_send(()).unwrap();
                            rx.recv().sync_blocking().unwrap();
                        },
                    );
                },
            );
        });
        begun.recv().await.unwrap();
        // The other half waits for this part now, and takes only the work that belongs to it.
        let here = std::thread::current().id();
        let runs_here = AtomicBool::new(false);
        for _ in 0..20 {
            fork_join(
                || work(Duration::from_millis(5)),
                || runs_here.store(std::thread::current().id() == here, Ordering::SeqCst),
            );
            assert!(runs_here.swap(false, Ordering::SeqCst), "it was taken by who waits for something else");
        }
        tx.send(()).await.unwrap();
        fiber.await.unwrap();
        here
    });
    assert_eq!(here, std::thread::current().id());
}

/// Both are shared halves, so both have something within which they were forked.
#[test]
fn who_waits_takes_nothing_that_was_forked_within_another_half() {
    common::apart!();
    let machine = Machine::builder().vps(4).hand_off_after(None).build().unwrap();
    let [begun, taken, forked, over, strange] = [(); 5].map(|()| Arc::new(AtomicBool::new(false)));
    machine.block_on(async {
        // The other two steal when they are let go, since they look for something to do then.
        let occupy = |vp| {
            let [busy, free] = [(); 2].map(|()| Arc::new(AtomicBool::new(false)));
            let (occupied, freed) = (Arc::clone(&busy), Arc::clone(&free));
            Thread::builder().on(vp).spawn(async move {
                occupied.store(true, Ordering::SeqCst);
                await_flag(&freed);
            });
            await_flag(&busy);
            free
        };
        let (free, free_too) = (occupy(2), occupy(3));
        // The owner of another half, and the stealer of that half, are busy until all is over.
        let other = {
            let (begun, taken, forked) = (Arc::clone(&begun), Arc::clone(&taken), Arc::clone(&forked));
            let (over, strange) = (Arc::clone(&over), Arc::clone(&strange));
            Thread::builder().on(1).spawn(async move {
                fork_join(
                    || {
                        free.store(true, Ordering::SeqCst);
                        await_flag(&over);
                    },
                    || {
                        begun.store(true, Ordering::SeqCst);
                        await_flag(&taken);
                        fork_join(
                            || {
                                forked.store(true, Ordering::SeqCst);
                                await_flag(&over);
                            },
                            || strange.store(true, Ordering::SeqCst),
                        );
                    },
                );
            })
        };
        await_flag(&begun);
        let ((), is_taken) = fork_join(
            || {
                free_too.store(true, Ordering::SeqCst);
                await_flag(&taken);
            },
            || {
                taken.store(true, Ordering::SeqCst);
                await_flag(&forked);
                // All four are busy now, except the one that waits for this. It looks often.
                work(Duration::from_millis(100));
                strange.load(Ordering::SeqCst)
            },
        );
        over.store(true, Ordering::SeqCst);
        other.await.unwrap();
        assert!(!is_taken, "by who waits for something else");
    });
}

/// The monitor of long turns must not sleep while a thread waits for a half, though all others sleep.
#[test]
#[cfg_attr(not(target_os = "linux"), ignore = "nothing is handed over")]
#[cfg_attr(miri, ignore = "Miri switches no stacks")]
fn who_waits_for_a_half_that_blocks_is_handed_over() {
    common::apart!();
    // It has nothing to do, but makes the monitor look often, and so give up soon.
    let hasty = Machine::builder().vps(1).hand_off_after(Some(Duration::from_millis(1))).build().unwrap();
    hasty.block_on(async { yield_now().await });
    let quantum = Some(Duration::from_millis(100));
    let machine = Machine::builder().vps(2).hand_off_after(quantum).build().unwrap();
    machine.block_on(async {
        let machine = Machine::current().unwrap();
        let fiber = chanter::fiber::Builder::new().on(0).spawn(move || {
            let [begun, ready] = [(); 2].map(|()| Arc::new(AtomicBool::new(false)));
            let wait = |flag: &AtomicBool| {
                while !flag.load(Ordering::SeqCst) {
                    std::thread::sleep(Duration::from_micros(100));
                }
            };
            let theirs = Arc::clone(&ready);
            fork_join(
                || {
                    await_flag(&begun);
                    // These turns end, until the stealer's virtual processor has been handed over, and idles.
                    while machine.stats().hand_offs == 0 {
                        chanter::fiber::yield_now();
                    }
                    // It is ready here, and may run nowhere else.
                    Thread::builder().on(0).spawn(async move { theirs.store(true, Ordering::SeqCst) });
                },
                || {
                    begun.store(true, Ordering::SeqCst);
                    wait(&ready);
                },
            );
        });
        fiber.await.unwrap();
    });
}

/// Forks in each of its calls, and at its end.
struct Forking(chanter::policy::Fifo);

impl Forking {
    /// Mostly another processor takes the second half, and it lasts for longer.
    fn fork() {
        let begun = AtomicBool::new(false);
        let end = Instant::now() + Duration::from_micros(100);
        fork_join(
            || {
                while !begun.load(Ordering::SeqCst) && Instant::now() < end {
                    std::hint::spin_loop();
                }
            },
            || {
                begun.store(true, Ordering::SeqCst);
                tree(4, &|_| ())
            },
        );
    }
}

impl Drop for Forking {
    fn drop(&mut self) {
        Self::fork();
    }
}

impl chanter::policy::Policy for Forking {
    fn enqueue(
        &self,
        thread: chanter::policy::Ready,
        reason: chanter::policy::Reason,
    ) -> Option<chanter::policy::Ready> {
        Self::fork();
        self.0.enqueue(thread, reason)
    }
    fn next(&self) -> Option<chanter::policy::Ready> {
        Self::fork();
        self.0.next()
    }
    fn withdraw(&self, id: u64) -> Option<chanter::policy::Ready> {
        Self::fork();
        self.0.withdraw(id)
    }
    fn give(&self, thief: &dyn chanter::policy::Policy) -> Option<chanter::policy::Ready> {
        Self::fork();
        self.0.give(thief)
    }
    fn need_thread(&self, others: chanter::policy::Others<'_>) -> Option<chanter::policy::Ready> {
        Self::fork();
        others.ask_in_random_order()
    }
    fn waiting(&self) -> usize {
        Self::fork();
        0
    }
    fn place(&self, _places: chanter::policy::Places<'_>) -> Option<usize> {
        Self::fork();
        None
    }
    fn idle(&self) {
        Self::fork();
    }
    fn drain(&self) -> Option<chanter::policy::Ready> {
        Self::fork();
        self.0.drain()
    }
}

/// One that forks while the machine is still being made had two OS threads drive a virtual processor, and the machine
/// never ended.
#[test]
fn a_machine_ends_whose_policies_fork() {
    watchdog!(20);
    for round in 0..if cfg!(miri) { 1 } else { 40 } {
        let vps = 1 + round % 4;
        let workers = if round % 5 == 0 { 1 } else { vps };
        let machine = Machine::builder()
            .vps(vps)
            .workers(workers)
            .policy(|_| Box::new(Forking(chanter::policy::Fifo::new())))
            .build()
            .unwrap();
        let left: Vec<_> = (0..8).map(|_| machine.spawn(never::<()>())).collect();
        machine.block_on(async {
            let threads: Vec<_> =
                (0..8).map(|n| spawn(async move { (yield_now().await, fib(n)).1 })).collect();
            for (n, thread) in (0..).zip(threads) {
                assert_eq!(thread.await.unwrap(), fib(n));
            }
            if round % 2 == 0 {
                // Some are queued when it ends.
                (0..8).for_each(|_| drop(spawn(async { yield_now().await })));
            }
        });
        if round % 3 == 0 {
            let moved = left;
            drop(machine.spawn(async move { drop(moved) }));
        }
        drop(machine);
    }
}
