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

/// A party moves to another waker while it is reserved. It is woken nevertheless, or sees the result.
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

/// A place whose waiters want different things, as in a space of tuples.
mod shelf {
    use std::ops::DerefMut;

    use crate::channel::place::{Operation, Place, PlaceBranch, Queue};
    use crate::event::{Event, WakeList, into_future};
    use crate::sync::{Arc, Lock};

    #[derive(Clone)]
    pub(super) struct Shelf(Arc<Lock<State>>);

    pub(super) struct State {
        items: Vec<u32>,
        waiting: Queue<Note>,
    }

    pub(super) struct Note {
        wanted: u32,
        got: Option<u32>,
    }

    impl State {
        fn put(&mut self, item: u32, wakes: &mut WakeList) {
            let is_wanted = |note: &Note| note.wanted == item;
            if self.waiting.give_where(wakes, is_wanted, |note| note.got = Some(item)).is_none() {
                self.items.push(item);
            }
        }
    }

    impl Shelf {
        pub(super) fn new() -> Self {
            Self(Arc::new(Lock::new(State { items: Vec::new(), waiting: Queue::new() })))
        }

        pub(super) fn put(&self, item: u32) {
            let mut wakes = WakeList::new();
            self.0.lock().put(item, &mut wakes);
            wakes.queue();
        }

        pub(super) fn take(&self, wanted: u32) -> Take {
            Take { place: self.clone(), note: Note { wanted, got: None } }
        }

        pub(super) fn has(&self, item: u32) -> bool {
            self.0.lock().items.contains(&item)
        }
    }

    // SAFETY: the queue is a field of the state, which stays behind the lock; numbers are compared under it.
    unsafe impl Place for Shelf {
        type Note = Note;
        type State = State;

        fn lock(&self) -> impl DerefMut<Target = State> {
            self.0.lock()
        }

        fn queue<'a>(&self, state: &'a mut State, _note: &Note) -> &'a mut Queue<Note> {
            &mut state.waiting
        }

        fn is_ready(&self, state: &State, note: &Note) -> bool {
            state.items.contains(&note.wanted)
        }

        fn act(&self, state: &mut State, note: &mut Note, _wakes: &mut WakeList) {
            state.items.retain(|item| *item != note.wanted);
            note.got = Some(note.wanted);
        }

        fn undo(&self, state: &mut State, note: &mut Note, wakes: &mut WakeList) {
            if let Some(item) = note.got.take() {
                state.put(item, wakes);
            }
        }
    }

    pub(super) struct Take {
        place: Shelf,
        note: Note,
    }

    impl Operation for Take {
        type Place = Shelf;
        type Output = u32;

        fn finish(_: &Shelf, note: &mut Note) -> u32 {
            note.got.take().expect("committed")
        }
    }

    into_future!([] Take, u32);

    // SAFETY: the branch holds the same share and note.
    unsafe impl Event for Take {
        type Branch = PlaceBranch<Self>;

        fn into_branch(self) -> Self::Branch {
            PlaceBranch::new(self.place, self.note)
        }
    }
}

/// A waiter is passed over, one behind it is called off, and the last gets the item, or it stays.
#[test]
fn a_waiter_in_the_middle_of_a_queue_is_served_or_called_off() {
    check(|| {
        let (shelf, off) = (shelf::Shelf::new(), CVar::new());
        let mut other = pin!(shelf.take(1).into_future());
        let mut choice = pin!(choose_biased((off.wait().wrap(|()| 0), shelf.take(2))).sync());
        assert!(poll_once(other.as_mut()).is_pending() && poll_once(choice.as_mut()).is_pending());
        let putter = {
            let shelf = shelf.clone();
            thread::spawn(move || shelf.put(2))
        };
        off.set();
        let got = block_on(choice);
        putter.join().unwrap();
        assert_eq!(shelf.has(2), got == 0, "the item is taken, or on the shelf");
        shelf.put(1);
        assert_eq!(poll_once(other), Poll::Ready(1), "it still waits");
    });
}

/// A waiter in the middle of the queue is dropped while its item comes: the next one gets it.
#[test]
fn a_waiter_in_the_middle_of_a_queue_is_dropped() {
    check(|| {
        let shelf = shelf::Shelf::new();
        let mut other = pin!(shelf.take(1).into_future());
        let mut dropped = Box::pin(shelf.take(2).into_future());
        let mut next = pin!(shelf.take(2).into_future());
        assert!(poll_once(other.as_mut()).is_pending() && poll_once(dropped.as_mut()).is_pending());
        assert!(poll_once(next.as_mut()).is_pending());
        let putter = {
            let shelf = shelf.clone();
            thread::spawn(move || shelf.put(2))
        };
        drop(dropped);
        assert_eq!(block_on(next), 2);
        putter.join().unwrap();
        assert!(!shelf.has(2) && poll_once(other).is_pending());
    });
}
