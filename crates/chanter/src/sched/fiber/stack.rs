//! The memory of one fiber's stack: a mapping of its own with a guard below.
//!
//! ```text
//!   low                                                          high
//!   │ guard: no access │ ◄── grows downwards ── the stack │ Top │
//! ```
//!
//! The guard costs no mapping where the OS can mark pages (Linux 6.13 and later). Neighbouring
//! stacks are then one mapping to the OS, and only memory bounds their number. Elsewhere each stack
//! counts as two mappings, of which Linux allows a process 65,530 by default.

use std::io;
use std::mem::{ManuallyDrop, MaybeUninit};
use std::ptr::{self, NonNull};
use std::sync::OnceLock;

use corosensei::stack::valgrind::ValgrindStackRegistration;
use corosensei::stack::{Stack as CorosenseiStack, StackPointer};

use super::control::FiberControl;

/// The size of the smallest stack in bytes, without its guard.
pub(crate) const SMALLEST: usize = 16 * 1024;
/// The size of the largest stack in bytes, without its guard.
pub(crate) const LARGEST: usize = 1 << 30;
/// The least size of a guard in bytes. It is more than a page, because some frames skip pages: C
/// compilers may omit stack probes.
const GUARD: usize = 16 * 1024;
/// The record at the top of a stack, above the part that grows. It stays while the stack is free.
/// So a stack is a pointer, which is cheap to pass around.
#[repr(C, align(64))]
struct Top {
    low: NonNull<u8>,
    guard: usize,
    /// The size of the stack in bytes, without the guard.
    size: usize,
    /// Whether the memory is a caller's, and stays when the stack is dropped.
    is_lent: bool,
    valgrind: ManuallyDrop<ValgrindStackRegistration>,
    /// The control block, which is there while a fiber uses the stack.
    head: MaybeUninit<FiberControl>,
}

/// A stack, which is unmapped when it is dropped.
pub(crate) struct Stack(NonNull<Top>);

// SAFETY: a stack that is not in use is plain memory.
unsafe impl Send for Stack {}

impl Stack {
    /// Maps a new stack of `size` bytes, a multiple of the page size.
    ///
    /// # Errors
    /// If the OS has no memory, or no more mappings, for it.
    pub(crate) fn new(size: usize) -> io::Result<Self> {
        let guard = GUARD.max(page_size());
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | MAP_STACK;
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: this asks for a new mapping, at any address.
        let low = unsafe { libc::mmap(ptr::null_mut(), guard + size, access, flags, -1, 0) };
        if low == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let low = NonNull::new(low.cast::<u8>()).ok_or(io::ErrorKind::OutOfMemory)?;
        let valgrind = ManuallyDrop::new(ValgrindStackRegistration::new(low.as_ptr(), guard + size));
        // SAFETY: the record lies inside our own mapping, which is aligned to pages.
        let stack = unsafe {
            let top = low.add(guard + size - size_of::<Top>()).cast::<Top>();
            top.write(Top { low, guard, size, is_lent: false, valgrind, head: MaybeUninit::uninit() });
            Self(top)
        };
        // SAFETY: these are the lowest pages of our own mapping, and not in use.
        if unsafe { mark_guard(low.as_ptr().cast(), guard) } {
            Ok(stack)
        } else {
            // The stack is dropped here, and so unmapped.
            Err(io::Error::last_os_error())
        }
    }

