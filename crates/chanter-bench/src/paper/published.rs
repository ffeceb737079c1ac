//! Figures of the papers, typed in from them.

/// A row of table 2 of Featherweight Threads: "thread and communication statistics for stop-the-world GC", as its
/// section 6.2 explains them. `None` where the paper has none.
pub(super) struct Row {
    pub(super) program: &'static str,
    /// Hosts of the parasitic version, and of the one without parasites.
    pub(super) hosts: u64,
    pub(super) hosts_without: Option<u64>,
    pub(super) parasites: u64,
    pub(super) communications: u64,
    /// Average sizes of stacks, in bytes.
    pub(super) host_stack: u64,
    pub(super) parasite_stack: Option<u64>,
    /// Number of times that a parasite was larger than the reserve of its host's stack.
    pub(super) growths: u64,
    /// Average size of a parasite's stack, including the data that it refers to.
    pub(super) closure: Option<u64>,
}

const fn row(
    program: &'static str,
    (hosts, hosts_without, parasites): (u64, Option<u64>, u64),
    communications: u64,
    (host_stack, parasite_stack): (u64, Option<u64>),
    (growths, closure): (u64, Option<u64>),
) -> Row {
    Row {
        program,
        hosts,
        hosts_without,
        parasites,
        communications,
        host_stack,
        parasite_stack,
        growths,
        closure,
    }
}

pub(super) const TABLE_2: [Row; 12] = [
    row("mandelbrot", (4_083, Some(6_161), 3_306), 4_083, (3_463, Some(155)), (1, Some(328))),
    row("k-clustering", (771, Some(1_098), 51_402), 51_402, (1_804, Some(136)), (0, Some(240))),
    row("barnes-hut", (8_327, Some(8_327), 24_981), 8_075, (1_782, Some(140)), (1, Some(288))),
    row("count-graphs", (153, Some(153), 148), 516, (3_982, Some(148)), (0, Some(278))),
    row("mergesort", (300, Some(200_260), 2_894_734), 2_698_766, (1_520, Some(184)), (0, Some(290))),
    row("tsp", (2_074, Some(4_122), 6_143), 4_095, (1_304, Some(303)), (1, Some(528))),
    row("ray-tracer", (580, Some(590), 24), 256, (4_997, None), (0, None)),
    row("matrix-rows", (528, Some(528), 512_017), 251_001, (2_082, Some(120)), (0, Some(238))),
    row("sieve", (10_411, Some(12_487), 4_872_669), 4_946_374, (1_738, Some(139)), (0, Some(243))),
    row("par-tak", (122_960, Some(297_338), 175_423), 297_361, (1_120, Some(178)), (0, Some(371))),
    row("par-fib", (1, None, 466_253), 635_621, (1_402, Some(302)), (45_087, Some(463))),
    row("swerve", (83_853, Some(110_534), 195_534), 367_529, (2_692, Some(160)), (2, Some(405))),
];

/// The mean of its column "Avg par. stack size".
pub(super) const MEAN_PARASITE_STACK: f64 = 179.0;

/// Table 1 of Featherweight Threads: the time of each configuration divided by that of `sendEvt`.
pub(super) const TABLE_1: [(&str, f64); 3] =
    [("sendEvt", 1.0), ("aSendEvt on hosts", 4.96), ("parasites, as in the paper", 1.05)];

/// Section 5.4, of figure 10: "parasitic threads perform 2X faster than the host thread implementation on 2 cores".
pub(super) const CHOOSE_ALL: f64 = 2.0;

/// Figure 16 and section 10.2 of Parallel CML: operations a second of Manticore on one and on two processors.
pub(super) const FIGURE_16: [(&str, f64, f64); 3] = [
    ("figure-16-spawn", 1_235_000.0, 330_300.0),
    ("figure-16-ping-pong", 697_800.0, 271_400.0),
    ("figure-16-parallel", 724_000.0, 412_000.0),
];

/// A program's speed-up as a paper gives it, in words or numbers. Figure 11 of Featherweight Threads is a picture.
pub(super) fn speed_up(program: &str) -> &'static str {
    match program {
        "par-fib" => "without parasites it ran out of memory; with them it scales",
        "sieve-2000" => "Manticore: 2P / 1P 0.91, 4P / 1P 1.91",
        "sieve" | "mandelbrot" | "k-clustering" | "barnes-hut" | "count-graphs" | "mergesort" | "tsp"
        | "ray-tracer" | "matrix-rows" | "par-tak" => "parasites in general ahead (a picture)",
        _ => "",
    }
}
