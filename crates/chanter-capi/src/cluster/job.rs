//! This process as one of its job.

use std::cell::UnsafeCell;
use std::collections::HashMap;
use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::thread::{self, ThreadId};

use chanter::{Builder, Event, IVar, Machine, choose_biased, current_vp};
use chanter_cluster::{Ask, Inbox, Process, ThreadName};
use serde::de::DeserializeOwned;

use super::exit::{self, Ending, Silent};
use super::messages::Posted;
use super::mpirun;
use super::threads::{CThread, answered};
use crate::config::CConfig;
use crate::current::{self, Current};
use crate::door::{Done, door};
use crate::machine::{builder, chanter_machine_free, machine_of, register};

/// The part of a thread that others know by name. Only the thread uses it.
pub(crate) struct Global {
    pub(super) inbox: Inbox,
    /// The name, to which `pthread_chanter_self` points.
    pub(super) name: UnsafeCell<CThread>,
    pub(super) posted: UnsafeCell<Vec<Posted>>,
}

impl Global {
    pub(super) fn new(inbox: Inbox) -> Self {
        let name = UnsafeCell::new(CThread::of(inbox.name()));
        Self { inbox, name, posted: UnsafeCell::new(Vec::new()) }
    }
}

/// The job, from `chanter_init` on.
pub(super) struct Job {
    pub(super) machine: u64,
    pub(super) process: Process,
    /// Until the end.
    end: Mutex<Option<Box<dyn Ending>>>,
    /// Filled when the machine has ended.
    ended: IVar<()>,
    main: Main,
    /// The process's number for the system. A child that it forks has another one, and is no process of the job.
    os_process: u32,
    has_ended: AtomicBool,
    /// The local threads, by the slots of their names.
    threads: Mutex<HashMap<u64, u64>>,
}

/// The name of the OS thread that has called `chanter_init`. Only that thread uses it.
struct Main {
    thread: ThreadId,
    global: Global,
}

// SAFETY: the name is reached on its own OS thread only, see `with_global`.
unsafe impl Send for Main {}
// SAFETY: the reason is that of `Send`.
unsafe impl Sync for Main {}

static JOB: OnceLock<Job> = OnceLock::new();
static BEGINS: AtomicBool = AtomicBool::new(false);

/// The variable that is written when the job is there.
pub(super) fn begun() -> &'static IVar<()> {
    static BEGUN: OnceLock<IVar<()>> = OnceLock::new();
    BEGUN.get_or_init(IVar::new)
}

/// The job, while this process is a part of it.
pub(super) fn job() -> Done<&'static Job> {
    let job = JOB.get().ok_or(libc::ESRCH)?;
    // ORDER: Relaxed: a call beside `chanter_finalize` may see either.
    if job.has_ended.load(Ordering::Relaxed) { Err(libc::ESRCH) } else { Ok(job) }
}

/// The number of this process in a job of several, while it is a part of it.
fn number() -> Option<u32> {
    job().ok().filter(|job| job.process.count() > 1).map(|job| job.process.number())
}

/// Ends the whole job, if its engine has a way.
fn abort(code: c_int) {
    if let Ok(job) = job()
        && let Ok(end) = job.end.try_lock()
    {
        end.iter().for_each(|end| end.abort(code));
    }
}

/// Whether the job has this machine.
pub(crate) fn owns(machine: u64) -> bool {
    job().is_ok_and(|job| job.machine == machine)
}

/// The word by which C knows a slot; 0 is the main thread's.
pub(super) fn word_of(name: ThreadName) -> u64 {
    let word = u64::from(name.thread.generation) << 32 | u64::from(name.thread.index);
    if word == MAIN { 0 } else { word }
}

/// The slot of the main thread of each process.
const MAIN: u64 = 1 << 32;

impl Job {
    /// The name of a thread that C knows.
    pub(super) fn name_of(&self, thread: &CThread) -> Done<ThreadName> {
        let process = if thread.process < 0 { self.process.number() } else { thread.process as u32 };
        if process >= self.process.count() {
            return Err(libc::EINVAL);
        }
        let mut name = self.process.main_of(process);
        if thread.thread != 0 {
            name.thread.index = thread.thread as u32;
            name.thread.generation = (thread.thread >> 32) as u32;
        }
        Ok(name)
    }

    /// The event of a call. Nobody answers a call to this process when its machine has ended.
    pub(super) fn call<A: DeserializeOwned>(
        &self,
        process: u32,
        ask: Ask<Done<A>>,
    ) -> impl Event<Output = Done<A>> {
        let answer = self.process.at(process).call(ask).wrap(answered);
        choose_biased((answer, self.ended.get().wrap(|()| Err(libc::ESRCH))))
    }

    pub(super) fn is_here(&self, name: ThreadName) -> bool {
        name.process.0 == self.process.number()
    }

