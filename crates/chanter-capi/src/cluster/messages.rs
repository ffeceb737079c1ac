//! Messages between global threads.

use std::ffi::{c_char, c_int};
use std::{ptr, slice};

use chanter_cluster::{
    ANY_TAG, ANYONE, AsBuffer, Buffer, Irecv, Received, RecvError, SendError, Source, Tags,
};

use super::job::{Global, Job, with_global};
use super::threads::CThread;
use crate::door::{Done, Limit, check, door, store, wait};

/// A posted receive, and where its message goes.
pub(crate) struct Posted {
    generation: c_int,
    receive: Option<(Irecv<Buffer<u8>, AsBuffer>, Room)>,
}

/// The most receives that a thread may have posted at a time.
const MOST: usize = 1 << 12;
/// The generations of a place of a posted receive.
const GENERATIONS: c_int = 1 << 18;

/// The caller's memory for a message, and for the name of its sender.
#[derive(Clone, Copy)]
struct Room {
    buffer: *mut c_char,
    count: usize,
    thread: *mut CThread,
}

impl Room {
    fn new(buffer: *mut c_char, count: c_int, thread: *mut CThread) -> Done<Self> {
        check(thread)?;
        let count = usize::try_from(count).map_err(|_| libc::EINVAL)?;
        if buffer.is_null() && count != 0 {
            return Err(libc::EINVAL);
        }
        Ok(Self { buffer, count, thread })
    }

    /// Takes a message over.
    ///
    /// # Safety
    /// The memory is as the caller of the function of the interface has promised.
    unsafe fn take(&self, received: Result<Received<Buffer<u8>>, RecvError>) -> Done {
        let message = received.map_err(|error| match error {
            RecvError::Lost(..) => libc::EHOSTDOWN,
            RecvError::Closed => libc::EPIPE,
            _ => libc::EBADMSG,
        })?;
        let bytes = &message.value[..];
        let length = bytes.len().min(self.count);
        // SAFETY: the caller keeps the contract: the buffer has `count` bytes.
        unsafe {
            if length > 0 {
                ptr::copy_nonoverlapping(bytes.as_ptr(), self.buffer.cast(), length);
            }
            store(self.thread, CThread::of(message.from))?;
        }
        if bytes.len() > self.count { Err(libc::EMSGSIZE) } else { Ok(()) }
    }
}

fn tags(type_: c_int) -> Tags {
    u32::try_from(type_).map_or(ANY_TAG, Tags::Tag)
}

/// The sender that a receive wants.
fn source(job: &Job, thread: &CThread) -> Done<Source> {
    if thread.process < 0 { Ok(ANYONE) } else { job.name_of(thread).map(Source::Thread) }
}

/// Sends bytes. See `chanter.h`.
///
/// # Safety
/// `buf` has `count` bytes, and `thread` may be read.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_chanter_send(
    type_: c_int,
    buf: *const c_char,
    count: c_int,
    thread: *const CThread,
) -> c_int {
    door(|| {
        let tag = u32::try_from(type_).map_err(|_| libc::EINVAL)?;
        let count = usize::try_from(count).map_err(|_| libc::EINVAL)?;
        if buf.is_null() && count != 0 {
            return Err(libc::EINVAL);
        }
        // SAFETY: the caller keeps the contract.
        let (to, bytes): (_, &[u8]) = unsafe {
            let bytes = if count == 0 { &[][..] } else { slice::from_raw_parts(buf.cast(), count) };
            (CThread::read(thread)?, bytes)
        };
        let event = with_global(|job, global| {
            Ok(global.inbox.send_buffer(job.name_of(&to)?, tag, Buffer::copied_from(bytes)))
        })?;
        wait(event, Limit::Forever)?.map_err(|error| match error {
            SendError::NoSuchProcess(_) => libc::EINVAL,
            SendError::Lost(..) => libc::EHOSTDOWN,
            SendError::Gone(_) => libc::ESRCH,
            _ => libc::EMSGSIZE,
        })
    })
}

