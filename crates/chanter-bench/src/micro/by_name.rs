//! Messages to a thread of the same process by its global name, beside a mailbox.

use std::sync::Arc;
use std::time::Instant;

use chanter::prelude::*;
use chanter_cluster::{ANYONE, local};

use super::{on_machine, value_of};
use crate::case::{Case, Failure, Load, Outcome, Sample, expect, sum_below};

const TAG: u32 = 1;
/// Number of messages that are sent before they are received: fewer than a window.
const BURST: u64 = 32;

pub(crate) fn cases(vps: usize) -> Vec<Case> {
    let some = |case: Case| case.load_of(500_000, vps);
    vec![
        some(Case::new("by-name", "chanter", "one thread, by name", alone_by_name)),
        some(Case::new("by-name", "chanter", "one thread, mailbox", alone_by_mailbox)),
        some(Case::new("by-name", "chanter", "two threads, by name", two_by_name)),
        some(Case::new("by-name", "chanter", "two threads, mailbox", |load| {
            super::send::producer_and(load, mailbox(), super::send::sync, super::send::adding_up)
        })),
    ]
}

/// Runs `work` on a machine with a process of its own.
fn in_process<F>(load: Load, work: impl FnOnce(chanter_cluster::Process) -> F) -> Outcome
where
    F: Future<Output = Result<u64, Failure>>,
{
    let (sum, elapsed) = on_machine(load.vps, async {
        let here = local(1).pop().ok_or_else(|| Failure::Broken("no process".to_owned()))?;
        let clock = Instant::now();
        let sum = work(here).await?;
        Ok::<_, Failure>((sum, clock.elapsed()))
    })??;
    expect("sum received", sum, sum_below(load.n))?;
    Ok(Sample::new(load.n, elapsed))
}

fn broken(error: impl ToString) -> Failure {
    Failure::Broken(error.to_string())
}

fn alone_by_name(load: Load) -> Outcome {
    in_process(load, async |here| {
        let (me, other) = (here.inbox().map_err(broken)?, here.inbox().map_err(broken)?);
        let mut sum = 0;
        for first in (0..load.n).step_by(BURST as usize) {
            let last = (first + BURST).min(load.n);
            for value in first..last {
                me.send(other.name(), TAG, &value).await.map_err(broken)?;
            }
            for _ in first..last {
                sum += other.recv::<u64>(ANYONE, TAG).await.map_err(broken)?.value;
            }
        }
        Ok(sum)
    })
}

fn alone_by_mailbox(load: Load) -> Outcome {
    in_process(load, async |_| {
        let (tx, rx) = mailbox();
        let mut sum = 0;
        for first in (0..load.n).step_by(BURST as usize) {
            let last = (first + BURST).min(load.n);
            for value in first..last {
                tx.send(value).await.map_err(broken)?;
            }
            for _ in first..last {
                sum += rx.recv().await.map_err(broken)?;
            }
        }
        Ok(sum)
    })
}

fn two_by_name(load: Load) -> Outcome {
    in_process(load, async |here| {
        let (me, other) = (here.inbox().map_err(broken)?, Arc::new(here.inbox().map_err(broken)?));
        let to = other.name();
        let consumer = spawn(async move {
            let mut sum = 0;
            for _ in 0..load.n {
                sum += other.recv::<u64>(ANYONE, TAG).await.map_err(broken)?.value;
            }
            Ok::<_, Failure>(sum)
        });
        spawn(async move {
            for value in 0..load.n {
                if me.send(to, TAG, &value).await.is_err() {
                    break;
                }
            }
        });
        value_of(consumer).await?
    })
}
