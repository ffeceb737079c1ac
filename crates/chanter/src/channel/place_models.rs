//! Loom models of places, and of watches.
//!
//! How to run them: see `sync/models.rs`.

use std::pin::pin;
use std::task::Poll;

use loom::sync::Arc;
use loom::thread;

use super::Closed;
use crate::Event;
use crate::event::choose_biased;
use crate::sync::models::{Message, block_on, check, check_wide, poll_once};
use crate::sync::{Barrier, CVar, MVar, multicast, rpc, swap, watch};

/// A wait that passes, or is called off.
fn party(barrier: &Barrier, off: &CVar) -> impl Event<Output = bool> + use<> {
    choose_biased((off.wait().wrap(|()| false), barrier.wait().wrap(|_| true)))
}

#[test]
fn barrier_joins_two() {
    check(|| {
        let barrier = Barrier::new(2);
        let other = {
            let barrier = barrier.clone();
            thread::spawn(move || block_on(barrier.wait()).is_leader())
        };
        let leads = block_on(barrier.wait()).is_leader();
        assert!(leads != other.join().unwrap(), "one of them leads");
    });
}

/// INV-ONE: two parties that might choose something else wait. One of them does, while the third comes. All pass, or
/// none.
#[test]
fn barrier_passes_all_or_none() {
    check(|| {
        let (barrier, off, never) = (Barrier::new(3), CVar::new(), CVar::new());
        let mut first = pin!(party(&barrier, &never).sync());
        let mut second = pin!(party(&barrier, &off).sync());
        assert!(poll_once(first.as_mut()).is_pending() && poll_once(second.as_mut()).is_pending());
        let third = {
            let barrier = barrier.clone();
            thread::spawn(move || barrier.wait().try_sync().is_some())
        };
        off.set();
        let passed = block_on(second);
        assert_eq!(third.join().unwrap(), passed, "the third passes with the second");
        assert_eq!(poll_once(first), if passed { Poll::Ready(true) } else { Poll::Pending });
    });
}

/// INV-ONE: the same three parties, with one that is dropped.
#[test]
fn barrier_parties_may_be_dropped() {
    check(|| {
        let (barrier, never) = (Barrier::new(3), CVar::new());
        let mut first = pin!(party(&barrier, &never).sync());
        let mut second = Box::pin(party(&barrier, &never).sync());
        assert!(poll_once(first.as_mut()).is_pending() && poll_once(second.as_mut()).is_pending());
        let third = {
            let barrier = barrier.clone();
            thread::spawn(move || barrier.wait().try_sync().is_some())
        };
        drop(second);
        let passed = third.join().unwrap();
        assert_eq!(poll_once(first).is_ready(), passed);
        assert!(barrier.wait().try_sync().is_none());
    });
}

/// A party moves to another waker while it is reserved. It is woken all the same, or sees the result.
#[test]
fn barrier_parties_may_be_renewed() {
    check(|| {
        let (barrier, never) = (Barrier::new(2), CVar::new());
        let mut first = pin!(party(&barrier, &never).sync());
        assert!(poll_once(first.as_mut()).is_pending());
        let other = {
            let barrier = barrier.clone();
            thread::spawn(move || barrier.wait().try_sync().is_some())
        };
        assert!(block_on(first));
        assert!(other.join().unwrap());
    });
}

/// Two choices over two barriers, in opposite order, without other parties. They meet at one of them, and do not
/// deadlock.
#[test]
fn barriers_may_cross() {
    check_wide(|| {
        let (a, b) = (Barrier::new(2), Barrier::new(2));
        let either = |first: &Barrier, second: &Barrier, numbers: [u32; 2]| {
            let number = move |at: usize| move |_| numbers[at];
            choose_biased((first.wait().wrap(number(0)), second.wait().wrap(number(1))))
        };
        let theirs = either(&b, &a, [2, 1]);
        let other = thread::spawn(move || block_on(theirs));
        assert_eq!(block_on(either(&a, &b, [1, 2])), other.join().unwrap());
    });
}

/// INV-PLACE: a value is taken once, whichever thread comes first.
#[test]
fn mvar_hands_over() {
    check_wide(|| {
        let place = MVar::<Message>::empty();
        let takers = [0, 1].map(|_| {
            let place = place.clone();
            thread::spawn(move || block_on(place.take()).number())
        });
        block_on(place.put(Message::new(1)));
        block_on(place.put(Message::new(2)));
        let [first, second] = takers.map(|taker| taker.join().unwrap());
        assert_eq!(first + second, 3);
        assert!(!place.is_full());
    });
}

