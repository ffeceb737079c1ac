//! A base event of another crate: an inbox whose receivers match messages by tag. It joins in `choose`, and loses
//! nothing.

use std::ops::DerefMut;
use std::pin::Pin;
#[cfg(not(loom))]
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use chanter::base::{Lock, Operation, Place, PlaceBranch, Queue, WakeList, synchronization};
use chanter::prelude::*;

/// The inbox. Clones share it.
#[derive(Clone)]
struct Inbox(Arc<Lock<Messages>>);

struct Messages {
    unclaimed: Vec<(u32, String)>,
    receivers: Queue<Note>,
}

/// The tag that a receiver wants, and the text that it got.
struct Note {
    tag: u32,
    got: Option<String>,
}

impl Messages {
    fn put(&mut self, tag: u32, text: String, wakes: &mut WakeList) {
        let mut text = Some(text);
        self.receivers.give_where(wakes, |note| note.tag == tag, |note| note.got = text.take());
        self.unclaimed.extend(text.map(|text| (tag, text)));
    }
}

impl Inbox {
    fn new() -> Self {
        Self(Arc::new(Lock::new(Messages { unclaimed: Vec::new(), receivers: Queue::new() })))
    }

    fn put(&self, tag: u32, text: &str) {
        let mut wakes = WakeList::new();
        self.0.lock().put(tag, text.to_owned(), &mut wakes);
        wakes.queue();
    }

    /// The event of receiving the first message with this tag.
    fn recv(&self, tag: u32) -> Recv {
        Recv { inbox: self.clone(), tag }
    }
}

// SAFETY: the one queue is a field of the state, which stays behind the lock. Numbers are compared and strings moved
// under it.
unsafe impl Place for Inbox {
    type Note = Note;
    type State = Messages;

    fn lock(&self) -> impl DerefMut<Target = Messages> {
        self.0.lock()
    }
    fn queue<'a>(&self, state: &'a mut Messages, _note: &Note) -> &'a mut Queue<Note> {
        &mut state.receivers
    }
    fn is_ready(&self, state: &Messages, note: &Note) -> bool {
        state.unclaimed.iter().any(|(tag, _)| *tag == note.tag)
    }
    fn act(&self, state: &mut Messages, note: &mut Note, _wakes: &mut WakeList) {
        let at = state.unclaimed.iter().position(|(tag, _)| *tag == note.tag);
        note.got = at.map(|at| state.unclaimed.remove(at).1);
    }
    fn undo(&self, state: &mut Messages, note: &mut Note, wakes: &mut WakeList) {
        if let Some(text) = note.got.take() {
            state.put(note.tag, text, wakes);
        }
    }
}

struct Recv {
    inbox: Inbox,
    tag: u32,
}

impl Operation for Recv {
    type Place = Inbox;
    type Output = String;

    fn finish(_inbox: &Inbox, note: &mut Note) -> String {
        note.got.take().expect("it has committed")
    }
}

impl IntoFuture for Recv {
    type Output = String;
    type IntoFuture = chanter::event::Sync<Self>;

    fn into_future(self) -> Self::IntoFuture {
        synchronization(self)
    }
}

// SAFETY: the branch holds the inbox and the tag. Its offer is reached under the inbox's lock only.
unsafe impl Event for Recv {
    type Branch = PlaceBranch<Self>;

    fn into_branch(self) -> Self::Branch {
        PlaceBranch::new(self.inbox, Note { tag: self.tag, got: None })
    }
}

fn poll<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

/// Every interleaving of a message with a choice that waits, or is dropped: `ci/loom inbox`.
#[cfg(loom)]
#[test]
fn models_of_an_inbox() {
    for drops in [false, true] {
        loom::model(move || {
            let inbox = Inbox::new();
            let other = inbox.clone();
            let giver = loom::thread::spawn(move || other.put(1, "one"));
            let mut choice = Box::pin(choose((inbox.recv(1), inbox.recv(2))).into_future());
            let mut polled = poll(choice.as_mut());
            if !drops {
                giver.join().unwrap();
                if polled.is_pending() {
                    polled = poll(choice.as_mut());
                }
                assert_eq!(polled, Poll::Ready("one".to_owned()));
                return;
            }
            drop(choice);
            giver.join().unwrap();
            assert!(polled.is_ready() || inbox.recv(1).try_sync().is_some(), "a message was lost");
        });
    }
}

#[cfg(not(loom))]
#[test]
fn it_joins_in_a_choice_and_loses_nothing() {
    let inbox = Inbox::new();
    let two = choose((inbox.recv(1), inbox.recv(2).wrap(|text| text + "!")));
    inbox.put(2, "two");
    assert_eq!(two.sync_blocking(), "two!");
    // A message that was committed to a receiver that is dropped goes to the next one.
    {
        let mut dropped = pin!(inbox.recv(3).into_future());
        assert!(poll(dropped.as_mut()).is_pending());
        inbox.put(3, "three");
        assert_eq!(inbox.recv(3).try_sync(), None);
    }
    assert_eq!(inbox.recv(3).timeout(std::time::Duration::ZERO).sync_blocking().as_deref(), Some("three"));
    assert_eq!(choose_biased((inbox.recv(1), always(String::new()))).sync_blocking(), "");
}
