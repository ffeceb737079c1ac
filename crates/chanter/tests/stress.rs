//! A soup: threads of all kinds do random things to a few channels, and to one
//! of everything else. Every message is received once, given back, or dropped
//! with its channel; every lock and permit is back.
//!
//! `CHANTER_STRESS=<seconds>` makes it longer; a failure prints the seed, and
//! `CHANTER_STRESS_SEED=<seed>` cooks the same soup again (the OS's schedule is
//! another one, though).

// Under Miri a soup of seconds is a soup of nothing.
#![cfg(not(miri))]

mod common;
#[path = "stress/larder.rs"]
mod larder;

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::{Duration, Instant};

use chanter::prelude::*;
use chanter::{
    event::{Ageing, choose_earliest, optional},
    parasite::inflate,
};
use common::{Ledger, Payload, Random, machine, watchdog};
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use larder::Larder;

type Pair = (Sender<Payload>, Receiver<Payload>);
/// A nack, and whether its branch's result was taken.
type Told = (Nack, Arc<AtomicBool>);
type Wait = Pin<Box<dyn Future<Output = Option<Payload>> + Send>>;

type Both = (Option<Payload>, Option<Payload>);

fn aged<'a>(
    ageing: &'a mut Ageing,
    events: [larder::Food; 2],
) -> Pin<Box<dyn Future<Output = Option<Payload>> + Send + 'a>> {
    Box::pin(ageing.choose(events).sync())
}

/// The shared state of all threads.
struct Pot {
    ledger: Arc<Ledger>,
    channels: Vec<Mutex<Pair>>,
    larder: Larder,
    /// Waits that one thread began and another may go on with.
    waits: Mutex<Vec<Wait>>,
    nacks: Arc<Mutex<Vec<Told>>>,
    stop: IVar<()>,
    failed: AtomicBool,
    busy: AtomicUsize,
    received: AtomicU64,
    next: AtomicUsize,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Host,
    Pinned,
    Parasite,
    Os,
    Tokio,
}

fn new_channel(random: &mut Random) -> Pair {
    match random.below(4) {
        0 | 1 => channel(),
        2 => bounded(1 + random.below(3)),
        _ => mailbox(),
    }
}

impl Pot {
    fn new(random: &mut Random) -> Arc<Self> {
        let ledger = Ledger::new();
        Arc::new(Self {
            larder: Larder::new(ledger.payload(usize::MAX)),
            ledger,
            channels: (0..4).map(|_| Mutex::new(new_channel(random))).collect(),
            waits: Mutex::default(),
            nacks: Arc::default(),
            stop: IVar::new(),
            failed: AtomicBool::new(false),
            busy: AtomicUsize::new(0),
            received: AtomicU64::new(0),
            next: AtomicUsize::new(0),
        })
    }

    fn payload(&self) -> Payload {
        self.ledger.payload(self.next.fetch_add(1, Ordering::Relaxed))
    }

    fn pair(&self, random: &mut Random) -> Pair {
        let pair = self.channels[random.below(self.channels.len())].lock().unwrap();
        (pair.0.clone(), pair.1.clone())
    }

    fn take(&self, message: Option<Payload>) {
        if let Some(message) = message {
            self.received.fetch_add(1, Ordering::Relaxed);
            drop(message);
        }
    }

