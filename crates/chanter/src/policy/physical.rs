//! Physical policies decide which virtual processor runs next on an OS thread that several machines share.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::frame::catch_panic;

/// The quantum of a physical policy that says nothing else.
const QUANTUM: Duration = Duration::from_millis(1);
/// The shortest quantum, and the longest one.
const QUANTA: [Duration; 2] = [Duration::from_micros(10), Duration::from_millis(100)];

/// A policy that multiplexes virtual processors on one OS thread of [`Workers`](crate::topology::Workers).
///
/// Each OS thread has its own policy, which is called by that OS thread alone. No lock of the runtime is held
/// meanwhile. Calls must be short, since all virtual processors of the OS thread wait for them.
///
/// # What a wrong policy can do
///
/// It can starve processors and waste time. It loses no thread:
///
/// * **It panics.** The panic is reported, and the default takes its place: each processor in turn, for a millisecond.
/// * **It chooses a contender that is not there.** The one that has waited longest runs.
/// * **It never chooses a processor.** The threads of that processor wait. Its machine can still end, since a processor
///   that is about to leave runs without a choice.
/// * **It blocks, or does not return.** All processors of its OS thread wait for it.
///
/// ```
/// use chanter::prelude::*;
/// use chanter::topology::{Contender, Grant, PhysicalPolicy, Workers};
///
/// /// The machine "urgent" goes first.
/// struct Urgent;
///
/// impl PhysicalPolicy for Urgent {
///     fn next(&mut self, ready: &[Contender]) -> Grant {
///         Grant::to(ready.iter().position(|one| one.machine() == "urgent").unwrap_or(0))
///     }
/// }
///
/// let workers = Workers::builder().threads(1).policy(|_| Box::new(Urgent)).build()?;
/// let urgent = Machine::builder().name("urgent").vps(1).on(&workers).build()?;
/// let other = Machine::builder().vps(1).on(&workers).build()?;
/// let (first, second) = (urgent.spawn(async { 1 }), other.spawn(async { 2 }));
/// assert_eq!(first.join().sync_blocking().unwrap() + second.join().sync_blocking().unwrap(), 3);
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// STING, section 2.1: the physical policy manager of a physical processor.
pub trait PhysicalPolicy: Send + 'static {
    /// Says which virtual processor runs next, and for how long. `ready` holds those that have something to run, the
    /// one that has waited longest first. It is never empty.
    fn next(&mut self, ready: &[Contender]) -> Grant;

    /// Notes that `processor` has run for `time`, which may be shorter or longer than its quantum. It is shorter if
    /// nothing was left to run. It is longer if a turn did not end in time. The default does nothing.
    fn has_run(&mut self, processor: &Contender, time: Duration) {
        let _ = (processor, time);
    }
}

/// A virtual processor that a [`PhysicalPolicy`] may choose.
#[derive(Clone, Debug)]
pub struct Contender {
    pub(crate) id: u64,
    pub(crate) machine: Arc<str>,
    pub(crate) index: usize,
    pub(crate) used: Duration,
    pub(crate) waited: Duration,
}

impl Contender {
    /// The number of the virtual processor, among all those that have come to these workers. It stays the same until
    /// the processor leaves.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// The name of its machine ([`Builder::name`](crate::Builder::name)).
    pub fn machine(&self) -> &str {
        &self.machine
    }

    /// The index of the virtual processor in its machine.
    pub fn index(&self) -> usize {
        self.index
    }

    /// The time that the OS thread has given to it so far.
    pub fn used(&self) -> Duration {
        self.used
    }

    /// The time since it last ran here, or since it came.
    pub fn waited(&self) -> Duration {
        self.waited
    }
}

/// The answer of a [`PhysicalPolicy`]: which of the contenders runs next, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    contender: usize,
    quantum: Duration,
}

impl Grant {
    /// Grants a millisecond to the contender at this place of the list.
    pub fn to(contender: usize) -> Self {
        Self { contender, quantum: QUANTUM }
    }

    /// Changes the time: at least 10 microseconds, and at most 100 milliseconds. A turn that has begun ends at its
    /// next checkpoint, or by itself, or loses its OS thread
    /// ([`Builder::hand_off_after`](crate::Builder::hand_off_after)).
    #[must_use]
    pub fn quantum(self, quantum: Duration) -> Self {
        Self { quantum, ..self }
    }

    /// The time that is granted, within the bounds.
    pub(crate) fn time(self) -> Duration {
        self.quantum.clamp(QUANTA[0], QUANTA[1])
    }
}

/// Makes the policy of the OS thread with the given index.
pub(crate) type PhysicalMaker = Box<dyn Fn(usize) -> Box<dyn PhysicalPolicy>>;

/// A physical policy, and the default in its place once it has panicked.
pub(crate) struct Guarded(Option<Box<dyn PhysicalPolicy>>);

impl Guarded {
    pub(crate) fn new(policy: Option<Box<dyn PhysicalPolicy>>) -> Self {
        Self(policy)
    }

    /// Asks the policy. Returns a place of the list, and a quantum.
    pub(crate) fn next(&mut self, ready: &[Contender]) -> (usize, Duration) {
        let mut grant = Grant::to(0);
        self.call(|policy| grant = policy.next(ready));
        let contender = if grant.contender < ready.len() { grant.contender } else { 0 };
        (contender, grant.time())
    }

    pub(crate) fn has_run(&mut self, processor: &Contender, time: Duration) {
        self.call(|policy| policy.has_run(processor, time));
    }

    fn call(&mut self, f: impl FnOnce(&mut dyn PhysicalPolicy)) {
        let Some(policy) = &mut self.0 else { return };
        if let Err(payload) = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| f(&mut **policy))) {
            super::report(true, payload);
            self.end();
        }
    }

    /// Drops the policy: the default decides from now on.
    pub(crate) fn end(&mut self) {
        let policy = self.0.take();
        catch_panic(|| drop(policy));
    }
}

impl fmt::Debug for Guarded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Guarded").field(&self.0.is_some()).finish()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    struct Answers(Vec<Grant>);

    impl PhysicalPolicy for Answers {
        fn next(&mut self, _ready: &[Contender]) -> Grant {
            self.0.remove(0)
        }
    }

    fn contender(id: u64) -> Contender {
        Contender { id, machine: "one".into(), index: 0, used: Duration::ZERO, waited: Duration::ZERO }
    }

    #[test]
    fn nonsense_becomes_the_first_and_a_quantum_within_bounds() {
        let answers = vec![
            Grant::to(1),
            Grant::to(2).quantum(Duration::ZERO),
            Grant::to(usize::MAX).quantum(Duration::MAX),
        ];
        let mut policy = Guarded::new(Some(Box::new(Answers(answers))));
        let ready = [contender(1), contender(2)];
        assert_eq!(policy.next(&ready), (1, QUANTUM));
        assert_eq!(policy.next(&ready), (0, QUANTA[0]));
        assert_eq!(policy.next(&ready), (0, QUANTA[1]));
        // There is no fourth answer, so the policy panics: the default answers from then on.
        assert_eq!(policy.next(&ready), (0, QUANTUM));
        assert_eq!(policy.next(&ready), (0, QUANTUM));
    }
}
