//! Dropping a synchronization at every point: nothing is lost, doubled or
//! leaked.

mod common;

use std::future::Future;
use std::mem::MaybeUninit;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier};
use std::task::{Context, Poll, Waker};

use chanter::prelude::*;
use common::{Ledger, Payload, Random, Wakes, machine, millis, poll, watchdog};
use futures::StreamExt;
use futures::stream::FuturesUnordered;

type Receive = Pin<Box<dyn Future<Output = Result<Payload, Closed>> + Send>>;
type Send_ = Pin<Box<dyn Future<Output = Result<(), SendError<Payload>>> + Send>>;

/// A receive alone, and in choices of every shape.
fn receives(rx: &Receiver<Payload>) -> Vec<(&'static str, Receive)> {
    let (keep, silent) = channel::<Payload>();
    let silent = silent.recv().wrap(move |message| {
        let _keep = &keep;
        message
    });
    vec![
        ("single", Box::pin(rx.recv().sync())),
        ("wrapped", Box::pin(rx.recv().wrap(|r| r).sync())),
        (
            "guarded",
            Box::pin({
                let rx = rx.clone();
                guard(move || rx.recv()).sync()
            }),
        ),
        ("boxed", Box::pin(rx.recv().boxed().sync())),
        ("choice", Box::pin(choose((rx.recv(), never())).sync())),
        ("choice of two", Box::pin(choose((rx.recv(), rx.recv())).sync())),
        (
            "choice with time",
            Box::pin(choose((after(millis(3_600_000)).wrap(|()| Err(Closed)), rx.recv())).sync()),
        ),
        ("choice with a silent channel", Box::pin(choose_biased((silent, rx.recv())).sync())),
        (
            "nested choice",
            Box::pin(choose(vec![choose((never(), rx.recv())).boxed(), never().boxed()]).sync()),
        ),
        (
            "nacked",
            Box::pin({
                let rx = rx.clone();
                choose((with_nack(move |_| rx.recv()), never())).sync()
            }),
        ),
    ]
}

fn sends(tx: &Sender<Payload>, make: impl Fn() -> Payload) -> Vec<(&'static str, Send_)> {
    vec![
        ("single", Box::pin(tx.send(make()).sync())),
        ("wrapped", Box::pin(tx.send(make()).wrap(|r| r).sync())),
        (
            "guarded",
            Box::pin({
                let (tx, message) = (tx.clone(), make());
                guard(move || tx.send(message)).sync()
            }),
        ),
        ("choice", Box::pin(choose((tx.send(make()), never())).sync())),
        ("choice of two", Box::pin(choose((tx.send(make()), tx.send(make()))).sync())),
        (
            "choice with time",
            Box::pin(choose((tx.send(make()), after(millis(3_600_000)).wrap(|()| Ok(())))).sync()),
        ),
        ("boxed", Box::pin(choose(vec![tx.send(make()).boxed(), never().boxed()]).sync())),
    ]
}

type Make = fn() -> (Sender<Payload>, Receiver<Payload>);

const FLAVOURS: [Make; 3] = [channel, || bounded(2), mailbox];
const RECEIVES: usize = 10;
const SENDS: usize = 7;

#[test]
fn a_receive_dropped_before_it_is_polled() {
    watchdog!();
    let ledger = Ledger::new();
    let (tx, rx) = mailbox();
    for (what, receive) in receives(&rx) {
        tx.try_send(ledger.payload(1)).unwrap();
        drop(receive);
        assert_eq!(rx.try_recv().unwrap().id, 1, "{what}");
    }
    ledger.check();
}

#[test]
fn a_receive_dropped_while_it_waits() {
    watchdog!();
    for polls in 1..4 {
        let ledger = Ledger::new();
        let (tx, rx) = channel();
        for (what, mut receive) in receives(&rx) {
            for _ in 0..polls {
                assert!(poll(&mut receive).is_pending());
            }
            drop(receive);
            // It has left the queue: a send finds nobody.
            assert!(matches!(tx.try_send(ledger.payload(1)), Err(TrySendError::Full(_))), "{what}");
        }
        ledger.check();
    }
}

