//! Scopes: what they lend is there until the last of their threads is gone, however
//! the scope ends.

use crate::common;

use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use chanter::prelude::*;
use chanter::{fiber, thread::scope_blocking};
use common::{eventually, machine, millis, poll, watchdog};

/// What is lent. It says when it goes, and those who look at it later are noticed.
struct Lent(Arc<Record>, Arc<AtomicBool>);

#[derive(Default)]
struct Record {
    lent: AtomicUsize,
    /// Borrows that there are, and were looked at, and that were after the end.
    living: AtomicUsize,
    looks: AtomicUsize,
    late: AtomicUsize,
}

impl Lent {
    fn new(record: &Arc<Record>) -> Self {
        record.lent.fetch_add(1, Ordering::SeqCst);
        Self(Arc::clone(record), Arc::default())
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        self.1.store(true, Ordering::SeqCst);
        self.0.lent.fetch_sub(1, Ordering::SeqCst);
    }
}

/// A borrow that is looked at when it is dropped.
struct Borrow<'a> {
    lent: &'a Lent,
    record: Arc<Record>,
    gone: Arc<AtomicBool>,
}

impl<'a> Borrow<'a> {
    fn of(lent: &'a Lent) -> Self {
        lent.0.living.fetch_add(1, Ordering::SeqCst);
        Self { lent, record: Arc::clone(&lent.0), gone: Arc::clone(&lent.1) }
    }

    fn look(&self) {
        if self.gone.load(Ordering::SeqCst) {
            self.record.late.fetch_add(1, Ordering::SeqCst);
        } else {
            self.lent.0.looks.fetch_add(1, Ordering::SeqCst);
        }
    }
}

impl Drop for Borrow<'_> {
    fn drop(&mut self) {
        self.look();
        self.record.living.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Record {
    #[track_caller]
    fn check(&self) {
        assert_eq!(self.late.load(Ordering::SeqCst), 0, "looked at after its end");
        assert_eq!(self.living.load(Ordering::SeqCst), 0, "borrowed after its end");
    }

    fn is_gone(&self) -> bool {
        self.lent.load(Ordering::SeqCst) == 0
    }
}

/// What a thread of the scope does.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Body {
    Returns,
    Yields,
    Panics,
    WaitsForever,
    YieldsForever,
    Sleeps,
    Blocks,
    Spawns,
}

const BODIES: [Body; 8] = [
    Body::Returns,
    Body::Yields,
    Body::Panics,
    Body::WaitsForever,
    Body::YieldsForever,
    Body::Sleeps,
    Body::Blocks,
    Body::Spawns,
];

impl Body {
    async fn run<'s>(self, s: &'s chanter::thread::Scope<'s, '_>, borrow: Borrow<'s>, lent: &'s Lent) {
        borrow.look();
        match self {
            Self::Returns => (),
            Self::Yields => yield_now().await,
            Self::Panics => panic!("{self:?}"),
            Self::WaitsForever => never().await,
            Self::YieldsForever => loop {
                yield_now().await;
            },
            Self::Sleeps => after(millis(1)).await,
            Self::Blocks => after(millis(1)).sync_blocking(),
            Self::Spawns => {
                let inner = Borrow::of(lent);
                s.spawn(async move {
                    yield_now().await;
                    inner.look();
                });
            }
        }
        borrow.look();
    }

    fn ends(self) -> bool {
        !matches!(self, Self::WaitsForever | Self::YieldsForever)
    }
}

/// A scope on this stack, with two threads of each of two bodies.
fn lend(record: &Arc<Record>, bodies: [Body; 2]) {
    let lent = Lent::new(record);
    scope_blocking(|s| {
        for body in bodies.into_iter().cycle().take(4) {
            s.spawn(body.run(s, Borrow::of(&lent), &lent));
        }
    });
    // It would be late for others.
    drop(lent);
}

fn panics<T>(f: impl FnOnce() -> T) -> Option<String> {
    let payload = catch_unwind(AssertUnwindSafe(f)).err()?;
    Some(*payload.downcast::<String>().unwrap_or_else(|p| Box::new((*p.downcast::<&str>().unwrap()).into())))
}

