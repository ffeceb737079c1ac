//! Signals as events (Unix).
//!
//! One OS thread of the process, started when first needed, waits for signals and tells all
//! listeners. So signals can be awaited on every machine and executor, and on OS threads. Once a program has listened
//! for a signal, the default action of that signal is not taken any more while the process lives.
//!
//! A child of `fork` that does not `exec` has no such OS thread: there [`listen`] is an error, and
//! [`Signal::recv`] panics. (A signal to the child may be heard in the parent, since both share the
//! pipe that passes signals on.)
//!
//! ```no_run
//! use chanter::prelude::*;
//! use chanter::signal;
//!
//! # async fn serve() {}
//! # #[chanter::main] async fn main() -> std::io::Result<()> {
//! let (interrupt, terminate) = (signal::interrupt()?, signal::terminate()?);
//! let server = spawn(serve());
//! choose((interrupt.recv(), terminate.recv(), server.join().wrap(|_| ()))).await;
//! # Ok(()) }
//! ```

use std::fmt;
use std::io;
use std::sync::{Mutex, MutexGuard, OnceLock};

use signal_hook::consts::{
    FORBIDDEN, SIGALRM, SIGCHLD, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGWINCH,
};
use signal_hook::iterator::{Handle, Signals};

use crate::channel::{Receiver, Sender, bounded};
use crate::event::Event;
use crate::sched::never_wait_for_machines;
use crate::sync::Process;

/// Listens for one kind of signal. A clone shares what this one hears.
#[derive(Clone)]
pub struct Signal {
    number: i32,
    heard: Receiver<()>,
    process: Process,
}

const GONE: &str = "the OS thread that hears signals has stayed in the process that this one was forked from";

impl Signal {
    /// The event that the signal was raised since this listener was made, or
    /// since it last committed. Signals that are raised meanwhile count as one.
    ///
    /// If it is not chosen, or dropped, a later synchronization still gets the signal.
    ///
    /// # Panics
    /// In a [forked](crate::process#forks) child of the process in which the listener was made.
    pub fn recv(&self) -> impl Event<Output = ()> + Clone + Send {
        assert!(!self.process.is_parent(), "{GONE}");
        // The sending end is never dropped before this one.
        self.heard.recv().wrap(|_| ())
    }

    /// Whether the signal was raised, as [`recv`](Self::recv) would tell. Never blocks.
    pub fn try_recv(&self) -> bool {
        self.heard.try_recv().is_ok()
    }

    /// The signal's number.
    pub fn number(&self) -> i32 {
        self.number
    }
}

impl fmt::Debug for Signal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Signal").field("number", &self.number).finish_non_exhaustive()
    }
}

macro_rules! named {
    ($($(#[$doc:meta])* $name:ident = $number:ident;)*) => {
        $($(#[$doc])*
        ///
        /// # Errors
        /// The error of the OS, if it refuses.
        pub fn $name() -> io::Result<Signal> {
            listen($number)
        })*
    };
}

named! {
    /// Listens for SIGINT: Ctrl-C.
    interrupt = SIGINT;
    /// Listens for SIGTERM: the request to end.
    terminate = SIGTERM;
    /// Listens for SIGHUP: the terminal is closed, or a daemon should read its configuration again.
    hangup = SIGHUP;
    /// Listens for SIGQUIT: Ctrl-\.
    quit = SIGQUIT;
    /// Listens for SIGUSR1.
    user1 = SIGUSR1;
    /// Listens for SIGUSR2.
    user2 = SIGUSR2;
    /// Listens for SIGALRM.
    alarm = SIGALRM;
    /// Listens for SIGCHLD: a child has ended or stopped. For children that you
    /// spawned see [`process`](crate::process).
    child = SIGCHLD;
    /// Listens for SIGWINCH: the size of the terminal has changed.
    window_change = SIGWINCH;
}

/// Listens for the signal with this number.
///
/// # Errors
/// If the signal cannot be handled (SIGKILL, SIGSTOP, SIGSEGV, SIGILL, SIGFPE), or the OS refuses.
/// The error is [`Unsupported`](io::ErrorKind::Unsupported) in a [forked](crate::process#forks)
/// child of a process that has listened.
pub fn listen(number: i32) -> io::Result<Signal> {
    if !(1..128).contains(&number) || FORBIDDEN.contains(&number) {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "this signal cannot be handled"));
    }
    let switchboard = switchboard()?;
    let (tx, heard) = bounded(1);
    // The listener is made before the default action is taken away, so that no signal is lost in
    // between.
    {
        let mut listeners = lock(&switchboard.listeners);
        listeners.retain(|listener| !listener.1.is_closed());
        listeners.push((number, tx));
    }
    switchboard.signals.add_signal(number)?;
    Ok(Signal { number, heard, process: switchboard.process })
}

/// Whether the process ignores the signal with this number. A process that was started by `nohup`,
/// for example, has to go on ignoring SIGHUP, and should not listen for it.
///
/// # Errors
/// If there is no such signal.
pub fn is_ignored(number: i32) -> io::Result<bool> {
    // SAFETY: all bytes of the structure may be zero.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: without a new action the call changes nothing. The old action is written to `action`,
    // a local variable. An invalid number is an error.
    if unsafe { libc::sigaction(number, std::ptr::null(), &mut action) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(action.sa_sigaction == libc::SIG_IGN)
}

/// The listeners by signal number.
struct Switchboard {
    signals: Handle,
    process: Process,
    listeners: Mutex<Vec<(i32, Sender<()>)>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

fn switchboard() -> io::Result<&'static Switchboard> {
    static SWITCHBOARD: OnceLock<Switchboard> = OnceLock::new();
    static STARTING: Mutex<()> = Mutex::new(());
    let _starting = lock(&STARTING);
    if let Some(switchboard) = SWITCHBOARD.get() {
        if switchboard.process.is_parent() {
            return Err(io::Error::new(io::ErrorKind::Unsupported, GONE));
        }
        return Ok(switchboard);
    }
    let process = Process::here();
    let mut signals = Signals::new::<_, i32>([])?;
    let handle = signals.handle();
    std::thread::Builder::new().name("chanter-signals".to_owned()).spawn(move || {
        never_wait_for_machines();
        for number in signals.forever() {
            let Some(switchboard) = SWITCHBOARD.get() else { continue };
            let mut told = Vec::new();
            lock(&switchboard.listeners).retain(|listener| {
                if listener.0 == number {
                    told.push(listener.1.clone());
                }
                !listener.1.is_closed()
            });
            // A listener may run here for a moment, so the lock is not held. A listener whose
            // channel is full has been told already.
            for listener in told {
                let _ = listener.try_send(());
            }
        }
    })?;
    let switchboard = Switchboard { signals: handle, process, listeners: Mutex::new(Vec::new()) };
    Ok(SWITCHBOARD.get_or_init(|| switchboard))
}