#[test]
fn a_receive_dropped_after_its_partner_committed() {
    watchdog!();
    for flavour in FLAVOURS {
        for at in 0..RECEIVES {
            let ledger = Ledger::new();
            let (tx, rx) = flavour();
            let (what, mut receive) = receives(&rx).swap_remove(at);
            assert!(poll(&mut receive).is_pending());
            tx.try_send(ledger.payload(1)).unwrap();
            // Not taken yet: others do not get it, and more may follow.
            let mut later = Box::pin(tx.send(ledger.payload(2)).sync());
            let _ = poll(&mut later);
            drop(receive);
            // The first message is the first again.
            assert_eq!(rx.try_recv().unwrap().id, 1, "{what}");
            assert_eq!(rx.try_recv().unwrap().id, 2, "{what}");
            drop(later);
            ledger.check();
        }
    }
}

#[test]
fn a_message_that_comes_back_goes_to_whoever_waits() {
    watchdog!();
    for at in 0..RECEIVES {
        for waiter in 0..RECEIVES {
            let ledger = Ledger::new();
            let (tx, rx) = channel();
            let (what, mut first) = receives(&rx).swap_remove(at);
            let (_, mut second) = receives(&rx).swap_remove(waiter);
            assert!(poll(&mut first).is_pending());
            let (wakes, waker) = Wakes::new();
            assert!(second.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
            tx.try_send(ledger.payload(1)).unwrap();
            assert_eq!(wakes.count(), 0, "{what}");
            drop(first);
            assert_eq!(wakes.count(), 1, "{what}: the one who waits is told");
            match poll(&mut second) {
                Poll::Ready(Ok(message)) => assert_eq!(message.id, 1),
                other => panic!("{what}: {other:?}"),
            }
            drop(second);
            ledger.check();
        }
    }
}

/// Several messages come back, in whatever order their receivers die: the
/// channel is first in, first out all the same.
#[test]
fn messages_come_back_in_order() {
    watchdog!();
    for flavour in FLAVOURS {
        let orders: [[usize; 3]; 6] = [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]];
        for order in orders {
            let ledger = Ledger::new();
            let (tx, rx) = flavour();
            let mut waiting: Vec<_> = (0..3).map(|_| Some(Box::pin(rx.recv().sync()))).collect();
            for receive in waiting.iter_mut().flatten() {
                assert!(poll(receive).is_pending());
            }
            for n in 0..3 {
                tx.try_send(ledger.payload(n)).unwrap();
            }
            let mut later = Box::pin(tx.send(ledger.payload(3)).sync());
            let _ = poll(&mut later);
            for at in order {
                drop(waiting[at].take());
            }
            let got: Vec<_> = (0..4).map(|_| rx.try_recv().unwrap().id).collect();
            assert_eq!(got, [0, 1, 2, 3], "receivers died in the order {order:?}");
            drop(later);
            ledger.check();
        }
    }
}

/// A message comes back when the channel has been closed meanwhile: it is
/// received before `Closed`, or dropped if nobody is left.
#[test]
fn a_message_comes_back_to_a_closed_channel() {
    watchdog!();
    for at in 0..RECEIVES {
        let ledger = Ledger::new();
        let (tx, rx) = channel();
        let (what, mut receive) = receives(&rx).swap_remove(at);
        assert!(poll(&mut receive).is_pending());
        tx.try_send(ledger.payload(1)).unwrap();
        drop(tx);
        drop(receive);
        assert_eq!(rx.try_recv().map(|message| message.id), Ok(1), "{what}");
        assert_eq!(rx.try_recv().map(|message| message.id), Err(TryRecvError::Closed), "{what}");
        ledger.check();
        // Nobody is left.
        let ledger = Ledger::new();
        let (tx, rx) = channel();
        let (what, mut receive) = receives(&rx).swap_remove(at);
        assert!(poll(&mut receive).is_pending());
        tx.try_send(ledger.payload(1)).unwrap();
        drop(rx);
        assert_eq!(ledger.live(), 1);
        drop(receive);
        assert_eq!(ledger.live(), 0, "{what}: {} is dropped with its channel", "the message");
        assert!(tx.is_closed());
        ledger.check();
    }
}

