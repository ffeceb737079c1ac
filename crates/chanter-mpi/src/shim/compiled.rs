//! The functions of `shim/chanter_mpi.c`, which was compiled with the compiler of an MPI.

use std::ffi::{c_char, c_int, c_void};

use super::Status;

unsafe extern "C" {
    pub(super) fn chanter_mpi_initialized(is: *mut c_int) -> c_int;
    pub(super) fn chanter_mpi_finalized(is: *mut c_int) -> c_int;
    pub(super) fn chanter_mpi_init(is_serialized: *mut c_int) -> c_int;
    pub(super) fn chanter_mpi_finalize() -> c_int;
    pub(super) fn chanter_mpi_abort(code: c_int) -> c_int;
    pub(super) fn chanter_mpi_rank(rank: *mut c_int) -> c_int;
    pub(super) fn chanter_mpi_size(size: *mut c_int) -> c_int;
    pub(super) fn chanter_mpi_nodes(nodes: *mut c_int) -> c_int;
    pub(super) fn chanter_mpi_exchange(mine: *const c_void, bytes: c_int, all: *mut c_void) -> c_int;
    pub(super) fn chanter_mpi_barrier() -> c_int;
    pub(super) fn chanter_mpi_library(text: *mut c_char, room: c_int) -> c_int;
    pub(super) fn chanter_mpi_error(code: c_int, text: *mut c_char, room: c_int);
    pub(super) fn chanter_mpi_request_size() -> c_int;
    pub(super) fn chanter_mpi_requests(all: *mut c_void, count: c_int);
    pub(super) fn chanter_mpi_recv_init(
        all: *mut c_void,
        at: c_int,
        comm: c_int,
        to: *mut c_void,
        room: c_int,
    ) -> c_int;
    pub(super) fn chanter_mpi_start(all: *mut c_void, at: c_int) -> c_int;
    pub(super) fn chanter_mpi_irecv(
        all: *mut c_void,
        at: c_int,
        comm: c_int,
        to: *mut c_void,
        room: c_int,
        source: c_int,
        tag: c_int,
    ) -> c_int;
    pub(super) fn chanter_mpi_isend(
        all: *mut c_void,
        at: c_int,
        comm: c_int,
        from: *const c_void,
        bytes: c_int,
        to: c_int,
        tag: c_int,
    ) -> c_int;
    pub(super) fn chanter_mpi_test(
        all: *mut c_void,
        at: c_int,
        is_done: *mut c_int,
        status: *mut Status,
    ) -> c_int;
    pub(super) fn chanter_mpi_test_sent(all: *mut c_void, at: c_int, is_done: *mut c_int) -> c_int;
    pub(super) fn chanter_mpi_test_some(
        all: *mut c_void,
        count: c_int,
        found: *mut c_int,
        done: *mut c_int,
        statuses: *mut Status,
        space: *mut c_void,
    ) -> c_int;
    pub(super) fn chanter_mpi_status_size() -> c_int;
    pub(super) fn chanter_mpi_cancel(
        all: *mut c_void,
        at: c_int,
        was_taken: *mut c_int,
        status: *mut Status,
    ) -> c_int;
    pub(super) fn chanter_mpi_request_free(all: *mut c_void, at: c_int) -> c_int;
    pub(super) fn chanter_mpi_round_trips(
        comm: c_int,
        other: c_int,
        is_first: c_int,
        out: *mut u8,
        to: *mut u8,
        bytes: c_int,
        rounds: c_int,
        wrong: *mut c_int,
    ) -> c_int;
    pub(super) fn chanter_mpi_barriers(comm: c_int, rounds: c_int) -> c_int;
    pub(super) fn chanter_mpi_reductions(comm: c_int, rounds: c_int, wrong: *mut c_int) -> c_int;
}

/// The MPI was found when the program was built.
pub(super) fn open() -> Result<(), &'static str> {
    Ok(())
}
