//! The structs that C passes, and how a library of another version reads them.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::mem::MaybeUninit;
use std::ptr;

use chanter::policy::Attributes;

use crate::door::{Done, Limit};

/// `chanter_config`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct CConfig {
    /// See `chanter.h`.
    pub size: usize,
    /// See `chanter.h`.
    pub name: *const c_char,
    /// See `chanter.h`.
    pub policy: *const CPolicy,
    /// See `chanter.h`.
    pub hand_off: u64,
    /// See `chanter.h`.
    pub processors: c_int,
    /// See `chanter.h`.
    pub workers: c_int,
}

/// `chanter_policy`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct CPolicy {
    /// See `chanter.h`.
    pub size: usize,
    /// See `chanter.h`.
    pub data: *mut c_void,
    /// See `chanter.h`.
    pub create: Option<unsafe extern "C" fn(*mut c_void, c_int) -> *mut c_void>,
    /// See `chanter.h`.
    pub destroy: Option<unsafe extern "C" fn(*mut c_void)>,
    /// See `chanter.h`.
    pub enqueue: Option<unsafe extern "C" fn(*mut c_void, *const CReady)>,
    /// See `chanter.h`.
    pub next: Option<unsafe extern "C" fn(*mut c_void) -> u64>,
    /// See `chanter.h`.
    pub give: Option<unsafe extern "C" fn(*mut c_void) -> u64>,
    /// See `chanter.h`.
    pub waiting: Option<unsafe extern "C" fn(*mut c_void) -> usize>,
    /// See `chanter.h`.
    pub quantum: u32,
}

/// `chanter_ready`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct CReady {
    /// See `chanter.h`.
    pub size: usize,
    /// See `chanter.h`.
    pub token: u64,
    /// See `chanter.h`.
    pub thread: u64,
    /// See `chanter.h`.
    pub deadline: u64,
    /// See `chanter.h`.
    pub reason: c_int,
    /// See `chanter.h`.
    pub priority: c_int,
    /// See `chanter.h`.
    pub may_move: c_int,
    /// See `chanter.h`.
    pub tickets: c_int,
}

/// `chanter_attr`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct CAttr {
    /// See `chanter.h`.
    pub size: usize,
    /// See `chanter.h`.
    pub name: *const c_char,
    /// See `chanter.h`.
    pub stack: *mut c_void,
    /// See `chanter.h`.
    pub stack_size: usize,
    /// See `chanter.h`.
    pub deadline: u64,
    /// See `chanter.h`.
    pub processor: c_int,
    /// See `chanter.h`.
    pub priority: c_int,
    /// See `chanter.h`.
    pub quantum: u32,
    /// See `chanter.h`.
    pub flags: u32,
}

pub(crate) const DETACHED: u32 = 1;
pub(crate) const HOST: u32 = 2;

/// A struct that begins with its size, and for which zeros are a value.
///
/// # Safety
/// The struct is `repr(C)`, its first member is its size as a `usize`, and a struct of zeros is valid.
pub(crate) unsafe trait Sized0: Copy {
    /// The size of the struct in the first version of the interface.
    const FIRST: usize;
}

// SAFETY: the members are integers, pointers and optional functions, behind the size.
unsafe impl Sized0 for CConfig {
    const FIRST: usize = 40;
}
// SAFETY: see the first of these.
unsafe impl Sized0 for CPolicy {
    const FIRST: usize = 72;
}
// SAFETY: see the first of these.
unsafe impl Sized0 for CAttr {
    const FIRST: usize = 56;
}
// SAFETY: see the first of these.
unsafe impl Sized0 for crate::choice::CCase {
    const FIRST: usize = 56;
}

/// The most that a struct of a newer program may have.
const MOST: usize = 4096;

