//! Groups of threads that can never run again, beside others that go on. They are found when they are there, and a
//! thread that runs again is never reported.

use crate::common;

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};
use std::time::Duration;

use chanter::prelude::*;
use chanter::{
    deadlock::{Deadlock, ThreadState, Waiting, holding, partial},
    event::from_cancel_safe,
    policy::{Policy, Ready, Reason},
};
use common::{Random, eventually, watchdog};

fn machine(vps: usize) -> Machine {
    Machine::builder().vps(vps).report_deadlocks(true).in_test().build().unwrap()
}

fn ids(group: &Deadlock) -> Vec<u64> {
    group.threads.iter().map(|thread| thread.id).collect()
}

/// Lets the others run until they block, on one processor.
async fn settle() {
    for _ in 0..20 {
        yield_now().await;
    }
}

/// Two threads that wait for each other.
fn crossed() -> [Thread<()>; 2] {
    let (to_a, from_b) = channel::<u32>();
    let (to_b, from_a) = channel::<u32>();
    let pair = |tx: Sender<u32>, rx: Receiver<u32>| {
        spawn(holding((tx, rx), async |(tx, rx)| {
            tx.send(1).await.unwrap();
            rx.recv().await.unwrap();
        }))
    };
    [pair(to_b, from_b), pair(to_a, from_a)]
}

#[test]
fn two_who_wait_for_each_other_beside_a_busy_third() {
    watchdog!();
    for vps in [1, 2] {
        let machine = machine(vps);
        let busy = Arc::new(AtomicBool::new(true));
        let (goes_on, turns) = (busy.clone(), Arc::new(AtomicUsize::new(0)));
        let count = turns.clone();
        let third = machine.spawn(async move {
            while goes_on.load(Ordering::Relaxed) {
                count.fetch_add(1, Ordering::Relaxed);
                yield_now().await;
            }
        });
        assert!(machine.partial_deadlocks().is_empty());
        let _both = machine.spawn(async { crossed() }).join().sync_blocking().unwrap();
        let mut groups = Vec::new();
        while groups.is_empty() {
            groups = machine.partial_deadlocks();
        }
        assert_eq!(groups.len(), 1);
        let group = &groups[0];
        assert_eq!(group.threads.len(), 2, "{group}");
        assert_eq!(group.cycle.len(), 2, "{group}");
        for (index, thread) in group.threads.iter().enumerate() {
            assert!(thread.parent.is_some() && thread.site.is_some(), "{group}");
            let channel = index + 1;
            assert_eq!(thread.state, ThreadState::Blocked(vec![Waiting::Send { channel }]), "{group}");
        }
        let before = turns.load(Ordering::Relaxed);
        eventually("the third goes on", || turns.load(Ordering::Relaxed) > before);
        busy.store(false, Ordering::Relaxed);
        third.join().sync_blocking().unwrap();
    }
}

#[test]
fn groups_are_told_apart_and_those_who_join_belong() {
    watchdog!();
    machine(1).block_on(async {
        let [a, b] = crossed();
        let _others = crossed();
        spawn(async move { (a.await.unwrap(), b.await.unwrap()) });
        // Waits for itself, as the only one with both ends.
        let (tx, rx) = channel::<u32>();
        spawn(holding((vec![Some(tx)], [rx]), async |(_, [rx])| rx.recv().await));
        // Receives for ever, as its senders block elsewhere, for ever.
        let (tx, rx) = bounded::<u32>(1);
        let parasite = holding(tx, async |_| never::<()>().await);
        spawn_parasite(parasite);
        spawn(holding(rx, async |rx| rx.recv().await));
        // On purpose.
        spawn(never::<()>().sync());
        settle().await;
        let groups = partial();
        assert_eq!(
            groups.iter().map(ids).collect::<Vec<_>>(),
            [vec![1, 2, 5], vec![3, 4], vec![6], vec![7, 8]]
        );
        assert!(groups[3].threads[0].is_parasite);
        // The same again: to be asked changes nothing.
        assert_eq!(partial().len(), 4);
    });
}

