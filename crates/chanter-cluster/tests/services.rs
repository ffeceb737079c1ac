//! Requests between processes, by the public interface alone.

use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Poll;

use chanter::prelude::*;
use chanter::sync::CVar;
use chanter_cluster::engine::{Local, ProcessId, Why};
use chanter_cluster::{Begun, CallError, Plain, Process, ServeError, Service, local};

const ADD: Service<(u32, u32), u32> = Service::new("test::add");
const ECHO: Service<Plain<u8>, Plain<u8>> = Service::new("test::echo");
const WAIT: Service<u32, u32> = Service::new("test::wait");
const NOTE: Service<u32, ()> = Service::new("test::note");

/// Runs `body` in a cluster of two processes, once on one virtual processor and once on two.
fn with_two<F, R>(body: fn(Process, Process) -> F) -> [R; 2]
where
    F: Future<Output = R> + Send + 'static,
    R: Send + 'static,
{
    [1, 2].map(|vps| {
        let machine = Machine::builder().vps(vps).build().unwrap();
        machine.block_on(async move {
            let [first, second] = <[Process; 2]>::try_from(local(2)).unwrap();
            body(first, second).await
        })
    })
}

/// Set when it is dropped.
struct Told(Arc<CVarAndCount>);

#[derive(Default)]
struct CVarAndCount {
    dropped: AtomicU32,
    is_dropped: CVar,
}

impl Drop for Told {
    fn drop(&mut self) {
        self.0.dropped.fetch_add(1, Ordering::SeqCst);
        self.0.is_dropped.set();
    }
}

#[test]
fn a_call_is_answered_here_and_there() {
    with_two(|first, second| async move {
        let _serving = second.serve(ADD, |_, (a, b)| async move { a + b }).unwrap();
        for here in [&first, &second] {
            for n in 0..100 {
                assert_eq!(here.at(1).call(ADD.ask(&(n, 2))).await, Ok(n + 2));
            }
        }
    });
}

#[test]
fn the_service_knows_who_asks() {
    with_two(|first, second| async move {
        let who: Service<(), (u32, u32)> = Service::new("test::who");
        let _serving =
            second.serve(who, |caller, ()| async move { (caller.process(), caller.here().number()) });
        assert_eq!(first.at(1).call(who.ask(&())).await, Ok((0, 1)));
        assert_eq!(second.at(1).call(who.ask(&())).await, Ok((1, 1)));
    });
}

#[test]
fn what_is_not_served_is_refused_by_name() {
    with_two(|first, second| async move {
        let unserved = || first.at(1).call(ADD.ask(&(1, 2)));
        let error = CallError::NoService { process: ProcessId(1), name: "test::add" };
        assert_eq!(unserved().await, Err(error.clone()));
        let serving = second.serve(ADD, |_, (a, b)| async move { a + b }).unwrap();
        assert_eq!(second.serve(ADD, |_, _| async { 0 }).unwrap_err(), ServeError::Taken("test::add"));
        assert_eq!(unserved().await, Ok(3));
        drop(serving);
        assert_eq!(unserved().await, Err(error));
        assert_eq!(first.at(7).call(ADD.ask(&(1, 2))).await, Err(CallError::NoSuchProcess(ProcessId(7))));
    });
}

#[test]
fn whom_a_service_does_not_know_it_refuses() {
    with_two(|first, second| async move {
        let ran = Arc::new(AtomicBool::new(false));
        let run = Arc::clone(&ran);
        let serving = second.serve_if(
            ADD,
            |caller| caller.process() == 1,
            move |_, (a, b)| {
                run.store(true, Ordering::SeqCst);
                async move { a + b }
            },
        );
        let refused = CallError::Refused { process: ProcessId(1), name: "test::add" };
        assert_eq!(first.at(1).call(ADD.ask(&(1, 2))).await, Err(refused));
        assert!(!ran.load(Ordering::SeqCst));
        assert_eq!(second.at(1).call(ADD.ask(&(1, 2))).await, Ok(3));
        drop(serving);
    });
}

#[test]
fn who_asks_in_another_language_is_told() {
    with_two(|first, second| async move {
        let other: Service<String, u32> = Service::new("test::add");
        let answer: Service<(u32, u32), String> = Service::new("test::add");
        let _serving = second.serve(ADD, |_, (a, b)| async move { a + b }).unwrap();
        let bad = first.at(1).call(other.ask(&"xyz".to_owned())).await;
        assert!(matches!(bad, Err(CallError::BadRequest(_))), "{bad:?}");
        let bad = first.at(1).call(answer.ask(&(100, 2))).await;
        assert!(matches!(bad, Err(CallError::BadAnswer(_))), "{bad:?}");
    });
}

