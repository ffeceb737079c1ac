//! Policies that are replaced while the machine runs.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use chanter::policy::{
    Deque, Fifo, GlobalQueue, Lifo, Policy, Priority, Ready, ReadyQueue, Reason, WorkStealing,
};
use chanter::prelude::*;

use crate::common::watchdog;

fn machine(vps: usize) -> Machine {
    Machine::builder().vps(vps).build().expect("a machine")
}

/// Every policy after every other, with threads in the queue and soon to run:
/// none is lost, and those that were queued are handed over with the reason.
#[test]
fn threads_pass_to_the_new_policy() {
    watchdog!();
    struct Heir(Fifo, Arc<AtomicUsize>);
    impl Policy for Heir {
        fn enqueue(&self, thread: Ready, reason: Reason) -> Option<Ready> {
            self.1.fetch_add(usize::from(reason == Reason::Replaced), Ordering::SeqCst);
            self.0.enqueue(thread, reason)
        }
        fn next(&self) -> Option<Ready> {
            self.0.next()
        }
    }
    let makers: [fn() -> Box<dyn Policy>; 6] = [
        || Box::new(Fifo::new()),
        || Box::new(Lifo::new()),
        || Box::new(Priority::new()),
        || Box::new(WorkStealing::new()),
        || Box::new(Deque::new()),
        || Box::new(GlobalQueue::new().member()),
    ];
    for make in makers {
        let machine = Machine::builder().vps(1).policy(move |_| make()).build().unwrap();
        let inherited = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&inherited);
        machine.block_on(async move {
            let (tx, rx) = channel::<u32>();
            let receiver = spawn(async move { rx.recv().await });
            yield_now().await;
            let threads: Vec<_> = (0..100).map(|n| spawn(async move { n })).collect();
            // Woken: soon to run, where the policy lets it.
            tx.send(7).await.unwrap();
            let here = chanter::current_vp().unwrap();
            let done = here.set_policy(Heir(Fifo::new(), count));
            assert!(!done.is_set(), "policies change between turns");
            done.wait().await;
            for (n, thread) in threads.into_iter().enumerate() {
                assert_eq!(thread.join().await.unwrap(), n);
            }
            assert_eq!(receiver.join().await.unwrap(), Ok(7));
        });
        // All but those that ran between.
        assert!(inherited.load(Ordering::SeqCst) >= 100, "{}", inherited.load(Ordering::SeqCst));
    }
}

#[test]
fn the_new_policy_decides_from_then_on() {
    watchdog!();
    let machine = machine(1);
    let log = Arc::new(Mutex::new(String::new()));
    machine.block_on(async {
        for policy in [Box::new(Fifo::new()) as Box<dyn Policy>, Box::new(Lifo::new())] {
            chanter::current_vp().unwrap().set_policy(policy).wait().await;
            // To await a thread that has not run would steal it.
            let (tx, rx) = mailbox::<()>();
            for name in ['a', 'b', 'c'] {
                let (log, tx) = (Arc::clone(&log), tx.clone());
                drop(spawn(async move {
                    log.lock().unwrap().push(name);
                    drop(tx);
                }));
            }
            drop(tx);
            assert!(rx.recv().await.is_err());
        }
    });
    assert_eq!(*log.lock().unwrap(), "abccba");
}

#[test]
fn a_virtual_processor_that_sleeps_or_that_nobody_drives_changes_too() {
    watchdog!();
    let machine = machine(2);
    machine.block_on(async { after(Duration::from_millis(5)).await });
    for vp in [0, 1] {
        let dropped = Arc::new(AtomicBool::new(false));
        machine.vp(vp).set_policy(Watched::new(&dropped)).wait().sync_blocking();
        assert!(!dropped.load(Ordering::SeqCst));
        machine.vp(vp).set_policy(Fifo::new()).wait().sync_blocking();
        // Freed once nobody can see it.
        while !dropped.load(Ordering::SeqCst) {
            std::thread::yield_now();
        }
    }
}

/// A policy whose end is seen.
struct Watched(Fifo, Arc<AtomicBool>);

impl Watched {
    fn new(dropped: &Arc<AtomicBool>) -> Self {
        Self(Fifo::new(), Arc::clone(dropped))
    }
}

impl Policy for Watched {
    fn enqueue(&self, thread: Ready, reason: Reason) -> Option<Ready> {
        self.0.enqueue(thread, reason)
    }

    fn next(&self) -> Option<Ready> {
        self.0.next()
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.1.store(true, Ordering::SeqCst);
    }
}

