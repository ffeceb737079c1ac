//! The base events of channels and of what else carries messages.

use chanter::prelude::*;
use chanter::{
    ChoiceSet,
    sync::{
        Barrier, BroadcastError, CVar, CallError, MVar, SwapChannel, broadcast, multicast, rpc, swap, watch,
    },
};

use super::kit::{Facts, Kit, Message, Partner, Row};

type Pair = (Sender<Message>, Receiver<Message>);

/// Two messages, if any: each once. A receiver behind another may get the second message before the first has come
/// back.
fn in_order(got: &mut [usize], facts: Facts) {
    if facts.second {
        got.sort_unstable();
    }
    let sent: &[usize] = if facts.served { &[0, 1] } else { &[] };
    assert_eq!(got, sent, "lost, doubled, or out of order");
}

/// Receives. Two messages are sent: what comes back comes back first.
fn receive(
    pair: Pair,
    kit: &Kit,
    asynchronous: bool,
) -> Row<impl Event<Output = Result<Message, Closed>> + Send + use<>> {
    receive_by(pair, kit, asynchronous, Receiver::recv)
}

/// As [`receive`], with an event of the row's own.
fn receive_by<E: Event<Output = Result<Message, Closed>> + Send>(
    (tx, rx): Pair,
    kit: &Kit,
    asynchronous: bool,
    event: impl Fn(&'static Receiver<Message>) -> E + 'static,
) -> Row<E> {
    let partners = [Partner::new(), Partner::new()];
    // Borrowed by the events.
    let messages = leak(rx.clone());
    let (kit, theirs) = (kit.clone(), partners.clone());
    let serve = move || {
        for partner in &theirs {
            let message = kit.message();
            if asynchronous {
                tx.asend(message).unwrap();
            } else {
                partner.borrow_mut().begin(tx.clone().into_send(message));
            }
        }
    };
    let verify = move |taken: Option<_>, facts: Facts| {
        let mut got = Vec::new();
        got.extend(taken.map(|taken: Result<Message, _>| taken.unwrap().id()));
        while let Ok(message) = rx.try_recv() {
            got.push(message.id());
        }
        in_order(&mut got, facts);
        if facts.served && !asynchronous {
            assert!(partners.iter().all(|partner| matches!(partner.borrow_mut().ended(), Some(Ok(())))));
        }
    };
    Row::new(move || event(messages), serve, verify)
}

pub(crate) fn recv_rendezvous(kit: &Kit) -> Row<impl Event<Output = Result<Message, Closed>> + Send + use<>> {
    receive(channel(), kit, false)
}

pub(crate) fn recv_bounded(kit: &Kit) -> Row<impl Event<Output = Result<Message, Closed>> + Send + use<>> {
    receive(bounded(1), kit, false)
}

pub(crate) fn recv_mailbox(kit: &Kit) -> Row<impl Event<Output = Result<Message, Closed>> + Send + use<>> {
    receive(mailbox(), kit, false)
}

pub(crate) fn recv_of_asend(kit: &Kit) -> Row<impl Event<Output = Result<Message, Closed>> + Send + use<>> {
    receive(channel(), kit, true)
}

/// The events own their receiver.
pub(crate) fn recv_owned(kit: &Kit) -> Row<impl Event<Output = Result<Message, Closed>> + Send + use<>> {
    receive_by(channel(), kit, false, |rx| rx.clone().into_recv())
}

/// By a set, which outlives the synchronization: it rests, its offers in their
/// queues, and takes nothing.
fn kept(rx: &'static Receiver<Message>) -> impl Event<Output = Result<Message, Closed>> + Send + use<> {
    let (quiet, silent) = channel();
    let mut set = ChoiceSet::new();
    set.insert(move || silent.clone().into_recv());
    set.insert(|| rx.recv());
    std::mem::forget(quiet);
    Box::leak(Box::new(set)).next().wrap(|(_, got)| got)
}

pub(crate) fn kept_rendezvous(kit: &Kit) -> Row<impl Event<Output = Result<Message, Closed>> + Send + use<>> {
    receive_by(channel(), kit, false, kept)
}

pub(crate) fn kept_bounded(kit: &Kit) -> Row<impl Event<Output = Result<Message, Closed>> + Send + use<>> {
    receive_by(bounded(1), kit, false, kept)
}

/// The end of a channel: receivers that wait are told, and nothing is received.
pub(crate) fn recv_of_closed(kit: &Kit) -> Row<impl Event<Output = Result<Message, Closed>> + Send + use<>> {
    let (tx, rx) = if kit.served { channel() } else { bounded(1) };
    let (messages, mut tx) = (leak(rx.clone()), Some(tx));
    let verify = move |taken: Option<Result<Message, Closed>>, facts: Facts| {
        assert!(taken.is_none_or(|taken| taken.is_err()));
        assert_eq!(rx.is_closed(), facts.served);
    };
    Row::new(|| messages.recv(), move || drop(tx.take()), verify)
}

pub(crate) type Sent = Result<(), SendError<Message>>;

pub(crate) fn send_rendezvous(kit: &Kit) -> Row<impl Event<Output = Sent> + Send + use<>> {
    send_by(kit, Sender::send)
}

/// The events own their sender.
pub(crate) fn send_owned(kit: &Kit) -> Row<impl Event<Output = Sent> + Send + use<>> {
    send_by(kit, |tx, message| tx.clone().into_send(message))
}

fn send_by<E: Event<Output = Sent> + Send>(
    kit: &Kit,
    event: impl Fn(&'static Sender<Message>, Message) -> E + 'static,
) -> Row<E> {
    let (tx, rx) = channel();
    let events = leak(tx.clone());
    let partner = Partner::new();
    let (theirs, after, kit) = (partner.clone(), rx.clone(), kit.clone());
    let later = kit.clone();
    let serve = move || theirs.borrow_mut().begin(rx.clone().into_recv());
    let verify = move |taken: Option<Sent>, facts: Facts| {
        let got = partner.borrow_mut().ended();
        assert!(taken.is_none() || matches!(got, Some(Ok(_))), "sent, and not received");
        if got.is_some() {
            assert!(taken.is_some() || facts.waited, "received, and never sent");
        } else if facts.served {
            tx.try_send(later.message()).expect("it still waits");
            assert!(matches!(partner.borrow_mut().ended(), Some(Ok(_))));
        }
        assert!(after.try_recv().is_err(), "doubled");
    };
    Row::new(move || event(events, kit.message()), serve, verify).used_up()
}

/// The buffer is full; to serve is to receive the first.
pub(crate) fn send_bounded(kit: &Kit) -> Row<impl Event<Output = Sent> + Send + use<>> {
    let (tx, rx) = bounded(1);
    tx.try_send(kit.message()).unwrap();
    let (tx, kit, messages) = (leak(tx), kit.clone(), rx.clone());
    let verify = move |taken: Option<Sent>, facts: Facts| {
        let first = rx.try_recv().ok();
        let committed = facts.served && first.is_some();
        assert!(committed || taken.is_none(), "sent, and lost");
        assert!(!committed || taken.is_some() || facts.waited, "never sent");
        assert!(facts.served || first.unwrap().id() == 0);
        assert!(rx.try_recv().is_err(), "doubled");
    };
    Row::new(move || tx.send(kit.message()), move || assert_eq!(messages.try_recv().unwrap().id(), 0), verify)
        .used_up()
}

pub(crate) fn send_mailbox(kit: &Kit) -> Row<impl Event<Output = Sent> + Send + use<>> {
    let (tx, rx) = mailbox();
    let (tx, kit) = (leak(tx), kit.clone());
    let verify = move |taken: Option<Sent>, _| {
        let count = std::iter::from_fn(|| rx.try_recv().ok()).count();
        assert_eq!(count, usize::from(taken.is_some()));
    };
    Row::new(move || tx.send(kit.message()), || (), verify).ready()
}

/// To a channel without receivers: the message comes back.
pub(crate) fn send_to_closed(kit: &Kit) -> Row<impl Event<Output = Sent> + Send + use<>> {
    let (tx, rx) = channel();
    let (tx, kit, mut rx) = (leak(tx), kit.clone(), Some(rx));
    let verify = |taken: Option<Sent>, _| assert!(taken.is_none_or(|sent| sent.is_err()));
    Row::new(move || tx.send(kit.message()), move || drop(rx.take()), verify)
}

pub(crate) fn ivar(kit: &Kit) -> Row<impl Event<Output = Message> + Send + use<>> {
    let ivar = IVar::new();
    let (kit, events, other) = (kit.clone(), ivar.clone(), ivar.clone());
    let verify = move |taken: Option<Message>, facts: Facts| {
        assert!(taken.is_none_or(|taken| taken.id() == 0));
        assert_eq!(ivar.try_get().is_some(), facts.served);
    };
    Row::new(move || events.get(), move || other.put(kit.message()).unwrap(), verify)
}

pub(crate) fn cvar(_: &Kit) -> Row<impl Event<Output = ()> + Send + use<>> {
    let cvar = CVar::new();
    let (events, other) = (cvar.clone(), cvar.clone());
    let verify = move |_: Option<()>, facts: Facts| assert_eq!(cvar.is_set(), facts.served);
    Row::new(move || events.wait(), move || assert!(other.set()), verify)
}

fn fill(place: &MVar<Message>, kit: &Kit) -> impl FnMut() + use<> {
    let (place, kit) = (place.clone(), kit.clone());
    move || place.try_put(kit.message()).unwrap()
}

pub(crate) fn mvar_take(kit: &Kit) -> Row<impl Event<Output = Message> + Send + use<>> {
    let place = MVar::empty();
    let events = place.clone();
    let serve = fill(&place, kit);
    let verify = move |taken: Option<Message>, facts: Facts| {
        let left = place.try_take();
        assert_eq!(taken.iter().chain(&left).count(), usize::from(facts.served), "lost or doubled");
    };
    Row::new(move || events.take(), serve, verify)
}

pub(crate) fn mvar_read(kit: &Kit) -> Row<impl Event<Output = Message> + Send + use<>> {
    let place = MVar::empty();
    let events = place.clone();
    let serve = fill(&place, kit);
    let verify = move |taken: Option<Message>, facts: Facts| {
        assert!(taken.is_none_or(|taken| taken.id() == 0));
        assert_eq!(place.try_take().is_some(), facts.served);
    };
    Row::new(move || events.read(), serve, verify)
}

pub(crate) fn mvar_put(kit: &Kit) -> Row<impl Event<Output = ()> + Send + use<>> {
    let place = MVar::new(kit.message());
    let (events, kit, other) = (place.clone(), kit.clone(), place.clone());
    let verify = move |taken: Option<()>, facts: Facts| {
        let left = place.try_take();
        assert!(left.is_some() || taken.is_none() && facts.served, "put, and lost");
        assert!(!facts.served || left.is_none() || taken.is_some() || facts.waited, "never put");
        assert!(facts.served || left.unwrap().id() == 0);
        assert!(place.try_take().is_none());
    };
    Row::new(move || events.put(kit.message()), move || assert_eq!(other.try_take().unwrap().id(), 0), verify)
        .used_up()
}

pub(crate) fn mvar_swap(kit: &Kit) -> Row<impl Event<Output = Message> + Send + use<>> {
    let place = MVar::empty();
    let (events, own, putter) = (place.clone(), kit.clone(), place.clone());
    let theirs = kit.clone();
    let put = std::rc::Rc::new(std::cell::Cell::new(None));
    let note = put.clone();
    let serve = move || {
        let message = theirs.message();
        note.set(Some(message.id()));
        putter.try_put(message).unwrap();
    };
    let verify = move |taken: Option<Message>, facts: Facts| {
        let left = place.try_take();
        assert_eq!(left.is_some(), facts.served);
        let (taken, left) = (taken.map(|taken| taken.id()), left.map(|left| left.id()));
        if facts.second {
            // The second may have used what the first put.
            return assert_ne!(left, taken.or(Some(usize::MAX)));
        }
        // It never happened, or both values have changed their place.
        assert_eq!(if taken.is_some() { taken } else { left }, put.get());
        assert!(taken.is_none() || left != taken);
    };
    Row::new(move || events.swap(own.message()), serve, verify)
}

/// The exception: when the partner has committed, and the event is dropped, the exchange has happened. The partner's
/// message is dropped.
pub(crate) fn swap_ends(
    kit: &Kit,
) -> Row<impl Event<Output = Result<Message, SendError<Message>>> + Send + use<>> {
    let (left, right) = swap();
    let left = std::rc::Rc::new(left);
    let partner = Partner::new();
    let (events, own, theirs, other) = (left.clone(), kit.clone(), partner.clone(), kit.clone());
    let later = kit.clone();
    let serve = move || theirs.borrow_mut().begin(right.swap(other.message()));
    let verify = move |taken: Option<Result<Message, _>>, facts: Facts| {
        let got = partner.borrow_mut().ended();
        assert!(taken.is_none() || matches!(got, Some(Ok(_))), "half an exchange");
        if got.is_some() {
            assert!(taken.is_some() || facts.waited, "half an exchange");
        } else if facts.served {
            left.try_swap(later.message()).expect("it still waits");
            assert!(matches!(partner.borrow_mut().ended(), Some(Ok(_))));
        }
    };
    Row::new(move || events.swap(own.message()), serve, verify).used_up()
}

/// The exception: an event that is dropped after its partner committed has happened, and the partner's message is
/// dropped.
pub(crate) fn swap_channel(kit: &Kit) -> Row<impl Event<Output = Message> + Send + use<>> {
    let place = SwapChannel::new();
    let partner = Partner::new();
    let (events, own, theirs, other, far) =
        (place.clone(), kit.clone(), partner.clone(), kit.clone(), place.clone());
    let later = kit.clone();
    let serve = move || theirs.borrow_mut().begin(far.swap(other.message()));
    let verify = move |taken: Option<Message>, facts: Facts| {
        let got = partner.borrow_mut().ended();
        assert!(taken.is_none() || got.is_some(), "half an exchange");
        if got.is_some() {
            assert!(taken.is_some() || facts.waited, "half an exchange");
        } else if facts.served {
            place.try_swap(later.message()).expect("it still waits");
            assert!(partner.borrow_mut().ended().is_some());
        }
        assert!(place.try_swap(later.message()).is_err(), "a ghost waits");
    };
    Row::new(move || events.swap(own.message()), serve, verify).meets()
}

pub(crate) fn multicast_port(kit: &Kit) -> Row<impl Event<Output = Result<Message, Closed>> + Send + use<>> {
    let news = multicast();
    let (port, control) = (std::rc::Rc::new(news.port()), news.port());
    let (kit, events) = (kit.clone(), port.clone());
    let serve = move || (0..2).for_each(|_| assert_eq!(news.send(kit.message()).unwrap(), 2));
    let verify = move |taken: Option<Result<Message, Closed>>, facts: Facts| {
        let mut got = Vec::new();
        got.extend(taken.map(|taken| taken.unwrap().id()));
        got.extend(std::iter::from_fn(|| port.try_recv().ok()).map(|message| message.id()));
        in_order(&mut got, facts);
        assert_eq!(control.len(), got.len());
    };
    Row::new(move || events.recv(), serve, verify)
}

pub(crate) fn broadcast_subscriber(
    kit: &Kit,
) -> Row<impl Event<Output = Result<Message, BroadcastError>> + Send + use<>> {
    let news = broadcast(2);
    let (port, control) = (std::rc::Rc::new(news.subscribe()), news.subscribe());
    let (kit, events) = (kit.clone(), port.clone());
    let serve = move || (0..2).for_each(|_| assert_eq!(news.send(kit.message()).unwrap(), 2));
    let verify = move |taken: Option<Result<Message, BroadcastError>>, facts: Facts| {
        let mut got = Vec::new();
        got.extend(taken.map(|taken| taken.unwrap().id()));
        got.extend(std::iter::from_fn(|| port.try_recv().ok().flatten()).map(|message| message.id()));
        in_order(&mut got, facts);
        assert_eq!(control.len(), got.len());
    };
    Row::new(move || events.recv(), serve, verify)
}

pub(crate) fn watcher(
    kit: &Kit,
) -> Row<impl Event<Output = Result<std::sync::Arc<Message>, Closed>> + Send + use<>> {
    let (value, watcher) = watch(kit.message());
    let watcher = std::rc::Rc::new(watcher);
    let (kit, events) = (kit.clone(), watcher.clone());
    let verify = move |taken: Option<Result<std::sync::Arc<Message>, Closed>>, facts: Facts| {
        assert_eq!(watcher.has_changed(), facts.served && taken.is_none());
        assert!(taken.is_none_or(|taken| taken.unwrap().id() == 1));
    };
    Row::new(move || events.changed(), move || drop(value.send(kit.message())), verify)
}

pub(crate) fn barrier(_: &Kit) -> Row<impl Event<Output = chanter::sync::BarrierPass> + Send + use<>> {
    let barrier = Barrier::new(2);
    let partner = Partner::new();
    let (events, theirs, far) = (barrier.clone(), partner.clone(), barrier.clone());
    let serve = move || theirs.borrow_mut().begin(far.wait());
    let verify = move |taken: Option<_>, facts: Facts| {
        let passed = partner.borrow_mut().ended();
        assert!(taken.is_none() || passed.is_some(), "passed alone");
        if passed.is_some() {
            assert!(taken.is_some() || facts.waited, "passed alone");
        } else if facts.served {
            assert!(barrier.wait().try_sync().is_some(), "it still waits");
            assert!(partner.borrow_mut().ended().is_some());
        }
        assert!(barrier.wait().try_sync().is_none(), "a ghost waits");
    };
    Row::new(move || events.wait(), serve, verify).meets()
}

pub(crate) type Called = Result<Message, CallError<Message>>;

pub(crate) fn call(kit: &Kit) -> Row<impl Event<Output = Called> + Send + use<>> {
    let (client, server) = rpc::<Message, Message>();
    let server = std::rc::Rc::new(server);
    let partner = Partner::new();
    let (own, theirs, far, answers) = (kit.clone(), partner.clone(), server.clone(), kit.clone());
    let tended = partner.clone();
    let serve = move || {
        let (accept, answer) = (far.accept(), answers.message());
        theirs.borrow_mut().begin(async move {
            let (request, reply) = accept.await.unwrap();
            let id = answer.id();
            let sent = reply.send(answer).await;
            (request.id(), id, sent.is_ok())
        });
    };
    let verify = move |taken: Option<Called>, facts: Facts| {
        let ended = partner.borrow_mut().ended();
        if let Some(answer) = taken {
            let (_, id, sent) = ended.expect("who replied is told");
            assert!(sent && answer.unwrap().id() == id);
        } else {
            assert!(ended.is_none() || facts.served, "served by nobody");
        }
        assert!(server.is_empty(), "the request of a call that is gone");
    };
    Row::new(move || client.call(own.message()), serve, verify)
        .tended(move || tended.borrow_mut().tend())
        .used_up()
}

pub(crate) type Accepted = Result<(Message, chanter::sync::Reply<Message>), Closed>;

pub(crate) fn accept(kit: &Kit) -> Row<impl Event<Output = Accepted> + Send + use<>> {
    let (client, server) = rpc::<Message, Message>();
    let server = std::rc::Rc::new(server);
    let partner = Partner::new();
    let (events, theirs, kit) = (server.clone(), partner.clone(), kit.clone());
    let answers = kit.clone();
    let serve = move || theirs.borrow_mut().begin(client.call(kit.message()));
    let verify = move |taken: Option<Accepted>, facts: Facts| {
        let accepted = taken.or_else(|| server.accept().try_sync());
        assert_eq!(accepted.is_some(), facts.served, "a request is lost");
        assert!(server.is_empty(), "doubled");
        if let Some(accepted) = accepted {
            let (_, reply) = accepted.unwrap();
            reply.send(answers.message()).try_sync().expect("the client waits").unwrap();
            assert!(matches!(partner.borrow_mut().ended(), Some(Ok(_))));
        }
    };
    Row::new(move || events.accept(), serve, verify)
}

/// The places that events gave from. Their owner has dropped all of them when it looks.
#[derive(Clone, Default)]
struct Places(std::rc::Rc<std::cell::RefCell<Vec<*mut Option<Message>>>>);

impl Places {
    /// A new place, which lives until `returned`.
    fn lend(&self, message: Message) -> &'static mut Option<Message> {
        let place = Box::into_raw(Box::new(Some(message)));
        self.0.borrow_mut().push(place);
        // SAFETY: freed in `returned` only.
        unsafe { &mut *place }
    }

    /// How many have their message, and how many there were.
    fn returned(&self) -> (usize, usize) {
        let places = self.0.take();
        // SAFETY: made in `lend`; the events that borrowed them are gone.
        let full = places.iter().filter(|place| unsafe { Box::from_raw(**place) }.is_some());
        (full.count(), places.len())
    }
}

/// Lends a value for as long as the process lives.
fn leak<T>(value: T) -> &'static T {
    Box::leak(Box::new(value))
}

