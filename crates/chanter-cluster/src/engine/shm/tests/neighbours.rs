//! A neighbour destroys words of the segment. The others notice, or lose nothing.

use super::*;

/// An act of a neighbour on the memory of the others.
type Vandal = fn(&Mapping, &mut fastrand::Rng);

/// Two processes talk while a third one repeats an act on the shared memory. True: they have talked to the end.
/// False: they have lost each other, and know it.
async fn talk_beside(protocol: Protocol, vandal: Vandal, seed: u64) -> bool {
    const TIMES: u32 = 12;
    const AFTERWARDS: u32 = 20;
    let segment = create(3, protocol).unwrap();
    let config = Config { heartbeat: Duration::from_millis(5), lost_after: u32::MAX, ..unhurried() };
    let engines = engines_in(&segment, 3, |_| true, config).await;
    let [first, second, _third] = <[Shm; 3]>::try_from(engines).unwrap();
    let [first, second] = [first, second].map(Process::start);
    let (here, there) = (first.inbox().unwrap(), second.inbox().unwrap());
    let (from, to) = (here.name(), there.name());
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
        while let Ok(got) = there.recv_buffer::<u8>(from, 1).await
            && there.send_buffer(got.from, 2, got.value).await.is_ok()
        {}
        second.down(0).expect("it has lost the other one, or that one has ended")
    });
    let asking = spawn(async move {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut left = AFTERWARDS;
        while left > 0 {
            left -= u32::from(is_over.load(Ordering::Acquire));
            let length = if random.u8(..) < 50 { random.usize(..40_000) } else { random.usize(..200) };
            let message = Buffer::copied_from(&vec![0_u8; length]);
            if here.send_buffer(to, 1, message).await.is_err() || here.recv_buffer::<u8>(to, 2).await.is_err()
            {
                assert!(first.down(1).is_some(), "{from} has lost the other one");
                return false;
            }
        }
        true
    });
    let is_done = asking.join().await.unwrap();
    answering.join().await.unwrap();
    vandalizing.join().unwrap();
    is_done
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
