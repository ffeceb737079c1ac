//! Guarantee 1 has no limit on numbers. A million messages that were committed to receives come back, in order,
//! whatever the order in which the receives are dropped. Meanwhile no receiver is told that the channel is closed.

use crate::common;

use std::collections::BTreeSet;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::Poll;

use chanter::prelude::*;
use chanter::{
    ChoiceSet, TryRecvError,
    event::{AsyncEvent, arecv},
    sync::multicast,
};
use common::{Random, alone, poll, watchdog};

type Pair<T> = (Sender<T>, Receiver<T>);

/// More than any counter of 16 bits can tell apart.
const SEVERAL: usize = if cfg!(miri) { 70 } else { 70_000 };
const MILLION: usize = if cfg!(miri) { 100 } else { 1_000_000 };

fn flavours() -> [(&'static str, Pair<usize>); 3] {
    [("rendezvous", channel()), ("bounded", bounded(2)), ("mailbox", mailbox())]
}

/// Polls each once.
fn wait<F: Future>(receive: &mut Pin<Box<F>>) {
    assert!(poll(receive).is_pending(), "nothing is there yet");
}

/// The orders in which receives are dropped.
#[derive(Clone, Copy, Debug)]
enum Order {
    FirstToLast,
    LastToFirst,
    Random,
    /// From both ends to the middle.
    Inwards,
}

impl Order {
    const ALL: [Self; 4] = [Self::FirstToLast, Self::LastToFirst, Self::Random, Self::Inwards];

    fn of(self, many: usize) -> Vec<usize> {
        let mut order: Vec<usize> = (0..many).collect();
        match self {
            Self::FirstToLast => (),
            Self::LastToFirst => order.reverse(),
            Self::Random => {
                let mut random = Random::new(16);
                (1..many).rev().for_each(|last| order.swap(last, random.below(last + 1)));
            }
            Self::Inwards => (0..many).for_each(|at| {
                order[at] = if at % 2 == 0 { at / 2 } else { many - 1 - at / 2 };
            }),
        }
        order
    }
}

/// Receives of a kind that a message has been committed to, dropped in every order.
fn come_back<'a, F: Future>(
    (tx, rx): &'a Pair<usize>,
    many: usize,
    orders: &[Order],
    receive: impl Fn(&'a Receiver<usize>) -> F,
    of: &str,
) {
    for order in orders {
        let mut receives: Vec<Option<Pin<Box<F>>>> = Vec::with_capacity(many);
        for _ in 0..many {
            let mut one = Box::pin(receive(rx));
            wait(&mut one);
            receives.push(Some(one));
        }
        (0..many).for_each(|number| tx.try_send(number).expect("somebody waits"));
        assert!(rx.is_empty(), "{of}: all are on their way");
        order.of(many).into_iter().for_each(|one| drop(receives[one].take()));
        assert_eq!(rx.len(), many, "{of}, {order:?}");
        for number in 0..many {
            assert_eq!(rx.try_recv(), Ok(number), "{of}, {order:?}");
        }
    }
}

#[test]
fn receives_of_all_kinds_give_back_in_order() {
    watchdog!(300);
    for (name, pair) in flavours() {
        let all = &Order::ALL[..];
        come_back(&pair, SEVERAL, all, |rx| rx.recv().sync(), &format!("{name}, owned"));
        come_back(
            &pair,
            SEVERAL,
            &[Order::Random],
            |rx| rx.clone().into_recv().sync(),
            &format!("{name}, owned"),
        );
        let choices =
            |rx: &'static Receiver<usize>| choose((rx.recv(), never(), rx.clone().into_recv())).sync();
        let pair: &'static Pair<usize> = Box::leak(Box::new(pair));
        come_back(pair, SEVERAL, &[Order::Random], choices, &format!("{name}, choices"));
        let sets = |rx: &'static Receiver<usize>| async move {
            let mut set = ChoiceSet::new();
            set.insert(move || rx.recv());
            set.next().await.1
        };
        come_back(pair, SEVERAL, &[Order::Random], sets, &format!("{name}, sets"));
    }
}

#[test]
fn a_million_come_back_in_order() {
    watchdog!(300);
    come_back(&channel(), MILLION, &[Order::Random], |rx| rx.recv().sync(), "rendezvous");
    come_back(&mailbox(), MILLION, &[Order::FirstToLast], |rx| rx.recv().sync(), "mailbox");
}

#[test]
fn nobody_is_told_closed_while_many_are_on_their_way() {
    watchdog!(300);
    // As many as a counter of 16 bits has values: it would say that there are none.
    const EXACTLY: usize = if cfg!(miri) { 1 << 6 } else { 1 << 16 };
    for closes in [false, true] {
        for (name, (tx, rx)) in flavours() {
            let mut receives: Vec<_> = (0..EXACTLY).map(|_| Box::pin(rx.recv().sync())).collect();
            receives.iter_mut().for_each(wait);
            (0..EXACTLY).for_each(|number| tx.try_send(number).expect("somebody waits"));
            if closes {
                tx.close();
            }
            drop(tx);
            assert_eq!(rx.try_recv(), Err(TryRecvError::Empty), "{name}: they may come back");
            let mut other = Box::pin(rx.recv().sync());
            wait(&mut other);
            // One comes back, and the rest are taken.
            drop(receives.swap_remove(7));
            assert_eq!(poll(&mut other), Poll::Ready(Ok(7)), "{name}");
            let mut last = Box::pin(rx.recv().sync());
            for mut receive in receives {
                wait(&mut last);
                assert!(matches!(poll(&mut receive), Poll::Ready(Ok(_))));
            }
            assert_eq!(poll(&mut last), Poll::Ready(Err(Closed)), "{name}");
        }
    }
}

