//! Pending operations of poll bodies, which keep their registrations from one poll to the next.

use std::ffi::c_int;
use std::future::Future;
use std::mem;
use std::pin::Pin;
use std::sync::{Mutex, PoisonError};
use std::task::Poll;

use chanter::{BoxEvent, Event};

use crate::channel::{Channel, channel_of, try_recv, try_send};
use crate::choice::{Built, CCase, Cases, Chosen, Lent};
use crate::current::{self, Locals};
use crate::door::{Done, Limit, check, door, once, store};
use crate::handle::{Held, Kind, Table};
use crate::poll::CContext;

/// A synchronization that has begun.
type Synchronizing = Pin<Box<dyn Future<Output = Option<Chosen>> + Send>>;

/// The functions that begin operations. Each goes on only with its own.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Recv,
    Send,
    Choice,
}

/// A choice that was begun. The future is dropped before what it borrows.
struct Pending {
    future: Synchronizing,
    lent: Lent,
    form: Form,
    count: usize,
}

struct Operation {
    /// The thread that has begun it: the address of its locals.
    owner: usize,
    /// Taken out while it is polled, since code of others may run then.
    pending: Mutex<Option<Pending>>,
}

static OPERATIONS: Table<Operation> = Table::new(Kind::Operation);

impl Operation {
    fn take(&self) -> Option<Pending> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn put(&self, pending: Pending) {
        *self.pending.lock().unwrap_or_else(PoisonError::into_inner) = Some(pending);
    }
}

fn with_locals<R>(body: impl FnOnce(&Locals) -> R) -> Done<R> {
    current::with(|current| Ok(body(current.and_then(current::Current::locals).ok_or(libc::EPERM)?)))
}

fn owner() -> Done<usize> {
    with_locals(|locals| std::ptr::from_ref(locals) as usize)
}

/// Drops the operations that a thread has left. Their unsent values are destroyed.
pub(crate) fn drop_all(locals: &Locals) {
    for handle in locals.take_operations() {
        let pending = OPERATIONS.close(handle).and_then(|operation| operation.take());
        if let Some(Pending { future, mut lent, .. }) = pending {
            drop(future);
            lent.destroy();
        }
    }
}

/// Frees the handle of an operation that has ended.
fn forget(handle: u64) {
    drop(OPERATIONS.close(handle));
    let _ = with_locals(|locals| locals.remove_operation(handle));
}

/// An operation that ends, also by a panic: its handle is freed, and the program's place is 0 when this is dropped.
struct Ends {
    handle: u64,
    op: *mut u64,
}

impl Drop for Ends {
    fn drop(&mut self) {
        forget(self.handle);
        // SAFETY: the caller of `resume` has checked that the place may be written. So the result is known.
        let _ = unsafe { store(self.op, 0) };
    }
}

/// The result of a poll of an operation: none if it is pending.
type Polled = Done<Option<Option<Chosen>>>;

/// Begins a choice, and polls it once.
fn begin(form: Form, cases: &Cases, limit: Limit, context: *mut CContext, op: *mut u64) -> Polled {
    let (event, mut lent) = Built::new(cases)?.into_parts();
    let event: BoxEvent<'static, Option<Chosen>> = match limit {
        Limit::Now => {
            let result = once(event);
            lent.give_back();
            return Ok(Some(result));
        }
        Limit::At(time) => event.by(time).boxed(),
        Limit::Forever => event.wrap(Some).boxed(),
    };
    start(Pending { future: Box::pin(event.sync()), lent, form, count: cases.count() }, context, op)
}

/// Begins a receive without a deadline, after one that found nothing.
fn begin_recv(channel: Held<Channel>, context: *mut CContext, op: *mut u64) -> Polled {
    let mut lent = Lent::default();
    // SAFETY: the future is dropped before `lent`.
    let channel = unsafe { lent.keep(channel) };
    let received = |result: Result<u64, _>| Some((0, result.map_err(|_| libc::EPIPE)));
    let future: Synchronizing = Box::pin(channel.receiver.recv().wrap(received).sync());
    start(Pending { future, lent, form: Form::Recv, count: 1 }, context, op)
}

