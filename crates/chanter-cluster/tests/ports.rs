//! The end of a port: it comes when the last sender has gone, in whatever way that travels, and once.

use std::sync::Arc;

use chanter::prelude::*;
use chanter_cluster::engine::{Local, Why};
use chanter_cluster::port::{Port, PortSender};
use chanter_cluster::{ANYONE, Function, Process, RecvError, SendError, Service, local};

type Numbers = PortSender<u32>;

fn on_machines<F: Future<Output = ()> + Send + 'static>(body: fn() -> F) {
    for vps in [1, 2] {
        Machine::builder().vps(vps).build().unwrap().block_on(async move { body().await });
    }
}

/// It has ended, and nothing is left.
async fn has_ended(port: &Port<u32>) {
    assert_eq!(port.recv().await, Err(RecvError::Closed));
    assert_eq!(port.recv().try_sync(), Some(Err(RecvError::Closed)), "for ever");
}

/// It has not, as somebody has a sender. (What would end it has come by the time of this answer, if it was on its way.)
async fn is_open(port: &Port<u32>, from: &Process, of: u32) {
    let _ = from.at(of).call(PING.ask(&())).await;
    assert_eq!(port.recv().try_sync(), None);
}

const PING: Service<(), ()> = Service::new("ports::ping");

fn cluster<const N: usize>() -> [Process; N] {
    let all = <[Process; N]>::try_from(local(N as u32)).unwrap();
    all.iter().for_each(|here| here.serve(PING, |_, ()| async {}).unwrap().forever());
    all
}

#[test]
fn it_ends_with_the_last_of_its_senders() {
    on_machines(|| async {
        let [first, second] = cluster();
        let port = first.port::<u32>().unwrap();
        assert_eq!(port.recv().try_sync(), None, "nobody has had a sender");
        let sender = port.sender();
        let (clone, outlet) = (sender.clone(), second.connect(sender.clone()).unwrap());
        drop(sender);
        is_open(&port, &first, 1).await;
        let here = first.connect(clone).unwrap();
        is_open(&port, &first, 1).await;
        outlet.send(1).await.unwrap();
        drop(outlet);
        here.send(2).await.unwrap();
        drop(here);
        let mut came = [port.recv().await.unwrap(), port.recv().await.unwrap()];
        came.sort_unstable();
        assert_eq!(came, [1, 2], "what was sent before is there");
        has_ended(&port).await;
        // Whoever asks for a sender now can send to nobody.
        let late = second.connect(port.sender()).unwrap();
        let closed = loop {
            match late.send(3).await {
                Ok(()) => yield_now().await,
                Err(closed) => break closed,
            }
        };
        assert!(matches!(closed.why, SendError::Gone(_)), "{closed}");
        has_ended(&port).await;
    });
}

#[test]
fn who_waits_is_told_and_a_choice_goes_on() {
    on_machines(|| async {
        let [first, second] = cluster();
        let port = Arc::new(first.port::<u32>().unwrap());
        let outlet = second.connect(port.sender()).unwrap();
        let waiting = [(); 2].map(|()| {
            let port = Arc::clone(&port);
            spawn(async move { port.recv().await })
        });
        let (tx, rx) = channel::<u32>();
        let choosing = spawn({
            let port = Arc::clone(&port);
            async move { choose((port.recv().wrap(|got| got.is_err()), rx.recv().wrap(|_| false))).await }
        });
        drop(outlet);
        for waiting in waiting {
            assert_eq!(waiting.await.unwrap(), Err(RecvError::Closed));
        }
        assert!(choosing.await.unwrap());
        drop(tx);
    });
}

/// A sender in a message counts: while that is under way, and while nobody reads it; not when it is dropped.
#[test]
fn a_message_that_carries_a_sender_counts() {
    on_machines(|| async {
        let [first, second, third] = cluster();
        let [me, there, last] = [&first, &second, &third].map(|here| here.inbox().unwrap());
        let port = first.port::<u32>().unwrap();
        me.send(there.name(), 1, &(7_u8, port.sender())).await.unwrap();
        is_open(&port, &first, 1).await;
        let (_, sender) = there.recv::<(u8, Numbers)>(ANYONE, 1).await.unwrap().value;
        is_open(&port, &first, 1).await;
        // On to a third, twice in one message, which has to go by another process.
        there.send(last.name(), 1, &[sender.clone(), sender]).await.unwrap();
        is_open(&port, &first, 2).await;
        let [one, other] = last.recv::<[Numbers; 2]>(ANYONE, 1).await.unwrap().value;
        let outlet = third.connect(one).unwrap();
        drop(other);
        outlet.send(5).await.unwrap();
        assert_eq!(port.recv().await, Ok(5));
        // Within a process.
        let near = third.inbox().unwrap();
        near.send(near.name(), 1, &port.sender()).await.unwrap();
        drop(outlet);
        is_open(&port, &first, 2).await;
        // Nobody reads it.
        drop(near);
        has_ended(&port).await;
    });
}

