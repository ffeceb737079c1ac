//! Calls that block: `spawn_blocking` and `block_in_place`.

use crate::common;

use std::future::Future;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, mpsc};
use std::thread;
use std::time::Duration;

use chanter::prelude::*;
use chanter::{block_in_place, fiber, thread::scope_blocking};
use common::{alone, machine, watchdog};

#[test]
fn a_call_runs_elsewhere_and_its_value_comes_back() {
    watchdog!();
    alone(async {
        let here = thread::current().id();
        let there = spawn_blocking(move || thread::current().id()).await.unwrap();
        assert_ne!(here, there);
    });
}

#[test]
fn a_call_that_blocks_stalls_nobody() {
    watchdog!();
    alone(async {
        let (go, waits) = mpsc::channel();
        let blocked = spawn_blocking(move || waits.recv().unwrap());
        // One virtual processor; the partner runs, or this would never end.
        spawn(async move { go.send(7).unwrap() }).await.unwrap();
        assert_eq!(blocked.await.unwrap(), 7);
    });
}

#[test]
fn a_join_of_a_call_is_an_event() {
    watchdog!();
    alone(async {
        let (go, waits) = mpsc::channel::<()>();
        let call = spawn_blocking(move || waits.recv().is_ok());
        let first = choose((
            call.join().wrap(|_| "the call"),
            after(Duration::from_millis(1)).wrap(|()| "the time-out"),
        ));
        assert_eq!(first.await, "the time-out");
        go.send(()).unwrap();
        assert!(call.await.unwrap());
    });
}

#[test]
fn a_panic_of_a_call_is_a_value() {
    watchdog!();
    alone(async {
        let error = spawn_blocking(|| panic!("out of paper")).await.unwrap_err();
        assert_eq!(error.message(), Some("out of paper"));
        // The OS thread is none the worse for it.
        assert_eq!(spawn_blocking(|| 1).await.unwrap(), 1);
    });
}

#[test]
fn there_are_no_more_os_threads_than_were_asked_for_and_calls_wait_in_order() {
    watchdog!();
    let machine = Machine::builder().vps(1).blocking_threads(2).build().unwrap();
    let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let begun = Arc::new(std::sync::Mutex::new(Vec::new()));
    machine.block_on(async {
        let calls: Vec<_> = (0..50)
            .map(|i| {
                let (now, most, begun) = (now.clone(), most.clone(), begun.clone());
                spawn_blocking(move || {
                    begun.lock().unwrap().push(i);
                    most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                    thread::yield_now();
                    now.fetch_sub(1, Ordering::SeqCst);
                    i
                })
            })
            .collect();
        for (i, call) in calls.into_iter().enumerate() {
            assert_eq!(call.await.unwrap(), i);
        }
    });
    assert!(most.load(Ordering::SeqCst) <= 2);
    // Two may pass each other on their way to the list, no more.
    let begun = begun.lock().unwrap();
    assert!(begun.iter().enumerate().all(|(at, i)| at.abs_diff(*i) <= 1), "{begun:?}");
}

#[test]
fn as_many_run_at_once_as_may() {
    watchdog!();
    let machine = Machine::builder().vps(1).blocking_threads(8).build().unwrap();
    machine.block_on(async {
        let all = Arc::new(Barrier::new(8));
        let calls: Vec<_> = (0..8)
            .map(|_| {
                let all = all.clone();
                spawn_blocking(move || all.wait().is_leader())
            })
            .collect();
        let mut leaders = 0;
        for call in calls {
            leaders += usize::from(call.await.unwrap());
        }
        assert_eq!(leaders, 1);
    });
}

#[test]
fn a_cancelled_call_that_has_not_begun_never_does() {
    watchdog!();
    let machine = Machine::builder().vps(1).blocking_threads(1).build().unwrap();
    machine.block_on(async {
        let (go, waits) = mpsc::channel::<()>();
        let first = spawn_blocking(move || waits.recv().is_ok());
        let witness = Arc::new(());
        let theirs = witness.clone();
        let second: Thread<()> = spawn_blocking(move || panic!("ran with {theirs:?}"));
        second.cancel().await.unwrap();
        assert!(second.join().await.unwrap_err().is_cancelled());
        // The values that it owned are gone already, though the pool is still busy.
        assert_eq!(Arc::strong_count(&witness), 1);
        go.send(()).unwrap();
        assert!(first.await.unwrap());
    });
}

