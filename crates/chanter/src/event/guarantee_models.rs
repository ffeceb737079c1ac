//! Loom models of guarantee 1 for the base events. There is no loss, no duplication and no leak, whether a
//! synchronization ends, or is dropped at any step of its partner's.
//!
//! This is a small table, as `tests/guarantees` is a large one. Each base event, in each shape, has a partner on
//! another thread. It is polled once or twice, and then dropped, or goes on. Loom puts the partner's every access
//! before, between and after those of the owner, and checks that each message is freed. How to run them: see
//! `sync/models.rs`.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::Pin;
use std::rc::Rc;
use std::task::Poll;

use loom::thread;

use super::{Event, Nack, always, choose_biased, never, with_nack};
use crate::channel::{Receiver, Sender, bounded, channel, mailbox};
use crate::sync::atomic::Ordering::Relaxed;
use crate::sync::models::{Message, block_on, check, needs, poll_once};
use crate::{Closed, IVar};

/// A base event and its surroundings. Every event yields a number: that of its message, or 1.
struct Row<E> {
    event: E,
    /// The partner's part, on its own thread. It returns whether it has committed. If `true` is passed, it waits
    /// until it has.
    partner: Box<dyn FnOnce(bool) -> bool + Send>,
    /// Accounts for the message, given the number that was taken, and whether the partner has committed.
    verify: Box<dyn FnOnce(Option<u32>, bool)>,
}

fn number(message: Result<Message, Closed>) -> u32 {
    message.expect("nobody closes it").number()
}

fn receive(pair: fn() -> (Sender<Message>, Receiver<Message>)) -> Row<impl Event<Output = u32>> {
    let (tx, rx) = pair();
    // Dropping the last sender closes the channel, and that comes later.
    let keep = tx.clone();
    Row {
        event: rx.clone().into_recv().wrap(number),
        partner: Box::new(move |patient| {
            let message = Message::new(1);
            if patient { block_on(tx.send(message)).is_ok() } else { tx.try_send(message).is_ok() }
        }),
        verify: Box::new(move |taken, sent| {
            let left = rx.try_recv().ok().map(|message| message.number());
            assert_eq!(taken.or(left), sent.then_some(1), "lost");
            assert!(taken.is_none() || left.is_none(), "doubled");
            drop(keep);
        }),
    }
}

fn send(pair: fn() -> (Sender<Message>, Receiver<Message>), full: bool) -> Row<impl Event<Output = u32>> {
    let (tx, rx) = pair();
    if full {
        tx.try_send(Message::new(2)).unwrap_or_else(|_| panic!("one fits"));
    }
    let far = rx.clone();
    Row {
        event: tx.clone().into_send(Message::new(1)).wrap(|sent| u32::from(sent.is_ok())),
        partner: Box::new(
            move |patient| {
                if patient { block_on(far.recv()).is_ok() } else { far.try_recv().is_ok() }
            },
        ),
        verify: Box::new(move |taken, received| {
            let left = rx.try_recv().ok().map(|message| message.number());
            assert!(rx.try_recv().is_err(), "doubled");
            if full {
                // The first message has been received. The second is there if it was sent.
                assert!(received && (taken.is_none() || left == Some(1)), "sent, and lost");
            } else {
                assert!(taken.is_none() || received, "sent, and not received");
                assert!(left.is_none(), "a ghost waits");
            }
            drop(tx);
        }),
    }
}

/// A send from a place. The message is in the place, or has been received.
fn send_from(
    pair: fn() -> (Sender<Message>, Receiver<Message>),
    full: bool,
) -> Row<impl Event<Output = u32>> {
    let (tx, rx) = pair();
    if full {
        tx.try_send(Message::new(2)).unwrap_or_else(|_| panic!("one fits"));
    }
    let far = rx.clone();
    let tx = Box::into_raw(Box::new(tx));
    let place = Box::into_raw(Box::new(Some(Message::new(1))));
    // SAFETY: both are freed in `verify`, after the event is gone.
    let event = unsafe { &*tx }.send_from(unsafe { &mut *place });
    Row {
        event: event.wrap(|sent| u32::from(sent.is_ok())),
        partner: Box::new(
            move |patient| {
                if patient { block_on(far.recv()).is_ok() } else { far.try_recv().is_ok() }
            },
        ),
        verify: Box::new(move |taken, received| {
            // SAFETY: the event is gone, so the boxes have no other user.
            let (_tx, place) = unsafe { (Box::from_raw(tx), Box::from_raw(place)) };
            let left = rx.try_recv().ok().map(|message| message.number());
            // The partner of a full channel has received the other message.
            let gone = if full { left == Some(1) } else { received };
            assert_eq!(place.is_none(), gone, "lost, or doubled");
            assert!(gone || taken.is_none(), "sent, and not received");
            assert!(full || left.is_none(), "a ghost waits");
        }),
    }
}

fn read() -> Row<impl Event<Output = u32>> {
    let ivar = IVar::new();
    let (event, far) = (ivar.get(), ivar.clone());
    Row {
        event,
        partner: Box::new(move |_| far.put(1).is_ok()),
        verify: Box::new(move |_, put| assert!(put && ivar.get().try_sync() == Some(1))),
    }
}

/// The record of what the surroundings of a synchronization were told.
#[derive(Clone, Default)]
struct Witness {
    nack: Rc<RefCell<Option<Nack>>>,
    saved: Rc<Cell<Option<u32>>>,
}

type Wait = Pin<Box<dyn Future<Output = u32>>>;