#[test]
#[cfg_attr(miri, ignore = "Miri switches no stacks")]
fn it_waits_on_every_kind_of_stack() {
    watchdog!(120);
    for vps in [1, 2] {
        let machine = machine(vps);
        for body in BODIES.into_iter().filter(|body| body.ends()) {
            for other in [Body::Yields, Body::Sleeps] {
                let record = Arc::<Record>::default();
                let expected = (body == Body::Panics).then(|| "Panics".to_owned());
                let run = |record: &Arc<Record>| panics(|| lend(record, [body, other]));
                // On an OS thread.
                let lent = Lent::new(&record);
                let seen = panics(|| {
                    machine.scope_blocking(|s| {
                        for body in [body, other] {
                            s.spawn(body.run(s, Borrow::of(&lent), &lent));
                        }
                    });
                });
                assert_eq!(seen, expected, "{body:?}");
                record.check();
                drop(lent);
                // On the main thread, which nests; on a fiber, which is suspended.
                let record = Arc::<Record>::default();
                machine.block_on(async {
                    assert_eq!(run(&record), expected, "{body:?}");
                    let own = Arc::clone(&record);
                    let fiber = spawn_fiber(move || panics(|| lend(&own, [body, other])));
                    assert_eq!(fiber.await.unwrap(), expected, "{body:?}");
                });
                record.check();
            }
        }
    }
}

#[test]
#[cfg_attr(miri, ignore = "Miri switches no stacks")]
fn a_main_thread_returns_though_a_fiber_that_began_elsewhere_waits() {
    watchdog!();
    let machine = machine(2);
    for _ in 0..50 {
        let begun: &AtomicBool = Box::leak(Box::default());
        machine.block_on(async {
            drop(spawn_fiber(|| {
                begun.store(true, Ordering::SeqCst);
                never::<()>().sync_blocking();
            }));
            // Not here.
            while !begun.load(Ordering::SeqCst) {
                std::hint::spin_loop();
            }
        });
    }
}

#[test]
#[cfg_attr(miri, ignore = "Miri switches no stacks")]
fn a_fiber_that_is_ended_ends_its_scope_first() {
    watchdog!(240);
    for vps in [1, 2, 3] {
        for body in BODIES {
            for other in [Body::WaitsForever, Body::YieldsForever, Body::Sleeps] {
                for turns in [0, 1, 5] {
                    let record = Arc::<Record>::default();
                    let machine = machine(vps);
                    machine.block_on(async {
                        for _ in 0..2 {
                            let own = Arc::clone(&record);
                            let fiber = spawn_fiber(move || lend(&own, [body, other]));
                            if vps > 1 && turns == 5 {
                                // It may also begin elsewhere.
                                let own = Arc::clone(&record);
                                drop(fiber::Builder::new().on(1).spawn(move || lend(&own, [other, body])));
                            }
                            for _ in 0..turns {
                                yield_now().await;
                            }
                            drop(fiber);
                        }
                    });
                    // Those that have begun on virtual processor 0 are ended by now.
                    drop(machine);
                    record.check();
                    assert!(record.is_gone());
                }
            }
        }
    }
}

#[test]
#[cfg_attr(miri, ignore = "Miri switches no stacks")]
fn a_fiber_that_is_cancelled_ends_its_scope_first() {
    watchdog!(120);
    for vps in [1, 2] {
        let machine = machine(vps);
        // One that blocks its processor might be below the fiber on the same stack,
        // and then neither can go on before the other.
        for other in BODIES.into_iter().filter(|body| *body != Body::Blocks) {
            let record = Arc::<Record>::default();
            let own = Arc::clone(&record);
            let fiber = machine.spawn_fiber(move || lend(&own, [Body::WaitsForever, other]));
            eventually("it has begun", || record.looks.load(Ordering::SeqCst) >= 4);
            drop(fiber.cancel());
            let error = fiber.join().sync_blocking().unwrap_err();
            assert!(error.is_cancelled(), "{error}");
            record.check();
            assert!(record.is_gone());
        }
    }
}

