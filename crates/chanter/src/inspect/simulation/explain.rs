//! Finds the threads that could have helped, when nothing can run any more.
//!
//! Nobody records which thread holds which handle. So the threads that block are ended, one by one. A handle that is
//! let go meanwhile belonged to that thread.

use super::Simulated;
use crate::frame::report::{Gauge, Holder, Probe, Resource};
use crate::inspect::deadlock::Deadlock;
use crate::inspect::observe::Probes;
use crate::sched::{self, Worker};

impl Worker {
    /// Explains which thread waits on what. With `holders`, it ends the threads one by one to see what each of them
    /// holds.
    pub(super) fn explain(&self, simulated: &Simulated, holders: bool) -> Deadlock {
        let snapshot = self.snapshot(false);
        if !holders {
            return simulated.report(snapshot.threads, &snapshot.holders);
        }
        // Operations that destructors begin do not matter any more.
        simulated.ended.set(true);
        let watched = Watched::new(snapshot.probes);
        // All tokens are taken before the first thread ends, since a handle that it lets go would wake others.
        // SAFETY: the memory of frames stays while the machine lives.
        let claim = |(thread, frame)| unsafe { sched::claim(frame, true) }.map(|token| (thread, token));
        let tokens: Vec<_> = snapshot.blocked.into_iter().filter_map(claim).collect();
        let mut found = Vec::new();
        // The youngest thread ends first, since a thread that lends to others, in a scope, waits for their end.
        for (thread, token) in tokens.into_iter().rev() {
            let before = watched.levels();
            sched::cancel(token);
            found.extend(watched.freed_since(&before).map(|resource| Holder { resource, thread }));
        }
        simulated.report(snapshot.threads, &found)
    }
}

/// The channels and locks that threads wait on, kept while the threads end.
struct Watched {
    channels: Vec<Probe>,
    locks: Vec<(usize, Box<dyn Gauge>)>,
}

/// The numbers of shares of senders and receivers of each channel, and of free permits of each lock.
struct Levels {
    channels: Vec<[u64; 2]>,
    locks: Vec<usize>,
}

impl Watched {
    fn new(probes: Probes) -> Self {
        // SAFETY: the threads that wait there have not gone on, and each has a share.
        probes.channels.iter().for_each(|probe| unsafe { (probe.retain)(probe.channel) });
        let locks = probes.locks.into_iter().map(|probe| (probe.lock, probe.line.gauge())).collect();
        Self { channels: probes.channels, locks }
    }

    fn levels(&self) -> Levels {
        // SAFETY: `new` took a share of each channel.
        let shares = |probe: &Probe| unsafe { (probe.shares)(probe.channel) };
        Levels {
            channels: self.channels.iter().map(shares).collect(),
            locks: self.locks.iter().map(|(_, gauge)| gauge.free()).collect(),
        }
    }

    /// The resources that were let go since.
    fn freed_since(&self, before: &Levels) -> impl Iterator<Item = Resource> {
        let now = self.levels();
        let mut freed = Vec::new();
        for (index, probe) in self.channels.iter().enumerate() {
            for (side, sends) in [(0, true), (1, false)] {
                if now.channels[index][side] < before.channels[index][side] {
                    freed.push(Resource::end(probe.channel.as_ptr() as usize, sends));
                }
            }
        }
        for (index, (lock, _)) in self.locks.iter().enumerate() {
            if now.locks[index] > before.locks[index] {
                freed.push(Resource::Lock(*lock));
            }
        }
        freed.into_iter()
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        // SAFETY: `new` took the shares, which are released once, here.
        self.channels.iter().for_each(|probe| unsafe { (probe.release)(probe.channel) });
    }
}
