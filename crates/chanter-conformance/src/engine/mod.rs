//! A test kit for engines, yours included.
//!
//! ```
//! use chanter_engine::Local;
//! use chanter_conformance::engine as conformance;
//!
//! # let machine = chanter::Machine::builder().vps(2).build()?;
//! # machine.block_on(async {
//! // In a `#[chanter::test]`:
//! conformance::check(async |count| Local::cluster(count)).await;
//! # });
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The kit makes clusters of engines in one OS process, and uses each engine as a process would. It polls, sleeps as
//! long as [`Engine::park`] allows, and is woken by the [`Notifier`](chanter_engine::Notifier) alone. Capabilities
//! are tried, not believed; [`Check`] lists the checks. A failure names the check and the reason. The kit does not
//! depend on the speed of the machine. Only an engine that does nothing is waited for as long as the kit's
//! [patience](Kit::patience).
//!
//! An engine must take ten frames of 3 KB in each lane before it is full.
//!
//! | capability | test |
//! |---|---|
//! | [`Order::PerPeer`](chanter_engine::Order::PerPeer) | the order within a lane; without it, only that each frame comes once |
//! | [`Caps::eager`](chanter_engine::Caps::eager) | bodies of that length go, longer ones come back (up to 16 MiB) |
//! | [`Death::Reports`](chanter_engine::Death::Reports) | the calls after a process is killed, if [it can be](Kit::killed_by) |
//! | [`Loss::Any`](chanter_engine::Loss::Any) | none less: make the cluster on a link that loses nothing |

mod ends;
mod full;
mod member;
mod sleep;
mod talk;

use std::fmt;
use std::time::Duration;

use self::member::Member;
use chanter_engine::Engine;

/// A check of the kit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Check {
    /// Each process has its number, all know the same peers, and each reaches each. Frames without a receiver are
    /// dropped.
    Connected,
    /// Bodies from 0 bytes to the longest arrive whole in every lane, and in order; longer ones are given back.
    Sizes,
    /// A poll hands over at most its budget and leaves the rest for the next one. It calls the sink if and only if it
    /// says so.
    Budget,
    /// Several OS threads send through one engine, and several poll it. Each frame comes once, in the order of its
    /// sender.
    Concurrent,
    /// A lane that is not emptied becomes full, and the other lanes do not. The refused body comes back unchanged.
    /// The notifier is called when there is room again.
    Full,
    /// A sleeping process is woken by a frame sent at any point of falling asleep, and always by the next one.
    Wakes,
    /// When nothing is left to do, the engine lets its process sleep.
    Rests,
    /// A process that leaves with [`Leave::Drain`](chanter_engine::Leave::Drain) is heard to the end, and then has left. The
    /// same holds for processes that leave together. The others go on.
    Drains,
    /// A process that leaves with [`Leave::Now`](chanter_engine::Leave::Now) is gone without waiting. (With
    /// [`Death::Aborts`](chanter_engine::Death::Aborts), where a death ends all processes, it waits for the others' polls.)
    LeavesNow,
    /// A prefix of the frames of a killed process comes, then its end, then nothing. Frames for it are dropped, and the
    /// others go on.
    Killed,
}

impl Check {
    const ALL: [Self; 10] = [
        Self::Connected,
        Self::Sizes,
        Self::Budget,
        Self::Concurrent,
        Self::Full,
        Self::Wakes,
        Self::Rests,
        Self::Drains,
        Self::LeavesNow,
        Self::Killed,
    ];
}

/// The failure of an engine.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Violation {
    /// The check that failed.
    pub check: Check,
    /// A description of the failure.
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.check, self.what)
    }
}

impl std::error::Error for Violation {}

/// The finding of a check; the error says what is wrong.
type Finding = Result<(), String>;

/// Runs the whole kit against clusters of engines. `make` gets the number of processes of each cluster.
///
/// # Panics
/// The engine fails; the message is the [`Violation`]. The caller is no thread of a machine.
pub async fn check<E: Engine>(make: impl AsyncFn(u32) -> Vec<E>) {
    if let Err(violation) = Kit::new(make).run().await {
        panic!("the engine fails: {violation}");
    }
}

/// The kit with settings, for facts about the engine that [`check`] cannot know.
///
/// ```
/// use chanter_engine::Local;
/// use chanter_conformance::engine::Kit;
///
/// # let machine = chanter::Machine::builder().vps(2).build()?;
/// # machine.block_on(async {
/// let kit = Kit::new(async |count| Local::cluster(count));
/// kit.killed_by(Local::kill).run().await.unwrap();
/// # });
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Kit<E, M> {
    make: M,
    kill: Option<fn(&E)>,
    patience: Duration,
}

impl<E: Engine, M: AsyncFn(u32) -> Vec<E>> Kit<E, M> {
    /// A kit for the engines that `make` returns. `make` gets a number of processes, and returns the connected
    /// engines of a cluster of that size, without [attached](Engine::attach) notifiers.
    pub fn new(make: M) -> Self {
        Self { make, kill: None, patience: Duration::from_secs(120) }
    }

    /// Sets how a process is killed. Without this, [`Check::Killed`] is left out.
    #[must_use]
    pub fn killed_by(self, kill: fn(&E)) -> Self {
        Self { kill: Some(kill), ..self }
    }

    /// Sets how long an engine may do nothing while it owes something. Two minutes by default; only a failing engine
    /// takes as long.
    #[must_use]
    pub fn patience(self, patience: Duration) -> Self {
        Self { patience, ..self }
    }

    /// Runs all checks, each with clusters of its own.
    ///
    /// # Errors
    /// The first violation.
    ///
    /// # Panics
    /// The caller is no thread of a machine.
    pub async fn run(&self) -> Result<(), Violation> {
        for check in Check::ALL {
            self.run_one(check).await?;
        }
        Ok(())
    }

    /// Runs one check.
    ///
    /// # Errors
    /// The engine fails it.
    ///
    /// # Panics
    /// The caller is no thread of a machine.
    pub async fn run_one(&self, check: Check) -> Result<(), Violation> {
        let finding = match check {
            Check::Connected => self.connected().await,
            Check::Sizes => self.sizes().await,
            Check::Budget => self.budget().await,
            Check::Concurrent => self.concurrent().await,
            Check::Full => self.full().await,
            Check::Wakes => self.wakes().await,
            Check::Rests => self.rests().await,
            Check::Drains => self.drains().await,
            Check::LeavesNow => self.leaves_now().await,
            Check::Killed => self.killed().await,
        };
        finding.map_err(|what| Violation { check, what })
    }

    /// The processes of a new cluster.
    async fn cluster<const N: usize>(&self) -> Result<[Member<E>; N], String> {
        let engines = (self.make)(N as u32).await;
        let members: Vec<_> = engines.into_iter().map(|engine| Member::new(engine, self.patience)).collect();
        members
            .try_into()
            .map_err(|members: Vec<_>| format!("{N} engines were wanted, and {} made", members.len()))
    }
}

impl<E, M> fmt::Debug for Kit<E, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kit").field("patience", &self.patience).finish_non_exhaustive()
    }
}
