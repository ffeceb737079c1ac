//! `lost-choice`: choices of which one branch loses every time. Nothing of a loser may stay behind.

use std::cell::Cell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use chanter::prelude::*;

use super::on_machine;
use crate::bench::case::{Case, Failure, Load, Outcome, Sample, expect, sum_below};
use crate::bench::memory::resident;

/// No timer of this benchmark fires.
const FAR: Duration = Duration::from_secs(24 * 3600);

/// How often memory is looked at.
const LOOKS: u64 = 16;

pub(crate) fn cases(vps: usize) -> Vec<Case> {
    let alone = |case: Case| case.isolated().at_most_rounds(1).load_of(1_000_000, vps);
    vec![
        alone(Case::new("lost-choice", "chanter", "timer", |load| {
            lose(load, |rx, won| choose((rx.recv().wrap(keep(won)), after(FAR))).sync())
        })),
        alone(Case::new("lost-choice", "chanter", "wrapped timer", |load| {
            lose(load, |rx, won| choose((rx.recv().wrap(keep(won)), after(FAR).wrap(|()| ()))).sync())
        })),
        alone(Case::new("lost-choice", "chanter", "silent channel", |load| {
            // Nobody sends on this channel while it stays open.
            let (_open, silent) = channel::<u64>();
            lose(load, |rx, won| choose((rx.recv().wrap(keep(won)), silent.recv().wrap(drop))).sync())
        })),
    ]
}

/// The message that won, and nothing else, gets here.
type Won = Rc<Cell<u64>>;

fn keep(won: &Won) -> impl FnOnce(Result<u64, Closed>) + use<> {
    let won = won.clone();
    move |message| won.set(message.unwrap_or(u64::MAX))
}

/// Receives `n` messages from a host, each by a choice with a branch that never wins.
fn lose<F>(load: Load, choice: impl Fn(&Receiver<u64>, &Won) -> F) -> Outcome
where
    F: Future<Output = ()>,
{
    on_machine(load.vps, async move {
        let (tx, rx) = channel();
        spawn(async move {
            for value in 0..load.n {
                if tx.send(value).await.is_err() {
                    break;
                }
            }
        });
        let won = Won::new(Cell::new(u64::MAX));
        let clock = Instant::now();
        let look_every = (load.n / LOOKS).max(1);
        let (mut first, mut most, mut sum) = (0, 0, 0_u64);
        for done in 1..=load.n {
            choice(&rx, &won).await;
            sum = sum.wrapping_add(won.replace(u64::MAX));
            if done % look_every == 0 {
                let now = resident()?;
                // The first look comes after a sixteenth: caches are full by then.
                first = if first == 0 { now } else { first };
                most = most.max(now);
            }
        }
        let elapsed = clock.elapsed();
        expect("sum of what won", sum, sum_below(load.n))?;
        Ok::<_, Failure>(Sample::new(load.n, elapsed).with("rss_growth_bytes", (most - first) as f64))
    })?
}
