//! Asynchronous sends: what waits without a thread keeps its order, is never
//! lost, and is dropped once.

use crate::common;

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Waker};

use chanter::prelude::*;
use chanter::{ChoiceSet, TryRecvError};
use common::{Ledger, Payload, machine, watchdog};
use futures::StreamExt;

/// A payload as it is, which takes an offer's frame to wait, and one in a box, small enough to be left in its channel.
trait Message: Send + 'static {
    fn new(payload: Payload) -> Self;
    fn id(&self) -> usize;
}

impl Message for Payload {
    fn new(payload: Payload) -> Self {
        payload
    }
    fn id(&self) -> usize {
        self.id
    }
}

impl Message for Box<Payload> {
    fn new(payload: Payload) -> Self {
        Box::new(payload)
    }
    fn id(&self) -> usize {
        self.id
    }
}

#[test]
fn messages_wait_in_order() {
    watchdog!();
    for make in [channel::<u32>, || bounded(3), mailbox::<u32>] {
        let (tx, rx) = make();
        for n in 0..100 {
            tx.asend(n).unwrap();
        }
        drop(tx);
        for n in 0..100 {
            assert_eq!(rx.recv().sync_blocking(), Ok(n), "the channel is open while messages wait");
        }
        assert_eq!(rx.recv().sync_blocking(), Err(Closed));
    }
}

#[test]
fn asynchronous_and_synchronous_sends_keep_their_order() {
    watchdog!();
    machine(1).block_on(async {
        let (tx, rx) = channel();
        let producer = spawn(async move {
            for n in (0..300).step_by(3) {
                tx.asend(n).unwrap();
                tx.asend(n + 1).unwrap();
                tx.send(n + 2).await.unwrap();
            }
        });
        for n in 0..300 {
            let received = choose((rx.recv().wrap(Some), after(common::FOREVER).wrap(|()| None)));
            assert_eq!(received.await, Some(Ok(n)));
        }
        producer.await.unwrap();
    });
}

#[test]
fn waiting_receivers_get_it_at_once() {
    watchdog!();
    machine(1).block_on(async {
        let (tx, rx) = channel();
        let receiver = spawn(async move { rx.recv().await });
        yield_now().await;
        tx.asend(7).unwrap();
        assert_eq!(receiver.await.unwrap(), Ok(7));
    });
}

#[test]
fn a_closed_channel_gives_it_back_or_drops_what_waits() {
    watchdog!();
    ends_with_its_channel::<Payload>();
    ends_with_its_channel::<Box<Payload>>();
}

fn ends_with_its_channel<M: Message>() {
    for in_machine in [false, true] {
        let run = || {
            for closes in [false, true] {
                let ledger = Ledger::new();
                let (tx, rx) = channel::<M>();
                for n in 0..10 {
                    tx.asend(M::new(ledger.payload(n))).ok().unwrap();
                }
                assert_eq!(ledger.live(), 10);
                if closes {
                    tx.close();
                    assert!(matches!(rx.try_recv(), Err(TryRecvError::Closed)));
                } else {
                    drop(rx);
                }
                assert_eq!(ledger.live(), 0, "dropped with the channel");
                let SendError(back) = tx.asend(M::new(ledger.payload(10))).err().unwrap();
                assert_eq!(back.id(), 10);
                drop(back);
                ledger.check();
            }
        };
        if in_machine { machine(1).block_on(async { run() }) } else { run() }
    }
}

#[test]
fn messages_outlive_their_machine() {
    watchdog!();
    let ledger = Ledger::new();
    let (tx, rx) = channel();
    let machine = machine(1);
    machine.block_on(async {
        for n in 0..1000 {
            tx.asend(ledger.payload(n)).unwrap();
        }
    });
    drop(machine);
    drop(tx);
    for n in 0..500 {
        assert_eq!(rx.recv().sync_blocking().unwrap().id, n);
    }
    drop(rx);
    ledger.check();
}