/// A message that comes back goes before messages that were sent later. This holds even if a later one was committed
/// later and came back first.
#[test]
fn old_receives_give_back_among_new_ones() {
    watchdog!(300);
    for (name, (tx, rx)) in flavours() {
        let mut random = Random::new(65);
        // Those that hold a message, and what is in the channel: a model.
        let mut held: Vec<(usize, Pin<Box<_>>)> = Vec::new();
        let mut back = BTreeSet::new();
        let mut next = 0;
        for _ in 0..6 * SEVERAL {
            match random.below(4) {
                // The oldest stay longest.
                0 if held.len() > SEVERAL / 2 => {
                    let from = random.below(held.len());
                    let (number, receive) = held.swap_remove(from);
                    drop(receive);
                    back.insert(number);
                }
                1 if !back.is_empty() => {
                    assert_eq!(rx.try_recv().ok(), back.pop_first(), "{name}");
                }
                _ if back.is_empty() => {
                    let mut receive = Box::pin(rx.recv().sync());
                    wait(&mut receive);
                    tx.try_send(next).expect("somebody waits");
                    held.push((next, receive));
                    next += 1;
                }
                _ => (),
            }
        }
        held.into_iter().for_each(|(number, receive)| {
            drop(receive);
            back.insert(number);
        });
        for number in back {
            assert_eq!(rx.try_recv(), Ok(number), "{name}");
        }
        assert_eq!(rx.try_recv(), Err(TryRecvError::Empty), "{name}");
    }
}

/// One receive holds a message for longer than a counter of 16 bits lasts.
#[test]
fn an_old_message_comes_before_later_ones() {
    watchdog!(300);
    for (name, (tx, rx)) in flavours() {
        for between in if cfg!(miri) { [40, 65, 100] } else { [40_000, 65_536, 100_000] } {
            let commit = |number: usize| {
                let mut receive = Box::pin(rx.recv().sync());
                wait(&mut receive);
                tx.try_send(number).expect("it waits");
                receive
            };
            let old = commit(0);
            for number in 1..between {
                assert_eq!(poll(&mut commit(number)), Poll::Ready(Ok(number)));
            }
            let new = commit(between);
            drop(new);
            drop(old);
            assert_eq!([rx.try_recv(), rx.try_recv()], [Ok(0), Ok(between)], "{name}");
        }
    }
}

/// The members of a gather, which are counted, keep what they were given: see `Gather::reclaim`.
#[test]
fn gathers_hold_as_many() {
    watchdog!(300);
    alone(async {
        for (name, (tx, rx)) in flavours() {
            let (_silent, silence) = channel::<usize>();
            let back = Arc::new(Mutex::new(Vec::new()));
            let mut gathers = Vec::new();
            for _ in 0..SEVERAL {
                let back = Arc::clone(&back);
                let reclaim = move |partial: [_; 2]| back.lock().unwrap().extend(partial);
                let mut one = Box::pin(
                    gather([rx.clone().into_recv(), silence.clone().into_recv()]).reclaim(reclaim).sync(),
                );
                wait(&mut one);
                gathers.push(one);
                if gathers.len() % 100 == 0 {
                    // A turn has a limited budget of polls, so this gets a new one.
                    yield_now().await;
                }
            }
            (0..SEVERAL).for_each(|number| tx.try_send(number).expect("somebody waits"));
            gathers.reverse();
            drop(gathers);
            let back: Vec<_> = back.lock().unwrap().drain(..).flatten().collect();
            assert_eq!(back, (0..SEVERAL).rev().map(Ok).collect::<Vec<_>>(), "{name}");
            assert_eq!(rx.try_recv(), Err(TryRecvError::Empty), "{name}");
        }
    });
}

/// The implicit threads of asynchronous receives end with their machine, in whatever order.
#[test]
fn asynchronous_receives_give_back_in_order() {
    watchdog!(300);
    for (name, (tx, rx)) in flavours() {
        let taken = Arc::new(Mutex::new(BTreeSet::new()));
        alone(async {
            for _ in 0..SEVERAL {
                let taken = Arc::clone(&taken);
                let later =
                    move |got: Result<usize, Closed>| assert!(taken.lock().unwrap().insert(got.unwrap()));
                arecv(&rx).wrap_later(later).async_sync().await;
            }
            (0..SEVERAL).for_each(|number| tx.try_send(number).expect("somebody waits"));
        });
        // A few may have run before the end.
        let taken = taken.lock().unwrap();
        for number in (0..SEVERAL).filter(|number| !taken.contains(number)) {
            assert_eq!(rx.try_recv(), Ok(number), "{name}");
        }
        assert_eq!(rx.try_recv(), Err(TryRecvError::Empty), "{name}");
    }
}

/// As for channels: what readers of a log did not take comes back to each.
#[test]
fn multicast_readers_give_back_in_order() {
    watchdog!(300);
    for order in Order::ALL {
        let tx = multicast();
        let rx = tx.port();
        let mut receives: Vec<_> = (0..SEVERAL).map(|_| Some(Box::pin(rx.recv().sync()))).collect();
        receives.iter_mut().flatten().for_each(wait);
        (0..SEVERAL).for_each(|number| assert_eq!(tx.send(number), Ok(1)));
        order.of(SEVERAL).into_iter().for_each(|one| drop(receives[one].take()));
        for number in 0..SEVERAL {
            assert_eq!(rx.recv().try_sync(), Some(Ok(number)), "{order:?}");
        }
    }
}