#[test]
fn a_send_dropped_at_every_point() {
    watchdog!();
    for at in 0..SENDS {
        // Before it is polled, while it waits.
        for polls in 0..4 {
            let ledger = Ledger::new();
            let (tx, rx) = channel::<Payload>();
            let (what, mut send) = sends(&tx, || ledger.payload(1)).swap_remove(at);
            for _ in 0..polls {
                assert!(poll(&mut send).is_pending());
            }
            drop(send);
            assert!(rx.try_recv().is_err(), "{what}");
            assert_eq!(ledger.live(), 0, "{what}: the unsent message is dropped");
            ledger.check();
        }
        // After its partner has committed.
        let ledger = Ledger::new();
        let (tx, rx) = channel::<Payload>();
        let (what, mut send) = sends(&tx, || ledger.payload(1)).swap_remove(at);
        assert!(poll(&mut send).is_pending());
        let got = rx.try_recv();
        assert_eq!(got.as_ref().map(|message| message.id), Ok(1), "{what}");
        drop(send);
        assert!(rx.try_recv().is_err(), "{what}: it was sent once");
        assert_eq!(ledger.live(), 1, "{what}");
        drop(got);
        ledger.check();
        // After the channel was closed, before it took its message back.
        let ledger = Ledger::new();
        let (tx, rx) = channel::<Payload>();
        let (_, mut send) = sends(&tx, || ledger.payload(1)).swap_remove(at);
        assert!(poll(&mut send).is_pending());
        drop(rx);
        drop(send);
        ledger.check();
    }
}

#[test]
fn every_receive_meets_every_send() {
    watchdog!();
    for receive_first in [true, false] {
        for r in 0..RECEIVES {
            for s in 0..SENDS {
                let ledger = Ledger::new();
                let (tx, rx) = channel::<Payload>();
                let (what, mut receive) = receives(&rx).swap_remove(r);
                let (which, mut send) = sends(&tx, || ledger.payload(1)).swap_remove(s);
                let message = if receive_first {
                    assert!(poll(&mut receive).is_pending());
                    assert!(poll(&mut send).is_ready(), "{what} {which}");
                    poll(&mut receive)
                } else {
                    assert!(poll(&mut send).is_pending());
                    let message = poll(&mut receive);
                    assert!(poll(&mut send).is_ready(), "{what} {which}");
                    message
                };
                match message {
                    Poll::Ready(Ok(message)) => assert_eq!(message.id, 1),
                    other => panic!("{what} {which}: {other:?}"),
                }
                drop((receive, send));
                ledger.check();
            }
        }
    }
}

/// Both sides are dropped at random points, by two OS threads at once: each
/// payload ends once, received or not.
#[test]
fn drops_that_race_with_commits() {
    watchdog!();
    const ROUNDS: usize = 10_000;
    let flavours: [Make; 2] = [channel, || bounded(1)];
    for (seed, flavour) in flavours.into_iter().enumerate() {
        let ledger = Ledger::new();
        let (tx, rx) = flavour();
        let barrier = Barrier::new(2);
        let spin = |random: &mut Random| (0..random.below(60)).for_each(|_| std::hint::spin_loop());
        let received = std::thread::scope(|scope| {
            let receiver = scope.spawn(|| {
                let mut random = Random::new(seed as u64);
                let mut received = Vec::new();
                for round in 0..ROUNDS {
                    let (_, mut receive) = receives(&rx).swap_remove(random.below(RECEIVES));
                    let polls = random.below(4);
                    barrier.wait();
                    for _ in 0..polls {
                        spin(&mut random);
                        if let Poll::Ready(message) = poll(&mut receive) {
                            received.push(message.unwrap().id);
                            break;
                        }
                    }
                    // Every other time both are offered for a while.
                    if round % 2 == 0 {
                        barrier.wait();
                    }
                    spin(&mut random);
                    drop(receive);
                }
                received
            });
            let mut random = Random::new(!seed as u64);
            for round in 0..ROUNDS {
                let (_, mut send) = sends(&tx, || ledger.payload(round)).swap_remove(random.below(SENDS));
                let polls = random.below(4);
                barrier.wait();
                for _ in 0..polls {
                    spin(&mut random);
                    if let Poll::Ready(sent) = poll(&mut send) {
                        sent.unwrap();
                        break;
                    }
                }
                if round % 2 == 0 {
                    barrier.wait();
                }
                spin(&mut random);
                drop(send);
            }
            receiver.join().unwrap()
        });
        assert!(received.len() > ROUNDS / 100, "the race hardly ever met: {}", received.len());
        assert!(received.is_sorted(), "one sender's messages came out of order");
        drop((tx, rx));
        ledger.check();
    }
}

