//! Policies that panic, at each of their calls.

use std::cell::Cell;
use std::panic::resume_unwind;
use std::process::Command;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use chanter::prelude::*;
use chanter::{
    fiber,
    policy::{Bands, Fifo, Lifo, Others, Policy, Ready, Reason, WorkStealing},
    spawn_local,
    thread::scope_blocking,
};

use crate::common::watchdog;

/// When a brittle policy breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum When {
    /// At the call, before it has done anything.
    Before,
    /// When it has done what it was asked for.
    After,
    /// At the call, and at all that follow.
    FromThenOn,
}

const WHEN: [When; 3] = [When::Before, When::After, When::FromThenOn];

/// The shared state of the brittle policies of one machine.
#[derive(Debug)]
struct Fault {
    calls: AtomicUsize,
    at: usize,
    when: When,
    panics: AtomicUsize,
}

impl Fault {
    fn new(at: usize, when: When) -> Arc<Self> {
        Arc::new(Self { calls: AtomicUsize::new(0), at, when, panics: AtomicUsize::new(0) })
    }

    fn has_struck(&self) -> bool {
        self.panics.load(Ordering::SeqCst) > 0
    }

    fn strike(&self) -> ! {
        self.panics.fetch_add(1, Ordering::SeqCst);
        // Without a message from the panic's hook.
        resume_unwind(Box::new("as planned"));
    }

    fn call<R>(&self, work: impl FnOnce() -> R) -> R {
        let call = self.calls.fetch_add(1, Ordering::SeqCst) + 1;
        let strikes = if self.when == When::FromThenOn { call >= self.at } else { call == self.at };
        if !strikes {
            return work();
        }
        if self.when == When::After {
            let result = work();
            // Dropped on the way out.
            let _result = result;
            self.strike();
        }
        self.strike();
    }
}

/// A policy that does as its inner one, until it breaks.
struct Brittle {
    inner: Box<dyn Policy>,
    fault: Arc<Fault>,
}

impl Policy for Brittle {
    fn enqueue(&self, thread: Ready, reason: Reason) -> Option<Ready> {
        self.fault.call(|| self.inner.enqueue(thread, reason))
    }
    fn lets_woken_run(&self) -> bool {
        self.fault.call(|| false)
    }
    fn quantum(&self) -> u32 {
        self.fault.call(|| 16)
    }
    fn next(&self) -> Option<Ready> {
        self.fault.call(|| self.inner.next())
    }
    fn withdraw(&self, id: u64) -> Option<Ready> {
        self.fault.call(|| self.inner.withdraw(id))
    }
    fn give(&self, thief: &dyn Policy) -> Option<Ready> {
        self.fault.call(|| self.inner.give(thief))
    }
    fn waiting(&self) -> usize {
        self.fault.call(|| self.inner.waiting())
    }
    fn need_thread(&self, others: Others<'_>) -> Option<Ready> {
        self.fault.call(|| self.inner.need_thread(others))
    }
    fn place(&self, places: chanter::policy::Places<'_>) -> Option<usize> {
        self.fault.call(|| self.inner.place(places))
    }
    fn idle(&self) {
        self.fault.call(|| self.inner.idle());
    }
    fn drain(&self) -> Option<Ready> {
        self.fault.call(|| self.inner.drain())
    }
}

impl Drop for Brittle {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.fault.call(|| ());
        }
    }
}

fn brittle(fault: &Arc<Fault>) -> impl Fn(usize) -> Box<dyn Policy> + 'static {
    let fault = Arc::clone(fault);
    move |vp| {
        let inner: Box<dyn Policy> =
            if vp == 0 { Box::new(WorkStealing::new()) } else { Box::new(Fifo::new()) };
        Box::new(Brittle { inner, fault: Arc::clone(&fault) })
    }
}

fn machine(vps: usize, fault: &Arc<Fault>) -> Machine {
    Machine::builder().vps(vps).hand_off_after(None).policy(brittle(fault)).build().unwrap()
}

/// Runs `program` with a policy that breaks at the first call, at the second,
/// and so on until it has not been called as often.
fn at_every_call(most: usize, program: impl Fn(&Arc<Fault>)) {
    for when in WHEN {
        let mut spared = 0;
        for at in 1..=most {
            let fault = Fault::new(at, when);
            program(&fault);
            // The number of calls differs a little from run to run.
            spared = if fault.has_struck() { 0 } else { spared + 1 };
            if spared == 3 {
                break;
            }
        }
    }
}

/// A value that counts its drop, and must be dropped where it was made.
struct AtHome<'a> {
    ended: &'a Cell<u32>,
    os_thread: std::thread::ThreadId,
}

