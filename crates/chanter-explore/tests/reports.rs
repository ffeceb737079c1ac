//! Content of a deadlock report: each waiter with its place and reason, the holders, and the cycle, whatever main
//! holds besides.

use std::sync::Arc;

use chanter::prelude::*;
use chanter::{
    ThreadBuilder,
    deadlock::{ThreadState, Waiting, Wanted},
    event::from_future,
    sync::{Mutex, RwLock, Semaphore},
};
use chanter_explore::{Explorer, Failure};

/// The deadlock that the exhaustive search finds in `program`.
fn deadlock<P, F>(program: P) -> Failure
where
    P: Fn() -> F,
    F: Future<Output = ()>,
{
    let failure = Explorer::new().exhaustive().check(program).unwrap_failure();
    assert!(failure.is_deadlock(), "{failure}");
    assert!(failure.is_reproduced, "{failure}");
    failure
}

fn cycle(failure: &Failure) -> &[u64] {
    &failure.deadlock().unwrap().cycle
}

/// Two threads that send to each other before they receive; `keeps` says which of
/// the four handles main has a clone of.
async fn crossing(keeps: u32) {
    let (to_a, from_b) = channel::<u32>();
    let (to_b, from_a) = channel::<u32>();
    let keep = |bit: u32| keeps & 1 << bit != 0;
    let senders = (keep(0).then(|| to_a.clone()), keep(1).then(|| to_b.clone()));
    let receivers = (keep(2).then(|| from_a.clone()), keep(3).then(|| from_b.clone()));
    let a = spawn(async move {
        to_b.send(1).await.unwrap();
        from_b.recv().await.unwrap();
    });
    let b = spawn(async move {
        to_a.send(2).await.unwrap();
        from_a.recv().await.unwrap();
    });
    a.join().await.unwrap();
    b.join().await.unwrap();
    drop((senders, receivers));
}

#[test]
fn the_cycle_does_not_depend_on_what_main_holds() {
    for keeps in 0..16 {
        let failure = deadlock(|| crossing(keeps));
        assert_eq!(cycle(&failure), [1, 2], "{keeps:#b}: {failure}");
    }
}

/// Nor on what a thread holds that only waits for the others' ends.
#[test]
fn the_cycle_does_not_depend_on_what_a_supervisor_holds() {
    let failure = deadlock(|| async { spawn(crossing(0b1111)).join().await.unwrap() });
    assert_eq!(cycle(&failure), [2, 3], "{failure}");
}

/// Main's end gives a lock back, which wakes a thread of the cycle.
#[test]
fn the_cycle_does_not_depend_on_a_guard_of_main() {
    let failure = deadlock(|| async {
        let lock = Arc::new(Mutex::new(0));
        let guard = lock.clone().lock_owned().await;
        let (to_a, from_b) = channel::<u32>();
        let (to_b, from_a) = channel::<u32>();
        let a = spawn(async move {
            // Whichever comes first: neither ever does.
            choose((to_b.send(1).wrap(drop), lock.lock_owned().wrap(drop))).await;
            from_b.recv().await.unwrap();
        });
        let b = spawn(async move {
            to_a.send(2).await.unwrap();
            from_a.recv().await.unwrap();
        });
        a.join().await.unwrap();
        b.join().await.unwrap();
        drop(guard);
    });
    let ThreadState::Blocked(waits) = &failure.deadlock().unwrap().thread(1).unwrap().state else { panic!() };
    let [Waiting::Send { channel: 1 }, Waiting::Lock { holders, .. }] = &waits[..] else {
        panic!("{failure}")
    };
    assert_eq!(holders, &[0], "{failure}");
    assert_eq!(cycle(&failure), [1, 2], "{failure}");
}

/// Nor is it hidden by a guard that main should have given back.
#[test]
fn a_guard_of_main_may_be_in_the_cycle() {
    let failure = deadlock(|| async {
        let lock = Arc::new(Mutex::new(0));
        let guard = lock.clone().lock_owned().await;
        let waits = spawn(async move { *lock.lock().await += 1 });
        waits.join().await.unwrap();
        drop(guard);
    });
    assert_eq!(cycle(&failure), [0, 1], "{failure}");
    assert!(failure.to_string().contains("waits to lock Mutex<i32> #1 (held by thread 0), at "), "{failure}");
}

/// The threads of a scope end before main does: what they hold is theirs.
#[test]
fn the_cycle_is_found_in_a_scope_of_main() {
    let failure = deadlock(|| async {
        let (to_a, from_b) = channel::<u32>();
        let (to_b, from_a) = channel::<u32>();
        let kept = (to_a.clone(), from_a.clone());
        scope((), async |scope, ()| {
            scope.spawn(async move {
                to_b.send(1).await.unwrap();
                from_b.recv().await.unwrap();
            });
            scope.spawn(async move {
                to_a.send(2).await.unwrap();
                from_a.recv().await.unwrap();
            });
        })
        .await;
        drop(kept);
    });
    assert_eq!(cycle(&failure), [1, 2], "{failure}");
}

