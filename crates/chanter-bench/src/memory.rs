//! Resident memory of this process.

use std::time::Duration;

use super::case::{Failure, Sample};

/// Bytes of this process that are in memory now.
pub(crate) fn resident() -> Result<u64, Failure> {
    let broken = |what: String| Failure::Broken(format!("/proc/self/statm: {what}"));
    let statm = std::fs::read_to_string("/proc/self/statm").map_err(|e| broken(e.to_string()))?;
    let pages: u64 = statm
        .split_whitespace()
        .nth(1)
        .and_then(|field| field.parse().ok())
        .ok_or_else(|| broken(format!("no resident pages in `{}`", statm.trim())))?;
    let page = nix::unistd::sysconf(nix::unistd::SysconfVar::PAGE_SIZE)
        .ok()
        .flatten()
        .ok_or_else(|| broken("the page size is unknown".to_owned()))?;
    Ok(pages * page as u64)
}

/// The sample of `n` blocked threads: an operation is a thread created and woken.
pub(crate) fn per_thread(n: u64, before: u64, after: u64, created: Duration, woken: Duration) -> Sample {
    let each = |time: Duration| time.as_nanos() as f64 / n as f64;
    Sample::new(n, created + woken)
        .with("create_ns", each(created))
        .with("wake_ns", each(woken))
        .with_bytes(after.saturating_sub(before) as f64 / n as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resident_memory_grows_with_touched_pages() {
        // Other tests of this process give memory back meanwhile; not as much each time.
        let grows = (0..10).any(|_| {
            let before = resident().unwrap_or_else(|f| panic!("{f}"));
            let touched = vec![1_u8; 64 << 20];
            let after = resident().unwrap_or_else(|f| panic!("{f}"));
            assert_eq!(touched.iter().map(|&b| u64::from(b)).sum::<u64>(), 64 << 20);
            after >= before + (60 << 20)
        });
        assert!(grows);
    }
}
