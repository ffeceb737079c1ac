//! The place of a function in its program or library, which is the same in another process of the same build.

use std::ffi::c_void;

use serde::{Deserialize, Serialize};

/// The module of a function, and its offset there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct At {
    /// A hash of the module's segments and its build id.
    module: u64,
    offset: u64,
}

type Body = unsafe extern "C" fn(*mut c_void) -> *mut c_void;

/// The place of the function at an address.
pub(super) fn place_of(address: usize) -> Option<At> {
    find(|found| {
        let is_in = found.code.iter().any(|(start, end)| (*start..*end).contains(&address));
        is_in.then(|| At { module: found.hash, offset: (address - found.base) as u64 })
    })
}

/// The function at a place that another process has named. `None`: this process runs another build, or the place is not
/// in code.
pub(super) fn function(at: &At) -> Option<Body> {
    find(|found| {
        if found.hash != at.module {
            return None;
        }
        let address = found.base.checked_add(usize::try_from(at.offset).ok()?)?;
        let is_code = found.code.iter().any(|(start, end)| (*start..*end).contains(&address));
        // SAFETY: the address is one of code, at which a process of the same build has a function of this type.
        is_code.then(|| unsafe { std::mem::transmute::<usize, Body>(address) })
    })
}

/// A module of this process.
struct Found {
    base: usize,
    hash: u64,
    /// The addresses of its executable segments.
    code: Vec<(usize, usize)>,
}

#[cfg(not(target_os = "linux"))]
fn find<R>(_body: impl FnMut(&Found) -> Option<R>) -> Option<R> {
    None
}

/// The first module for which `body` returns something.
#[cfg(target_os = "linux")]
fn find<R>(mut body: impl FnMut(&Found) -> Option<R>) -> Option<R> {
    struct Search<'a, R> {
        body: &'a mut dyn FnMut(&Found) -> Option<R>,
        result: Option<R>,
    }

    unsafe extern "C" fn visit<R>(
        info: *mut libc::dl_phdr_info,
        _size: libc::size_t,
        search: *mut c_void,
    ) -> libc::c_int {
        // SAFETY: `find` passes its search, and the linker a module.
        let (search, found) = unsafe { (&mut *search.cast::<Search<'_, R>>(), read(&*info)) };
        search.result = (search.body)(&found);
        libc::c_int::from(search.result.is_some())
    }

    let mut search = Search { body: &mut body, result: None };
    // SAFETY: `visit` takes the search, which lives until the call returns.
    unsafe { libc::dl_iterate_phdr(Some(visit::<R>), (&raw mut search).cast()) };
    search.result
}

/// Reads what the linker knows of a module.
///
/// # Safety
/// The module is loaded.
#[cfg(target_os = "linux")]
unsafe fn read(info: &libc::dl_phdr_info) -> Found {
    let base = info.dlpi_addr as usize;
    let mut found = Found { base, hash: 0xcbf2_9ce4_8422_2325, code: Vec::new() };
    let mut mix = |word: u64| {
        for byte in word.to_le_bytes() {
            found.hash = (found.hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    };
    for at in 0..usize::from(info.dlpi_phnum) {
        // SAFETY: the module has that many headers.
        let header = unsafe { &*info.dlpi_phdr.add(at) };
        mix(u64::from(header.p_type) << 32 | u64::from(header.p_flags));
        mix(header.p_vaddr);
        mix(header.p_memsz);
        let start = base + header.p_vaddr as usize;
        if header.p_type == libc::PT_LOAD && header.p_flags & libc::PF_X != 0 {
            found.code.push((start, start + header.p_memsz as usize));
        }
        if header.p_type == libc::PT_NOTE {
            // SAFETY: notes are loaded, and never written.
            let notes = unsafe { std::slice::from_raw_parts(start as *const u8, header.p_memsz as usize) };
            notes.iter().for_each(|byte| mix(u64::from(*byte)));
        }
    }
    found
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    unsafe extern "C" fn body(argument: *mut c_void) -> *mut c_void {
        argument
    }

    #[test]
    fn a_function_is_found_again_by_its_place() {
        let at = place_of(body as *const () as usize).unwrap();
        assert_eq!(function(&at).unwrap() as usize, body as *const () as usize);
        assert!(function(&At { module: at.module ^ 1, ..at }).is_none());
        assert!(function(&At { offset: u64::MAX, ..at }).is_none());
        assert!(place_of(1).is_none());
    }
}