/// What is written down and not sent, or sent and not read, does not count any more when it is dropped.
#[test]
fn a_message_that_nobody_gets_does_not_count() {
    on_machines(|| async {
        let [first, second] = cluster();
        let (me, there) = (first.inbox().unwrap(), second.inbox().unwrap());
        let port = first.port::<u32>().unwrap();
        let sender = port.sender();
        drop(me.send(there.name(), 1, &sender));
        let lost = choose_biased((always(0), me.send(there.name(), 1, &sender).wrap(|_| 1))).await;
        assert_eq!(lost, 0);
        me.send(there.name(), 1, &sender).await.unwrap();
        drop(sender);
        is_open(&port, &first, 1).await;
        drop(there);
        has_ended(&port).await;
        // To nobody at all.
        let (port, gone) = (first.port::<u32>().unwrap(), second.inbox().unwrap().name());
        let _ = me.send(gone, 1, &port.sender()).await;
        has_ended(&port).await;
    });
}

const KEEP: Service<Numbers, ()> = Service::new("ports::keep");
const GIVE: Service<(), Numbers> = Service::new("ports::give");
const PASS: Function<Numbers, Numbers> = Function::new("ports::pass");

/// Arguments and answers of requests, arguments and values of threads.
#[test]
fn senders_travel_in_requests_and_threads() {
    on_machines(|| async {
        let [first, second] = cluster();
        let (kept, keeps) = mailbox();
        let _keep = second
            .serve(KEEP, move |_, sender| {
                let kept = kept.clone();
                async move { kept.send(sender).await.unwrap() }
            })
            .unwrap();
        let _pass = second.offer(PASS, |_, sender| async { sender }).unwrap();
        let port = first.port::<u32>().unwrap();
        first.at(1).call(KEEP.ask(&port.sender())).await.unwrap();
        is_open(&port, &first, 1).await;
        let outlet = second.connect(keeps.recv().await.unwrap()).unwrap();
        outlet.send(1).await.unwrap();
        assert_eq!(port.recv().await, Ok(1));
        drop(outlet);
        has_ended(&port).await;

        // An answer; and one that nobody waits for.
        let port = Arc::new(second.port::<u32>().unwrap());
        let gives = Arc::clone(&port);
        let _give = second
            .serve(GIVE, move |_, ()| {
                let sender = gives.sender();
                async move { sender }
            })
            .unwrap();
        let sender = first.at(1).call(GIVE.ask(&())).await.unwrap();
        is_open(&port, &second, 0).await;
        drop(sender);
        has_ended(&port).await;

        // Through a thread over there, and in its value, as long as that is kept.
        let port = first.port::<u32>().unwrap();
        let thread = first.at(1).spawn(PASS.with(&port.sender())).await.unwrap();
        let joined = thread.join().await.unwrap();
        drop(joined);
        is_open(&port, &first, 1).await;
        let outlet = first.connect(thread.await.unwrap()).unwrap();
        outlet.send(2).await.unwrap();
        drop(outlet);
        assert_eq!(port.recv().await, Ok(2));
        has_ended(&port).await;

        // A value that nobody asks for.
        let port = first.port::<u32>().unwrap();
        drop(first.at(1).spawn(PASS.with(&port.sender())).await.unwrap());
        has_ended(&port).await;
    });
}

/// Through a port, which is what they are for.
#[test]
fn senders_travel_through_ports() {
    on_machines(|| async {
        let [first, second] = cluster();
        let desk = second.port::<(u32, Numbers)>().unwrap();
        let outlet = first.connect(desk.sender()).unwrap();
        let port = first.port::<u32>().unwrap();
        outlet.send((7, port.sender())).await.unwrap();
        is_open(&port, &first, 1).await;
        let (n, answer) = desk.recv().await.unwrap();
        second.connect(answer).unwrap().send(2 * n).await.unwrap();
        assert_eq!(port.recv().await, Ok(14));
        has_ended(&port).await;
        // With a port, what it has not yielded goes.
        outlet.send((8, port.sender())).await.unwrap();
        drop(desk);
    });
}

/// Who dies has no sender any more, and what it was sent carries none.
#[test]
fn a_death_takes_its_senders_along() {
    on_machines(|| async {
        let engines: Vec<Arc<Local>> = Local::cluster(4).into_iter().map(Arc::new).collect();
        let here: Vec<Process> = engines.iter().map(|engine| Process::start(Arc::clone(engine))).collect();
        let port = here[0].port::<u32>().unwrap();
        let outlets: Vec<_> = here.iter().skip(1).map(|here| here.connect(port.sender()).unwrap()).collect();
        let (me, there) = (here[0].inbox().unwrap(), here[3].inbox().unwrap());
        me.send(there.name(), 1, &port.sender()).await.unwrap();
        outlets[0].send(1).await.unwrap();
        engines[1].kill();
        outlets[1].send(2).await.unwrap();
        engines[2].kill();
        outlets[2].send(3).await.unwrap();
        let mut came = [port.recv().await, port.recv().await, port.recv().await].map(Result::unwrap);
        came.sort_unstable();
        assert_eq!(came, [1, 2, 3]);
        assert_eq!(port.recv().try_sync(), None, "the last one has some");
        engines[3].kill();
        has_ended(&port).await;
        assert_eq!(here[0].down(3), Some(Why::Died));
    });
}

