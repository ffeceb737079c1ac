//! Keys, whose values belong to threads, and cleanup handlers.

use std::ffi::{c_int, c_void};

use crate::current::{self, Locals, Place};
use crate::door::{Done, check, door, store};
use crate::handle::{Kind, Table};

type Destroy = unsafe extern "C" fn(*mut c_void);

struct Key {
    destroy: Option<Destroy>,
}

static KEYS: Table<Key> = Table::new(Kind::Key);

/// Destroys a value that a thread has left for a key.
pub(crate) fn destroy(key: u64, value: *mut c_void) {
    let Some(destroy) = KEYS.get(key).and_then(|key| key.destroy) else { return };
    if !value.is_null() {
        // SAFETY: the program has given the destructor for the values of this key.
        current::callback(|| unsafe { destroy(value) });
    }
}

fn with_locals<R>(only_fibers: bool, body: impl FnOnce(&Locals) -> Done<R>) -> Done<R> {
    current::with(|current| {
        let current = current.ok_or(libc::EPERM)?;
        if only_fibers && current.place() != Place::Fiber {
            return Err(libc::EPERM);
        }
        body(current.locals().ok_or(libc::EPERM)?)
    })
}

/// Makes a key. See `chanter.h`.
///
/// # Safety
/// `key` may be written. `destroy` may be called with each value that is set for the key.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn chanter_key_create(destroy: Option<Destroy>, key: *mut u64) -> c_int {
    door(|| {
        check(key)?;
        let (handle, _) = KEYS.insert(Key { destroy }).ok_or(libc::ENOMEM)?;
        // SAFETY: the caller keeps the contract.
        unsafe { store(key, handle) }
    })
}

/// Deletes a key. See `chanter.h`.
#[unsafe(no_mangle)]
pub extern "C" fn chanter_key_delete(key: u64) -> c_int {
    door(|| KEYS.close(key).map(drop).ok_or(libc::EINVAL))
}

/// Sets the calling thread's value for a key. See `chanter.h`.
#[unsafe(no_mangle)]
pub extern "C" fn chanter_key_set(key: u64, value: *mut c_void) -> c_int {
    door(|| {
        with_locals(false, |locals| {
            KEYS.get(key).ok_or(libc::EINVAL)?;
            let mut keys = locals.made().keys.borrow_mut();
            match keys.iter_mut().find(|(of, _)| *of == key) {
                Some((_, old)) => *old = value,
                None => keys.push((key, value)),
            }
            Ok(())
        })
    })
}

/// Stores the calling thread's value for a key. See `chanter.h`.
///
/// # Safety
/// `value` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn chanter_key_get(key: u64, value: *mut *mut c_void) -> c_int {
    door(|| {
        with_locals(false, |locals| {
            KEYS.get(key).ok_or(libc::EINVAL)?;
            let keys = locals.made().keys.borrow();
            let found =
                keys.iter().find(|(of, _)| *of == key).map_or(std::ptr::null_mut(), |(_, value)| *value);
            // SAFETY: the caller keeps the contract.
            unsafe { store(value, found) }
        })
    })
}

/// Adds a cleanup handler. See `chanter.h`.
///
/// # Safety
/// `handler(arg)` may be called until it is popped.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn chanter_cleanup_push(handler: Option<Destroy>, arg: *mut c_void) -> c_int {
    door(|| {
        with_locals(true, |locals| {
            locals.made().cleanup.borrow_mut().push((handler.ok_or(libc::EINVAL)?, arg));
            Ok(())
        })
    })
}

/// Removes the last cleanup handler. See `chanter.h`.
#[unsafe(no_mangle)]
pub extern "C" fn chanter_cleanup_pop(execute: c_int) -> c_int {
    let mut popped = None;
    let code = door(|| {
        with_locals(true, |locals| {
            popped = Some(locals.made().cleanup.borrow_mut().pop().ok_or(libc::EINVAL)?);
            Ok(())
        })
    });
    if let Some((handler, argument)) = popped.filter(|_| execute != 0) {
        // Outside of the door, since the handler may exit.
        // SAFETY: the program has pushed the handler with its argument.
        unsafe { handler(argument) };
    }
    code
}
