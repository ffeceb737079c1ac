//! Watchdogs: a hang ends the process, and is reported with what each thread waits on.

use std::fmt;
use std::fmt::Write as _;
use std::io::Write as _;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::dump;

/// The limit that `#[chanter::test]` sets for a test, in seconds, unless it says otherwise.
const TEST_LIMIT: u64 = 300;

/// Ends the process if it is not dropped in time. Then it writes the name of the watched work and a
/// [`dump`](super::dump) to the standard error, and aborts. It is for tests, where a hang is a failure.
///
/// A limit should be far longer than the watched work takes on a busy machine: it is for work that never ends.
///
/// One OS thread of the process watches for all watchdogs. It does not count as one that could help where [deadlocks
/// are reported](crate::Builder::report_deadlocks). If the OS refuses it, nothing is watched.
///
/// ```
/// # use std::time::Duration;
/// use chanter::deadlock::Watchdog;
///
/// let dog = Watchdog::new("a request", Duration::from_secs(300));
/// assert_eq!(chanter::block_on(async { 6 * 7 }), 42);
/// drop(dog);
/// ```
#[must_use = "it watches until it is dropped"]
pub struct Watchdog {
    id: u64,
}

struct Watched {
    id: u64,
    what: String,
    limit: Duration,
    due: Instant,
}

struct Kennel {
    watched: Vec<Watched>,
    next_id: u64,
    /// Whether the OS thread that watches has been started.
    is_started: bool,
}

static KENNEL: Mutex<Kennel> = Mutex::new(Kennel { watched: Vec::new(), next_id: 0, is_started: false });
static CHANGE: Condvar = Condvar::new();

fn kennel() -> MutexGuard<'static, Kennel> {
    KENNEL.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Watchdog {
    /// Watches from now on. `what` names the watched work. A limit that no clock can hold is no limit.
    pub fn new(what: impl Into<String>, limit: Duration) -> Self {
        let what = what.into();
        let due = Instant::now().checked_add(limit);
        let mut kennel = kennel();
        let id = kennel.next_id;
        kennel.next_id += 1;
        if let Some(due) = due {
            kennel.watched.push(Watched { id, what, limit, due });
        }
        if !kennel.is_started {
            let watcher = std::thread::Builder::new().name("chanter-watchdog".to_owned());
            kennel.is_started = watcher.spawn(watch).is_ok();
        }
        CHANGE.notify_one();
        Self { id }
    }

    /// Watches a test for `limit` seconds; 0 means not at all. The environment variable `CHANTER_TEST_LIMIT` replaces
    /// the default.
    #[doc(hidden)]
    pub fn of_test(name: &str, limit: Option<u64>) -> Option<Self> {
        let of_all = || std::env::var("CHANTER_TEST_LIMIT").ok()?.parse().ok();
        let limit = limit.or_else(of_all).unwrap_or(TEST_LIMIT);
        (limit > 0).then(|| Self::new(name, Duration::from_secs(limit)))
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        let done = {
            let mut kennel = kennel();
            let at = kennel.watched.iter().position(|watched| watched.id == self.id);
            at.map(|at| kennel.watched.swap_remove(at))
        };
        drop(done);
    }
}

impl fmt::Debug for Watchdog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watchdog").finish_non_exhaustive()
    }
}

/// Number of OS threads that watch, and wake nobody.
pub(crate) fn watchers() -> usize {
    usize::from(kennel().is_started)
}

fn watch() {
    let mut kennel = kennel();
    loop {
        let now = Instant::now();
        let first = kennel.watched.iter().min_by_key(|watched| watched.due);
        kennel = match first.map(|first| first.due.saturating_duration_since(now)) {
            Some(Duration::ZERO) => break,
            Some(left) => CHANGE.wait_timeout(kennel, left).unwrap_or_else(PoisonError::into_inner).0,
            None => CHANGE.wait(kennel).unwrap_or_else(PoisonError::into_inner),
        };
    }
    let now = Instant::now();
    let mut text = String::new();
    for Watched { what, limit, due, .. } in &kennel.watched {
        // Writing to a string does not fail.
        let _ = match due.checked_duration_since(now) {
            None => writeln!(text, "watchdog: {what} still runs after {} s", limit.as_secs_f64()),
            Some(_) => writeln!(text, "watchdog: {what} runs, too"),
        };
    }
    drop(kennel);
    bark(&text);
    bark(&dump());
    std::process::abort();
}

/// Writes to the standard error. (Not by `eprint`, which a test harness catches.)
fn bark(text: &str) {
    let _ = std::io::stderr().write_all(text.as_bytes());
}
