//! Policies that keep tokens, forget them, or let others have them.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use chanter::prelude::*;
use chanter::{
    policy::{Attributes, Fifo, Policy, Ready, ReadyQueue, Reason},
    simulation::{Outcome, Simulation},
    spawn_local,
    thread::scope_blocking,
};

use crate::common::watchdog;

/// Where tokens go that a policy hides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Where {
    /// Kept until the policy itself ends.
    Policy,
    /// Kept beyond the machine, and dropped on another OS thread.
    Elsewhere,
    /// Forgotten.
    Nowhere,
}

const WHERE: [Where; 3] = [Where::Policy, Where::Elsewhere, Where::Nowhere];

type Hoard = Arc<Mutex<Vec<Ready>>>;

/// Hides the tokens that come for one of the given reasons.
struct Miser {
    inner: Fifo,
    place: Where,
    hides: fn(&Ready, Reason) -> bool,
    own: Mutex<Vec<Ready>>,
    hoard: Hoard,
}

impl Miser {
    fn boxed(place: Where, hoard: &Hoard, hides: fn(&Ready, Reason) -> bool) -> Box<dyn Policy> {
        let hoard = Arc::clone(hoard);
        Box::new(Self { inner: Fifo::new(), place, hides, own: Mutex::default(), hoard })
    }
}

impl Policy for Miser {
    fn enqueue(&self, thread: Ready, reason: Reason) -> Option<Ready> {
        if !(self.hides)(&thread, reason) {
            return self.inner.enqueue(thread, reason);
        }
        match self.place {
            Where::Policy => self.own.lock().unwrap().push(thread),
            Where::Elsewhere => self.hoard.lock().unwrap().push(thread),
            Where::Nowhere => std::mem::forget(thread),
        }
        None
    }
    fn next(&self) -> Option<Ready> {
        self.inner.next()
    }
}

#[derive(Clone, Default)]
struct Ends(Arc<AtomicUsize>);

struct End(Ends);