const SHAPES: usize = 6;

fn shape<E: Event<Output = u32> + 'static>(number: usize, event: E, witness: &Witness) -> Wait {
    let witness = witness.clone();
    match number {
        0 => Box::pin(event.sync()),
        1 => Box::pin(choose_biased((never(), event)).sync()),
        2 => {
            // Another receive stands beside it, and is offered, too.
            let (_tx, rx) = channel::<Message>();
            Box::pin(async move {
                let _tx = _tx;
                choose_biased((rx.recv().wrap(self::number), event)).await
            })
        }
        3 => Box::pin(
            with_nack(move |nack| {
                *witness.nack.borrow_mut() = Some(nack);
                event
            })
            .sync(),
        ),
        4 => Box::pin(
            choose_biased((
                never(),
                event.wrap(move |out| -> u32 {
                    witness.saved.set(Some(out));
                    // Without the panic hook, which would report it each time.
                    resume_unwind(Box::new(Planned))
                }),
            ))
            .sync(),
        ),
        _ => Box::pin(
            choose_biased((
                with_nack(move |nack| {
                    *witness.nack.borrow_mut() = Some(nack);
                    event
                }),
                // The rival may have come before the partner.
                always(0),
            ))
            .sync(),
        ),
    }
}

struct Planned;

/// Returns `Some` if the synchronization has ended, with the number that it had taken.
fn step(poll: impl FnOnce() -> Poll<u32>, witness: &Witness) -> Option<Option<u32>> {
    match catch_unwind(AssertUnwindSafe(poll)) {
        Ok(Poll::Pending) => None,
        // 0 is the rival's number.
        Ok(Poll::Ready(out)) => Some((out > 0).then_some(out)),
        Err(payload) if payload.is::<Planned>() => Some(witness.saved.take()),
        Err(payload) => resume_unwind(payload),
    }
}

/// The ways to end: the number of polls, and whether the synchronization then goes on (else it is dropped).
const ENDS: [(usize, bool); 5] = [(0, false), (1, false), (2, false), (0, true), (1, true)];

fn every_end<E: Event<Output = u32> + 'static>(make: impl Fn() -> Row<E> + Clone + Send + Sync + 'static) {
    for name in 0..SHAPES {
        for (polls, goes_on) in ENDS {
            let make = make.clone();
            check(move || {
                let Row { event, partner, verify } = make();
                let witness = Witness::default();
                let mut wait = shape(name, event, &witness);
                let partner = thread::spawn(move || partner(goes_on && name < 5));
                let mut end = None;
                for _ in 0..polls {
                    end = end.or_else(|| step(|| poll_once(Pin::new(&mut wait)), &witness));
                }
                if goes_on && end.is_none() {
                    end = step(|| Poll::Ready(block_on(wait.as_mut())), &witness);
                }
                drop(wait);
                let committed = partner.join().unwrap();
                let taken = end.flatten();
                if let Some(nack) = witness.nack.take() {
                    assert_eq!(nack.is_enabled(), taken.is_none(), "a nack that lies");
                }
                verify(taken, committed);
            });
        }
    }
}

#[test]
fn receives_end_in_every_way() {
    every_end(|| receive(channel));
}

#[test]
fn bounded_receives_end_in_every_way() {
    every_end(|| receive(|| bounded(1)));
}

#[test]
fn mailbox_receives_end_in_every_way() {
    every_end(|| receive(mailbox));
}

#[test]
fn sends_end_in_every_way() {
    every_end(|| send(channel, false));
}

#[test]
fn bounded_sends_end_in_every_way() {
    every_end(|| send(|| bounded(1), true));
}

#[test]
fn reads_end_in_every_way() {
    every_end(read);
}

/// INV-PLACED.
#[test]
fn sends_from_places_end_in_every_way() {
    every_end(|| send_from(channel, false));
}

/// INV-PLACED.
#[test]
fn bounded_sends_from_places_end_in_every_way() {
    every_end(|| send_from(|| bounded(1), true));
}

/// INV-PLACED, where the send is dropped while its partner takes the message. The owner sees the partner's action
/// under the lock.
fn a_place_is_left() {
    let (tx, rx) = channel::<Message>();
    let mut place = Some(Message::new(1));
    let receiver = thread::spawn(move || rx.try_recv().ok().map(|message| message.number()));
    let mut wait = Box::pin(tx.send_from(&mut place).sync());
    let _ = poll_once(wait.as_mut());
    drop(wait);
    let returned = place.take().map(|message| message.number());
    let received = receiver.join().unwrap();
    assert_eq!(returned.is_some(), received.is_none(), "lost, or doubled");
}

#[test]
fn a_place_is_left_in_every_way() {
    check(a_place_is_left);
}

/// INV-PLACED, where nothing is dropped. The owner reads the partner's result without the lock.
fn a_place_is_emptied() {
    let (tx, rx) = channel::<Message>();
    let receiver = thread::spawn(move || block_on(rx.recv()).map(|message| message.number()));
    let mut place = Some(Message::new(1));
    assert_eq!(block_on(tx.send_from(&mut place)), Ok(()));
    assert!(place.is_none(), "doubled");
    assert_eq!(receiver.join().unwrap(), Ok(1));
}

#[test]
fn a_place_is_emptied_once() {
    check(a_place_is_emptied);
}

#[test]
fn a_place_needs_publish() {
    needs("group_publish", Relaxed, a_place_is_emptied);
}

#[test]
fn a_place_needs_observe() {
    needs("group_observe", Relaxed, a_place_is_emptied);
}