/// A take that waits is dropped while the value is put. The value is there afterwards.
#[test]
fn mvar_values_come_back() {
    check(|| {
        let place = MVar::<Message>::empty();
        let putter = {
            let place = place.clone();
            thread::spawn(move || assert!(place.try_put(Message::new(1)).is_ok()))
        };
        {
            let never = CVar::new();
            let take = place.take().wrap(|message| message.number());
            let mut take = pin!(choose_biased((never.wait().wrap(|()| 0), take)).sync());
            if let Poll::Ready(number) = poll_once(take.as_mut()) {
                assert_eq!(number, 1);
                place.try_put(Message::new(1)).ok().unwrap();
            }
        }
        putter.join().unwrap();
        assert_eq!(block_on(place.take()).number(), 1);
        assert!(!place.is_full());
    });
}

#[test]
fn swaps_are_mutual() {
    check(|| {
        let (left, right) = swap::<Message, Message>();
        let other = thread::spawn(move || block_on(right.swap(Message::new(2))).ok().unwrap().number());
        assert_eq!(block_on(left.swap(Message::new(1))).ok().unwrap().number(), 2);
        assert_eq!(other.join().unwrap(), 1);
    });
}

/// The other end is dropped while a swap waits. The value is back.
#[test]
fn swaps_are_told_of_the_end() {
    check(|| {
        let (left, right) = swap::<Message, ()>();
        let other = thread::spawn(move || drop(right));
        let Err(back) = block_on(left.swap(Message::new(1))) else { panic!("with whom?") };
        assert_eq!(back.0.number(), 1);
        other.join().unwrap();
    });
}

/// A receive that waits at a port is dropped while a message is sent.
#[test]
fn ports_lose_nothing() {
    check(|| {
        let news = multicast();
        let port = news.port();
        let sender = thread::spawn(move || {
            news.send(1).unwrap();
        });
        if poll_once(pin!(port.recv().sync())).is_pending() {
            assert_eq!(block_on(port.recv()), Ok(1));
        }
        assert_eq!(block_on(port.recv()), Err(Closed));
        sender.join().unwrap();
    });
}

/// A client gives up while the server accepts. The server has the request and is told, or never sees it.
#[test]
fn calls_are_given_up_or_accepted() {
    check(|| {
        let (client, server) = rpc::<u32, u32>();
        let mut call = Box::pin(client.call(1).sync());
        assert!(poll_once(call.as_mut()).is_pending());
        let acceptor = thread::spawn(move || (server.accept().try_sync(), server));
        drop(call);
        let (accepted, server) = acceptor.join().unwrap();
        if let Some(Ok((1, reply))) = accepted {
            assert!(reply.given_up().try_sync().is_some());
            assert!(block_on(reply.send(1)).is_err());
        }
        assert!(server.is_empty());
    });
}

/// Writes that came before the last change, or before the end, are seen.
fn watched() {
    let (tx, rx) = watch(0);
    let news = Arc::new(crate::sync::Cell::new(0));
    struct Shared(Arc<crate::sync::Cell<u32>>);
    // SAFETY: the cell is written before the end and read after it, which the model checks.
    unsafe impl Send for Shared {}
    let shared = Shared(Arc::clone(&news));
    let writer = thread::spawn(move || {
        let shared = shared;
        shared.0.set(1);
        drop(tx);
    });
    assert_eq!(block_on(rx.changed()).err(), Some(Closed));
    assert_eq!(news.get(), 1);
    writer.join().unwrap();
}

#[test]
fn watches_publish() {
    check(watched);
}

/// A change is not missed, and the last value is seen before the end.
#[test]
fn watches_miss_nothing() {
    check(|| {
        let (tx, rx) = watch(0);
        let writer = thread::spawn(move || {
            tx.send(1);
            tx.send(2);
        });
        let mut seen = 0;
        while let Ok(value) = block_on(rx.changed()) {
            assert!(*value > seen);
            seen = *value;
        }
        assert_eq!(seen, 2);
        writer.join().unwrap();
    });
}