impl Drop for AtHome<'_> {
    fn drop(&mut self) {
        assert_eq!(self.os_thread, std::thread::current().id(), "dropped elsewhere");
        self.ended.set(self.ended.get() + 1);
    }
}

#[test]
fn block_on_returns_when_what_borrows_is_gone() {
    watchdog!();
    at_every_call(400, |fault| {
        let machine = machine(1, fault);
        let ended = Cell::new(0);
        let home = |ended| AtHome { ended, os_thread: std::thread::current().id() };
        let sum = machine.block_on_local(async {
            let _borrows = home(&ended);
            let (tx, rx) = channel::<u32>();
            for n in 1..=3 {
                let tx = tx.clone();
                spawn(async move { tx.send(n).await });
            }
            rx.recv().await.unwrap() + rx.recv().await.unwrap() + rx.recv().await.unwrap()
        });
        assert_eq!(sum, 6);
        assert_eq!(ended.get(), 1);
    });
}

#[test]
fn what_is_awaited_at_once_ends() {
    watchdog!();
    at_every_call(400, |fault| {
        let machine = machine(2, fault);
        let sum = machine.block_on(async {
            let first = spawn(async { 1 });
            let (second, third) = (spawn(async { 2 }), spawn(async { 3 }));
            third.await.unwrap() + second.join().await.unwrap() + first.await.unwrap()
        });
        assert_eq!(sum, 6);
    });
}

#[test]
fn local_threads_end_on_their_os_thread() {
    struct Local(Rc<Cell<u32>>, std::thread::ThreadId);
    impl Drop for Local {
        fn drop(&mut self) {
            assert_eq!(self.1, std::thread::current().id(), "dropped elsewhere");
            self.0.set(self.0.get() + 1);
        }
    }
    watchdog!();
    at_every_call(400, |fault| {
        let machine = machine(1, fault);
        let ended = Rc::new(Cell::new(0));
        machine.block_on_local(async {
            let others: Vec<_> = (0..2).map(|_| spawn(async { never::<()>().await })).collect();
            for n in 0..4 {
                let local = Local(Rc::clone(&ended), std::thread::current().id());
                spawn_local(async move {
                    let _local = local;
                    if n % 2 == 0 {
                        never::<()>().await;
                    }
                    loop {
                        yield_now().await;
                    }
                });
            }
            yield_now().await;
            drop(others);
        });
        assert_eq!(ended.get(), 4, "{fault:?}");
        // The processor is not lost.
        assert_eq!(machine.spawn(async { 5 }).join().sync_blocking().unwrap(), 5);
        assert_eq!(machine.block_on(async { spawn(async { 6 }).join().await.unwrap() }), 6);
    });
}

fn sum(numbers: &[u64]) -> u64 {
    match numbers {
        [] => 0,
        [one] => {
            let from = Instant::now();
            while from.elapsed() < Duration::from_micros(20) {
                std::hint::spin_loop();
            }
            *one
        }
        _ => {
            let (left, right) = numbers.split_at(numbers.len() / 2);
            let (left, right) = fork_join(|| sum(left), || sum(right));
            left + right
        }
    }
}

#[test]
fn jobs_that_are_shared_are_done() {
    watchdog!(120);
    let numbers: Vec<u64> = (0..64).collect();
    at_every_call(150, |fault| {
        let machine = machine(2, fault);
        for _ in 0..2 {
            let total = machine.block_on(async { fork_join(|| sum(&numbers), || sum(&numbers)) });
            assert_eq!(total, (2016, 2016), "{fault:?}");
        }
    });
}

/// Threads that talk, sleep, yield, spawn parasites and pass between two virtual
/// processors.
async fn crowd() -> u32 {
    let (tx, rx) = channel::<u32>();
    let (late_tx, late_rx) = mailbox::<u32>();
    let threads: Vec<_> = (0..6)
        .map(|index| {
            let (tx, late_tx) = (tx.clone(), late_tx.clone());
            spawn(async move {
                match index % 3 {
                    0 => yield_now().await,
                    1 => after(Duration::from_micros(50)).await,
                    _ => spawn_parasite(async move {
                        yield_now().await;
                        late_tx.send(1).await.unwrap();
                    }),
                }
                tx.send(1).await.unwrap();
            })
        })
        .collect();
    drop((tx, late_tx));
    let mut sum = 0;
    while let Ok(n) = rx.recv().await {
        sum += n;
    }
    while let Ok(n) = late_rx.recv().await {
        sum += n;
    }
    for thread in threads {
        thread.join().await.unwrap();
    }
    sum
}

