//! Concert's figure 10 (section 4.3.1): the cost of a message for its sender, by pattern of senders and receivers,
//! while no receiver answers. The cost for the receiver is measured afterwards. Pulled from its sender's memory,
//! beside pushed.
//!
//! A round: all processes sleep till the same moment, while their runtime stays awake. Then each sends a burst, and
//! computes a little after each message. It sleeps again, until all have sent. Then it receives the messages that are
//! there. A message's cost for its sender is the time of the send. Its cost for its receiver is the processor time of
//! all that the process does to get it.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use chanter_cluster::{ANYONE, Inbox, Plain, Process, ThreadName};
use nix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

use super::exercise::compute;
use super::job::By;
use super::talk::Failure;

pub(super) const SIZES: [usize; 4] = [16, 64, 256, 1024];
/// Processes of the job.
pub(super) const PROCESSES: u32 = 4;
/// Messages that a process sends in a round. The first of them are not counted: caches are cold after a sleep.
const BURST: usize = 32;
const COLD: usize = 8;
/// Largest number of iterations between two messages.
const COMPUTE: u64 = 1000;
/// Time from the begin of a round to its bursts, and from there to the receives.
const LEAD: Duration = Duration::from_millis(4);
const PAUSE: Duration = Duration::from_millis(5);

const GO: u32 = 1;
const DATA: u32 = 2;
const REPORT: u32 = 3;

/// Pattern of senders and receivers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Pattern {
    /// One process to another one.
    PointToPoint,
    /// Each to each, in turn.
    AllToAll,
    /// Each to any other.
    Random,
    /// The same, but the first process is chosen that number of times as often as another.
    Hotspot(u64),
    /// All to the first.
    AllToOne,
}

pub(super) const PATTERNS: [Pattern; 6] = [
    Pattern::PointToPoint,
    Pattern::AllToAll,
    Pattern::Random,
    Pattern::Hotspot(4),
    Pattern::Hotspot(16),
    Pattern::AllToOne,
];

impl Pattern {
    pub(super) fn words(self) -> &'static str {
        match self {
            Self::PointToPoint => "point-to-point",
            Self::AllToAll => "all-to-all",
            Self::Random => "random",
            Self::Hotspot(4) => "hotspot x4",
            Self::Hotspot(_) => "hotspot x16",
            Self::AllToOne => "all-to-one",
        }
    }

    /// Receivers of a process's messages in a round. All know it of all.
    pub(super) fn receivers(self, from: u32, processes: u32, round: u32, burst: usize) -> Vec<u32> {
        let mut seed = u64::from(from + 1) << 32 | u64::from(round + 1);
        let mut any = |weights: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) % weights
        };
        let other = |at: u64| ((u64::from(from) + 1 + at) % u64::from(processes)) as u32;
        let others = u64::from(processes) - 1;
        let next = |at: usize| match self {
            Self::PointToPoint => (from == 1).then_some(0),
            Self::AllToOne => (from != 0).then_some(0),
            Self::AllToAll => Some(other(at as u64 % others)),
            Self::Hotspot(times) if from != 0 => {
                // The first process has the weight `times`, and each other one the weight 1.
                let chosen = any(times + others - 1);
                let rest: Vec<u32> = (1..processes).filter(|process| *process != from).collect();
                Some(rest.get(chosen as usize).copied().unwrap_or(0))
            }
            Self::Random | Self::Hotspot(_) => Some(other(any(others))),
        };
        (0..burst).filter_map(next).collect()
    }
}

/// Result of a round: nanoseconds for a message.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Round {
    pub(super) by: By,
    pub(super) pattern: Pattern,
    pub(super) size: usize,
    /// The harmonic mean of the processes that send, as in the paper.
    pub(super) send_ns: f64,
    /// Nanoseconds at the process that receives most.
    pub(super) receive_ns: f64,
}

/// Result of a process.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Report {
    send_ns: Option<f64>,
    receive_ns: Option<f64>,
    received: usize,
}

/// A process of the job.
pub(super) struct Member {
    pub(super) me: Inbox,
    pub(super) names: Vec<ThreadName>,
    pub(super) by: By,
}

impl Member {
    pub(super) async fn new(here: &Process, by: By) -> Result<Self, Failure> {
        let me = here.open("member")?;
        let mut names = Vec::new();
        for process in 0..here.count() {
            names.push(here.lookup(&format!("member@{process}")).await?);
        }
        Ok(Self { me, names, by })
    }

    pub(super) fn number(&self) -> u32 {
        self.me.name().process.0
    }

