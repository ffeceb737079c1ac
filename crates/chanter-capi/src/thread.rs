//! Threads as handles: their ends, and those who wait for them.

use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Waker;

use chanter::IVar;
use chanter::policy::ShortLock;
use chanter::sync::Get;
use chanter::thread::{AnyThread, Join};

use crate::current;
use crate::door::{Done, Limit, door, store, wait};
use crate::flags::{self, Flags};
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
    flags: Flags,
    value: AtomicU64,
    life: ShortLock<Life>,
}

/// The parts that others have left for a thread's end, or its next request.
#[derive(Default)]
struct Life {
    done: Option<IVar<()>>,
    /// The fiber, which takes requests itself.
    fiber: Option<chanter::Thread<()>>,
    /// The fiber on a stack of the program's: it takes requests, and its end is told by another thread.
    lent: Option<AnyThread>,
    /// The waker of a poll body that waits.
    waker: Option<Waker>,
}

/// The event that a thread has ended, or its fiber.
pub(crate) enum Ends {
    Told(Get<()>),
    /// A join of a fiber that has not begun runs it at once. Its result is told before.
    Fiber(Join<()>),
}

pub(crate) static THREADS: Table<Thread> = Table::new(Kind::Thread);

pub(crate) fn thread_of(handle: u64) -> Done<Held<Thread>> {
    THREADS.get(handle).ok_or(libc::EINVAL)
}

impl Thread {
    /// A new thread: its handle, and the reference of its body.
    pub(crate) fn make(machine: u64) -> Done<(u64, Held<Self>)> {
        let made = Self {
            machine,
            flags: Flags::new(),
            value: AtomicU64::new(0),
            life: ShortLock::new(Life::default()),
        };
        THREADS.insert(made).ok_or(libc::ENOMEM)
    }

    /// Notes that the thread has ended, and wakes those who wait. Only the body calls it; the first call counts.
    pub(crate) fn finish(&self, end: End) {
        if self.flags.ended().is_some() {
            return;
        }
        let how = match end {
            End::Value(value) => {
                // ORDER: Relaxed: the flag of the end publishes it.
                self.value.store(value, Ordering::Relaxed);
                flags::VALUE
            }
            End::Cancelled => flags::CANCELLED,
            End::Panicked => flags::PANICKED,
        };
        if !self.flags.end(how) {
            return;
        }
        let Life { done, fiber, lent, waker } = std::mem::take(&mut *self.life.lock());
        if let Some(done) = done {
            // Only this call puts it.
            let _ = done.put(());
        }
        drop((fiber, lent, waker));
    }

    /// Leaves something in the life. False: the thread has ended, and does not look there any more.
    fn watch<R>(&self, leave: impl FnOnce(&mut Life) -> R) -> (bool, R) {
        let left = leave(&mut self.life.lock());
        (self.flags.watch(), left)
    }

    /// Notes the fiber, to which requests are told.
    pub(crate) fn set_fiber(&self, fiber: chanter::Thread<()>) {
        let (is_alive, _) = self.watch(|life| life.fiber = Some(fiber));
        if is_alive {
            return self.request_again();
        }
        let fiber = self.life.lock().fiber.take();
        drop(fiber);
    }

    /// Notes a fiber on a stack of the program's.
    pub(crate) fn set_lent(&self, fiber: AnyThread) {
        let (is_alive, _) = self.watch(|life| life.lent = Some(fiber));
        if is_alive {
            return self.request_again();
        }
        let fiber = self.life.lock().lent.take();
        drop(fiber);
    }

    /// Tells the fiber, which has just been noted, what was asked of it before.
    fn request_again(&self) {
        // A caller that asks sets the flag first, and then looks for the fiber under the lock under which it was noted. So
        // it has found the fiber, or its flag is seen here.
        let mut told = (false, false);
        loop {
            let now = self.requests();
            if now == told {
                return;
            }
            // It has ended if there is none.
            let Some(fiber) = self.fiber() else { return };
            match (now.0 && !told.0, now.1) {
                (true, _) => drop(fiber.cancel()),
                (_, true) => drop(fiber.suspend()),
                // Somebody has let it go on in the meantime.
                (_, false) => drop(fiber.resume()),
            }
            told = if now.0 && !told.0 { (true, told.1) } else { (told.0, now.1) };
        }
    }

    /// The requests to a poll body: whether it is cancelled, and whether it is suspended.
    pub(crate) fn requests(&self) -> (bool, bool) {
        (self.flags.is_asked(flags::CANCEL), self.flags.is_asked(flags::SUSPEND))
    }

