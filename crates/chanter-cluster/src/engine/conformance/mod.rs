//! A kit that any engine should pass, yours too.
//!
//! ```
//! use chanter_cluster::engine::{Local, conformance};
//!
//! # let machine = chanter::Machine::builder().vps(2).build()?;
//! # machine.block_on(async {
//! // In a `#[chanter::test]`:
//! conformance::check(async |count| Local::cluster(count)).await;
//! # });
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The kit makes clusters whose processes are engines in one OS process, and uses each as a process would: it polls,
//! sleeps as long as [`Engine::park`] allows, and is woken by the [`Notifier`](super::Notifier) alone. Capabilities are tried, not
//! believed; [`Check`] lists what is looked at. An engine that fails says which check, and why. Nothing depends on the speed of
//! the machine: only an engine that never comes is waited for as long as the kit's [patience](Kit::patience).
//!
//! An engine must take ten frames of 3 KB in each lane before it is full.
//!
//! | capability | what is tried |
//! |---|---|
//! | [`Order::PerPeer`](super::Order::PerPeer) | the order within a lane; without it, only that all comes, once |
//! | [`Caps::eager`](super::Caps::eager) | bodies of that length go, longer ones come back (up to 16 MiB) |
//! | [`Death::Reports`](super::Death::Reports) | what is heard of a process that is killed, if [it can be](Kit::killed_by) |
//! | [`Loss::Any`](super::Loss::Any) | nothing less: make the cluster on a link that loses nothing |

mod ends;
mod full;
mod member;
mod sleep;
mod talk;
#[cfg(test)]
mod tests;

use std::fmt;
use std::time::Duration;

use self::member::Member;
use super::Engine;

/// What the kit looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Check {
    /// Each process has its number, all know the same others, and each reaches each. What is for nobody is dropped.
    Connected,
    /// Bodies from 0 bytes to the longest arrive whole in every lane, and in order; longer ones are given back.
    Sizes,
    /// A poll hands over at most its budget, tells the sink something if and only if it says so, and leaves the rest for
    /// the next one.
    Budget,
    /// Several OS threads send through one engine and several poll it: each frame comes once, in the order of its sender.
    Concurrent,
    /// A lane that nobody empties is full at some time, and other lanes are not; the body comes back as it was; the notifier
    /// is notified when there is room again.
    Full,
    /// Whoever sleeps is woken: by a frame that is sent at any point of falling asleep, and always by the next one.
    Wakes,
    /// When nothing is left to do, the engine lets its process sleep.
    Rests,
    /// Who leaves with [`Leave::Drain`](super::Leave::Drain) is heard to the end, then has left; and so are those who leave
    /// together. The others go on.
    Drains,
    /// Who leaves with [`Leave::Now`](super::Leave::Now) waits for nobody, and is gone. (Where a death is the end of all,
    /// [`Death::Aborts`](super::Death::Aborts), it waits for the others' polls.)
    LeavesNow,
    /// Of who is killed a prefix is heard, then that it is gone, then nothing. What is for it is dropped, the others go on.
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

/// How an engine failed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Violation {
    /// In which check.
    pub check: Check,
    /// What happened.
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.check, self.what)
    }
}

impl std::error::Error for Violation {}

/// What a check finds: what is wrong.
type Finding = Result<(), String>;

/// Runs the whole kit against the engines of clusters of so many processes.
///
/// # Panics
/// If the engine fails; the message is the [`Violation`]. Outside of a machine.
pub async fn check<E: Engine>(make: impl AsyncFn(u32) -> Vec<E>) {
    if let Err(violation) = Kit::new(make).run().await {
        panic!("the engine fails: {violation}");
    }
}

/// The kit, to be told more about the engine than [`check`] can know.
///
/// ```
/// use chanter_cluster::engine::Local;
/// use chanter_cluster::engine::conformance::Kit;
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
    /// A kit for the engines that `make` makes: those of a cluster of so many processes, which are connected, and to
    /// which nobody has [attached](Engine::attach) a notifier.
    pub fn new(make: M) -> Self {
        Self { make, kill: None, patience: Duration::from_secs(120) }
    }

    /// How a process ends without a word. Without this, [`Check::Killed`] is left out.
    #[must_use]
    pub fn killed_by(self, kill: fn(&E)) -> Self {
        Self { kill: Some(kill), ..self }
    }

    /// How long an engine may do nothing while something is owed. Two minutes by default: only an engine that fails needs them.
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
    /// Outside of a machine.
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
    /// Outside of a machine.
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