    /// A send or a receive, alone or in a choice, with an end.
    fn event(&self, random: &mut Random) -> BoxEvent<'static, Option<Payload>> {
        let (tx, rx) = self.pair(random);
        let late = after(Duration::from_micros(random.next() % 300)).wrap(|()| None);
        let recv = |rx: &Receiver<Payload>| rx.clone().into_recv().wrap(Result::ok);
        let send = |tx: &Sender<Payload>, message| {
            tx.clone().into_send(message).wrap(|result| result.err().map(|back| back.0))
        };
        match random.below(13) {
            8 => choose((self.larder.event(random, || self.payload()), late)).boxed(),
            9 => {
                let one = self.larder.event(random, || self.payload());
                let two = self.larder.event(random, || self.payload());
                choose_biased((guard(move || one), recv(&rx), two, late)).boxed()
            }
            10 => {
                let list: Vec<_> = (0..4).map(|_| self.larder.event(random, || self.payload())).collect();
                let limit = Duration::from_micros(random.next() % 300);
                choose((choose(list), send(&tx, self.payload()))).timeout(limit).wrap(Option::flatten).boxed()
            }
            11 => {
                let one = self.larder.event(random, || self.payload());
                let due = Instant::now() + Duration::from_micros(random.next() % 300);
                choose_earliest((one.due(due), recv(&rx), late)).by(due).wrap(Option::flatten).boxed()
            }
            12 => {
                let chosen = Arc::new(AtomicBool::new(false));
                let (won, lost) = (chosen.clone(), chosen);
                let one = self.larder.event(random, || self.payload());
                let one = one.on_abort(move || assert!(!lost.swap(true, Ordering::SeqCst), "both"));
                let one = one.wrap(move |message| {
                    assert!(!won.swap(true, Ordering::SeqCst), "aborted, and chosen");
                    message
                });
                choose((optional(Some(one)), late)).boxed()
            }
            0 => choose((send(&tx, self.payload()), late)).boxed(),
            1 => choose((recv(&rx), late)).boxed(),
            // Both sides of one channel.
            2 => choose((send(&tx, self.payload()), recv(&rx), late)).boxed(),
            3 => {
                let (tx2, rx2) = self.pair(random);
                choose((recv(&rx), send(&tx2, self.payload()), late, recv(&rx2), send(&tx, self.payload())))
                    .boxed()
            }
            4 => {
                let list = (0..random.below(6))
                    .map(|n| {
                        let (tx, rx) = self.pair(random);
                        if n % 2 == 0 { recv(&rx).boxed() } else { send(&tx, self.payload()).boxed() }
                    })
                    .collect::<Vec<_>>();
                choose((choose(list), late)).boxed()
            }
            5 => {
                let message = self.payload();
                choose_biased((guard(move || choose((recv(&rx), send(&tx, message)))), late)).boxed()
            }
            6 => {
                let chosen = Arc::new(AtomicBool::new(false));
                let flag = chosen.clone();
                let (nacks, told) = (self.nacks.clone(), chosen);
                let event = with_nack(move |nack| {
                    nacks.lock().unwrap().push((nack, told));
                    rx.into_recv()
                });
                let event = event.wrap(move |result| {
                    flag.store(true, Ordering::SeqCst);
                    result.ok()
                });
                choose((event, late)).boxed()
            }
            _ => choose_biased((recv(&rx), late)).boxed(),
        }
    }

    /// (The compiler cannot tell that these are `Send` inside of another future.)
    fn both(&self, random: &mut Random) -> Pin<Box<dyn Future<Output = Option<Both>> + Send>> {
        let both = gather((self.event(random), self.event(random)));
        Box::pin(both.timeout(Duration::from_micros(random.next() % 300)).sync())
    }

    async fn act(self: &Arc<Self>, kind: Kind, random: &mut Random) {
        match random.below(28) {
            0 => drop(self.pair(random).0.try_send(self.payload())),
            1 => self.take(self.pair(random).1.try_recv().ok()),
            2 => self.take(self.event(random).try_sync().flatten()),
            // Begun, and dropped in the middle.
            3 | 4 => {
                let mut wait = Box::pin(self.event(random).sync());
                for _ in 0..random.below(3) {
                    let poll = std::future::poll_fn(|cx| Poll::Ready(wait.as_mut().poll(cx))).await;
                    if let Poll::Ready(message) = poll {
                        self.take(message);
                        return;
                    }
                    if random.below(2) == 0 {
                        yield_now().await;
                    }
                }
            }
            // Begun here, for others to go on with.
            5 => {
                let mut wait: Wait = Box::pin(self.event(random).sync());
                match std::future::poll_fn(|cx| Poll::Ready(wait.as_mut().poll(cx))).await {
                    Poll::Ready(message) => self.take(message),
                    Poll::Pending => self.waits.lock().unwrap().push(wait),
                }
            }
            6 => {
                let wait = {
                    let mut waits = self.waits.lock().unwrap();
                    let len = waits.len();
                    (len > 0).then(|| waits.swap_remove(random.below(len.max(1))))
                };
                if let Some(wait) = wait {
                    self.take(wait.await);
                }
            }
            7 => {
                let mut waits: FuturesUnordered<_> = (0..4).map(|_| self.event(random).sync()).collect();
                for _ in 0..random.below(4) {
                    self.take(waits.next().await.flatten());
                }
            }
            8 => {
                let (a, b) = futures::join!(self.event(random).sync(), self.event(random).sync());
                self.take(a);
                self.take(b);
            }
            9 => {
                let (a, b) = (self.event(random), self.event(random));
                tokio::select! {
                    message = a.sync() => self.take(message),
                    message = b.sync() => self.take(message),
                    () = yield_now() => (),
                }
            }
            // A new channel for an old one, which may be closed by hand.
            10 if random.below(10) == 0 => {
                let fresh = new_channel(random);
                let at = random.below(self.channels.len());
                let old = std::mem::replace(&mut *self.channels[at].lock().unwrap(), fresh);
                match random.below(3) {
                    0 => old.0.close(),
                    1 => old.1.close(),
                    _ => (),
                }
            }
            11 if matches!(kind, Kind::Host | Kind::Parasite | Kind::Pinned) => {
                let pot = self.clone();
                let event = self.event(random);
                let body = Busy::during(&pot, async move |pot: Arc<Self>| pot.take(event.await));
                if random.below(2) == 0 { spawn_parasite(body) } else { drop(spawn(body)) }
            }
            12 if kind != Kind::Tokio => self.take(self.event(random).sync_blocking()),
            13 if matches!(kind, Kind::Host | Kind::Parasite) => inflate().await,
            14 => yield_now().await,
            15..=18 => self.larder.stir(random, || self.payload()),
            19 => self.larder.hold(random).await,
            20 if matches!(kind, Kind::Host | Kind::Parasite | Kind::Pinned) => {
                if let Some((one, two)) = self.both(random).await {
                    self.take(one);
                    self.take(two);
                }
            }
            21 => {
                let mut ageing = Ageing::new();
                for _ in 0..3 {
                    let events = [self.event(random), self.event(random)];
                    self.take(aged(&mut ageing, events).await);
                }
            }
            _ => self.take(self.event(random).await),
        }
    }

    async fn live(self: Arc<Self>, kind: Kind, seed: u64) {
        let mut random = Random::new(seed);
        while self.stop.get().try_sync().is_none() {
            self.act(kind, &mut random).await;
            // On Tokio, too, others have their turn.
            if random.below(64) == 0 {
                yield_now().await;
            }
        }
    }
}

