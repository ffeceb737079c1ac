//! The paper's figures: STING (PLDI 1992), figure 7, on a machine of eight MIPS R3000.

/// The paper's columns.
pub(super) const VPS: [usize; 4] = [1, 2, 4, 8];

/// One program of the figure; a number for each of [`VPS`].
pub(super) struct Paper {
    pub(super) program: &'static str,
    /// The same program with the paper's work for each thread.
    pub(super) grain: Option<&'static str>,
    pub(super) seconds: [f64; 4],
    pub(super) threads: u32,
    pub(super) stolen: [u32; 4],
    pub(super) created: [u32; 4],
    pub(super) allocated: [u32; 4],
    pub(super) reused: [u32; 4],
}

impl Paper {
    /// The names under which it is measured.
    pub(super) fn names(&self) -> impl Iterator<Item = &'static str> + use<> {
        std::iter::once(self.program).chain(self.grain)
    }
}

pub(super) const FIGURE: [Paper; 4] = [
    Paper {
        program: "matrix-elements",
        grain: Some("matrix-elements-grain"),
        seconds: [3.32, 1.66, 0.94, 0.51],
        threads: 2501,
        stolen: [0, 0, 0, 0],
        created: [1, 2, 4, 8],
        allocated: [1, 536, 1375, 2052],
        reused: [2502, 1968, 1131, 457],
    },
    Paper {
        program: "primes",
        grain: Some("primes-grain"),
        seconds: [1.84, 0.96, 0.63, 0.28],
        threads: 1501,
        stolen: [1499, 19, 1, 0],
        created: [1, 2, 4, 8],
        allocated: [1, 305, 737, 1120],
        reused: [3, 1180, 768, 381],
    },
    Paper {
        program: "random-tree",
        grain: Some("random-tree-grain"),
        seconds: [0.91, 0.52, 0.23, 0.17],
        threads: 581,
        stolen: [580, 579, 539, 502],
        created: [1, 2, 13, 20],
        allocated: [1, 2, 13, 18],
        reused: [1, 3, 21, 40],
    },
    Paper {
        program: "boyer",
        grain: Some("boyer-grain"),
        seconds: [0.3, 0.18, 0.08, 0.042],
        threads: 32,
        stolen: [13, 8, 1, 1],
        created: [1, 2, 4, 8],
        allocated: [1, 2, 7, 10],
        reused: [20, 25, 29, 30],
    },
];
