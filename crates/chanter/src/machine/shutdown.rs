//! The end of a machine whose threads do not come back.

use std::fmt::Write as _;
use std::io::Write as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::Machine;
use crate::sched::{Pool, Worker};

impl Machine {
    /// Ends the machine as its drop does, but waits at most for the time `limit`, whatever
    /// [`Builder::shutdown_timeout`](crate::Builder::shutdown_timeout) says. It waits for polls and [blocking
    /// calls](crate::spawn_blocking) that are under way, and blocks the OS thread meanwhile. True: everything has
    /// ended. False: a message on the standard error names the OS threads that have not ended. They go on where they
    /// are, and the machine's memory stays. A thread that joins one that was left waits for it for ever.
    ///
    /// If one of the machine's own threads or blocking calls makes the call, it waits for nothing, and returns true:
    /// the machine ends later.
    ///
    /// ```
    /// # use chanter::prelude::*;
    /// use std::time::Duration;
    ///
    /// let machine = Machine::builder().vps(1).build()?;
    /// machine.block_on(async { spawn(async {}).await }).unwrap();
    /// assert!(machine.shutdown_timeout(Duration::from_secs(60)));
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn shutdown_timeout(self, limit: Duration) -> bool {
        let pool = Arc::clone(self.pool());
        pool.limit_shutdown(Some(limit));
        drop(self);
        !pool.is_abandoned()
    }
}

impl Pool {
    /// The time until which the end of the machine, which begins now, waits for its OS threads.
    pub(super) fn end_of_patience(&self) -> Option<Instant> {
        // A limit that cannot be represented is none.
        self.shutdown_limit().and_then(|limit| Instant::now().checked_add(limit))
    }

    /// Names the OS threads that are left, since their end has taken too long.
    pub(super) fn give_up_waiting(&self) {
        let limit = self.shutdown_limit();
        let mut text = format!(
            "chanter: the machine {:?} ended, and after {:?} did not wait any longer for:",
            self.name(),
            limit.unwrap_or_default()
        );
        let left = self.who_is_left();
        for who in &left {
            let _ = write!(text, "\n  {who}");
        }
        if left.is_empty() {
            text.push_str("\n  OS threads that are about to end");
        } else if self.genealogy().is_none() {
            text.push_str("\n(a machine with `Builder::genealogy` knows its threads by name and site)");
        }
        let _ = writeln!(std::io::stderr(), "{text}");
    }

    fn who_is_left(&self) -> Vec<String> {
        let living = self.genealogy().map(|genealogy| genealogy.living()).unwrap_or_default();
        let mut left = Vec::new();
        self.each_worker(&mut |worker: &Worker| {
            let running = worker.running.get();
            if running.is_null() || !worker.sleeper().is_awake() {
                return;
            }
            let mut who = format!("{}, in a turn of ", self.os_thread_name(worker));
            // The thread is compared by its address, since it may end at any moment.
            let _ = match living.iter().find(|thread| thread.frame.as_ptr() == running) {
                Some(thread) => match &thread.name {
                    Some(name) => write!(who, "thread {} '{name}', spawned at {}", thread.id, thread.site),
                    None => write!(who, "thread {}, spawned at {}", thread.id, thread.site),
                },
                None => write!(who, "a thread"),
            };
            left.push(who);
        });
        left.extend(
            self.blocking.running().into_iter().map(|site| format!("a blocking call, spawned at {site}")),
        );
        left
    }
}