/// Threads that belong to another one end before it, whatever it waits for.
#[test]
fn members_of_gatherings_and_fibers_are_asked_too() {
    let failure = deadlock(|| async {
        let lock = Arc::new(Mutex::new(()));
        let (tx, rx) = channel::<u32>();
        let (hold, held) = (lock.clone(), lock.clone());
        let fiber = spawn_fiber(move || {
            let _guard = hold.lock_owned().sync_blocking();
            rx.recv().sync_blocking().unwrap();
        });
        yield_now().await;
        let slow = from_future(async move {
            drop(held.lock_owned().await);
            tx.send(1).await.unwrap();
        });
        gather((slow, lock.lock_owned().wrap(drop))).await;
        fiber.join().await.unwrap();
    });
    let said = failure.to_string();
    assert!(said.contains("(held by thread 1), at "), "{said}");
    let cycle = cycle(&failure);
    assert_eq!(cycle.len(), 2, "{said}");
    assert!(cycle.contains(&1), "{said}");
}

/// Main is in the cycle if there is none without it.
#[test]
fn main_may_be_in_the_cycle() {
    let failure = deadlock(|| async {
        let (jobs, job) = channel::<u32>();
        let (results, result) = channel::<u32>();
        let worker = spawn(async move {
            while let Ok(job) = job.recv().await {
                results.send(job * 2).await.unwrap();
            }
        });
        // The second job is sent before the first result is taken.
        for n in 0..2 {
            jobs.send(n).await.unwrap();
        }
        for n in 0..2 {
            assert_eq!(result.recv().await, Ok(n * 2));
        }
        drop(jobs);
        worker.join().await.unwrap();
    });
    assert_eq!(cycle(&failure), [0, 1], "{failure}");
}

#[test]
fn who_waits_for_itself_is_a_cycle() {
    let failure = deadlock(|| async {
        let (tx, rx) = channel::<u32>();
        rx.recv().await.unwrap();
        drop(tx);
    });
    assert_eq!(cycle(&failure), [0], "{failure}");
    let failure = deadlock(|| async {
        let lock = Mutex::new(0);
        let first = lock.lock().await;
        drop(lock.lock().await);
        drop(first);
    });
    assert_eq!(cycle(&failure), [0], "{failure}");
    assert!(failure.to_string().contains("waits to lock Mutex<i32> #1 (held by thread 0)"), "{failure}");
}

/// Two philosophers; main has a third lock, which nobody wants. Locks are numbered in
/// the order in which they were locked.
#[test]
fn locks_are_told_with_their_holders_and_places() {
    let mut lines = [0; 2];
    let failure = deadlock(|| async {
        let (left, right) = (Arc::new(Mutex::new(0_u8)), Arc::new(RwLock::new("text")));
        let other = Mutex::new(());
        let _guard = other.lock().await;
        let (locks, more) = ((left.clone(), right.clone()), (left, right));
        let name = |name: &str| ThreadBuilder::new().name(name);
        let one = name("one").spawn(async move {
            let (left, right) = locks;
            let _left = left.lock().await;
            drop(right.read().await);
        });
        let two = name("two").spawn(async move {
            let (left, right) = more;
            let _right = right.write().await;
            drop(left.lock().await);
        });
        one.join().await.unwrap();
        two.join().await.unwrap();
    });
    let source = include_str!("reports.rs");
    for (line, text) in source.lines().enumerate() {
        if text.trim() == "drop(right.read().await);" {
            lines[0] = line as u32 + 1;
        } else if text.trim() == "drop(left.lock().await);" {
            lines[1] = line as u32 + 1;
        }
    }
    let report = failure.deadlock().unwrap();
    let wait = |id| {
        let thread = report.thread(id).unwrap();
        let ThreadState::Blocked(waits) = &thread.state else { panic!("{failure}") };
        let place = thread.place.unwrap();
        assert!(place.file().ends_with("tests/reports.rs"), "{failure}");
        (waits[..].to_vec(), place.line())
    };
    let lock = |lock, wants, of, holder| Waiting::Lock { lock, wants, of, holders: vec![holder] };
    assert_eq!(wait(1), (vec![lock(3, Wanted::Read, "&str", 2)], lines[0]));
    assert_eq!(wait(2), (vec![lock(2, Wanted::Mutex, "u8", 1)], lines[1]));
    assert_eq!(report.cycle, [1, 2], "{failure}");
    let said = failure.to_string();
    assert!(said.contains("waits to read RwLock<&str> #3 (held by thread 2), at "), "{said}");
    assert!(said.contains("waits to lock Mutex<u8> #2 (held by thread 1), at "), "{said}");
    assert!(said.contains("thread 1 'one'") && said.contains("thread 2 'two'"), "{said}");
}

