//! Concert's figure 10 under contention: push and pull in the same memory, with receivers slower than their senders.
//!
//! A round: all processes begin at the same moment. Each has two threads on one virtual processor. One sends a burst
//! and computes a little after each message. The other one receives, and works for [`WORK`] after each message. So the
//! buffers fill if the burst is long enough. A message's cost for its sender is the time of the send, waits included.
//! Its cost for its receiver is the processor time of the process without the work and the sends.

use std::sync::Arc;
use std::time::{Duration, Instant};

use chanter::prelude::*;
use chanter_cluster::{ANYONE, Inbox, Plain, Process, ThreadName};
use comfy_table::{Cell as Column, Table, presets};
use serde::{Deserialize, Serialize};

use super::exercise::compute;
use super::job::By;
use super::patterns::{self, PATTERNS, Pattern, SIZES, processor_time, sleep_until};
use super::talk::Failure;
use crate::measure::median;
use crate::report::{number, right};

pub(super) const ALL: [By; 2] = [By::Segment, By::Pushed];
/// Processes of the jobs: as for figure 10, and enough to fill a receiver's buffer with a short burst.
pub(super) const PROCESSES: [u32; 2] = [4, 16];
/// Messages that a process sends in a round: fewer and more than the 64 that may be on their way to an inbox.
pub(super) const BURSTS: [usize; 2] = [32, 256];
/// Time that a receiver works after each message, without a look at others. The paper's threads compute for 13.2 us.
pub(super) const WORK: Duration = Duration::from_micros(20);
/// Largest number of iterations between two sends.
const COMPUTE: u64 = 1000;

const DATA: u32 = 2;
const REPORT: u32 = 3;

/// Subject of a measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Cell {
    pub(super) pattern: Pattern,
    pub(super) size: usize,
    pub(super) burst: usize,
}

/// Result of a round: nanoseconds for a message.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Round {
    pub(super) by: By,
    pub(super) processes: u32,
    pub(super) cell: Cell,
    pub(super) work_us: f64,
    /// The harmonic mean of the processes that send, as in the paper.
    pub(super) send_ns: f64,
    /// The harmonic mean for messages to other receivers than the first process.
    pub(super) aside_ns: Option<f64>,
    /// Nanoseconds at the process that receives most.
    pub(super) receive_ns: f64,
}

/// Result of a process.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Report {
    send_ns: Option<f64>,
    aside_ns: Option<f64>,
    receive_ns: Option<f64>,
    received: usize,
}

/// A process of the job.
pub(super) struct Member {
    member: patterns::Member,
    data: Inbox,
    /// The inboxes for data of all processes.
    receivers: Vec<ThreadName>,
}

impl Member {
    pub(super) async fn new(here: &Process, by: By) -> Result<Arc<Self>, Failure> {
        let data = here.open("data")?;
        let mut receivers = Vec::new();
        for process in 0..here.count() {
            receivers.push(here.lookup(&format!("data@{process}")).await?);
        }
        let member = patterns::Member::new(here, by).await?;
        Ok(Arc::new(Self { member, data, receivers }))
    }

    /// Runs one round. The first process returns the results of all.
    pub(super) async fn round(self: &Arc<Self>, cell: Cell, round: u32) -> Result<Option<Round>, Failure> {
        let begin = self.member.begin().await?;
        let processes = self.receivers.len() as u32;
        let me = self.member.number();
        let of = |from| cell.pattern.receivers(from, processes, round, cell.burst);
        let expected = (0..processes).flat_map(of).filter(|to| *to == me).count();
        let own = of(me);
        sleep_until(begin);
        let before = processor_time()?;
        let (member, count) = (Arc::clone(self), own.len());
        let sending = spawn(async move { member.send(&own, cell.size).await });
        let received = self.receive(expected, cell.size).await;
        let (sent, ()) = (sending.await??, received?);
        let worked = WORK * expected as u32 + sent.used;
        let used = processor_time()?.saturating_sub(before).saturating_sub(worked);
        let report = Report {
            send_ns: mean(sent.time, count),
            aside_ns: mean(sent.aside.0, sent.aside.1),
            receive_ns: mean(used, expected),
            received: expected,
        };
        self.report(cell, report).await
    }

    async fn send(&self, receivers: &[u32], size: usize) -> Result<Sent, Failure> {
        let message = Plain(vec![7_u8; size]);
        let mut sent = Sent::default();
        for (at, to) in receivers.iter().enumerate() {
            let clock = Instant::now();
            self.member.me.send(self.receivers[*to as usize], DATA, &message).await?;
            let time = clock.elapsed();
            sent.time += time;
            if *to != 0 {
                sent.aside.0 += time;
                sent.aside.1 += 1;
            }
            let clock = Instant::now();
            compute((at as u64 * 7919 % COMPUTE) as u32);
            sent.used += clock.elapsed();
        }
        Ok(sent)
    }

    async fn receive(&self, expected: usize, size: usize) -> Result<(), Failure> {
        for _ in 0..expected {
            let got = self.data.recv::<Plain<u8>>(ANYONE, DATA).await?.value;
            if got.0.len() != size || got.0.iter().any(|byte| *byte != 7) {
                return Err(format!("a message of {size} bytes was wrong").into());
            }
            work(WORK);
        }
        Ok(())
    }

