//! The functions of `shim/chanter_mpi.c` once more, over a library of the standard ABI that was opened at run time. One
//! program runs with each MPI that has it.
//!
//! Handles are pointers in this ABI, and constants are the same everywhere, so no compiler of an MPI is needed. All
//! functions but [`open`] want the library to be open.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use super::Status;
pub(super) use super::library::open;
use super::library::{FullStatus, Handle, functions};

const SUCCESS: c_int = 0;
const ANY_SOURCE: c_int = -1;
const ANY_TAG: c_int = -2;
const UNDEFINED: c_int = -32766;
const THREAD_SERIALIZED: c_int = 2048;
const COMM_TYPE_SHARED: c_int = 221;
const SUM: Handle = Handle::predefined(0x21);
const MIN: Handle = Handle::predefined(0x22);
const COMM_WORLD: Handle = Handle::predefined(0x101);
const INFO_NULL: Handle = Handle::predefined(0x130);
const ERRORS_RETURN: Handle = Handle::predefined(0x143);
const REQUEST_NULL: Handle = Handle::predefined(0x180);
const INT: Handle = Handle::predefined(0x209);
const BYTE: Handle = Handle::predefined(0x247);
const INT64: Handle = Handle::predefined(0x258);
const IGNORED: *mut FullStatus = ptr::null_mut();
const LONGEST_LIBRARY_VERSION: usize = 8192;
const LONGEST_ERROR: usize = 512;

/// Our communicators, while MPI is initialized.
static COMMS: [AtomicPtr<c_void>; 4] = [const { AtomicPtr::new(ptr::null_mut()) }; 4];

fn comm(at: c_int) -> Handle {
    // ORDER: Relaxed: the token that passes between threads publishes what was written when it was made.
    Handle(COMMS[at as usize].load(Ordering::Relaxed))
}

/// Calls a function of the library.
macro_rules! call {
    ($function:ident($($argument:expr),*)) => {{
        let function = functions().$function;
        // SAFETY: the shim's caller keeps MPI's rules; each pointer is its own, or leads to a local variable.
        unsafe { function($($argument),*) }
    }};
}

/// Returns the error code of a call that has failed.
macro_rules! attempt {
    ($call:expr) => {
        match $call {
            SUCCESS => {}
            code => return code,
        }
    };
}

// -- the life of MPI in this process --

pub(super) unsafe fn chanter_mpi_initialized(is: *mut c_int) -> c_int {
    call!(initialized(is))
}

pub(super) unsafe fn chanter_mpi_finalized(is: *mut c_int) -> c_int {
    call!(finalized(is))
}

pub(super) unsafe fn chanter_mpi_init(is_serialized: *mut c_int) -> c_int {
    let mut provided = 0;
    attempt!(call!(init_thread(ptr::null_mut(), ptr::null_mut(), THREAD_SERIALIZED, &mut provided)));
    // SAFETY: the caller has a place for the answer.
    unsafe { *is_serialized = (provided >= THREAD_SERIALIZED).into() };
    attempt!(call!(comm_set_errhandler(COMM_WORLD, ERRORS_RETURN)));
    for place in &COMMS {
        let mut comm = Handle(ptr::null_mut());
        attempt!(call!(comm_dup(COMM_WORLD, &mut comm)));
        attempt!(call!(comm_set_errhandler(comm, ERRORS_RETURN)));
        // ORDER: Relaxed: the token, which is made after this, publishes it.
        place.store(comm.0, Ordering::Relaxed);
    }
    SUCCESS
}

pub(super) unsafe fn chanter_mpi_finalize() -> c_int {
    for at in 0..COMMS.len() {
        let mut comm = comm(at as c_int);
        attempt!(call!(comm_free(&mut comm)));
    }
    call!(finalize())
}

pub(super) unsafe fn chanter_mpi_abort(code: c_int) -> c_int {
    call!(abort(COMM_WORLD, code))
}

// -- who is there --

pub(super) unsafe fn chanter_mpi_rank(rank: *mut c_int) -> c_int {
    call!(comm_rank(COMM_WORLD, rank))
}

pub(super) unsafe fn chanter_mpi_size(size: *mut c_int) -> c_int {
    call!(comm_size(COMM_WORLD, size))
}

pub(super) unsafe fn chanter_mpi_nodes(nodes: *mut c_int) -> c_int {
    let mut near = Handle(ptr::null_mut());
    let (mut rank, mut lowest) = (0, 0);
    attempt!(call!(comm_rank(COMM_WORLD, &mut rank)));
    attempt!(call!(comm_split_type(COMM_WORLD, COMM_TYPE_SHARED, 0, INFO_NULL, &mut near)));
    attempt!(call!(allreduce((&raw const rank).cast(), (&raw mut lowest).cast(), 1, INT, MIN, near)));
    attempt!(call!(comm_free(&mut near)));
    call!(allgather((&raw const lowest).cast(), 1, INT, nodes.cast(), 1, INT, COMM_WORLD))
}

