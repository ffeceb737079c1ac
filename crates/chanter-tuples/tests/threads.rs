//! Threads that stand for tuples.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use chanter::prelude::*;
use chanter_tuples::{Any, TupleSpace};

type Space = TupleSpace<(&'static str, u32, u32)>;

fn block_on<T: Send>(future: impl Future<Output = T> + Send) -> T {
    Machine::builder().vps(1).build().unwrap().block_on(future)
}

#[test]
fn a_reader_steals_the_thread_that_its_tuple_stands_for_and_no_other() {
    let machine = Machine::builder().vps(1).build().unwrap();
    let ran = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&ran);
    machine.block_on(async move {
        let space = Space::new();
        for n in 0..10 {
            let ran = Arc::clone(&counter);
            let body = async move {
                ran.fetch_add(1, Ordering::SeqCst);
                ("square", n, n * n)
            };
            space.delay(("square", n, Any), body).await;
        }
        yield_now().await;
        assert_eq!(counter.load(Ordering::SeqCst), 0, "nobody has asked");
        assert_eq!(space.read(("square", 7, Any)).try_sync(), None, "this does not wait");
        assert_eq!(space.read(("square", 7, Any)).await, ("square", 7, 49));
        assert_eq!(counter.load(Ordering::SeqCst), 1);
        // It is a tuple now.
        assert_eq!(space.take(("square", 7, Any)).try_sync(), Some(("square", 7, 49)));
        // A formal demands the oldest, and no more than it needs.
        assert_eq!(space.take((Any, Any, Any)).await, ("square", 0, 0));
        assert_eq!(counter.load(Ordering::SeqCst), 2);
    });
    assert_eq!(ran.load(Ordering::SeqCst), 2, "those that nobody demanded never ran");
    let stats = machine.stats();
    assert_eq!(stats.stolen, 2, "{stats:?}");
}

#[test]
fn a_spawned_thread_puts_its_tuple_by_itself() {
    block_on(async {
        let space = Space::new();
        for n in 0..10 {
            space.spawn(("double", n, Any), async move { ("double", n, 2 * n) }).await;
        }
        for _ in 0..20 {
            yield_now().await;
        }
        assert_eq!(space.len(), 10);
        for n in 0..10 {
            assert_eq!(space.take((Any, n, Any)).await, ("double", n, 2 * n));
        }
    });
}

#[test]
fn a_spawned_thread_that_has_not_begun_is_stolen() {
    let machine = Machine::builder().vps(1).build().unwrap();
    machine.block_on(async {
        let space = Space::new();
        space.spawn(("a", 1, Any), async { ("a", 1, 1) }).await;
        assert_eq!(space.take(("a", Any, Any)).await, ("a", 1, 1));
    });
    assert_eq!(machine.stats().stolen, 1);
}

#[test]
fn a_stolen_thread_that_blocks_goes_on_and_the_next_is_demanded() {
    block_on(async {
        let space = Space::new();
        let (tx, rx) = channel();
        space.delay(("a", Any, Any), async move { ("a", 1, rx.recv().await.unwrap()) }).await;
        space.delay(("a", Any, Any), async { ("a", 2, 2) }).await;
        assert_eq!(space.take(("a", Any, Any)).await, ("a", 2, 2));
        tx.send(1).await.unwrap();
        assert_eq!(space.take(("a", Any, Any)).await, ("a", 1, 1));
    });
}

#[test]
fn a_thread_that_comes_later_is_demanded_by_who_waits() {
    block_on(async {
        let space = Space::new();
        let closed = spawn(space.take(("a", 1, Any)));
        let open = spawn(space.read((Any, 2, Any)));
        yield_now().await;
        space.delay(("a", 1, Any), async { ("a", 1, 1) }).await;
        assert_eq!(closed.await.unwrap(), ("a", 1, 1));
        space.delay((Any, Any, 2), async { ("b", 2, 2) }).await;
        assert_eq!(open.await.unwrap(), ("b", 2, 2));
    });
}

#[test]
fn a_choice_demands_only_if_no_branch_is_ready() {
    block_on(async {
        let space = Space::new();
        space.delay(("a", 1, Any), async { panic!("nobody needs it") }).await;
        for _ in 0..100 {
            choose((space.take(("a", 1, Any)).wrap(|_| ()), always(()))).await;
        }
        drop(space);
        let space = Space::new();
        space.delay(("a", 1, Any), async { ("a", 1, 1) }).await;
        let got = choose((space.take(("a", 1, Any)), never())).await;
        assert_eq!(got, ("a", 1, 1));
    });
}

#[test]
fn threads_that_nobody_demands_go_with_the_space() {
    block_on(async {
        let token = Arc::new(());
        let space = Space::new();
        let held = Arc::clone(&token);
        space
            .delay(("a", Any, Any), async move {
                drop(held);
                ("a", 1, 1)
            })
            .await;
        assert_eq!(Arc::strong_count(&token), 2);
        drop(space);
        assert_eq!(Arc::strong_count(&token), 1);
    });
}

#[test]
fn a_thread_may_wait_for_tuples_of_other_threads() {
    block_on(async {
        let space = TupleSpace::<(u64, u64)>::new();
        space.put((0, 0)).await;
        space.put((1, 1)).await;
        for n in 2..90 {
            let inner = space.clone();
            let body = async move {
                let (_, a) = inner.read((n - 1, Any)).await;
                let (_, b) = inner.read((n - 2, Any)).await;
                (n, a + b)
            };
            space.delay((n, Any), body).await;
        }
        assert_eq!(space.read((89, Any)).await, (89, 1_779_979_416_004_714_189));
        assert_eq!(space.len(), 90);
    });
}

#[test]
fn a_thread_that_panics_puts_nothing_and_the_next_is_demanded() {
    block_on(async {
        let space = Space::new();
        space.delay(("a", 1, Any), async { panic!("this one fails, on purpose") }).await;
        space.delay(("a", 1, Any), async { ("a", 1, 1) }).await;
        assert_eq!(space.take(("a", 1, Any)).await, ("a", 1, 1));
        assert!(space.is_empty());
    });
}

#[test]
fn os_threads_demand_as_well() {
    let machine = Machine::builder().vps(1).build().unwrap();
    let space = Space::new();
    let inside = space.clone();
    machine.block_on(async move { inside.delay(("a", 1, Any), async { ("a", 1, 1) }).await });
    let taker = std::thread::spawn({
        let space = space.clone();
        move || space.take(("a", 1, Any)).sync_blocking()
    });
    assert_eq!(taker.join().unwrap(), ("a", 1, 1));
    drop(machine);
}
