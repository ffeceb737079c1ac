//! The memory of one fiber's stack: a mapping of its own with a guard below.
//!
//! ```text
//!   low                                                          high
//!   │ guard: no access │ ◄── grows downwards ── the stack │ Top │
//! ```
//!
//! The guard costs no mapping where the OS can mark pages (Linux 6.13 and
//! later): neighbouring stacks then are one mapping to the OS, and their number
//! is bounded by memory alone. Elsewhere each stack counts as two mappings
//! (Linux allows 65,530 of them for a process unless told otherwise).

use std::io;
use std::mem::{ManuallyDrop, MaybeUninit};
use std::ptr::{self, NonNull};
use std::sync::OnceLock;

use corosensei::stack::valgrind::ValgrindStackRegistration;
use corosensei::stack::{Stack as CorosenseiStack, StackPointer};

use super::control::FiberControl;

/// The smallest stack, without its guard.
pub(crate) const SMALLEST: usize = 16 * 1024;
/// The largest one.
pub(crate) const LARGEST: usize = 1 << 30;
/// What the guard has at least: more than a page, for frames that skip pages
/// (those of C compilers without probes).
const GUARD: usize = 16 * 1024;
/// What lies at the top of a stack, above what grows. It stays while the stack
/// is free, so that a stack is a pointer, which is cheap to pass around.
#[repr(C, align(64))]
struct Top {
    low: NonNull<u8>,
    guard: usize,
    /// Without the guard.
    size: usize,
    valgrind: ManuallyDrop<ValgrindStackRegistration>,
    /// There while a fiber uses the stack.
    head: MaybeUninit<FiberControl>,
}

/// A stack, unmapped when it is dropped.
pub(crate) struct Stack(NonNull<Top>);

// SAFETY: plain memory.
unsafe impl Send for Stack {}

impl Stack {
    /// A new stack of `size` bytes, a multiple of the page size.
    ///
    /// # Errors
    /// The OS has no memory, or no more mappings, to give.
    pub(crate) fn new(size: usize) -> io::Result<Self> {
        let guard = GUARD.max(page_size());
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | MAP_STACK;
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping, anywhere.
        let low = unsafe { libc::mmap(ptr::null_mut(), guard + size, access, flags, -1, 0) };
        if low == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let low = NonNull::new(low.cast::<u8>()).ok_or(io::ErrorKind::OutOfMemory)?;
        let valgrind = ManuallyDrop::new(ValgrindStackRegistration::new(low.as_ptr(), guard + size));
        // SAFETY: inside of our own mapping, which is aligned to pages.
        let stack = unsafe {
            let top = low.add(guard + size - size_of::<Top>()).cast::<Top>();
            top.write(Top { low, guard, size, valgrind, head: MaybeUninit::uninit() });
            Self(top)
        };
        // SAFETY: the lowest pages of our own mapping.
        if unsafe { mark_guard(low.as_ptr().cast(), guard) } {
            Ok(stack)
        } else {
            // Dropped, and so unmapped.
            Err(io::Error::last_os_error())
        }
    }

    #[inline(always)]
    fn top(&self) -> &Top {
        // SAFETY: there from `new` to `drop`.
        unsafe { self.0.as_ref() }
    }

    /// Without the guard.
    #[inline(always)]
    pub(crate) fn size(&self) -> usize {
        self.top().size
    }

    /// Where the guard begins, and where it ends.
    #[inline(always)]
    pub(crate) fn guard(&self) -> (usize, usize) {
        let low = self.top().low.as_ptr() as usize;
        (low, low + self.top().guard)
    }

    /// The place of the head.
    #[inline(always)]
    pub(crate) fn head(&self) -> NonNull<FiberControl> {
        // SAFETY: a field of what is there.
        unsafe { NonNull::new_unchecked(&raw mut (*self.0.as_ptr()).head) }.cast()
    }

    /// Gives the pages back to the OS, but for the topmost, and keeps the
    /// addresses. Nothing on the stack is in use.
    pub(crate) fn forget_contents(&self) {
        let (_, start) = self.guard();
        let end = self.0.as_ptr() as usize & !(page_size() - 1);
        // SAFETY: pages of our own mapping, whose contents do not matter.
        unsafe { libc::madvise(start as *mut libc::c_void, end - start, libc::MADV_DONTNEED) };
    }
}

impl Drop for Stack {
    fn drop(&mut self) {
        let (low, start) = self.guard();
        let size = self.size();
        // SAFETY: dropped once; the mapping is ours, and nobody runs on it.
        unsafe {
            ManuallyDrop::drop(&mut self.0.as_mut().valgrind);
            libc::munmap(low as *mut libc::c_void, start - low + size);
        }
    }
}

// SAFETY: there is a guard, and more than the least that is asked for. The base
// is aligned to 64.
unsafe impl CorosenseiStack for Stack {
    #[inline(always)]
    fn base(&self) -> StackPointer {
        // SAFETY: not null.
        unsafe { StackPointer::new_unchecked(self.0.as_ptr() as usize) }
    }

    #[inline(always)]
    fn limit(&self) -> StackPointer {
        // SAFETY: not null.
        unsafe { StackPointer::new_unchecked(self.top().low.as_ptr() as usize) }
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

pub(crate) fn page_size() -> usize {
    static SIZE: OnceLock<usize> = OnceLock::new();
    // SAFETY: only asks.
    *SIZE.get_or_init(|| usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stack_reaches_from_its_guard_to_its_top() {
        let stack = Stack::new(SMALLEST).unwrap();
        let (low, high) = stack.guard();
        assert_eq!(stack.limit().get(), low);
        assert_eq!(stack.base().get() % 64, 0);
        assert_eq!(stack.base().get() + size_of::<Top>(), high + stack.size());
        // All of it can be written, to the last byte above the guard.
        for at in [high, stack.base().get() - 1] {
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
