//! An asymmetric pair of fences: the light side costs nothing, the heavy side
//! runs a full barrier on every OS thread of the process.
//!
//! Linux has it as `membarrier`, which Miri does not know. Under loom both are real fences: the protocol
//! is then checked as if they were symmetric, which is what the pair promises.

/// The frequent side: keeps the compiler from moving accesses across.
#[inline(always)]
pub(crate) fn light() {
    #[cfg(loom)]
    super::full_fence(super::order::owner_light());
    #[cfg(not(loom))]
    std::sync::atomic::compiler_fence(std::sync::atomic::Ordering::SeqCst);
}

/// The rare side.
#[cold]
pub(crate) fn heavy() {
    #[cfg(loom)]
    super::full_fence(super::order::owner_heavy());
    #[cfg(not(loom))]
    {
        std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
        imp::barrier();
    }
}

/// Whether the heavy side works here. To find out may take the kernel 20 ms, once.
pub(crate) fn is_available() -> bool {
    // Models bias their locks by hand.
    !cfg!(loom) && known::wait()
}

/// The caller will ask [`is_available`], or start an OS thread that does: nobody else need find out.
pub(crate) fn will_be_known() {
    known::claim();
}

/// Whether the heavy side works here; `None` while another OS thread finds out.
pub(crate) fn is_available_yet() -> Option<bool> {
    if cfg!(loom) { Some(false) } else { known::look() }
}

mod known {
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicBool, Ordering};

    static KNOWN: OnceLock<bool> = OnceLock::new();
    static IS_ASKED: AtomicBool = AtomicBool::new(false);

    /// True: nobody had.
    pub(super) fn claim() -> bool {
        !IS_ASKED.swap(true, Ordering::Relaxed)
    }

    pub(super) fn wait() -> bool {
        claim();
        *KNOWN.get_or_init(super::imp::is_available)
    }

    pub(super) fn look() -> Option<bool> {
        KNOWN.get().copied().or_else(|| claim().then(wait))
    }
}

#[cfg(all(target_os = "linux", not(miri)))]
mod imp {
    // From <linux/membarrier.h>.
    const PRIVATE_EXPEDITED: libc::c_int = 1 << 3;
    const REGISTER_PRIVATE_EXPEDITED: libc::c_int = 1 << 4;

    fn membarrier(command: libc::c_int) -> bool {
        // SAFETY: the call touches no memory of ours.
        unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) == 0 }
    }

    pub(super) fn is_available() -> bool {
        membarrier(REGISTER_PRIVATE_EXPEDITED) && membarrier(PRIVATE_EXPEDITED)
    }

    #[cfg(not(loom))]
    pub(super) fn barrier() {
        // Biased locks exist only where it has worked before. To go on
        // without it would break mutual exclusion.
        if !membarrier(PRIVATE_EXPEDITED) {
            std::process::abort();
        }
    }
}

#[cfg(not(all(target_os = "linux", not(miri))))]
mod imp {
    pub(super) fn is_available() -> bool {
        false
    }

    #[cfg(not(loom))]
    pub(super) fn barrier() {}
}
