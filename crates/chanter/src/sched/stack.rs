//! How much of the OS thread's stack is left.

/// An address in the present stack frame: good enough to compare with a limit. (Miri's stacks
/// have no order, and no end: everything is at one place.)
#[inline(always)]
pub(crate) fn pointer() -> usize {
    if cfg!(miri) {
        return isize::MAX as usize;
    }
    let here = std::mem::MaybeUninit::<u8>::uninit();
    (&raw const here) as usize
}

/// The lowest address that this OS thread's stack may reach, when known.
#[cfg(all(target_os = "linux", not(miri)))]
fn lowest() -> Option<usize> {
    let mut lowest = std::ptr::null_mut();
    let mut size = 0;
    // SAFETY: the attributes are initialized by `pthread_getattr_np` before
    // they are read, and destroyed once.
    unsafe {
        let mut attributes = std::mem::zeroed::<libc::pthread_attr_t>();
        if libc::pthread_getattr_np(libc::pthread_self(), &raw mut attributes) != 0 {
            return None;
        }
        let found = libc::pthread_attr_getstack(&raw const attributes, &raw mut lowest, &raw mut size);
        libc::pthread_attr_destroy(&raw mut attributes);
        (found == 0).then_some(lowest as usize)
    }
}

#[cfg(all(target_os = "macos", not(miri)))]
fn lowest() -> Option<usize> {
    // SAFETY: both functions only read the calling thread's description.
    unsafe {
        let this = libc::pthread_self();
        let top = libc::pthread_get_stackaddr_np(this) as usize;
        top.checked_sub(libc::pthread_get_stacksize_np(this))
    }
}

#[cfg(not(all(any(target_os = "linux", target_os = "macos"), not(miri))))]
fn lowest() -> Option<usize> {
    None
}

/// The address below which nothing more may be nested on this stack: a
/// quarter of what is left stays for the threads themselves.
pub(crate) fn limit() -> usize {
    const UNKNOWN: usize = 256 * 1024;
    thread_local! {
        // The OS may have to read a file to know it.
        static LOWEST: Option<usize> = lowest();
    }
    let here = pointer();
    let left = LOWEST.with(|lowest| *lowest).map_or(UNKNOWN, |lowest| here.saturating_sub(lowest));
    here - left / 4 * 3
}
