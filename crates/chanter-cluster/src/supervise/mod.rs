//! Supervisors: threads of other processes that are started again when they fail, with limits.
//!
//! A supervisor starts its children in order and watches each. When one has failed, it follows its strategy. If
//! children fail more often than its limit allows, it ends them all and reports the last one to fail. The waiter on
//! the [`Team`] decides what follows.
//!
//! | strategy | when a child fails, these are started again |
//! |---|---|
//! | [`one_for_one`](Supervisor::one_for_one) | that child |
//! | [`one_for_all`](Supervisor::one_for_all) | all, after the others have been ended |
//! | [`rest_for_one`](Supervisor::rest_for_one) | that child and those added after it, after all of these have been
//! ended |
//!
//! (The strategies are those of Erlang's OTP; the children are threads anywhere in the cluster.)

mod child;
mod watch;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use chanter::ThreadBuilder;
use chanter::prelude::*;

use child::{Child, Current};
pub use child::{Place, Restart};

use crate::remote::{Down, Plan, SpawnError};
use crate::{Process, ThreadName};

/// The children that are started again when one fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Strategy {
    OneForOne,
    OneForAll,
    RestForOne,
}

/// A supervisor that has not started yet; see [the module](crate::supervise).
///
/// ```
/// use std::time::Duration;
/// use chanter::prelude::*;
/// use chanter_cluster::supervise::{Place, Restart, Supervisor};
/// use chanter_cluster::{Function, local};
///
/// const WORK: Function<u32, ()> = Function::new("work");
///
/// # let machine = Machine::new()?;
/// # machine.block_on(async {
/// let [first, second] = <[_; 2]>::try_from(local(2)).unwrap();
/// let (begun, begins) = mailbox();
/// let offering = second.offer(WORK, move |_, n: u32| {
///     let _ = begun.try_send(n);
///     async { never().await }
/// });
/// let team = Supervisor::one_for_one()
///     .at_most(3, Duration::from_secs(10))
///     .child("worker", Place::Process(1), Restart::Always, WORK.with(&7))
///     .start(&first)
///     .await
///     .unwrap();
/// assert_eq!(begins.recv().await, Ok(7));
/// first.thread::<()>(team.child("worker").unwrap()).cancel().await.unwrap();
/// assert_eq!(begins.recv().await, Ok(7), "it was started again");
/// team.stop().await.unwrap();
/// # });
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
#[must_use = "a supervisor does nothing until it is started"]
pub struct Supervisor {
    strategy: Strategy,
    most: usize,
    within: Duration,
    children: Vec<Child>,
}

impl Supervisor {
    fn new(strategy: Strategy) -> Self {
        Self { strategy, most: 3, within: Duration::from_secs(5), children: Vec::new() }
    }

    /// A supervisor that starts the failed child again.
    pub fn one_for_one() -> Self {
        Self::new(Strategy::OneForOne)
    }

    /// A supervisor that starts all children again when one fails.
    pub fn one_for_all() -> Self {
        Self::new(Strategy::OneForAll)
    }

    /// A supervisor that starts the failed child again, and those that were added after it.
    pub fn rest_for_one() -> Self {
        Self::new(Strategy::RestForOne)
    }

    /// Sets the number of times that children may be started again within the time `within`. The default is 3 times in
    /// 5 s.
    pub fn at_most(mut self, most: usize, within: Duration) -> Self {
        (self.most, self.within) = (most, within);
        self
    }

    /// Adds a child, whose value is dropped. Children are started in the order in which they were added.
    pub fn child<T>(
        mut self,
        name: impl Into<String>,
        place: Place,
        restart: Restart,
        plan: Plan<T>,
    ) -> Self {
        self.children.push(Child { name: name.into(), place, restart, plan: plan.erased() });
        self
    }

    /// Starts the children, and watches them from then on.
    ///
    /// **Cancel safety.** If this is dropped, the children that it has started are ended.
    ///
    /// # Errors
    /// [`TeamError::Spawn`]: a child cannot be started. The children before it have been ended.
    ///
    /// # Panics
    /// If the caller is no thread of a machine, since the supervisor is one.
    pub async fn start(self, here: &Process) -> Result<Team, TeamError> {
        let (stop, stopped) = mailbox();
        let current = Arc::new(Current::new(self.children.iter().map(|child| child.name.clone())));
        let ended = IVar::new();
        let started = watch::start_all(self, here.clone(), Arc::clone(&current)).await?;
        let team = Team { current, stop, ended: ended.clone() };
        drop(ThreadBuilder::new().name("supervisor").spawn(async move {
            let _ = ended.put(started.watch(stopped).await);
        }));
        Ok(team)
    }
}

/// The reason why a team has ended, or could not begin.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TeamError {
    /// A child cannot be started, or cannot be started again.
    Spawn {
        /// The child's name.
        child: String,
        /// The reason.
        why: SpawnError,
    },
    /// Children have failed too often; this one was the last.
    TooOften {
        /// The child's name.
        child: String,
        /// The way in which it failed.
        down: Down,
    },
}

impl fmt::Display for TeamError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Spawn { child, why } => write!(f, "child {child:?} cannot be started: {why}"),
            Self::TooOften { child, down } => {
                write!(
                    f,
                    "children have failed more often than `at_most` allows, {child:?} last ({down}): all have been ended"
                )
            }
        }
    }
}

impl std::error::Error for TeamError {}

/// Children under a supervisor. When it is dropped, they are ended.
#[derive(Debug)]
pub struct Team {
    current: Arc<Current>,
    stop: Sender<()>,
    ended: IVar<Result<(), TeamError>>,
}

impl Team {
    /// The thread that is the child of that name now; `None` while it is being started again, or when it has ended for good.
    pub fn child(&self, name: &str) -> Option<ThreadName> {
        self.current.get(name)
    }

    /// Number of times that children were started again.
    pub fn restarts(&self) -> u64 {
        self.current.restarts()
    }

    /// The event of the team's end: all children have ended for good, or it was stopped. It commits for all waiters,
    /// and stays ready.
    ///
    /// # Errors
    /// See [`TeamError`]; the children have been ended then, too.
    pub fn ended(&self) -> impl Event<Output = Result<(), TeamError>> + Send + use<> {
        self.ended.get()
    }

    /// Ends the children, the last first, and waits until they have ended.
    ///
    /// # Errors
    /// The team had ended before, by an error.
    pub fn stop(&self) -> impl Event<Output = Result<(), TeamError>> + Send + use<> {
        let _ = self.stop.try_send(());
        self.ended()
    }
}

impl Drop for Team {
    fn drop(&mut self) {
        let _ = self.stop.try_send(());
    }
}
