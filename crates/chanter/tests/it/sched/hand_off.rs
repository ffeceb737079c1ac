//! Hand-over: a computation that does not come back stalls nobody but itself.

// Under Miri no processor is handed off: it has no `membarrier`.
#![cfg(not(miri))]

use crate::common;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use chanter::prelude::*;
use chanter::{
    checkpoint, current_vp,
    policy::{Deque, Fifo, GlobalQueue, Lifo, Policy, Priority, RoundRobin, WorkStealing},
    yield_if_requested,
};

const QUANTUM: Duration = Duration::from_millis(5);
/// Machines that share a core with other tests are late.
const LATE: Duration = Duration::from_secs(240);

fn machine(vps: usize) -> Machine {
    Machine::builder().vps(vps).hand_off_after(Some(QUANTUM)).build().unwrap()
}

/// Computes until told to stop.
struct Endless {
    stop: Arc<AtomicBool>,
    begun: Arc<AtomicBool>,
}

impl Endless {
    fn new() -> Self {
        Self { stop: Arc::default(), begun: Arc::default() }
    }

    fn body(&self) -> impl FnOnce() + Send + use<> {
        let (stop, begun) = (self.stop.clone(), self.begun.clone());
        move || {
            begun.store(true, Ordering::SeqCst);
            while !stop.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_micros(100));
            }
        }
    }

    fn wait_begun(&self) {
        while !self.begun.load(Ordering::SeqCst) {
            std::thread::sleep(Duration::from_micros(100));
        }
    }
}

impl Drop for Endless {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
    }
}

/// Whether the caller's OS thread is a spare worker.
fn is_spare_worker() -> bool {
    std::thread::current().name().unwrap().ends_with('+')
}

fn eventually(what: &str, mut is_true: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_true() {
        assert!(begun.elapsed() < LATE, "{what}");
        std::thread::sleep(Duration::from_micros(200));
    }
}

#[test]
fn threads_beside_an_endless_computation_run() {
    for vps in 1..3 {
        let machine = machine(vps);
        let endless: Vec<_> = (0..vps).map(|_| Endless::new()).collect();
        for (vp, endless) in endless.iter().enumerate() {
            let body = endless.body();
            machine.spawn_on(vp, async move { body() });
            endless.wait_begun();
        }
        // From outside, anywhere and in a given place.
        for _ in 0..10 {
            assert_eq!(machine.spawn(async { 7 }).join().sync_blocking().unwrap(), 7);
        }
        for vp in 0..vps {
            let at = machine.spawn_on(vp, async { current_vp().unwrap().index() });
            assert_eq!(at.join().sync_blocking().unwrap(), vp);
        }
        let stats = machine.stats();
        assert!(stats.hand_offs >= vps as u64, "{stats:?}");
        assert!(stats.handed_over > Duration::ZERO, "{stats:?}");
    }
}

#[test]
fn every_one_of_many_endless_computations_begins_and_the_rest_runs() {
    // Each turn that computes after its processor was handed off makes the next one's turn last longer, but not for
    // ever.
    let machine = Machine::builder().vps(1).hand_off_after(Some(Duration::from_millis(1))).build().unwrap();
    let endless: Vec<_> = (0..5).map(|_| Endless::new()).collect();
    for endless in &endless {
        let (stop, begun) = (endless.stop.clone(), endless.begun.clone());
        machine.spawn(async move {
            begun.store(true, Ordering::SeqCst);
            while !stop.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
        });
    }
    endless.iter().for_each(Endless::wait_begun);
    assert_eq!(machine.spawn(async { 7 }).join().sync_blocking().unwrap(), 7);
}