/// A small message that would be the first to wait is left in the channel. It is behind messages that come back, and
/// before senders that wait. It is where a choice that loses leaves it.
#[test]
fn what_is_left_keeps_its_place() {
    watchdog!();
    keeps_its_place::<Payload>();
    keeps_its_place::<Box<Payload>>();
}

fn keeps_its_place<M: Message>() {
    let ledger = Ledger::new();
    let message = |id| M::new(ledger.payload(id));
    let (tx, rx) = channel::<M>();
    let mut cx = Context::from_waker(Waker::noop());
    {
        let mut receives = pin!(rx.recv().sync());
        assert!(receives.as_mut().poll(&mut cx).is_pending());
        assert!(tx.try_send(message(0)).is_ok(), "to who waits");
        tx.asend(message(1)).ok().unwrap();
        assert!(rx.is_empty(), "nothing is buffered");
    }
    let mut sends = pin!(tx.send(message(2)).sync());
    assert!(sends.as_mut().poll(&mut cx).is_pending());
    for id in 0..2 {
        let lost = choose_biased((always(None), rx.recv().wrap(Some)));
        assert!(lost.sync_blocking().is_none());
        let won = choose_biased((rx.recv().wrap(Some), always(None)));
        assert_eq!(won.sync_blocking().unwrap().unwrap().id(), id);
    }
    assert_eq!(rx.recv().sync_blocking().unwrap().id(), 2);
    assert!(sends.as_mut().poll(&mut cx).is_ready());
    assert!(matches!(rx.try_recv(), Err(TryRecvError::Empty)));
    // And again, for a stream.
    tx.asend(message(3)).ok().unwrap();
    let mut rx = rx;
    let next = futures::executor::block_on(rx.next());
    assert_eq!(next.unwrap().id(), 3);
    ledger.check();
}

/// A stream that waits is told, and takes it.
#[test]
fn streams_hear_of_small_messages() {
    watchdog!();
    machine(1).block_on(async {
        let (tx, mut rx) = channel::<u32>();
        for n in 0..3 {
            let reader = spawn(async move { (rx.next().await, rx) });
            yield_now().await;
            tx.asend(n).unwrap();
            let (read, back) = reader.await.unwrap();
            assert_eq!(read, Some(n));
            rx = back;
        }
    });
}

#[test]
fn large_messages_wait_too() {
    watchdog!();
    #[repr(align(64))]
    struct Large([u64; 500]);
    machine(1).block_on(async {
        let (tx, rx) = channel();
        for n in 0..10 {
            tx.asend(Large([n; 500])).unwrap();
        }
        for n in 0..10 {
            let large = rx.recv().await.unwrap();
            assert_eq!(std::ptr::from_ref(&large) as usize % 64, 0);
            assert!(large.0.iter().all(|word| *word == n));
        }
    });
}

/// The receiver of the last message gives the sender's share up. Then the channel is closed for all that wait there.
/// It is gone if nobody else refers to it.
#[test]
fn the_last_message_ends_its_channel() {
    fn run<M: Message>() {
        let ledger = Ledger::new();
        let one = || {
            let (tx, rx) = channel();
            tx.asend(M::new(ledger.payload(7))).ok().unwrap();
            rx
        };
        let ends = |rx: &Receiver<M>| matches!(rx.try_recv(), Err(TryRecvError::Closed));

        let rx = one();
        let receive = rx.into_recv();
        assert_eq!(receive.sync_blocking().unwrap().id(), 7, "the event is all that refers to the channel");

        let rx = one();
        assert_eq!(choose((rx.recv(), never())).sync_blocking().unwrap().id(), 7);
        assert!(ends(&rx));

        let rx = one();
        let mut set = ChoiceSet::new();
        set.insert(|| rx.recv());
        assert_eq!(set.next().sync_blocking().1.unwrap().id(), 7);
        drop(set);
        assert!(ends(&rx));
        ledger.check();
    }
    let run = || {
        run::<Payload>();
        run::<Box<Payload>>();
    };
    watchdog!();
    run();
    machine(1).block_on(async {
        run();
        let ends = [(); 2].map(|()| {
            let (tx, rx) = channel();
            tx.asend(7).unwrap();
            rx
        });
        let events = (ends[0].clone().into_recv(), ends[1].clone().into_recv());
        let (one, other) = gather(events).await;
        assert_eq!((one, other), (Ok(7), Ok(7)));
        assert!(ends.iter().all(|rx| matches!(rx.try_recv(), Err(TryRecvError::Closed))));
    });
}

