//! A dump: what the threads of all machines of the process wait on, for people who look for a hang.
//!
//! A thread on each virtual processor looks for threads there. It polls the threads that block, as a snapshot does
//! (`observe.rs`). A machine that keeps genealogy knows its threads. On another machine only some threads are found:
//! their frames lie in the arena of the processor that looks, or in the one for threads from outside. So no machine
//! has to keep books for it.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::panic::Location;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak, mpsc};
use std::time::Duration;

use super::deadlock::{Deadlock, ThreadReport, ThreadState};
use super::observe::Probes;
use crate::channel::mailbox;
use crate::event::Event;
use crate::frame::report::Waiting;
use crate::frame::{Header, Kind};
use crate::sched::{self, Pool, Worker};
use crate::thread;

/// Longest time that a virtual processor may take to answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// Machines that have not begun to end, except those that are simulated.
static MACHINES: Mutex<Vec<Weak<Pool>>> = Mutex::new(Vec::new());

fn machines() -> MutexGuard<'static, Vec<Weak<Pool>>> {
    MACHINES.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Pool {
    /// Lists a new machine for dumps.
    pub(crate) fn list_for_dumps(&self) {
        if self.processors[0].simulated.is_none() {
            machines().push(self.this.clone());
            #[cfg(unix)]
            on_quit::listen_if_asked();
        }
    }

    /// Forgets a machine that is about to end: nobody spawns there from now on.
    pub(crate) fn unlist_for_dumps(&self) {
        machines().retain(|other| !std::ptr::eq(other.as_ptr(), self));
    }
}

/// Describes what the threads of every machine of this process wait on, and what its OS threads do (on Linux). The
/// result is a text for people who look for a hang.
///
/// Each thread that blocks is polled once more, so a thread whose wake-up was lost goes on. This is a wake-up without
/// a reason, which every future must bear. A virtual processor that does not come back to its scheduler within five
/// seconds is said not to answer. Threads have the numbers of their births on a machine that [keeps
/// genealogy](crate::Builder::genealogy) or [reports deadlocks](crate::Builder::report_deadlocks). On other machines
/// they have numbers of this dump only. There, threads whose frames belong to an OS thread that does not answer are
/// missing. Simulated machines are left out.
///
/// With the environment variable `CHANTER_DUMP` set, a process writes a dump to its standard error whenever it gets
/// the signal SIGQUIT (Ctrl-\, `kill -QUIT`). The signal does not end it then. This holds from its first machine on.
///
/// It blocks the OS thread. On a thread of a machine it blocks that thread, as
/// [`sync_blocking`](Event::sync_blocking) does.
///
/// ```
/// # use chanter::prelude::*;
/// let machine = Machine::builder().vps(1).name("example").build()?;
/// let (tx, rx) = channel::<u32>();
/// let thread = machine.spawn_on(0, async move { rx.recv().await });
/// machine.block_on(async { yield_now().await });
/// let dump = chanter::deadlock::dump();
/// assert!(dump.contains("waits to receive from channel #1"), "{dump}");
/// # drop((tx, thread));
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn dump() -> String {
    // This OS thread drives nothing, so the threads that it spawns go through inboxes.
    let (tell, told) = mailbox();
    let looking = std::thread::Builder::new().name("chanter-dump".to_owned());
    match looking.spawn(move || tell.try_send(text())) {
        Ok(_) => told.recv().sync_blocking().unwrap_or_default(),
        Err(error) => format!("no OS thread for a dump: {error}\n"),
    }
}

fn text() -> String {
    let mut text = String::new();
    // This is not in one expression with the loop, whose body takes the lock.
    let alive: Vec<_> = machines().iter().filter_map(Weak::upgrade).collect();
    for machine in alive {
        // Writing to a string does not fail.
        let _ =
            writeln!(text, "machine \"{}\", {} virtual processors", machine.name(), machine.processors.len());
        let mut threads = BTreeMap::<u64, ThreadReport>::new();
        for index in 0..machine.processors.len() {
            match ask(&machine, index).map(|answer| answer.recv_timeout(PATIENCE)) {
                Some(Ok(reports)) => reports.into_iter().for_each(|report| add(&mut threads, report)),
                Some(Err(mpsc::RecvTimeoutError::Timeout)) => {
                    let _ = writeln!(text, "  virtual processor {index} does not answer");
                }
                Some(Err(mpsc::RecvTimeoutError::Disconnected)) | None => {
                    let _ = writeln!(text, "  it ends");
                    break;
                }
            }
        }
        if machine.genealogy().is_none() {
            threads = renumbered(threads);
        }
        let _ = write!(text, "{}", Deadlock::new(threads.into_values().collect(), &[]));
    }
    os_threads(&mut text);
    text
}

/// Has a thread look for threads on the virtual processor `index`.
fn ask(machine: &Arc<Pool>, index: usize) -> Option<mpsc::Receiver<Vec<ThreadReport>>> {
    let (tell, told) = mpsc::channel();
    let looking = async move {
        if let Some(vp) = Worker::current() {
            let _ = tell.send(vp.threads_here());
        }
    };
    // The lock is held, so that the machine does not begin to end meanwhile. No code of a user runs here: the new
    // thread goes to an inbox.
    let machines = machines();
    if !machines.iter().any(|other| std::ptr::eq(other.as_ptr(), &**machine)) {
        return None;
    }
    drop(thread::spawn_in(machine, Some(index), looking, Location::caller()));
    Some(told)
}