type SentFrom = Result<(), Closed>;

/// Sends from a place: each message is with its receiver or in its place. A sender that was dropped sees which.
pub(crate) fn send_from_rendezvous(kit: &Kit) -> Row<impl Event<Output = SentFrom> + Send + use<>> {
    let (tx, rx) = channel();
    let tx = leak(tx);
    let partner = Partner::new();
    let (theirs, after, kit, places) = (partner.clone(), rx.clone(), kit.clone(), Places::default());
    let lent = places.clone();
    let serve = move || theirs.borrow_mut().begin(rx.clone().into_recv());
    let verify = move |taken: Option<SentFrom>, facts: Facts| {
        let received = usize::from(matches!(partner.borrow_mut().ended(), Some(Ok(_))));
        let (returned, all) = places.returned();
        assert_eq!(returned + received, all, "lost, or doubled");
        assert!(taken.is_none() || received == 1, "sent, and not received");
        assert!(received == 0 || taken.is_some() || facts.waited, "received, and never sent");
        assert!(after.try_recv().is_err(), "doubled");
    };
    Row::new(move || tx.send_from(lent.lend(kit.message())), serve, verify).used_up()
}

/// The buffer is full; to serve is to receive the first.
pub(crate) fn send_from_bounded(kit: &Kit) -> Row<impl Event<Output = SentFrom> + Send + use<>> {
    let (tx, rx) = bounded(1);
    let tx = leak(tx);
    tx.try_send(kit.message()).unwrap();
    let (kit, messages, places) = (kit.clone(), rx.clone(), Places::default());
    let lent = places.clone();
    let verify = move |taken: Option<SentFrom>, facts: Facts| {
        let received = std::iter::from_fn(|| rx.try_recv().ok()).filter(|got| got.id() > 0).count();
        let (returned, all) = places.returned();
        assert_eq!(returned + received, all, "lost, or doubled");
        assert!(received >= usize::from(taken.is_some()), "sent, and lost");
        assert!(facts.served || received == 0, "sent without room");
    };
    let serve = move || assert_eq!(messages.try_recv().unwrap().id(), 0);
    Row::new(move || tx.send_from(lent.lend(kit.message())), serve, verify).used_up()
}

