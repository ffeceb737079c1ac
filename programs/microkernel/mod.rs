//! Threads that fetch and compute, in several processes; see the folder's `README.md`.

mod chanter;
mod serial;

use std::fmt;

use serde::{Deserialize, Serialize};

pub use crate::kit::Threads;
pub use chanter::process;

/// Which objects threads fetch from, if these are elsewhere (table 6).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Pattern {
    /// Each process from all others, by turns.
    AllToAll,
    /// From any of the others.
    Random,
    /// From process 0 this number of times as often as from another one.
    Hotspot(u32),
}

impl Pattern {
    /// The patterns of table 6.
    pub const ALL: [Self; 4] = [Self::AllToAll, Self::Random, Self::Hotspot(4), Self::Hotspot(16)];

    /// From which process the thread `thread` of process `me` fetches, if from another one.
    fn other(self, me: u32, thread: u32, processes: u32, random: u64) -> u32 {
        let others = processes - 1;
        let nth = |at: u32| (me + 1 + at) % processes;
        match self {
            Self::AllToAll => nth(thread % others),
            Self::Random => nth((random % u64::from(others)) as u32),
            Self::Hotspot(_) if me == 0 => nth((random % u64::from(others)) as u32),
            Self::Hotspot(times) => {
                // Process 0 has `times` lots, each other one has one.
                let lot = (random % u64::from(times + others - 1)) as u32;
                if lot < times {
                    return 0;
                }
                (1..processes).filter(|other| *other != me).nth((lot - times) as usize).unwrap_or(0)
            }
        }
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AllToAll => f.write_str("all-to-all"),
            Self::Random => f.write_str("random"),
            Self::Hotspot(times) => write!(f, "hotspot {times}x"),
        }
    }
}

/// One run: a cell of the paper's table 6.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Spec {
    /// How threads are run.
    pub threads: Threads,
    /// How many of a hundred threads fetch from their own process.
    pub local: u32,
    /// Where the others fetch.
    pub pattern: Pattern,
    /// How long a thread computes, in microseconds.
    pub grain: u32,
    /// The standard deviation of that, in tenths of it.
    pub deviation: u32,
    /// How many threads each process has.
    pub count: u32,
}

impl Spec {
    /// The paper's granularities, in microseconds, and the granularity of its second promise.
    pub const GRAINS: [u32; 7] = [10, 50, 100, 150, 500, 1000, 5000];
    /// The paper's shares of local accesses.
    pub const LOCAL: [u32; 6] = [0, 20, 40, 60, 80, 100];
    /// Its deviations, in tenths.
    pub const DEVIATIONS: [u32; 3] = [0, 5, 10];

    /// About this much work for each process, and enough threads to hide latencies.
    pub const fn of_work(mut self, microseconds: u32) -> Self {
        let count = microseconds / self.grain;
        self.count = if count < 12 { 12 } else { count };
        self
    }

    /// A number for each thread, the same in each run.
    fn random(self, me: u32, thread: u32) -> crate::kit::Random {
        crate::kit::Random::new(u64::from(me) << 32 | u64::from(thread))
    }

    /// How long a thread computes, in microseconds.
    fn grain_of(self, me: u32, thread: u32) -> f64 {
        let mut random = self.random(me, thread);
        let (a, b) = (1.0 - random.unit(), random.unit());
        let normal = (-2.0 * a.ln()).sqrt() * (std::f64::consts::TAU * b).cos();
        let grain = f64::from(self.grain);
        (grain + normal * grain * f64::from(self.deviation) / 10.0).max(0.0)
    }

    /// From which process it fetches.
    fn from(self, me: u32, thread: u32, processes: u32) -> u32 {
        let mut random = self.random(me, thread);
        random.next_u64();
        random.next_u64();
        // The shares are exact, and the threads of both kinds lie mixed.
        let is_local = (thread * 37 + 11) % 100 < self.local;
        if is_local || processes == 1 {
            return me;
        }
        self.pattern.other(me, thread, processes, random.next_u64())
    }
}

/// Results of a run, whose sums were right.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Row {
    /// The run's specification.
    pub spec: Spec,
    /// In how many processes.
    pub processes: u32,
    /// Whether receivers pull messages from the memory that they share; else senders push them there.
    pub pull: bool,
    /// Time of the threads' computations alone, in nanoseconds, of all processes together.
    pub useful_ns: f64,
    /// From the beginning to the end.
    pub elapsed_ns: f64,
    /// The useful part of the time of all processors, in per cent.
    pub efficiency: f64,
    /// Every sum was as computed without threads.
    pub checked: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(local: u32, pattern: Pattern) -> Spec {
        Spec { threads: Threads::Stack, local, pattern, grain: 10, deviation: 5, count: 10_000 }
    }

    #[test]
    fn threads_fetch_as_the_pattern_says() {
        for local in Spec::LOCAL {
            let spec = spec(local, Pattern::AllToAll);
            let here = (0..10_000).filter(|thread| spec.from(1, *thread, 4) == 1).count();
            assert_eq!(here, local as usize * 100);
        }
        let count =
            |pattern, me, from| (0..10_000).filter(|t| spec(0, pattern).from(me, *t, 4) == from).count();
        for pattern in Pattern::ALL {
            assert!((0..4).all(|me| count(pattern, me, me) == 0), "{pattern}");
        }
        // From process 1, hotspot 4x: 4 of 6 from process 0.
        let hot = count(Pattern::Hotspot(4), 1, 0) as f64 / 10_000.0;
        assert!((hot - 4.0 / 6.0).abs() < 0.03, "{hot}");
        let even = count(Pattern::Random, 1, 0) as f64 / 10_000.0;
        assert!((even - 1.0 / 3.0).abs() < 0.03, "{even}");
    }

    #[test]
    fn grains_have_their_mean_and_deviation() {
        let spec = spec(0, Pattern::Random);
        let all: Vec<f64> = (0..10_000).map(|thread| spec.grain_of(0, thread)).collect();
        let mean = all.iter().sum::<f64>() / 1e4;
        let square = all.iter().map(|grain| (grain - mean).powi(2)).sum::<f64>() / 1e4;
        assert!((mean - 10.0).abs() < 0.3 && (square.sqrt() - 5.0).abs() < 0.3, "{mean} {square}");
    }

    #[test]
    fn threads_compute_what_is_computed_without_them() {
        chanter::tests::a_job_of_one_process_checks_its_sums();
    }
}