/// Reads a struct: as many bytes as both sides know. The bytes that only the caller knows have to be zero.
///
/// # Safety
/// The pointer is null, or the struct is as long as its size says.
pub(crate) unsafe fn read<T: Sized0>(from: *const T) -> Done<T> {
    if from.is_null() || !from.is_aligned() {
        return Err(libc::EINVAL);
    }
    // SAFETY: the struct begins with its size.
    let size = unsafe { from.cast::<usize>().read() };
    if !(T::FIRST..=MOST).contains(&size) {
        return Err(libc::EINVAL);
    }
    let mut value = MaybeUninit::<T>::zeroed();
    let known = size.min(size_of::<T>());
    // SAFETY: the caller's struct has `size` bytes, and `value` has at least `known`.
    unsafe { ptr::copy_nonoverlapping(from.cast::<u8>(), value.as_mut_ptr().cast::<u8>(), known) };
    let unknown = (known..size).map(|at| {
        // SAFETY: the byte is within the caller's struct.
        unsafe { from.cast::<u8>().add(at).read() }
    });
    if unknown.fold(0, |all, byte| all | byte) != 0 {
        return Err(libc::EINVAL);
    }
    // SAFETY: zeros and the caller's members are a value, by the trait's contract.
    Ok(unsafe { value.assume_init() })
}

/// Reads a name.
///
/// # Safety
/// The pointer is null, or a string.
pub(crate) unsafe fn name(from: *const c_char) -> Option<String> {
    // SAFETY: the caller keeps the contract.
    (!from.is_null()).then(|| unsafe { CStr::from_ptr(from) }.to_string_lossy().into_owned())
}

impl CAttr {
    /// The attributes behind a pointer; zeros for null.
    ///
    /// # Safety
    /// The contract of [`read`].
    pub(crate) unsafe fn read(from: *const Self) -> Done<Self> {
        if from.is_null() {
            return Ok(Self {
                size: size_of::<Self>(),
                name: ptr::null(),
                stack: ptr::null_mut(),
                stack_size: 0,
                deadline: 0,
                processor: 0,
                priority: 0,
                quantum: 0,
                flags: 0,
            });
        }
        // SAFETY: the caller keeps the contract.
        unsafe { read(from) }?.checked()
    }

    /// The attributes, if their numbers are in range.
    pub(crate) fn checked(self) -> Done<Self> {
        let has_size = self.stack_size != 0 || !self.stack.is_null();
        let is_wrong = self.flags & !(DETACHED | HOST) != 0
            || self.processor < 0
            || i8::try_from(self.priority).is_err()
            || (has_size && !(16 * 1024..=1 << 30).contains(&self.stack_size));
        if is_wrong { Err(libc::EINVAL) } else { Ok(self) }
    }

    pub(crate) fn is_detached(&self) -> bool {
        self.flags & DETACHED != 0
    }

    /// The attributes that a policy sees, if there are any.
    pub(crate) fn attributes(&self) -> Option<Attributes> {
        if self.priority == 0 && self.deadline == 0 && self.quantum == 0 {
            return None;
        }
        let mut attributes = Attributes::new().priority(self.priority as i8);
        if self.quantum != 0 {
            attributes = attributes.quantum(self.quantum);
        }
        attributes.deadline = match Limit::of(self.deadline) {
            Limit::At(time) => Some(time),
            Limit::Now if self.deadline != 0 => Some(std::time::Instant::now()),
            _ => None,
        };
        Some(attributes)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn structs_of_other_versions_are_read() {
        // SAFETY: a struct of zeros is a value.
        let mut longer: [CAttr; 2] = unsafe { MaybeUninit::zeroed().assume_init() };
        longer[0].size = size_of::<CAttr>() + 8;
        longer[0].priority = 3;
        // SAFETY: the struct is as long as its size says.
        assert_eq!(unsafe { read(&raw const longer[0]) }.unwrap().priority, 3);
        longer[1].size = 1;
        // SAFETY: the struct is as long as its size says.
        assert!(unsafe { read(&raw const longer[0]) }.is_err(), "a member that is not known is set");
        longer[0].size = 8;
        // SAFETY: the struct is as long as its size says.
        assert!(unsafe { read(&raw const longer[0]) }.is_err());
    }

    #[test]
    fn sizes_are_those_of_the_header() {
        assert_eq!(size_of::<CConfig>(), CConfig::FIRST);
        assert_eq!(size_of::<CPolicy>(), CPolicy::FIRST);
        assert_eq!(size_of::<CAttr>(), CAttr::FIRST);
        assert_eq!(size_of::<crate::choice::CCase>(), <crate::choice::CCase as Sized0>::FIRST);
        assert_eq!(size_of::<CReady>(), 48);
    }
}