/// Many processes pass many senders around, at random: the port ends when all are gone, and has all that was sent.
#[test]
fn senders_that_wander_are_all_counted() {
    const MESSAGES: u32 = 40;
    const SAY: u32 = 1;
    on_machines(|| async {
        let here = local(4);
        let port = here[0].port::<u32>().unwrap();
        let inboxes: Vec<_> = here.iter().map(|here| here.inbox().unwrap()).collect();
        let names: Vec<_> = inboxes.iter().map(|inbox| inbox.name()).collect();
        for name in &names {
            inboxes[0].send(*name, SAY, &(MESSAGES, port.sender())).await.unwrap();
        }
        let wandering: Vec<_> = here
            .into_iter()
            .zip(inboxes)
            .zip(0..)
            .map(|((here, inbox), seed)| {
                let names = names.clone();
                spawn(async move {
                    let mut random = fastrand::Rng::with_seed(seed);
                    // Each is passed on until its count is over, and sends each time.
                    loop {
                        let (left, sender) = inbox.recv::<(u32, Numbers)>(ANYONE, SAY).await.unwrap().value;
                        let outlet = here.connect(sender.clone()).unwrap();
                        outlet.send(left).await.unwrap();
                        if left > 0 {
                            let to = names[random.usize(..names.len())];
                            inbox.send(to, SAY, &(left - 1, sender)).await.unwrap();
                        }
                    }
                })
            })
            .collect();
        let mut came = 0;
        loop {
            match port.recv().await {
                Ok(_) => came += 1,
                Err(end) => {
                    assert_eq!(end, RecvError::Closed);
                    break;
                }
            }
        }
        assert_eq!(came, 4 * (MESSAGES + 1));
        // All wait for more, which does not come.
        for wanderer in wandering {
            drop(wanderer.cancel());
            assert!(wanderer.await.is_err());
        }
    });
}

/// What a value carries is written and read on the stack of its fiber, also while that is suspended within and others write and read.
#[test]
fn fibers_that_are_suspended_while_they_write_and_read() {
    /// Suspends its fiber, and then is written and read as its sender.
    struct Slow(Numbers);
    /// So often a fiber is suspended; the later ones less often.
    static TURNS: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
    fn suspend() {
        let turns = TURNS.fetch_add(1, std::sync::atomic::Ordering::Relaxed) % 3;
        (0..=turns).for_each(|_| chanter::fiber::yield_now());
    }
    impl serde::Serialize for Slow {
        fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            suspend();
            let result = self.0.serialize(serializer);
            suspend();
            result
        }
    }
    impl<'de> serde::Deserialize<'de> for Slow {
        fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            suspend();
            let result = Numbers::deserialize(deserializer);
            suspend();
            result.map(Self)
        }
    }
    on_machines(|| async {
        let [first, second] = cluster();
        let inboxes: Vec<_> = (0..4).map(|_| second.inbox().unwrap()).collect();
        let mut fibers = Vec::new();
        for inbox in &inboxes {
            let (first, to) = (first.clone(), inbox.name());
            // Its own port: what another one carries does not keep it open.
            fibers.push(chanter::fiber::Builder::new().on(0).spawn(move || {
                let port = first.port::<u32>().unwrap();
                let me = first.inbox().unwrap();
                let slow = Slow(port.sender());
                block_on(me.send(to, 1, &slow)).unwrap();
                drop(slow);
                (port, me)
            }));
        }
        let reads: Vec<_> = inboxes
            .into_iter()
            .zip(0..)
            .map(|(inbox, number)| {
                let second = second.clone();
                chanter::fiber::Builder::new().on(0).spawn(move || {
                    let Slow(sender) = block_on(inbox.recv::<Slow>(ANYONE, 1)).unwrap().value;
                    let outlet = second.connect(sender).unwrap();
                    block_on(outlet.send(number)).unwrap();
                })
            })
            .collect();
        let mut ports = Vec::new();
        for fiber in fibers {
            ports.push(fiber.join().await.unwrap());
        }
        for read in reads {
            read.join().await.unwrap();
        }
        for (number, (port, _me)) in (0..).zip(&ports) {
            assert_eq!(port.recv().await, Ok(number));
            has_ended(port).await;
        }
    });
}
