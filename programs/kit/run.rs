//! Runs: the load that is asked for, and the result.

use std::fmt;
use std::time::Duration;

use chanter::policy::Policy;
use chanter::{JoinError, Stats};

use super::Form;

/// Makes the policies of one machine: one for each virtual processor, from its index.
pub type Policies = Box<dyn Fn(usize) -> Box<dyn Policy> + Send + Sync>;

/// How a prepared program is to be run.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// How the work is divided.
    pub form: Form,
    /// Virtual processors; a serial run takes none.
    pub vps: usize,
    /// Makes the policies of the machine; `None`: the library's default.
    pub policies: Option<fn() -> Policies>,
    /// Each virtual processor keeps to the core of its number.
    pub bound: bool,
    /// Births are recorded, so that [`Stats::host_bytes`] is there; the time means nothing then.
    pub counted: bool,
}

impl Load {
    /// On `vps` virtual processors, with the default policy.
    pub const fn new(form: Form, vps: usize) -> Self {
        Self { form, vps, policies: None, bound: false, counted: false }
    }

    /// With policies of one's own.
    #[must_use]
    pub const fn policies(mut self, policies: fn() -> Policies) -> Self {
        self.policies = Some(policies);
        self
    }

    /// For its numbers, not for its time.
    #[must_use]
    pub const fn counted(mut self) -> Self {
        self.counted = true;
        self
    }

    /// Binds each virtual processor to a core of its own, if there are enough and the system can. Then short runs do
    /// not depend on the core that the last run left its OS thread on. STING, section 8: "each physical
    /// processor implements at most one virtual processor".
    #[must_use]
    pub fn bound_if_possible(mut self) -> Self {
        self.bound = can_be_bound(self.vps);
        self
    }
}

fn can_be_bound(vps: usize) -> bool {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    cfg!(target_os = "linux") && vps > 1 && vps <= cores
}

/// Binds as [`Load::bound_if_possible`] does, for a machine that runs already. (Where a core is not available, a
/// virtual processor runs anywhere.)
pub fn bind_if_possible(machine: &chanter::Machine) {
    if can_be_bound(machine.vps()) {
        (0..machine.vps()).for_each(|vp| drop(machine.vp(vp).bind(vp)));
    }
}

/// A run whose answer was right.
#[derive(Clone, Debug)]
pub struct Run {
    /// From the program's first step to its answer; neither the input's making nor the machine's counts.
    pub elapsed: Duration,
    /// Counters of the machine, which had no other work; all 0 for a serial run.
    pub stats: Stats,
    /// Messages that went from one thread to another, if the program counts them.
    pub communications: u64,
    /// Most threads that were evaluating at the same time, if the program counts them: begun and not determined.
    pub at_once: u64,
}

/// Why a run gave nothing.
#[derive(Debug)]
pub enum Failure {
    /// The answer differs from that of the serial version, or of the paper.
    Wrong(String),
    /// The program's first thread did not end well.
    Ended(JoinError),
    /// There is no such form of this program.
    NoForm(Form),
    /// The machine could not be built.
    Machine(std::io::Error),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Wrong(what) => write!(f, "wrong result: {what}"),
            Self::Ended(error) => write!(f, "the program failed: {error}"),
            Self::NoForm(form) => write!(f, "the program has no form `{form}`"),
            Self::Machine(error) => write!(f, "no machine: {error}"),
        }
    }
}

impl std::error::Error for Failure {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Ended(error) => Some(error),
            Self::Machine(error) => Some(error),
            Self::Wrong(_) | Self::NoForm(_) => None,
        }
    }
}

/// Fails unless `got` is `want`.
///
///  # Errors
/// [`Failure::Wrong`], which names the expected value.
pub fn ensure<T: PartialEq + fmt::Debug>(what: &str, got: &T, want: &T) -> Result<(), Failure> {
    if got == want {
        return Ok(());
    }
    let shown = |value: &T| {
        let mut text = format!("{value:?}");
        if let Some((end, _)) = text.char_indices().nth(200) {
            text.truncate(end);
            text.push('…');
        }
        text
    };
    Err(Failure::Wrong(format!("{what} is {}, not {}", shown(got), shown(want))))
}
