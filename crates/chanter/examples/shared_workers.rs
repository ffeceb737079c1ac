//! Two machines share OS threads, and a physical policy holds them at 3 : 1.
//!
//! Both machines have two processors, each with a thread that computes all the time. Both run on two OS threads. The
//! policy, of which each OS thread has its own, runs the machine that has had the least time for its share.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use chanter::prelude::*;
use chanter::topology::{Contender, Grant, PhysicalPolicy, Workers};
use chanter::yield_if_requested;

/// The time that each machine has had, on all OS threads.
type Times = Arc<Mutex<HashMap<String, Duration>>>;

/// Shares of the time, by the machine's name.
struct Shares {
    of: HashMap<&'static str, f64>,
    /// The time that each machine has had on this OS thread, divided by its share.
    had: HashMap<String, f64>,
    times: Times,
}

impl PhysicalPolicy for Shares {
    fn next(&mut self, ready: &[Contender]) -> Grant {
        let had = |at: &usize| self.had.get(ready[*at].machine()).copied().unwrap_or(0.0);
        let next = (0..ready.len()).min_by(|one, other| had(one).total_cmp(&had(other)));
        Grant::to(next.unwrap_or(0)).quantum(Duration::from_millis(1))
    }

    fn has_run(&mut self, processor: &Contender, time: Duration) {
        let machine = processor.machine();
        let share = self.of.get(machine).copied().unwrap_or(1.0);
        *self.had.entry(machine.to_owned()).or_default() += time.as_secs_f64() / share;
        *self.times.lock().unwrap().entry(machine.to_owned()).or_default() += time;
    }
}

fn main() -> std::io::Result<()> {
    let times = Times::default();
    let told = Arc::clone(&times);
    let policy = move |_| -> Box<dyn PhysicalPolicy> {
        let of = HashMap::from([("three", 3.0), ("one", 1.0)]);
        Box::new(Shares { of, had: HashMap::new(), times: Arc::clone(&told) })
    };
    let workers = Workers::builder().threads(2).policy(policy).build()?;

    let work = ["three", "one"].map(|name| (name, Arc::new(AtomicU64::new(0))));
    let mut machines = Vec::new();
    for (name, done) in &work {
        let machine = Machine::builder().name(*name).vps(2).on(&workers).build()?;
        for vp in 0..2 {
            let done = Arc::clone(done);
            machine.spawn_on(vp, async move {
                loop {
                    // A part of a long computation.
                    (0..1_000).for_each(|_| std::hint::spin_loop());
                    done.fetch_add(1, Ordering::Relaxed);
                    yield_if_requested().await;
                }
            });
        }
        machines.push(machine);
    }
    let total = || times.lock().unwrap().values().sum::<Duration>();
    while total() < Duration::from_secs(2) {
        std::thread::sleep(Duration::from_millis(10));
    }
    let work = work.map(|(_, done)| done.load(Ordering::Relaxed) as f64);
    drop(machines);

    let times = times.lock().unwrap();
    let ratio = times["three"].as_secs_f64() / times["one"].as_secs_f64();
    println!("time: {ratio:.3} : 1, work: {:.3} : 1", work[0] / work[1]);
    assert!((2.85..=3.15).contains(&ratio), "the policy holds the machines at 3 : 1 within 5 %");
    Ok(())
}