#[test]
fn a_crowd_goes_on() {
    watchdog!(120);
    at_every_call(150, |fault| {
        let machine = machine(2, fault);
        assert_eq!(machine.block_on(crowd()), 8, "{fault:?}");
        assert_eq!(machine.spawn(crowd()).join().sync_blocking().unwrap(), 8, "{fault:?}");
    });
}

#[test]
fn a_crew_goes_on() {
    watchdog!(120);
    at_every_call(150, |fault| {
        let machine = Machine::builder().vps(4).workers(2).policy(brittle(fault)).build().unwrap();
        assert_eq!(machine.block_on(crowd()), 8, "{fault:?}");
        let threads: Vec<_> = (0..4).map(|vp| machine.spawn_on(vp, async move { vp })).collect();
        for (vp, thread) in threads.into_iter().enumerate() {
            assert_eq!(thread.join().sync_blocking().unwrap(), vp);
        }
    });
}

#[test]
fn fibers_and_scopes_end_where_they_began() {
    watchdog!(120);
    at_every_call(200, |fault| {
        let machine = machine(1, fault);
        let ended = Arc::new(AtomicUsize::new(0));
        struct End(Arc<AtomicUsize>);
        impl Drop for End {
            fn drop(&mut self) {
                self.0.fetch_add(1, Ordering::SeqCst);
            }
        }
        machine.block_on(async {
            let (tx, rx) = channel::<u32>();
            let end = || End(Arc::clone(&ended));
            let (one, two) = (end(), end());
            fiber::Builder::new().spawn(move || {
                let _one = one;
                let data = [1, 2, 3];
                let sum = scope_blocking(|scope| {
                    let thread = scope.spawn(async { data.iter().sum::<u32>() });
                    thread.join().sync_blocking().unwrap()
                });
                tx.send(sum).sync_blocking().unwrap();
            });
            fiber::Builder::new().spawn(move || {
                let _two = two;
                let data = Cell::new(0);
                scope_blocking(|scope| {
                    scope.spawn(async { never::<()>().await });
                    never::<()>().sync_blocking();
                });
                data.set(1);
            });
            assert_eq!(rx.recv().await, Ok(6));
        });
        drop(machine);
        assert_eq!(ended.load(Ordering::SeqCst), 2, "{fault:?}");
    });
}

#[test]
fn a_machine_that_is_dropped_ends_its_threads() {
    watchdog!(120);
    at_every_call(150, |fault| {
        let machine = machine(2, fault);
        let ended = Arc::new(AtomicUsize::new(0));
        struct End(Arc<AtomicUsize>);
        impl Drop for End {
            fn drop(&mut self) {
                self.0.fetch_add(1, Ordering::SeqCst);
            }
        }
        let handles: Vec<_> = (0..8)
            .map(|index| {
                let end = End(Arc::clone(&ended));
                machine.spawn(async move {
                    let _end = end;
                    loop {
                        if index % 2 == 0 { yield_now().await } else { never::<()>().await }
                    }
                })
            })
            .collect();
        drop(machine);
        assert_eq!(ended.load(Ordering::SeqCst), 8, "{fault:?}");
        for handle in handles {
            assert!(handle.join().sync_blocking().is_err());
        }
    });
}

#[test]
fn a_policy_that_comes_later_may_break_too() {
    watchdog!(120);
    at_every_call(150, |fault| {
        let machine = Machine::builder().vps(2).build().unwrap();
        machine.block_on(async {
            let here = chanter::current_vp().unwrap();
            let make = brittle(fault);
            for _ in 0..2 {
                let threads: Vec<_> = (0..4).map(|n| spawn(async move { n })).collect();
                here.set_policy(make(0)).wait().await;
                assert_eq!(crowd().await, 8, "{fault:?}");
                here.set_policy(Lifo::new()).wait().await;
                for (n, thread) in threads.into_iter().enumerate() {
                    assert_eq!(thread.join().await.unwrap(), n);
                }
            }
        });
    });
}

#[test]
fn bands_of_brittle_policies_pass_their_threads_on() {
    watchdog!(120);
    at_every_call(150, |fault| {
        let make = brittle(fault);
        let bands = move |vp| {
            let inner: [Box<dyn Policy>; 2] = [make(vp), make(vp)];
            Box::new(Bands::new(inner, |thread: &Ready, _| (thread.id() / 64) as usize % 2))
                as Box<dyn Policy>
        };
        let machine = Machine::builder().vps(2).policy(bands).build().unwrap();
        assert_eq!(machine.block_on(crowd()), 8, "{fault:?}");
    });
}

