//! Remote service requests (section 3.2 of the Chant paper): functions of C that other processes call by name.

use std::collections::HashMap;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::{ptr, slice};

use chanter_cluster::service;

use super::job::{begun, job};
use super::threads::code_of;
use crate::door::{Done, Limit, check, door, may_block, store, wait};
use crate::fiber::{Plan, may_spawn, spawn_on};
use crate::handle::Held;
use crate::machine::machine_of;
use crate::thread::{End, THREADS, Thread};

type Handler = unsafe extern "C" fn(*mut c_void, *mut CRequest, *const c_char, usize);

/// A handler and its data.
#[derive(Clone, Copy)]
struct Registered {
    handler: Handler,
    data: *mut c_void,
}

// SAFETY: the program lets the threads of its machine call the handler with its data.
unsafe impl Send for Registered {}
// SAFETY: the reason is that of `Send`.
unsafe impl Sync for Registered {}

fn handlers<R>(body: impl FnOnce(&mut HashMap<String, Registered>) -> R) -> R {
    static HANDLERS: OnceLock<Mutex<HashMap<String, Registered>>> = OnceLock::new();
    let handlers = HANDLERS.get_or_init(Mutex::default);
    body(&mut handlers.lock().unwrap_or_else(PoisonError::into_inner))
}

/// `chanter_request`: a request while its handler runs.
pub struct CRequest {
    registered: Registered,
    bytes: Vec<u8>,
    answer: Mutex<Option<Vec<u8>>>,
}

impl std::fmt::Debug for CRequest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CRequest").field("bytes", &self.bytes.len()).finish_non_exhaustive()
    }
}

impl CRequest {
    fn answer(&self) -> std::sync::MutexGuard<'_, Option<Vec<u8>>> {
        self.answer.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The body of the thread that serves a request.
unsafe extern "C" fn serve(request: *mut c_void) -> *mut c_void {
    let request = request.cast::<CRequest>();
    // SAFETY: the thread keeps the request until it has ended, and the program has given the handler with its data.
    unsafe {
        let Registered { handler, data } = (*request).registered;
        let bytes = &(*request).bytes;
        handler(data, request, bytes.as_ptr().cast(), bytes.len());
    }
    ptr::null_mut()
}

#[service]
pub(super) async fn capi_rsr(name: String, bytes: Vec<u8>) -> Result<Vec<u8>, c_int> {
    begun().get().await;
    let registered = handlers(|handlers| handlers.get(&name).copied()).ok_or(libc::ENOSYS)?;
    let request = Arc::new(CRequest { registered, bytes, answer: Mutex::default() });
    let (handle, held) = start(&request)?;
    // A request that is withdrawn leaves no handle behind.
    let _handle = Handle(handle);
    let told = held.told();
    if let Some(told) = told {
        told.await;
    }
    held.end().unwrap_or(End::Cancelled).result()?;
    Ok(request.answer().take().unwrap_or_default())
}

/// A handle of a thread, which is closed in the end.
struct Handle(u64);

impl Drop for Handle {
    fn drop(&mut self) {
        // The thread may have freed it itself.
        drop(THREADS.close(self.0));
    }
}

/// Starts the thread of a request.
fn start(request: &Arc<CRequest>) -> Done<(u64, Held<Thread>)> {
    let job = job()?;
    let made = machine_of(job.machine)?;
    let mut plan = Plan::of(serve, Arc::as_ptr(request).cast_mut().cast());
    plan.keep(request.clone());
    spawn_on(&made.machine, job.machine, (plan, chanter::fiber::Builder::new()))
}

/// Reads the name of a handler.
///
/// # Safety
/// The pointer is null or a string.
unsafe fn name_of(name: *const c_char) -> Done<String> {
    check(name.cast_mut())?;
    // SAFETY: the caller keeps the contract.
    unsafe { CStr::from_ptr(name) }.to_str().map(str::to_owned).map_err(|_| libc::EINVAL)
}

/// Copies bytes of the program's.
///
/// # Safety
/// There are `count` bytes.
unsafe fn bytes_of(buf: *const c_char, count: usize) -> Done<Vec<u8>> {
    match count {
        0 => Ok(Vec::new()),
        _ if buf.is_null() || count > isize::MAX as usize => Err(libc::EINVAL),
        // SAFETY: the caller keeps the contract.
        _ => Ok(unsafe { slice::from_raw_parts(buf.cast::<u8>(), count) }.to_vec()),
    }
}

/// Registers a handler. See `chanter.h`.
///
/// # Safety
/// `name` is a string. `handler` may be called with `data` on any thread of the machine, from now on.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn chanter_rsr_register(
    name: *const c_char,
    handler: Option<Handler>,
    data: *mut c_void,
) -> c_int {
    door(|| {
        may_spawn()?;
        let handler = handler.ok_or(libc::EINVAL)?;
        // SAFETY: the caller keeps the contract.
        let name = unsafe { name_of(name) }?;
        handlers(|handlers| match handlers.contains_key(&name) {
            true => Err(libc::EALREADY),
            false => {
                handlers.insert(name, Registered { handler, data });
                Ok(())
            }
        })
    })
}