    /// A stack in memory of the caller's, without a guard.
    ///
    /// # Errors
    /// If the memory is smaller than the smallest stack.
    ///
    /// # Safety
    /// The memory is writable, and nobody else uses it while the stack lives.
    pub(crate) unsafe fn lent(memory: NonNull<u8>, size: usize) -> io::Result<Self> {
        let start = memory.as_ptr() as usize;
        let Some(end) = start.checked_add(size).filter(|_| (SMALLEST..=LARGEST).contains(&size)) else {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "the memory has no size of a stack"));
        };
        let at = (end - size_of::<Top>()) & !(align_of::<Top>() - 1);
        let valgrind = ManuallyDrop::new(ValgrindStackRegistration::new(memory.as_ptr(), size));
        let size = at + size_of::<Top>() - start;
        // SAFETY: the record lies within the caller's memory, since that is larger, and is aligned.
        unsafe {
            let top = memory.add(at - start).cast::<Top>();
            top.write(Top {
                low: memory,
                guard: 0,
                size,
                is_lent: true,
                valgrind,
                head: MaybeUninit::uninit(),
            });
            Ok(Self(top))
        }
    }

    /// Whether the memory is a caller's.
    #[inline(always)]
    pub(crate) fn is_lent(&self) -> bool {
        self.top().is_lent
    }

    #[inline(always)]
    fn top(&self) -> &Top {
        // SAFETY: the record is there from `new` to `drop`.
        unsafe { self.0.as_ref() }
    }

    /// The size of the stack in bytes, without the guard.
    #[inline(always)]
    pub(crate) fn size(&self) -> usize {
        self.top().size
    }

    /// The addresses where the guard begins and ends.
    #[inline(always)]
    pub(crate) fn guard(&self) -> (usize, usize) {
        let low = self.top().low.as_ptr() as usize;
        (low, low + self.top().guard)
    }

    /// The place of the control block.
    #[inline(always)]
    pub(crate) fn head(&self) -> NonNull<FiberControl> {
        // SAFETY: this is the address of a field of the record, and not null.
        unsafe { NonNull::new_unchecked(&raw mut (*self.0.as_ptr()).head) }.cast()
    }

    /// Gives the pages back to the OS, except the topmost one, and keeps the addresses. Nothing on
    /// the stack is in use.
    pub(crate) fn forget_contents(&self) {
        let (_, start) = self.guard();
        let end = self.0.as_ptr() as usize & !(page_size() - 1);
        // SAFETY: these are pages of our own mapping, and their contents do not matter.
        unsafe { libc::madvise(start as *mut libc::c_void, end - start, libc::MADV_DONTNEED) };
    }
}

impl Drop for Stack {
    fn drop(&mut self) {
        let (low, start) = self.guard();
        let (size, is_lent) = (self.size(), self.is_lent());
        // SAFETY: nobody runs on the stack, and it is dropped once.
        unsafe { ManuallyDrop::drop(&mut self.0.as_mut().valgrind) };
        if is_lent {
            return;
        }
        // SAFETY: the mapping is ours, and nobody uses it.
        unsafe {
            libc::munmap(low as *mut libc::c_void, start - low + size);
        }
    }
}

// SAFETY: there is a guard, and the stack is larger than the required minimum. The base is aligned
// to 64 bytes.
unsafe impl CorosenseiStack for Stack {
    #[inline(always)]
    fn base(&self) -> StackPointer {
        // SAFETY: the address lies in our mapping, and is not null.
        unsafe { StackPointer::new_unchecked(self.0.as_ptr() as usize) }
    }

    #[inline(always)]
    fn limit(&self) -> StackPointer {
        // SAFETY: the address lies in our mapping, and is not null.
        unsafe { StackPointer::new_unchecked(self.top().low.as_ptr() as usize) }
    }
}

#[cfg(any(target_os = "linux", target_os = "android"))]
const MAP_STACK: libc::c_int = libc::MAP_STACK;
#[cfg(not(any(target_os = "linux", target_os = "android")))]
const MAP_STACK: libc::c_int = 0;

/// Removes all access from some pages. False: the OS refuses.
///
/// # Safety
/// The pages belong to the caller, and are not in use.
unsafe fn mark_guard(low: *mut libc::c_void, len: usize) -> bool {
    // SAFETY: the pages belong to the caller, and are not in use.
    #[cfg(target_os = "linux")]
    if unsafe { libc::madvise(low, len, MADV_GUARD_INSTALL) } == 0 {
        return true;
    }
    // SAFETY: the pages belong to the caller, and are not in use.
    unsafe { libc::mprotect(low, len, libc::PROT_NONE) == 0 }
}

/// The advice to install a guard: Linux 6.13 and later; `EINVAL` before.
#[cfg(target_os = "linux")]
const MADV_GUARD_INSTALL: libc::c_int = 102;

pub(crate) fn page_size() -> usize {
    static SIZE: OnceLock<usize> = OnceLock::new();
    // SAFETY: this only reads a setting of the system.
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
            // SAFETY: the address lies in our own mapping.
            unsafe { (at as *mut u8).write_volatile(7) };
        }
    }

    #[test]
    fn forgotten_contents_are_gone_and_the_stack_is_not() {
        let stack = Stack::new(SMALLEST).unwrap();
        let place = stack.guard().1 as *mut u8;
        // SAFETY: the address lies in our own mapping.
        unsafe {
            place.write_volatile(7);
            stack.forget_contents();
            assert_eq!(place.read_volatile(), 0);
            place.write_volatile(8);
        }
    }
}