#[test]
fn of_several_requests_the_last_one_counts_and_all_are_answered() {
    watchdog!();
    let machine = machine(1);
    machine.block_on(async {
        let here = chanter::current_vp().unwrap();
        let ends = [(); 3].map(|()| Arc::new(AtomicBool::new(false)));
        let done = ends.each_ref().map(|end| here.set_policy(Watched::new(end)));
        assert_eq!(done.each_ref().map(|done| done.is_set()), [true, true, false]);
        done[2].wait().await;
        assert_eq!(ends.each_ref().map(|end| end.load(Ordering::SeqCst)), [true, true, false]);
    });
}

#[test]
fn a_request_to_a_machine_that_has_ended_is_answered() {
    watchdog!();
    let machine = machine(2);
    let vp = machine.vp(1);
    drop(machine);
    let dropped = Arc::new(AtomicBool::new(false));
    vp.set_policy(Watched::new(&dropped)).wait().sync_blocking();
    assert!(dropped.load(Ordering::SeqCst));
    assert_eq!(vp.index(), 1);
}

#[test]
fn a_request_that_a_machine_never_serves_is_answered() {
    watchdog!();
    for _ in 0..20 {
        let machine = machine(2);
        let busy = Arc::new(AtomicBool::new(false));
        let (begun, over) = (Arc::clone(&busy), Arc::new(AtomicBool::new(false)));
        let until = Arc::clone(&over);
        let _thread = machine.spawn_on(1, async move {
            begun.store(true, Ordering::SeqCst);
            while !until.load(Ordering::SeqCst) {
                std::thread::yield_now();
            }
        });
        while !busy.load(Ordering::SeqCst) {
            std::thread::yield_now();
        }
        let done = machine.vp(1).set_policy(Fifo::new());
        std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(2));
            over.store(true, Ordering::SeqCst);
        });
        drop(machine);
        done.wait().sync_blocking();
    }
}

/// A thief that takes a thread out, dawdles, and puts it back: it must not be
/// lost with the policy that it was put back into (INV-MOVE).
#[test]
fn what_a_thief_puts_back_into_a_replaced_policy_is_not_lost() {
    watchdog!();
    /// Gives nothing, but takes its time to find out.
    struct Hesitant(Mutex<ReadyQueue>, Arc<AtomicUsize>);
    impl Policy for Hesitant {
        fn enqueue(&self, thread: Ready, _: Reason) -> Option<Ready> {
            self.0.lock().unwrap().push_back(thread);
            None
        }
        fn next(&self) -> Option<Ready> {
            self.0.lock().unwrap().pop_front()
        }
        fn give(&self, _: &dyn Policy) -> Option<Ready> {
            let taken: Vec<_> = {
                let mut queue = self.0.lock().unwrap();
                std::iter::from_fn(|| queue.pop_front()).collect()
            };
            self.1.fetch_add(taken.len(), Ordering::SeqCst);
            std::thread::sleep(Duration::from_micros(300));
            self.0.lock().unwrap().extend(taken);
            None
        }
        fn waiting(&self) -> usize {
            self.0.lock().unwrap().len()
        }
    }
    let hesitated = Arc::new(AtomicUsize::new(0));
    for _ in 0..30 {
        let machine = machine(2);
        let count = Arc::clone(&hesitated);
        machine.block_on(async move {
            let here = chanter::current_vp().unwrap();
            for _ in 0..5 {
                here.set_policy(Hesitant(Mutex::default(), Arc::clone(&count))).wait().await;
                let threads: Vec<_> = (0..8)
                    .map(|n| {
                        spawn(async move {
                            yield_now().await;
                            n
                        })
                    })
                    .collect();
                // The other one comes to steal.
                std::thread::sleep(Duration::from_micros(200));
                here.set_policy(Fifo::new()).wait().await;
                for (n, thread) in threads.into_iter().enumerate() {
                    assert_eq!(thread.join().await.unwrap(), n);
                }
            }
        });
    }
    assert!(hesitated.load(Ordering::SeqCst) > 0, "nothing was ever put back: the test shows nothing");
}

