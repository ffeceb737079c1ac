//! With the feature `tracing` each thread has a span of its own: what it says is in it, wherever it is polled.

#![cfg(all(feature = "tracing", not(miri)))]

mod common;

use std::collections::BTreeMap;
use std::fmt::{self, Debug};
use std::sync::{Arc, Mutex};

use chanter::ThreadBuilder;
use chanter::prelude::*;
use common::{apart, machine, until, until_blocked};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id};
use tracing::{Event as Line, Subscriber, info};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;

type Fields = BTreeMap<&'static str, String>;

/// A line: what was said, and the spans it is in, the innermost first.
#[derive(Clone, Debug)]
struct Said {
    message: String,
    within: Vec<Fields>,
}

impl Said {
    /// The names of the threads.
    fn names(&self) -> Vec<&str> {
        self.within.iter().map(|fields| fields.get("name").map_or("?", |name| name)).collect()
    }
}

#[derive(Default)]
struct Log {
    lines: Vec<Said>,
    /// How many spans are entered more often than left, over all OS threads.
    entered: BTreeMap<u64, isize>,
    /// Spans that were closed.
    closed: usize,
}

/// Writes down what is said and where.
#[derive(Clone, Default)]
struct Recorder(Arc<Mutex<Log>>);

#[derive(Default)]
struct Read(Fields);

impl Visit for Read {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0.insert(field.name(), format!("{value:?}").trim_matches('"').to_owned());
    }
}

impl fmt::Debug for Recorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Recorder")
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Recorder {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let mut read = Read::default();
        attributes.record(&mut read);
        context.span(id).unwrap().extensions_mut().insert(read.0);
    }

    fn on_event(&self, line: &Line<'_>, context: Context<'_, S>) {
        let mut read = Read::default();
        line.record(&mut read);
        let within = context.event_scope(line).map(|scope| {
            scope.map(|span| span.extensions().get::<Fields>().cloned().unwrap_or_default()).collect()
        });
        let message = read.0.remove("message").unwrap();
        self.0.lock().unwrap().lines.push(Said { message, within: within.unwrap_or_default() });
    }

    fn on_enter(&self, id: &Id, _: Context<'_, S>) {
        *self.0.lock().unwrap().entered.entry(id.into_u64()).or_default() += 1;
    }

    fn on_exit(&self, id: &Id, _: Context<'_, S>) {
        *self.0.lock().unwrap().entered.entry(id.into_u64()).or_default() -= 1;
    }

    fn on_close(&self, _: Id, _: Context<'_, S>) {
        self.0.lock().unwrap().closed += 1;
    }
}

impl Recorder {
    /// Records what all OS threads of this process say.
    fn start() -> Self {
        let recorder = Self::default();
        tracing::subscriber::set_global_default(tracing_subscriber::registry().with(recorder.clone()))
            .unwrap();
        recorder
    }

    fn line(&self, message: &str) -> Said {
        let log = self.0.lock().unwrap();
        let mut lines = log.lines.iter().filter(|line| line.message == message);
        let line = lines.next().unwrap_or_else(|| panic!("nobody said {message:?}"));
        assert!(lines.next().is_none(), "{message:?} was said twice");
        line.clone()
    }

    fn assert_all_left(&self) {
        let log = self.0.lock().unwrap();
        assert!(log.entered.values().all(|count| *count == 0), "{:?}", log.entered);
    }
}

