//! Small programs with a space, under every schedule with a bounded number of preemptions.

#![cfg(not(miri))]

use chanter::prelude::*;
use chanter_explore::Explorer;
use chanter_tuples::{Any, TupleSpace};

type Space = TupleSpace<(u32, u32)>;

fn in_every_schedule<F: Future<Output = ()> + 'static>(program: impl Fn() -> F) {
    let report = Explorer::new().exhaustive().preemptions(2).schedules(20_000).check(program);
    assert!(!report.has_failed(), "{report:?}");
}

/// A taker may be called off at any point. The other gets the tuple then, or it stays.
#[test]
fn a_tuple_has_one_owner_in_every_schedule() {
    in_every_schedule(|| async {
        let space = Space::new();
        let (stop, stopped) = mailbox::<()>();
        let called_off = choose((
            space.take((1, Any)).wrap(|(_, value)| value),
            space.take((Any, 2)).wrap(|(_, value)| value),
            stopped.clone().into_recv().wrap(|_| 0),
        ));
        let first = spawn(called_off.sync());
        let second = spawn(space.take((Any, 1)).sync());
        let put = spawn(space.put((1, 1)).sync());
        stop.send(()).await.unwrap();
        put.await.unwrap();
        let first = first.await.unwrap();
        assert!(first < 2);
        if first == 1 {
            assert!(!second.is_determined() && space.is_empty());
            space.put((7, 1)).await;
        }
        assert!(second.await.unwrap().1 == 1 && space.is_empty());
    });
}

/// INV-DEMAND: the thread is demanded, in each order of reader and thread.
#[test]
fn a_delayed_thread_is_demanded_in_every_schedule() {
    in_every_schedule(|| async {
        let space = Space::new();
        let reader = spawn(space.read((1, Any)).sync());
        let other = spawn(space.read((Any, 5)).sync());
        let adder = spawn(space.delay((1, Any), async { (1, 5) }));
        assert_eq!(reader.await.unwrap(), (1, 5));
        assert_eq!(other.await.unwrap(), (1, 5));
        adder.await.unwrap();
        assert_eq!(space.len(), 1);
    });
}

/// Puts of two threads to two takers: each takes what it wants, and nobody waits for ever.
#[test]
fn nobody_waits_for_a_tuple_that_is_there_in_any_schedule() {
    in_every_schedule(|| async {
        let space = Space::new();
        let any = spawn(space.take((Any, Any)).sync());
        let puts = [1, 2].map(|key| spawn(space.put((key, key)).sync()));
        let (key, _) = any.await.unwrap();
        assert_eq!(space.take((3 - key, Any)).await, (3 - key, 3 - key));
        for put in puts {
            put.await.unwrap();
        }
    });
}

/// A program that waits for a tuple that nobody puts is a deadlock, and the report says so.
#[test]
fn a_tuple_that_never_comes_is_a_deadlock() {
    let report = Explorer::new().exhaustive().check(|| async {
        let space = Space::new();
        space.put((1, 1)).await;
        space.take((2, Any)).await;
    });
    assert!(report.unwrap_failure().deadlock().is_some());
}
