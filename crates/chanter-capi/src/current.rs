//! The thread that calls, and the place where the call is made.

use std::cell::{Cell, OnceCell, RefCell};
use std::ffi::c_void;
use std::mem::ManuallyDrop;
use std::ptr;

use chanter::base::stack_local;

use crate::handle::Held;
use crate::keys;
use crate::leave;
use crate::thread::{End, Thread};

/// Where a call is made; elsewhere is an OS thread, or a thread of another language.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Fiber,
    Poll,
    Callback,
}

/// The values that a thread keeps for itself. Only the thread uses them. Most threads have none.
#[derive(Default)]
pub(crate) struct Locals {
    /// A pending operation of a poll body, which mostly has no other; 0: none.
    operation: Cell<u64>,
    made: OnceCell<Box<Made>>,
}

impl Locals {
    /// The values, which are made now if there are none.
    pub(crate) fn made(&self) -> &Made {
        self.made.get_or_init(Box::default)
    }

    /// Whether there may be values.
    pub(crate) fn has_any(&self) -> bool {
        self.made.get().is_some()
    }

    /// Notes a pending operation.
    pub(crate) fn add_operation(&self, handle: u64) {
        if self.operation.get() == 0 {
            self.operation.set(handle);
        } else {
            self.made().operations.borrow_mut().push(handle);
        }
    }

    /// Forgets an operation.
    pub(crate) fn remove_operation(&self, handle: u64) {
        if self.operation.get() == handle {
            self.operation.set(0);
        } else if self.has_any() {
            self.made().operations.borrow_mut().retain(|other| *other != handle);
        }
    }

    /// Takes out all pending operations.
    pub(crate) fn take_operations(&self) -> impl Iterator<Item = u64> + use<> {
        let first = Some(self.operation.take()).filter(|handle| *handle != 0);
        let others = self.made.get().map(|made| made.operations.take());
        first.into_iter().chain(others.into_iter().flatten())
    }
}

/// The values of a thread.
#[derive(Default)]
pub(crate) struct Made {
    pub(crate) keys: RefCell<Vec<(u64, *mut c_void)>>,
    pub(crate) cleanup: RefCell<Vec<(unsafe extern "C" fn(*mut c_void), *mut c_void)>>,
    operations: RefCell<Vec<u64>>,
    #[cfg(feature = "cluster")]
    pub(crate) global: OnceCell<Box<crate::cluster::Global>>,
}

/// A thread while it runs, on its stack.
pub(crate) struct Current {
    place: Place,
    thread: *const Held<Thread>,
    locals: *const Locals,
    /// The place to go back to when the thread exits. It is written by `leave::enter`.
    way_out: Cell<leave::Place>,
    end: Cell<Option<End>>,
}

impl Current {
    pub(crate) fn new(place: Place, thread: &Held<Thread>, locals: &Locals) -> Self {
        Self { place, thread, locals, way_out: Cell::new(ptr::null_mut()), end: Cell::new(None) }
    }

    pub(crate) fn place(&self) -> Place {
        self.place
    }

    /// The thread; none in a callback.
    pub(crate) fn thread(&self) -> Option<&Held<Thread>> {
        // SAFETY: the thread's reference lives while it runs, and so longer than this.
        unsafe { self.thread.as_ref() }
    }

    pub(crate) fn locals(&self) -> Option<&Locals> {
        // SAFETY: the thread's locals live while it runs, and so longer than this.
        unsafe { self.locals.as_ref() }
    }

    /// Calls a C body on this stack, and returns how it ended. The body may be left from any depth.
    ///
    /// # Safety
    /// The call `body(argument)` is sound, and this is the current thread.
    pub(crate) unsafe fn call(
        &self,
        body: unsafe extern "C" fn(*mut c_void) -> *mut c_void,
        argument: *mut c_void,
    ) -> End {
        let mut frame = Frame { body, argument, end: &self.end };
        // SAFETY: `begin` takes a frame, and the place to go back to may be written.
        unsafe { leave::enter(begin, (&raw mut frame).cast(), self.way_out.as_ptr()) };
        self.end.take().unwrap_or(End::Cancelled)
    }

    /// Runs the cleanup handlers and leaves the stack. A handler that exits runs those that are left. Returns if the
    /// thread has no stack of its own.
    fn exit(&self, end: End) {
        if self.place != Place::Fiber {
            return;
        }
        self.end.set(Some(self.end.get().unwrap_or(end)));
        self.clean_up();
        // SAFETY: `enter` runs further out on this stack, since the thread has not ended. The callers in between are
        // C functions, and doors that have nothing to drop.
        unsafe { leave::leave(self.way_out.get()) }
    }

    fn clean_up(&self) {
        let Some(locals) = self.locals().filter(|locals| locals.has_any()) else { return };
        loop {
            let last = locals.made().cleanup.borrow_mut().pop();
            let Some((handler, argument)) = last else { return };
            // SAFETY: the program has pushed the handler with its argument, and did not pop it.
            unsafe { handler(argument) };
        }
    }
}

struct Frame {
    body: unsafe extern "C" fn(*mut c_void) -> *mut c_void,
    argument: *mut c_void,
    end: *const Cell<Option<End>>,
}

unsafe extern "C" fn begin(frame: *mut c_void) {
    // SAFETY: `call` passes its frame, which lives until this returns or is left.
    let frame = unsafe { &*frame.cast::<Frame>() };
    // SAFETY: the contract of `call`.
    let value = unsafe { (frame.body)(frame.argument) };
    // SAFETY: the cell belongs to the current thread, which lives.
    unsafe { (*frame.end).set(Some(End::Value(value as u64))) };
}

/// Runs `body` with the current thread, if the caller is one of this interface.
#[inline(always)]
pub(crate) fn with<R>(body: impl FnOnce(Option<&Current>) -> R) -> R {
    stack_local::with(body)
}

/// Makes a thread the current one on this stack.
#[inline(always)]
pub(crate) fn set<R>(current: &Current, body: impl FnOnce() -> R) -> R {
    stack_local::set(current, body)
}

/// Runs a callback of the program's.
pub(crate) fn callback<R>(body: impl FnOnce() -> R) -> R {
    let current = Current {
        place: Place::Callback,
        thread: ptr::null(),
        locals: ptr::null(),
        way_out: Cell::new(ptr::null_mut()),
        end: Cell::new(None),
    };
    set(&current, body)
}

/// Whether the calling fiber, which is being ended, can leave its stack: it has one, and does not leave it already.
pub(crate) fn can_leave() -> bool {
    with(|current| {
        current.is_some_and(|current| current.place == Place::Fiber && current.end.get().is_none())
    })
}

/// The calling fiber is being ended: it leaves. Returns elsewhere, and if it leaves already.
pub(crate) fn cancelled() {
    if can_leave() {
        exit(End::Cancelled);
    }
}

/// Ends the calling thread, if it has a stack of its own.
pub(crate) fn exit(end: End) {
    // The stack is left from outside of `with`, which has nothing to drop.
    let current = with(|current| current.map(ptr::from_ref));
    if let Some(current) = current {
        // SAFETY: the current thread lives further out on this stack.
        ManuallyDrop::new(unsafe { &*current }).exit(end);
    }
}

/// Runs the destructors of a thread's keys.
pub(crate) fn end_locals(locals: &Locals) {
    if !locals.has_any() {
        return;
    }
    for (key, value) in locals.made().keys.take() {
        keys::destroy(key, value);
    }
}
