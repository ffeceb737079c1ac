//! The papers' figures: Chant (Haines, Cronk, Mehrotra), on an Intel Paragon with NX, and Concert (Karamcheti, Plevyak,
//! Chien), on a Cray T3D.

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

/// A row of tables 3 to 5: milliseconds, context switches, and tests. Figures that cannot be read in the known copies are
/// left out.
#[derive(Clone, Copy)]
pub(super) struct Exercise {
    pub(super) thread_polls: [Option<f64>; 3],
    pub(super) partial_switch: [Option<f64>; 3],
    pub(super) waiting_queue: [Option<f64>; 3],
}

/// The figures of an exercise. 0 stands for a figure that cannot be read.
const fn exercise(thread_polls: [f64; 3], partial_switch: [f64; 3], waiting_queue: [f64; 3]) -> Exercise {
    const fn read(value: f64) -> Option<f64> {
        if value > 0.0 { Some(value) } else { None }
    }
    const fn all([ms, switches, tests]: [f64; 3]) -> [Option<f64>; 3] {
        [read(ms), read(switches), read(tests)]
    }
    Exercise {
        thread_polls: all(thread_polls),
        partial_switch: all(partial_switch),
        waiting_queue: all(waiting_queue),
    }
}

/// The tables' numbers, their beta, and a row for each alpha: 100, 1000, 10000, 100000.
pub(super) const TABLES_3_TO_5: [(u32, u32, [Exercise; 4]); 3] = [
    (
        3,
        100,
        [
            exercise([0.0, 6655.0, 2662.0], [2413.0, 5580.0, 2011.0], [5950.0, 5488.0, 0.0]),
            exercise([0.0, 6655.0, 2693.0], [2515.0, 5630.0, 2010.0], [6090.0, 5489.0, 0.0]),
            exercise([0.0, 7029.0, 3057.0], [3660.0, 5579.0, 2535.0], [6123.0, 5509.0, 0.0]),
            exercise([7260.0, 7977.0, 3975.0], [6815.0, 5649.0, 3723.0], [9990.0, 5534.0, 0.0]),
        ],
    ),
    (
        4,
        1000,
        [
            exercise([6765.0, 6945.0, 2909.0], [6480.0, 5514.0, 2415.0], [0.0, 5485.0, 12323.0]),
            exercise([0.0, 6888.0, 2837.0], [6660.0, 5523.0, 2564.0], [0.0, 5508.0, 13496.0]),
            exercise([8000.0, 6950.0, 2887.0], [7670.0, 5530.0, 2311.0], [0.0, 5512.0, 12676.0]),
            exercise([10980.0, 7246.0, 3239.0], [10560.0, 5537.0, 2532.0], [14100.0, 5532.0, 12405.0]),
        ],
    ),
    (
        5,
        0,
        [
            exercise([3290.0, 5792.0, 3578.0], [2715.0, 3628.0, 3514.0], [4940.0, 3130.0, 0.0]),
            exercise([3460.0, 5864.0, 4646.0], [2725.0, 3622.0, 3550.0], [5120.0, 3174.0, 0.0]),
            exercise([4570.0, 6100.0, 4887.0], [3980.0, 3608.0, 4335.0], [6080.0, 0.0, 10310.0]),
            exercise([7805.0, 7206.0, 5977.0], [7343.0, 3630.0, 6631.0], [9263.0, 3144.0, 13024.0]),
        ],
    ),
];

/// Concert's table 5: microseconds for a message of 16, 64, 256 and 1024 bytes.
pub(super) const TABLE_5: [([&str; 2], [f64; 4]); 4] = [
    (["the paper: pull", "its sender"], [1.49, 1.67, 2.49, 6.31]),
    (["the paper: pull", "its receiver"], [1.30, 2.46, 9.53, 30.18]),
    (["the paper: push", "its sender"], [1.84, 2.03, 3.53, 14.65]),
    (["the paper: push", "its receiver"], [0.73, 0.73, 0.73, 0.73]),
];

#[cfg(test)]
mod tests {
    use super::*;

    /// Other figures that the paper prints beside the times.
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