#[test]
fn every_policy_is_handed_over() {
    let global = GlobalQueue::new();
    type Maker = Box<dyn Fn(usize) -> Box<dyn Policy>>;
    let policies: Vec<Maker> = vec![
        Box::new(|_| Box::new(WorkStealing::new())),
        Box::new(|_| Box::new(Fifo::new())),
        Box::new(|_| Box::new(Lifo::new())),
        Box::new(|_| Box::new(RoundRobin::new(8))),
        Box::new(|_| Box::new(Priority::new())),
        Box::new(|_| Box::new(Deque::new())),
        Box::new(move |_| Box::new(global.member())),
    ];
    for policy in policies {
        let machine = Machine::builder().vps(1).policy(policy).hand_off_after(Some(QUANTUM)).build().unwrap();
        let endless = Endless::new();
        let (body, done) = (endless.body(), Arc::new(AtomicU64::new(0)));
        let count = done.clone();
        // They are in the policy, or in the run-next list, when the computation begins.
        machine.spawn(async move {
            let (tx, rx) = channel::<u32>();
            let woken = count.clone();
            spawn(async move {
                rx.recv().await.unwrap();
                woken.fetch_add(1, Ordering::SeqCst);
            });
            yield_now().await;
            for _ in 0..10 {
                let count = count.clone();
                spawn(async move { count.fetch_add(1, Ordering::SeqCst) });
            }
            tx.send(1).await.unwrap();
            body();
        });
        eventually("all of them run", || done.load(Ordering::SeqCst) == 11);
    }
}

#[test]
fn what_a_stuck_thread_spawns_and_wakes_runs() {
    let machine = machine(1);
    let endless = Endless::new();
    let stop = endless.stop.clone();
    let answers = machine.spawn(async move {
        let (tx, rx) = mailbox::<u32>();
        let (back, answers) = std::sync::mpsc::channel();
        spawn(async move {
            while let Ok(n) = rx.recv().await {
                back.send(n + 1).unwrap();
            }
        });
        yield_now().await;
        // There is no return to the scheduler in here: the thread that answers runs elsewhere.
        let sum: u32 = (0..20)
            .map(|n| {
                tx.try_send(n).unwrap();
                spawn_parasite(async {});
                let tx = tx.clone();
                spawn(async move { drop(tx) });
                answers.recv().unwrap()
            })
            .sum();
        stop.store(true, Ordering::SeqCst);
        sum
    });
    assert_eq!(answers.join().sync_blocking().unwrap(), 210);
}

#[test]
fn the_worker_gets_its_processor_back() {
    let machine = machine(1);
    for _ in 0..5 {
        let endless = Endless::new();
        let body = endless.body();
        let long = machine.spawn(async move { body() });
        endless.wait_begun();
        machine.spawn(async {}).join().sync_blocking().unwrap();
        drop(endless);
        long.join().sync_blocking().unwrap();
        let is_on_worker = || machine.spawn(async { !is_spare_worker() }).join().sync_blocking().unwrap();
        eventually("back on its worker", is_on_worker);
    }
    assert!(machine.stats().hand_offs >= 5);
    eventually("nobody stands in any more", || {
        let before = machine.stats().handed_over;
        std::thread::sleep(Duration::from_millis(20));
        machine.stats().handed_over == before
    });
}

#[test]
fn spare_workers_are_stood_in_for() {
    let machine = machine(1);
    let endless: Vec<_> = (0..6).map(|_| Endless::new()).collect();
    for endless in &endless {
        let body = endless.body();
        machine.spawn(async move { body() });
    }
    for endless in &endless {
        endless.wait_begun();
    }
    assert_eq!(machine.spawn(async { 3 }).join().sync_blocking().unwrap(), 3);
    assert!(machine.stats().hand_offs >= 6);
}