#[test]
fn all_who_hold_permits_are_told() {
    let failure = deadlock(|| async {
        let permits = Arc::new(Semaphore::new(3));
        let (none, never) = channel::<()>();
        let holders = [(); 2].map(|()| {
            let (permits, never) = (permits.clone(), never.clone());
            spawn(async move {
                let permit = permits.acquire_owned(1).await.unwrap();
                let _ = never.recv().await;
                drop(permit);
            })
        });
        // Both have theirs.
        while permits.available() > 1 {
            yield_now().await;
        }
        let wants = spawn(async move { permits.acquire_owned(2).await.map(drop) });
        let _ = wants.join().await;
        drop((none, holders));
    });
    let said = failure.to_string();
    assert!(said.contains("waits to take 2 permits of Semaphore #1 (held by threads 1, 2), at "), "{said}");
}

/// Of a choice, too, and of a thread that is awaited itself.
#[test]
fn places_are_those_of_awaits() {
    let failure = deadlock(|| async {
        let (tx, rx) = channel::<u32>();
        let thread = spawn(async move {
            choose((rx.recv().wrap(drop), never())).await; // here
        });
        thread.await.unwrap(); // there
        drop(tx);
    });
    let source = include_str!("reports.rs");
    let line = |mark: &str| {
        let ends = |text: &str| text.trim().starts_with(|c: char| c.is_lowercase()) && text.ends_with(mark);
        source.lines().position(ends).unwrap() as u32 + 1
    };
    let place = |id| failure.deadlock().unwrap().thread(id).unwrap().place.unwrap().line();
    assert_eq!(place(0), line("; // there"), "{failure}");
    if cfg!(debug_assertions) {
        assert_eq!(place(1), line("; // here"), "{failure}");
    }
}

/// Also of streams, and of futures that are no events.
#[test]
fn other_waits_are_told_too() {
    let failure = Explorer::new()
        .exhaustive()
        .check(|| async {
            let (tx, rx) = mailbox::<u32>();
            let mut rx = std::pin::pin!(rx);
            let told = futures::channel::oneshot::channel::<()>();
            spawn(async move {
                tx.try_send(1).unwrap();
                drop(told.0);
            });
            std::future::poll_fn(|cx| futures_core::Stream::poll_next(rx.as_mut(), cx)).await;
            told.1.await.unwrap_err();
            std::future::pending::<()>().await;
        })
        .unwrap_failure();
    let of_main = |step: &&chanter_explore::Step| step.thread == Some(0);
    let said: Vec<String> = failure.trace.iter().filter(of_main).map(|step| step.what.to_string()).collect();
    assert_eq!(
        said[2..],
        [
            "looks whether it can receive from channel #1",
            "waits on a stream, or on a future that is no event",
            "goes on",
            "looks whether it can receive from channel #1",
            "waits on a stream, or on a future that is no event",
        ],
        "{failure}"
    );
}

/// A stranger can read what happened.
#[test]
fn a_failure_is_told_step_by_step() {
    let failure = Explorer::new()
        .exhaustive()
        .check(|| async {
            let (tx, rx) = mailbox::<u32>();
            let writer = ThreadBuilder::new().name("writer").spawn(async move {
                after(std::time::Duration::from_secs(5)).await;
                tx.send(7).await.unwrap();
            });
            let lock = Mutex::new(0);
            *lock.lock().await = rx.recv().await.unwrap();
            yield_now().await;
            writer.join().await.unwrap();
            assert_ne!(*lock.lock().await, 7, "at the end");
        })
        .unwrap_failure();
    let said: Vec<String> = failure.trace.iter().map(ToString::to_string).collect();
    let here = |text: &str| -> String {
        let at = text.find(", at #").unwrap();
        assert_eq!(text.len(), at + 6, "{text}");
        text[..at].to_owned()
    };
    let expected = [
        "thread 0 (main) begins",
        "thread 0 (main) spawns thread 1 'writer', at #",
        "thread 0 (main) waits to receive from channel #1, at #",
        "thread 1 'writer' begins",
        "thread 1 'writer' waits to see a time come, at #",
        "the clock jumps by 5s to the next timer, which fires",
        "thread 1 'writer' is woken",
        "thread 1 'writer' goes on: it waited to see a time come",
        "thread 1 'writer' sends on channel #1, at #",
        "thread 1 'writer' wakes thread 0",
        "thread 1 'writer' ends",
        "thread 0 (main) goes on: it waited to receive from channel #1",
        "thread 0 (main) locks Mutex<u32> #1, at #",
        "thread 0 (main) yields",
        "thread 0 (main) joins thread 1, at #",
        "thread 0 (main) locks Mutex<u32> #1, at #",
        "thread 0 (main) ends",
    ];
    assert_eq!(said.len(), expected.len(), "{failure}");
    for (said, expected) in said.iter().zip(expected) {
        if expected.ends_with('#') {
            let start = here(expected);
            assert!(said.starts_with(&start), "{said}");
            // It would cost a timer's poll an instruction.
            let is_known = cfg!(debug_assertions) || !expected.contains("see a time come");
            assert_eq!(said.contains("tests/reports.rs:"), is_known, "{said}");
        } else {
            assert_eq!(said, expected);
        }
    }
    // And all of it is printed.
    let text = failure.to_string();
    assert!(said.iter().all(|line| text.contains(line)), "{text}");
}
