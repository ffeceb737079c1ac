//! Threads with a stack: fibers whose body is a C function.

use std::ffi::{c_int, c_void};
use std::ptr::NonNull;

use chanter::{Machine, fiber};

use crate::config::{CAttr, name};
use crate::current::{self, Current, Locals, Place};
use crate::door::{Done, Limit, check, door, may_block, store, wait};
use crate::handle::Held;
use crate::machine::{here, machine_of};
use crate::thread::{End, THREADS, Thread};

/// The body of a thread with a stack.
pub type Body = unsafe extern "C" fn(*mut c_void) -> *mut c_void;

/// A C body and its attributes, as they are spawned.
pub(crate) struct Plan {
    body: Body,
    argument: *mut c_void,
    is_lent: bool,
    #[cfg(feature = "cluster")]
    global: Option<Box<crate::cluster::Global>>,
    /// Is given the handle before the body begins.
    #[cfg(feature = "cluster")]
    noted: Option<Box<dyn FnOnce(u64)>>,
    /// The value that the argument points to. It lives until the body has ended or was left.
    #[cfg(feature = "cluster")]
    kept: Option<std::sync::Arc<dyn std::any::Any + Send + Sync>>,
}

// SAFETY: the program lets other OS threads call its body with the argument. The name belongs to the new thread only.
unsafe impl Send for Plan {}

impl Plan {
    /// A body without attributes.
    pub(crate) fn of(body: Body, argument: *mut c_void) -> Self {
        Self {
            body,
            argument,
            is_lent: false,
            #[cfg(feature = "cluster")]
            global: None,
            #[cfg(feature = "cluster")]
            noted: None,
            #[cfg(feature = "cluster")]
            kept: None,
        }
    }

    /// A body with attributes.
    ///
    /// # Safety
    /// The name is null or a string.
    pub(crate) unsafe fn with(body: Body, argument: *mut c_void, attr: &CAttr) -> (Self, fiber::Builder) {
        let (mut plan, mut builder) = (Self::of(body, argument), fiber::Builder::new());
        // SAFETY: the caller keeps the contract.
        if let Some(name) = unsafe { name(attr.name) } {
            builder = builder.name(name);
        }
        if attr.processor > 0 {
            builder = builder.on(attr.processor as usize - 1);
        }
        if attr.stack_size > 0 {
            builder = builder.stack_size(attr.stack_size);
        }
        if let Some(stack) = NonNull::new(attr.stack) {
            // SAFETY: the program lends the memory until the thread was joined, and that waits for its fiber.
            builder = unsafe { builder.stack_memory(stack.cast(), attr.stack_size) };
            plan.is_lent = true;
        }
        if let Some(attributes) = attr.attributes() {
            builder = builder.attributes(attributes);
        }
        (plan, builder)
    }

    #[cfg(feature = "cluster")]
    pub(crate) fn keep(&mut self, value: std::sync::Arc<dyn std::any::Any + Send + Sync>) {
        self.kept = Some(value);
    }

    #[cfg(feature = "cluster")]
    pub(crate) fn global(&mut self, global: Box<crate::cluster::Global>, noted: impl FnOnce(u64) + 'static) {
        self.global = Some(global);
        self.noted = Some(Box::new(noted));
    }
}

/// The end of a thread, which is told however the thread ends.
pub(crate) struct Ending {
    pub(crate) thread: Held<Thread>,
}

impl Drop for Ending {
    fn drop(&mut self) {
        // Nothing happens if the thread has told its end.
        self.thread.finish(End::Cancelled);
    }
}

fn perform(thread: &Held<Thread>, plan: Plan) -> End {
    let Plan { body, argument, .. } = plan;
    let locals = Locals::default();
    #[cfg(feature = "cluster")]
    if let Some(global) = plan.global {
        // The locals are new, so there is no name yet.
        drop(locals.made().global.set(global));
    }
    #[cfg(feature = "cluster")]
    let _kept = plan.kept;
    let current = Current::new(Place::Fiber, thread, &locals);
    // SAFETY: the program has given the body with its argument, and this stack is the thread's.
    let end = current::set(&current, || unsafe { current.call(body, argument) });
    // Destructors of keys are the program's, and cannot unwind.
    current::end_locals(&locals);
    end
}

/// Spawns a fiber on a machine, or on the caller's. Returns its handle, and a reference: the body may free the handle.
fn start(
    on: Option<&Machine>,
    machine: u64,
    #[cfg_attr(not(feature = "cluster"), expect(unused_mut))] mut plan: Plan,
    builder: fiber::Builder,
) -> Done<(u64, Held<Thread>)> {
    let (handle, thread) = Thread::make(machine)?;
    let known = thread.again();
    #[cfg(feature = "cluster")]
    if let Some(noted) = plan.noted.take() {
        noted(handle);
    }
    if plan.is_lent {
        start_lent(on, builder, thread, plan);
        return Ok((handle, known));
    }
    let ending = Ending { thread };
    let body = move || {
        // The plan is moved as a whole, since it is what may be sent.
        let (ending, plan) = (ending, plan);
        let end = perform(&ending.thread, plan);
        ending.thread.finish(end);
    };
    let fiber = match on {
        Some(machine) => builder.spawn_in(machine, body),
        None => builder.spawn(body),
    };
    known.set_fiber(fiber);
    Ok((handle, known))
}