#[test]
fn a_parasite_that_another_attaches_is_in_its_own_span() {
    apart!();
    let recorder = Recorder::start();
    machine(1).block_on(async {
        let (tx, rx) = channel();
        let child = Thread::builder().name("spawner").spawn(async {
            spawn_parasite(async move {
                info!("before");
                rx.recv().await.unwrap();
                info!("after");
            });
        });
        child.await.unwrap();
        let attaches = Thread::builder().name("attacher").spawn(async move {
            tx.send(()).await.unwrap();
            info!("attached");
        });
        attaches.await.unwrap();
    });
    let (before, after, attached) =
        (recorder.line("before"), recorder.line("after"), recorder.line("attached"));
    assert_eq!(before.within, after.within);
    assert_eq!(after.within[0]["kind"], "parasite");
    assert!(after.within[0]["site"].contains("tracing_spans.rs:"));
    assert!(after.names()[0].contains("a_parasite_that_another_attaches"), "{after:?}");
    assert_eq!(after.names()[1], "spawner");
    assert_eq!(attached.names()[0], "attacher");
    recorder.assert_all_left();
}

#[test]
fn spans_nest_at_the_spawn() {
    apart!();
    let recorder = Recorder::start();
    let machine = Machine::builder().vps(1).genealogy(true).build().unwrap();
    machine.block_on(async {
        let grandchild = Thread::builder().name("parent").spawn(async {
            let within = tracing::info_span!("section", name = "section");
            within.in_scope(|| Thread::builder().name("child").spawn(async { info!("from the child") }))
        });
        let child = grandchild.await.unwrap();
        let id = child.id().unwrap();
        child.await.unwrap();
        let line = recorder.line("from the child");
        assert_eq!(line.names()[..3], ["child", "section", "parent"]);
        assert_eq!(line.within[0]["id"], id.to_string());
        assert_eq!(line.within[0]["kind"], "host");
        // The main thread's span is the outermost.
        assert_eq!(line.within.len(), 4);
    });
    recorder.assert_all_left();
}

#[test]
fn each_kind_of_thread_has_one() {
    apart!();
    let recorder = Recorder::start();
    machine(1).block_on_local(async {
        let delayed = delay(async { info!("delayed") });
        let asks = Thread::builder().name("asker").spawn(delayed.join());
        asks.await.unwrap().unwrap();
        delay(async { info!("evaluated") }).await.unwrap();
        spawn_fiber(|| info!("fiber")).await.unwrap();
        spawn_local(async { info!("local") }).join().await.unwrap();
        spawn_parasite(async { info!("parasite") });
        spawn_parasite(async {
            let large = [0_u8; 5000];
            yield_now().await;
            info!("large {}", large.len());
        });
        scope((), async |s, ()| s.spawn(async { info!("scoped") }).join().await.unwrap()).await;
        yield_now().await;
        spawn_fiber(|| spawn_parasite(async { info!("on a fiber") })).await.unwrap();
    });
    let kinds = [
        ("delayed", "delayed"),
        ("evaluated", "delayed"),
        ("fiber", "fiber"),
        ("local", "host"),
        ("parasite", "parasite"),
        ("large 5000", "parasite"),
        ("scoped", "host"),
        ("on a fiber", "parasite"),
    ];
    for (message, kind) in kinds {
        let line = recorder.line(message);
        assert_eq!(line.within[0]["kind"], kind, "{message}");
        // Each was spawned by the main thread, or one that this has spawned.
        assert!(line.within.len() >= 2, "{message}: {line:?}");
    }
    // By the main thread, not by the one that demanded it.
    assert!(!recorder.line("delayed").names().contains(&"asker"));
    assert!(
        recorder.line("fiber").names()[0].contains("each_kind_of_thread"),
        "{:?}",
        recorder.line("fiber")
    );
    recorder.assert_all_left();
}

