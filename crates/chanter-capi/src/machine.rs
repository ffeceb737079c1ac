//! Machines.

use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use chanter::{Machine, current_vp};

use crate::config::{CConfig, name, read};
use crate::current;
use crate::door::{Done, check, door, store};
use crate::fiber::{Body, Plan, spawn_on};
use crate::handle::{Held, Kind, Table};
use crate::policy::Policies;
use crate::thread::{End, THREADS};

/// A machine of the program's.
pub(crate) struct Made {
    pub(crate) machine: Machine,
    runs: Runs,
}

/// The number of calls that run a machine, or `ENDS`: the machine is being ended, and no call may run it any more. A call
/// and an end that come at the same time are ordered by this word. It publishes nothing: the machine is reached by
/// references.
struct Runs(AtomicU32);

const ENDS: u32 = u32::MAX;

/// A call that runs a machine.
struct Run<'a>(&'a Runs);

impl Drop for Run<'_> {
    fn drop(&mut self) {
        // ORDER: Relaxed: see `Runs`.
        self.0.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Runs {
    /// Notes a call. `None`: the machine is being ended.
    fn begin(&self) -> Option<Run<'_>> {
        let more = |runs| if runs < ENDS - 1 { Some(runs + 1) } else { None };
        // ORDER: Relaxed: see `Runs`.
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).ok().map(|_| Run(self))
    }

    /// Lets no call begin any more. False: a call runs the machine.
    fn end(&self) -> bool {
        // ORDER: Relaxed: see `Runs`.
        match self.0.compare_exchange(0, ENDS, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => true,
            Err(runs) => runs == ENDS,
        }
    }
}

impl Made {
    /// Lets no call run the machine any more, so that it can be ended.
    pub(crate) fn end_runs(&self) -> Done {
        if self.runs.end() { Ok(()) } else { Err(libc::EBUSY) }
    }
}

static MACHINES: Table<Made> = Table::new(Kind::Machine);

pub(crate) fn machine_of(handle: u64) -> Done<Held<Made>> {
    MACHINES.get(handle).ok_or(libc::EINVAL)
}

/// The machine that runs the caller, if it is one of this interface.
pub(crate) fn here() -> u64 {
    current::with(|current| current.and_then(|current| Some(current.thread()?.machine))).unwrap_or(0)
}

/// Whether the caller is on a virtual processor, where machines can neither be run nor ended.
fn is_inside() -> bool {
    current_vp().is_some() || Machine::current().is_some() || current::with(|current| current.is_some())
}

/// A builder of a machine.
///
/// # Safety
/// The contract of `chanter_machine_create`.
pub(crate) unsafe fn builder(config: *const CConfig) -> Done<chanter::Builder> {
    let mut builder = Machine::builder();
    if config.is_null() {
        return Ok(builder);
    }
    // SAFETY: the caller keeps the contract.
    let config = unsafe { read(config) }?;
    if config.processors < 0 || config.workers < 0 {
        return Err(libc::EINVAL);
    }
    // SAFETY: the caller keeps the contract.
    if let Some(name) = unsafe { name(config.name) } {
        builder = builder.name(name);
    }
    if config.processors > 0 {
        builder = builder.vps(config.processors as usize);
    }
    if config.workers > 0 {
        builder = builder.workers(config.workers as usize);
    }
    if config.hand_off > 0 {
        builder = builder.hand_off_after(match config.hand_off {
            u64::MAX => None,
            nanoseconds => Some(Duration::from_nanos(nanoseconds)),
        });
    }
    if !config.policy.is_null() {
        // SAFETY: the caller keeps the contract.
        let policies = Policies::new(unsafe { read(config.policy) }?)?;
        builder = builder.policy(move |index| policies.make(index));
    }
    Ok(builder)
}

/// Makes a handle of a machine.
pub(crate) fn register(machine: Machine) -> Done<u64> {
    MACHINES
        .insert(Made { machine, runs: Runs(AtomicU32::new(0)) })
        .map(|(handle, _)| handle)
        .ok_or(libc::ENOMEM)
}