#[test]
fn timers_fire_and_sockets_are_served() {
    use std::io::{Read as _, Write as _};

    use futures::{AsyncReadExt, AsyncWriteExt};
    let machine = machine(1);
    let endless = Endless::new();
    let body = endless.body();
    let (address, port) = std::sync::mpsc::channel();
    let ticks = Arc::new(AtomicU64::new(0));
    let count = ticks.clone();
    machine.spawn(async move {
        let listener = chanter::io::TcpListener::bind("127.0.0.1:0").unwrap();
        address.send(listener.local_addr().unwrap()).unwrap();
        let count_timers = count.clone();
        spawn(async move {
            loop {
                after(Duration::from_millis(1)).await;
                count_timers.fetch_add(1, Ordering::SeqCst);
            }
        });
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut byte = [0];
        stream.read_exact(&mut byte).await.unwrap();
        byte[0] += 1;
        stream.write_all(&byte).await.unwrap();
    });
    let address = port.recv().unwrap();
    machine.spawn(async move { body() });
    endless.wait_begun();
    let mut client = std::net::TcpStream::connect(address).unwrap();
    client.set_read_timeout(Some(LATE)).unwrap();
    client.write_all(&[41]).unwrap();
    let mut byte = [0];
    client.read_exact(&mut byte).unwrap();
    assert_eq!(byte[0], 42);
    let before = ticks.load(Ordering::SeqCst);
    eventually("timers fire", || ticks.load(Ordering::SeqCst) > before + 3);
}

#[test]
fn local_threads_and_fibers_stay_on_their_os_thread() {
    let machine = machine(1);
    let endless = Endless::new();
    let body = endless.body();
    let stop = endless.stop.clone();
    let ok = machine.block_on_local(async move {
        let worker = std::thread::current().id();
        let (tx, rx) = channel::<u32>();
        let local = spawn_local(async move {
            let got = rx.recv().await.unwrap();
            (got, std::thread::current().id())
        });
        let (begun, has_begun) = channel();
        let (to_fiber, from_here) = channel::<u32>();
        let fiber = spawn_fiber(move || {
            begun.send(()).sync_blocking().unwrap();
            let got = from_here.recv().sync_blocking().unwrap();
            (got, std::thread::current().id())
        });
        has_begun.recv().await.unwrap();
        yield_now().await;
        spawn(async move { body() });
        // Beside the computation there are a thread that wakes both, and a fiber that begins on the spare worker, and
        // stays there.
        let other = spawn(async move {
            let before = is_spare_worker();
            let fiber = spawn_fiber(|| {
                let before = std::thread::current().id();
                for _ in 0..20 {
                    after(Duration::from_millis(1)).sync_blocking();
                    assert_eq!(before, std::thread::current().id());
                }
                is_spare_worker()
            });
            tx.send(1).await.unwrap();
            to_fiber.send(2).await.unwrap();
            after(Duration::from_millis(10)).await;
            stop.store(true, Ordering::SeqCst);
            (before, fiber.join().await.unwrap())
        });
        // It begins before the join, so that the joiner cannot steal it.
        yield_now().await;
        let places = other.join().await.unwrap();
        let local = local.join().await.unwrap();
        let fiber = fiber.join().await.unwrap();
        assert_eq!(places, (true, true), "both begin beside the computation");
        (local, fiber) == ((1, worker), (2, worker))
    });
    assert!(ok);
}

#[test]
fn the_main_thread_may_compute_for_long() {
    let machine = machine(1);
    let sum = machine.block_on_local(async {
        let (tx, rx) = std::sync::mpsc::channel();
        spawn(async move { tx.send(5).unwrap() });
        // It blocks its OS thread.
        let first: u32 = rx.recv().unwrap();
        let local = spawn_local(async { 6 });
        first + local.join().await.unwrap()
    });
    assert_eq!(sum, 11);
    assert!(machine.stats().hand_offs >= 1);
}

#[test]
fn a_timer_of_the_main_thread_fires_beside_a_computation() {
    for vps in [1, 2] {
        let machine = machine(vps);
        let endless: Vec<_> = (0..vps).map(|_| Endless::new()).collect();
        let bodies: Vec<_> = endless.iter().map(Endless::body).collect();
        machine.block_on(async {
            for body in bodies {
                spawn(async move { body() });
            }
            yield_now().await;
            endless.iter().for_each(Endless::wait_begun);
            // The computations end when it has fired, and not before.
            after(Duration::from_millis(20)).await;
            for one in &endless {
                one.stop.store(true, Ordering::SeqCst);
            }
        });
        assert!(machine.stats().hand_offs >= 1);
    }
}

