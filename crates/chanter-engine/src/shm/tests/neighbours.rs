//! A neighbour destroys words of the segment. The others notice, or lose nothing.

use super::*;

/// An act of a neighbour on the memory of the others.
type Vandal = fn(&Mapping, &mut fastrand::Rng);

/// A process that talks to one other, and sleeps while it waits for a frame.
struct Talker {
    engine: Shm,
    notified: Receiver<()>,
    heard: Heard,
}

/// The frames of the other process that have come, and whether it has gone.
struct Heard {
    other: ProcessId,
    frames: VecDeque<Body>,
    is_down: bool,
}

impl Sink for Heard {
    fn arrived(&mut self, from: ProcessId, _lane: Lane, frame: Body) {
        if from == self.other {
            self.frames.push_back(frame);
        }
    }

    fn peer(&mut self, peer: ProcessId, change: Change) {
        self.is_down |= peer == self.other && matches!(change, Change::Down(_));
    }
}

impl Talker {
    fn new(engine: Shm, other: ProcessId) -> Self {
        let (notify, notified) = channel();
        engine.attach(Notifier::new(move || {
            let _ = notify.asend(());
        }));
        Self { engine, notified, heard: Heard { other, frames: VecDeque::new(), is_down: false } }
    }

    /// Polls, or sleeps until there is something to poll.
    async fn go_on(&mut self) {
        if self.engine.poll(64, &mut self.heard) != Polled::Nothing {
            return;
        }
        match self.engine.park() {
            Idle::Work => {}
            Idle::For(time) => {
                let _ = self.notified.recv().timeout(time).await;
            }
            Idle::Notified => drop(self.notified.recv().await),
        }
        self.engine.unpark();
        yield_now().await;
    }

    /// Sends a frame. False: the other process is lost.
    async fn send(&mut self, mut frame: Body) -> bool {
        while let Err(Full { body }) = self.engine.try_send(self.heard.other, Lane::User, frame) {
            frame = body;
            self.go_on().await;
        }
        !self.heard.is_down
    }

    /// The next frame. `None`: the other process is lost.
    async fn recv(&mut self) -> Option<Body> {
        while self.heard.frames.is_empty() && !self.heard.is_down {
            self.go_on().await;
        }
        self.heard.frames.pop_front()
    }
}

/// Two processes talk while a third one repeats an act on the shared memory. True: they have talked to the end.
/// False: they have lost each other, and know it.
async fn talk_beside(protocol: Protocol, vandal: Vandal, seed: u64) -> bool {
    const TIMES: u32 = 12;
    const AFTERWARDS: u32 = 20;
    let segment = create(3, protocol).unwrap();
    let config = Config { heartbeat: Duration::from_millis(5), lost_after: u32::MAX, ..unhurried() };
    let engines = engines_in(&segment, 3, |_| true, config).await;
    let [first, second, _third] = <[Shm; 3]>::try_from(engines).unwrap();
    let (mut here, mut there) = (Talker::new(first, ProcessId(1)), Talker::new(second, ProcessId(0)));
    let is_over = Arc::new(AtomicBool::new(false));
    let done = Arc::clone(&is_over);
    let vandalizing = std::thread::spawn(move || {
        let (memory, mut random) = (Mapping::open(segment, 3).unwrap(), fastrand::Rng::with_seed(seed));
        for _ in 0..TIMES {
            std::thread::sleep(Duration::from_micros(random.u64(..2000)));
            vandal(&memory, &mut random);
        }
        done.store(true, Ordering::Release);
    });
    let answering = spawn(async move {
        while let Some(frame) = there.recv().await
            && there.send(frame).await
        {}
        there.engine.leave(Leave::Now);
    });
    let mut random = fastrand::Rng::with_seed(seed);
    let mut left = AFTERWARDS;
    while left > 0 {
        left -= u32::from(is_over.load(Ordering::Acquire));
        let length = if random.u8(..) < 50 { random.usize(..40_000) } else { random.usize(..200) };
        if !here.send(Body::zeroed(length)).await || here.recv().await.is_none() {
            break;
        }
    }
    here.engine.leave(Leave::Now);
    answering.join().await.expect("it has heard of the end");
    vandalizing.join().unwrap();
    left == 0
}

