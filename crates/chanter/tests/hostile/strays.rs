//! Tokens that come to the policy of another machine.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use chanter::policy::{Fifo, GlobalQueue, Policy, Ready, Reason};
use chanter::prelude::*;
use chanter::simulation::{Outcome, Simulation};

use crate::common::watchdog;

/// Puts every token into a place that others look into.
struct Swap {
    mine: Arc<Mutex<Vec<Ready>>>,
    theirs: Arc<Mutex<Vec<Ready>>>,
}

impl Policy for Swap {
    fn enqueue(&self, thread: Ready, reason: Reason) -> Option<Ready> {
        if reason == Reason::Remote && thread.tag() > 3 {
            // It has strayed often enough.
            self.mine.lock().unwrap().push(thread);
            return None;
        }
        let mut thread = thread;
        thread.set_tag(thread.tag() + 1);
        self.theirs.lock().unwrap().push(thread);
        None
    }
    fn next(&self) -> Option<Ready> {
        self.mine.lock().unwrap().pop()
    }
}

/// Two machines' policies hand each other their threads, those that are bound to an OS
/// thread too: each runs at home.
#[test]
fn tokens_that_stray_to_another_machine_go_home() {
    watchdog!();
    let (a, b) = (Arc::default(), Arc::default());
    let build = |mine: &Arc<_>, theirs: &Arc<_>| {
        let (mine, theirs) = (Arc::clone(mine), Arc::clone(theirs));
        let policy = move |_| {
            Box::new(Swap { mine: Arc::clone(&mine), theirs: Arc::clone(&theirs) }) as Box<dyn Policy>
        };
        Machine::builder().vps(1).policy(policy).build().unwrap()
    };
    let (one, two) = (build(&a, &b), build(&b, &a));
    let over = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // Nobody tells a machine that there is something for it in the other's hands.
            while over.load(Ordering::SeqCst) < 2 {
                drop((one.spawn(async {}), two.spawn(async {})));
                std::thread::sleep(std::time::Duration::from_micros(100));
            }
        });
        for machine in [&one, &two] {
            let over = &over;
            scope.spawn(move || {
                machine.block_on_local(async {
                    let here = std::thread::current().id();
                    let local = chanter::spawn_local(async move {
                        for _ in 0..10 {
                            yield_now().await;
                            assert_eq!(std::thread::current().id(), here);
                        }
                    });
                    let threads: Vec<_> = (0..5).map(|n| spawn(async move { n })).collect();
                    local.join().await.unwrap();
                    for (n, thread) in threads.into_iter().enumerate() {
                        assert_eq!(thread.join().await.unwrap(), n);
                    }
                    over.fetch_add(1, Ordering::SeqCst);
                    // The other one may need this one to send its threads home.
                    while over.load(Ordering::SeqCst) < 2 {
                        yield_now().await;
                    }
                });
            });
        }
    });
}

/// A machine that ends does not end the threads of another one that are in its policy.
#[test]
fn a_machine_ends_its_own_threads_only() {
    watchdog!();
    let queue = GlobalQueue::new();
    let build = || {
        let queue = queue.clone();
        Machine::builder().vps(1).policy(move |_| Box::new(queue.member())).build().unwrap()
    };
    let (one, two) = (build(), build());
    let sum = one.block_on(async {
        let threads: Vec<_> = (0..10_u32)
            .map(|n| {
                spawn(async move {
                    yield_now().await;
                    n
                })
            })
            .collect();
        // All are queued, and this queue is the other's too.
        drop(two);
        let mut sum = 0;
        for thread in threads {
            sum += thread.join().await.unwrap();
        }
        sum
    });
    assert_eq!(sum, 45);
}

/// A simulation that lets in what is not its own.
struct Gate(Fifo, Arc<Mutex<Vec<Ready>>>);

