//! A kit that any policy should pass, including your own.
//!
//! ```
//! use chanter::policy::{Policy, Ready, ReadyQueue, Reason};
//! use chanter_conformance::policy;
//! use std::sync::Mutex;
//!
//! #[derive(Default)]
//! struct Mine(Mutex<ReadyQueue>);
//!
//! impl Policy for Mine {
//!     fn enqueue(&self, thread: Ready, _why: Reason) -> Option<Ready> {
//!         self.0.lock().unwrap().push_back(thread);
//!         None
//!     }
//!     fn next(&self) -> Option<Ready> {
//!         self.0.lock().unwrap().pop_front()
//!     }
//! }
//!
//! // In a test:
//! policy::check(Mine::default);
//! ```
//!
//! The kit handles the policy as a virtual processor would, with threads of its own: first alone and in random order,
//! then with stealers, then on machines. It looks at the behaviour that can be seen from outside; [`Check`] lists it.
//! A policy that fails is reported with the check and the reason. The kit takes a second or two, and needs nothing
//! but a test.
//!
//! Faults that a policy cannot have are not checked. Threads are neither duplicated nor run twice by any policy,
//! since [`Ready`](chanter::policy::Ready) cannot be copied.

mod alone;
mod machines;

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use chanter::base::describe_panic;
use chanter::policy::Policy;

/// A check of the kit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Check {
    /// Each thread comes out again, and none is ended, over random sequences of `enqueue`, `next` and `give`, with
    /// every reason and any tag. `next` finds a thread as long as there is one.
    Keeps,
    /// `enqueue` returns every woken thread, if the policy [lets woken threads run](Policy::lets_woken_run).
    LetsWokenRun,
    /// `enqueue` keeps a thread that is [`Displaced`](chanter::policy::Reason::Displaced).
    Displaced,
    /// `drain` hands over everything, and an empty policy has nothing.
    Drains,
    /// `waiting` is a hint, but not a lie: waiting threads are given, nothing waits in an empty policy, and threads
    /// that may not move are kept.
    Waiting,
    /// No thread is passed over more often than the policy claims; see [`Kit::bypass`].
    Bypass,
    /// Nothing is lost while other OS threads steal.
    Thieves,
    /// A round of threads that is like the one before allocates nothing; see
    /// [`Kit::allocations`].
    Allocates,
    /// On a machine of two virtual processors, threads that talk, sleep, yield
    /// and compute end.
    Runs,
    /// The same threads end, too, beside threads that panic.
    Panics,
    /// If the policy gives away any thread that may move, an idle virtual processor takes threads of a busy one.
    NeedThread,
    /// Nothing is lost while the policy is replaced, by one of its kind and by others.
    Replaced,
    /// At its end, a machine ends all its threads, and gets them from the policy.
    Ends,
}

impl Check {
    const ALL: [Self; 13] = [
        Self::Keeps,
        Self::LetsWokenRun,
        Self::Displaced,
        Self::Drains,
        Self::Waiting,
        Self::Bypass,
        Self::Thieves,
        Self::Allocates,
        Self::Runs,
        Self::Panics,
        Self::NeedThread,
        Self::Replaced,
        Self::Ends,
    ];
}

/// The failure of a policy.
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

/// Runs the whole kit against policies made by `make`, one for each virtual
/// processor.
///
/// # Panics
/// If the policy fails; the message is the [`Violation`].
#[track_caller]
pub fn check<P: Policy>(make: impl Fn() -> P + Send + Sync + 'static) {
    if let Err(violation) = Kit::new(make).run() {
        panic!("the policy fails: {violation}");
    }
}

/// The policies of one machine: that of each virtual processor, by its index.
pub(super) type Family = Box<dyn Fn(usize) -> Box<dyn Policy> + Send + Sync>;

