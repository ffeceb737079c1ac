//! Events: what happens once, with a value.

use std::ffi::c_int;

use chanter::IVar;

use crate::door::{Limit, check, door, store, wait};
use crate::handle::{Held, Kind, Table};

/// An event of the program's.
pub(crate) struct Happening {
    pub(crate) value: IVar<u64>,
}

static EVENTS: Table<Happening> = Table::new(Kind::Event);

pub(crate) fn event_of(handle: u64) -> Result<Held<Happening>, c_int> {
    EVENTS.get(handle).ok_or(libc::EINVAL)
}

/// Makes an event. See `chanter.h`.
///
/// # Safety
/// `event` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn chanter_event_create(event: *mut u64) -> c_int {
    door(|| {
        check(event)?;
        let (handle, _) = EVENTS.insert(Happening { value: IVar::new() }).ok_or(libc::ENOMEM)?;
        // SAFETY: the caller keeps the contract.
        unsafe { store(event, handle) }
    })
}

/// Lets an event happen. See `chanter.h`.
#[unsafe(no_mangle)]
pub extern "C" fn chanter_event_set(event: u64, value: u64) -> c_int {
    door(|| event_of(event)?.value.put(value).map_err(|_| libc::EALREADY))
}

/// Waits for an event. See `chanter.h`.
///
/// # Safety
/// `value` is null or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn chanter_event_wait(event: u64, value: *mut u64, deadline: u64) -> c_int {
    door(|| {
        let happened = event_of(event)?.value.get();
        let got = wait(happened, Limit::of(deadline))?;
        // SAFETY: the caller keeps the contract.
        if value.is_null() { Ok(()) } else { unsafe { store(value, got) } }
    })
}

/// Frees the handle of an event. See `chanter.h`.
#[unsafe(no_mangle)]
pub extern "C" fn chanter_event_free(event: u64) -> c_int {
    door(|| EVENTS.close(event).map(drop).ok_or(libc::EINVAL))
}