/// A spare worker drives while the worker computes.
#[test]
fn a_stand_in_goes_on() {
    watchdog!(200);
    for when in WHEN {
        for at in [1, 2, 3, 5, 8, 11, 14, 17, 20, 25, 30, 40] {
            let fault = Fault::new(at, when);
            let quantum = Some(Duration::from_millis(1));
            let machine =
                Machine::builder().vps(1).hand_off_after(quantum).policy(brittle(&fault)).build().unwrap();
            let ended = Rc::new(Cell::new(0));
            machine.block_on_local(async {
                let (tx, rx) = std::sync::mpsc::channel();
                let local = Rc::clone(&ended);
                spawn_local(async move {
                    let _local = local;
                    never::<()>().await;
                });
                for n in 0..4 {
                    let tx = tx.clone();
                    spawn(async move {
                        yield_now().await;
                        tx.send(n).unwrap();
                    });
                }
                // Blocks its OS thread, as nobody should.
                let sum: u32 = (0..4).map(|_| rx.recv().unwrap()).sum();
                assert_eq!(sum, 6);
            });
            assert_eq!(Rc::strong_count(&ended), 1, "{fault:?}");
        }
    }
}

/// A panic is told once, though the policy would panic at every call.
#[test]
fn a_panic_is_reported_once() {
    const CHILD: &str = "CHANTER_TEST_POLICY_REPORT";
    watchdog!();
    if std::env::var_os(CHILD).is_some() {
        let fault = Fault::new(3, When::FromThenOn);
        let machine = machine(1, &fault);
        assert_eq!(machine.block_on(crowd()), 8);
        assert_eq!(machine.stats().policies_failed, 1);
        return;
    }
    let this = std::env::current_exe().unwrap();
    let name = "panics::a_panic_is_reported_once";
    let child = Command::new(this).args([name, "--exact", "--nocapture"]).env(CHILD, "1").output().unwrap();
    let said = String::from_utf8_lossy(&child.stderr);
    assert!(child.status.success(), "{said}");
    assert_eq!(said.matches("as planned").count(), 1, "{said}");
}

/// It re-enters the library from its calls: spawns, drops tokens, blocks.
#[test]
fn a_policy_may_use_the_library_in_its_calls() {
    struct Busy(Fifo, AtomicUsize, Arc<AtomicUsize>);
    impl Policy for Busy {
        fn enqueue(&self, thread: Ready, reason: Reason) -> Option<Ready> {
            match self.1.fetch_add(1, Ordering::SeqCst) {
                n if n % 7 == 3 && n < 100 => {
                    let count = Arc::clone(&self.2);
                    drop(spawn(async move { count.fetch_add(1, Ordering::SeqCst) }));
                }
                n if n % 7 == 5 && n < 100 => {
                    after(Duration::from_micros(20)).sync_blocking();
                }
                _ => (),
            }
            if thread.tag() == 1 {
                drop(thread);
                return None;
            }
            self.0.enqueue(thread, reason)
        }
        fn next(&self) -> Option<Ready> {
            self.0.next()
        }
    }
    watchdog!();
    let spawned = Arc::new(AtomicUsize::new(0));
    for vps in [1, 2] {
        let count = Arc::clone(&spawned);
        let make =
            move |_| Box::new(Busy(Fifo::new(), AtomicUsize::new(0), Arc::clone(&count))) as Box<dyn Policy>;
        let machine = Machine::builder().vps(vps).policy(make).build().unwrap();
        assert_eq!(machine.block_on(crowd()), 8);
    }
    assert!(spawned.load(Ordering::SeqCst) > 0);
}

/// Tokens that a policy's own end drops are not lost with it.
#[test]
fn what_a_broken_policy_keeps_is_saved() {
    struct Miser(std::sync::Mutex<Vec<Ready>>);
    impl Policy for Miser {
        fn enqueue(&self, thread: Ready, _reason: Reason) -> Option<Ready> {
            let mut kept = self.0.lock().unwrap();
            kept.push(thread);
            if kept.len() == 5 {
                // Poisons the lock.
                resume_unwind(Box::new("as planned"));
            }
            None
        }
        fn next(&self) -> Option<Ready> {
            let mut kept = self.0.lock().unwrap_or_else(|_| resume_unwind(Box::new("poisoned, as planned")));
            if kept.is_empty() { None } else { Some(kept.remove(0)) }
        }
    }
    watchdog!();
    let make = |_| Box::new(Miser(std::sync::Mutex::default())) as Box<dyn Policy>;
    let machine = Machine::builder().vps(1).policy(make).build().unwrap();
    let sum = machine.block_on(async {
        let threads: Vec<_> = (0..10).map(|n| spawn(async move { n })).collect();
        yield_now().await;
        let mut sum = 0;
        for thread in threads {
            sum += thread.join().await.unwrap();
        }
        sum
    });
    assert_eq!(sum, 45);
}