    fn threads<R>(&self, body: impl FnOnce(&mut HashMap<u64, u64>) -> R) -> R {
        body(&mut self.threads.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Notes the handle of a local thread.
    pub(super) fn insert(&self, name: ThreadName, handle: u64) {
        self.threads(|threads| threads.insert(word_of(name), handle));
    }

    /// The handle of a local thread, if it may still be joined.
    pub(super) fn handle_of(&self, thread: u64) -> Done<u64> {
        self.threads(|threads| threads.get(&thread).copied()).ok_or(libc::ESRCH)
    }

    pub(super) fn remove(&self, thread: u64) -> Done<u64> {
        self.threads(|threads| threads.remove(&thread)).ok_or(libc::ESRCH)
    }
}

/// Runs `body` with the name of the calling thread. A thread without one is given one.
pub(super) fn with_global<R>(body: impl FnOnce(&'static Job, &Global) -> Done<R>) -> Done<R> {
    let job = job()?;
    let current = current::with(|current| current.map(std::ptr::from_ref::<Current>));
    let Some(current) = current else {
        if job.main.thread == thread::current().id() && current_vp().is_none() {
            return body(job, &job.main.global);
        }
        return Err(libc::EPERM);
    };
    // SAFETY: the current thread lives further out on this stack, and so do its locals.
    let current = unsafe { &*current };
    if current.place() != current::Place::Fiber {
        return Err(libc::EPERM);
    }
    let locals = current.locals().ok_or(libc::EPERM)?;
    if locals.made().global.get().is_none() {
        let inbox = job.process.inbox().map_err(|_| libc::ENOMEM)?;
        // Only this thread sets it.
        drop(locals.made().global.set(Box::new(Global::new(inbox))));
    }
    body(job, locals.made().global.get().ok_or(libc::EPERM)?)
}

/// A process of a job, which has been started on a machine of its own.
pub struct Member {
    /// The machine.
    pub machine: Machine,
    /// The process.
    pub process: Process,
    /// The end of its engine.
    pub end: Box<dyn Ending>,
}

/// Makes this process one of its job, which `start` starts: the body of `chanter_init`, and of its kin for other engines.
///
/// # Safety
/// `config` is null or a struct as long as its size says, whose pointers are null or valid.
pub unsafe fn init(config: *const CConfig, start: impl FnOnce(Builder) -> Result<Member, c_int>) -> c_int {
    door(|| {
        if current_vp().is_some() || current::with(|current| current.is_some()) {
            return Err(libc::EPERM);
        }
        // SAFETY: the caller keeps the contract.
        let builder = unsafe { builder(config) }?;
        // ORDER: Relaxed: it only counts.
        if BEGINS.swap(true, Ordering::Relaxed) {
            return Err(libc::EALREADY);
        }
        let started = start(builder).inspect_err(|_| {
            // ORDER: Relaxed: it only counts. The caller may try again.
            BEGINS.store(false, Ordering::Relaxed);
        });
        let Member { machine, process, end } = started?;
        let inbox = process.main_inbox().map_err(|_| libc::ENOMEM)?;
        let job = Job {
            machine: register(machine)?,
            process,
            end: Mutex::new(Some(end)),
            ended: IVar::new(),
            main: Main { thread: thread::current().id(), global: Global::new(inbox) },
            os_process: std::process::id(),
            has_ended: AtomicBool::new(false),
            threads: Mutex::default(),
        };
        if JOB.set(job).is_err() {
            return Err(libc::EALREADY);
        }
        exit::watch(number, abort);
        let _ = begun().put(());
        Ok(())
    })
}

/// Makes this process one of its job. See `chanter.h`.
///
/// # Safety
/// `config` is null or a struct as long as its size says, whose pointers are null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn chanter_init(config: *const CConfig) -> c_int {
    let start = |builder: Builder| {
        if mpirun::is_one_of_several() {
            eprintln!(
                "chanter: mpirun has started this process, and chanter_init knows no MPI: call chanter_init_mpi, and link \
                 libchanter_c_mpi.a; or set CHANTER_ALONE=1 for a process alone"
            );
            return Err(libc::ENOSYS);
        }
        let machine = builder.build().map_err(|_| libc::ENOMEM)?;
        let process = machine.block_on(async { Process::launched().await }).map_err(|error| {
            eprintln!("chanter: this process is not part of its job: {error}");
            libc::ECONNREFUSED
        })?;
        Ok(Member { machine, process, end: Box::new(Silent) })
    };
    // SAFETY: the caller keeps the contract.
    unsafe { init(config, start) }
}

/// Leaves the job. See `chanter.h`.
#[unsafe(no_mangle)]
pub extern "C" fn chanter_finalize() -> c_int {
    door(|| {
        let job = job()?;
        if job.os_process != std::process::id() {
            return Err(libc::ESRCH);
        }
        if job.main.thread != thread::current().id() || current_vp().is_some() {
            return Err(libc::EPERM);
        }
        let made = machine_of(job.machine)?;
        // First: from now on, nobody runs the machine.
        made.end_runs()?;
        let process = job.process.clone();
        made.machine.block_on(async move { process.leave().await });
        drop(made);
        job.has_ended.store(true, Ordering::Relaxed);
        match chanter_machine_free(job.machine) {
            0 => {
                let _ = job.ended.put(());
                let end = job.end.lock().unwrap_or_else(PoisonError::into_inner).take();
                end.map_or(Ok(()), |end| end.finish())
            }
            code => Err(code),
        }
    })
}

/// Returns the number of processes of the job. See `chanter.h`.
#[unsafe(no_mangle)]
pub extern "C" fn chanter_process_count() -> c_int {
    job().map_or(0, |job| job.process.count() as c_int)
}