/// Each of these may still be helped, so nothing is said; and it is, once what
/// could help has gone.
#[test]
fn whoever_could_help_is_respected() {
    watchdog!();
    type Help = Box<dyn std::any::Any + Send>;
    // One handle or event outside, of the two ends that a blocked receiver has.
    type MakeHelp = fn(&Sender<u32>, &Receiver<u32>) -> Help;
    let outside: [(&str, MakeHelp); 9] = [
        ("a sender", |tx, _| Box::new(tx.clone())),
        ("a receiver, which could close", |_, rx| Box::new(rx.clone())),
        ("an event", |tx, _| Box::new(tx.clone().into_send(1))),
        ("a receive", |_, rx| Box::new(rx.clone().into_recv())),
        ("one in a message", |tx, _| {
            let (far, near) = mailbox();
            far.try_send(tx.clone()).unwrap();
            Box::new((far, near))
        }),
        ("one in a thread that blocks", |tx, _| {
            let (tx, (hold, held)) = (tx.clone(), channel::<()>());
            spawn(async move {
                let _ = held.recv().await;
                drop(tx);
            });
            Box::new(hold)
        }),
        ("one held by a thread that a timer wakes", |tx, _| {
            let (hold, held) = mailbox::<()>();
            spawn(holding(tx.clone(), async move |_| {
                let _ = choose((held.recv().wrap(drop), after(Duration::from_secs(3600)))).await;
            }));
            Box::new(hold)
        }),
        ("one that waits in an asynchronous send", |tx, _| {
            let (near, far) = channel();
            near.asend(tx.clone()).unwrap();
            Box::new((near, far))
        }),
        ("one that somebody holds whom an OS thread may wake", |tx, _| {
            let waker = Arc::new(Mutex::new(None::<Waker>));
            let gone = Arc::new(AtomicBool::new(false));
            let (theirs, ends) = (waker.clone(), gone.clone());
            spawn(holding(tx.clone(), async move |_| {
                poll_fn(|cx| {
                    *theirs.lock().unwrap() = Some(cx.waker().clone());
                    if ends.load(Ordering::SeqCst) { Poll::Ready(()) } else { Poll::Pending }
                })
                .await;
            }));
            struct Wakes(Arc<Mutex<Option<Waker>>>, Arc<AtomicBool>);
            impl Drop for Wakes {
                fn drop(&mut self) {
                    self.1.store(true, Ordering::SeqCst);
                    self.0.lock().unwrap().take().unwrap().wake();
                }
            }
            Box::new(Wakes(waker, gone))
        }),
    ];
    for (what, help) in outside {
        machine(1).block_on(async {
            let (tx, rx) = channel::<u32>();
            let help = help(&tx, &rx);
            spawn(holding((tx, rx), async |(_, rx)| rx.recv().await));
            settle().await;
            assert!(partial().is_empty(), "{what}: {}", partial()[0]);
            drop(help);
            settle().await;
            assert_eq!(partial().len(), 1, "{what}");
        });
    }
}

/// These are not understood, so nothing is said.
#[test]
fn what_is_not_known_is_not_said() {
    watchdog!();
    type Wait = Pin<Box<dyn Future<Output = ()> + Send>>;
    type MakeWait = fn() -> Wait;
    let beside: [(&str, MakeWait); 7] = [
        ("a timer", || Box::pin(async { after(Duration::from_secs(3600)).await })),
        ("an ivar", || Box::pin(async { IVar::<()>::new().get().await })),
        ("a lock", || {
            let lock = Arc::new(chanter::sync::Mutex::new(()));
            let held = lock.clone().try_lock_owned();
            Box::pin(async move {
                drop(lock.lock().await);
                drop(held);
            })
        }),
        ("a stream", || {
            let (tx, mut rx) = mailbox::<()>();
            Box::pin(async move {
                poll_fn(|cx| futures::Stream::poll_next(Pin::new(&mut rx), cx)).await;
                drop(tx);
            })
        }),
        ("a future of another library", || {
            let (tx, rx) = futures::channel::oneshot::channel::<()>();
            Box::pin(async move {
                let _ = rx.await;
                drop(tx);
            })
        }),
        ("an executor in the thread", || {
            use futures::StreamExt;
            let mut set = futures::stream::FuturesUnordered::new();
            set.push(never::<()>().sync());
            Box::pin(async move { set.next().await.unwrap() })
        }),
        ("a future in a choice", || {
            Box::pin(async { from_cancel_safe(futures::future::pending::<()>()).await })
        }),
    ];
    for (what, wait) in beside {
        machine(1).block_on(async {
            let (tx, rx) = channel::<u32>();
            let wait = wait();
            spawn(holding((tx, rx), async move |(_, rx)| {
                futures::future::select(Box::pin(rx.recv().sync()), wait).await;
            }));
            settle().await;
            assert!(partial().is_empty(), "{what}: {}", partial()[0]);
        });
    }
    // The handles are held in a box, where another thread might reach them.
    machine(1).block_on(async {
        let (tx, rx) = channel::<u32>();
        let boxed = Box::pin(holding((tx, rx), async |(_, rx)| rx.recv().await));
        spawn(boxed);
        settle().await;
        assert!(partial().is_empty());
    });
}