/// Polls an operation for the first time, and keeps it if it is pending.
fn start(mut pending: Pending, context: *mut CContext, op: *mut u64) -> Polled {
    // SAFETY: the context was checked by the caller.
    let task = unsafe { CContext::task(context) }?;
    if let Poll::Ready(result) = pending.future.as_mut().poll(task) {
        return Ok(Some(end(pending, result)));
    }
    let operation = Operation { owner: owner()?, pending: Mutex::new(Some(pending)) };
    let (handle, _) = OPERATIONS.insert(operation).ok_or(libc::ENOMEM)?;
    with_locals(|locals| locals.add_operation(handle))?;
    // SAFETY: the caller has checked that the place may be written.
    unsafe { store(op, handle) }?;
    Ok(None)
}

/// Polls a pending operation again.
fn resume(form: Form, handle: u64, count: usize, context: *mut CContext, op: *mut u64) -> Polled {
    let operation = OPERATIONS.get(handle).ok_or(libc::EINVAL)?;
    if operation.owner != owner()? {
        return Err(libc::EINVAL);
    }
    let mut pending = operation.take().ok_or(libc::EBUSY)?;
    if (pending.form, pending.count) != (form, count) {
        operation.put(pending);
        return Err(libc::EINVAL);
    }
    // SAFETY: the context was checked by the caller.
    let task = unsafe { CContext::task(context) }?;
    let ends = Ends { handle, op };
    match pending.future.as_mut().poll(task) {
        Poll::Pending => {
            mem::forget(ends);
            operation.put(pending);
            Ok(None)
        }
        Poll::Ready(result) => Ok(Some(end(pending, result))),
    }
}

fn end(pending: Pending, result: Option<Chosen>) -> Option<Chosen> {
    let Pending { future, mut lent, .. } = pending;
    drop(future);
    lent.give_back();
    result
}

/// Begins an operation, or polls the pending one.
///
/// # Safety
/// The contracts of the functions below.
unsafe fn poll(
    form: Form,
    context: *mut CContext,
    op: *mut u64,
    cases: &Cases,
    deadline: u64,
) -> Done<Chosen> {
    check(op)?;
    // SAFETY: the caller keeps the contract.
    let handle = unsafe {
        CContext::task(context)?;
        op.read()
    };
    let polled = match handle {
        0 => begin(form, cases, Limit::of(deadline), context, op)?,
        handle => resume(form, handle, cases.count(), context, op)?,
    };
    let result = polled.ok_or(libc::EAGAIN)?;
    cases.tell(result);
    result.ok_or(libc::ETIMEDOUT)
}

fn case(kind: c_int, handle: u64, value: u64) -> CCase {
    let data = std::ptr::null_mut();
    CCase { size: size_of::<CCase>(), kind, status: 0, handle, value, nack: 0, lost: None, data }
}

/// Receives in a poll body. See `chanter.h`.
///
/// # Safety
/// `context` was given to the poll function that runs. `op` and `value` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn chanter_poll_recv(
    context: *mut CContext,
    op: *mut u64,
    channel: u64,
    value: *mut u64,
    deadline: u64,
) -> c_int {
    door(|| {
        check(op)?;
        check(value)?;
        // SAFETY: the caller keeps the contract.
        unsafe {
            CContext::task(context)?;
            if op.read() == 0 {
                let held = channel_of(channel)?;
                match try_recv(&held) {
                    Ok(received) => return store(value, received),
                    Err(libc::ETIMEDOUT) => (),
                    Err(code) => return Err(code),
                }
                if deadline == u64::MAX {
                    let (_, received) = begin_recv(held, context, op)?.flatten().ok_or(libc::EAGAIN)?;
                    return store(value, received?);
                }
            }
            let mut one = case(1, channel, 0);
            let cases = Cases::new(&raw mut one, 1)?;
            let (_, received) = poll(Form::Recv, context, op, &cases, deadline)?;
            store(value, received?)
        }
    })
}