#[test]
fn values_come_back_and_panics_that_were_seen_stay() {
    watchdog!();
    machine(1).block_on(async {
        let text = String::from("abc");
        let lengths = scope_blocking(|s| {
            let bad = s.spawn(async {
                if text.len() == 3 {
                    panic!("seen")
                }
            });
            let threads: Vec<_> = (0..3).map(|n| s.spawn(async move { n })).collect();
            let borrowed = s.spawn(async { text.as_str() });
            assert_eq!(borrowed.join().sync_blocking().unwrap(), "abc");
            assert!(borrowed.join().sync_blocking().unwrap_err().is_taken());
            assert_eq!(bad.join().sync_blocking().unwrap_err().message(), Some("seen"));
            threads.iter().map(|thread| thread.join().sync_blocking().unwrap()).collect::<Vec<_>>()
        });
        assert_eq!(lengths, [0, 1, 2]);
        // The body's panic goes first; it waits all the same.
        let record = Arc::<Record>::default();
        let lent = Lent::new(&record);
        let panic = panics(|| {
            scope_blocking(|s| {
                s.spawn(Body::Sleeps.run(s, Borrow::of(&lent), &lent));
                s.spawn(Body::Panics.run(s, Borrow::of(&lent), &lent));
                panic!("the body's")
            })
        });
        assert_eq!(panic.as_deref(), Some("the body's"));
        record.check();
    });
}

/// A value whose destructor looks at what it borrows, while a waker that somebody keeps
/// holds on to the thread's frame.
#[test]
fn a_kept_waker_keeps_no_value() {
    watchdog!();
    for joins in [true, false] {
        let record = Arc::<Record>::default();
        let kept = Mutex::new(None);
        let machine = machine(1);
        {
            let lent = Lent::new(&record);
            machine.scope_blocking(|s| {
                let thread = s.spawn(async {
                    poll_fn(|cx| {
                        *kept.lock().unwrap() = Some(cx.waker().clone());
                        Poll::Ready(())
                    })
                    .await;
                    Borrow::of(&lent)
                });
                if joins {
                    eventually("it ends", || thread.is_determined());
                    assert!(!thread.kin().is_alive());
                }
            });
            record.check();
        }
        kept.into_inner().unwrap().unwrap().wake();
        drop(machine);
        record.check();
    }
}

#[test]
fn forgotten_handles_do_no_harm() {
    watchdog!();
    let machine = machine(2);
    for _ in 0..100 {
        let record = Arc::<Record>::default();
        {
            let lent = Lent::new(&record);
            machine.scope_blocking(|s| {
                std::mem::forget(s.spawn(Body::Yields.run(s, Borrow::of(&lent), &lent)));
                std::mem::forget(s.spawn(async { &lent }).join().sync());
            });
            record.check();
        }
    }
}

/// An async scope with two threads of each of two bodies.
async fn own(record: Arc<Record>, bodies: [Body; 2]) {
    scope(Lent::new(&record), async move |s, lent| {
        for body in bodies.into_iter().cycle().take(4) {
            s.spawn(body.run(s, Borrow::of(lent), lent));
        }
    })
    .await;
}

#[test]
fn an_async_scope_waits_and_its_data_go_with_it() {
    watchdog!(120);
    for vps in [1, 2] {
        let machine = machine(vps);
        for body in BODIES.into_iter().filter(|body| body.ends()) {
            for other in [Body::Yields, Body::Sleeps] {
                let record = Arc::<Record>::default();
                let thread = machine.spawn(own(Arc::clone(&record), [body, other]));
                let result = thread.join().sync_blocking();
                assert_eq!(result.is_err(), body == Body::Panics);
                record.check();
                assert!(record.is_gone(), "the data go before the scope is ready");
            }
        }
    }
}

#[test]
fn dropped_at_any_poll_its_threads_end_and_the_data_last() {
    watchdog!(240);
    for vps in [1, 2] {
        let machine = machine(vps);
        for body in BODIES {
            for other in [Body::WaitsForever, Body::YieldsForever] {
                for polls in 0..6 {
                    let record = Arc::<Record>::default();
                    let theirs = Arc::clone(&record);
                    machine.block_on(async move {
                        let mut future = Box::pin(own(theirs, [body, other]));
                        for _ in 0..polls {
                            if poll(&mut future).is_ready() {
                                panic!("{other:?} never ends");
                            }
                            yield_now().await;
                        }
                    });
                    eventually("the data go", || record.is_gone());
                    eventually("all have gone", || record.living.load(Ordering::SeqCst) == 0);
                    record.check();
                }
            }
        }
    }
}