/// Spawns a fiber on the program's stack. Its end is told when its stack is no longer in use, by a thread that joins it.
/// So it takes requests, and no joins.
fn start_lent(on: Option<&Machine>, builder: fiber::Builder, thread: Held<Thread>, plan: Plan) {
    let (ending, known) = (Ending { thread: thread.again() }, thread.again());
    let body = move || {
        let (thread, plan) = (thread, plan);
        perform(&thread, plan)
    };
    let fiber = match on {
        Some(machine) => builder.spawn_in(machine, body),
        None => builder.spawn(body),
    };
    known.set_lent(fiber.any());
    let told = async move {
        let end = match fiber.join().await {
            Ok(end) => end,
            Err(error) if error.is_panic() => End::Panicked,
            Err(_) => End::Cancelled,
        };
        ending.thread.finish(end);
    };
    drop(match on {
        Some(machine) => machine.spawn(told),
        None => chanter::spawn(told),
    });
}

/// Spawns a fiber on a machine.
pub(crate) fn spawn_on(
    machine: &Machine,
    handle: u64,
    (plan, builder): (Plan, fiber::Builder),
) -> Done<(u64, Held<Thread>)> {
    start(Some(machine), handle, plan, builder)
}

/// Spawns a fiber on the machine of that handle, or on the caller's.
pub(crate) fn spawn(machine: u64, plan: (Plan, fiber::Builder), processor: c_int) -> Done<u64> {
    if machine == 0 {
        let home = here();
        // A thread of this interface has a machine.
        if home == 0 || processor != 0 {
            let around = Machine::current().ok_or(libc::ESRCH)?;
            if processor as usize > around.vps() {
                return Err(libc::EINVAL);
            }
        }
        return start(None, home, plan.0, plan.1).map(|(handle, _)| handle);
    }
    let made = machine_of(machine)?;
    if processor as usize > made.machine.vps() {
        return Err(libc::EINVAL);
    }
    spawn_on(&made.machine, machine, plan).map(|(handle, _)| handle)
}

/// Whether a thread may be spawned at the caller's place.
pub(crate) fn may_spawn() -> Done {
    current::with(|current| {
        let is_callback = current.is_some_and(|current| current.place() == Place::Callback);
        if is_callback { Err(libc::EPERM) } else { Ok(()) }
    })
}

/// Gives the handle of a new thread to the program, or frees it.
///
/// # Safety
/// `thread` is null or may be written.
pub(crate) unsafe fn hand_out(handle: u64, is_detached: bool, thread: *mut u64) -> Done {
    if is_detached {
        drop(THREADS.close(handle));
        return Ok(());
    }
    // SAFETY: the caller keeps the contract.
    unsafe { store(thread, handle) }
}

/// Spawns a thread with a stack. See `chanter.h`.
///
/// # Safety
/// `attr` is null or a struct as long as its size says, whose pointers are null or valid. `body(arg)` may be called on
/// another OS thread. `thread` may be written, or is null for a detached thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn chanter_thread_spawn(
    machine: u64,
    attr: *const CAttr,
    body: Option<Body>,
    arg: *mut c_void,
    thread: *mut u64,
) -> c_int {
    door(|| {
        may_spawn()?;
        let body = body.ok_or(libc::EINVAL)?;
        // SAFETY: the caller keeps the contract.
        let attr = unsafe { CAttr::read(attr) }?;
        if !attr.is_detached() {
            check(thread)?;
        }
        // SAFETY: the caller keeps the contract.
        let plan = unsafe { Plan::with(body, arg, &attr) };
        let handle = spawn(machine, plan, attr.processor)?;
        // SAFETY: the caller keeps the contract.
        unsafe { hand_out(handle, attr.is_detached(), thread) }
    })
}

/// Ends the calling thread. See `chanter.h`.
#[unsafe(no_mangle)]
pub extern "C" fn chanter_thread_exit(value: *mut c_void) -> ! {
    current::exit(End::Value(value as u64));
    eprintln!("chanter: chanter_thread_exit was called outside of a thread with a stack");
    std::process::abort();
}

/// Lets other threads run. See `chanter.h`.
#[unsafe(no_mangle)]
pub extern "C" fn chanter_yield() -> c_int {
    door(|| {
        may_block()?;
        fiber::yield_now();
        Ok(())
    })
}

/// Waits until a deadline. See `chanter.h`.
#[unsafe(no_mangle)]
pub extern "C" fn chanter_sleep(deadline: u64) -> c_int {
    door(|| match Limit::of(deadline) {
        Limit::Now => Ok(()),
        Limit::At(time) => wait(chanter::at(time), Limit::Forever),
        Limit::Forever => wait(chanter::never::<()>(), Limit::Forever),
    })
}