/// To a channel that closes: the message is in its place.
pub(crate) fn send_from_to_closed(kit: &Kit) -> Row<impl Event<Output = SentFrom> + Send + use<>> {
    let (tx, rx) = channel();
    let tx = leak(tx);
    let (kit, mut rx, places) = (kit.clone(), Some(rx), Places::default());
    let lent = places.clone();
    let verify = move |taken: Option<SentFrom>, _| {
        assert!(taken.is_none_or(|sent| sent == Err(Closed)));
        let (returned, all) = places.returned();
        assert_eq!(returned, all, "lost");
    };
    Row::new(move || tx.send_from(lent.lend(kit.message())), move || drop(rx.take()), verify)
}

pub(crate) fn mvar_put_from(kit: &Kit) -> Row<impl Event<Output = ()> + Send + use<>> {
    let place = leak(MVar::new(kit.message()));
    let (kit, places) = (kit.clone(), Places::default());
    let lent = places.clone();
    let verify = move |taken: Option<()>, facts: Facts| {
        let put = std::iter::from_fn(|| place.try_take()).filter(|got| got.id() > 0).count();
        let (returned, all) = places.returned();
        assert_eq!(returned + put, all, "lost, or doubled");
        assert!(put >= usize::from(taken.is_some()), "put, and lost");
        assert!(facts.served || put == 0, "put into what is full");
    };
    let serve = move || assert_eq!(place.try_take().unwrap().id(), 0);
    Row::new(move || place.put_from(lent.lend(kit.message())), serve, verify).used_up()
}

