//! The memory of one fiber's stack: a mapping of its own with a guard below.
//!
//! ```text
//!   low                                                          high
//!   │ guard: no access │ ◄── grows downwards ── the stack │ Head │
//! ```
//!
//! The guard costs no mapping where the OS can mark pages (Linux 6.13 and
//! later): neighbouring stacks then are one mapping to the OS, and their number
//! is bounded by memory alone. Elsewhere each stack counts as two mappings
//! (Linux allows 65,530 of them for a process unless told otherwise).

use std::io;
use std::mem::ManuallyDrop;
use std::ptr::{self, NonNull};
use std::sync::OnceLock;

use corosensei::stack::valgrind::ValgrindStackRegistration;
use corosensei::stack::{Stack as CorosenseiStack, StackPointer};

use super::head::Head;

/// The smallest stack, without its guard.
pub(super) const SMALLEST: usize = 16 * 1024;
/// The largest one.
pub(super) const LARGEST: usize = 1 << 30;
/// What the guard has at least: more than a page, for frames that skip pages
/// (those of C compilers without probes).
const GUARD: usize = 16 * 1024;
/// What the head takes at the top, which stays aligned.
const HEAD: usize = size_of::<Head>().next_multiple_of(64);

/// A stack, unmapped when it is dropped.
pub(super) struct Stack {
    low: NonNull<u8>,
    guard: usize,
    /// Without the guard.
    size: usize,
    valgrind: ManuallyDrop<ValgrindStackRegistration>,
}

// SAFETY: plain memory.
unsafe impl Send for Stack {}

impl Stack {
    /// A new stack of `size` bytes, a multiple of the page size.
    ///
    /// # Errors
    /// The OS has no memory, or no more mappings, to give.
    pub(super) fn new(size: usize) -> io::Result<Self> {
        let guard = GUARD.max(page_size());
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | MAP_STACK;
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping, anywhere.
        let low = unsafe { libc::mmap(ptr::null_mut(), guard + size, access, flags, -1, 0) };
        if low == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let valgrind = ValgrindStackRegistration::new(low.cast(), guard + size);
        let low = NonNull::new(low.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        let stack = Self { low, guard, size, valgrind: ManuallyDrop::new(valgrind) };
        // SAFETY: the lowest pages of our own mapping.
        if unsafe { mark_guard(low.as_ptr().cast(), guard) } {
            Ok(stack)
        } else {
            // Dropped, and so unmapped.
            Err(io::Error::last_os_error())
        }
    }

    /// Without the guard.
    pub(super) fn size(&self) -> usize {
        self.size
    }

    /// Where the guard begins, and where it ends.
    pub(super) fn guard(&self) -> (usize, usize) {
        let low = self.low.as_ptr() as usize;
        (low, low + self.guard)
    }

    /// The place of the head, above the stack itself.
    pub(super) fn head(&self) -> NonNull<Head> {
        // SAFETY: inside of the mapping: a stack is larger than its head.
        unsafe { self.low.add(self.guard + self.size - HEAD) }.cast()
    }

    /// Gives the pages back to the OS, and keeps the addresses. Nothing on the
    /// stack is in use.
    pub(super) fn forget_contents(&self) {
        // SAFETY: our own mapping; its contents do not matter any more.
        unsafe { libc::madvise(self.low.add(self.guard).as_ptr().cast(), self.size, libc::MADV_DONTNEED) };
    }
}

impl Drop for Stack {
    fn drop(&mut self) {
        // SAFETY: dropped once; the mapping is ours, and nobody runs on it.
        unsafe {
            ManuallyDrop::drop(&mut self.valgrind);
            libc::munmap(self.low.as_ptr().cast(), self.guard + self.size);
        }
    }
}

// SAFETY: there is a guard, and more than the least that is asked for. The base
// is aligned to 64.
unsafe impl CorosenseiStack for Stack {
    #[inline(always)]
    fn base(&self) -> StackPointer {
        // SAFETY: not null.
        unsafe { StackPointer::new_unchecked(self.head().as_ptr() as usize) }
    }

    #[inline(always)]
    fn limit(&self) -> StackPointer {
        // SAFETY: not null.
        unsafe { StackPointer::new_unchecked(self.low.as_ptr() as usize) }
    }
}

#[cfg(any(target_os = "linux", target_os = "android"))]
const MAP_STACK: libc::c_int = libc::MAP_STACK;
#[cfg(not(any(target_os = "linux", target_os = "android")))]
const MAP_STACK: libc::c_int = 0;

/// Takes all access away from some pages.
///
/// # Safety
/// They are the caller's, and not in use.
unsafe fn mark_guard(low: *mut libc::c_void, len: usize) -> bool {
    // SAFETY: the caller's contract.
    #[cfg(target_os = "linux")]
    if unsafe { libc::madvise(low, len, MADV_GUARD_INSTALL) } == 0 {
        return true;
    }
    // SAFETY: the caller's contract.
    unsafe { libc::mprotect(low, len, libc::PROT_NONE) == 0 }
}

/// Linux 6.13 and later; `EINVAL` before.
#[cfg(target_os = "linux")]
const MADV_GUARD_INSTALL: libc::c_int = 102;

pub(super) fn page_size() -> usize {
    static SIZE: OnceLock<usize> = OnceLock::new();
    // SAFETY: only asks.
    *SIZE.get_or_init(|| usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_head_is_on_the_stacks_side_of_the_guard() {
        let stack = Stack::new(SMALLEST).unwrap();
        let (low, high) = stack.guard();
        assert_eq!(stack.limit().get(), low);
        assert_eq!(stack.base().get() % 64, 0);
        assert_eq!(stack.base().get() + HEAD, high + stack.size());
        // All of it can be written, to the last byte above the guard.
        for at in [high, stack.base().get() - 1, stack.base().get() + HEAD - 1] {
            // SAFETY: our own memory.
            unsafe { (at as *mut u8).write_volatile(7) };
        }
    }

    #[test]
    fn forgotten_contents_are_gone_and_the_stack_is_not() {
        let stack = Stack::new(SMALLEST).unwrap();
        let place = stack.guard().1 as *mut u8;
        // SAFETY: our own memory.
        unsafe {
            place.write_volatile(7);
            stack.forget_contents();
            assert_eq!(place.read_volatile(), 0);
            place.write_volatile(8);
        }
    }
}