/// Calls a handler, here or in another process. See `chanter.h`.
///
/// # Safety
/// `name` is a string, `buf` has `count` bytes, `answer` has as many as `length` says, and both may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn chanter_rsr_call(
    process: c_int,
    name: *const c_char,
    buf: *const c_char,
    count: usize,
    answer: *mut c_char,
    length: *mut usize,
    deadline: u64,
) -> c_int {
    door(|| {
        may_block()?;
        check(length)?;
        // SAFETY: the caller keeps the contract.
        let (name, bytes, room) = unsafe { (name_of(name)?, bytes_of(buf, count)?, length.read()) };
        if answer.is_null() && room != 0 {
            return Err(libc::EINVAL);
        }
        let job = job()?;
        let process = u32::try_from(process).unwrap_or(job.process.number());
        let got = wait(job.call(process, capi_rsr(name, bytes)), Limit::of(deadline))??;
        let taken = got.len().min(room);
        // SAFETY: the caller keeps the contract: the answer's memory has `room` bytes.
        unsafe {
            if taken > 0 {
                ptr::copy_nonoverlapping(got.as_ptr(), answer.cast(), taken);
            }
            store(length, got.len())?;
        }
        if got.len() > room { Err(libc::EMSGSIZE) } else { Ok(()) }
    })
}

/// Sends a request without an answer. See `chanter.h`.
///
/// # Safety
/// `name` is a string, and `buf` has `count` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn chanter_rsr_send(
    process: c_int,
    name: *const c_char,
    buf: *const c_char,
    count: usize,
) -> c_int {
    door(|| {
        may_spawn()?;
        // SAFETY: the caller keeps the contract.
        let (name, bytes) = unsafe { (name_of(name)?, bytes_of(buf, count)?) };
        let job = job()?;
        let process = u32::try_from(process).unwrap_or(job.process.number());
        job.process.at(process).post(capi_rsr(name, bytes)).map_err(|error| code_of(&error))
    })
}

/// Sets the answer of a request. See `chanter.h`.
///
/// # Safety
/// `request` was given to the handler that runs, and `buf` has `count` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn chanter_rsr_reply(
    request: *mut CRequest,
    buf: *const c_char,
    count: usize,
) -> c_int {
    door(|| {
        may_spawn()?;
        check(request)?;
        // SAFETY: the caller keeps the contract.
        let (request, bytes) = unsafe { (&*request, bytes_of(buf, count)?) };
        let mut answer = request.answer();
        if answer.is_some() {
            return Err(libc::EALREADY);
        }
        *answer = Some(bytes);
        Ok(())
    })
}