/// Receives bytes. See `chanter.h`.
///
/// # Safety
/// `buf` has `count` bytes that may be written, and `thread` may be read and written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_chanter_recv(
    type_: c_int,
    buf: *mut c_char,
    count: c_int,
    thread: *mut CThread,
) -> c_int {
    door(|| {
        let room = Room::new(buf, count, thread)?;
        // SAFETY: the caller keeps the contract.
        let from = unsafe { CThread::read(thread) }?;
        let event =
            with_global(|job, global| Ok(global.inbox.recv_buffer::<u8>(source(job, &from)?, tags(type_))))?;
        let received = wait(event, Limit::Forever)?;
        // SAFETY: the caller keeps the contract.
        unsafe { room.take(received) }
    })
}

/// The posted receives of the calling thread.
///
/// # Safety
/// `body` does not call this function.
unsafe fn with_posted<R>(global: &Global, body: impl FnOnce(&mut Vec<Posted>) -> R) -> R {
    // SAFETY: only the thread itself uses them, and `body` does not come here.
    body(unsafe { &mut *global.posted.get() })
}

/// Posts a receive. See `chanter.h`.
///
/// # Safety
/// `handle` may be written. `buf` has `count` bytes that may be written, and `thread` may be read and written, until the
/// receive is complete.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_chanter_irecv(
    handle: *mut c_int,
    type_: c_int,
    buf: *mut c_char,
    count: c_int,
    thread: *mut CThread,
) -> c_int {
    door(|| {
        check(handle)?;
        let room = Room::new(buf, count, thread)?;
        // SAFETY: the caller keeps the contract.
        let from = unsafe { CThread::read(thread) }?;
        let number = with_global(|job, global| {
            let from = source(job, &from)?;
            // SAFETY: posting a receive calls no code of the program's.
            unsafe {
                with_posted(global, |posted| {
                    let free = posted.iter().position(|place| place.receive.is_none());
                    let index = free.unwrap_or(posted.len());
                    if index >= MOST {
                        return Err(libc::ENOMEM);
                    }
                    if free.is_none() {
                        posted.push(Posted { generation: 0, receive: None });
                    }
                    let place = &mut posted[index];
                    place.generation = (place.generation + 1) % GENERATIONS;
                    place.receive = Some((global.inbox.irecv_buffer(from, tags(type_)), room));
                    Ok(place.generation << 12 | index as c_int)
                })
            }
        })?;
        // SAFETY: the caller keeps the contract.
        unsafe { store(handle, number) }
    })
}

/// The place of a posted receive that is not complete.
fn place_of(posted: &mut [Posted], handle: c_int) -> Done<&mut Posted> {
    let index = usize::try_from(handle).map_err(|_| libc::EINVAL)? & (MOST - 1);
    let place = posted.get_mut(index).ok_or(libc::EINVAL)?;
    if place.generation == handle >> 12 && place.receive.is_some() { Ok(place) } else { Err(libc::EINVAL) }
}

/// Tests a posted receive. See `chanter.h`.
#[unsafe(no_mangle)]
pub extern "C" fn pthread_chanter_msgtest(handle: c_int) -> c_int {
    let mut is_done = false;
    let code = door(|| {
        let done = with_global(|_, global| {
            // SAFETY: a test calls no code of the program's.
            unsafe {
                with_posted(global, |posted| {
                    let place = place_of(posted, handle)?;
                    let Some((receive, room)) = &mut place.receive else { return Err(libc::EINVAL) };
                    let (room, tested) = (*room, receive.test());
                    let received = match tested {
                        Ok(None) => return Ok(None),
                        Ok(Some(message)) => Ok(message),
                        Err(error) => Err(error),
                    };
                    Ok(Some((place.receive.take(), room, received)))
                })
            }
        })?;
        let Some((_receive, room, received)) = done else { return Ok(()) };
        is_done = true;
        // SAFETY: the program has promised it when it posted the receive.
        unsafe { room.take(received) }
    });
    if code == 0 { c_int::from(is_done) } else { -code }
}

/// Waits for a posted receive. See `chanter.h`.
#[unsafe(no_mangle)]
pub extern "C" fn pthread_chanter_msgwait(handle: c_int) -> c_int {
    door(|| {
        let taken = with_global(|_, global| {
            // SAFETY: nothing of the program's is called.
            unsafe { with_posted(global, |posted| Ok(place_of(posted, handle)?.receive.take())) }
        })?;
        let (receive, room) = taken.ok_or(libc::EINVAL)?;
        let received = wait(receive, Limit::Forever)?;
        // SAFETY: the program has promised it when it posted the receive.
        unsafe { room.take(received) }
    })
}
