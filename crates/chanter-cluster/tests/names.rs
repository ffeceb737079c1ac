//! Names that are given away again: what is meant for the dead does not reach the living (law D5, INV-EPOCH).

use std::future::{IntoFuture, poll_fn};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Poll;

use chanter::prelude::*;
use chanter_cluster::engine::ProcessId;
use chanter_cluster::{ANY_TAG, ANYONE, OpenError, Process, SendError, ThreadName, local};

const TAG: u32 = 1;

fn machine(vps: usize) -> Machine {
    Machine::builder().vps(vps).build().unwrap()
}

async fn is_pending<F: Future>(future: &mut Pin<&mut F>) -> bool {
    poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx).is_pending())).await
}

/// Inboxes are opened and closed in one place, while others send to all that had it: each message says whom it is for.
#[test]
fn each_message_reaches_whom_it_is_for() {
    let inboxes: u32 = if cfg!(miri) { 20 } else { 2_000 };
    machine(4).block_on(async move {
        let here = local(1).remove(0);
        let names: Arc<Mutex<Vec<ThreadName>>> = Arc::default();
        let is_over = Arc::new(AtomicBool::new(false));
        let [sent, gone] = [(); 2].map(|()| Arc::new(AtomicU64::new(0)));
        let senders: Vec<_> = (0..3_usize)
            .map(|sender| {
                let me = here.inbox().unwrap();
                let (names, is_over) = (Arc::clone(&names), Arc::clone(&is_over));
                let (sent, gone) = (Arc::clone(&sent), Arc::clone(&gone));
                spawn(async move {
                    let mut step = sender;
                    while !is_over.load(Ordering::Relaxed) {
                        let to = {
                            let names = names.lock().unwrap();
                            // Mostly one of the last.
                            let back = if step.is_multiple_of(7) { step } else { step % 3 };
                            step += 1;
                            names.iter().rev().nth(back % names.len().max(1)).copied()
                        };
                        let Some(to) = to else {
                            yield_now().await;
                            continue;
                        };
                        match me.send(to, TAG, &to).await {
                            Ok(()) => sent.fetch_add(1, Ordering::Relaxed),
                            Err(SendError::Gone(name)) => {
                                assert_eq!(name, to);
                                gone.fetch_add(1, Ordering::Relaxed)
                            }
                            Err(error) => panic!("{error}"),
                        };
                    }
                })
            })
            .collect();
        let mut received = 0;
        for opened in 0..inboxes {
            let inbox = here.inbox().unwrap();
            names.lock().unwrap().push(inbox.name());
            for _ in 0..1 + opened % 5 {
                let got = inbox.recv::<ThreadName>(ANYONE, ANY_TAG).await.unwrap();
                assert_eq!(got.value, inbox.name());
                received += 1;
            }
        }
        is_over.store(true, Ordering::Relaxed);
        for sender in senders {
            sender.join().await.unwrap();
        }
        assert!(sent.load(Ordering::Relaxed) >= received);
        // The thread that had the first name is gone for good.
        let first = names.lock().unwrap()[0];
        let me = here.inbox().unwrap();
        assert_eq!(me.send(first, TAG, &first).await, Err(SendError::Gone(first)));
    });
}

/// A receive that outlives its inbox waits for ever, and gets nothing of the next one in its place.
#[test]
fn who_waits_in_a_closed_inbox_gets_nothing() {
    machine(1).block_on(async {
        let here = local(1).remove(0);
        let me = here.inbox().unwrap();
        let first = here.inbox().unwrap();
        let name = first.name();
        let mut waits = pin!(first.recv::<u32>(ANYONE, TAG).into_future());
        let late = first.recv::<u32>(ANYONE, TAG);
        let posted = first.irecv::<u32>(ANYONE, TAG);
        assert!(is_pending(&mut waits).await);
        drop(first);
        let second = here.inbox().unwrap();
        assert_eq!(second.name().thread.index, name.thread.index, "it has the place of the first one");
        let mut late = pin!(late.into_future());
        assert!(is_pending(&mut late).await);
        me.send(second.name(), TAG, &7_u32).await.unwrap();
        assert!(is_pending(&mut waits).await && is_pending(&mut late).await && !posted.is_done());
        assert_eq!(second.len(), 1);
        assert_eq!(second.recv::<u32>(ANYONE, TAG).await.unwrap().value, 7);
        assert_eq!(me.send(name, TAG, &7_u32).await, Err(SendError::Gone(name)));
    });
}