/// The kit, with settings for what [`check`] cannot know about a policy.
///
/// ```
/// use chanter::policy::{GlobalQueue, Policy};
/// use chanter_conformance::policy::Kit;
///
/// // One queue for each machine; in it nobody is passed over by more threads
/// // than wait already.
/// let queues = || {
///     let queue = GlobalQueue::new();
///     Box::new(move |_vp| Box::new(queue.member()) as Box<dyn Policy>) as Box<_>
/// };
/// Kit::of_families(queues).bypass(16).run().unwrap();
/// ```
pub struct Kit {
    families: Arc<dyn Fn() -> Family + Send + Sync>,
    seed: u64,
    bypass: Option<usize>,
    allocations: Option<fn() -> u64>,
    only: Vec<Check>,
}

impl Kit {
    /// Makes a kit for policies made by `make`, one for each virtual processor.
    pub fn new<P: Policy>(make: impl Fn() -> P + Send + Sync + 'static) -> Self {
        let make = Arc::new(make);
        Self::of_families(move || {
            let make = Arc::clone(&make);
            Box::new(move |_vp| Box::new(make()))
        })
    }

    /// Makes a kit for policies that share something among the virtual processors of a machine. `families` is called
    /// for each machine. Its result makes the policy of each virtual processor, by index, and later perhaps another
    /// one for it.
    pub fn of_families(
        families: impl Fn() -> Box<dyn Fn(usize) -> Box<dyn Policy> + Send + Sync> + Send + Sync + 'static,
    ) -> Self {
        Self {
            families: Arc::new(families),
            seed: 1,
            bypass: None,
            allocations: None,
            only: Check::ALL.to_vec(),
        }
    }

    /// Sets the seed of the random sequences.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Claims that a thread is not passed over for ever. The kit queues it once among 8 others that come back again
    /// and again, with more urgent ones among them. The thread must run before `times` turns of others have passed.
    /// Without a claim nothing is checked, since policies may let threads starve.
    pub fn bypass(mut self, times: usize) -> Self {
        self.bypass = Some(times);
        self
    }

    /// Sets the function that returns the number of allocations that the calling OS thread has made so far. A global
    /// allocator of the test counts them. Without it, allocations are not checked.
    pub fn allocations(mut self, count: fn() -> u64) -> Self {
        self.allocations = Some(count);
        self
    }

    /// Restricts the kit to these checks.
    pub fn only(mut self, checks: impl IntoIterator<Item = Check>) -> Self {
        self.only = checks.into_iter().collect();
        self
    }

    /// Runs the checks, in the order of [`Check`], up to the first that fails.
    ///
    /// A policy that panics fails. A failure may leave OS threads behind that wait for threads
    /// that are lost.
    ///
    /// # Errors
    /// The policy fails a check.
    ///
    /// # Panics
    /// If the OS refuses what a machine needs.
    pub fn run(&self) -> Result<(), Violation> {
        Check::ALL.into_iter().filter(|check| self.only.contains(check)).try_for_each(|check| {
            let violated = |what| Violation { check, what };
            let run = || self.run_one(check);
            let found =
                catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|payload| Err(describe_panic(payload)));
            found.map_err(violated)
        })
    }

    fn run_one(&self, check: Check) -> Result<(), String> {
        match check {
            Check::Keeps => alone::keeps(&self.family(), self.seed),
            Check::LetsWokenRun => alone::lets_woken_run(&self.family()),
            Check::Displaced => alone::displaced(&self.family()),
            Check::Drains => alone::drains(&self.family(), self.seed),
            Check::Waiting => alone::waiting(&self.family()),
            Check::Bypass => match self.bypass {
                Some(times) => alone::bypass(&self.family(), times),
                None => Ok(()),
            },
            Check::Thieves => alone::thieves(&self.family(), self.seed),
            Check::Allocates => match self.allocations {
                Some(count) => alone::allocates(&self.family(), count),
                None => Ok(()),
            },
            Check::Runs => machines::runs(self.family()),
            Check::Panics => machines::panics(self.family()),
            Check::NeedThread => machines::need_thread(&self.families),
            Check::Replaced => machines::replaced(self.family()),
            Check::Ends => machines::ends(self.family()),
        }
    }

    fn family(&self) -> Family {
        (self.families)()
    }
}

impl fmt::Debug for Kit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kit").field("seed", &self.seed).field("only", &self.only).finish_non_exhaustive()
    }
}
