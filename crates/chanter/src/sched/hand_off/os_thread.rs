//! Questions to the OS about a worker's OS thread: whether it computes, or waits for a core. The processor of one
//! that waits for a core is not handed off, since another OS thread would wait too.

#[cfg(all(target_os = "linux", not(miri)))]
mod os {
    use std::mem::MaybeUninit;
    use std::time::Duration;

    /// The number of this OS thread.
    pub(crate) fn own() -> i32 {
        // SAFETY: it only asks for a number.
        unsafe { libc::gettid() }
    }

    /// How long an OS thread of this process has had a core.
    pub(crate) fn used(thread: i32) -> Option<Duration> {
        // The parts of the clock that `pthread_getcpuclockid` gives for a thread: from <linux/posix-timers.h>.
        const PER_THREAD: libc::clockid_t = 4;
        const SCHEDULED: libc::clockid_t = 2;
        let clock = (!thread << 3) | PER_THREAD | SCHEDULED;
        let mut time = MaybeUninit::<libc::timespec>::uninit();
        // SAFETY: the place is large enough; a wrong number is an error.
        if unsafe { libc::clock_gettime(clock, time.as_mut_ptr()) } != 0 {
            return None;
        }
        // SAFETY: the call has succeeded.
        let time = unsafe { time.assume_init() };
        Some(Duration::new(u64::try_from(time.tv_sec).ok()?, u32::try_from(time.tv_nsec).ok()?))
    }

    /// Whether it has a core or waits for one: it is not blocked.
    pub(crate) fn is_runnable(thread: i32) -> bool {
        let stat = std::fs::read_to_string(format!("/proc/self/task/{thread}/stat")).unwrap_or_default();
        // The name, which may hold anything, ends with the last parenthesis.
        stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('R'))
    }
}

#[cfg(not(all(target_os = "linux", not(miri))))]
mod os {
    use std::time::Duration;

    pub(crate) fn own() -> i32 {
        0
    }

    pub(crate) fn used(_thread: i32) -> Option<Duration> {
        None
    }

    pub(crate) fn is_runnable(_thread: i32) -> bool {
        false
    }
}

pub(super) use os::{is_runnable, own, used};
