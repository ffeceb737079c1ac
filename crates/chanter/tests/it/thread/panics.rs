//! Panics of users' code in the middle of a synchronization: what else is there
//! stays whole.

use crate::common;

use std::panic::{AssertUnwindSafe, catch_unwind};

use chanter::prelude::*;
use common::{Ledger, Payload, machine, poll, watchdog};

#[test]
fn a_panic_in_a_wrap_loses_only_its_own_message() {
    watchdog!();
    let ledger = Ledger::new();
    let (tx, rx) = mailbox();
    tx.try_send(ledger.payload(1)).unwrap();
    tx.try_send(ledger.payload(2)).unwrap();
    let event = choose((rx.recv().wrap(|_| panic!("a wrap's panic")), never::<()>()));
    assert!(catch_unwind(AssertUnwindSafe(|| event.sync_blocking())).is_err());
    assert_eq!(rx.try_recv().unwrap().id, 2);
    ledger.check();
    // Polled late, on a thread of a machine.
    machine(1).block_on(async {
        let (tx, rx) = channel();
        let host = spawn(
            choose((rx.clone().into_recv().wrap(|_| -> u32 { panic!("a wrap's panic") }), never()))
                .into_future(),
        );
        yield_now().await;
        tx.send(ledger.payload(3)).await.unwrap();
        assert_eq!(host.join().await.unwrap_err().message(), Some("a wrap's panic"));
        assert!(rx.try_recv().is_err());
    });
    ledger.check();
}

#[test]
fn a_panic_in_a_guard_loses_nothing() {
    watchdog!();
    let ledger = Ledger::new();
    let (tx, rx) = mailbox();
    tx.try_send(ledger.payload(1)).unwrap();
    let event = choose((
        rx.recv().wrap(drop),
        tx.send(ledger.payload(2)).wrap(drop),
        guard(|| -> chanter::event::Never<()> { panic!("a guard's panic") }),
    ));
    assert!(catch_unwind(AssertUnwindSafe(|| event.sync_blocking())).is_err());
    assert_eq!(rx.try_recv().unwrap().id, 1);
    assert!(rx.try_recv().is_err());
    ledger.check();
}