#[test]
fn the_end_of_a_machine_drops_calls_that_have_not_begun_and_waits_for_one_that_has() {
    watchdog!();
    let machine = Machine::builder().vps(1).blocking_threads(1).build().unwrap();
    let (begin, begun) = mpsc::channel();
    let (go, waits) = mpsc::channel::<()>();
    let ended = Arc::new(AtomicUsize::new(0));
    let counts = ended.clone();
    let running = machine.spawn_blocking(move || {
        begin.send(()).unwrap();
        waits.recv().unwrap();
        counts.fetch_add(1, Ordering::SeqCst);
    });
    begun.recv().unwrap();
    let (dropped, is_dropped) = mpsc::channel::<()>();
    let queued: Thread<()> = machine.spawn_blocking(move || unreachable!("{dropped:?}"));
    let closer = thread::spawn(move || drop(machine));
    // It has been dropped, while the other is still under way.
    assert_eq!(is_dropped.recv(), Err(mpsc::RecvError));
    assert_eq!(ended.load(Ordering::SeqCst), 0);
    go.send(()).unwrap();
    closer.join().unwrap();
    assert_eq!(ended.load(Ordering::SeqCst), 1);
    assert!(queued.join().sync_blocking().unwrap_err().is_cancelled());
    drop(running);
}

#[test]
fn a_call_is_inside_of_its_machine() {
    watchdog!();
    let machine = machine(2);
    let sum = machine.spawn_blocking(|| {
        let (tx, rx) = channel();
        spawn(async move { tx.send(20).await.unwrap() });
        let on_machine = spawn(async { 1 }).join().sync_blocking().unwrap();
        rx.recv().sync_blocking().unwrap() + on_machine + Machine::current().unwrap().vps()
    });
    assert_eq!(sum.join().sync_blocking().unwrap(), 23);
}

#[test]
fn block_in_place_lets_the_others_go_on() {
    watchdog!();
    Machine::builder().vps(1).build().unwrap().block_on(async {
        // The main thread is bound to its OS thread; this one is not.
        spawn(async {
            let (tx, rx) = mpsc::channel();
            spawn(async move { tx.send("from beside").unwrap() });
            // One virtual processor: without another OS thread nobody would ever send. (Where nothing can be handed over, do without.)
            if cfg!(target_os = "linux") {
                // Until the system has said whether it can be done, it is not.
                let mut turns = 0;
                while Machine::current().unwrap().stats().hand_offs == 0 {
                    block_in_place(|| thread::sleep(Duration::from_micros(100)));
                    yield_now().await;
                    turns += 1;
                    assert!(turns < 1_000_000, "never handed over");
                }
                assert_eq!(block_in_place(|| rx.recv().unwrap()), "from beside");
            }
        })
        .await
        .unwrap();
    });
}

#[test]
fn block_in_place_borrows_and_passes_panics_on() {
    watchdog!();
    let mut text = String::from("a");
    assert_eq!(block_in_place(|| text.push('b')), ());
    assert_eq!(text, "ab");
    alone(async {
        let failed = spawn(async {
            block_in_place(|| panic!("in place"));
        });
        assert_eq!(failed.await.unwrap_err().message(), Some("in place"));
    });
}

/// The end waits for a call, and has a limit: so it says that the call is still under way, and does not wait for ever.
#[test]
fn the_end_of_a_machine_waits_for_a_call_as_long_as_it_may() {
    watchdog!();
    let machine = machine(1);
    let ((begin, begun), (go, waits)) = (mpsc::channel(), mpsc::channel::<()>());
    let (end, ended) = mpsc::channel();
    let call = machine.spawn_blocking(move || {
        begin.send(()).unwrap();
        waits.recv().unwrap();
        end.send(()).unwrap();
    });
    begun.recv().unwrap();
    assert!(!machine.shutdown_timeout(Duration::from_millis(20)), "a call is under way");
    go.send(()).unwrap();
    ended.recv().unwrap();
    drop(call);
}

