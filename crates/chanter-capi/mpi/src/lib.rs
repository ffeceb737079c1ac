//! `chanter_init_mpi`: the C interface in programs that `mpirun` starts. `include/chanter_mpi.h` is its documentation.

use std::ffi::c_int;

use chanter_c::CConfig;
use chanter_c::job::{Ending, Member, init};
use chanter_mpi::{Session, SessionEnd, StartError};

/// Makes this process one of its job, over MPI if `mpirun` has started it. See `chanter_mpi.h`.
///
/// # Safety
/// `config` is null or a struct as long as its size says, whose pointers are null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn chanter_init_mpi(config: *const CConfig) -> c_int {
    let start = |builder| {
        let Session { machine, process, end } = Session::start(builder).map_err(|error| {
            eprintln!("chanter: this process is not part of its job: {error}");
            code(&error)
        })?;
        Ok(Member { machine, process, end: Box::new(End(end)) })
    };
    // SAFETY: the caller keeps the contract.
    unsafe { init(config, start) }
}

/// The end of MPI.
struct End(SessionEnd);

impl Ending for End {
    fn finish(self: Box<Self>) -> Result<(), c_int> {
        self.0.finish().map_err(|error| {
            eprintln!("chanter: {error}");
            libc::EIO
        })
    }

    fn abort(&self, code: c_int) {
        self.0.abort(code);
    }
}

fn code(error: &StartError) -> c_int {
    match error {
        StartError::Missing(_) | StartError::Mismatch { .. } => libc::ENOSYS,
        StartError::Machine(_) => libc::ENOMEM,
        _ => libc::ECONNREFUSED,
    }
}