pub(super) unsafe fn chanter_mpi_exchange(mine: *const c_void, bytes: c_int, all: *mut c_void) -> c_int {
    call!(allgather(mine, bytes, BYTE, all, bytes, BYTE, COMM_WORLD))
}

pub(super) unsafe fn chanter_mpi_barrier() -> c_int {
    call!(barrier(COMM_WORLD))
}

// -- texts: at most `room` bytes, the last of which is 0 --

/// # Safety
/// There are `room` bytes at `text`.
unsafe fn copy(text: *mut c_char, room: c_int, from: &CStr) {
    let from = from.to_bytes();
    let length = from.len().min(room as usize - 1);
    // SAFETY: the caller has this room, and no other text leads there.
    unsafe {
        ptr::copy_nonoverlapping(from.as_ptr().cast(), text, length);
        *text.add(length) = 0;
    }
}

pub(super) unsafe fn chanter_mpi_library(text: *mut c_char, room: c_int) -> c_int {
    let mut all = [0 as c_char; LONGEST_LIBRARY_VERSION];
    let mut length = 0;
    attempt!(call!(library_version(all.as_mut_ptr(), &mut length)));
    // SAFETY: MPI's text ends with a 0, and the caller has that room.
    unsafe { copy(text, room, CStr::from_ptr(all.as_ptr())) };
    SUCCESS
}

pub(super) unsafe fn chanter_mpi_error(code: c_int, text: *mut c_char, room: c_int) {
    let mut all = [0 as c_char; LONGEST_ERROR];
    let mut length = 0;
    let from = match call!(error_string(code, all.as_mut_ptr(), &mut length)) {
        // SAFETY: MPI's text ends with a 0.
        SUCCESS => unsafe { CStr::from_ptr(all.as_ptr()) },
        _ => c"an error without a text",
    };
    // SAFETY: the caller has that room.
    unsafe { copy(text, room, from) };
}

// -- requests --

/// Bytes of each in an array.
pub(super) unsafe fn chanter_mpi_request_size() -> c_int {
    size_of::<Handle>() as c_int
}

/// Makes all of an array idle.
pub(super) unsafe fn chanter_mpi_requests(all: *mut c_void, count: c_int) {
    for at in 0..count {
        // SAFETY: the caller's array has that many.
        unsafe { *request(all, at) = REQUEST_NULL };
    }
}

/// # Safety
/// The array has that many.
unsafe fn request(all: *mut c_void, at: c_int) -> *mut Handle {
    // SAFETY: the caller says so.
    unsafe { all.cast::<Handle>().add(at as usize) }
}

/// # Safety
/// MPI has written the status, and there is a place for ours.
unsafe fn read_status(from: *const FullStatus, to: *mut Status) -> c_int {
    // SAFETY: the caller says so. Volatile: else both are read at once, and the processor waits until the library's two
    // writes are done.
    let bytes = unsafe {
        (*to).source = ptr::read_volatile(&raw const (*from).source);
        (*to).tag = ptr::read_volatile(&raw const (*from).tag);
        &raw mut (*to).bytes
    };
    call!(get_count(from, BYTE, bytes))
}

pub(super) unsafe fn chanter_mpi_recv_init(
    all: *mut c_void,
    at: c_int,
    on: c_int,
    to: *mut c_void,
    room: c_int,
) -> c_int {
    call!(recv_init(to, room, BYTE, ANY_SOURCE, ANY_TAG, comm(on), request(all, at)))
}

pub(super) unsafe fn chanter_mpi_start(all: *mut c_void, at: c_int) -> c_int {
    call!(start(request(all, at)))
}

/// `source` and `tag` may be -1: any.
pub(super) unsafe fn chanter_mpi_irecv(
    all: *mut c_void,
    at: c_int,
    on: c_int,
    to: *mut c_void,
    room: c_int,
    source: c_int,
    tag: c_int,
) -> c_int {
    let source = if source < 0 { ANY_SOURCE } else { source };
    let tag = if tag < 0 { ANY_TAG } else { tag };
    call!(irecv(to, room, BYTE, source, tag, comm(on), request(all, at)))
}

pub(super) unsafe fn chanter_mpi_isend(
    all: *mut c_void,
    at: c_int,
    on: c_int,
    from: *const c_void,
    bytes: c_int,
    to: c_int,
    tag: c_int,
) -> c_int {
    call!(isend(from, bytes, BYTE, to, tag, comm(on), request(all, at)))
}

pub(super) unsafe fn chanter_mpi_test(
    all: *mut c_void,
    at: c_int,
    is_done: *mut c_int,
    status: *mut Status,
) -> c_int {
    let mut found = MaybeUninit::<FullStatus>::uninit();
    attempt!(call!(test(request(all, at), is_done, found.as_mut_ptr())));
    // SAFETY: MPI has written the answer. If the request is done, it has written the status, too.
    unsafe { if *is_done != 0 { read_status(found.as_ptr(), status) } else { SUCCESS } }
}