/// Work that a call has not done before the end of its machine returns is never done afterwards.
#[test]
fn a_machine_that_has_ended_has_no_call_under_way() {
    watchdog!();
    for _ in 0..20 {
        let machine = machine(1);
        let (begin, begun) = mpsc::channel();
        let has_ended = Arc::new(AtomicUsize::new(0));
        let flag = has_ended.clone();
        let call = machine.spawn_blocking(move || {
            begin.send(()).unwrap();
            // Longer than the end of a machine takes that does not wait.
            let until = std::time::Instant::now() + Duration::from_millis(20);
            while std::time::Instant::now() < until {
                assert_eq!(flag.load(Ordering::SeqCst), 0, "the machine has ended");
                thread::sleep(Duration::from_millis(1));
            }
            flag.store(1, Ordering::SeqCst);
        });
        begun.recv().unwrap();
        drop(machine);
        assert_eq!(has_ended.swap(2, Ordering::SeqCst), 1, "it has not waited");
        drop(call);
    }
}

/// In each round one more OS thread of the pool is idle, and one more call waits for all others.
#[test]
fn an_idle_os_thread_is_counted_on_for_one_call() {
    watchdog!();
    for _ in 0..10 {
        let machine = Machine::builder().vps(1).blocking_threads(16).build().unwrap();
        for calls in 1..=8 {
            let all = Arc::new(Barrier::new(calls));
            let calls: Vec<_> = (0..calls)
                .map(|_| {
                    let all = all.clone();
                    machine.spawn_blocking(move || all.wait().is_leader())
                })
                .collect();
            for call in calls {
                call.join().sync_blocking().unwrap();
            }
        }
    }
}

/// The handle is the last one, and goes in a call of the machine's own: the machine ends later.
#[test]
fn the_last_handle_of_a_machine_may_be_dropped_in_one_of_its_calls() {
    watchdog!();
    for in_another in [false, true] {
        let machine = Arc::new(machine(2));
        let theirs = machine.clone();
        let (go, waits) = mpsc::channel::<()>();
        let (end, ended) = mpsc::channel();
        let (tx, rx) = mailbox::<()>();
        // It lives until the machine has ended.
        machine.spawn(async move {
            let _tx = tx;
            never::<()>().await;
        });
        let call = machine.spawn_blocking(move || {
            waits.recv().unwrap();
            if in_another {
                // On a virtual processor of another one.
                alone(async { drop(theirs) });
            } else {
                drop(theirs);
            }
            end.send(()).unwrap();
        });
        drop(machine);
        go.send(()).unwrap();
        ended.recv().unwrap();
        assert!(rx.recv().sync_blocking().is_err(), "it has ended");
        drop(call);
    }
}

/// As it may be in a thread that a call waits for.
#[test]
fn a_machine_that_is_shut_down_in_one_of_its_calls_waits_for_nothing() {
    watchdog!();
    let machine = machine(1);
    let (give, given) = mpsc::channel::<Machine>();
    let (end, ended) = mpsc::channel();
    drop(machine.spawn_blocking(move || {
        let machine = given.recv().unwrap();
        end.send(machine.shutdown_timeout(Duration::from_secs(3600))).unwrap();
    }));
    give.send(machine).unwrap();
    assert!(ended.recv().unwrap());
}