/// One queue for all virtual processors: a woken thread may run on any of them.
#[derive(Clone, Default)]
struct Common(Arc<Mutex<std::collections::VecDeque<Ready>>>);

impl Policy for Common {
    fn enqueue(&self, thread: Ready, _: Reason) -> Option<Ready> {
        self.0.lock().unwrap().push_back(thread);
        None
    }
    fn next(&self) -> Option<Ready> {
        self.0.lock().unwrap().pop_front()
    }
    fn waiting(&self) -> usize {
        2 * self.0.lock().unwrap().len()
    }
}

/// A thread that is asked may go on, and help one that has been asked before. Then the earlier one is not reported.
/// It does not run before all have been asked, so its answer stays true.
#[test]
fn one_who_is_asked_may_help_another() {
    watchdog!();
    for vps in [1, 2] {
        let queue = Common::default();
        let builder = Machine::builder().vps(vps).policy(move |_| Box::new(queue.clone()));
        let machine = builder.report_deadlocks(true).in_test().build().unwrap();
        let (tx, rx) = channel::<u32>();
        let (steps, asked) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let (of_first, seen) = (steps.clone(), steps.clone());
        let mut help = Some(tx.clone());
        let first = machine.spawn(holding((tx, rx), async move |(_, rx)| {
            rx.recv().await.unwrap();
            of_first.fetch_add(1, Ordering::SeqCst);
        }));
        let polls = asked.clone();
        let second = machine.spawn(poll_fn(move |_| {
            if polls.fetch_add(1, Ordering::SeqCst) == 0 {
                return Poll::Pending;
            }
            help.take().unwrap().try_send(7).unwrap();
            std::thread::sleep(Duration::from_millis(30));
            Poll::Ready(seen.load(Ordering::SeqCst))
        }));
        eventually("both block", || asked.load(Ordering::SeqCst) == 1);
        std::thread::sleep(Duration::from_millis(30));
        assert!(machine.partial_deadlocks().is_empty());
        assert_eq!(second.join().sync_blocking().unwrap(), 0, "the first ran after its answer");
        first.join().sync_blocking().unwrap();
        assert_eq!(steps.load(Ordering::SeqCst), 1);
    }
}

/// Threads talk, rest and end, without a handle that refers to them, while they are asked again and again.
#[test]
fn to_be_asked_disturbs_nobody() {
    watchdog!();
    const ROUNDS: usize = if cfg!(miri) {
        10
    } else if cfg!(debug_assertions) {
        200
    } else {
        2000
    };
    let machine = machine(2);
    let ended = Arc::new(AtomicUsize::new(0));
    let count = ended.clone();
    machine.spawn(async move {
        for _ in 0..ROUNDS {
            for _ in 0..4 {
                let ((a, from_b), (b, from_a)) = (channel::<u32>(), channel::<u32>());
                let pair = [(a, from_a, count.clone()), (b, from_b, count.clone())];
                for (first, (tx, rx, count)) in pair.into_iter().enumerate() {
                    let body = async move |(tx, rx): &(Sender<u32>, Receiver<u32>)| {
                        for _ in 0..12 {
                            if first == 0 {
                                tx.send(1).await.unwrap();
                            }
                            rx.recv().await.unwrap();
                            if first != 0 {
                                tx.send(1).await.unwrap();
                            }
                        }
                        count.fetch_add(1, Ordering::SeqCst);
                    };
                    drop(spawn(holding((tx, rx), body)));
                }
            }
            yield_now().await;
        }
    });
    let end = std::time::Instant::now() + common::FOREVER;
    while ended.load(Ordering::SeqCst) < 8 * ROUNDS {
        let groups = machine.partial_deadlocks();
        assert!(groups.is_empty(), "{}", groups[0]);
        assert!(std::time::Instant::now() < end, "{} of {}", ended.load(Ordering::SeqCst), 8 * ROUNDS);
    }
}

#[test]
#[should_panic = "the machine was built with `Builder::report_deadlocks`"]
fn a_machine_that_does_not_know_its_threads_says_so() {
    common::machine(1).partial_deadlocks();
}

/// One step of a random thread.
#[derive(Clone, Copy, Debug)]
enum Step {
    Send(usize),
    Receive(usize),
    Choose(usize, usize),
    Yield,
}