#[test]
fn a_host_that_migrates_keeps_its_span() {
    apart!();
    let recorder = Recorder::start();
    let machine = machine(2);
    let there = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&there);
    let rounds = machine.block_on(async move {
        let (tx, rx) = channel();
        let host = Thread::builder().name("traveller").spawn(async move {
            while let Ok(round) = rx.recv().await {
                info!("round {round}");
                seen.lock().unwrap().push(std::thread::current().id());
            }
        });
        let mut round = 0;
        loop {
            until_blocked(&host).await;
            let before = there.lock().unwrap().len();
            tx.send(round).await.unwrap();
            round += 1;
            // This virtual processor is busy, so that the other one takes it, if it is asleep here.
            let end = std::time::Instant::now() + std::time::Duration::from_millis(50);
            while there.lock().unwrap().len() == before && std::time::Instant::now() < end {
                std::thread::yield_now();
            }
            until("it has heard", || there.lock().unwrap().len() > before).await;
            let ids = there.lock().unwrap();
            if ids.iter().any(|id| *id != ids[0]) {
                return round;
            }
        }
    });
    for round in 0..rounds {
        assert_eq!(recorder.line(&format!("round {round}")).names()[0], "traveller");
    }
    drop(machine);
    recorder.assert_all_left();
}

#[test]
fn a_fiber_takes_the_parasites_on_its_stack_with_it() {
    apart!();
    let recorder = Recorder::start();
    machine(1).block_on(async {
        let (wake, woken) = channel();
        let (tx, rx) = channel();
        let fiber = spawn_fiber(move || {
            // Blocks within the parasite's poll: the fiber is suspended.
            spawn_parasite(async move {
                info!("nested, before");
                woken.recv().sync_blocking().unwrap();
                info!("nested, after");
            });
            info!("the fiber");
            tx.send(()).sync_blocking().unwrap();
        });
        until_blocked(&fiber).await;
        info!("meanwhile");
        Thread::builder().name("other").spawn(async { info!("another") }).await.unwrap();
        wake.send(()).await.unwrap();
        rx.recv().await.unwrap();
        fiber.await.unwrap();
    });
    for message in ["nested, before", "nested, after"] {
        let kinds: Vec<_> = recorder.line(message).within.iter().map(|span| span["kind"].clone()).collect();
        assert_eq!(kinds[..2], ["parasite", "fiber"], "{message}");
    }
    assert_eq!(recorder.line("the fiber").within[0]["kind"], "fiber");
    let meanwhile = recorder.line("meanwhile");
    assert_eq!(meanwhile.within.len(), 1, "{meanwhile:?}");
    assert_eq!(recorder.line("another").names()[0], "other");
    recorder.assert_all_left();
}

/// Speaks when it is dropped.
struct Last(&'static str);

impl Drop for Last {
    fn drop(&mut self) {
        info!("{}", self.0);
    }
}

#[test]
fn a_future_is_dropped_in_its_span() {
    apart!();
    let recorder = Recorder::start();
    machine(1).block_on(async {
        let named = |name: &'static str| {
            let last = Last(name);
            ThreadBuilder::new().name(name).spawn(async move {
                let _last = last;
                never::<()>().await;
            })
        };
        let cancelled = named("cancelled");
        until_blocked(&cancelled).await;
        cancelled.cancel().await.unwrap();
        drop(named("ended by the machine"));
        yield_now().await;
        let last = Last("never run");
        drop(ThreadBuilder::new().name("never run").delay(async move { drop(last) }));
        let panics = Thread::builder().name("panics").spawn(async {
            let _last = Last("panics");
            panic!("on purpose");
        });
        assert!(panics.await.unwrap_err().is_panic());
    });
    for name in ["cancelled", "ended by the machine", "never run", "panics"] {
        assert_eq!(recorder.line(name).names()[0], name);
    }
    recorder.assert_all_left();
}

#[test]
fn spans_are_closed_at_the_end_of_their_threads() {
    apart!();
    let recorder = Recorder::start();
    let machine = machine(1);
    machine.block_on(async {
        let closed = || recorder.0.lock().unwrap().closed;
        let kept = spawn(async {});
        yield_now().await;
        assert!(kept.is_determined());
        assert_eq!(closed(), 1); // Though there is a handle.
        spawn_parasite(async {});
        assert_eq!(closed(), 2);
        delay(async {}).await.unwrap();
        assert_eq!(closed(), 3);
        drop(delay(async {}));
        assert_eq!(closed(), 4);
        let (tx, rx) = channel();
        spawn_parasite(async move { rx.recv().await.unwrap() });
        assert_eq!(closed(), 4);
        tx.send(()).await.unwrap();
        assert_eq!(closed(), 5);
    });
    // The main thread's.
    assert_eq!(recorder.0.lock().unwrap().closed, 6);
}