/// Drops a wait, in place, while another OS thread completes it, and looks
/// whether anybody writes to its memory afterwards.
fn nobody_writes_to_a_dropped_wait<E, C>(rounds: usize, make: impl Fn() -> (E, C))
where
    E: Event,
    C: FnOnce() + Send,
{
    let barrier = &Barrier::new(2);
    let (jobs, todo) = std::sync::mpsc::channel::<C>();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            while let Ok(complete) = todo.recv() {
                barrier.wait();
                complete();
                barrier.wait();
            }
        });
        let mut place = Box::new(MaybeUninit::<chanter::event::Sync<E>>::uninit());
        let mut random = Random::new(7);
        for _ in 0..rounds {
            let (event, complete) = make();
            let wait = place.write(event.sync());
            // SAFETY: the place is a box that does not move; the value is
            // dropped in it before it is written again.
            let pending = unsafe { Pin::new_unchecked(&mut *wait) }
                .poll(&mut Context::from_waker(Waker::noop()))
                .is_pending();
            assert!(pending);
            jobs.send(complete).unwrap();
            barrier.wait();
            (0..random.below(200)).for_each(|_| std::hint::spin_loop());
            let bytes = place.as_mut_ptr().cast::<u8>();
            let size = size_of::<chanter::event::Sync<E>>();
            // SAFETY: initialized above, dropped once; afterwards the memory
            // is plain bytes of ours.
            unsafe {
                place.assume_init_drop();
                for at in 0..size {
                    bytes.add(at).write_volatile(0);
                }
            }
            barrier.wait();
            // SAFETY: as above.
            let touched = (0..size).filter(|at| unsafe { bytes.add(*at).read_volatile() } != 0).count();
            assert_eq!(touched, 0, "a partner wrote to a wait that its owner had freed");
        }
        drop(jobs);
    });
}

#[test]
fn nobody_writes_to_a_dropped_receive() {
    watchdog!();
    nobody_writes_to_a_dropped_wait(20_000, || {
        let (tx, rx) = channel::<u64>();
        (rx.recv(), move || tx.try_send(u64::MAX).unwrap_or(()))
    });
}

#[test]
fn nobody_writes_to_a_dropped_choice() {
    watchdog!();
    nobody_writes_to_a_dropped_wait(20_000, || {
        let (tx, rx) = channel::<u64>();
        (choose((rx.recv(), rx.recv())), move || tx.try_send(u64::MAX).unwrap_or(()))
    });
}

#[test]
fn nobody_writes_to_a_dropped_send() {
    watchdog!();
    nobody_writes_to_a_dropped_wait(20_000, || {
        let (tx, rx) = channel::<u64>();
        (tx.send(1), move || assert!(rx.try_recv().unwrap_or(1) == 1))
    });
}

#[test]
fn nobody_writes_to_a_dropped_ivar_read() {
    watchdog!();
    nobody_writes_to_a_dropped_wait(50_000, || {
        let ivar = IVar::<u32>::new();
        (ivar.get(), move || ivar.put(1).unwrap())
    });
}

#[test]
fn nobody_writes_to_a_dropped_nack_wait() {
    watchdog!();
    nobody_writes_to_a_dropped_wait(50_000, || {
        let place = Arc::new(std::sync::Mutex::new(None));
        let there = place.clone();
        let mut loser = Box::pin(
            with_nack(move |nack| {
                *there.lock().unwrap() = Some(nack);
                never::<()>()
            })
            .sync(),
        );
        assert!(poll(&mut loser).is_pending());
        let nack = place.lock().unwrap().take().unwrap();
        (nack, move || drop(loser))
    });
}

