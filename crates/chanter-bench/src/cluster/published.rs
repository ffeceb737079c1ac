//! The paper's figures: Chant (Haines, Cronk, Mehrotra), on an Intel Paragon with NX.

/// A row of table 2: microseconds for a message, half a round trip.
pub(super) struct Table2 {
    pub(super) bytes: usize,
    /// The communication library alone.
    pub(super) process: f64,
    pub(super) thread_polls: f64,
    pub(super) scheduler_polls: f64,
}

const fn row(bytes: usize, process: f64, thread_polls: f64, scheduler_polls: f64) -> Table2 {
    Table2 { bytes, process, thread_polls, scheduler_polls }
}

pub(super) const TABLE_2: [Table2; 5] = [
    row(1024, 667.1, 710.8, 773.7),
    row(2048, 917.0, 973.2, 1126.5),
    row(4096, 1639.3, 1701.2, 1828.8),
    row(8192, 2873.5, 2998.8, 3130.8),
    row(16384, 5531.8, 5624.8, 5689.0),
];

impl Table2 {
    /// Per cent over the library alone.
    pub(super) fn overheads(&self) -> [f64; 2] {
        [self.thread_polls, self.scheduler_polls].map(|time| (time / self.process - 1.0) * 100.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the paper itself prints beside the times.
    #[test]
    fn the_overheads_are_those_that_the_paper_prints() {
        let printed = [(6.4, 15.9), (6.1, 22.8), (3.8, 11.5), (4.3, 8.9), (1.7, 2.9)];
        for (row, (threads, scheduler)) in TABLE_2.iter().zip(printed) {
            let [got_threads, got_scheduler] = row.overheads();
            assert!((got_threads - threads).abs() < 0.3, "{}: {got_threads}", row.bytes);
            assert!((got_scheduler - scheduler).abs() < 0.3, "{}: {got_scheduler}", row.bytes);
        }
    }
}