impl Ends {
    fn end(&self) -> End {
        End(self.clone())
    }
    fn count(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

impl Drop for End {
    fn drop(&mut self) {
        self.0.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// Tokens of threads that have ended are of no use, and harm nobody.
fn use_up(hoard: &Hoard) {
    let tokens = std::mem::take(&mut *hoard.lock().unwrap());
    let other = std::thread::spawn(move || {
        let mut queue = ReadyQueue::new();
        for mut token in tokens {
            token.set_tag(token.tag() + token.id());
            let _ = (token.attributes(), token.may_move(), token.is_parasite());
            queue.push_back(token);
        }
        drop(queue.pop_front());
        drop(queue);
    });
    other.join().unwrap();
}

#[test]
fn a_machine_ends_whoever_has_its_tokens() {
    watchdog!();
    for place in WHERE {
        let (hoard, ends) = (Hoard::default(), Ends::default());
        let policy = {
            let hoard = Arc::clone(&hoard);
            move |_| Miser::boxed(place, &hoard, |thread, why| why != Reason::New || thread.tag() == 0)
        };
        let machine = Machine::builder().vps(2).hand_off_after(None).policy(policy).build().unwrap();
        let mut handles = Vec::new();
        for index in 0..12 {
            let end = ends.end();
            let body = async move {
                let _end = end;
                never::<()>().await;
            };
            handles.push(match index % 3 {
                0 => machine.spawn(body),
                1 => machine.spawn_on(index % 2, body),
                _ => machine.spawn_with(Attributes::new().priority(1), body),
            });
        }
        let end = ends.end();
        drop(machine.spawn_fiber(move || drop(end)));
        drop(machine);
        assert_eq!(ends.count(), 13, "{place:?}");
        use_up(&hoard);
        for handle in handles {
            assert!(handle.join().sync_blocking().is_err());
        }
    }
}

/// The same, of threads that have run: parasites, hosts, fibers that block.
#[test]
fn a_machine_ends_threads_whose_wake_ups_were_hidden() {
    watchdog!();
    for place in WHERE {
        let (hoard, ends) = (Hoard::default(), Ends::default());
        let policy = {
            let hoard = Arc::clone(&hoard);
            move |_| Miser::boxed(place, &hoard, |_, why| why == Reason::Remote)
        };
        let machine = Machine::builder().vps(1).hand_off_after(None).policy(policy).build().unwrap();
        let (tx, rx) = channel::<u32>();
        let (host, parasite, fiber, member) = (ends.end(), ends.end(), ends.end(), ends.end());
        let (rx1, rx2, rx3) = (rx.clone(), rx.clone(), rx);
        machine.block_on(async move {
            spawn(async move {
                let _end = host;
                let _ = rx1.recv().await;
                never::<()>().await;
            });
            spawn_parasite(async move {
                let _end = parasite;
                let _ = rx2.recv().await;
                never::<()>().await;
            });
            let waits = spawn(async move {
                let _end = member;
                never::<()>().await;
            });
            spawn_fiber(move || {
                let _end = fiber;
                let _ = rx3.recv().sync_blocking();
                let _ = waits.join().sync_blocking();
            });
            for _ in 0..4 {
                yield_now().await;
            }
            // From outside: each is woken, and its token is hidden.
            let outside = std::thread::spawn(move || {
                for n in 0..3 {
                    tx.send(n).sync_blocking().unwrap();
                }
            });
            outside.join().unwrap();
            for _ in 0..4 {
                yield_now().await;
            }
        });
        drop(machine);
        assert_eq!(ends.count(), 4, "{place:?}");
        use_up(&hoard);
    }
}

#[test]
fn local_threads_end_whoever_has_their_tokens() {
    watchdog!();
    for place in WHERE {
        let hoard = Hoard::default();
        let policy = {
            let hoard = Arc::clone(&hoard);
            move |_| Miser::boxed(place, &hoard, |_, why| why == Reason::Yielded)
        };
        let machine = Machine::builder().vps(1).hand_off_after(None).policy(policy).build().unwrap();
        let life = Rc::new(());
        machine.block_on_local(async {
            for _ in 0..5 {
                let life = Rc::clone(&life);
                spawn_local(async move {
                    yield_now().await;
                    drop(life);
                });
            }
            let (tx, rx) = channel::<()>();
            spawn(async move { tx.send(()).await });
            rx.recv().await.unwrap();
        });
        assert_eq!(Rc::strong_count(&life), 1, "{place:?}");
        // A token that comes back later is not run, nor dropped, again.
        use_up(&hoard);
        assert_eq!(machine.block_on(async { 1 }), 1);
        drop(machine);
    }
}

/// A scope that waits for a thread whose token is hidden ends with the machine.
#[test]
fn a_scope_that_waits_for_a_hidden_thread_ends_with_its_machine() {
    watchdog!();
    for place in WHERE {
        let (hoard, ends) = (Hoard::default(), Ends::default());
        let policy = {
            let hoard = Arc::clone(&hoard);
            move |_| Miser::boxed(place, &hoard, |_, why| why == Reason::Yielded)
        };
        let machine = Machine::builder().vps(2).hand_off_after(None).policy(policy).build().unwrap();
        let (tx, rx) = std::sync::mpsc::channel();
        for vp in 0..2 {
            let (end, ends, tx) = (ends.end(), ends.clone(), tx.clone());
            machine.spawn_fiber(move || {
                let _end = end;
                let data = [1, 2, 3];
                scope_blocking(|scope| {
                    let end = ends.end();
                    scope.spawn(async {
                        let _end = end;
                        yield_now().await;
                        assert_eq!(data.len(), 3);
                    });
                    let _ = tx.send(vp);
                });
            });
        }
        let _ = (rx.recv(), rx.recv());
        std::thread::sleep(std::time::Duration::from_millis(20));
        drop(machine);
        assert_eq!(ends.count(), 4, "{place:?}");
        use_up(&hoard);
    }
}

/// Tokens are dropped elsewhere while their machine ends: each thread is ended once.
#[test]
fn tokens_that_are_dropped_while_the_machine_ends() {
    watchdog!(120);
    for round in 0..200 {
        let (hoard, ends) = (Hoard::default(), Ends::default());
        let policy = {
            let hoard = Arc::clone(&hoard);
            move |_| Miser::boxed(Where::Elsewhere, &hoard, |_, _| true)
        };
        let machine = Machine::builder().vps(2).hand_off_after(None).policy(policy).build().unwrap();
        for index in 0..20 {
            let end = ends.end();
            let body = async move { drop(end) };
            drop(if index % 2 == 0 { machine.spawn(body) } else { machine.spawn_on(1, body) });
        }
        while hoard.lock().unwrap().len() < 20 {
            std::thread::yield_now();
        }
        let dropper = std::thread::spawn(move || {
            for _ in 0..round % 10 {
                std::thread::yield_now();
            }
            let tokens = std::mem::take(&mut *hoard.lock().unwrap());
            tokens.into_iter().for_each(drop);
        });
        drop(machine);
        assert_eq!(ends.count(), 20);
        dropper.join().unwrap();
    }
}

/// Simulates, and hides the token of the main thread.
struct Thief {
    inner: Fifo,
    place: Where,
    hoard: Hoard,
    hides: Mutex<bool>,
}

impl Policy for Thief {
    fn enqueue(&self, thread: Ready, reason: Reason) -> Option<Ready> {
        if thread.tag() != 0 || !*self.hides.lock().unwrap() {
            return self.inner.enqueue(thread, reason);
        }
        match self.place {
            Where::Nowhere => std::mem::forget(thread),
            _ => self.hoard.lock().unwrap().push(thread),
        }
        None
    }
    fn next(&self) -> Option<Ready> {
        self.inner.next()
    }
}

impl Simulation for Thief {
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
fn a_simulation_that_hides_the_main_thread_ends_it() {
    struct Borrows<'a>(&'a Cell<u32>);
    impl Drop for Borrows<'_> {
        fn drop(&mut self) {
            self.0.set(self.0.get() + 1);
        }
    }
    watchdog!();
    for place in [Where::Elsewhere, Where::Nowhere] {
        for explains in [false, true] {
            let hoard = Hoard::default();
            let simulation = Arc::new(Thief {
                inner: Fifo::new(),
                place,
                hoard: Arc::clone(&hoard),
                hides: Mutex::new(true),
            });
            let machine = Machine::builder().simulation(Arc::clone(&simulation) as _).build().unwrap();
            for late in [false, true] {
                *simulation.hides.lock().unwrap() = !late;
                let ended = Cell::new(0);
                let thief = Arc::clone(&simulation);
                let borrows = Borrows(&ended);
                let outcome = machine.simulate(
                    async move {
                        let borrows = borrows;
                        spawn(async { yield_now().await });
                        *thief.hides.lock().unwrap() = true;
                        yield_now().await;
                        drop(borrows);
                    },
                    explains,
                );
                assert!(matches!(outcome, Outcome::Deadlocked(_)), "{outcome:?}");
                assert_eq!(ended.get(), 1, "{place:?}");
            }
            use_up(&hoard);
            *simulation.hides.lock().unwrap() = false;
            let outcome = machine.simulate(async { spawn(async { 7 }).join().await.unwrap() }, explains);
            assert!(matches!(outcome, Outcome::Done(7)), "{outcome:?}");
        }
    }
}

/// A dead token that comes back through the simulation is not run.
#[test]
fn a_simulation_that_gives_the_token_back_later() {
    watchdog!();
    let hoard = Hoard::default();
    let simulation = Arc::new(Thief {
        inner: Fifo::new(),
        place: Where::Elsewhere,
        hoard: Arc::clone(&hoard),
        hides: Mutex::new(true),
    });
    let machine = Machine::builder().simulation(Arc::clone(&simulation) as _).build().unwrap();
    for _ in 0..3 {
        let ended = Cell::new(false);
        let outcome = machine.simulate(async { ended.set(true) }, false);
        assert!(matches!(outcome, Outcome::Deadlocked(_)), "{outcome:?}");
        assert!(!ended.get());
        for token in std::mem::take(&mut *hoard.lock().unwrap()) {
            assert!(simulation.inner.enqueue(token, Reason::New).is_none());
        }
    }
}

/// A simulation that panics, at each of its calls: what borrows is gone before
/// the panic goes on.
#[test]
fn a_simulation_that_panics_ends_its_schedule() {
    struct Brittle(Fifo, AtomicUsize, usize);
    impl Brittle {
        fn call(&self) {
            if self.1.fetch_add(1, Ordering::SeqCst) + 1 == self.2 {
                std::panic::resume_unwind(Box::new("as planned"));
            }
        }
    }
    impl Policy for Brittle {
        fn enqueue(&self, thread: Ready, reason: Reason) -> Option<Ready> {
            self.call();
            self.0.enqueue(thread, reason)
        }
        fn next(&self) -> Option<Ready> {
            self.call();
            self.0.next()
        }
    }
    impl Simulation for Brittle {
        fn point(&self, _thread: u64, _nested: bool) -> bool {
            self.call();
            false
        }
        fn choose(&self, _alternatives: usize) -> usize {
            self.call();
            0
        }
        fn is_in_place(&self) -> bool {
            self.call();
            true
        }
        fn panicked(&self, _whose: &str, _message: &str) {
            self.call();
        }
        fn is_over(&self) -> bool {
            self.call();
            false
        }
        fn end(&self) {
            self.call();
        }
    }
    struct Borrows<'a>(&'a Cell<u32>);
    impl Drop for Borrows<'_> {
        fn drop(&mut self) {
            self.0.set(self.0.get() + 1);
        }
    }
    watchdog!();
    for at in 1.. {
        let simulation = Arc::new(Brittle(Fifo::new(), AtomicUsize::new(0), at));
        let machine = Machine::builder().simulation(Arc::clone(&simulation) as _).build().unwrap();
        let ended = Cell::new(0);
        let run = || {
            machine.simulate(
                async {
                    let _borrows = Borrows(&ended);
                    let (tx, rx) = channel::<u32>();
                    let (other, silent) = channel::<u32>();
                    spawn(async move { tx.send(1).await });
                    spawn_parasite(async { std::panic::resume_unwind(Box::new("as planned, too")) });
                    let got = choose([rx.recv(), silent.recv()]).await.unwrap();
                    drop(other);
                    after(std::time::Duration::from_secs(1)).await;
                    got
                },
                false,
            )
        };
        match std::panic::catch_unwind(std::panic::AssertUnwindSafe(run)) {
            Ok(outcome) => {
                assert!(matches!(outcome, Outcome::Done(1)), "{at}: {outcome:?}");
                if simulation.1.load(Ordering::SeqCst) < at {
                    break;
                }
            }
            Err(payload) => assert_eq!(payload.downcast_ref(), Some(&"as planned"), "{at}"),
        }
        // (It may panic before the main thread has begun to borrow.)
        assert!(ended.get() <= 1);
        let again = machine.simulate(async { spawn(async { 7 }).join().await.unwrap() }, false);
        assert!(matches!(again, Outcome::Done(7)), "{at}: {again:?}");
    }
}