#[test]
fn a_main_thread_that_is_not_send_stays_on_the_callers_os_thread() {
    let machine = machine(1);
    let here = std::thread::current().id();
    let shared = std::rc::Rc::new(std::cell::Cell::new(0));
    let sum = machine.block_on_local(async {
        let other = std::rc::Rc::clone(&shared);
        let local = spawn_local(async move { other.set(other.get() + 1) });
        for _ in 0..20 {
            // Each of these turns is handed off.
            spawn(async { std::thread::sleep(QUANTUM * 2) });
            after(Duration::from_millis(1)).await;
            assert_eq!(std::thread::current().id(), here);
            shared.set(shared.get() + 1);
        }
        local.join().await.unwrap();
        shared.get()
    });
    assert_eq!(sum, 21);
}

#[test]
fn who_stands_in_for_one_that_computes_takes_nothing_from_others() {
    /// How long this OS thread has waited for a core, in nanoseconds.
    fn waited() -> Option<u64> {
        let stat = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
        stat.split(' ').nth(1)?.parse().ok()
    }
    /// Computes in its leaves. Returns how many of them spare workers have run, and how long the others have waited
    /// for a core.
    fn tree(depth: u32, size: u32) -> (u32, u64) {
        if depth == 0 {
            let before = waited();
            let sum =
                (0..size).fold(0u32, |sum, i| std::hint::black_box(sum.wrapping_mul(31).wrapping_add(i)));
            std::hint::black_box(sum);
            let late = before.zip(waited()).map_or(u64::MAX / 2048, |(before, after)| after - before);
            return (u32::from(is_spare_worker()), late);
        }
        let (left, right) = fork_join(|| tree(depth - 1, size), || tree(depth - 1, size));
        (left.0 + right.0, left.1 + right.1)
    }
    // A core may be taken from us meanwhile: then they may. With nobody to stop them, they
    // run some in each round.
    let (mut rounds, mut stopped) = (0, 0);
    while rounds < 20 && stopped < 5 {
        let machine = machine(2);
        let (by_spare_workers, late) = machine.block_on(async { tree(11, 20_000) });
        if by_spare_workers == 0 && machine.stats().hand_offs > 0 {
            return;
        }
        rounds += 1;
        stopped += u32::from(late > 200_000);
    }
    assert!(stopped > 0, "nobody took our cores, and yet they ran some in each round");
}

#[test]
fn machines_end_while_somebody_stands_in() {
    for round in 0..10 {
        let machine = machine(1 + round % 2);
        let endless = Endless::new();
        let body = endless.body();
        machine.spawn_on(0, async move { body() });
        endless.wait_begun();
        let dropped = Arc::new(());
        let held = dropped.clone();
        machine.spawn_on(0, async move {
            let _held = held;
            chanter::never::<()>().await;
        });
        machine.spawn_on(0, async {}).join().sync_blocking().unwrap();
        let fiber_held = dropped.clone();
        let (begun, has_begun) = channel();
        machine.spawn_on(0, async move {
            spawn_fiber(move || {
                let _held = fiber_held;
                begun.send(()).sync_blocking().unwrap();
                chanter::never::<()>().sync_blocking();
            });
        });
        has_begun.recv().sync_blocking().unwrap();
        let stop = endless.stop.clone();
        let stopper = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(10));
            stop.store(true, Ordering::SeqCst);
        });
        drop(machine);
        assert_eq!(Arc::strong_count(&dropped), 1);
        stopper.join().unwrap();
    }
}

