//! Many fibers at once.

use chanter::fiber;
use chanter::prelude::*;

use crate::common::{Random, machine, watchdog};

/// How many stacks the OS lets a process have: two mappings each, unless
/// guards cost none.
fn possible() -> usize {
    let limit = std::fs::read_to_string("/proc/sys/vm/max_map_count");
    let maps = limit.ok().and_then(|limit| limit.trim().parse::<usize>().ok()).unwrap_or(usize::MAX);
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let mut numbers = release.split(['.', '-']).map_while(|part| part.parse::<u32>().ok());
    let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    if version >= (6, 13) { usize::MAX } else { maps.saturating_sub(2000) / 2 }
}

#[test]
fn a_hundred_thousand_fibers_block() {
    watchdog!(120);
    let count = 100_000.min(possible());
    if count < 100_000 {
        eprintln!("this system has room for {count} stacks only");
    }
    let machine = machine(1);
    let sum = machine.block_on(async {
        let (tx, rx) = channel::<u64>();
        let fibers: Vec<_> = (0..count)
            .map(|_| {
                let rx = rx.clone();
                fiber::Builder::new().stack_size(64 << 10).spawn(move || rx.recv().sync_blocking().unwrap())
            })
            .collect();
        yield_now().await;
        // Every one of them has its stack, and waits.
        assert_eq!(machine.stats().stacks_allocated, count as u64);
        for n in 0..count as u64 {
            tx.send(n).await.unwrap();
        }
        let mut sum = 0;
        for fiber in fibers {
            sum += fiber.await.unwrap();
        }
        sum
    });
    let count = count as u64;
    assert_eq!(sum, count * (count - 1) / 2);
}

#[test]
fn ten_thousand_fibers_are_ended_at_once() {
    watchdog!();
    let machine = machine(1);
    let (_keep, rx) = channel::<()>();
    let fibers = machine.block_on(async {
        let fibers: Vec<_> = (0..10_000)
            .map(|_| {
                let rx = rx.clone();
                spawn_fiber(move || rx.recv().sync_blocking())
            })
            .collect();
        yield_now().await;
        fibers
    });
    // If the turn above is long, some begin on another OS thread, and go on when `block_on` returns.
    drop(machine);
    assert!(fibers.into_iter().all(|fiber| fiber.join().sync_blocking().unwrap_err().is_cancelled()));
}

/// Fibers, hosts, parasites and OS threads pass messages about, at random, on
/// several processors; each is accounted for.
#[test]
fn a_crowd_of_all_kinds() {
    watchdog!();
    const EACH: u64 = 8;
    const ROUNDS: u64 = 300;
    for seed in 0..4 {
        let machine = machine(1 + seed as usize % 3);
        let channels: Vec<_> = (1..5).map(bounded::<u64>).collect();
        let (done, sums) = mailbox::<(u64, u64)>();
        let mut os_threads = Vec::new();
        for who in 0..4 * EACH {
            let (tx, rx): (Vec<_>, Vec<_>) = channels.iter().cloned().unzip();
            let done = done.clone();
            // Each sender receives as well, so that nobody is left over.
            let body = async move {
                let mut random = Random::new(seed * 1000 + who);
                let (mut sent, mut got) = (0, 0);
                let (mut sends, mut receives) = (ROUNDS, ROUNDS);
                while sends + receives > 0 {
                    let (to, from) = (&tx[random.below(4)], rx.iter().map(Receiver::recv));
                    let message = random.next() >> 32;
                    let receive = choose(from.collect::<Vec<_>>()).wrap(|n| (false, n.unwrap()));
                    let send = to.send(message).wrap(move |sent| {
                        sent.unwrap();
                        (true, message)
                    });
                    let (was_sent, n) = match (sends, receives) {
                        (0, _) => receive.await,
                        (_, 0) => send.await,
                        _ => choose((send, receive)).await,
                    };
                    if was_sent {
                        (sends, sent) = (sends - 1, sent + n);
                    } else {
                        (receives, got) = (receives - 1, got + n);
                    }
                }
                done.try_send((sent, got)).unwrap();
            };
            match who % 4 {
                0 => drop(machine.spawn_fiber(|| chanter::block_on(body))),
                1 => drop(machine.spawn(body)),
                2 => drop(machine.spawn(async { spawn_parasite(body) })),
                _ => os_threads.push(std::thread::spawn(|| futures::executor::block_on(body))),
            }
        }
        drop(done);
        let (mut sent, mut got, mut count) = (0_u64, 0_u64, 0);
        while let Ok((s, g)) = sums.recv().sync_blocking() {
            (sent, got, count) = (sent + s, got + g, count + 1);
        }
        assert_eq!(count, 4 * EACH);
        assert_eq!(sent, got);
        os_threads.into_iter().for_each(|thread| thread.join().unwrap());
    }
}