/// Counts a body while it lives, and notices its panic.
struct Busy(Arc<Pot>);

impl Busy {
    fn during<F, R>(pot: &Arc<Pot>, body: F) -> impl Future<Output = ()> + Send + use<F, R>
    where
        F: FnOnce(Arc<Pot>) -> R + Send,
        R: Future<Output = ()> + Send,
    {
        pot.busy.fetch_add(1, Ordering::SeqCst);
        let busy = Busy(pot.clone());
        let body = body(pot.clone());
        async move {
            let _busy = busy;
            body.await;
        }
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.failed.store(true, Ordering::SeqCst);
        }
        self.0.busy.fetch_sub(1, Ordering::SeqCst);
    }
}

static SEED: AtomicU64 = AtomicU64::new(0);

struct TellSeed(u64);

impl Drop for TellSeed {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the soup of CHANTER_STRESS_SEED={} failed", self.0);
        }
    }
}

fn cook(seed: u64, time: Duration) -> u64 {
    SEED.store(seed, Ordering::SeqCst);
    let _tell = TellSeed(seed);
    let mut random = Random::new(seed);
    let pot = Pot::new(&mut random);
    let machine = machine(2);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap();
    let mut os = Vec::new();
    for n in 0..12 {
        let kind = [Kind::Host, Kind::Parasite, Kind::Os, Kind::Tokio, Kind::Host, Kind::Pinned][n % 6];
        let seed = random.next();
        let body = Busy::during(&pot, move |pot: Arc<Pot>| pot.live(kind, seed));
        match kind {
            Kind::Host => drop(machine.spawn(body)),
            Kind::Pinned => drop(machine.spawn_on(random.below(2), body)),
            Kind::Parasite => drop(machine.spawn(async move { spawn_parasite(body) })),
            Kind::Tokio => drop(runtime.spawn(body)),
            Kind::Os => os.push(std::thread::spawn(move || futures::executor::block_on(body))),
        }
    }
    // Half of the time the main thread is in the machine.
    if seed.is_multiple_of(2) {
        machine.block_on(async { after(time).await });
    } else {
        std::thread::sleep(time);
    }
    // Half of the soups end while everybody is at work.
    if seed % 4 < 2 {
        pot.stop.put(()).unwrap();
        let end = Instant::now() + common::FOREVER;
        while pot.busy.load(Ordering::SeqCst) > 0 {
            assert!(Instant::now() < end, "{} threads never ended", pot.busy.load(Ordering::SeqCst));
            std::thread::sleep(Duration::from_millis(1));
        }
        drop(machine);
    } else {
        // Those that block in the machine's stack would keep its end waiting.
        pot.stop.put(()).unwrap();
        drop(machine);
    }
    for thread in os {
        thread.join().unwrap();
    }
    drop(runtime);
    assert!(!pot.failed.load(Ordering::SeqCst), "a thread panicked");
    assert_eq!(pot.busy.load(Ordering::SeqCst), 0, "a thread was leaked");
    pot.waits.lock().unwrap().clear();
    let received = pot.received.load(Ordering::Relaxed);
    let ledger = pot.ledger.clone();
    let pot = Arc::try_unwrap(pot).ok().expect("everybody has gone");
    for (nack, chosen) in &*pot.nacks.lock().unwrap() {
        assert_ne!(nack.is_enabled(), chosen.load(Ordering::SeqCst), "a nack that lies");
    }
    pot.larder.check();
    drop(pot);
    ledger.check();
    received
}

