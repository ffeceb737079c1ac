//! Whether the operations on one key are linearizable. Then they have an order in which each read yields the value of
//! the write before it. The order agrees with that of operations that did not overlap.
//!
//! All values are different, so who reads a value has read of a known write, and Gibbons and Korach ("Testing shared memories", SIAM J.
//! Comput. 26(4), 1997, section 4) apply. A write and the reads of its value are a *cluster*: nothing else may come between
//! them. Let `first` be the earliest end of one of them, and `last` the latest begin. If `first < last`, the value
//! was there from `first` to `last` without a break (a forward zone). Otherwise all of them overlap, and the cluster
//! fits any one point from `last` to `first` (a backward zone). A history is linearizable under three conditions. No
//! read ends before its write begins. No two forward zones overlap. No backward zone lies within a forward one.
//!
//! A write whose end is unknown has none (it may happen at any time); if nobody has read its value, it need not have happened. The
//! value at the begin is written before everything else.

use std::collections::BTreeMap;

/// Effect of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Done {
    Wrote(u64),
    Read(Option<u64>),
}

#[derive(Clone, Copy, Debug)]
struct Operation {
    done: Done,
    from: u64,
    until: u64,
}

/// The operations on a key.
#[derive(Debug, Default)]
pub(crate) struct History(Vec<Operation>);

/// A write and the reads of its value.
#[derive(Debug)]
struct Cluster {
    /// When the write began, if there is one.
    written: Option<u64>,
    first: u64,
    last: u64,
    is_read: bool,
}

impl Cluster {
    fn zone(&self) -> (u64, u64) {
        (self.first.min(self.last), self.first.max(self.last))
    }

    fn is_forward(&self) -> bool {
        self.first < self.last
    }
}

impl History {
    /// An operation that was under way from one point to another one; `u64::MAX`: it may happen still.
    pub(crate) fn note(&mut self, done: Done, from: u64, until: u64) {
        self.0.push(Operation { done, from, until });
    }

    pub(crate) fn check(&self) -> Result<(), String> {
        let mut clusters: BTreeMap<Option<u64>, Cluster> = BTreeMap::new();
        let nothing = Cluster { written: Some(0), first: 0, last: 0, is_read: true };
        clusters.insert(None, nothing);
        for operation in &self.0 {
            // The begin is before all.
            let (from, until) = (operation.from.saturating_add(1), operation.until.saturating_add(1));
            let (value, is_read) = match operation.done {
                Done::Wrote(value) => (Some(value), false),
                Done::Read(value) => (value, true),
            };
            let empty = Cluster { written: None, first: u64::MAX, last: 0, is_read: false };
            let cluster = clusters.entry(value).or_insert(empty);
            if !is_read && cluster.written.replace(from).is_some() {
                return Err(format!("{value:?} was written twice"));
            }
            cluster.first = cluster.first.min(until);
            cluster.last = cluster.last.max(from);
            cluster.is_read |= is_read;
        }
        // It has not ended, and nobody has seen it.
        clusters.retain(|_, cluster| cluster.is_read || cluster.first < u64::MAX);
        for (value, cluster) in &clusters {
            let Some(written) = cluster.written else {
                return Err(format!("{value:?} was read, and never written"));
            };
            if cluster.first < written {
                return Err(format!("{value:?} was read before it was written"));
            }
        }
        let (forward, backward): (Vec<_>, Vec<_>) =
            clusters.iter().partition(|(_, cluster)| cluster.is_forward());
        let mut forward: Vec<_> =
            forward.into_iter().map(|(value, cluster)| (cluster.zone(), value)).collect();
        forward.sort_unstable();
        for pair in forward.windows(2) {
            let [((_, end), one), ((begin, _), other)] = [pair[0], pair[1]];
            if begin < end {
                return Err(format!("{one:?} and {other:?} were there at the same time"));
            }
        }
        for (value, cluster) in backward {
            let (begin, end) = cluster.zone();
            // The last one that begins before it; the ones before that have ended.
            let around = forward.partition_point(|((from, _), _)| *from < begin);
            if let Some(((_, until), other)) = around.checked_sub(1).map(|at| forward[at])
                && end < until
            {
                return Err(format!("{value:?} came while {other:?} was there"));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All orders are tried.
    fn is_linearizable(operations: &[Operation], value: Option<u64>) -> bool {
        let is_left_out = |o: &Operation| o.until == u64::MAX;
        if operations.iter().all(is_left_out) {
            return true;
        }
        (0..operations.len()).any(|at| {
            let next = operations[at];
            let mut rest = operations.to_vec();
            rest.remove(at);
            let is_first = rest.iter().all(|other| other.until > next.from);
            let after = match next.done {
                Done::Wrote(value) => Some(Some(value)),
                Done::Read(read) => (read == value).then_some(value),
            };
            is_first && after.is_some_and(|value| is_linearizable(&rest, value))
        })
    }

    #[test]
    fn the_zones_say_what_all_orders_say() {
        let mut random = fastrand::Rng::with_seed(1);
        let mut found = [0, 0];
        for _ in 0..30_000 {
            let count = random.usize(1..7);
            let mut times: Vec<u64> = (0..2 * count as u64).collect();
            random.shuffle(&mut times);
            let mut history = History::default();
            let writes = random.u64(0..=count as u64);
            for at in 0..count {
                let (a, b) = (times[2 * at], times[2 * at + 1]);
                let done = if (at as u64) < writes {
                    Done::Wrote(at as u64 + 1)
                } else {
                    Done::Read(random.bool().then(|| random.u64(1..=writes + 1)))
                };
                let is_unknown = (at as u64) < writes && random.u8(..4) == 0;
                history.note(done, a.min(b), if is_unknown { u64::MAX } else { a.max(b) });
            }
            let expected = is_linearizable(&history.0, None);
            assert_eq!(history.check().is_ok(), expected, "{history:?}");
            found[usize::from(expected)] += 1;
        }
        assert!(found.iter().all(|count| *count > 3000), "{found:?}");
    }
}
