//! Global threads: created, joined, cancelled in any process.

use std::ffi::{c_int, c_void};

use chanter_cluster::{CallError, ThreadName};

use super::job::{Global, job, with_global, word_of};
use super::{module, remote};
use crate::config::CAttr;
use crate::door::{Done, Limit, check, door, may_block, store, wait};
use crate::fiber::{Plan, chanter_thread_exit, chanter_yield, spawn_on};
use crate::machine::machine_of;
use crate::thread;

/// `pthread_chanter_t`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct CThread {
    pub(super) pe: c_int,
    pub(super) process: c_int,
    pub(super) thread: u64,
}

impl CThread {
    pub(super) fn of(name: ThreadName) -> Self {
        Self { pe: name.pe.0 as c_int, process: name.process.0 as c_int, thread: word_of(name) }
    }

    /// Reads a thread that C names.
    ///
    /// # Safety
    /// The pointer is null, or may be read.
    pub(super) unsafe fn read(from: *const Self) -> Done<Self> {
        check(from.cast_mut())?;
        // SAFETY: the caller keeps the contract, and the pointer is not null.
        Ok(unsafe { from.read() })
    }
}

type Body = unsafe extern "C" fn(*mut c_void) -> *mut c_void;

/// The value of a thread that was cancelled.
const CANCELED: u64 = u64::MAX;

/// Creates a thread in this process.
pub(super) fn create_here(body: Body, argument: *mut c_void, attr: &CAttr) -> Done<ThreadName> {
    let job = job()?;
    let inbox = job.process.inbox().map_err(|_| libc::ENOMEM)?;
    let name = inbox.name();
    let made = machine_of(job.machine)?;
    if attr.processor as usize > made.machine.vps() {
        return Err(libc::EINVAL);
    }
    // SAFETY: the name of the attributes was checked by the caller.
    let (mut plan, builder) = unsafe { Plan::with(body, argument, attr) };
    let is_detached = attr.is_detached();
    // The handle is noted before the thread begins, since it may tell its name to one who joins it at once.
    plan.global(Box::new(Global::new(inbox)), move |handle| {
        if is_detached {
            drop(thread::THREADS.close(handle));
        } else {
            job.insert(name, handle);
        }
    });
    spawn_on(&made.machine, job.machine, (plan, builder))?;
    Ok(name)
}

/// The code of a request that could not be made.
pub(super) fn code_of(error: &CallError) -> c_int {
    match error {
        CallError::NoSuchProcess(_) => libc::EINVAL,
        CallError::Lost { .. } => libc::EHOSTDOWN,
        CallError::Full(_) => libc::EAGAIN,
        CallError::GivenUp => libc::ECANCELED,
        _ => libc::EPROTO,
    }
}

/// The answer of another process, which may be anything.
pub(super) fn answered<T>(answer: Result<Done<T>, CallError>) -> Done<T> {
    let answer = answer.map_err(|error| code_of(&error))?;
    answer.map_err(|code| if CODES.contains(&code) { code } else { libc::EPROTO })
}

/// The codes that services give, all of which are in the header.
const CODES: [c_int; 14] = [
    libc::EAGAIN,
    libc::EALREADY,
    libc::EBUSY,
    libc::ECANCELED,
    libc::EDEADLK,
    libc::EFAULT,
    libc::EHOSTDOWN,
    libc::EINVAL,
    libc::ENOEXEC,
    libc::ENOMEM,
    libc::ENOSYS,
    libc::EPERM,
    libc::EPIPE,
    libc::ESRCH,
];

/// The name of a thread that another process has made. It must be one of that process.
fn named(name: ThreadName, to: ThreadName) -> Done<ThreadName> {
    if (name.pe, name.process) == (to.pe, to.process) { Ok(name) } else { Err(libc::EPROTO) }
}

/// Creates a global thread. See `chanter.h`.
///
/// # Safety
/// `thread` may be written. `attr` is null or a struct as long as its size says, whose pointers are null or valid.
/// `start_routine(arg)` may be called on another OS thread, or in the other process.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_chanter_create(
    thread: *mut CThread,
    attr: *const CAttr,
    start_routine: Option<Body>,
    arg: *mut c_void,
    pe: c_int,
    process: c_int,
) -> c_int {
    door(|| {
        may_block()?;
        check(thread)?;
        let body = start_routine.ok_or(libc::EINVAL)?;
        // SAFETY: the caller keeps the contract.
        let attr = unsafe { CAttr::read(attr) }?;
        let job = job()?;
        let to = job.name_of(&CThread { pe, process, thread: 0 })?;
        if pe >= 0 && pe as u32 != to.pe.0 {
            return Err(libc::EINVAL);
        }
        let name = if job.is_here(to) {
            create_here(body, arg, &attr)?
        } else {
            if !attr.stack.is_null() {
                return Err(libc::EINVAL);
            }
            let place = module::place_of(body as usize).ok_or(libc::ENOEXEC)?;
            let asked = remote::Asked::new(place, arg as u64, &attr);
            let answer = wait(job.process.at(to.process.0).call(remote::capi_create(asked)), Limit::Forever)?;
            named(answered(answer)?, to)?
        };
        // SAFETY: the caller keeps the contract.
        unsafe { store(thread, CThread::of(name)) }
    })
}

/// The value of an ended thread for its joiner.
pub(super) fn status_of(ended: Done<u64>) -> Done<u64> {
    match ended {
        Err(libc::ECANCELED) => Ok(CANCELED),
        ended => ended,
    }
}

