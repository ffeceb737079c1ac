//! The end of a process of a job: by `chanter_finalize`, or without it.
//!
//! A process that returns 0 from `main` looks well to its launcher, while the others may wait for it. So such an exit,
//! if the process has not left its job, is made a failure.

use std::ffi::{c_int, c_void};
use std::io::Write;
use std::sync::OnceLock;
use std::time::Duration;
use std::{io, process, ptr, thread};

/// How a process of a job ends, by its engine.
pub trait Ending: Send + Sync {
    /// Ends the engine, when the process has left its job and the machine has ended.
    ///
    /// # Errors
    /// A code of C.
    fn finish(self: Box<Self>) -> Result<(), c_int>;

    /// Ends the whole job with this code, if the engine has a way. This process ends in any case.
    fn abort(&self, code: c_int);
}

/// The end of an engine with nothing to end. The others notice by themselves that a process has gone.
pub(super) struct Silent;

impl Ending for Silent {
    fn finish(self: Box<Self>) -> Result<(), c_int> {
        Ok(())
    }

    fn abort(&self, _code: c_int) {}
}

/// A process whose exit is looked at.
struct Watched {
    /// Its number for the system. A child that it forks has another one, and is no process of the job.
    process: u32,
    /// Its number in the job, if others may still wait for it.
    number: fn() -> Option<u32>,
    /// Ends the whole job with this code, if there is a way.
    abort: fn(c_int),
}

/// Time within which the message and the files must be written at an exit that is a failure.
const PATIENCE: Duration = Duration::from_secs(1);

static WATCHED: OnceLock<Watched> = OnceLock::new();

/// Looks at the exit of this process, from now on. `number` is its number in the job, if others may still wait for it.
/// `abort` ends the whole job with this code, if there is a way.
pub(super) fn watch(number: fn() -> Option<u32>, abort: fn(c_int)) {
    if WATCHED.set(Watched { process: process::id(), number, abort }).is_ok() {
        register();
    }
}

/// Has `ended` called at the end, with the code.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn register() {
    unsafe extern "C" {
        fn on_exit(function: extern "C" fn(c_int, *mut c_void), data: *mut c_void) -> c_int;
    }
    extern "C" fn at_exit(code: c_int, _data: *mut c_void) {
        ended(Some(code));
    }
    let mut info = std::mem::MaybeUninit::<libc::Dl_info>::zeroed();
    let function: extern "C" fn(c_int, *mut c_void) = at_exit;
    // SAFETY: the first call writes the record and nothing else, and zeros are one. Its name is null or a string, of a library
    // that is loaded. It stays loaded for good, as the function is called in the end. No memory (the result of the last call)
    // is as good as an exit that nobody looks at.
    unsafe {
        if libc::dladdr(function as *const c_void, info.as_mut_ptr()) != 0 {
            let name = info.assume_init().dli_fname;
            if !name.is_null() {
                libc::dlopen(name, libc::RTLD_NOW | libc::RTLD_NOLOAD | libc::RTLD_NODELETE);
            }
        }
        on_exit(at_exit, ptr::null_mut());
    }
}

/// Has `ended` called at the end. The system does not tell the code.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
fn register() {
    extern "C" fn at_exit() {
        ended(None);
    }
    // SAFETY: the function may be called at any time. (If there is no memory, nobody looks at the exit.)
    unsafe { libc::atexit(at_exit) };
}

/// The process exits. With a code that is not 0, everybody sees that it has failed.
fn ended(code: Option<c_int>) {
    let Some(watched) = WATCHED.get() else { return };
    // The system keeps eight bits of a code.
    if watched.process != process::id() || code.is_some_and(|code| code & 0xff != 0) {
        return;
    }
    let Some(number) = (watched.number)() else { return };
    let said = format!(
        "chanter: process {number} of the job ends without chanter_finalize: that is a failure (code {})\n",
        libc::EXIT_FAILURE
    );
    // Nobody may read the standard error. A thread that reads a file has its lock, and may never give it back.
    let bounded = thread::Builder::new().spawn(|| {
        thread::sleep(PATIENCE);
        fail(watched);
    });
    if bounded.is_ok() {
        // In one piece, as the launcher may end this process at any time.
        let _ = io::stderr().write_all(said.as_bytes());
        // A second call of `exit` may not be made at an exit, so the files are written here.
        // SAFETY: the call may be made at an exit.
        unsafe { libc::fflush(ptr::null_mut()) };
    }
    fail(watched);
}

/// Ends this process, and the job if that can be done.
fn fail(watched: &Watched) -> ! {
    (watched.abort)(libc::EXIT_FAILURE);
    // SAFETY: the call may be made at any time.
    unsafe { libc::_exit(libc::EXIT_FAILURE) }
}