/// Adds a report, since one virtual processor could ask a thread that another could not.
fn add(threads: &mut BTreeMap<u64, ThreadReport>, report: ThreadReport) {
    let is_known = threads.get(&report.id).is_some_and(|known| known.state != ThreadState::Ready);
    let is_ours = report.site.is_some_and(|site| site.file() == file!());
    if !is_known && !is_ours {
        threads.insert(report.id, report);
    }
}

/// Replaces addresses by numbers from 1.
fn renumbered(threads: BTreeMap<u64, ThreadReport>) -> BTreeMap<u64, ThreadReport> {
    let numbers: BTreeMap<u64, u64> = threads.keys().copied().zip(1..).collect();
    let mut renumbered = BTreeMap::new();
    for (address, mut report) in threads {
        report.id = numbers[&address];
        if let ThreadState::Blocked(waits) = &mut report.state {
            for wait in waits {
                if let Waiting::Join { thread } = wait {
                    *thread = thread.and_then(|address| numbers.get(&address).copied());
                }
            }
        }
        renumbered.insert(report.id, report);
    }
    renumbered
}

impl Worker {
    /// The threads that can be found, and asked, from here. The caller drives this virtual processor.
    #[cold]
    fn threads_here(&self) -> Vec<ThreadReport> {
        if self.machine().genealogy().is_some() {
            return self.snapshot(true).threads;
        }
        // SAFETY: the caller drives this processor, and takes no frame meanwhile.
        let mut frames = unsafe { self.arena.frames_in_use() };
        // SAFETY: the lock makes us the owner, and nobody takes a frame meanwhile.
        frames.extend(self.machine().with_arena(|arena| unsafe { arena.frames_in_use() }));
        // Fibers may have begun on another processor than the one where they were spawned.
        frames.extend(self.bound.fibers.frames());
        frames.sort_unstable();
        frames.dedup();
        frames.into_iter().filter_map(|frame| self.look_at(frame)).collect()
    }

    /// The report of the thread in `frame`, if one lives there. Its id is the frame's address.
    fn look_at(&self, frame: NonNull<Header>) -> Option<ThreadReport> {
        let running = self.running.get();
        // SAFETY: the memory of frames stays while the machine lives.
        let header = unsafe { frame.as_ref() };
        let report = |state| ThreadReport {
            id: frame.as_ptr() as u64,
            parent: None,
            name: None,
            site: None,
            place: None,
            is_parasite: header.kind.get() == Kind::Parasite,
            state,
        };
        if std::ptr::eq(running, frame.as_ptr()) || !header.state.in_use() || header.state.is_complete() {
            return None;
        }
        // This is asked before the claim, and after it; `snapshot` says why.
        if header.state.is_fresh() || self.is_bound_elsewhere(header) {
            return Some(report(ThreadState::Ready));
        }
        // SAFETY: the memory of frames stays while the machine lives.
        let Some(token) = (unsafe { sched::claim(frame, false) }) else {
            return Some(report(ThreadState::Ready));
        };
        if self.is_bound_elsewhere(header) {
            Worker::send_home(token);
            return Some(report(ThreadState::Ready));
        }
        // SAFETY: the token keeps the frame.
        let name = unsafe { crate::frame::about::name_of(frame) }.cloned();
        let is_parasite = token.is_parasite();
        let mut waits = self.ask(token);
        for (place, joined) in std::mem::take(&mut waits.joins) {
            waits.list[place] = Waiting::Join { thread: Some(joined as u64) };
        }
        let place = waits.place;
        let state = self.state_of(waits, &mut Probes::default());
        Some(ThreadReport { name, is_parasite, place, ..report(state) })
    }
}

/// Writes what the OS says of its threads.
#[cfg(target_os = "linux")]
fn os_threads(text: &mut String) {
    let Ok(tasks) = std::fs::read_dir("/proc/self/task") else { return };
    text.push_str("OS threads\n");
    for task in tasks.flatten() {
        let of = |file: &str| std::fs::read_to_string(task.path().join(file)).unwrap_or_default();
        let (stat, wait) = (of("stat"), of("wchan"));
        let state = stat.rsplit(") ").next().and_then(|rest| rest.split(' ').next()).unwrap_or("?");
        let id = task.file_name();
        let _ = writeln!(text, "  {} \"{}\" {state} {wait}", id.display(), of("comm").trim_end());
    }
}

#[cfg(not(target_os = "linux"))]
fn os_threads(_: &mut String) {}

#[cfg(unix)]
mod on_quit {
    use std::io::Write as _;
    use std::sync::Once;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use signal_hook::consts::SIGQUIT;
    use signal_hook::iterator::Signals;

    static START: Once = Once::new();
    static LISTENERS: AtomicUsize = AtomicUsize::new(0);

    pub(super) fn listen_if_asked() {
        START.call_once(|| {
            if std::env::var_os("CHANTER_DUMP").is_none() {
                return;
            }
            let Ok(mut signals) = Signals::new([SIGQUIT]) else { return };
            let listener = std::thread::Builder::new().name("chanter-quit".to_owned());
            let listen = move || {
                for _ in signals.forever() {
                    // (Not `eprint`, which a test harness catches.)
                    let _ = std::io::stderr().write_all(super::dump().as_bytes());
                }
            };
            LISTENERS.store(usize::from(listener.spawn(listen).is_ok()), Ordering::Relaxed);
        });
    }

    /// Number of OS threads that wait for the signal.
    pub(crate) fn listeners() -> usize {
        LISTENERS.load(Ordering::Relaxed)
    }
}

/// Number of OS threads that wait for a request for a dump, and wake nobody.
pub(super) fn listeners() -> usize {
    #[cfg(unix)]
    return on_quit::listeners();
    #[cfg(not(unix))]
    return 0;
}