#[test]
fn streams_hear_of_the_end_when_another_takes_the_last_message() {
    watchdog!();
    machine(1).block_on(async {
        let (tx, rx) = bounded::<u32>(1);
        let mut stream = rx.clone();
        let reader = spawn(async move { stream.next().await });
        yield_now().await;
        let taken = spawn(async move { rx.recv().await });
        yield_now().await;
        tx.asend(1).unwrap();
        drop(tx);
        let (one, other) = (taken.await.unwrap().ok(), reader.await.unwrap());
        assert!([(Some(1), None), (None, Some(1))].contains(&(one, other)), "{one:?} {other:?}");
    });
}

/// Channels lie in memory that another driver's have left.
#[test]
fn drivers_take_turns() {
    watchdog!();
    let machine = Arc::new(machine(1));
    let turn = Arc::new(std::sync::Mutex::new(()));
    let threads = [(); 2].map(|()| {
        let (machine, turn) = (Arc::clone(&machine), Arc::clone(&turn));
        std::thread::spawn(move || {
            for _ in 0..20 {
                let _turn = turn.lock().unwrap();
                let sum = machine.block_on(async {
                    let mut sum = 0;
                    for n in 0..500 {
                        let (tx, rx) = channel();
                        spawn_parasite(async move { tx.asend(n).unwrap() });
                        sum += rx.recv().await.unwrap();
                    }
                    sum
                });
                assert_eq!(sum, 499 * 500 / 2);
            }
        })
    });
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

/// Producers of every kind, consumers of every kind, dropped receives between.
#[test]
fn everybody_sends_and_receives() {
    watchdog!();
    const EACH: usize = 3000;
    let ledger = Ledger::new();
    let sum = Arc::new(AtomicU64::new(0));
    let (tx, rx) = channel::<Payload>();
    let machine = machine(2);
    let mut threads = Vec::new();
    for place in 0..2 {
        let (tx, ledger) = (tx.clone(), ledger.clone());
        let produce = move || (0..EACH).for_each(|n| tx.asend(ledger.payload(n)).unwrap());
        if place == 0 {
            threads.push(std::thread::spawn(produce));
        } else {
            drop(machine.spawn(async move { produce() }));
        }
    }
    for _ in 0..2 {
        let (rx, sum) = (rx.clone(), sum.clone());
        threads.push(std::thread::spawn(move || {
            while let Ok(payload) = rx.recv().sync_blocking() {
                sum.fetch_add(payload.id as u64, Ordering::Relaxed);
            }
        }));
    }
    for _ in 0..2 {
        let (rx, sum) = (rx.clone(), sum.clone());
        drop(machine.spawn(async move {
            loop {
                // Half of the choices give up at once: what they had goes back.
                let received = choose((rx.recv().wrap(Some), always(()).wrap(|()| None))).await;
                match received {
                    Some(Ok(payload)) => {
                        sum.fetch_add(payload.id as u64, Ordering::Relaxed);
                    }
                    Some(Err(Closed)) => break,
                    None => yield_now().await,
                }
            }
        }));
    }
    drop((tx, rx));
    for thread in threads {
        thread.join().unwrap();
    }
    drop(machine);
    ledger.check();
    assert_eq!(sum.load(Ordering::Relaxed), 2 * (EACH as u64 * (EACH as u64 - 1) / 2));
}