#[test]
fn nobody_writes_to_a_dropped_join() {
    watchdog!();
    let machine = machine(1);
    nobody_writes_to_a_dropped_wait(10_000, || {
        let (tx, rx) = channel::<()>();
        let thread = machine.spawn(async move { rx.recv().await });
        (thread.join(), move || tx.send(()).sync_blocking().unwrap())
    });
}

#[test]
fn nobody_writes_to_a_dropped_timer() {
    watchdog!();
    let machine = machine(1);
    machine.block_on(async {
        let mut random = Random::new(3);
        for _ in 0..2000 {
            let wait = Box::pin(after(std::time::Duration::from_micros(random.next() % 200)).sync());
            let mut wait = wait;
            let _ = poll(&mut wait);
            yield_now().await;
            drop(wait);
        }
    });
    nobody_writes_to_a_dropped_wait(2_000, || (after(std::time::Duration::from_micros(100)), || ()));
}

#[test]
fn a_panic_in_a_wrap_loses_only_its_own_message() {
    watchdog!();
    let ledger = Ledger::new();
    let (tx, rx) = mailbox();
    tx.try_send(ledger.payload(1)).unwrap();
    tx.try_send(ledger.payload(2)).unwrap();
    let event = choose((rx.recv().wrap(|_| panic!("a wrap's panic")), never::<()>()));
    assert!(catch_unwind(AssertUnwindSafe(|| event.sync_blocking())).is_err());
    assert_eq!(rx.try_recv().unwrap().id, 2);
    ledger.check();
    // Polled late, on a thread of a machine.
    machine(1).block_on(async {
        let (tx, rx) = channel();
        let host =
            spawn(choose((rx.recv().wrap(|_| -> u32 { panic!("a wrap's panic") }), never())).into_future());
        yield_now().await;
        tx.send(ledger.payload(3)).await.unwrap();
        assert_eq!(host.join().await.unwrap_err().message(), Some("a wrap's panic"));
        assert!(rx.try_recv().is_err());
    });
    ledger.check();
}

#[test]
fn a_panic_in_a_guard_loses_nothing() {
    watchdog!();
    let ledger = Ledger::new();
    let (tx, rx) = mailbox();
    tx.try_send(ledger.payload(1)).unwrap();
    let event = choose((
        rx.recv().wrap(drop),
        tx.send(ledger.payload(2)).wrap(drop),
        guard(|| -> chanter::event::Never<()> { panic!("a guard's panic") }),
    ));
    assert!(catch_unwind(AssertUnwindSafe(|| event.sync_blocking())).is_err());
    assert_eq!(rx.try_recv().unwrap().id, 1);
    assert!(rx.try_recv().is_err());
    ledger.check();
}