#[test]
fn policies_are_replaced_while_somebody_stands_in() {
    let machine = Machine::builder()
        .vps(1)
        .policy(|_| Box::new(Fifo::new()))
        .hand_off_after(Some(QUANTUM))
        .build()
        .unwrap();
    let endless = Endless::new();
    let body = endless.body();
    machine.spawn(async move { body() });
    endless.wait_begun();
    machine.vp(0).set_policy(RoundRobin::new(4)).wait().sync_blocking();
    let threads: Vec<_> = (0..50)
        .map(|n| {
            machine.spawn(async move {
                yield_now().await;
                n
            })
        })
        .collect();
    machine.vp(0).set_policy(WorkStealing::new()).wait().sync_blocking();
    let sum: u32 = threads.iter().map(|thread| thread.join().sync_blocking().unwrap()).sum();
    assert_eq!(sum, 1225);
}

#[test]
fn switched_off_it_does_not_happen() {
    let machine = Machine::builder().vps(1).hand_off_after(None).build().unwrap();
    let endless = Endless::new();
    let body = endless.body();
    machine.spawn(async move { body() });
    endless.wait_begun();
    let thread = machine.spawn(async {});
    std::thread::sleep(Duration::from_millis(50));
    assert!(!thread.is_determined());
    drop(endless);
    thread.join().sync_blocking().unwrap();
    assert_eq!(machine.stats().hand_offs, 0);
}

#[test]
fn checkpoints_end_turns_after_a_quantum() {
    let machine = machine(1);
    assert!(!checkpoint());
    machine.block_on(async {
        let others = Arc::new(AtomicU64::new(0));
        let count = others.clone();
        spawn(async move {
            loop {
                count.fetch_add(1, Ordering::SeqCst);
                yield_now().await;
            }
        });
        let begun = Instant::now();
        let long = spawn(async {
            let (mut yields, begun) = (0, Instant::now());
            while yields < 3 && begun.elapsed() < LATE {
                if checkpoint() {
                    yield_if_requested().await;
                    yields += 1;
                }
                std::hint::spin_loop();
            }
            yields
        });
        assert_eq!(long.join().await.unwrap(), 3);
        assert!(begun.elapsed() >= 3 * QUANTUM / 2, "not at once");
        assert!(others.load(Ordering::SeqCst) >= 3);
    });
}

#[test]
fn parasites_past_their_quantum_become_hosts() {
    let machine = machine(1);
    let before = machine.stats().inflated;
    machine.block_on(async {
        let (tx, rx) = channel();
        spawn_parasite(async move {
            let begun = Instant::now();
            while !checkpoint() && begun.elapsed() < LATE {
                std::hint::spin_loop();
            }
            yield_if_requested().await;
            tx.send(begun.elapsed()).await.unwrap();
        });
        assert!(rx.recv().await.unwrap() < LATE);
    });
    assert_eq!(machine.stats().inflated, before + 1);
}

#[test]
fn fibers_yield_at_checkpoints() {
    let machine = machine(1);
    let yields = machine.block_on(async {
        let fiber = spawn_fiber(|| {
            let begun = Instant::now();
            let mut yields = 0;
            while yields < 2 && begun.elapsed() < LATE {
                yields += u32::from(chanter::fiber::yield_if_requested());
            }
            yields
        });
        fiber.join().await.unwrap()
    });
    assert_eq!(yields, 2);
}

/// Spare workers take no descriptors: a server with many long turns would run out of them.
#[test]
#[cfg(target_os = "linux")]
fn standing_in_takes_no_descriptors() {
    common::apart!();
    let descriptors = || std::fs::read_dir("/proc/self/fd").unwrap().count();
    let machine = machine(1);
    let before = descriptors();
    let computing: Vec<_> = (0..4).map(|_| Endless::new()).collect();
    for endless in &computing {
        let body = endless.body();
        machine.spawn(async move { body() });
        endless.wait_begun();
    }
    assert!(machine.stats().hand_offs >= 3);
    assert_eq!(descriptors(), before);
}