/// A call that is under way when the machine ends: whatever it asks the machine for, it gets an answer.
#[test]
fn a_call_that_uses_a_machine_that_ends_gets_an_answer() {
    use std::io::{Read, Write};
    watchdog!();
    fn asks_for_everything(old: Receiver<u32>, moved: impl Future<Output = ()> + Send) {
        assert!(old.recv().sync_blocking().is_err(), "who could send has ended");
        let cancelled = |error: JoinError| assert!(error.is_cancelled(), "{error}");
        cancelled(spawn(async {}).join().sync_blocking().unwrap_err());
        cancelled(Thread::builder().on(0).spawn(async {}).join().sync_blocking().unwrap_err());
        cancelled(Thread::builder().name("late").spawn(async {}).join().sync_blocking().unwrap_err());
        cancelled(delay(async {}).join().sync_blocking().unwrap_err());
        cancelled(spawn_blocking(|| ()).join().sync_blocking().unwrap_err());
        if cfg!(not(miri)) {
            cancelled(spawn_fiber(|| ()).join().sync_blocking().unwrap_err());
            cancelled(fiber::Builder::new().on(0).spawn(|| ()).join().sync_blocking().unwrap_err());
        }
        // Delayed, and never demanded.
        drop(delay(async {}));
        let waits = spawn(never::<()>());
        drop(waits.cancel().sync_blocking());
        drop(waits.suspend().sync_blocking());
        cancelled(waits.join().sync_blocking().unwrap_err());
        // A partner that is spawned, and never runs.
        let (tx, rx) = channel::<u32>();
        drop(spawn(tx.clone().into_send(1)));
        drop(tx);
        assert!(rx.recv().sync_blocking().is_err());
        let (tx, rx) = channel::<u32>();
        spawn_parasite(async move { while rx.recv().await.is_ok() {} });
        let _ = tx.send(1).sync_blocking();
        assert!(
            block_on_here(async { scope((), async |s, ()| s.spawn(async { 1 }).join().await).await })
                .is_err()
        );
        assert!(scope_blocking(|s| s.spawn(async { 1 }).join().sync_blocking()).is_err());
        assert_eq!(fork_join(|| 1, || 2), (1, 2));
        assert_eq!(block_in_place(|| 3), 3);
        chanter::fiber::yield_now();
        after(Duration::from_millis(1)).sync_blocking();
        // A timer that was set on a virtual processor.
        block_on_here(moved);
        let here = Machine::current().unwrap();
        let _ = (here.stats(), here.threads(), here.vps());
        let vp = here.vp(0).unwrap();
        vp.set_policy(chanter::policy::Fifo::new()).wait().sync_blocking();
        let _ = (vp.bind(0), vp.stats());
        vp.unbind();
        // I/O of a machine is its virtual processors'.
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let peer = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut byte = [0];
            stream.read_exact(&mut byte).unwrap();
            thread::sleep(Duration::from_millis(5));
            stream.write_all(&[byte[0] + 1]).unwrap();
        });
        let stream = block_on_here(chanter::io::TcpStream::connect(address)).unwrap();
        block_on_here(async {
            assert_eq!(stream.try_write(&[6]).unwrap(), 1);
            let mut byte = [0];
            while let Err(error) = stream.try_read(&mut byte) {
                assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock);
                stream.readable().await.unwrap();
            }
            assert_eq!(byte, [7]);
        });
        peer.join().unwrap();
        let child = chanter::process::Command::new("true").spawn().unwrap();
        assert!(child.exit().sync_blocking().unwrap().success());
    }
    /// Runs a future on this OS thread.
    fn block_on_here<F: Future>(future: F) -> F::Output {
        futures::executor::block_on(future)
    }
    for vps in [1, 2] {
        let machine = machine(vps);
        let (tx, old) = channel();
        // It is blocked when the machine ends.
        machine.spawn(async move {
            let _tx = tx;
            never::<()>().await;
        });
        // Set on a virtual processor, and awaited elsewhere.
        let mut moved = Box::pin(after(Duration::from_millis(100)).sync());
        machine.block_on(async {
            let polled = std::future::poll_fn(|cx| std::task::Poll::Ready(moved.as_mut().poll(cx)));
            assert!(polled.await.is_pending());
        });
        let ((begin, begun), (close, closes)) = (mpsc::channel(), mpsc::channel::<()>());
        let (end, ended) = mpsc::channel();
        drop(machine.spawn_blocking(move || {
            begin.send(()).unwrap();
            closes.recv().unwrap();
            asks_for_everything(old, moved);
            end.send(()).unwrap();
        }));
        begun.recv().unwrap();
        let closer = thread::spawn(move || {
            close.send(()).unwrap();
            drop(machine);
        });
        closer.join().unwrap();
        ended.recv().expect("it has got all its answers");
    }
}