/// Sends in a poll body. See `chanter.h`.
///
/// # Safety
/// `context` was given to the poll function that runs. `op` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn chanter_poll_send(
    context: *mut CContext,
    op: *mut u64,
    channel: u64,
    value: u64,
    deadline: u64,
) -> c_int {
    door(|| {
        check(op)?;
        // SAFETY: the caller keeps the contract.
        unsafe {
            CContext::task(context)?;
            if op.read() == 0 {
                let held = channel_of(channel)?;
                match try_send(&held, value) {
                    Err(libc::ETIMEDOUT) => (),
                    result => return result,
                }
            }
            let mut one = case(2, channel, value);
            let cases = Cases::new(&raw mut one, 1)?;
            poll(Form::Send, context, op, &cases, deadline)?.1.map(drop)
        }
    })
}

/// Chooses in a poll body. See `chanter.h`.
///
/// # Safety
/// `context` was given to the poll function that runs. There are `count` cases, each as long as the first one's size says.
/// `op` and the cases may be written, and so may `chosen`, which may be null for one case.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn chanter_poll_choose(
    context: *mut CContext,
    op: *mut u64,
    cases: *mut CCase,
    count: usize,
    deadline: u64,
    chosen: *mut usize,
) -> c_int {
    door(|| {
        if count != 1 {
            check(chosen)?;
        }
        // SAFETY: the caller keeps the contract.
        unsafe {
            let cases = Cases::new(cases, count)?;
            let (index, _) = poll(Form::Choice, context, op, &cases, deadline)?;
            if chosen.is_null() { Ok(()) } else { store(chosen, index) }
        }
    })
}

/// Drops a pending operation. See `chanter.h`.
///
/// # Safety
/// `op` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn chanter_op_drop(op: *mut u64) -> c_int {
    door(|| {
        check(op)?;
        // SAFETY: the caller keeps the contract.
        let handle = unsafe { op.read() };
        let operation = OPERATIONS.get(handle).ok_or(libc::EINVAL)?;
        if operation.owner != owner()? {
            return Err(libc::EPERM);
        }
        let Pending { future, mut lent, .. } = operation.take().ok_or(libc::EBUSY)?;
        forget(handle);
        // SAFETY: the caller keeps the contract.
        unsafe { store(op, 0) }?;
        drop(future);
        if lent.give_back() { Err(libc::EALREADY) } else { Ok(()) }
    })
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::ffi::c_void;
    use std::future::poll_fn;
    use std::ptr;

    use super::*;
    use crate::poll::chanter_thread_spawn_poll;
    use crate::{chanter_context_wake, chanter_machine_create, chanter_machine_free, chanter_thread_join};

    #[derive(Default)]
    struct State {
        op: u64,
        codes: Vec<(c_int, u64)>,
    }

    /// Begins an operation whose second poll panics, and repeats it.
    unsafe extern "C" fn body(state: *mut c_void, context: *mut CContext) -> c_int {
        // SAFETY: the test gives its state, which lives until the thread was joined.
        let state = unsafe { &mut *state.cast::<State>() };
        let op = &raw mut state.op;
        if state.op == 0 {
            let mut polls = 0;
            let future: Synchronizing = Box::pin(poll_fn(move |_| {
                polls += 1;
                assert!(polls == 1, "on purpose");
                Poll::Pending
            }));
            let pending = Pending { future, lent: Lent::default(), form: Form::Recv, count: 1 };
            assert!(matches!(start(pending, context, op), Ok(None)));
            // SAFETY: the context is that of this poll.
            unsafe { chanter_context_wake(context) };
            return 0;
        }
        let handle = state.op;
        for _ in 0..2 {
            let code = door(|| resume(Form::Recv, handle, 1, context, op).map(drop));
            state.codes.push((code, state.op));
        }
        1
    }

    #[test]
    fn an_operation_that_panics_has_ended() {
        let (mut machine, mut thread, mut state) = (0, 0, State::default());
        // SAFETY: the places may be written, and the state outlives the thread.
        unsafe {
            assert_eq!(chanter_machine_create(ptr::null(), &raw mut machine), 0);
            let at = (&raw mut state).cast();
            let spawned =
                chanter_thread_spawn_poll(machine, ptr::null(), Some(body), at, None, &raw mut thread);
            assert_eq!(spawned, 0);
            assert_eq!(chanter_thread_join(thread, ptr::null_mut(), u64::MAX), 0);
            assert_eq!(chanter_machine_free(machine), 0);
        }
        assert_eq!(state.codes, [(libc::EFAULT, 0), (libc::EINVAL, 0)]);
    }
}
