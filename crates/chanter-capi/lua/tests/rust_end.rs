//! An end of a channel in Rust, as a module of Lua without a crate: it links to `libchanter_c` by its C functions.

use std::ffi::{c_int, c_void};

#[link(name = "chanter_c")]
unsafe extern "C" {
    fn chanter_thread_spawn(
        machine: u64,
        attr: *const c_void,
        body: extern "C" fn(*mut c_void) -> *mut c_void,
        arg: *mut c_void,
        thread: *mut u64,
    ) -> c_int;
    fn chanter_thread_detach(thread: u64) -> c_int;
    fn chanter_send(channel: u64, value: u64, deadline: u64) -> c_int;
}

unsafe extern "C" {
    fn luaL_checkinteger(state: *mut c_void, index: c_int) -> i64;
    fn lua_pushinteger(state: *mut c_void, value: i64);
    fn lua_pushcclosure(
        state: *mut c_void,
        function: unsafe extern "C" fn(*mut c_void) -> c_int,
        upvalues: c_int,
    );
}

struct End {
    channel: u64,
    first: u64,
    count: u64,
}

extern "C" fn send_all(end: *mut c_void) -> *mut c_void {
    // SAFETY: `spawn` gives a box, and this is called once.
    let end = unsafe { Box::from_raw(end.cast::<End>()) };
    for value in end.first..end.first + end.count {
        // SAFETY: any word may be a handle.
        if unsafe { chanter_send(end.channel, value, u64::MAX) } != 0 {
            break;
        }
    }
    std::ptr::null_mut()
}

/// `spawn(handle, first, count)`: a thread sends `count` words.
unsafe extern "C" fn spawn(state: *mut c_void) -> c_int {
    // SAFETY: Lua calls this with its state. The calls that may raise an error come before anything is owned.
    unsafe {
        let [channel, first, count] = [1, 2, 3].map(|index| luaL_checkinteger(state, index) as u64);
        let end = Box::into_raw(Box::new(End { channel, first, count }));
        let mut thread = 0;
        let code = chanter_thread_spawn(0, std::ptr::null(), send_all, end.cast(), &raw mut thread);
        chanter_thread_detach(thread);
        lua_pushinteger(state, i64::from(code));
    }
    1
}

/// Opens the module, which is the function `spawn`.
///
/// # Safety
/// Lua calls this with its state.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn luaopen_rust_end(state: *mut c_void) -> c_int {
    // SAFETY: the caller keeps the contract.
    unsafe { lua_pushcclosure(state, spawn, 0) };
    1
}
