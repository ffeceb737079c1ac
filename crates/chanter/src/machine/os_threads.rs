//! How many OS threads the process has.

/// How many OS threads the process has; without its first one, if that belongs
/// to a test harness and is not this one.
#[cfg(all(target_os = "linux", not(miri)))]
pub(crate) fn os_threads(is_in_test: bool) -> Option<usize> {
    let threads = std::fs::read_dir("/proc/self/task").ok()?.count();
    // SAFETY: both only ask for numbers.
    let is_first = unsafe { libc::gettid() == libc::getpid() };
    Some(threads - usize::from(is_in_test && !is_first))
}

#[cfg(not(all(target_os = "linux", not(miri))))]
pub(super) fn os_threads(_is_in_test: bool) -> Option<usize> {
    None
}
