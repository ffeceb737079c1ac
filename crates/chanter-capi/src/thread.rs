//! Threads as handles: how they end, and who waits for that.

use std::ffi::{c_int, c_void};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::Waker;

use chanter::IVar;
use chanter::sync::Get;
use chanter::thread::AnyThread;

use crate::current;
use crate::door::{Done, Limit, door, store, wait};
use crate::handle::{Held, Kind, Table};

/// How a thread has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Value(u64),
    Cancelled,
    Panicked,
}

impl End {
    pub(crate) fn result(self) -> Done<u64> {
        match self {
            Self::Value(value) => Ok(value),
            Self::Cancelled => Err(libc::ECANCELED),
            Self::Panicked => Err(libc::EFAULT),
        }
    }
}

/// A thread. Its handle is a reference, and so is its body.
pub(crate) struct Thread {
    pub(crate) machine: u64,
    life: Mutex<Life>,
}

/// What others ask of a thread, and what they wait for.
#[derive(Default)]
pub(crate) struct Life {
    end: Option<End>,
    done: Option<IVar<()>>,
    /// The fiber, which takes requests itself.
    fiber: Option<AnyThread>,
    /// The waker of a poll body, to which requests are told here.
    waker: Option<Waker>,
    pub(crate) is_cancelled: bool,
    pub(crate) is_suspended: bool,
}

pub(crate) static THREADS: Table<Thread> = Table::new(Kind::Thread);

pub(crate) fn thread_of(handle: u64) -> Done<Held<Thread>> {
    THREADS.get(handle).ok_or(libc::EINVAL)
}

impl Thread {
    /// A new thread: its handle, and the reference of its body.
    pub(crate) fn make(machine: u64) -> Done<(u64, Held<Self>)> {
        THREADS.insert(Self { machine, life: Mutex::default() }).ok_or(libc::ENOMEM)
    }

    pub(crate) fn life(&self) -> MutexGuard<'_, Life> {
        self.life.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that the thread has ended, and wakes those who wait.
    pub(crate) fn finish(&self, end: End) {
        let mut life = self.life();
        if life.end.is_some() {
            return;
        }
        life.end = Some(end);
        let (done, fiber, waker) = (life.done.take(), life.fiber.take(), life.waker.take());
        drop(life);
        if let Some(done) = done {
            // Only this call puts it.
            let _ = done.put(());
        }
        drop((fiber, waker));
    }

    /// Notes the fiber, to which requests are told.
    pub(crate) fn set_fiber<T>(&self, fiber: &chanter::Thread<T>) {
        let fiber = fiber.any();
        let mut life = self.life();
        let unused = if life.end.is_none() { life.fiber.replace(fiber) } else { Some(fiber) };
        drop(life);
        drop(unused);
    }

    /// Notes the waker of a poll body that waits, and that knows whether it is suspended. False: there is a request, and
    /// the body has to look again.
    pub(crate) fn set_waker(&self, waker: &Waker, is_suspended: bool) -> bool {
        let mut life = self.life();
        if life.is_cancelled || is_suspended && !life.is_suspended {
            return false;
        }
        if life.waker.as_ref().is_some_and(|known| known.will_wake(waker)) {
            return true;
        }
        let old = life.waker.replace(waker.clone());
        drop(life);
        drop(old);
        true
    }

    /// The event that the thread has ended; none if it has.
    pub(crate) fn done(&self) -> Option<Get<()>> {
        let mut life = self.life();
        if life.end.is_some() {
            return None;
        }
        Some(life.done.get_or_insert_with(IVar::new).get())
    }

    pub(crate) fn end(&self) -> Option<End> {
        self.life().end
    }
}

/// Frees the handle of a thread that has ended, and returns how it has.
pub(crate) fn take(handle: u64) -> Done<u64> {
    let held = THREADS.close(handle).ok_or(libc::EINVAL)?;
    held.end().unwrap_or(End::Cancelled).result()
}

pub(crate) fn is_self(handle: u64) -> bool {
    current::with(|current| current?.thread()?.handle()) == Some(handle)
}

/// Waits until a thread has ended, and takes its value.
pub(crate) fn join(handle: u64, limit: Limit) -> Done<u64> {
    let held = thread_of(handle)?;
    if is_self(handle) {
        return Err(libc::EDEADLK);
    }
    if let Some(done) = held.done() {
        wait(done, limit)?;
    }
    take(handle)
}

/// Waits for a thread. See `chanter.h`.
///
/// # Safety
/// `status` is null or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn chanter_thread_join(thread: u64, status: *mut *mut c_void, deadline: u64) -> c_int {
    door(|| {
        let value = join(thread, Limit::of(deadline))?;
        // SAFETY: the caller's contract.
        if status.is_null() { Ok(()) } else { unsafe { store(status, value as *mut c_void) } }
    })
}

/// Frees the handle of a thread. See `chanter.h`.
#[unsafe(no_mangle)]
pub extern "C" fn chanter_thread_detach(thread: u64) -> c_int {
    door(|| THREADS.close(thread).map(drop).ok_or(libc::EINVAL))
}

/// A request to a fiber; it is made outside of the lock of its life.
fn ask(life: &Life) -> Option<AnyThread> {
    life.fiber.clone()
}

/// Asks a thread to end. See `chanter.h`.
#[unsafe(no_mangle)]
pub extern "C" fn chanter_thread_cancel(thread: u64) -> c_int {
    door(|| {
        cancel(&*thread_of(thread)?);
        Ok(())
    })
}

/// Asks a thread to end.
pub(crate) fn cancel(thread: &Thread) {
    let mut life = thread.life();
    life.is_cancelled = true;
    let (fiber, waker) = (ask(&life), life.waker.take());
    drop(life);
    if let Some(fiber) = fiber {
        drop(fiber.cancel());
    }
    if let Some(waker) = waker {
        waker.wake();
    }
}

/// Asks a thread to stop. See `chanter.h`.
#[unsafe(no_mangle)]
pub extern "C" fn chanter_thread_suspend(thread: u64) -> c_int {
    door(|| {
        let held = thread_of(thread)?;
        let mut life = held.life();
        life.is_suspended = true;
        let fiber = ask(&life);
        drop(life);
        if let Some(fiber) = fiber {
            drop(fiber.suspend());
        }
        Ok(())
    })
}

/// Lets a suspended thread go on. See `chanter.h`.
#[unsafe(no_mangle)]
pub extern "C" fn chanter_thread_resume(thread: u64) -> c_int {
    door(|| {
        let held = thread_of(thread)?;
        let mut life = held.life();
        let was = std::mem::take(&mut life.is_suspended);
        let (fiber, waker) = (ask(&life), if was { life.waker.take() } else { None });
        drop(life);
        if let Some(fiber) = fiber {
            fiber.resume();
        }
        if let Some(waker) = waker {
            waker.wake();
        }
        Ok(())
    })
}

/// Stores the handle of the calling thread. See `chanter.h`.
///
/// # Safety
/// `thread` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn chanter_thread_self(thread: *mut u64) -> c_int {
    door(|| {
        let handle = current::with(|current| {
            let held = current.and_then(current::Current::thread).ok_or(libc::EPERM)?;
            held.handle().ok_or(libc::ESRCH)
        })?;
        // SAFETY: the caller's contract.
        unsafe { store(thread, handle) }
    })
}
