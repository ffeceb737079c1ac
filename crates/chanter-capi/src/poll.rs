//! Threads without a stack: poll functions of C, as futures.

use std::ffi::{c_int, c_void};
use std::future::Future;
use std::mem;
use std::pin::Pin;
use std::task::{Context, Poll};

use chanter::{Machine, ThreadBuilder, spawn_parasite};

use crate::config::{CAttr, HOST, name};
use crate::current::{self, Current, Locals, Place};
use crate::door::{Done, check, door};
use crate::fiber::{Ending, hand_out, may_spawn};
use crate::machine::{here, machine_of};
use crate::operation;
use crate::thread::{End, Thread};

type PollBody = unsafe extern "C" fn(*mut c_void, *mut CContext) -> c_int;
type Destroy = unsafe extern "C" fn(*mut c_void);

/// The view that a poll function has of its thread.
#[derive(Debug)]
pub struct CContext {
    /// The task context of the poll.
    task: *mut Context<'static>,
    value: *mut c_void,
}

impl CContext {
    /// The task context of the poll under way.
    ///
    /// # Safety
    /// The pointer is null, or was given to the poll function that runs.
    pub(crate) unsafe fn task<'a>(context: *mut Self) -> Done<&'a mut Context<'static>> {
        current::with(|current| match current.map(Current::place) {
            Some(Place::Poll) => Ok(()),
            _ => Err(libc::EPERM),
        })?;
        check(context)?;
        // SAFETY: the caller keeps the contract; the task context lives during the poll.
        Ok(unsafe { &mut *(*context).task })
    }
}

/// The future of a poll body.
struct Body {
    poll: PollBody,
    state: *mut c_void,
    destroy: Option<Destroy>,
    locals: Locals,
    ending: Ending,
    value: *mut c_void,
    has_ended: bool,
}

// SAFETY: the program lets other OS threads poll and destroy the state. The locals belong to the thread only.
unsafe impl Send for Body {}

impl Body {
    /// Ends the thread: destroys what it has left, and tells its joiners.
    fn end(&mut self, end: End) {
        if mem::replace(&mut self.has_ended, true) {
            return;
        }
        let current = Current::new(Place::Callback, &self.ending.thread, &self.locals);
        if let Some(destroy) = self.destroy {
            // SAFETY: the program has given the destructor for this state.
            current::set(&current, || unsafe { destroy(self.state) });
        }
        operation::drop_all(&self.locals);
        current::end_locals(&self.locals);
        self.ending.thread.finish(end);
    }
}

impl Drop for Body {
    fn drop(&mut self) {
        self.end(End::Cancelled);
    }
}

impl Future for Body {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = self.get_mut();
        let requests = this.ending.thread.requests();
        let (is_cancelled, is_suspended) = requests;
        if is_cancelled {
            this.end(End::Cancelled);
            return Poll::Ready(());
        }
        if !is_suspended {
            let mut context = CContext { task: (&raw mut *cx).cast(), value: this.value };
            let current = Current::new(Place::Poll, &this.ending.thread, &this.locals);
            let at = &raw mut context;
            // SAFETY: the program has given the body with its state, and polls do not overlap.
            let done = current::set(&current, || unsafe { (this.poll)(this.state, at) });
            this.value = context.value;
            if done != 0 {
                this.end(End::Value(this.value as u64));
                return Poll::Ready(());
            }
        }
        if !this.ending.thread.set_waker(cx.waker(), requests) {
            // There is a new request.
            cx.waker().wake_by_ref();
        }
        Poll::Pending
    }
}

/// Spawns a poll body. See `chanter.h`.
///
/// # Safety
/// `attr` is null or a struct as long as its size says, whose pointers are null or valid. `poll(state, context)` may be
/// called on any OS thread, and `destroy(state)` once after that. `thread` may be written, or is null for a detached
/// thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn chanter_thread_spawn_poll(
    machine: u64,
    attr: *const CAttr,
    poll: Option<PollBody>,
    state: *mut c_void,
    destroy: Option<Destroy>,
    thread: *mut u64,
) -> c_int {
    door(|| {
        may_spawn()?;
        let poll = poll.ok_or(libc::EINVAL)?;
        // SAFETY: the caller keeps the contract.
        let attr = unsafe { CAttr::read(attr) }?;
        if !attr.stack.is_null() || attr.stack_size != 0 {
            return Err(libc::EINVAL);
        }
        if !attr.is_detached() {
            check(thread)?;
        }
        let made = if machine == 0 { None } else { Some(machine_of(machine)?) };
        let home = if machine == 0 { here() } else { machine };
        // A thread of this interface has a machine.
        if home == 0 || attr.processor != 0 {
            let vps = match &made {
                Some(made) => made.machine.vps(),
                None => Machine::current().ok_or(libc::ESRCH)?.vps(),
            };
            if attr.processor as usize > vps {
                return Err(libc::EINVAL);
            }
        }
        let (handle, held) = Thread::make(home)?;
        // The handle goes out first, since the body may end within this call.
        // SAFETY: the caller keeps the contract.
        unsafe { hand_out(handle, attr.is_detached(), thread) }?;
        let body = Body {
            poll,
            state,
            destroy,
            locals: Locals::default(),
            ending: Ending { thread: held },
            value: std::ptr::null_mut(),
            has_ended: false,
        };
        let attributes = attr.attributes();
        let is_plain = attr.flags & HOST == 0 && attr.processor == 0 && attr.name.is_null();
        if made.is_none() && is_plain && attributes.is_none() {
            spawn_parasite(body);
            return Ok(());
        }
        let mut builder = ThreadBuilder::new();
        // SAFETY: the caller keeps the contract.
        if let Some(name) = unsafe { name(attr.name) } {
            builder = builder.name(name);
        }
        if attr.processor > 0 {
            builder = builder.on(attr.processor as usize - 1);
        }
        if let Some(attributes) = attributes {
            builder = builder.attributes(attributes);
        }
        drop(match &made {
            Some(made) => builder.spawn_in(&made.machine, body),
            None => builder.spawn(body),
        });
        Ok(())
    })
}

/// Has the calling poll body polled again. See `chanter.h`.
///
/// # Safety
/// `context` is null, or was given to the poll function that runs.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn chanter_context_wake(context: *mut CContext) -> c_int {
    door(|| {
        // SAFETY: the caller keeps the contract.
        unsafe { CContext::task(context) }?.waker().wake_by_ref();
        Ok(())
    })
}

/// Sets the value of the calling poll body. See `chanter.h`.
///
/// # Safety
/// `context` is null, or was given to the poll function that runs.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn chanter_context_value(context: *mut CContext, value: *mut c_void) -> c_int {
    door(|| {
        // SAFETY: the caller keeps the contract.
        unsafe {
            CContext::task(context)?;
            (*context).value = value;
        }
        Ok(())
    })
}
