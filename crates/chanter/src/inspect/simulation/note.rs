//! Notes of what happens in a schedule, for people.

use std::panic::Location;
use std::sync::Arc;
use std::time::Duration;

use super::Simulated;
use crate::frame::Header;
use crate::frame::report::Waiting;
use crate::sched::Worker;
use crate::sched::simulate::Simulate;

/// Something that happened in a schedule. Threads have their [tags](crate::policy::Ready::tag). Channels and locks
/// have numbers in the order in which they are named, also in the report of a deadlock. (Their memory tells them
/// apart: a channel that is made where another one was has its number.)
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Note {
    /// A thread has been spawned.
    #[non_exhaustive]
    Spawned {
        /// The new thread.
        thread: u64,
        /// The thread that spawned it.
        by: Option<u64>,
        /// Its name, if it was given one.
        name: Option<Arc<str>>,
        /// The place where it was spawned.
        site: &'static Location<'static>,
    },
    /// A thread has synchronized, or begun to wait.
    #[non_exhaustive]
    Synchronized {
        /// The thread.
        thread: u64,
        /// The events that it synchronizes on: several for a choice.
        on: Vec<Waiting>,
        /// Whether it has committed, rather than begun to wait.
        is_done: bool,
        /// Index in `on` of the operation that has committed, if that is known.
        chosen: Option<usize>,
        /// The place where it synchronizes, if that is known.
        place: Option<&'static Location<'static>>,
    },
    /// A thread polls a stream, which is no event, and is about to see whether it is ready.
    #[non_exhaustive]
    Looked {
        /// The thread.
        thread: u64,
        /// The channels that it polls.
        on: Vec<Waiting>,
    },
    /// A thread's turn has ended, and it waits: for what it has begun to wait for, or for a future that is no event.
    #[non_exhaustive]
    Blocked {
        /// The thread.
        thread: u64,
    },
    /// A thread that waited is ready.
    #[non_exhaustive]
    Woken {
        /// The thread.
        thread: u64,
        /// The thread that woke it; `None`: a timer, or no thread of the machine.
        by: Option<u64>,
    },
    /// The clock has jumped to the next timer.
    #[non_exhaustive]
    Jumped {
        /// The distance of the jump.
        by: Duration,
        /// Whether threads were ready.
        is_early: bool,
    },
    /// A thread has ended.
    #[non_exhaustive]
    Ended {
        /// The thread.
        thread: u64,
    },
}

impl Simulated {
    /// Tells the simulation what has happened, if it wants to know.
    pub(super) fn note(&self, note: impl FnOnce() -> Note) {
        if self.takes_notes() {
            let note = note();
            self.ask((), |simulation| simulation.note(note));
        }
    }

    /// Notes what has become of a turn's thread, if it is not ready.
    pub(super) fn note_turn(&self, frame: *const Header, thread: u64) {
        // SAFETY: the memory of frames stays while the machine lives.
        let header = unsafe { &*frame };
        let lives = header.state.in_use() && !header.state.is_complete() && header.tag.get() == thread;
        if !lives {
            self.note(|| Note::Ended { thread });
        } else if header.state.is_idle() {
            self.note(|| Note::Blocked { thread });
        }
    }
}

impl Worker {
    /// The number of the thread that runs here.
    pub(super) fn running_tag(&self) -> Option<u64> {
        // SAFETY: the running thread is being polled by us, so its frame is alive.
        unsafe { self.running.get().as_ref() }.map(|header| header.tag.get())
    }
}
