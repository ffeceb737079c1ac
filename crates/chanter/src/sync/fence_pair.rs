//! An asymmetric pair of fences: the light side costs nothing, the heavy side
//! runs a full barrier on every OS thread of the process.
//!
//! Linux has it as `membarrier`. Under loom both are real fences: the protocol
//! is then checked as if they were symmetric, which is what the pair promises.

/// The frequent side: keeps the compiler from moving accesses across.
#[inline(always)]
pub(crate) fn light() {
    #[cfg(loom)]
    super::full_fence(super::order::bias_light());
    #[cfg(not(loom))]
    std::sync::atomic::compiler_fence(std::sync::atomic::Ordering::SeqCst);
}

/// The rare side.
#[cold]
pub(crate) fn heavy() {
    #[cfg(loom)]
    super::full_fence(super::order::bias_heavy());
    #[cfg(not(loom))]
    {
        std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
        imp::barrier();
    }
}

/// Whether the heavy side works here.
pub(crate) fn is_available() -> bool {
    // Models bias their locks by hand.
    !cfg!(loom) && imp::is_available()
}

#[cfg(target_os = "linux")]
mod imp {
    use std::sync::OnceLock;

    // From <linux/membarrier.h>.
    const PRIVATE_EXPEDITED: libc::c_int = 1 << 3;
    const REGISTER_PRIVATE_EXPEDITED: libc::c_int = 1 << 4;

    fn membarrier(command: libc::c_int) -> bool {
        // SAFETY: the call touches no memory of ours.
        unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) == 0 }
    }

    pub(super) fn is_available() -> bool {
        static AVAILABLE: OnceLock<bool> = OnceLock::new();
        *AVAILABLE.get_or_init(|| membarrier(REGISTER_PRIVATE_EXPEDITED) && membarrier(PRIVATE_EXPEDITED))
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

#[cfg(not(target_os = "linux"))]
mod imp {
    pub(super) fn is_available() -> bool {
        false
    }

    #[cfg(not(loom))]
    pub(super) fn barrier() {}
}