/// The message of the other end is the exception. The own message is in one place.
pub(crate) fn swap_from(kit: &Kit) -> Row<impl Event<Output = Result<Message, Closed>> + Send + use<>> {
    let (left, right) = swap();
    let left = leak(left);
    let partner = Partner::new();
    let (theirs, other, kit, places) = (partner.clone(), kit.clone(), kit.clone(), Places::default());
    let lent = places.clone();
    let serve = move || theirs.borrow_mut().begin(right.swap(other.message()));
    let verify = move |taken: Option<Result<Message, Closed>>, facts: Facts| {
        let given = usize::from(matches!(partner.borrow_mut().ended(), Some(Ok(_))));
        let (returned, all) = places.returned();
        assert_eq!(returned + given, all, "lost, or doubled");
        assert!(taken.is_none() || given == 1, "half an exchange");
        assert!(given == 0 || taken.is_some() || facts.waited, "half an exchange");
        partner.borrow_mut().cancel();
    };
    Row::new(move || left.swap_from(lent.lend(kit.message())), serve, verify).used_up()
}

pub(crate) fn swap_channel_from(kit: &Kit) -> Row<impl Event<Output = Message> + Send + use<>> {
    let place = leak(SwapChannel::new());
    let partner = Partner::new();
    let (theirs, other, kit, places) = (partner.clone(), kit.clone(), kit.clone(), Places::default());
    let lent = places.clone();
    let serve = move || theirs.borrow_mut().begin(place.swap(other.message()));
    let verify = move |taken: Option<Message>, facts: Facts| {
        let given = usize::from(partner.borrow_mut().ended().is_some());
        let (returned, all) = places.returned();
        assert_eq!(returned + given, all, "lost, or doubled");
        assert!(taken.is_none() || given == 1, "half an exchange");
        assert!(given == 0 || taken.is_some() || facts.waited, "half an exchange");
        partner.borrow_mut().cancel();
    };
    Row::new(move || place.swap_from(lent.lend(kit.message())), serve, verify).meets()
}