/// Waits for a global thread. See `chanter.h`.
///
/// # Safety
/// `thread` may be read. `status` is null or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_chanter_join(thread: *const CThread, status: *mut *mut c_void) -> c_int {
    door(|| {
        may_block()?;
        let job = job()?;
        // SAFETY: the caller keeps the contract.
        let thread = unsafe { CThread::read(thread) }?;
        let name = job.name_of(&thread)?;
        let value = if job.is_here(name) {
            let handle = job.handle_of(thread.thread)?;
            if thread::is_self(handle) {
                return Err(libc::EDEADLK);
            }
            thread::thread_of(handle)?.wait(Limit::Forever)?;
            status_of(thread::take(job.remove(thread.thread)?))?
        } else {
            let ask = remote::capi_join(thread.thread);
            let answer = wait(job.process.at(name.process.0).call(ask), Limit::Forever)?;
            answered(answer)?
        };
        // SAFETY: the caller keeps the contract.
        if status.is_null() { Ok(()) } else { unsafe { store(status, value as *mut c_void) } }
    })
}

/// Asks for something that has no value: detach, or cancel.
unsafe fn request(thread: *const CThread, what: remote::What) -> c_int {
    door(|| {
        may_block()?;
        let job = job()?;
        // SAFETY: the caller keeps the contract.
        let thread = unsafe { CThread::read(thread) }?;
        let name = job.name_of(&thread)?;
        if job.is_here(name) {
            return remote::perform(what, thread.thread);
        }
        let ask = remote::capi_request(what, thread.thread);
        let answer = wait(job.process.at(name.process.0).call(ask), Limit::Forever)?;
        answered(answer)
    })
}

/// Detaches a global thread. See `chanter.h`.
///
/// # Safety
/// `thread` may be read.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_chanter_detach(thread: *const CThread) -> c_int {
    // SAFETY: the caller keeps the contract.
    unsafe { request(thread, remote::What::Detach) }
}

/// Asks a global thread to exit. See `chanter.h`.
///
/// # Safety
/// `thread` may be read.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_chanter_cancel(thread: *const CThread) -> c_int {
    // SAFETY: the caller keeps the contract.
    unsafe { request(thread, remote::What::Cancel) }
}

/// Ends the calling thread. See `chanter.h`.
#[unsafe(no_mangle)]
pub extern "C" fn pthread_chanter_exit(value_ptr: *mut c_void) -> ! {
    chanter_thread_exit(value_ptr)
}

/// Lets other threads run. See `chanter.h`.
#[unsafe(no_mangle)]
pub extern "C" fn pthread_chanter_yield() {
    let _ = chanter_yield();
}

/// Returns the name of the calling thread. See `chanter.h`.
#[unsafe(no_mangle)]
pub extern "C" fn pthread_chanter_self() -> *mut CThread {
    let mut name = std::ptr::null_mut();
    let _ = door(|| {
        name = with_global(|_, global| Ok(global.name.get()))?;
        Ok(())
    });
    name
}

/// Returns the local thread. See `chanter.h`.
///
/// # Safety
/// `thread` is null or may be read.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_chanter_pthread(thread: *const CThread) -> u64 {
    let mut local = 0;
    let _ = door(|| {
        let job = job()?;
        // SAFETY: the caller keeps the contract.
        let thread = unsafe { CThread::read(thread) }?;
        if job.is_here(job.name_of(&thread)?) {
            local = job.handle_of(thread.thread)?;
        }
        Ok(())
    });
    local
}

/// Returns the processing element of a thread. See `chanter.h`.
///
/// # Safety
/// `thread` is null or may be read.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_chanter_pe(thread: *const CThread) -> c_int {
    // SAFETY: the caller keeps the contract.
    unsafe { CThread::read(thread) }.map_or(-1, |thread| thread.pe)
}

/// Returns the process of a thread. See `chanter.h`.
///
/// # Safety
/// `thread` is null or may be read.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_chanter_process(thread: *const CThread) -> c_int {
    // SAFETY: the caller keeps the contract.
    unsafe { CThread::read(thread) }.map_or(-1, |thread| thread.process)
}

/// Returns whether both are the same thread. See `chanter.h`.
///
/// # Safety
/// Each pointer is null or may be read.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_chanter_equal(t1: *const CThread, t2: *const CThread) -> c_int {
    // SAFETY: the caller keeps the contract.
    let (one, other) = unsafe { (CThread::read(t1), CThread::read(t2)) };
    c_int::from(one.is_ok_and(|one| other == Ok(one)))
}

#[cfg(all(test, not(loom)))]
mod tests {
    use chanter_cluster::engine::{NodeId, ProcessId};
    use chanter_cluster::wire::Slot;

    use super::*;

    #[test]
    fn answers_of_other_processes_are_checked() {
        for code in [0, -1, -libc::EINVAL, c_int::MIN, c_int::MAX, libc::EPROTO, libc::EIO] {
            assert_eq!(answered::<()>(Ok(Err(code))), Err(libc::EPROTO));
        }
        assert_eq!(answered(Ok(Ok(7))), Ok(7));
        assert_eq!(answered::<()>(Ok(Err(libc::ECANCELED))), Err(libc::ECANCELED));
        let name = |pe, process| ThreadName {
            pe: NodeId(pe),
            process: ProcessId(process),
            thread: Slot { index: 3, generation: 4 },
        };
        assert_eq!(named(name(1, 2), name(1, 2)), Ok(name(1, 2)));
        assert_eq!(named(name(0, 2), name(1, 2)), Err(libc::EPROTO));
        assert_eq!(named(name(1, 0), name(1, 2)), Err(libc::EPROTO));
    }
}