    /// Notes the waker of a poll body that waits, and that has seen these requests. False: there are others, and the body
    /// has to look again.
    pub(crate) fn set_waker(&self, waker: &Waker, seen: (bool, bool)) -> bool {
        let mut life = self.life.lock();
        let knows = life.waker.as_ref().is_some_and(|known| known.will_wake(waker));
        let old = if knows { None } else { life.waker.replace(waker.clone()) };
        let now = self.requests();
        drop(life);
        drop(old);
        self.flags.watch_oneself();
        now == seen
    }

    /// The event that the thread has ended; none if it has.
    pub(crate) fn done(&self) -> Option<Ends> {
        if self.end().is_some() {
            return None;
        }
        let fiber = self.life.lock().fiber.as_ref().map(chanter::Thread::join);
        match fiber {
            Some(fiber) => Some(Ends::Fiber(fiber)),
            None => self.told().map(Ends::Told),
        }
    }

    /// The event that the end is told.
    pub(crate) fn told(&self) -> Option<Get<()>> {
        if self.end().is_some() {
            return None;
        }
        let fresh = IVar::new();
        let (is_alive, told) = self.watch(|life| life.done.get_or_insert(fresh).get());
        is_alive.then_some(told)
    }

    pub(crate) fn end(&self) -> Option<End> {
        Some(match self.flags.ended()? {
            // ORDER: Relaxed: the flag of the end has published it.
            flags::VALUE => End::Value(self.value.load(Ordering::Relaxed)),
            flags::PANICKED => End::Panicked,
            _ => End::Cancelled,
        })
    }

    /// Waits until the thread has ended.
    pub(crate) fn wait(&self, limit: Limit) -> Done {
        match self.done() {
            None => return Ok(()),
            Some(Ends::Told(told)) => return wait(told, limit),
            Some(Ends::Fiber(fiber)) => drop(wait(fiber, limit)?),
        }
        // A fiber that never ran may tell its end a moment later.
        match self.told() {
            None => Ok(()),
            Some(told) => wait(told, limit),
        }
    }

    fn fiber(&self) -> Option<AnyThread> {
        let life = self.life.lock();
        life.fiber.as_ref().map(chanter::Thread::any).or_else(|| life.lent.clone())
    }

    fn waker(&self) -> Option<Waker> {
        self.life.lock().waker.take()
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
    if held.end().is_none() {
        if is_self(handle) {
            return Err(libc::EDEADLK);
        }
        held.wait(limit)?;
    }
    if !held.close(handle) {
        return Err(libc::EINVAL);
    }
    held.end().unwrap_or(End::Cancelled).result()
}

/// Waits for a thread. See `chanter.h`.
///
/// # Safety
/// `status` is null or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn chanter_thread_join(thread: u64, status: *mut *mut c_void, deadline: u64) -> c_int {
    door(|| {
        let value = join(thread, Limit::of(deadline))?;
        // SAFETY: the caller keeps the contract.
        if status.is_null() { Ok(()) } else { unsafe { store(status, value as *mut c_void) } }
    })
}

/// Frees the handle of a thread. See `chanter.h`.
#[unsafe(no_mangle)]
pub extern "C" fn chanter_thread_detach(thread: u64) -> c_int {
    door(|| THREADS.close(thread).map(drop).ok_or(libc::EINVAL))
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
    thread.flags.ask(flags::CANCEL);
    if let Some(fiber) = thread.fiber() {
        drop(fiber.cancel());
    }
    if let Some(waker) = thread.waker() {
        waker.wake();
    }
}

/// Asks a thread to stop. See `chanter.h`.
#[unsafe(no_mangle)]
pub extern "C" fn chanter_thread_suspend(thread: u64) -> c_int {
    door(|| {
        let held = thread_of(thread)?;
        held.flags.ask(flags::SUSPEND);
        if let Some(fiber) = held.fiber() {
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
        let was = held.flags.take_back(flags::SUSPEND);
        if let Some(fiber) = held.fiber() {
            fiber.resume();
        }
        if let Some(waker) = held.waker().filter(|_| was) {
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
        // SAFETY: the caller keeps the contract.
        unsafe { store(thread, handle) }
    })
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::time::Duration;

    use chanter::{Event, Machine, fiber, never};

    use super::*;

    #[test]
    fn a_fiber_is_told_what_was_asked_before_it_was_noted() {
        let machine = Machine::builder().vps(1).build().unwrap();
        let (handle, held) = Thread::make(0).unwrap();
        cancel(&held);
        let fiber = fiber::Builder::new().spawn_in(&machine, || never::<()>().sync_blocking());
        let join = fiber.join();
        held.set_fiber(fiber);
        let ended = machine.block_on(join.timeout(Duration::from_secs(120)));
        assert!(ended.expect("the request was lost").is_err());
        drop(THREADS.close(handle));
    }
}