/// A send that waits for room when the inbox is closed is told so, and one that is made before and awaited afterwards, too.
#[test]
fn who_sends_to_one_that_closes_is_told() {
    machine(1).block_on(async {
        let here = local(1).remove(0);
        let (me, other) = (here.inbox().unwrap(), here.inbox().unwrap());
        let name = other.name();
        let early = me.send(name, TAG, &0_u32);
        while me.send(name, TAG, &1_u32).try_sync().is_some() {}
        let mut waits = pin!(me.send(name, TAG, &2_u32).into_future());
        assert!(is_pending(&mut waits).await);
        drop(other);
        let next = here.inbox().unwrap();
        assert_eq!(waits.await, Err(SendError::Gone(name)));
        assert_eq!(early.await, Err(SendError::Gone(name)));
        assert!(next.is_empty());
    });
}

/// What a choice has taken and not chosen is back in its place, whatever the values' length.
#[test]
fn values_of_any_length_come_as_they_were_sent() {
    machine(1).block_on(async {
        let here = local(1).remove(0);
        let (me, other) = (here.inbox().unwrap(), here.inbox().unwrap());
        for length in [0, 1, 62, 63, 64, 65, 1000, 1100, 9000, 60_000] {
            let value: Vec<u8> = (0..length).map(|at| at as u8).collect();
            for _ in 0..3 {
                me.send(other.name(), TAG, &value).await.unwrap();
            }
            let first = choose((
                other.recv::<Vec<u8>>(ANYONE, TAG).wrap(|got| got.unwrap().value),
                other.recv::<Vec<u8>>(me.name(), TAG).wrap(|got| got.unwrap().value),
            ));
            assert_eq!(first.await, value);
            assert_eq!(other.recv::<Vec<u8>>(ANYONE, TAG).await.unwrap().value, value);
            let wrong = other.recv::<(u64, String, u64, u64)>(ANYONE, TAG).await;
            assert!(length > 3 || wrong.is_err());
        }
        assert!(other.is_empty());
    });
}

/// The main inbox is there before its process takes it, and gone when it is dropped.
#[chanter::test]
async fn the_main_inbox_has_a_known_name() {
    let [first, second] = <[Process; 2]>::try_from(local(2)).unwrap();
    let me = first.main_inbox().unwrap();
    assert_eq!(me.name(), second.main_of(0));
    assert_eq!(first.main_inbox().unwrap_err(), OpenError::MainTaken);
    for number in 0..10_u32 {
        me.send(first.main_of(1), 1, &number).await.unwrap();
    }
    let there = second.main_inbox().unwrap();
    for number in 0..10 {
        let got = there.recv::<u32>(second.main_of(0), 1).await.unwrap();
        assert_eq!((got.from, got.value), (me.name(), number));
    }
    assert_eq!(me.send(first.main_of(2), 1, &0).await, Err(SendError::NoSuchProcess(ProcessId(2))));
    drop(there);
    let gone = loop {
        match me.send(first.main_of(1), 1, &0).await {
            Ok(()) => yield_now().await,
            Err(gone) => break gone,
        }
    };
    assert_eq!(gone, SendError::Gone(first.main_of(1)));
    assert_eq!(second.main_inbox().unwrap_err(), OpenError::MainTaken);
    // To oneself.
    me.send(first.main_of(0), 2, &5_u32).await.unwrap();
    assert_eq!(me.recv::<u32>(ANYONE, 2).await.unwrap().value, 5);
}
