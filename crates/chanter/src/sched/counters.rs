//! Counters that cost next to nothing: each virtual processor has its own,
//! written by its worker with plain stores.

use std::time::Duration;

use crate::frame::Arena;
use crate::sync::counter::Counter;

/// Counters of a virtual processor.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    /// Hosts spawned, except those that were created delayed.
    pub(crate) hosts: Counter,
    /// Parasites, where they are not counted elsewhere.
    pub(crate) parasites: Counter,
    pub(crate) queued: Counter,
    /// Turns of tokens that were dead, so that no thread was polled.
    pub(crate) stale: Counter,
    pub(crate) promoted: Counter,
    pub(crate) reified: Counter,
    pub(crate) reified_bytes: Counter,
    pub(crate) asends: Asends,
    pub(crate) attached: Counter,
    pub(crate) inflated: Counter,
    pub(crate) migrated: Counter,
    pub(crate) delayed: Counter,
    pub(crate) stolen: Counter,
    pub(crate) shared: Counter,
    /// Turns that no processor counts: those of threads that are bound to a spare worker, and of simulations.
    pub(crate) polls: Counter,
    pub(crate) sleeps: Counter,
    pub(crate) fibers: Counter,
    pub(crate) stacks: StackCounters,
    pub(crate) revoked_threads: Counter,
}

/// Counters of the places that the stacks of fibers come from.
#[derive(Debug, Default)]
pub(crate) struct StackCounters {
    pub(crate) allocated: Counter,
    pub(crate) pooled: Counter,
    pub(crate) recycled: Counter,
}

/// Counters of asynchronous sends.
#[derive(Debug, Default)]
pub(crate) struct Asends {
    pub(crate) left: Counter,
    pub(crate) offered: Counter,
}

/// Counts of the events on a machine (or on one virtual processor) so far.
///
/// If the machine runs while they are read, the numbers may be a moment apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Hosts spawned.
    pub hosts_created: u64,
    /// Parasites spawned. An asynchronous send ([`asend`](crate::Sender::asend)) is none: see [`left`](Self::left) and
    /// [`offered`](Self::offered).
    pub parasites_created: u64,
    /// Parasites that ran to their end where they were spawned.
    pub finished_in_place: u64,
    /// Parasites that blocked, and so are kept in their frames.
    pub reified: u64,
    /// Bytes of the bodies of reified parasites, beside their headers: divided by [`reified`](Self::reified), the
    /// size of a parasite while it blocks. (A body that is too large for a frame counts as a pointer.)
    pub reified_bytes: u64,
    /// Asynchronous sends whose message was left in its channel: they took no frame.
    pub left: u64,
    /// Asynchronous sends that took a frame, for their offer.
    pub offered: u64,
    /// Number of times that a reified parasite was resumed on the stack of the thread that unblocked it.
    pub attached: u64,
    /// Parasites that became hosts.
    pub inflated: u64,
    /// Parasites that were spawned as hosts, for a searching virtual processor or because of a penalty count.
    pub promoted: u64,
    /// Parasites that were queued at their spawn, because the stack was nearly
    /// used up. Once all is quiet, every parasite created has finished in
    /// place, or was reified, promoted or queued.
    pub queued: u64,
    /// Number of times that a thread went on, on another virtual processor than before.
    pub migrated: u64,
    /// Hosts that were created delayed. They count in [`hosts_created`](Self::hosts_created), too.
    pub delayed: u64,
    /// Threads that were run on the stack of the thread that demanded their value.
    pub stolen: u64,
    /// Second halves of a [`fork_join`](crate::fork_join) that were given away, and so became hosts.
    pub shared: u64,
    /// Threads taken from queues and polled.
    pub dispatched: u64,
    /// Number of times that a virtual processor went to sleep.
    pub sleeps: u64,
    /// Fibers spawned; they are hosts too.
    pub fibers_created: u64,
    /// Stacks that fibers got from the OS, with their first turn.
    pub stacks_allocated: u64,
    /// Stacks that fibers got from others that had ended.
    pub stacks_reused: u64,
    /// Those of them that a fiber got from the fiber that had just ended on the same virtual processor: no other fiber
    /// began or ended there in between. The rest of [`stacks_reused`](Self::stacks_reused) lay in the pool for longer.
    pub stacks_recycled: u64,
    /// Frames made of new memory, a few at a time. At most 16 of them, for each size of frame and virtual processor,
    /// have not been used for a thread yet.
    pub frames_created: u64,
    /// Frames that are back in the cache of the virtual processor that made them, after their threads died on others.
    /// A frame that leaves again and comes back counts again.
    pub frames_returned: u64,
    /// Threads that took a frame which another thread had left in the cache. All other threads took a frame that is
    /// counted above.
    pub frames_reused: u64,
    /// Policies that panicked, and were replaced by the built-in one: see [`Policy`](crate::policy::Policy).
    pub policies_failed: u64,
    /// Threads that had to end while their tokens were kept elsewhere: mostly by a policy that did not return them.
    pub tokens_kept: u64,
    /// Bytes of the bodies of hosts, beside their headers, on a machine that keeps a
    /// [genealogy](crate::Builder::genealogy): divided by [`hosts_created`](Self::hosts_created), they are what a
    /// host takes. On other machines it is 0.
    pub host_bytes: u64,
    /// Number of times that a virtual processor was handed off to a spare worker, because its worker stayed in one
    /// turn for longer than a quantum ([`Builder::hand_off_after`](crate::Builder::hand_off_after)).
    pub hand_offs: u64,
    /// Total time for which spare workers owned virtual processors, ongoing hand-offs included.
    pub handed_over: Duration,
}

impl Stats {
    pub(crate) fn add(&mut self, counters: &Counters, parasites: u64) {
        self.hosts_created += counters.hosts.get() + counters.delayed.get();
        self.parasites_created += parasites;
        self.reified += counters.reified.get();
        self.reified_bytes += counters.reified_bytes.get();
        self.left += counters.asends.left.get();
        self.offered += counters.asends.offered.get();
        self.attached += counters.attached.get();
        self.inflated += counters.inflated.get();
        self.promoted += counters.promoted.get();
        self.queued += counters.queued.get();
        self.migrated += counters.migrated.get();
        self.delayed += counters.delayed.get();
        self.stolen += counters.stolen.get();
        self.shared += counters.shared.get();
        self.dispatched += counters.polls.get();
        self.sleeps += counters.sleeps.get();
        self.fibers_created += counters.fibers.get();
        self.stacks_allocated += counters.stacks.allocated.get();
        self.stacks_reused += counters.stacks.pooled.get() + counters.stacks.recycled.get();
        self.stacks_recycled += counters.stacks.recycled.get();
        self.tokens_kept += counters.revoked_threads.get();
        // Derived: the fast path counts one thing only.
        let elsewhere = counters.reified.get() + counters.promoted.get() + counters.queued.get();
        self.finished_in_place += parasites.saturating_sub(elsewhere);
    }

    /// After [`add`](Self::add): each thread and each offer that was left has taken a frame, and only the rare ways by
    /// which frames come into a cache count.
    pub(crate) fn add_frames(&mut self, arena: &Arena) {
        self.frames_created += arena.allocated.get();
        self.frames_returned += arena.returned.get();
        let frames = self.hosts_created + self.parasites_created + self.offered;
        self.frames_reused = frames.saturating_sub(self.frames_created + self.frames_returned);
    }
}