/// Payloads whose destructors panic: the channel stays whole, and the panic reaches the code that dropped.
#[test]
fn panics_in_destructors_of_payloads() {
    watchdog!();
    struct Bomb(bool, #[allow(dead_code, reason = "counts")] Payload);
    impl Drop for Bomb {
        fn drop(&mut self) {
            if self.0 && !std::thread::panicking() {
                panic!("a payload's panic");
            }
        }
    }
    let ledger = Ledger::new();
    let bomb = |armed| Bomb(armed, ledger.payload(0));
    let panics = |f: &mut dyn FnMut()| catch_unwind(AssertUnwindSafe(f)).is_err();
    // Unread messages; the others are dropped all the same.
    let (tx, rx) = mailbox();
    tx.try_send(bomb(false)).ok().unwrap();
    tx.try_send(bomb(true)).ok().unwrap();
    tx.try_send(bomb(false)).ok().unwrap();
    let mut rx = Some(rx);
    assert!(panics(&mut || drop(rx.take())));
    assert!(tx.is_closed());
    ledger.check();
    // An unsent message.
    let (tx, rx) = channel();
    let mut send = Some(Box::pin(tx.send(bomb(true)).sync()));
    assert!(poll(send.as_mut().unwrap()).is_pending());
    assert!(panics(&mut || drop(send.take())));
    assert!(rx.try_recv().is_err());
    // A loser's message.
    assert!(panics(&mut || choose_biased((always(()), tx.send(bomb(true)).wrap(drop))).sync_blocking()));
    // One that comes back too late.
    let mut receive = Some(Box::pin(rx.clone().into_recv().sync()));
    assert!(poll(receive.as_mut().unwrap()).is_pending());
    tx.try_send(bomb(true)).ok().unwrap();
    drop(rx);
    assert!(panics(&mut || drop(receive.take())));
    assert!(tx.is_closed());
    ledger.check();
    // Unread messages of a channel that ends with a receive: that has its own message to deliver.
    let (tx, rx) = mailbox();
    tx.try_send(bomb(false)).ok().unwrap();
    tx.try_send(bomb(true)).ok().unwrap();
    drop(tx);
    let last = rx.into_recv();
    assert!(last.sync_blocking().is_ok());
    ledger.check();
    let small = |armed| Box::new(bomb(armed));
    // Those that were sent asynchronously have nobody to answer for them.
    for closes in [false, true] {
        let (tx, rx) = channel();
        tx.asend(small(true)).ok().unwrap();
        tx.asend(small(true)).ok().unwrap();
        if closes {
            rx.close()
        } else {
            drop(rx)
        }
        ledger.check();
    }
    // Both: one that came back is received, and one was left behind it.
    let (tx, rx) = channel();
    let mut receive = Some(Box::pin(rx.clone().into_recv().sync()));
    assert!(poll(receive.as_mut().unwrap()).is_pending());
    tx.try_send(small(false)).ok().unwrap();
    tx.asend(small(true)).ok().unwrap();
    drop(receive.take());
    let last = rx.clone().into_recv();
    drop((tx, rx));
    assert!(last.sync_blocking().is_ok());
    ledger.check();
    // A host's value that nobody takes, a parasite's output.
    let machine = machine(1);
    machine.block_on(async {
        drop(spawn({
            let bomb = bomb(true);
            async move { bomb }
        }));
        let output = bomb(true);
        spawn_parasite(async move { output });
        let (tx, rx) = channel();
        let held = bomb(true);
        spawn(async move {
            let _held = held;
            rx.recv().await
        });
        yield_now().await;
        assert_eq!(spawn(async { 1 }).join().await.unwrap(), 1);
        drop::<Sender<()>>(tx);
        yield_now().await;
        assert_eq!(spawn(async { 1 }).join().await.unwrap(), 1);
    });
    drop(machine);
    ledger.check();
}

#[test]
fn an_error_says_who_panicked_and_where() {
    watchdog!();
    let machine = Machine::builder().vps(2).genealogy(true).build().unwrap();
    machine.block_on(async {
        let line = line!() + 2;
        let error =
            Thread::builder().name("parser").spawn(async { panic!("no more input") }).await.unwrap_err();
        assert_eq!(error.name(), Some("parser"));
        assert_eq!(error.body(), Some("it::thread::panics::an_error_says_who_panicked_and_where"));
        assert_eq!(error.site().unwrap().line(), line);
        let place = error.location().unwrap().to_owned();
        assert!(place.contains(&format!("panics.rs:{line}:")), "{place}");
        assert_eq!(error.to_string(), format!("the thread 'parser' panicked at {place}: no more input"));

        // Through a call on another OS thread, a fiber, a scope.
        let line = line!() + 1;
        let error = spawn_blocking(|| panic!("out of paper")).await.unwrap_err();
        assert!(error.location().unwrap().contains(&format!("panics.rs:{line}:")), "{error}");
        let line = line!() + 1;
        let error = spawn_fiber(|| panic!("out of stack")).await.unwrap_err();
        assert!(error.location().unwrap().contains(&format!("panics.rs:{line}:")), "{error}");
        let scoped = scope((), async |scope, ()| {
            let line = line!() + 1;
            let thread = scope.spawn(async { panic!("out of scope") });
            (line, thread.join().await.unwrap_err())
        });
        let (line, error) = scoped.await;
        assert!(error.location().unwrap().contains(&format!("panics.rs:{line}:")), "{error}");
    });
}

#[test]
fn an_error_never_names_the_place_of_another_panic() {
    watchdog!();
    machine(1).block_on(async {
        let error = spawn(async {
            let caught = catch_unwind(|| panic!("the first"));
            assert!(caught.is_err());
            std::panic::resume_unwind(Box::new("the second"));
        })
        .await
        .unwrap_err();
        assert_eq!(error.message(), Some("the second"));
        assert_eq!(error.location(), None);
        // One that is passed on is where it was.
        let error = spawn(async {
            let caught = catch_unwind(|| panic!("once"));
            std::panic::resume_unwind(caught.unwrap_err());
        })
        .await
        .unwrap_err();
        assert!(error.location().unwrap().contains("panics.rs:"), "{error}");
    });
}

#[test]
fn a_cancelled_thread_has_its_name() {
    watchdog!();
    machine(1).block_on(async {
        let thread = Thread::builder().name("idler").spawn(async { chanter::never::<()>().await });
        thread.cancel().await.unwrap();
        let error = thread.await.unwrap_err();
        assert!(error.is_cancelled());
        assert_eq!(error.name(), Some("idler"));
        assert_eq!(error.to_string(), "the thread 'idler' was cancelled");
    });
}
