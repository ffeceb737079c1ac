//! Policies: each of ours passes the conformance kit, and does what it is for.

use crate::common;

mod order;
mod processors;
mod replacing;

use chanter::policy::{
    Bands, Deque, EarliestDeadline, Fifo, GlobalQueue, LeastLoaded, Lifo, Lottery, Policy, Priority, Ready,
    Reason, RoundRobin, WorkStealing,
};
use chanter_conformance::policy::Kit;
use common::watchdog;

macro_rules! conform {
    ($($name:ident: $kit:expr;)*) => {$(
        #[test]
        fn $name() {
            watchdog!(120);
            for seed in 1..4 {
                if let Err(violation) = $kit.seed(seed).run() {
                    panic!("{violation}");
                }
            }
        }
    )*};
}

conform! {
    fifo_conforms: Kit::new(Fifo::new).bypass(9);
    lifo_conforms: Kit::new(Lifo::new);
    round_robin_conforms: Kit::new(|| RoundRobin::new(8)).bypass(9);
    least_loaded_conforms: Kit::new(LeastLoaded::new).bypass(9);
    priority_conforms: Kit::new(Priority::new).bypass(10 * 80);
    impatient_priority_conforms: Kit::new(|| Priority::with_patience(4)).bypass(10 * 20);
    earliest_deadline_conforms: Kit::new(EarliestDeadline::new);
    // The odds against are those of 2^60, and the seed of the draws is new each time.
    lottery_conforms: Kit::new(Lottery::new).bypass(1000);
    work_stealing_conforms: Kit::new(WorkStealing::new).bypass(1024 + 64 * 9);
    deque_conforms: Kit::new(Deque::new);
    global_queue_conforms: Kit::of_families(|| {
        let queue = GlobalQueue::new();
        Box::new(move |_| Box::new(queue.member()))
    }).bypass(9);
    bands_conform: Kit::new(bands).bypass(9 * 80);
    bands_in_bands_conform: Kit::new(|| {
        let inner: [Box<dyn Policy>; 3] = [Box::new(WorkStealing::new()), Box::new(bands()), Box::new(Lifo::new())];
        Bands::new(inner, |thread: &Ready, _| thread.id() as usize / 64 % 3)
    });
    mixed_machines_conform: Kit::of_families(|| {
        Box::new(|vp| if vp == 0 { Box::new(Priority::new()) } else { Box::new(Deque::new()) })
    });
}

fn bands() -> Bands<impl Fn(&Ready, Reason) -> usize + Send + Sync + 'static> {
    let inner: [Box<dyn Policy>; 3] =
        [Box::new(Priority::new()), Box::new(Fifo::new()), Box::new(RoundRobin::new(8))];
    Bands::new(inner, |thread: &Ready, why| match why {
        Reason::Io | Reason::Timer => 0,
        _ => 1 + usize::from(thread.attributes().deadline.is_none()),
    })
}