/// Payloads whose destructors panic: the channel stays whole, and the panic
/// reaches whoever dropped.
#[test]
fn panics_in_destructors_of_payloads() {
    watchdog!();
    struct Bomb(bool, #[allow(dead_code, reason = "counts")] Payload);
    impl Drop for Bomb {
        fn drop(&mut self) {
            if self.0 && !std::thread::panicking() {
                panic!("a payload's panic");
            }
        }
    }
    let ledger = Ledger::new();
    let bomb = |armed| Bomb(armed, ledger.payload(0));
    let panics = |f: &mut dyn FnMut()| catch_unwind(AssertUnwindSafe(f)).is_err();
    // Unread messages; the others are dropped all the same.
    let (tx, rx) = mailbox();
    tx.try_send(bomb(false)).ok().unwrap();
    tx.try_send(bomb(true)).ok().unwrap();
    tx.try_send(bomb(false)).ok().unwrap();
    let mut rx = Some(rx);
    assert!(panics(&mut || drop(rx.take())));
    assert!(tx.is_closed());
    ledger.check();
    // An unsent message.
    let (tx, rx) = channel();
    let mut send = Some(Box::pin(tx.send(bomb(true)).sync()));
    assert!(poll(send.as_mut().unwrap()).is_pending());
    assert!(panics(&mut || drop(send.take())));
    assert!(rx.try_recv().is_err());
    // A loser's message.
    assert!(panics(&mut || choose_biased((always(()), tx.send(bomb(true)).wrap(drop))).sync_blocking()));
    // One that comes back too late.
    let mut receive = Some(Box::pin(rx.recv().sync()));
    assert!(poll(receive.as_mut().unwrap()).is_pending());
    tx.try_send(bomb(true)).ok().unwrap();
    drop(rx);
    assert!(panics(&mut || drop(receive.take())));
    assert!(tx.is_closed());
    ledger.check();
    // A host's value that nobody takes, a parasite's output.
    let machine = machine(1);
    machine.block_on(async {
        drop(spawn({
            let bomb = bomb(true);
            async move { bomb }
        }));
        let output = bomb(true);
        spawn_parasite(async move { output });
        let (tx, rx) = channel();
        let held = bomb(true);
        spawn(async move {
            let _held = held;
            rx.recv().await
        });
        yield_now().await;
        assert_eq!(spawn(async { 1 }).join().await.unwrap(), 1);
        drop::<Sender<()>>(tx);
        yield_now().await;
        assert_eq!(spawn(async { 1 }).join().await.unwrap(), 1);
    });
    drop(machine);
    ledger.check();
}

/// The last waker is the one that is woken, whichever executor it came from.
#[test]
fn wakers_may_change_with_every_poll() {
    watchdog!();
    for at in 0..RECEIVES {
        let ledger = Ledger::new();
        let (tx, rx) = channel();
        let (what, mut receive) = receives(&rx).swap_remove(at);
        let all: Vec<_> = (0..5).map(|_| Wakes::new()).collect();
        for (_, waker) in &all {
            assert!(receive.as_mut().poll(&mut Context::from_waker(waker)).is_pending());
        }
        // Old wakers are not kept.
        for (wakes, _) in &all[..4] {
            assert_eq!(Arc::strong_count(wakes), 2, "{what}: an old waker is kept");
        }
        tx.try_send(ledger.payload(1)).unwrap();
        let counts: Vec<_> = all.iter().map(|(wakes, _)| wakes.count()).collect();
        assert_eq!(counts, [0, 0, 0, 0, 1], "{what}");
        assert!(poll(&mut receive).is_ready());
        drop(receive);
        for (wakes, _) in &all {
            assert_eq!(Arc::strong_count(wakes), 2, "{what}: a waker is leaked");
        }
        ledger.check();
    }
}

/// A waker that drops another wait of the same channel, or sends to it.
#[test]
fn wakers_may_use_the_channel() {
    watchdog!();
    struct Meddle(std::sync::Mutex<Option<Receive>>, Sender<Payload>, Arc<Ledger>);
    impl std::task::Wake for Meddle {
        fn wake(self: Arc<Self>) {
            drop(self.0.lock().unwrap().take());
            drop(self.1.try_send(self.2.payload(9)));
        }
    }
    let ledger = Ledger::new();
    let (tx, rx) = channel();
    let mut second: Receive = Box::pin(rx.recv().sync());
    let mut first = Box::pin(rx.recv().sync());
    let mut third = Box::pin(choose((rx.recv(), never())).sync());
    assert!(poll(&mut second).is_pending());
    let meddle = Arc::new(Meddle(std::sync::Mutex::new(Some(second)), tx.clone(), ledger.clone()));
    let waker = Waker::from(meddle);
    // `second` is first in the queue, but dies in the waker of `first`.
    tx.try_send(ledger.payload(1)).unwrap();
    assert!(first.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    assert!(poll(&mut third).is_pending());
    tx.try_send(ledger.payload(2)).unwrap();
    // The first message came back, before the meddler's own.
    assert!(matches!(poll(&mut first), Poll::Ready(Ok(message)) if message.id == 2));
    assert!(matches!(poll(&mut third), Poll::Ready(Ok(message)) if message.id == 1));
    drop((first, third, waker));
    drop((tx, rx));
    ledger.check();
}

#[test]
fn waits_in_futures_unordered() {
    watchdog!();
    for vps in [1, 2] {
        let ledger = Ledger::new();
        machine(vps).block_on(async {
            let (tx, rx) = channel();
            let sender = {
                let ledger = ledger.clone();
                spawn(async move {
                    for n in 0..1000 {
                        tx.send(ledger.payload(n)).await.unwrap();
                    }
                })
            };
            let mut got = Vec::new();
            while got.len() < 1000 {
                let mut waits: FuturesUnordered<_> = (0..7).map(|_| rx.recv().sync()).collect();
                waits.push(rx.recv().sync());
                for _ in 0..3 {
                    match waits.next().await.unwrap() {
                        Ok(message) => got.push(message.id),
                        Err(Closed) => break,
                    }
                }
                // Five waits are dropped, whatever came to them comes back.
            }
            sender.join().await.unwrap();
            got.sort_unstable();
            assert_eq!(got, (0..1000).collect::<Vec<_>>());
        });
        ledger.check();
    }
}

#[test]
fn waits_in_join_and_select() {
    watchdog!();
    let ledger = Ledger::new();
    machine(2).block_on(async {
        let (tx, rx) = channel();
        let both = futures::join!(tx.send(ledger.payload(1)).sync(), rx.recv().sync());
        both.0.unwrap();
        assert_eq!(both.1.unwrap().id, 1);
        // `select!` drops the loser: nothing is lost.
        let sender = {
            let ledger = ledger.clone();
            spawn(async move {
                for n in 0..500 {
                    tx.send(ledger.payload(n)).await.unwrap();
                    if n % 3 == 0 {
                        yield_now().await;
                    }
                }
            })
        };
        let (quiet_tx, quiet) = channel::<u32>();
        let mut got = Vec::new();
        let mut ticks = 0u64;
        loop {
            tokio::select! {
                message = rx.recv().sync() => match message {
                    Ok(message) => got.push(message.id),
                    Err(Closed) => break,
                },
                _ = quiet.recv().sync() => unreachable!(),
                () = yield_now() => ticks += 1,
            }
        }
        drop(quiet_tx);
        sender.join().await.unwrap();
        assert_eq!(got, (0..500).collect::<Vec<_>>(), "after {ticks} ticks");
    });
    ledger.check();
}

#[test]
fn waits_in_tokio_select() {
    watchdog!();
    let ledger = Ledger::new();
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_time().build().unwrap();
    runtime.block_on(async {
        let (tx, rx) = channel();
        let senders: Vec<_> = (0..2)
            .map(|me| {
                let (tx, ledger) = (tx.clone(), ledger.clone());
                tokio::spawn(async move {
                    for n in 0..1000 {
                        // Dropped and tried again; a message may be dropped
                        // unsent, so it is made anew.
                        loop {
                            tokio::select! {
                                biased;
                                sent = tx.send(ledger.payload(me * 1000 + n)).sync() => break sent.unwrap(),
                                () = tokio::task::yield_now() => (),
                            }
                        }
                    }
                })
            })
            .collect();
        drop(tx);
        let mut got = vec![0u32; 2000];
        loop {
            tokio::select! {
                message = rx.recv().sync() => match message {
                    Ok(message) => got[message.id] += 1,
                    Err(Closed) => break,
                },
                () = tokio::task::yield_now() => (),
            }
        }
        for sender in senders {
            sender.await.unwrap();
        }
        // A send that committed just before it was dropped was made again:
        // at least once, never lost.
        assert!(got.iter().all(|count| *count >= 1));
    });
    drop(runtime);
    ledger.check();
}

#[test]
fn tokio_timeouts_lose_nothing() {
    watchdog!();
    let ledger = Ledger::new();
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_time().build().unwrap();
    runtime.block_on(async {
        let (tx, rx) = channel();
        let sender = {
            let ledger = ledger.clone();
            tokio::spawn(async move {
                for n in 0..200 {
                    tx.send(ledger.payload(n)).await.unwrap();
                    tokio::time::sleep(std::time::Duration::from_micros(n as u64 * 37 % 2500)).await;
                }
            })
        };
        let mut got = Vec::new();
        loop {
            match tokio::time::timeout(millis(1), rx.recv()).await {
                Ok(Ok(message)) => got.push(message.id),
                Ok(Err(Closed)) => break,
                Err(_) => (),
            }
        }
        sender.await.unwrap();
        assert_eq!(got, (0..200).collect::<Vec<_>>());
    });
    ledger.check();
}

/// A pinned wait is polled on a Chanter host, then on Tokio, then on an OS
/// thread, and so on; its partner finds it wherever it is.
#[test]
fn a_wait_may_move_between_executors() {
    watchdog!();
    let ledger = Ledger::new();
    let chanter = machine(2);
    let tokio = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
    // Polls once where it is, and hands it on.
    async fn hop(mut receive: Receive) -> Result<Payload, Receive> {
        let poll = std::future::poll_fn(|cx| Poll::Ready(receive.as_mut().poll(cx))).await;
        match poll {
            Poll::Ready(message) => Ok(message.unwrap()),
            Poll::Pending => Err(receive),
        }
    }
    for at in 0..RECEIVES {
        for hops in 0..6 {
            let (tx, rx) = channel();
            let (what, mut receive) = receives(&rx).swap_remove(at);
            for place in 0..hops {
                let back = match place % 3 {
                    0 => chanter.spawn(hop(receive)).join().sync_blocking().unwrap(),
                    1 => tokio.block_on(async { tokio::spawn(hop(receive)).await.unwrap() }),
                    _ => std::thread::spawn(|| futures::executor::block_on(hop(receive))).join().unwrap(),
                };
                receive = match back {
                    Err(receive) => receive,
                    Ok(_) => panic!("{what}: nothing was sent"),
                };
            }
            // It waits for good in its last place.
            let (sender, message) = (tx.clone(), ledger.payload(at));
            let waiter = match hops % 3 {
                0 => {
                    let host = chanter.spawn(receive);
                    chanter
                        .spawn(async move { sender.send(message).await })
                        .join()
                        .sync_blocking()
                        .unwrap()
                        .unwrap();
                    host.join().sync_blocking().unwrap()
                }
                1 => tokio.block_on(async {
                    let task = tokio::spawn(receive);
                    sender.send(message).await.unwrap();
                    task.await.unwrap()
                }),
                _ => {
                    let thread = std::thread::spawn(|| futures::executor::block_on(receive));
                    sender.send(message).sync_blocking().unwrap();
                    thread.join().unwrap()
                }
            };
            assert_eq!(waiter.unwrap().id, at, "{what}");
        }
    }
    ledger.check();
}

/// A timer that began to run on a machine goes on when the machine has gone.
#[test]
fn a_timer_survives_the_machine_that_it_began_on() {
    watchdog!();
    for vps in [1, 2] {
        let machine = machine(vps);
        let mut single = Box::pin(after(millis(30)).sync());
        let mut choice = Box::pin(choose((never(), after(millis(30)))).sync());
        machine.block_on(async {
            assert!(poll(&mut single).is_pending());
            assert!(poll(&mut choice).is_pending());
        });
        drop(machine);
        let (done, finished) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            futures::executor::block_on(single);
            futures::executor::block_on(choice);
            done.send(()).unwrap();
        });
        finished.recv_timeout(millis(5000)).expect("the timer died with its machine");
    }
}