impl Policy for Gate {
    fn enqueue(&self, thread: Ready, reason: Reason) -> Option<Ready> {
        self.0.enqueue(thread, reason)
    }
    fn next(&self) -> Option<Ready> {
        let stray = self.1.lock().unwrap().pop();
        stray.or_else(|| self.0.next())
    }
}

impl Simulation for Gate {
    fn point(&self, _thread: u64, _nested: bool) -> bool {
        false
    }
    fn choose(&self, _alternatives: usize) -> usize {
        0
    }
    fn panicked(&self, _whose: &str, _message: &str) {}
    fn is_over(&self) -> bool {
        false
    }
    fn end(&self) {}
}

#[test]
fn a_simulation_runs_its_own_threads_only() {
    struct Catch(Fifo, Arc<Mutex<Vec<Ready>>>);
    impl Policy for Catch {
        fn enqueue(&self, thread: Ready, reason: Reason) -> Option<Ready> {
            if reason == Reason::Remote && thread.tag() == 0 {
                let mut thread = thread;
                thread.set_tag(1);
                self.1.lock().unwrap().push(thread);
                return None;
            }
            self.0.enqueue(thread, reason)
        }
        fn next(&self) -> Option<Ready> {
            self.0.next()
        }
    }
    watchdog!();
    let caught: Arc<Mutex<Vec<Ready>>> = Arc::default();
    let catch = {
        let caught = Arc::clone(&caught);
        move |_| Box::new(Catch(Fifo::new(), Arc::clone(&caught))) as Box<dyn Policy>
    };
    let real = Machine::builder().vps(1).policy(catch).build().unwrap();
    let machine =
        Machine::builder().simulation(Arc::new(Gate(Fifo::new(), Arc::clone(&caught)))).build().unwrap();
    let thread = real.spawn(async { std::thread::current().id() });
    while caught.lock().unwrap().is_empty() {
        std::thread::yield_now();
    }
    let outcome = machine.simulate(async { spawn(async { 3 }).join().await.unwrap() }, false);
    assert!(matches!(outcome, Outcome::Done(3)), "{outcome:?}");
    assert_ne!(thread.join().sync_blocking().unwrap(), std::thread::current().id());
}

/// A policy that gives may leave all threads with the stealer, and return none.
#[test]
fn what_is_left_with_a_thief_is_run() {
    struct Generous(Fifo, AtomicUsize);
    impl Policy for Generous {
        fn enqueue(&self, thread: Ready, reason: Reason) -> Option<Ready> {
            self.1.fetch_add(1, Ordering::SeqCst);
            self.0.enqueue(thread, reason)
        }
        fn next(&self) -> Option<Ready> {
            let thread = self.0.next();
            self.1.fetch_sub(usize::from(thread.is_some()), Ordering::SeqCst);
            thread
        }
        fn give(&self, thief: &dyn Policy) -> Option<Ready> {
            while let Some(thread) = self.next() {
                if let Some(unwanted) = thief.enqueue(thread, Reason::Stolen) {
                    return Some(unwanted);
                }
            }
            None
        }
        fn waiting(&self) -> usize {
            self.1.load(Ordering::SeqCst)
        }
    }
    watchdog!();
    let policy = |vp| match vp {
        0 => Box::new(Generous(Fifo::new(), AtomicUsize::new(0))) as Box<dyn Policy>,
        _ => Box::new(Fifo::new()),
    };
    let machine = Machine::builder().vps(2).hand_off_after(None).policy(policy).build().unwrap();
    for _ in 0..20 {
        let ran = Arc::new(AtomicUsize::new(0));
        machine.block_on(async {
            for _ in 0..4 {
                let ran = Arc::clone(&ran);
                drop(spawn(async move { ran.fetch_add(1, Ordering::SeqCst) }));
            }
            // This processor is busy: the other one runs them.
            while ran.load(Ordering::SeqCst) < 4 {
                std::thread::yield_now();
            }
        });
    }
}