#[test]
fn forgotten_it_forgets_its_data() {
    watchdog!();
    let machine = machine(2);
    let record = Arc::<Record>::default();
    machine.block_on(async {
        let mut future = Box::pin(own(Arc::clone(&record), [Body::Sleeps, Body::WaitsForever]));
        assert!(poll(&mut future).is_pending());
        std::mem::forget(future);
        after(millis(5)).await;
    });
    assert!(!record.is_gone());
    drop(machine);
    record.check();
    assert!(!record.is_gone());
}

#[test]
fn the_machine_may_end_at_any_point() {
    watchdog!(120);
    for vps in [1, 2] {
        for body in BODIES {
            for other in BODIES {
                for turns in [0, 1, 3] {
                    let record = Arc::<Record>::default();
                    let machine = machine(vps);
                    machine.block_on(async {
                        drop(spawn(own(Arc::clone(&record), [body, other])));
                        for _ in 0..turns {
                            yield_now().await;
                        }
                    });
                    drop(machine);
                    record.check();
                    assert!(record.is_gone());
                }
            }
        }
    }
}

#[test]
#[cfg_attr(miri, ignore = "Miri switches no stacks")]
fn panics_and_values_of_an_async_scope() {
    watchdog!();
    machine(2).block_on(async {
        let caught = |future: std::pin::Pin<Box<dyn Future<Output = ()> + Send>>| async {
            spawn(future).await.unwrap_err().message().map(str::to_owned)
        };
        let record = Arc::<Record>::default();
        let lent = Lent::new(&record);
        let body = scope(lent, async |s, lent| {
            s.spawn(Body::Sleeps.run(s, Borrow::of(lent), lent));
            yield_now().await;
            panic!("the body's")
        });
        assert_eq!(caught(Box::pin(body)).await.as_deref(), Some("the body's"));
        record.check();
        let thread = scope(5, async |s, five| {
            let seen = s.spawn(async { assert_eq!(*five, 6, "seen") });
            assert!(seen.join().await.unwrap_err().is_panic());
            let fiber = s.spawn_fiber(|| {
                after(millis(1)).sync_blocking();
                *five
            });
            assert_eq!(fiber.join().await.unwrap(), 5);
            // A scope in a scope's thread; and threads of the outer one in it.
            let inner = s.spawn(async {
                scope(*five, async |inner, copy| {
                    let outer = s.spawn(async { *five });
                    inner.spawn(async { *copy }).join().await.unwrap() + outer.join().await.unwrap()
                })
                .await
            });
            assert_eq!(inner.join().await.unwrap(), 10);
            drop(s.spawn(async { panic!("unseen") }));
        });
        assert_eq!(caught(Box::pin(thread)).await.as_deref(), Some("unseen"));
    });
}

#[test]
fn a_scope_that_is_cancelled_ends() {
    watchdog!();
    for vps in [1, 2] {
        let machine = machine(vps);
        let record = Arc::<Record>::default();
        let lent = Lent::new(&record);
        machine.scope_blocking(|s| {
            let mut threads = Vec::new();
            for body in BODIES.into_iter().filter(|body| *body != Body::Panics) {
                threads.push((body, s.spawn(body.run(s, Borrow::of(&lent), &lent))));
            }
            eventually("they have begun", || record.looks.load(Ordering::SeqCst) >= threads.len());
            s.cancel();
            let late = s.spawn(async { unreachable!("it is too late") });
            assert!(late.join().sync_blocking().unwrap_err().is_cancelled());
            for (body, thread) in threads {
                let result = thread.join().sync_blocking();
                assert!(body.ends() || result.is_err_and(|error| error.is_cancelled()));
            }
        });
        record.check();
    }
}

#[test]
fn it_runs_on_any_executor_inside_a_machine_only() {
    watchdog!();
    // Polled outside of every machine it has nowhere to spawn.
    let mut alone = pin!(scope((), async |s, ()| drop(s.spawn(async {}))));
    let polled = panics(|| alone.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready());
    assert!(polled.unwrap().contains("on a machine"));
    assert!(panics(|| scope_blocking(|s| drop(s.spawn(async {})))).unwrap().contains("on a machine"));
    // Without threads it needs none.
    assert_eq!(scope_blocking(|_| 7), 7);
}