/// Tests a send, whose status says nothing.
pub(super) unsafe fn chanter_mpi_test_sent(all: *mut c_void, at: c_int, is_done: *mut c_int) -> c_int {
    call!(test(request(all, at), is_done, IGNORED))
}

/// `done` has room for `count` numbers, and `statuses` for as many; `found` of each are written, -1 if none is under
/// way.
pub(super) unsafe fn chanter_mpi_test_some(
    all: *mut c_void,
    count: c_int,
    found: *mut c_int,
    done: *mut c_int,
    statuses: *mut Status,
    space: *mut c_void,
) -> c_int {
    let full = space.cast::<FullStatus>();
    attempt!(call!(testsome(count, all.cast(), found, done, full)));
    // SAFETY: MPI has written that number, which is at most `count`, and as many statuses.
    unsafe {
        if *found == UNDEFINED {
            *found = -1;
        }
        for at in 0..(*found).max(0) as usize {
            attempt!(read_status(full.add(at), statuses.add(at)));
        }
    }
    SUCCESS
}

/// Bytes of a status in the `space` of `chanter_mpi_test_some`.
pub(super) unsafe fn chanter_mpi_status_size() -> c_int {
    size_of::<FullStatus>() as c_int
}

/// Takes a receive back. `was_taken`: it was not too late.
pub(super) unsafe fn chanter_mpi_cancel(
    all: *mut c_void,
    at: c_int,
    was_taken: *mut c_int,
    status: *mut Status,
) -> c_int {
    let mut found = FullStatus::default();
    attempt!(call!(cancel(request(all, at))));
    attempt!(call!(wait(request(all, at), &mut found)));
    attempt!(call!(test_cancelled(&found, was_taken)));
    // SAFETY: MPI has written the answer and the status.
    unsafe { if *was_taken != 0 { SUCCESS } else { read_status(&found, status) } }
}

/// Of an idle persistent request.
pub(super) unsafe fn chanter_mpi_request_free(all: *mut c_void, at: c_int) -> c_int {
    call!(request_free(request(all, at)))
}

// -- what MPI itself takes, to measure ours by --

/// Round trips of messages, as the function of this name in C has them.
#[allow(clippy::too_many_arguments, reason = "the shim's own")]
pub(super) unsafe fn chanter_mpi_round_trips(
    on: c_int,
    other: c_int,
    is_first: c_int,
    mut out: *mut u8,
    mut to: *mut u8,
    bytes: c_int,
    rounds: c_int,
    wrong: *mut c_int,
) -> c_int {
    let mut wrongs = 0;
    for round in 0..rounds {
        let (mut sent, mut received) = (REQUEST_NULL, REQUEST_NULL);
        let (mut is_done, came) = (0, to);
        if is_first != 0 {
            // SAFETY: the buffer has at least 4 bytes, and no send of it is under way.
            unsafe { out.cast::<c_int>().write_unaligned(round) };
            attempt!(call!(isend(out.cast(), bytes, BYTE, other, 0, comm(on), &mut sent)));
        }
        attempt!(call!(irecv(to.cast(), bytes, BYTE, other, 0, comm(on), &mut received)));
        while is_done == 0 {
            attempt!(call!(test(&mut received, &mut is_done, IGNORED)));
        }
        // SAFETY: the message has come, and has at least 4 bytes.
        wrongs += c_int::from(unsafe { came.cast::<c_int>().read_unaligned() } != round);
        if is_first == 0 {
            attempt!(call!(isend(came.cast(), bytes, BYTE, other, 0, comm(on), &mut sent)));
        }
        is_done = 0;
        while is_done == 0 {
            attempt!(call!(test(&mut sent, &mut is_done, IGNORED)));
        }
        to = out;
        out = came;
    }
    // SAFETY: the caller has a place for the answer.
    unsafe { *wrong = wrongs };
    SUCCESS
}

/// Barriers of all processes, one after the other.
pub(super) unsafe fn chanter_mpi_barriers(on: c_int, rounds: c_int) -> c_int {
    for _ in 0..rounds {
        attempt!(call!(barrier(comm(on))));
    }
    SUCCESS
}

/// Sums over all processes, each of which gets them; `wrong` counts those that were not the right ones.
pub(super) unsafe fn chanter_mpi_reductions(on: c_int, rounds: c_int, wrong: *mut c_int) -> c_int {
    let (mut rank, mut size) = (0, 0);
    attempt!(call!(comm_rank(comm(on), &mut rank)));
    attempt!(call!(comm_size(comm(on), &mut size)));
    let (rank, size) = (i64::from(rank), i64::from(size));
    let mut wrongs = 0;
    for round in 0..i64::from(rounds) {
        let (mine, mut sum) = (round * (rank + 1), 0_i64);
        attempt!(call!(allreduce((&raw const mine).cast(), (&raw mut sum).cast(), 1, INT64, SUM, comm(on))));
        wrongs += c_int::from(sum != round * size * (size + 1) / 2);
    }
    // SAFETY: the caller has a place for the answer.
    unsafe { *wrong = wrongs };
    SUCCESS
}