/// Each spawn would have to tell the spare worker, and no stealer comes to where the new thread lies.
#[test]
fn a_turn_that_spawns_many_takes_its_seat_back() {
    for vps in 1..=2 {
        let machine = machine(vps);
        let lasted = || Machine::current().unwrap().stats().handed_over;
        let spawned = machine.block_on(async move {
            let threads = spawn(async move {
                while Machine::current().unwrap().stats().hand_offs == 0 {
                    std::thread::sleep(Duration::from_micros(100));
                }
                let mut threads = Vec::new();
                // (It may be handed over again at once, or its spare worker may be in the way.)
                loop {
                    threads.extend((0..1000_u64).map(|i| spawn(async move { i })));
                    let before = lasted();
                    if lasted() == before {
                        break threads;
                    }
                }
            });
            let mut spawned = 0;
            for thread in threads.await.unwrap() {
                assert_eq!(thread.await.unwrap(), spawned % 1000);
                spawned += 1;
            }
            spawned
        });
        assert!(spawned >= 1000);
    }
}

/// Two workers that compute own four processors between them. All four go to spare workers.
#[test]
fn processors_that_share_a_worker_are_handed_off_together() {
    let machine = Machine::builder().vps(4).workers(2).hand_off_after(Some(QUANTUM)).build().unwrap();
    let endless: [_; 2] = std::array::from_fn(|_| Endless::new());
    let computing: Vec<_> = endless
        .iter()
        .enumerate()
        .map(|(vp, endless)| {
            let body = endless.body();
            machine.spawn_on(vp, async move { body() })
        })
        .collect();
    endless.iter().for_each(Endless::wait_begun);
    // The workers compute until the timers have fired on all processors.
    let sleepers: Vec<_> = (0..4)
        .map(|vp| {
            machine.spawn_on(vp, async move {
                after(Duration::from_millis(20)).await;
                current_vp().unwrap().index()
            })
        })
        .collect();
    let places: Vec<_> = sleepers.into_iter().map(|thread| thread.join().sync_blocking().unwrap()).collect();
    assert_eq!(places, [0, 1, 2, 3]);
    assert!(machine.stats().hand_offs >= 2);
    drop(endless);
    for thread in computing {
        thread.join().sync_blocking().unwrap();
    }
    // Both workers have all of their processors again, and each thread stays where it is.
    let places: Vec<_> = (0..4)
        .map(|vp| machine.spawn_on(vp, async { current_vp().unwrap().index() }))
        .map(|thread| thread.join().sync_blocking().unwrap())
        .collect();
    assert_eq!(places, [0, 1, 2, 3]);
}

/// Threads that are bound to a worker with several processors stay on its OS thread, also while others own the processors.
#[test]
fn bound_threads_of_a_shared_worker_wait_for_it() {
    let machine = Machine::builder().vps(4).workers(2).hand_off_after(Some(QUANTUM)).build().unwrap();
    for round in 0..20 {
        let bound: Vec<_> = (0..4)
            .map(|vp| {
                machine.spawn_on(vp, async move {
                    let (done, is_done) = channel();
                    let home = std::thread::current().id();
                    drop(spawn_local(async move {
                        for _ in 0..10 {
                            after(Duration::from_micros(300)).await;
                            assert_eq!(std::thread::current().id(), home);
                        }
                        done.send(()).await.unwrap();
                    }));
                    is_done.recv().await.unwrap();
                })
            })
            .collect();
        let endless = Endless::new();
        let body = endless.body();
        let computing = machine.spawn_on(round % 4, async move { body() });
        endless.wait_begun();
        // Others run meanwhile.
        let other = machine.spawn_on((round + 2) % 4, async { 7 });
        assert_eq!(other.join().sync_blocking().unwrap(), 7);
        drop(endless);
        computing.join().sync_blocking().unwrap();
        for thread in bound {
            thread.join().sync_blocking().unwrap();
        }
    }
}