    pub(super) fn others(&self) -> impl Iterator<Item = ThreadName> + '_ {
        self.names.iter().copied().filter(|name| *name != self.me.name())
    }

    /// Runs one round. The first process returns the results of all.
    pub(super) async fn round(
        &self,
        pattern: Pattern,
        size: usize,
        round: u32,
    ) -> Result<Option<Round>, Failure> {
        let begin = self.begin().await?;
        let processes = self.names.len() as u32;
        let own = pattern.receivers(self.number(), processes, round, BURST);
        let expected: usize = (0..processes)
            .flat_map(|from| pattern.receivers(from, processes, round, BURST))
            .filter(|to| *to == self.number())
            .count();
        sleep_until(begin);
        let send_ns = self.send(&own, size).await?;
        sleep_until(begin + PAUSE);
        let receive_ns = self.receive(expected, size).await?;
        self.report(pattern, size, Report { send_ns, receive_ns, received: expected }).await
    }

    /// The time at which the round begins.
    pub(super) async fn begin(&self) -> Result<SystemTime, Failure> {
        let since = if self.number() == 0 {
            let begin = SystemTime::now().duration_since(UNIX_EPOCH)? + LEAD;
            for other in self.others() {
                self.me.send(other, GO, &begin).await?;
            }
            begin
        } else {
            self.me.recv::<Duration>(self.names[0], GO).await?.value
        };
        Ok(UNIX_EPOCH + since)
    }

    async fn send(&self, receivers: &[u32], size: usize) -> Result<Option<f64>, Failure> {
        let mut total = Duration::ZERO;
        let message = Plain(vec![7_u8; size]);
        for (at, to) in receivers.iter().enumerate() {
            let to = self.names[*to as usize];
            let clock = Instant::now();
            self.me.send(to, DATA, &message).await?;
            if at >= COLD {
                total += clock.elapsed();
            }
            compute((at as u64 * 7919 % COMPUTE) as u32);
        }
        let counted = receivers.len().saturating_sub(COLD);
        Ok((counted > 0).then(|| total.as_nanos() as f64 / counted as f64))
    }

    async fn receive(&self, expected: usize, size: usize) -> Result<Option<f64>, Failure> {
        let before = processor_time()?;
        for _ in 0..expected {
            let got = self.me.recv::<Plain<u8>>(ANYONE, DATA).await?.value;
            if got.0.len() != size || got.0.iter().any(|byte| *byte != 7) {
                return Err(format!("a message of {size} bytes was wrong").into());
            }
        }
        let used = processor_time()?.saturating_sub(before);
        Ok((expected > 0).then(|| used.as_nanos() as f64 / expected as f64))
    }

    async fn report(&self, pattern: Pattern, size: usize, report: Report) -> Result<Option<Round>, Failure> {
        if self.number() != 0 {
            self.me.send(self.names[0], REPORT, &report).await?;
            return Ok(None);
        }
        let mut all = vec![report];
        for other in self.others() {
            all.push(self.me.recv::<Report>(other, REPORT).await?.value);
        }
        let sends: Vec<f64> = all.iter().filter_map(|report| report.send_ns).collect();
        let send_ns = sends.len() as f64 / sends.iter().map(|ns| 1.0 / ns).sum::<f64>();
        let receive_ns = all
            .iter()
            .max_by_key(|report| report.received)
            .and_then(|report| report.receive_ns)
            .ok_or("nobody has received anything")?;
        Ok(Some(Round { by: self.by, pattern, size, send_ns, receive_ns }))
    }
}

/// The OS thread sleeps: the runtime does not know of it, and does not say that it rests.
pub(super) fn sleep_until(moment: SystemTime) {
    if let Ok(time) = moment.duration_since(SystemTime::now()) {
        std::thread::sleep(time);
    }
}

/// Processor time that this process has used.
pub(super) fn processor_time() -> Result<Duration, Failure> {
    Ok(clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID)?.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(pattern: Pattern) -> [usize; 4] {
        let mut counts = [0; 4];
        for round in 0..100 {
            for from in 0..PROCESSES {
                for to in pattern.receivers(from, PROCESSES, round, BURST) {
                    assert_ne!(to, from);
                    counts[to as usize] += 1;
                }
            }
        }
        counts
    }

    #[test]
    fn who_is_sent_to() {
        let all = 100 * BURST;
        assert_eq!(counts(Pattern::PointToPoint), [all, 0, 0, 0]);
        assert_eq!(counts(Pattern::AllToOne), [3 * all, 0, 0, 0]);
        let even = counts(Pattern::AllToAll);
        assert!(even.iter().max().unwrap() - even.iter().min().unwrap() <= 400, "{even:?}");
        let random = counts(Pattern::Random);
        assert!(random.iter().all(|count| (all * 9 / 10..all * 11 / 10).contains(count)), "{random:?}");
        for times in [4, 16] {
            let [hot, others @ ..] = counts(Pattern::Hotspot(times));
            // Of the others, the first sends to each of three; the rest is theirs with weight 2 of `times` + 2.
            let expected = 3.0 * all as f64 * times as f64 / (times as f64 + 2.0);
            assert!((hot as f64 / expected - 1.0).abs() < 0.05, "{hot}, {others:?}");
        }
    }
}