#[test]
fn one_polled_outside_of_the_machine_has_one() {
    apart!();
    let recorder = Recorder::start();
    let machine = machine(1);
    let (tx, rx) = channel();
    // The OS thread of a blocking call has entered the machine, and drives nothing.
    let call = machine.spawn_blocking(|| {
        spawn_parasite(async move {
            info!("outside");
            rx.recv().await.unwrap();
            info!("inside");
        });
    });
    call.join().sync_blocking().unwrap();
    machine.block_on(async {
        tx.send(()).await.unwrap();
        until("it has ended", || recorder.0.lock().unwrap().lines.len() == 2).await;
    });
    assert_eq!(recorder.line("outside").within, recorder.line("inside").within);
    assert_eq!(recorder.line("inside").within[0]["kind"], "parasite");
    recorder.assert_all_left();
}

/// Blocks whenever the span of a thread with that name is entered or left.
struct Slow(&'static str, Arc<Mutex<[usize; 2]>>);

impl Slow {
    fn blocks<S: Subscriber + for<'a> LookupSpan<'a>>(
        &self,
        id: &Id,
        context: &Context<'_, S>,
        which: usize,
    ) {
        let is_that = context.span(id).is_some_and(|span| {
            span.extensions()
                .get::<Fields>()
                .is_some_and(|fields| fields.get("name").is_some_and(|name| name.trim_matches('"') == self.0))
        });
        if is_that {
            self.1.lock().unwrap()[which] += 1;
            // Others run meanwhile, and have spans, too.
            after(common::millis(1)).sync_blocking();
        }
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Slow {
    fn on_enter(&self, id: &Id, context: Context<'_, S>) {
        self.blocks(id, &context, 0);
    }
    fn on_exit(&self, id: &Id, context: Context<'_, S>) {
        self.blocks(id, &context, 1);
    }
}

/// It is called between the stack of a fiber and that of the scheduler.
#[test]
fn a_subscriber_may_block_when_a_fiber_is_suspended_and_goes_on() {
    apart!();
    let recorder = Recorder::default();
    let calls = Arc::new(Mutex::new([0, 0]));
    let layers = tracing_subscriber::registry().with(recorder.clone()).with(Slow("inner", calls.clone()));
    tracing::subscriber::set_global_default(layers).unwrap();
    machine(1).block_on(async {
        let (tx, rx) = channel::<u32>();
        let outer = chanter::fiber::Builder::new().name("outer").spawn(move || {
            // It is polled on the fiber's stack, and blocks there: so the fiber is suspended within its span.
            let inner = Thread::builder().name("inner").spawn(async move {
                let sum = rx.recv().sync_blocking().unwrap() + rx.recv().sync_blocking().unwrap();
                info!("from within");
                sum
            });
            let sum = inner.join().sync_blocking().unwrap();
            after(common::millis(1)).sync_blocking();
            sum
        });
        let others: Vec<_> = (0..4)
            .map(|number| {
                spawn_fiber(move || (0..20).for_each(|_| after(common::millis(number)).sync_blocking()))
            })
            .collect();
        for number in [1, 2] {
            tx.send(number).await.unwrap();
        }
        assert_eq!(outer.await.unwrap(), 3);
        for other in others {
            other.await.unwrap();
        }
    });
    assert_eq!(recorder.line("from within").names()[0], "inner");
    let [entered, left] = *calls.lock().unwrap();
    assert!(entered == left && entered >= 3, "{entered} and {left}");
    recorder.assert_all_left();
}
