//! Cases: one system doing one piece of work, and what a round of it gives.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// No sample takes this long unless a thread hangs.
const PATIENCE: Duration = Duration::from_secs(300);

/// The amount of work that a case is asked to do.
#[derive(Clone, Copy)]
pub(crate) struct Load {
    /// Operations: messages, spawns, choices or threads.
    pub(crate) n: u64,
    /// Virtual processors, or worker threads of a peer.
    pub(crate) vps: usize,
}

/// Measurement of one round of one case, after its result was checked.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Sample {
    pub(crate) ops: u64,
    pub(crate) nanos: f64,
    #[serde(default)]
    pub(crate) bytes_per_thread: Option<f64>,
    /// Further numbers of this benchmark, by their names in the JSON record.
    #[serde(default)]
    pub(crate) detail: BTreeMap<String, f64>,
}

impl Sample {
    pub(crate) fn new(ops: u64, elapsed: Duration) -> Self {
        Self { ops, nanos: elapsed.as_nanos() as f64, bytes_per_thread: None, detail: BTreeMap::new() }
    }

    pub(crate) fn with(mut self, name: &str, value: f64) -> Self {
        self.detail.insert(name.to_owned(), value);
        self
    }

    pub(crate) fn with_bytes(mut self, bytes_per_thread: f64) -> Self {
        self.bytes_per_thread = Some(bytes_per_thread);
        self
    }

    pub(super) fn ns_per_op(&self) -> f64 {
        self.nanos / self.ops.max(1) as f64
    }
}

/// The reason why a case has no sample.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The work gave a wrong result: nothing that was measured counts.
    Wrong(String),
    /// The peer is not on this machine: reported and skipped.
    Unavailable(String),
    /// The system has nothing that does this work.
    Cannot(String),
    /// The machine or a process could not do the work.
    Broken(String),
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Wrong(what) => write!(f, "wrong result: {what}"),
            Self::Unavailable(what) => write!(f, "not available: {what}"),
            Self::Cannot(what) => write!(f, "cannot: {what}"),
            Self::Broken(what) => write!(f, "failed: {what}"),
        }
    }
}

pub(crate) type Outcome = Result<Sample, Failure>;

/// Fails unless the work produced the expected value.
pub(crate) fn expect<T: PartialEq + std::fmt::Debug>(what: &str, got: T, want: T) -> Result<(), Failure> {
    if got == want { Ok(()) } else { Err(Failure::Wrong(format!("{what} is {got:?}, not {want:?}"))) }
}

/// 0 + 1 + … + (n - 1): the sum of the messages that most benchmarks send.
pub(crate) fn sum_below(n: u64) -> u64 {
    n * n.saturating_sub(1) / 2
}

type Body = Box<dyn Fn(Load) -> Outcome + Send + Sync>;

/// One system doing one piece of work.
pub(crate) struct Case {
    pub(crate) family: &'static str,
    pub(crate) bench: &'static str,
    pub(crate) system: &'static str,
    pub(crate) variant: &'static str,
    pub(crate) n: u64,
    pub(crate) vps: usize,
    pub(super) most_rounds: usize,
    pub(super) isolated: bool,
    /// Whether the first run counts, too.
    pub(super) is_cold: bool,
    body: Body,
}

impl Case {
    pub(crate) fn new(
        bench: &'static str,
        system: &'static str,
        variant: &'static str,
        body: impl Fn(Load) -> Outcome + Send + Sync + 'static,
    ) -> Self {
        Self {
            family: bench,
            bench,
            system,
            variant,
            n: 1,
            vps: 1,
            most_rounds: usize::MAX,
            isolated: false,
            is_cold: false,
            body: Box::new(body),
        }
    }

    /// Compares this case with those of another benchmark.
    pub(crate) fn in_family(mut self, family: &'static str) -> Self {
        self.family = family;
        self
    }

    /// Runs each sample in a process of its own, so that no other case's memory or threads count.
    pub(crate) fn isolated(mut self) -> Self {
        self.isolated = true;
        self
    }

    /// Runs nothing that is not counted: the work itself sees to its warmth.
    pub(crate) fn cold(mut self) -> Self {
        self.is_cold = true;
        self
    }

    /// The operations of one round, and the processors that they run on.
    pub(crate) fn load_of(mut self, n: u64, vps: usize) -> Self {
        self.n = n;
        self.vps = vps;
        self
    }

    pub(crate) fn at_most_rounds(mut self, rounds: usize) -> Self {
        self.most_rounds = rounds;
        self
    }

    /// The bench's own name for Chanter and the yardsticks, `system-bench` for a peer.
    pub(crate) fn name(&self) -> String {
        match (self.system, self.bench) {
            ("chanter" | "plain", bench) => bench.to_owned(),
            (system, "host") => format!("{system}-spawn"),
            (system, bench) => format!("{system}-{bench}"),
        }
    }

    /// Names the case between processes.
    pub(crate) fn key(&self) -> String {
        format!("{}/{}/{}", self.system, self.bench, self.variant)
    }

    pub(super) fn load(&self) -> Load {
        Load { n: self.n, vps: self.vps }
    }

    /// Runs the work once, in this process, under a watchdog.
    pub(crate) fn run_here(&self, load: Load) -> Outcome {
        let (done, finished) = mpsc::channel::<()>();
        let label = self.key();
        let watchdog = thread::spawn(move || {
            if finished.recv_timeout(PATIENCE) == Err(mpsc::RecvTimeoutError::Timeout) {
                eprintln!("chanter: {label} has not finished within {PATIENCE:?}: giving up");
                std::process::exit(1);
            }
        });
        let outcome = catch_unwind(AssertUnwindSafe(|| (self.body)(load)))
            .unwrap_or_else(|_| Err(Failure::Broken("the work panicked".to_owned())));
        drop(done);
        // The watchdog only waits or exits the process, so it has no panic to pass on.
        let _ = watchdog.join();
        outcome
    }

    pub(super) fn run(&self, load: Load) -> Outcome {
        if self.isolated { self.run_in_child(load) } else { self.run_here(load) }
    }

    fn run_in_child(&self, load: Load) -> Outcome {
        let broken = |error: std::io::Error| Failure::Broken(error.to_string());
        let program = std::env::current_exe().map_err(broken)?;
        let output = Command::new(program)
            .args(["case", &self.key()])
            .args(["--n", &load.n.to_string(), "--vps", &load.vps.to_string()])
            .stderr(Stdio::piped())
            .output()
            .map_err(broken)?;
        read_sample(&output)
    }
}

/// Reads the sample that a measuring process left on its standard output.
pub(crate) fn read_sample(output: &std::process::Output) -> Outcome {
    if !output.status.success() {
        let complaint = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        let why = format!("{complaint} ({})", output.status);
        return Err(match output.status.code() {
            Some(_) => Failure::Wrong(why),
            None => Failure::Broken(why),
        });
    }
    serde_json::from_slice(&output.stdout)
        .map_err(|error| Failure::Broken(format!("unreadable sample: {error}")))
}