/// All slots of the two processes.
fn slots(memory: &Mapping) -> impl Iterator<Item = &pull::Slot> {
    (0..2).flat_map(move |process| (0..SLOTS).map(move |slot| memory.slot(process, slot)))
}

const STATE: u8 = 0;
const NEXT: u8 = 1;
const INFO: u8 = 2;
const PORT: std::ops::Range<u8> = 0..4;

/// Lost hints do no harm: the pieces in the slots are found.
#[chanter::test(limit = 300)]
async fn hints_that_a_neighbour_destroys_are_not_missed() {
    let vandals: [Vandal; 3] = [
        // As if no piece had been sent, no process slept, and none wanted room.
        |memory, _| (0..3).for_each(|process| PORT.for_each(|field| memory.port(process).scribble(field, 0))),
        |memory, random| {
            let process = random.usize(..2);
            memory.port(process).scribble(random.u8(PORT), random.u64(..));
        },
        |memory, random| slots(memory).for_each(|slot| slot.scribble(NEXT, random.u64(..))),
    ];
    for (number, vandal) in (0..).zip(vandals) {
        for seed in 0..3 {
            assert!(talk_beside(Protocol::Pull, vandal, seed).await, "vandal {number}, {seed}");
        }
    }
}

/// By push, a tail that is wrong is mended.
#[chanter::test(limit = 300)]
async fn tails_that_a_neighbour_destroys_are_mended() {
    let vandals: [Vandal; 3] = [
        |memory, _| {
            (0..3).for_each(|process| (0..3).for_each(|lane| memory.port(process).scribble_pushed(lane, 0)))
        },
        |memory, random| {
            let near = random.u64(..1000);
            (0..3)
                .for_each(|process| (0..3).for_each(|lane| memory.port(process).scribble_pushed(lane, near)));
        },
        |memory, random| {
            let process = random.usize(..2);
            memory.port(process).scribble_pushed(random.u8(..3), random.u64(..));
            memory.port(process).scribble(random.u8(PORT), random.u64(..));
        },
    ];
    for (number, vandal) in (0..).zip(vandals) {
        for seed in 0..3 {
            assert!(talk_beside(Protocol::Push, vandal, seed).await, "vandal {number}, {seed}");
        }
    }
}

/// A destroyed piece is noticed, and no process waits for it.
#[chanter::test(limit = 300)]
async fn messages_that_a_neighbour_destroys_are_missed() {
    let vandals: [Vandal; 6] = [
        // As if never sent.
        |memory, _| slots(memory).for_each(|slot| slot.scribble(STATE, 0)),
        // As if not taken, though they were.
        |memory, random| {
            let number = random.u64(1..50);
            for process in 0..2 {
                let slot = memory.slot(process, random.usize(..SLOTS));
                slot.scribble(STATE, pull::stamp(1 - process, number));
            }
        },
        |memory, random| slots(memory).for_each(|slot| slot.scribble(STATE, random.u64(..))),
        // Another length or lane, with or without pieces to follow.
        |memory, random| slots(memory).for_each(|slot| slot.scribble(INFO, random.u64(..))),
        |memory, random| {
            let info = Info { length: 100, lane: 1, has_more: random.bool() };
            slots(memory).for_each(|slot| slot.scribble(INFO, info.bits()));
        },
        |memory, random| memory.fill(|| random.u8(..)),
    ];
    for protocol in [Protocol::Pull, Protocol::Push] {
        for (number, vandal) in (0..).zip(vandals) {
            let mut ended = 0;
            for seed in 0..3 {
                ended += u32::from(!talk_beside(protocol, vandal, seed).await);
            }
            println!("{protocol:?}, vandal {number}: {ended} of 3 have lost each other");
        }
    }
}
