//! The resident memory of the process.

/// Resident memory in bytes.
pub(crate) fn resident() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: usize = statm.split(' ').nth(1).unwrap().parse().unwrap();
    pages * 4096
}

/// Runs `step` `count` times; after a first tenth, memory stays as it is.
#[track_caller]
pub(crate) fn flat(count: usize, mut step: impl FnMut()) {
    (0..count / 10).for_each(|_| step());
    let before = resident();
    (0..count).for_each(|_| step());
    let after = resident();
    // A few bytes for each would be seen.
    let grown = after.saturating_sub(before);
    assert!(grown < 512 * 1024, "{count} steps left {grown} bytes");
}