#[test]
fn the_soup() {
    let seconds = std::env::var("CHANTER_STRESS").ok().and_then(|text| text.parse().ok()).unwrap_or(3u64);
    watchdog!(seconds * 3 + 60);
    std::thread::spawn(move || {
        std::thread::sleep(Duration::from_secs(seconds * 3 + 59));
        eprintln!("the soup was CHANTER_STRESS_SEED={}", SEED.load(Ordering::SeqCst));
    });
    if let Some(seed) = std::env::var("CHANTER_STRESS_SEED").ok().and_then(|text| text.parse().ok()) {
        cook(seed, Duration::from_secs(seconds));
        return;
    }
    let start = Instant::now();
    let clock = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    let mut seed = clock.as_nanos() as u64 >> 8;
    let mut received = 0;
    while start.elapsed() < Duration::from_secs(seconds) {
        received += cook(seed, Duration::from_millis(100 + seed % 200));
        seed += 1;
    }
    assert!(received > 1000, "hardly anything was received: {received}");
}

/// A few OS threads use one channel after the other without a pause. So they are preempted anywhere: in the middle of
/// an operation, and between two instructions of its beginning. The channel is "usually" each one's in turn.
#[test]
fn a_channel_may_change_hands_at_any_instruction() {
    let seconds = std::env::var("CHANTER_STRESS").ok().and_then(|text| text.parse().ok()).unwrap_or(3u64);
    watchdog!(seconds * 3 + 60);
    const EACH: u64 = 150_000;
    const THREADS: u64 = 3;
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(seconds) {
        let (tx, rx) = mailbox::<u64>();
        std::thread::scope(|scope| {
            for me in 0..THREADS {
                let tx = tx.clone();
                scope.spawn(move || {
                    for n in 0..EACH {
                        tx.try_send(me * EACH + n).unwrap();
                    }
                });
            }
        });
        let mut next = [0; THREADS as usize];
        assert_eq!(rx.len() as u64, THREADS * EACH, "messages were lost or doubled");
        while let Ok(n) = rx.try_recv() {
            let (from, n) = ((n / EACH) as usize, n % EACH);
            assert_eq!(n, next[from], "a message was lost or doubled");
            next[from] += 1;
        }
    }
}
