//! Loom models of gathering: INV-SLOT, and the last one to leave.
//!
//! How to run them: see `sync/models.rs`.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::{Pin, pin};
use std::task::{Context, Poll};

use loom::sync::Arc as LoomArc;
use loom::sync::atomic::AtomicUsize;
use loom::thread;

use super::direct::Direct;
use super::shapes::{Alone, Gathers};
use super::shared::{Discard, Member, Share, Slots, To};
use super::{GatherBranch, Place, Reclaim};
use crate::event::{Always, Event, Offer, always, into_future};
use crate::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use crate::sync::models::{Message, block_on, check, needs, poll_once};

/// A gathering whose members the model runs itself.
struct Begun<P: Gathers, R: Reclaim<P::Partial>>(Share<P::Slots, R>);

into_future!([P: Gathers, R: Reclaim<P::Partial>] Begun<P, R>, P::Output);

// SAFETY: the branch holds a share, which is `Send` when the events are, as for `Gather`.
unsafe impl<P: Gathers, R: Reclaim<P::Partial>> Event for Begun<P, R> {
    type Branch = GatherBranch<P, R>;

    fn into_branch(self) -> Self::Branch {
        GatherBranch {
            events: None,
            direct: Place::new(),
            shared: Some(self.0),
            reclaim: None,
            offer: Offer::new(),
            lost: false,
        }
    }
}

/// A gathering without threads, which needs no machine.
pub(crate) struct Bare<P: Gathers, R: Reclaim<P::Partial>>(P, R);

impl<P: Gathers> Bare<P, Discard> {
    pub(crate) fn gather(events: P) -> Self {
        Self(events, Discard)
    }

    pub(crate) fn reclaim<F: FnOnce(P::Partial) + Send + 'static>(self, back: F) -> Bare<P, To<F>> {
        Bare(self.0, To(back))
    }
}

into_future!([P: Gathers, R: Reclaim<P::Partial>] Bare<P, R>, P::Output);

// SAFETY: the branch holds the events' branches, which are `Send` when the events are, as for `Gather`.
unsafe impl<P: Gathers, R: Reclaim<P::Partial>> Event for Bare<P, R> {
    type Branch = GatherBranch<P, R>;

    fn into_branch(self) -> Self::Branch {
        let mut direct = Place::new();
        // SAFETY: `put` initializes its memory. The gathering may be moved until it begins.
        unsafe { direct.fill(|place| Direct::put(self.0, place)) };
        GatherBranch {
            events: None,
            direct,
            shared: None,
            reclaim: Some(self.1),
            offer: Offer::new(),
            lost: false,
        }
    }
}

/// Makes a member's share. Called once for each slot.
fn member_of<S: Slots, R: Reclaim<S::Partial>>(owner: &Share<S, R>) -> Share<S, R> {
    // SAFETY: each model calls this once for each slot.
    unsafe { owner.of_member() }
}

/// A future that is ready at its second poll. Each poll touches the message.
struct Twice {
    message: Option<Message>,
    polled: bool,
}

impl Twice {
    fn new() -> Self {
        Self { message: Some(Message::new(7)), polled: false }
    }
}

impl Future for Twice {
    type Output = Message;

    fn poll(mut self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<Message> {
        let number = self.message.as_ref().map(Message::number);
        assert_eq!(number, Some(7));
        if std::mem::replace(&mut self.polled, true) {
            return Poll::Ready(self.message.take().expect("polled until ready"));
        }
        Poll::Pending
    }
}

/// INV-SLOT: the owner gives up while the member polls, waits, ends or has ended. The future is dropped once, with
/// exclusive access. An output is reclaimed once, by the last one to leave.
fn abandoned() {
    let reclaimed = LoomArc::new(AtomicUsize::new(0));
    let count = LoomArc::clone(&reclaimed);
    let back = To(move |message: Option<Message>| {
        assert_eq!(message.expect("an output").number(), 7);
        count.fetch_add(1, SeqCst);
    });
    let shared = Share::new(Alone(Twice::new()).into_slots(), back, false);
    let member = Member::new(member_of(&shared), |slots, _| slots.slot(), 0);
    let other = thread::spawn(move || {
        let mut member = pin!(member);
        poll_once(member.as_mut()).is_ready() || poll_once(member.as_mut()).is_ready()
    });
    drop(pin!(Begun::<Alone<Twice>, _>(shared).sync()));
    assert!(other.join().unwrap(), "the member ends");
    assert!(reclaimed.load(SeqCst) <= 1);
}

#[test]
fn an_abandoned_slot_ends_once() {
    check(abandoned);
}

#[test]
fn slot_pause_is_needed() {
    needs("slot_pause", Relaxed, abandoned);
}

#[test]
fn slot_abort_is_needed() {
    needs("slot_abort", Relaxed, abandoned);
}

/// The thread that frees the state sees every use end.
#[test]
fn gather_free_is_needed() {
    needs("gather_free", Relaxed, abandoned);
}

/// The thread that reclaims sees the outputs of all.
#[test]
fn gather_leave_acquires() {
    needs("gather_leave", Release, abandoned);
}

type Two = [Always<Message>; 2];

fn two(shared: &Share<<Two as Gathers>::Slots, Discard>, index: usize) -> impl Future<Output = ()> + use<> {
    Member::new(member_of(shared), |slots: &<Two as Gathers>::Slots, index| slots.slot(index), index)
}

/// Two members end on two processors. The owner is woken once, and sees both outputs.
fn both() {
    let events = [always(Message::new(1)), always(Message::new(2))];
    let shared = Share::new(events.into_slots(), Discard, false);
    let (first, second) = (two(&shared, 0), two(&shared, 1));
    let other = thread::spawn(move || block_on(first));
    let third = thread::spawn(move || block_on(second));
    let [one, two] = block_on(Begun::<Two, _>(shared));
    assert_eq!((one.number(), two.number()), (1, 2));
    other.join().unwrap();
    third.join().unwrap();
}

#[test]
fn the_owner_sees_all_outputs() {
    check(both);
}

#[test]
fn gather_leave_releases() {
    needs("gather_leave", Acquire, both);
}

#[test]
fn gather_observe_is_needed() {
    needs("gather_observe", Relaxed, both);
}

/// A member panics. The owner gets the panic, whatever the other member does.
fn failed() {
    let shared = Share::new(Alone(Bad).into_slots(), Discard, false);
    let member = Member::new(member_of(&shared), |slots, _| slots.slot(), 0);
    let other = thread::spawn(move || block_on(member));
    let outcome = catch_unwind(AssertUnwindSafe(|| block_on(Begun::<Alone<Bad>, _>(shared))));
    assert_eq!(outcome.err().expect("a panic").downcast_ref::<&str>(), Some(&"bad"));
    other.join().unwrap();
}

struct Bad;

impl Future for Bad {
    type Output = Message;

    fn poll(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<Message> {
        resume_unwind(Box::new("bad"))
    }
}

#[test]
fn the_owner_gets_the_panic() {
    check(failed);
}
