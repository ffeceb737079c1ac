//! Processor time of a machine that waits. It is a process of its own with one test, since others would count.

#![cfg(target_os = "linux")]
#![cfg(not(miri))]

use std::fs::{read_dir, read_to_string};
use std::time::Duration;

use chanter::prelude::*;

const TURN: Duration = Duration::from_secs(1);
/// Of each second. An idle worker that kept looking used up to 900 ms, and one that keeps watch uses some 30.
const MOST: Duration = Duration::from_millis(200);

/// The processor time that the process has used, by the kernel's own count.
fn used() -> Duration {
    let tasks = read_dir("/proc/self/task").unwrap();
    let stats = tasks.filter_map(|task| read_to_string(task.unwrap().path().join("schedstat")).ok());
    Duration::from_nanos(stats.map(|stat| stat.split(' ').next().unwrap().parse::<u64>().unwrap()).sum())
}

/// A turn that sleeps leaves ready threads that may not move, or the half of a fork. An idle worker kept looking for
/// them.
#[test]
fn waits_beside_a_sleeping_turn_use_no_processor() {
    let builder = |vps| Machine::builder().vps(vps);
    let machines = [
        ("one processor", builder(1)),
        ("two processors", builder(2)),
        ("two processors without a hand-off", builder(2).hand_off_after(None)),
        ("four processors of two workers", builder(4).workers(2)),
    ];
    let turns: [(&str, fn()); 2] = [
        ("bound threads", || std::thread::sleep(TURN)),
        ("a half", || _ = fork_join(|| std::thread::sleep(TURN), || ())),
    ];
    for (name, builder) in machines {
        let machine = builder.build().unwrap();
        for (left, turn) in turns {
            // The machine may run other programs, too, so one of three tries suffices.
            let is_idle = (0..3).any(|_| {
                let before = used();
                let thread = machine.spawn_on(1 % machine.vps(), async move {
                    let here = chanter::current_vp().unwrap();
                    (0..10).for_each(|_| drop(here.spawn(async {})));
                    turn();
                });
                thread.join().sync_blocking().unwrap();
                used().saturating_sub(before) < MOST
            });
            assert!(is_idle, "{name}, beside {left}");
        }
    }
}