/// A policy that lets go of a thread runs its destructors, which may block: the
/// policy is replaced meanwhile, and must live until its call returns.
#[test]
#[cfg_attr(miri, ignore = "Miri switches no stacks")]
fn a_policy_is_not_freed_in_the_middle_of_a_call() {
    watchdog!();
    struct Blocks(Option<Receiver<()>>);
    impl Drop for Blocks {
        fn drop(&mut self) {
            if let Some(rx) = self.0.take() {
                assert!(rx.recv().sync_blocking().is_ok());
            }
        }
    }
    /// Ends the threads that are marked, and looks at itself afterwards.
    struct Ends(Fifo, Arc<AtomicUsize>, Arc<AtomicBool>);
    impl Policy for Ends {
        fn enqueue(&self, thread: Ready, reason: Reason) -> Option<Ready> {
            if thread.attributes().priority == 1 {
                drop(thread);
                assert!(!self.2.load(Ordering::SeqCst), "the policy was dropped during its call");
                self.1.fetch_add(1, Ordering::SeqCst);
                return None;
            }
            self.0.enqueue(thread, reason)
        }
        fn next(&self) -> Option<Ready> {
            self.0.next()
        }
    }
    impl Drop for Ends {
        fn drop(&mut self) {
            self.2.store(true, Ordering::SeqCst);
        }
    }
    for on_fiber in [false, true] {
        let (calls, dropped) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
        let machine = machine(1);
        machine.block_on(async {
            let here = chanter::current_vp().unwrap();
            here.set_policy(Ends(Fifo::new(), Arc::clone(&calls), Arc::clone(&dropped))).wait().await;
            let (tx, rx) = channel::<()>();
            let replacer = spawn(async move {
                here.set_policy(Fifo::new()).wait().await;
                // It is in force, and was looked after several times.
                for _ in 0..200 {
                    yield_now().await;
                }
                tx.send(()).await.unwrap();
            });
            let spawns = move || {
                let blocks = Blocks(Some(rx));
                drop(Thread::builder().attributes(chanter::policy::Attributes::new().priority(1)).spawn(
                    async move {
                        let _blocks = blocks;
                    },
                ));
            };
            if on_fiber {
                spawn_fiber(spawns).join().await.unwrap();
            } else {
                spawn(async move { spawns() }).join().await.unwrap();
            }
            replacer.join().await.unwrap();
            assert_eq!(calls.load(Ordering::SeqCst), 1);
            // Now it may go.
            while !dropped.load(Ordering::SeqCst) {
                yield_now().await;
            }
        });
    }
}

/// Everything at once: talk, steal, replace from in and outside, leave and
/// enter `block_on`, and end in the middle of it.
#[test]
fn stress() {
    watchdog!(120);
    for round in 0..20 {
        let machine = Arc::new(machine(1 + round % 3));
        let ended = Arc::new(AtomicUsize::new(0));
        let over = Arc::new(AtomicBool::new(false));
        let queue = GlobalQueue::new();
        let replacer = std::thread::spawn({
            let (machine, over) = (Arc::clone(&machine), Arc::clone(&over));
            let queue = queue.clone();
            move || {
                for n in 0.. {
                    let vp = machine.vp(n % machine.vps());
                    match n % 5 {
                        0 => vp.set_policy(Fifo::new()),
                        1 => vp.set_policy(queue.member()),
                        2 => vp.set_policy(Deque::new()),
                        3 => vp.set_policy(Priority::new()),
                        _ => vp.set_policy(WorkStealing::new()),
                    };
                    if over.load(Ordering::SeqCst) {
                        return;
                    }
                    if n % 3 == 0 {
                        std::thread::yield_now();
                    }
                }
            }
        });
        for _ in 0..5 {
            let ended = Arc::clone(&ended);
            machine.block_on(async {
                let threads: Vec<_> = (0..200)
                    .map(|n| {
                        let ended = Arc::clone(&ended);
                        spawn(async move {
                            let (tx, rx) = channel();
                            spawn_parasite(async move {
                                yield_now().await;
                                let _ = tx.send(n).await;
                            });
                            assert_eq!(rx.recv().await, Ok(n));
                            ended.fetch_add(1, Ordering::SeqCst);
                        })
                    })
                    .collect();
                for thread in threads {
                    thread.join().await.unwrap();
                }
            });
        }
        assert_eq!(ended.load(Ordering::SeqCst), 1000);
        if round % 2 == 0 {
            over.store(true, Ordering::SeqCst);
            replacer.join().unwrap();
            drop(machine);
        } else {
            // It ends under the replacer, with threads in its queues.
            for _ in 0..50 {
                drop(machine.spawn(async { never::<()>().await }));
                drop(machine.spawn(async { yield_now().await }));
            }
            over.store(true, Ordering::SeqCst);
            drop(machine);
            replacer.join().unwrap();
        }
    }
}