    async fn report(&self, cell: Cell, report: Report) -> Result<Option<Round>, Failure> {
        let (me, names) = (&self.member.me, &self.member.names);
        if self.member.number() != 0 {
            me.send(names[0], REPORT, &report).await?;
            return Ok(None);
        }
        let mut all = vec![report];
        for other in self.member.others() {
            all.push(me.recv::<Report>(other, REPORT).await?.value);
        }
        let most = all.iter().max_by_key(|report| report.received);
        Ok(Some(Round {
            by: self.member.by,
            processes: names.len() as u32,
            cell,
            work_us: WORK.as_nanos() as f64 / 1e3,
            send_ns: harmonic(all.iter().filter_map(|report| report.send_ns)).ok_or("nobody has sent")?,
            aside_ns: harmonic(all.iter().filter_map(|report| report.aside_ns)),
            receive_ns: most.and_then(|report| report.receive_ns).ok_or("nobody has received anything")?,
        }))
    }
}

/// Times of the sends of a burst.
#[derive(Default)]
struct Sent {
    time: Duration,
    /// Of the messages that do not go to the first process, and their number.
    aside: (Duration, usize),
    /// Time of the computations in between.
    used: Duration,
}

/// Works for a given processor time of this OS thread, and looks at nothing.
fn work(time: Duration) {
    let thread_time = || {
        nix::time::clock_gettime(nix::time::ClockId::CLOCK_THREAD_CPUTIME_ID)
            .map_or(Duration::MAX, Into::into)
    };
    let end: Duration = thread_time();
    let end = end.saturating_add(time);
    while thread_time() < end {
        compute(100);
    }
}

fn mean(time: Duration, count: usize) -> Option<f64> {
    (count > 0).then(|| time.as_nanos() as f64 / count as f64)
}

fn harmonic(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (count, sum) = values.fold((0.0, 0.0), |(count, sum), ns| (count + 1.0, sum + 1.0 / ns));
    (count > 0.0).then(|| count / sum)
}

fn of(rounds: &[Round], key: (By, u32, Cell), value: fn(&Round) -> Option<f64>) -> Option<f64> {
    let found = rounds.iter().filter(|round| (round.by, round.processes, round.cell) == key);
    median(&found.filter_map(value).collect::<Vec<_>>())
}

/// Cost of a message for its sender, in nanoseconds.
pub(super) fn send(rounds: &[Round], by: By, processes: u32, cell: Cell) -> Option<f64> {
    of(rounds, (by, processes, cell), |round| Some(round.send_ns))
}

fn receive(rounds: &[Round], by: By, processes: u32, cell: Cell) -> Option<f64> {
    of(rounds, (by, processes, cell), |round| Some(round.receive_ns))
}

/// Cost of a message to another receiver than the first process, for its sender.
pub(super) fn aside(rounds: &[Round], by: By, processes: u32, cell: Cell) -> Option<f64> {
    of(rounds, (by, processes, cell), |round| round.aside_ns)
}

/// The sender's cost all-to-one, divided by that all-to-all: 15 in the paper, by push.
pub(super) fn degradation(
    rounds: &[Round],
    by: By,
    processes: u32,
    size: usize,
    burst: usize,
) -> Option<f64> {
    let of = |pattern| send(rounds, by, processes, Cell { pattern, size, burst });
    Some(of(Pattern::AllToOne)? / of(Pattern::AllToAll)?)
}

pub(super) fn table(rounds: &[Round]) -> String {
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN);
    let columns = PATTERNS.iter().map(|pattern| pattern.words().to_owned());
    let header = ["processes", "burst", "bytes", "protocol"].map(str::to_owned).into_iter().chain(columns);
    table.set_header(header.chain(["hotspot x16: others".to_owned(), "all-to-one / all-to-all".to_owned()]));
    for processes in PROCESSES {
        for burst in BURSTS {
            for size in SIZES {
                for by in ALL {
                    let cell = |pattern| Cell { pattern, size, burst };
                    let show = |value: Option<f64>| value.map_or("-".to_owned(), number);
                    let mut row = vec![right(&processes.to_string()), right(&burst.to_string())];
                    row.push(right(&size.to_string()));
                    row.push(Column::new(if by == By::Segment { "pull" } else { "push" }));
                    row.extend(PATTERNS.map(|pattern| {
                        let cell = cell(pattern);
                        let both = [send(rounds, by, processes, cell), receive(rounds, by, processes, cell)];
                        right(&both.map(show).join("  "))
                    }));
                    row.push(right(&show(aside(rounds, by, processes, cell(Pattern::Hotspot(16))))));
                    row.push(right(&show(degradation(rounds, by, processes, size, burst))));
                    table.add_row(row);
                }
            }
        }
    }
    format!(
        "Concert, figure 10, with slow receivers in the same memory: ns that a message costs its sender, waits included, \
         and its receiver.\nA receiver works {} us after each message. A receiver's buffer has 128 slots by push; by pull \
         each sender has 32 for it. 64 messages may be on their way from a process to an inbox.\n{table}",
        WORK.as_micros()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_degradation_is_that_of_the_medians() {
        let round = |by, pattern, send_ns| Round {
            by,
            processes: 4,
            cell: Cell { pattern, size: 16, burst: 32 },
            work_us: 20.0,
            send_ns,
            aside_ns: None,
            receive_ns: 1.0,
        };
        let rounds = [
            round(By::Pushed, Pattern::AllToAll, 10.0),
            round(By::Pushed, Pattern::AllToOne, 150.0),
            round(By::Pushed, Pattern::AllToOne, 150.0),
            round(By::Pushed, Pattern::AllToOne, 1e9),
            round(By::Segment, Pattern::AllToOne, 10.0),
        ];
        assert_eq!(degradation(&rounds, By::Pushed, 4, 16, 32), Some(15.0));
        assert_eq!(degradation(&rounds, By::Segment, 4, 16, 32), None);
        assert!(table(&rounds).contains("150"));
    }

    #[test]
    fn the_mean_of_senders_is_harmonic() {
        assert_eq!(harmonic([1.0, 1.0, 2.0].into_iter()), Some(1.2));
        assert_eq!(harmonic(std::iter::empty()), None);
    }
}