#[test]
fn a_panic_is_the_callers() {
    with_two(|first, second| async move {
        let _serving = second.serve(WAIT, |_, n| async move {
            if n > 0 {
                yield_now().await;
            }
            panic!("at {n}")
        });
        for n in [0, 1] {
            let ended = first.at(1).call(WAIT.ask(&n)).await;
            assert_eq!(ended, Err(CallError::Panicked(format!("at {n}"))));
        }
        // The server has survived it.
        let _adding = second.serve(ADD, |_, (a, b)| async move { a + b }).unwrap();
        assert_eq!(first.at(1).call(ADD.ask(&(1, 2))).await, Ok(3));
    });
}

/// Requests that block let the others go on, all of them.
#[test]
fn a_request_that_blocks_holds_up_nobody() {
    with_two(|first, second| async move {
        let gate = CVar::new();
        let waits = gate.clone();
        let _waiting = second.serve(WAIT, move |_, n| {
            let gate = waits.clone();
            async move {
                gate.wait().await;
                n
            }
        });
        let _adding = second.serve(ADD, |_, (a, b)| async move { a + b }).unwrap();
        let waiting: Vec<_> = (0..50)
            .map(|n| {
                (
                    n,
                    spawn({
                        let at = first.at(1);
                        async move { at.call(WAIT.ask(&n)).await }
                    }),
                )
            })
            .collect();
        for n in 0..200 {
            assert_eq!(first.at(1).call(ADD.ask(&(n, 1))).await, Ok(n + 1));
        }
        assert!(waiting.iter().all(|(_, call)| !call.is_determined()));
        gate.set();
        for (n, call) in waiting {
            assert_eq!(call.await.unwrap(), Ok(n));
        }
    });
}

/// Whether they end at once, block, or use up their turn: they begin in the order in which they were posted.
#[test]
fn requests_begin_in_the_order_in_which_they_were_made() {
    with_two(|first, second| async move {
        let begun = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&begun);
        let _serving = second.serve(NOTE, move |_, n| {
            let seen = Arc::clone(&seen);
            async move {
                seen.lock().unwrap().push(n);
                if n % 3 == 0 {
                    yield_now().await;
                }
                if n % 7 == 0 {
                    // More operations than a turn has.
                    let (tx, rx) = mailbox();
                    for _ in 0..300 {
                        tx.send(()).await.unwrap();
                        rx.recv().await.unwrap();
                    }
                }
            }
        });
        for n in 0..900 {
            first.at(1).post(NOTE.ask(&n)).unwrap();
        }
        // It begins after them, and calls are in the same order.
        first.at(1).call(NOTE.ask(&900)).await.unwrap();
        assert_eq!(*begun.lock().unwrap(), (0..=900).collect::<Vec<u32>>());
    });
}

#[test]
fn a_call_that_loses_is_dropped_where_it_waits() {
    with_two(|first, second| async move {
        let told = Arc::new(CVarAndCount::default());
        let begun = CVar::new();
        let (tells, begins) = (Arc::clone(&told), begun.clone());
        let _serving = second.serve(WAIT, move |_, _| {
            let told = Told(Arc::clone(&tells));
            begins.set();
            async move {
                let _told = told;
                never::<u32>().await
            }
        });
        let call = first.at(1).call(WAIT.ask(&1)).wrap(Some);
        assert_eq!(choose((call, begun.wait().wrap(|()| None))).await, None);
        told.is_dropped.wait().await;
        assert_eq!(told.dropped.load(Ordering::SeqCst), 1);
        // The bound counts it no more, once the server has said so.
        for _ in 0..3000 {
            let call = first.at(1).call(WAIT.ask(&1)).wrap(Some);
            match choose_biased((call, always(None))).await {
                None => {}
                Some(Err(CallError::Full(ProcessId(1)))) => yield_now().await,
                other => panic!("{other:?}"),
            }
        }
    });
}

#[test]
fn a_call_that_is_never_synchronized_asks_nothing() {
    with_two(|first, second| async move {
        let count = Arc::new(AtomicU32::new(0));
        let counts = Arc::clone(&count);
        let _serving = second.serve(NOTE, move |_, _| {
            counts.fetch_add(1, Ordering::SeqCst);
            async {}
        });
        drop(first.at(1).call(NOTE.ask(&1)));
        first.at(1).call(NOTE.ask(&2)).await.unwrap();
        assert_eq!(count.load(Ordering::SeqCst), 1);
    });
}

#[test]
fn what_is_under_way_is_bounded() {
    with_two(|first, second| async move {
        let gate = CVar::new();
        let waits = gate.clone();
        let _waiting = second.serve(WAIT, move |_, n| {
            let gate = waits.clone();
            async move {
                gate.wait().await;
                n
            }
        });
        for n in 0..1 << 14 {
            first.at(1).post(WAIT.ask(&n)).unwrap();
        }
        assert_eq!(first.at(1).post(WAIT.ask(&0)), Err(CallError::Full(ProcessId(1))));
        assert_eq!(first.at(1).call(WAIT.ask(&0)).await, Err(CallError::Full(ProcessId(1))));
        let text = CallError::Full(ProcessId(1)).to_string();
        assert!(text.contains("wait for some answers first"), "{text}");
        gate.set();
        while first.at(1).call(WAIT.ask(&5)).await != Ok(5) {
            yield_now().await;
        }
        let _echoing = second.serve(ECHO, |_, bytes| async { bytes });
        let long = Plain(vec![7; 8 << 20]);
        while first.at(1).call(ECHO.ask(&long)).await == Err(CallError::Full(ProcessId(1))) {
            yield_now().await;
        }
        assert_eq!(first.at(1).call(ECHO.ask(&long)).await, Ok(long));
    });
}

