//! Closing, for every flavour of channel: the errors that each end gets.

use crate::common;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;

use chanter::prelude::*;
use chanter::{TryRecvError, TrySendError};
use common::{Ledger, Payload, machine, millis, poll, watchdog};
use futures::StreamExt;

type Make<T> = fn() -> (Sender<T>, Receiver<T>);

fn flavours<T>() -> [(&'static str, Make<T>); 5] {
    [
        ("rendezvous", channel::<T>),
        ("bounded(0)", || bounded(0)),
        ("bounded(1)", || bounded(1)),
        ("bounded(3)", || bounded(3)),
        ("mailbox", mailbox::<T>),
    ]
}

/// The ways to close a channel.
#[derive(Clone, Copy, Debug, PartialEq)]
enum How {
    SenderCloses,
    ReceiverCloses,
    SendersGone,
    ReceiversGone,
}

#[test]
fn a_failed_send_gives_the_message_back() {
    watchdog!();
    for (name, make) in flavours::<Box<u32>>() {
        for how in [How::SenderCloses, How::ReceiverCloses, How::ReceiversGone] {
            let (tx, rx) = make();
            let kept = match how {
                How::SenderCloses => {
                    tx.close();
                    Some(rx)
                }
                How::ReceiverCloses => {
                    rx.close();
                    Some(rx)
                }
                _ => {
                    drop(rx);
                    None
                }
            };
            assert!(tx.is_closed(), "{name} {how:?}");
            assert_eq!(*tx.send(Box::new(1)).sync_blocking().unwrap_err().0, 1, "{name} {how:?}");
            assert_eq!(*tx.send(Box::new(2)).try_sync().unwrap().unwrap_err().0, 2, "{name} {how:?}");
            match tx.try_send(Box::new(3)) {
                Err(TrySendError::Closed(message)) => assert_eq!(*message, 3),
                other => panic!("{name} {how:?}: {other:?}"),
            }
            let choice = choose((tx.send(Box::new(4)), never())).sync_blocking();
            assert_eq!(*choice.unwrap_err().0, 4);
            machine(1).block_on(async {
                assert_eq!(*tx.send(Box::new(5)).await.unwrap_err().0, 5);
            });
            // Again and again; closing twice is no harm.
            tx.close();
            assert_eq!(*tx.clone().send(Box::new(6)).sync_blocking().unwrap_err().0, 6);
            drop(kept);
        }
    }
}

#[test]
fn what_is_buffered_is_drained_before_closed() {
    watchdog!();
    for (name, make) in flavours::<u32>() {
        for how in [How::SenderCloses, How::ReceiverCloses, How::SendersGone] {
            let (tx, rx) = make();
            let mut count = 0;
            while count < 10 && tx.try_send(count).is_ok() {
                count += 1;
            }
            match how {
                How::SenderCloses => tx.close(),
                How::ReceiverCloses => rx.close(),
                _ => drop(tx),
            }
            assert!(rx.is_closed());
            for n in 0..count {
                assert_eq!(rx.len() as u32, count - n);
                let got = if n % 2 == 0 { rx.recv().sync_blocking().ok() } else { rx.try_recv().ok() };
                assert_eq!(got, Some(n), "{name} {how:?}");
            }
            assert_eq!(rx.recv().sync_blocking(), Err(Closed), "{name} {how:?}");
            assert_eq!(rx.try_recv(), Err(TryRecvError::Closed), "{name} {how:?}");
            assert_eq!(rx.clone().recv().sync_blocking(), Err(Closed), "{name} {how:?}");
            assert_eq!(choose((never(), rx.recv())).sync_blocking(), Err(Closed), "{name} {how:?}");
        }
    }
}

#[test]
fn waiting_receivers_are_told() {
    watchdog!();
    for (name, make) in flavours::<u32>() {
        for how in [How::SenderCloses, How::ReceiverCloses, How::SendersGone] {
            for vps in [1, 2] {
                machine(vps).block_on(async {
                    let (tx, rx) = make();
                    let hosts: Vec<_> = (0..10)
                        .map(|n| {
                            let rx = rx.clone();
                            spawn(async move {
                                match n % 2 {
                                    0 => rx.recv().await,
                                    _ => choose((rx.recv(), rx.recv(), never())).await,
                                }
                            })
                        })
                        .collect();
                    let os = {
                        let rx = rx.clone();
                        std::thread::spawn(move || rx.recv().sync_blocking())
                    };
                    after(millis(2)).await;
                    match how {
                        How::SenderCloses => tx.close(),
                        How::ReceiverCloses => rx.close(),
                        _ => drop(tx),
                    }
                    for host in hosts {
                        assert_eq!(host.join().await.unwrap(), Err(Closed), "{name} {how:?}");
                    }
                    assert_eq!(os.join().unwrap(), Err(Closed), "{name} {how:?}");
                });
            }
        }
    }
}

#[test]
fn waiting_senders_are_told_and_get_their_messages_back() {
    watchdog!();
    for (name, make) in flavours::<Payload>() {
        if name == "mailbox" {
            continue;
        }
        for how in [How::SenderCloses, How::ReceiverCloses, How::ReceiversGone] {
            let ledger = Ledger::new();
            machine(2).block_on(async {
                let (tx, rx) = make();
                while tx.try_send(ledger.payload(1000)).is_ok() {}
                let hosts: Vec<_> = (0..10)
                    .map(|n| {
                        let tx = tx.clone();
                        let message = ledger.payload(n);
                        spawn(async move {
                            match n % 2 {
                                0 => tx.send(message).await,
                                _ => choose((tx.send(message), never())).await,
                            }
                        })
                    })
                    .collect();
                after(millis(2)).await;
                match how {
                    How::SenderCloses => tx.close(),
                    How::ReceiverCloses => rx.close(),
                    _ => drop(rx),
                }
                for (n, host) in hosts.into_iter().enumerate() {
                    let back = host.join().await.unwrap().unwrap_err().0;
                    assert_eq!(back.id, n, "{name} {how:?}");
                }
            });
            ledger.check();
        }
    }
}

#[test]
fn events_count_as_handles() {
    watchdog!();
    for (name, make) in flavours::<u32>() {
        // A receive event keeps the channel open for senders.
        let (tx, rx) = make();
        let event = rx.into_recv();
        assert!(!tx.is_closed(), "{name}");
        std::thread::scope(|scope| {
            let sender = scope.spawn(|| tx.send(1).sync_blocking());
            assert_eq!(event.sync_blocking(), Ok(1), "{name}");
            assert_eq!(sender.join().unwrap(), Ok(()), "{name}");
        });
        assert!(tx.is_closed(), "{name}: the last event has committed");
        // A send event keeps it open for receivers.
        let (tx, rx) = make();
        let event = tx.into_send(2);
        assert!(!rx.is_closed(), "{name}");
        assert_eq!(rx.try_recv(), Err(TryRecvError::Empty), "{name}");
        std::thread::scope(|scope| {
            let receiver = scope.spawn(|| rx.recv().sync_blocking());
            assert_eq!(event.sync_blocking(), Ok(()), "{name}");
            assert_eq!(receiver.join().unwrap(), Ok(2), "{name}");
        });
        assert_eq!(rx.recv().sync_blocking(), Err(Closed), "{name}");
    }
}

/// An event gives its share up whichever way it ends.
#[test]
fn every_end_of_an_event_gives_its_share_up() {
    watchdog!();
    for (name, make) in flavours::<u32>() {
        type Use = fn(chanter::channel::IntoRecv<u32>);
        let uses: [(&str, Use); 9] = [
            ("dropped", |event| drop(event)),
            ("sync dropped", |event| drop(event.sync())),
            ("polled and dropped", |event| assert!(poll(&mut Box::pin(event.sync())).is_pending())),
            ("choice polled and dropped", |event| {
                assert!(poll(&mut Box::pin(choose((event, never())).sync())).is_pending());
            }),
            ("lost", |event| assert_eq!(choose_biased((always(Ok(1)), event)).sync_blocking(), Ok(1))),
            ("lost late", |event| {
                assert_eq!(choose((after(millis(1)).wrap(|()| Ok(1)), event)).sync_blocking(), Ok(1));
            }),
            ("tried", |event| assert_eq!(event.try_sync(), None)),
            ("boxed", |event| drop(event.boxed())),
            ("guarded", |event| assert_eq!(guard(move || event).try_sync(), None)),
        ];
        for (what, use_it) in uses {
            let (tx, rx) = make();
            let event = rx.into_recv();
            assert!(!tx.is_closed());
            use_it(event);
            assert!(tx.is_closed(), "{name}: {what}");
        }
        // Copies count, too.
        let (tx, rx) = make();
        let event = rx.into_recv();
        let copy = event.clone();
        drop(event);
        assert!(!tx.is_closed(), "{name}");
        drop(copy);
        assert!(tx.is_closed(), "{name}");
    }
}

/// A waiting partner is told when the last thing that kept the channel open
/// was an event.
#[test]
fn the_end_of_the_last_event_is_told() {
    watchdog!();
    for (name, make) in flavours::<u32>() {
        let (tx, rx) = make();
        let event = tx.into_send(1);
        let receiver = std::thread::spawn(move || rx.recv().sync_blocking());
        std::thread::sleep(millis(5));
        drop(event);
        assert_eq!(receiver.join().unwrap(), Err(Closed), "{name}");
        if name == "mailbox" {
            continue;
        }
        let (tx, rx) = make();
        while tx.try_send(0).is_ok() {}
        let event = rx.into_recv();
        let sender = std::thread::spawn(move || tx.send(7).sync_blocking());
        std::thread::sleep(millis(5));
        drop(event);
        assert_eq!(sender.join().unwrap(), Err(SendError(7)), "{name}");
    }
}

#[test]
fn a_stream_ends() {
    watchdog!();
    for (name, make) in flavours::<u32>() {
        for how in [How::SenderCloses, How::SendersGone] {
            for vps in [1, 2] {
                let all = machine(vps).block_on(async {
                    let (tx, mut rx) = make();
                    spawn(async move {
                        for n in 0..100 {
                            tx.send(n).await.unwrap();
                        }
                        if how == How::SenderCloses {
                            tx.close();
                            after(millis(5)).await;
                        }
                    });
                    let all: Vec<_> = rx.by_ref().collect().await;
                    assert_eq!(rx.next().await, None, "{name}: still ended");
                    all
                });
                assert_eq!(all, (0..100).collect::<Vec<_>>(), "{name}");
            }
        }
    }
}

/// A receiver that is used as a stream is a receiver as long as it lives, not
/// longer.
#[test]
fn a_dropped_stream_closes_the_channel() {
    watchdog!();
    for (name, make) in flavours::<u32>() {
        for messages in 0..3 {
            let (tx, mut rx) = make();
            for _ in 0..messages {
                let _ = tx.try_send(1);
            }
            for _ in 0..2 {
                let _ = poll(&mut Box::pin(rx.next()));
            }
            drop(rx);
            assert!(tx.is_closed(), "{name}");
        }
    }
}

/// A stream that was polled and left must not swallow what others wait for.
#[test]
fn a_stream_that_waits_takes_nothing_from_others() {
    watchdog!();
    for (name, make) in flavours::<u32>() {
        let (tx, mut rx) = make();
        let other = rx.clone();
        assert_eq!(poll(&mut Box::pin(rx.next())), Poll::Pending);
        // Its `next` was dropped: nobody polls the stream any more.
        let sender = std::thread::spawn(move || tx.send(1).sync_blocking());
        let got = choose((other.recv().wrap(Some), after(common::FOREVER).wrap(|()| None)));
        assert_eq!(
            got.sync_blocking(),
            Some(Ok(1)),
            "{name}: the message lies in a stream that nobody polls"
        );
        sender.join().unwrap().unwrap();
    }
}

/// The same, for the receiver itself.
#[test]
fn a_receiver_may_be_used_as_a_stream_and_by_events() {
    watchdog!();
    for (name, make) in flavours::<u32>() {
        let (tx, mut rx) = make();
        assert_eq!(poll(&mut Box::pin(rx.next())), Poll::Pending);
        let sender = std::thread::spawn(move || tx.send(1).sync_blocking());
        let got = choose((rx.recv().wrap(Some), after(common::FOREVER).wrap(|()| None)));
        assert_eq!(got.sync_blocking(), Some(Ok(1)), "{name}: the message lies in the receiver's own stream");
        sender.join().unwrap().unwrap();
    }
}

#[test]
fn unread_messages_die_with_the_last_receiver() {
    watchdog!();
    for (_, make) in flavours::<Payload>() {
        let ledger = Ledger::new();
        let (tx, rx) = make();
        let event = rx.clone().into_recv();
        for n in 0..10 {
            drop(tx.try_send(ledger.payload(n)));
        }
        let live = ledger.live();
        drop(rx);
        assert_eq!(ledger.live(), live, "an event may still receive them");
        drop(event);
        assert_eq!(ledger.live(), 0, "nobody can receive them, and the sender is still here");
        assert!(tx.is_closed());
        ledger.check();
    }
}

/// Messages that hold ends of their own channel do not keep it alive once
/// nobody can receive them.
#[test]
fn messages_may_hold_their_own_channel() {
    watchdog!();
    struct Letter {
        _reply: Option<Sender<Self>>,
        dropped: Arc<AtomicUsize>,
    }
    impl Drop for Letter {
        fn drop(&mut self) {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
    let dropped = Arc::new(AtomicUsize::new(0));
    let (tx, rx) = mailbox::<Letter>();
    for _ in 0..10 {
        let letter = Letter { _reply: Some(tx.clone()), dropped: dropped.clone() };
        assert!(tx.try_send(letter).is_ok());
    }
    drop(tx);
    drop(rx);
    assert_eq!(dropped.load(Ordering::Relaxed), 10);
}

/// A payload whose destructor uses the channel that it lies in.
#[test]
fn destructors_may_use_the_channel() {
    watchdog!();
    struct Knock(Option<(Sender<Self>, Receiver<Self>)>, Arc<AtomicUsize>);
    impl Drop for Knock {
        fn drop(&mut self) {
            self.1.fetch_add(1, Ordering::Relaxed);
            if let Some((tx, _rx)) = self.0.take() {
                drop(tx.try_send(Knock(None, self.1.clone())));
                tx.close();
            }
        }
    }
    let count = Arc::new(AtomicUsize::new(0));
    let (tx, rx) = mailbox();
    // Sent through another channel, so that it does not keep itself alive.
    let (outer_tx, outer_rx) = mailbox();
    outer_tx.try_send(Knock(Some((tx, rx)), count.clone())).unwrap();
    drop(outer_rx);
    assert_eq!(count.load(Ordering::Relaxed), 2);
    // And a failed send drops inside of an executor.
    machine(1).block_on(async {
        let (tx, rx) = channel();
        rx.close();
        drop(outer_tx.send(Knock(Some((tx, rx)), count.clone())).await);
    });
    assert_eq!(count.load(Ordering::Relaxed), 4);
}

/// Closing races with senders and receivers: every message is received or
/// comes back.
#[test]
fn closing_in_the_middle_loses_nothing() {
    watchdog!();
    for (name, make) in flavours::<Payload>() {
        for round in 0..30 {
            let ledger = Ledger::new();
            let (tx, rx) = make();
            let (sent, received) = std::thread::scope(|scope| {
                let senders: Vec<_> = (0..2)
                    .map(|_| {
                        let (tx, ledger) = (tx.clone(), ledger.clone());
                        scope.spawn(move || {
                            (0..2000)
                                .take_while(|n| tx.send(ledger.payload(*n)).sync_blocking().is_ok())
                                .count()
                        })
                    })
                    .collect();
                let receivers: Vec<_> = (0..2)
                    .map(|_| {
                        let rx = rx.clone();
                        scope.spawn(move || std::iter::from_fn(|| rx.recv().sync_blocking().ok()).count())
                    })
                    .collect();
                std::thread::sleep(std::time::Duration::from_micros(50 * round));
                if round % 2 == 0 {
                    tx.close()
                } else {
                    rx.close()
                }
                let sum = |threads: Vec<std::thread::ScopedJoinHandle<'_, usize>>| {
                    threads.into_iter().map(|thread| thread.join().unwrap()).sum::<usize>()
                };
                (sum(senders), sum(receivers))
            });
            assert_eq!(sent, received, "{name}");
            ledger.check();
        }
    }
}

/// A message that may still come back is not the end of the channel.
#[test]
fn closed_waits_for_messages_on_their_way() {
    watchdog!();
    use std::task::{Context, Waker};
    let mut cx = Context::from_waker(Waker::noop());
    let (tx, rx) = channel();
    let mut first = Box::pin(rx.recv().sync());
    assert!(first.as_mut().poll(&mut cx).is_pending());
    let mut second = Box::pin(rx.recv().sync());
    assert!(second.as_mut().poll(&mut cx).is_pending());
    tx.try_send(1).unwrap();
    drop(tx);
    assert!(second.as_mut().poll(&mut cx).is_pending(), "the message may come back");
    assert_eq!(rx.try_recv(), Err(TryRecvError::Empty));
    drop(first);
    assert_eq!(second.as_mut().poll(&mut cx), std::task::Poll::Ready(Ok(1)));
    assert_eq!(rx.try_recv(), Err(TryRecvError::Closed));
}

/// Events are counted for as long as a channel lives.
#[test]
fn events_are_counted_beyond_their_reports() {
    watchdog!();
    let (tx, rx) = mailbox();
    for n in 0..20_000u32 {
        tx.try_send(n).unwrap();
        drop(rx.recv());
        assert_eq!(rx.try_recv(), Ok(n));
    }
    let last = rx.into_recv();
    assert!(!tx.is_closed());
    drop(last);
    assert!(tx.is_closed());
}
