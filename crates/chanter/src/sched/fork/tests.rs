//! Forks whose halves block.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::prelude::*;
use crate::sched::Worker;

/// A watchdog: no test takes so long.
const LIMIT: Duration = Duration::from_secs(60);

/// Waits in the middle of a turn until `flag` is set, or the machine ends: then nobody may be left to set it.
fn await_flag(flag: &AtomicBool) {
    let machine = Worker::current().expect("a thread of a machine").machine();
    while !flag.load(Ordering::SeqCst) && !machine.is_closing() {
        std::thread::yield_now();
    }
}

/// Lets a fiber on processor 0 fork. Its second half runs on processor 1, and forks. The part that it forks is taken by
/// processor 0, where the fiber is suspended, and blocks there. Then the fiber goes on above it, and waits for its half.
fn wait_above_a_part(machine: &Machine) -> Thread<()> {
    machine.spawn_on(0, async move {
        let fiber = crate::fiber::Builder::new().on(0).spawn(|| {
            let [half, part] = [(); 2].map(|()| Arc::new(AtomicBool::new(false)));
            let (half_has_begun, part_has_begun) = (Arc::clone(&half), Arc::clone(&part));
            let (resume, resumed) = mailbox();
            fork_join(
                || {
                    await_flag(&half);
                    resumed.recv().sync_blocking().unwrap();
                },
                || {
                    half_has_begun.store(true, Ordering::SeqCst);
                    fork_join(
                        || await_flag(&part),
                        || {
                            part_has_begun.store(true, Ordering::SeqCst);
                            resume.try_send(()).unwrap();
                            after(Duration::from_millis(20)).sync_blocking();
                        },
                    );
                },
            );
        });
        let _ = fiber.await;
    })
}

/// The part could not end before the fiber returned, which waited for the part.
#[test]
#[cfg_attr(miri, ignore = "Miri switches no stacks")]
fn a_fiber_that_waits_above_a_part_of_its_half_lets_the_part_end() {
    for quantum in [None, Some(Duration::from_millis(1))] {
        // If it fails, it does not wait for its threads.
        let builder = Machine::builder().vps(2).shutdown_timeout(LIMIT);
        let machine = builder.hand_off_after(quantum).build().unwrap();
        for _ in 0..10 {
            let waits = wait_above_a_part(&machine);
            let end = Instant::now() + LIMIT;
            while !waits.is_determined() {
                assert!(Instant::now() < end, "the fiber waits for ever");
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        // It is ended in the middle of the wait, or before.
        drop(wait_above_a_part(&machine));
        std::thread::sleep(Duration::from_millis(5));
        assert!(machine.shutdown_timeout(LIMIT), "the end of the fiber waits for ever");
    }
}