/// Makes a machine. See `chanter.h`.
///
/// # Safety
/// `config` is null or a struct as long as its size says, whose pointers are null or valid. `machine` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn chanter_machine_create(config: *const CConfig, machine: *mut u64) -> c_int {
    door(|| {
        check(machine)?;
        if is_inside() {
            return Err(libc::EPERM);
        }
        // SAFETY: the caller keeps the contract.
        let made = unsafe { builder(config) }?.build().map_err(|_| libc::ENOMEM)?;
        // SAFETY: the caller keeps the contract.
        unsafe { store(machine, register(made)?) }
    })
}

/// Runs a body on a machine, and its virtual processor 0. See `chanter.h`.
///
/// # Safety
/// `body(arg)` may be called on another stack. `status` is null or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn chanter_machine_run(
    machine: u64,
    body: Option<Body>,
    arg: *mut c_void,
    status: *mut *mut c_void,
) -> c_int {
    door(|| {
        let body = body.ok_or(libc::EINVAL)?;
        if is_inside() {
            return Err(libc::EPERM);
        }
        let made = machine_of(machine)?;
        let value = run(&made, machine, Plan::of(body, arg))?;
        // SAFETY: the caller keeps the contract.
        if status.is_null() { Ok(()) } else { unsafe { store(status, value as *mut c_void) } }
    })
}

/// Runs a fiber, and virtual processor 0 until it has ended.
pub(crate) fn run(made: &Made, machine: u64, plan: Plan) -> Done<u64> {
    // A machine that is being ended is as good as none.
    let _run = made.runs.begin().ok_or(libc::EINVAL)?;
    let (handle, held) = spawn_on(&made.machine, machine, (plan, chanter::fiber::Builder::new()))?;
    if let Some(told) = held.told() {
        made.machine.block_on(told);
    }
    // The body may have freed its handle.
    drop(THREADS.close(handle));
    held.end().unwrap_or(End::Cancelled).result()
}

/// Ends a machine. See `chanter.h`.
#[unsafe(no_mangle)]
pub extern "C" fn chanter_machine_free(machine: u64) -> c_int {
    door(|| {
        if is_inside() {
            return Err(libc::EPERM);
        }
        // `chanter_finalize` ends that of a job.
        #[cfg(feature = "cluster")]
        if crate::cluster::owns(machine) {
            return Err(libc::EPERM);
        }
        machine_of(machine)?.end_runs()?;
        let made = MACHINES.close(machine).ok_or(libc::EINVAL)?;
        // Calls that came before still use it. They are short, and the machine ends here, not within one of them.
        while !made.is_last() {
            thread::sleep(Duration::from_micros(50));
        }
        drop(made);
        Ok(())
    })
}

/// Stores the machine that runs the caller. See `chanter.h`.
///
/// # Safety
/// `machine` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn chanter_machine_current(machine: *mut u64) -> c_int {
    door(|| {
        check(machine)?;
        match here() {
            0 => Err(libc::ESRCH),
            // SAFETY: the caller keeps the contract.
            handle => unsafe { store(machine, handle) },
        }
    })
}

/// Stores the number of virtual processors. See `chanter.h`.
///
/// # Safety
/// `count` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn chanter_machine_processors(machine: u64, count: *mut c_int) -> c_int {
    door(|| {
        let vps = match machine {
            0 => Machine::current().ok_or(libc::ESRCH)?.vps(),
            handle => machine_of(handle)?.machine.vps(),
        };
        // SAFETY: the caller keeps the contract.
        unsafe { store(count, vps as c_int) }
    })
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_machine_that_is_run_does_not_end_and_one_that_ends_is_not_run() {
        let runs = Runs(AtomicU32::new(0));
        let run = runs.begin();
        assert!(run.is_some() && !runs.end());
        drop(run);
        assert!(runs.begin().is_some(), "it goes on");
        assert!(runs.end() && runs.end());
        assert!(runs.begin().is_none());
    }
}