/// The script of a thread, and how many steps it has done.
struct Actor {
    script: Vec<Step>,
    steps: Arc<AtomicUsize>,
}

impl Actor {
    async fn act(self, tx: &[Sender<usize>], rx: &[Receiver<usize>]) {
        for step in self.script {
            match step {
                Step::Send(at) => drop(tx[at % tx.len()].send(at).await),
                Step::Receive(at) => drop(rx[at % rx.len()].recv().await),
                Step::Choose(a, b) => {
                    let send = tx[a % tx.len()].send(a).wrap(drop);
                    choose((send, rx[b % rx.len()].recv().wrap(drop))).await;
                }
                Step::Yield => yield_now().await,
            }
            self.steps.fetch_add(1, Ordering::SeqCst);
        }
        self.steps.fetch_add(1, Ordering::SeqCst);
    }
}

/// Runs a random program. `rescued`: a thread that has declared nothing holds a handle of each channel, and closes
/// them in the end.
fn play(seed: u64, vps: usize, rescued: bool) {
    const CHANNELS: usize = 3;
    let machine = machine(vps);
    let mut random = Random::new(seed);
    let threads = 2 + random.below(5);
    let ends: Vec<_> = (0..CHANNELS)
        .map(|_| match random.below(3) {
            0 => bounded::<usize>(1),
            _ => channel(),
        })
        .collect();
    let actors: Vec<_> = (0..threads)
        .map(|_| {
            let script = (0..1 + random.below(12)).map(|_| match random.below(7) {
                0..=2 => Step::Send(random.below(6)),
                3..=4 => Step::Receive(random.below(6)),
                5 => Step::Choose(random.below(6), random.below(6)),
                _ => Step::Yield,
            });
            Actor { script: script.collect(), steps: Arc::default() }
        })
        .collect();
    let lengths: Vec<_> = actors.iter().map(|actor| actor.script.len() + 1).collect();
    let steps: Vec<_> = actors.iter().map(|actor| actor.steps.clone()).collect();
    let rescuer = rescued.then(|| ends.clone());
    machine
        .spawn(async move {
            for actor in actors {
                let pick = |random: &mut Random| 1 + random.below(CHANNELS);
                let (senders, receivers) = (pick(&mut random), pick(&mut random));
                let first = random.below(CHANNELS);
                let tx: Vec<_> = (0..senders).map(|at| ends[(first + at) % CHANNELS].0.clone()).collect();
                let rx: Vec<_> = (0..receivers).map(|at| ends[(first + at) % CHANNELS].1.clone()).collect();
                let body = async move |(tx, rx): &(Vec<_>, Vec<_>)| actor.act(tx, rx).await;
                drop(spawn(holding((tx, rx), body)));
            }
        })
        .join()
        .sync_blocking()
        .unwrap();
    // Threads by id: the spawner was 0. A thread that was reported stays where it was.
    let mut stuck: Vec<Option<usize>> = vec![None; threads];
    let mut look = || {
        for group in machine.partial_deadlocks() {
            assert!(!rescued, "seed {seed}: {group}");
            for id in ids(&group) {
                let at = id as usize - 1;
                let now = steps[at].load(Ordering::SeqCst);
                assert_eq!(*stuck[at].get_or_insert(now), now, "seed {seed}: {id} went on: {group}");
            }
        }
        stuck.clone()
    };
    let done = |at: usize| steps[at].load(Ordering::SeqCst) == lengths[at];
    if let Some(ends) = rescuer {
        for _ in 0..5 {
            look();
        }
        ends.iter().for_each(|(tx, _)| tx.close());
        eventually("all end", || (0..threads).all(done));
        return;
    }
    // All has been said, so in the end each has ended or is known to be stuck.
    let end = std::time::Instant::now() + common::FOREVER;
    loop {
        let stuck = look();
        if (0..threads).all(|at| done(at) || stuck[at].is_some()) {
            assert!((0..threads).all(|at| !(done(at) && stuck[at].is_some())), "seed {seed}: it ended");
            break;
        }
        assert!(std::time::Instant::now() < end, "seed {seed}: not found: {stuck:?}");
    }
}

#[test]
fn what_is_said_of_random_programs_is_true() {
    watchdog!(120);
    for seed in 0..300 {
        play(seed, 1 + seed as usize % 2, false);
    }
}

#[test]
fn nothing_is_said_of_programs_that_end() {
    watchdog!(120);
    for seed in 0..100 {
        play(seed, 1 + seed as usize % 2, true);
    }
}
