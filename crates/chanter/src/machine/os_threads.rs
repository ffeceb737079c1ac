//! The number of OS threads of the process.

/// The number of OS threads of the process. With `is_in_test` the first one is left out if it is not the calling one,
/// since it belongs to a test harness.
#[cfg(all(target_os = "linux", not(miri)))]
pub(crate) fn os_threads(is_in_test: bool) -> Option<usize> {
    let threads = std::fs::read_dir("/proc/self/task").ok()?.count();
    // SAFETY: both calls only ask for numbers.
    let is_first = unsafe { libc::gettid() == libc::getpid() };
    Some(threads - usize::from(is_in_test && !is_first))
}

#[cfg(not(all(target_os = "linux", not(miri))))]
pub(crate) fn os_threads(_is_in_test: bool) -> Option<usize> {
    None
}
