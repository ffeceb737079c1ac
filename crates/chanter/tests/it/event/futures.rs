//! Futures as events, and events as streams and sinks.

use crate::common;

use std::future::{pending, poll_fn, ready};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use chanter::event::{Ageing, choose_earliest, from_cancel_safe, from_future, optional, repeat, resumable};
use chanter::prelude::*;
use common::{Ledger, Wakes, machine, millis, poll, watchdog};
use futures::{SinkExt, StreamExt};

/// A future that is woken by hand.
#[derive(Clone, Default)]
struct Gate(Arc<Mutex<(bool, Option<Waker>)>>);

impl Gate {
    fn open(&self) {
        let mut gate = self.0.lock().unwrap();
        gate.0 = true;
        let waker = gate.1.take();
        drop(gate);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    fn wait(&self) -> impl Future<Output = ()> + use<> {
        let gate = self.clone();
        poll_fn(move |cx| {
            let mut gate = gate.0.lock().unwrap();
            if gate.0 {
                return Poll::Ready(());
            }
            gate.1 = Some(cx.waker().clone());
            Poll::Pending
        })
    }
}

/// Law: alone, it is the future, on another thread.
#[test]
fn a_future_is_an_event() {
    watchdog!();
    for vps in [1, 2] {
        machine(vps).block_on(async {
            assert_eq!(from_future(async { 6 * 7 }).await, 42);
            let slow = from_future(async {
                after(millis(5)).await;
                yield_now().await;
                "slow"
            });
            assert_eq!(choose((slow.wrap(str::len), never())).await, 4);
            let gate = Gate::default();
            let opens = gate.clone();
            let thread = std::thread::spawn(move || {
                std::thread::sleep(millis(5));
                opens.open();
            });
            from_future(gate.wait()).await;
            thread.join().unwrap();
        });
    }
}

#[test]
fn a_future_that_loses_is_aborted() {
    watchdog!();
    let ledger = Ledger::new();
    let machine = machine(1);
    machine.block_on(async {
        for polls in 0..3 {
            let payload = ledger.payload(polls);
            let event = from_future(async move {
                let _payload = payload;
                pending::<()>().await;
            });
            let mut waits = Box::pin(choose((event, never())).sync());
            for _ in 0..polls {
                assert!(poll(&mut waits).is_pending());
                yield_now().await;
            }
            assert_eq!(ledger.live(), 1);
            drop(waits);
            assert_eq!(ledger.live(), 0, "dropped where it waits, at once");
        }
    });
    drop(machine);
    ledger.check();
}

#[test]
fn an_output_that_is_not_chosen_can_be_reclaimed() {
    watchdog!();
    machine(1).block_on(async {
        let (back, found) = mailbox();
        let event = from_future(async { 7 }).reclaim(move |output| back.try_send(output.unwrap()).unwrap());
        let mut waits = Box::pin(event.sync());
        assert!(poll(&mut waits).is_pending());
        yield_now().await;
        drop(waits);
        assert_eq!(found.try_recv(), Ok(7));
    });
}

#[test]
fn a_panic_of_a_future_is_resumed() {
    watchdog!();
    machine(1).block_on(async {
        let bad = from_future(async { panic!("of a future") });
        let payload = catch_unwind(AssertUnwindSafe(|| bad.sync_blocking())).unwrap_err();
        assert_eq!(payload.downcast_ref::<&str>(), Some(&"of a future"));
    });
    let refused = catch_unwind(|| from_future(async {}).sync_blocking()).unwrap_err();
    assert!(refused.downcast_ref::<String>().unwrap().contains("on a machine"));
}

/// Law: alone, it is the future, here; on OS threads, machines and others'
/// executors.
#[test]
fn a_cancel_safe_future_is_polled_in_place() {
    watchdog!();
    let local = std::rc::Rc::new(5);
    let borrowed = &local;
    assert_eq!(from_cancel_safe(async { **borrowed }).sync_blocking(), 5);
    assert_eq!(from_cancel_safe(ready(1)).try_sync(), Some(1));
    assert_eq!(from_cancel_safe(pending::<u32>()).try_sync(), None);
    machine(1).block_on(async {
        let here = from_cancel_safe(async {
            yield_now().await;
            after(millis(2)).await;
            std::thread::current().id()
        });
        assert_eq!(here.await, std::thread::current().id());
    });
    let tokio = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    tokio.block_on(async {
        let (tx, rx) = channel::<u32>();
        let timeout = || from_cancel_safe(tokio::time::sleep(Duration::from_millis(5)));
        let got = choose((rx.recv().wrap(Some), timeout().wrap(|()| None)));
        assert_eq!(got.await, None);
        tokio::spawn(async move { tx.send(1).await });
        assert_eq!(choose((rx.recv().wrap(Result::ok), timeout().wrap(|()| None))).await, Some(1));
    });
}

/// Woken while the others are offered, by whatever thread, it commits; and
/// with every container between it and the choice.
#[test]
fn a_future_commits_after_a_wait() {
    watchdog!();
    for shape in 0..8 {
        let gate = Gate::default();
        let future = || from_cancel_safe(gate.wait()).wrap(|()| 7);
        let (_tx, rx) = channel::<u32>();
        let other = rx.recv().wrap(|_| 0);
        let event = match shape {
            0 => future().boxed(),
            1 => choose((other, future())).boxed(),
            2 => choose_biased((never(), choose((other, future())))).boxed(),
            3 => choose(vec![other.boxed(), never().boxed(), future().boxed()]).boxed(),
            4 => guard(|| choose((other, future()))).boxed(),
            5 => with_nack(|_| optional(Some(choose([future().boxed(), other.boxed()])))).boxed(),
            6 => choose_earliest((other.due(std::time::Instant::now()), never(), future())).boxed(),
            _ => choose((future().on_abort(|| panic!("chosen")), other)).boxed(),
        };
        let (wakes, waker) = Wakes::new();
        let mut cx = Context::from_waker(&waker);
        let mut sync = Box::pin(event.sync());
        assert!(sync.as_mut().poll(&mut cx).is_pending());
        assert!(sync.as_mut().poll(&mut cx).is_pending());
        let opens = gate.clone();
        std::thread::spawn(move || opens.open()).join().unwrap();
        assert_eq!(wakes.count(), 1, "shape {shape}");
        assert_eq!(sync.as_mut().poll(&mut cx), Poll::Ready(7), "shape {shape}");
    }
    // Ageing renumbers its leaves; a future keeps its place there too.
    let gate = Gate::default();
    let mut ageing = Ageing::new();
    for _ in 0..4 {
        let events = (always(0).boxed(), from_cancel_safe(gate.wait()).wrap(|()| 1).boxed(), never().boxed());
        assert_eq!(ageing.choose(events).sync_blocking(), 0);
    }
    let mut sync =
        Box::pin(ageing.choose((never(), never(), from_cancel_safe(gate.wait()).wrap(|()| 2))).sync());
    assert!(poll(&mut sync).is_pending());
    gate.open();
    assert_eq!(poll(&mut sync), Poll::Ready(2));
}

/// The synchronization moves to another task: the future wakes that one.
#[test]
fn a_future_wakes_who_polled_last() {
    watchdog!();
    let gate = Gate::default();
    let ((first, a), (second, b)) = (Wakes::new(), Wakes::new());
    let mut sync = Box::pin(choose((from_cancel_safe(gate.wait()), never())).sync());
    assert!(sync.as_mut().poll(&mut Context::from_waker(&a)).is_pending());
    assert!(sync.as_mut().poll(&mut Context::from_waker(&b)).is_pending());
    gate.open();
    assert_eq!((first.count(), second.count()), (0, 1));
}

#[test]
fn polled_in_turn_and_no_more_than_needed() {
    watchdog!();
    let polls = AtomicUsize::new(0);
    let counted = || {
        poll_fn(|_| {
            polls.fetch_add(1, Ordering::SeqCst);
            Poll::Ready(1)
        })
    };
    assert_eq!(choose_biased((always(0), from_cancel_safe(counted()))).sync_blocking(), 0);
    assert_eq!(polls.load(Ordering::SeqCst), 0, "the first was ready: its turn never came");
    assert_eq!(choose_biased((from_cancel_safe(counted()), always(0))).sync_blocking(), 1);
    assert_eq!(polls.load(Ordering::SeqCst), 1);
}

/// A resumable future survives the choices that it loses, and so does its
/// output.
#[test]
fn a_resumable_future_loses_nothing() {
    watchdog!();
    let gate = Gate::default();
    let ledger = Ledger::new();
    let payload = ledger.payload(1);
    let wait = gate.wait();
    let mut work = pin!(resumable(async move {
        wait.await;
        payload
    }));
    for _ in 0..3 {
        assert!(
            choose((work.as_mut().event().wrap(|_| 0), after(millis(1)).wrap(|()| 1))).sync_blocking() == 1
        );
    }
    gate.open();
    assert_eq!(choose((work.as_mut().event().wrap(|payload| payload.id), never())).sync_blocking(), 1);
    assert!(work.is_over());
    assert_eq!(work.as_mut().event().wrap(|_| ()).try_sync(), None, "taken: never again");
    ledger.check();
}

/// It becomes ready in the moment in which another branch commits: the output
/// waits for the next choice.
#[test]
fn a_lost_race_keeps_the_output() {
    watchdog!();
    let (tx, rx) = channel::<u32>();
    // Its poll lets the partner commit, and then is ready: the worst moment.
    let mut polls = 0;
    let tx2 = tx.clone();
    let mut work = pin!(resumable(poll_fn(move |_| {
        polls += 1;
        if polls < 3 {
            return Poll::Pending;
        }
        tx2.try_send(9).unwrap();
        Poll::Ready("kept")
    })));
    let mut sync = Box::pin(choose((work.as_mut().event(), rx.recv().wrap(|_| "received"))).sync());
    assert!(poll(&mut sync).is_pending());
    assert!(poll(&mut sync).is_pending());
    assert_eq!(poll(&mut sync), Poll::Ready("received"));
    drop(sync);
    assert_eq!(work.as_mut().event().try_sync(), Some("kept"));
}

#[test]
fn dropped_at_every_await() {
    watchdog!();
    for polls in 0..4 {
        for sent in 0..=polls {
            let ledger = Ledger::new();
            let (tx, rx) = channel();
            let mut taken = false;
            let mut accepted = false;
            {
                let future = async {
                    let held = ledger.payload(0);
                    let got = rx.recv().await;
                    drop(held);
                    got.unwrap()
                };
                let mut sync = Box::pin(choose((from_cancel_safe(future).wrap(Some), never())).sync());
                for turn in 0..=polls {
                    if turn == sent {
                        accepted = tx.try_send(ledger.payload(1)).is_ok();
                    }
                    if turn < polls && !taken {
                        taken = poll(&mut sync).is_ready();
                    }
                }
            }
            assert_eq!(accepted, sent > 0, "it offers after its first poll");
            assert_eq!(taken, accepted && sent < polls);
            assert_eq!(rx.try_recv().is_ok(), accepted && !taken, "polls {polls}, sent {sent}");
            drop((tx, rx));
            ledger.check();
        }
    }
}

#[test]
fn a_panic_in_place_is_the_callers() {
    watchdog!();
    let (tx, rx) = channel::<u32>();
    let bad = from_cancel_safe(async { panic!("in place") });
    let choice = choose_biased((rx.recv().wrap(|_| ()), bad));
    assert!(catch_unwind(AssertUnwindSafe(|| choice.sync_blocking())).is_err());
    assert!(tx.try_send(1).is_err(), "and the others are retracted");
}

#[test]
fn events_as_streams() {
    watchdog!();
    let (tx, rx) = mailbox();
    (0..6).for_each(|n| tx.try_send(n).unwrap());
    drop(tx);
    futures::executor::block_on(async {
        let clones = rx.recv().into_stream();
        let firsts: Vec<_> = clones.take(3).map(Result::unwrap).collect().await;
        let made = repeat(|| rx.recv()).take_while(|m| ready(m.is_ok())).map(Result::unwrap);
        assert_eq!((firsts, made.collect::<Vec<_>>().await), (vec![0, 1, 2], vec![3, 4, 5]));
    });
    // What waits in a stream that is dropped goes back.
    let (tx, rx) = channel();
    let mut stream = Box::pin(repeat(|| rx.recv()));
    assert!(stream.as_mut().poll_next_unpin(&mut Context::from_waker(Waker::noop())).is_pending());
    tx.try_send(7).unwrap();
    drop(stream);
    assert_eq!(rx.try_recv(), Ok(7));
    // A panic ends one synchronization, not the stream.
    let mut turn = 0;
    let mut stream = Box::pin(repeat(|| {
        turn += 1;
        let bad = turn == 1;
        always(turn).wrap(move |n| if bad { panic!("the first") } else { n })
    }));
    let mut next = || stream.as_mut().poll_next_unpin(&mut Context::from_waker(Waker::noop()));
    assert!(catch_unwind(AssertUnwindSafe(&mut next)).is_err());
    assert_eq!(next(), Poll::Ready(Some(2)));
}

#[test]
fn senders_as_sinks() {
    watchdog!();
    let ledger = Ledger::new();
    futures::executor::block_on(async {
        let (tx, rx) = bounded(2);
        let mut sink = tx.into_sink();
        for id in 0..2 {
            sink.send(ledger.payload(id)).await.unwrap();
        }
        // One more is taken, and flushed when there is room.
        sink.feed(ledger.payload(2)).await.unwrap();
        let mut flush = Box::pin(sink.flush());
        assert!(poll(&mut flush).is_pending());
        assert_eq!(rx.recv().await.unwrap().id, 0);
        flush.await.unwrap();
        assert_eq!((rx.recv().await.unwrap().id, rx.recv().await.unwrap().id), (1, 2));
        // Dropped with an item that nobody has taken: the item is dropped.
        for id in 3..6 {
            sink.feed(ledger.payload(id)).await.unwrap();
        }
        drop(sink);
        assert_eq!((rx.recv().await.unwrap().id, rx.recv().await.unwrap().id), (3, 4));
        assert_eq!(rx.recv().await.unwrap_err(), Closed);
        // Closed: the item comes back.
        let (tx, rx) = channel();
        let mut sink = tx.clone().into_sink();
        drop(rx);
        assert_eq!(sink.send(1).await, Err(SendError(1)));
        let (tx, rx) = channel();
        let mut sink = tx.into_sink();
        sink.feed(2).await.unwrap();
        rx.close();
        assert_eq!(sink.close().await, Err(SendError(2)));
    });
    ledger.check();
}

#[test]
fn streams_and_sinks_forward() {
    watchdog!();
    machine(2).block_on(async {
        let ((tx, rx), (tx2, rx2)) = (channel(), channel());
        let feeder = spawn(async move {
            for n in 0..1000 {
                tx.send(n).await.unwrap();
            }
        });
        let pipe = spawn(async move { rx.map(Ok).forward(tx2.into_sink()).await });
        let mut sum = 0;
        while let Ok(n) = rx2.recv().await {
            sum += n;
        }
        assert_eq!(sum, 1000 * 999 / 2);
        feeder.join().await.unwrap();
        pipe.join().await.unwrap().unwrap();
    });
}

/// A future that a guard has made is polled with the waker of whoever waits.
#[test]
fn a_future_that_a_guard_makes_wakes() {
    watchdog!();
    let (tx, rx) = futures::channel::oneshot::channel();
    let made = guard(move || from_cancel_safe(rx));
    let mut wait = Box::pin(choose((made, never())).sync());
    let (wakes, waker) = Wakes::new();
    assert!(Future::poll(wait.as_mut(), &mut Context::from_waker(&waker)).is_pending());
    tx.send(1).unwrap();
    assert_eq!(wakes.count(), 1);
    assert_eq!(poll(&mut wait), Poll::Ready(Ok(1)));
}

/// Pending three times; counts its polls in what it keeps a borrow of.
async fn borrows_from_itself() -> u32 {
    let mut polls = 0;
    poll_fn(|_| {
        polls += 1;
        if polls == 4 { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    polls
}

fn is_polled_four_times(event: impl Future<Output = u32>) {
    let mut event = Box::pin(event);
    for _ in 0..3 {
        assert!(poll(&mut event).is_pending());
    }
    assert_eq!(poll(&mut event), Poll::Ready(4));
}

/// No reference of ours covers it between two polls (for Miri).
#[test]
fn futures_may_borrow_from_themselves() {
    watchdog!();
    let future = || from_cancel_safe(borrows_from_itself());
    is_polled_four_times(future().into_future());
    is_polled_four_times(future().wrap(|polls| polls).into_future());
    is_polled_four_times(choose((future(), never())).into_future());
    let (_to, from) = mailbox::<u32>();
    is_polled_four_times(choose((from.recv().wrap(|number| number.unwrap()), future())).into_future());
    let mut kept = pin!(resumable(borrows_from_itself()));
    for _ in 0..3 {
        assert!(poll(&mut Box::pin(choose((kept.as_mut().event(), never())).into_future())).is_pending());
    }
    assert!(!kept.is_over());
    assert_eq!(poll(&mut Box::pin(choose((kept.as_mut().event(), never())).into_future())), Poll::Ready(4));
    assert!(kept.is_over());
}