/// The owner of a wait blocks on its partner's lock only for a moment: many
/// waits come and go on one channel.
#[test]
fn waits_come_and_go_beside_each_other() {
    watchdog!();
    let stop = AtomicBool::new(false);
    let (tx, rx) = channel::<Payload>();
    let ledger = Ledger::new();
    std::thread::scope(|scope| {
        for seed in 0..2 {
            let (rx, stop) = (rx.clone(), &stop);
            scope.spawn(move || {
                let mut random = Random::new(seed);
                let mut waits: Vec<Receive> = Vec::new();
                while !stop.load(Ordering::Relaxed) {
                    match random.below(3) {
                        0 if waits.len() < 50 => {
                            waits.push(receives(&rx).swap_remove(random.below(RECEIVES)).1)
                        }
                        1 if !waits.is_empty() => drop(waits.swap_remove(random.below(waits.len()))),
                        _ if !waits.is_empty() => {
                            let at = random.below(waits.len());
                            if poll(&mut waits[at]).is_ready() {
                                drop(waits.swap_remove(at));
                            }
                        }
                        _ => (),
                    }
                }
            });
        }
        for n in 0..20_000 {
            // Sent to somebody, or not: both are fine.
            drop(tx.try_send(ledger.payload(n)));
        }
        stop.store(true, Ordering::Relaxed);
    });
    drop((tx, rx));
    ledger.check();
}