#[test]
fn a_call_of_a_process_that_dies_is_lost() {
    for vps in [1, 2] {
        Machine::builder().vps(vps).build().unwrap().block_on(async {
            let [first, killer] = <[_; 2]>::try_from(Local::cluster(2)).unwrap().map(Arc::new);
            let (first, second) = (Process::start(first), Process::start(Arc::clone(&killer)));
            let begun = CVar::new();
            let begins = begun.clone();
            let _serving = second.serve(WAIT, move |_, _| {
                begins.set();
                async { never::<u32>().await }
            });
            let call = spawn({
                let at = first.at(1);
                async move { at.call(WAIT.ask(&1)).await }
            });
            begun.wait().await;
            killer.kill();
            let lost = |begun| CallError::Lost { process: ProcessId(1), why: Why::Died, begun };
            assert_eq!(call.await.unwrap(), Err(lost(Begun::Unknown)));
            assert_eq!(first.at(1).call(WAIT.ask(&1)).await, Err(lost(Begun::No)));
            assert_eq!(first.at(1).post(WAIT.ask(&1)), Err(lost(Begun::No)));
        });
    }
}

/// Calls of a process that has gone are dropped; what it has posted is done.
#[test]
fn what_the_dead_have_posted_is_done() {
    for vps in [1, 2] {
        Machine::builder().vps(vps).build().unwrap().block_on(async {
            let [killer, second] = <[_; 2]>::try_from(Local::cluster(2)).unwrap().map(Arc::new);
            let (first, second) = (Process::start(Arc::clone(&killer)), Process::start(second));
            let told = Arc::new(CVarAndCount::default());
            let (begun, gate, done) = (CVar::new(), CVar::new(), CVar::new());
            let (tells, begins) = (Arc::clone(&told), begun.clone());
            let _serving = second.serve(WAIT, move |_, _| {
                let told = Told(Arc::clone(&tells));
                begins.set();
                async move {
                    let _told = told;
                    never::<u32>().await
                }
            });
            let (opens, does) = (gate.clone(), done.clone());
            let _noting = second.serve(NOTE, move |_, _| {
                let (gate, done) = (opens.clone(), does.clone());
                async move {
                    gate.wait().await;
                    done.set();
                }
            });
            first.at(1).post(NOTE.ask(&1)).unwrap();
            let call = spawn({
                let at = first.at(1);
                async move { at.call(WAIT.ask(&1)).await }
            });
            begun.wait().await;
            killer.kill();
            told.is_dropped.wait().await;
            gate.set();
            done.wait().await;
            drop(call);
        });
    }
}

#[test]
fn who_leaves_while_a_request_runs_answers_it_first() {
    with_two(|first, second| async move {
        let (end, ended) = mailbox();
        let here = second.clone();
        let _serving = second.serve(WAIT, move |_, n| {
            let (here, end) = (here.clone(), end.clone());
            async move {
                let mut leaves = Box::pin(async move { here.leave().await });
                // The handler begins to leave, and another thread goes on with it: as if that had begun at this moment.
                assert!(poll_fn(|cx| Poll::Ready(leaves.as_mut().poll(cx))).await.is_pending());
                end.try_send(leaves).unwrap_or_else(|_| panic!("the test waits"));
                n
            }
        });
        let leaver = spawn(async move { ended.recv().await.unwrap().await });
        assert_eq!(first.at(1).call(WAIT.ask(&7)).await, Ok(7));
        leaver.await.unwrap();
        let why = first.at(1).call(WAIT.ask(&7)).await;
        assert!(matches!(why, Err(CallError::Lost { process: ProcessId(1), why: Why::Left, .. })), "{why:?}");
    });
}

#[test]
fn calls_of_a_process_that_leaves_end() {
    with_two(|first, second| async move {
        let (begun, gate) = (Arc::new(CVar::new()), Arc::new(CVar::new()));
        let (begins, opens) = (begun.clone(), gate.clone());
        let _waiting = second.serve(WAIT, move |_, n| {
            let (begun, gate) = (begins.clone(), opens.clone());
            async move {
                begun.set();
                gate.wait().await;
                n
            }
        });
        let call = spawn({
            let at = first.at(1);
            async move { at.call(WAIT.ask(&1)).await }
        });
        begun.wait().await;
        first.leave().await;
        let why = call.await.unwrap();
        assert!(
            matches!(
                why,
                Err(CallError::Lost { process: ProcessId(1), why: Why::Left, begun: Begun::Unknown })
            ),
            "{why:?}"
        );
        gate.set();
    });
}
