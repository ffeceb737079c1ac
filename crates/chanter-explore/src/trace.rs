//! The steps of a schedule, for people.

use std::collections::BTreeMap;
use std::fmt;
use std::panic::Location;
use std::sync::Arc;
use std::time::Duration;

use chanter::deadlock::{Waiting, Wanted};
use chanter::simulation::Note;

/// Something that happened in a schedule.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Step {
    /// Number of turns and operations before it.
    pub step: u64,
    /// The thread that did it, or that it happened to; `None`: the clock.
    pub thread: Option<u64>,
    /// Its name, if it was given one.
    pub name: Option<Arc<str>>,
    /// Kind of the step.
    pub what: What,
    /// Place in the program, if it is known.
    pub place: Option<&'static Location<'static>>,
}

/// The steps.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum What {
    /// The thread runs for the first time.
    Begins,
    /// The thread runs again. It had waited for one of these; the list is empty if it waited for no event.
    GoesOn(Vec<Waiting>),
    /// The thread has spawned another one.
    Spawned {
        /// The new thread.
        thread: u64,
        /// Its name.
        name: Option<Arc<str>>,
    },
    /// The thread has synchronized, without waiting.
    Did(Waiting),
    /// The thread has synchronized on one of these, without waiting.
    DidOneOf(Vec<Waiting>),
    /// The thread polls a stream, to see whether it could do one of these.
    Looks(Vec<Waiting>),
    /// The thread begins to wait for one of these. If the list is empty, it waits for a stream, or for a future that
    /// is no event.
    Waits(Vec<Waiting>),
    /// The thread is about to begin an operation, and another one goes first.
    Preempted,
    /// The thread lets others go first.
    Yields,
    /// The thread has woken another one.
    Woke(u64),
    /// The thread has been woken, by a timer or from outside.
    Woken,
    /// The clock has jumped to the next timer.
    Jumped {
        /// Length of the jump.
        by: Duration,
        /// Whether threads were ready nevertheless.
        is_early: bool,
    },
    /// The thread has ended.
    Ends,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.thread {
            Some(thread) => write!(f, "thread {thread}")?,
            None => write!(f, "the clock")?,
        }
        match (&self.name, self.thread) {
            (Some(name), _) => write!(f, " '{name}'")?,
            (None, Some(0)) => write!(f, " (main)")?,
            _ => (),
        }
        write!(f, " {}", self.what)?;
        let Some(place) = self.place else { return Ok(()) };
        write!(f, ", at {}:{}:{}", place.file(), place.line(), place.column())
    }
}

impl fmt::Display for What {
    /// Continues the thread's name.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Begins => f.write_str("begins"),
            Self::GoesOn(waited) => {
                f.write_str("goes on")?;
                if !waited.is_empty() {
                    write!(f, ": it waited to {}", AnyOf(waited))?;
                }
                Ok(())
            }
            Self::Spawned { thread, name: None } => write!(f, "spawns thread {thread}"),
            Self::Spawned { thread, name: Some(name) } => write!(f, "spawns thread {thread} '{name}'"),
            Self::Did(what) => write!(f, "{}", Doing(what)),
            Self::DidOneOf(several) => write!(f, "was ready to {}", AnyOf(several)),
            Self::Looks(several) => write!(f, "looks whether it can {}", AnyOf(several)),
            Self::Waits(several) if several.is_empty() => {
                f.write_str("waits on a stream, or on a future that is no event")
            }
            Self::Waits(several) => write!(f, "waits to {}", AnyOf(several)),
            Self::Preempted => f.write_str("is preempted before its next operation"),
            Self::Yields => f.write_str("yields"),
            Self::Woke(thread) => write!(f, "wakes thread {thread}"),
            Self::Woken => f.write_str("is woken"),
            Self::Jumped { by, is_early: false } => {
                write!(f, "jumps by {by:?} to the next timer, which fires")
            }
            Self::Jumped { by, is_early: true } => {
                write!(f, "jumps by {by:?} to the next timer, which fires while threads are ready")
            }
            Self::Ends => f.write_str("ends"),
        }
    }
}

/// One of several, after the word "to".
struct AnyOf<'a>(&'a [Waiting]);

impl fmt::Display for AnyOf<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some((first, rest)) = self.0.split_first() else { return f.write_str("nothing") };
        write!(f, "{first}")?;
        rest.iter().try_for_each(|other| write!(f, ", or to {other}"))
    }
}

/// A thread's action, behind its name.
struct Doing<'a>(&'a Waiting);

impl fmt::Display for Doing<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Waiting::Send { channel } => write!(f, "sends on channel #{channel}"),
            Waiting::Receive { channel } => write!(f, "receives from channel #{channel}"),
            Waiting::Join { thread: Some(thread) } => write!(f, "joins thread {thread}"),
            Waiting::Join { .. } => write!(f, "joins a thread"),
            Waiting::Lock { lock, wants: Wanted::Mutex, of, .. } => write!(f, "locks Mutex<{of}> #{lock}"),
            Waiting::Lock { lock, wants: Wanted::Read, of, .. } => {
                write!(f, "locks RwLock<{of}> #{lock} to read")
            }
            Waiting::Lock { lock, wants: Wanted::Write, of, .. } => {
                write!(f, "locks RwLock<{of}> #{lock} to write")
            }
            Waiting::Lock { lock, wants: Wanted::Object, of, .. } => {
                write!(f, "calls a method of {of} #{lock}")
            }
            Waiting::Lock { lock, wants: Wanted::Permits(many), .. } => {
                write!(f, "takes {many} of the permits of Semaphore #{lock}")
            }
            Waiting::Read => write!(f, "reads an IVar"),
            Waiting::Nack => write!(f, "hears a nack"),
            Waiting::Time(_) => write!(f, "finds that a time has come"),
            Waiting::Always => write!(f, "passes what is always ready"),
            other => write!(f, "was ready to {other}"),
        }
    }
}

/// Takes the steps of one schedule down.
#[derive(Debug, Default)]
pub(crate) struct Trace {
    pub(crate) steps: Vec<Step>,
    names: BTreeMap<u64, Arc<str>>,
    /// The wait that each thread has begun and not ended. It is empty for a thread that has run since.
    waiting: BTreeMap<u64, Vec<Waiting>>,
    /// The thread that has begun to wait in its current turn.
    blocks: Option<u64>,
    /// The thread whose turn it is.
    running: Option<u64>,
}

/// Steps that are kept.
const MOST: usize = 1 << 16;

impl Trace {
    fn push(
        &mut self,
        step: u64,
        thread: Option<u64>,
        what: What,
        place: Option<&'static Location<'static>>,
    ) {
        if self.steps.len() < MOST {
            let name = thread.and_then(|thread| self.names.get(&thread).cloned());
            self.steps.push(Step { step, thread, name, what, place });
        }
    }

    /// Notes that a turn of a thread begins.
    pub(crate) fn turn(&mut self, step: u64, thread: u64) {
        self.blocks = None;
        let before = self.waiting.insert(thread, Vec::new());
        let has_changed = self.running.replace(thread) != Some(thread);
        match before {
            None => self.push(step, Some(thread), What::Begins, None),
            Some(waited) if has_changed || !waited.is_empty() => {
                self.push(step, Some(thread), What::GoesOn(waited), None);
            }
            Some(_) => (),
        }
    }

    /// Notes that a turn of a thread ends, and that the thread is still ready.
    pub(crate) fn pause(&mut self, step: u64, thread: u64, is_preempted: bool) {
        let what = if is_preempted { What::Preempted } else { What::Yields };
        self.push(step, Some(thread), what, None);
    }

    pub(crate) fn note(&mut self, step: u64, note: Note) {
        match note {
            Note::Spawned { thread, by, name, site, .. } => {
                if let Some(name) = &name {
                    self.names.insert(thread, Arc::clone(name));
                }
                if by.is_some() {
                    self.push(step, by, What::Spawned { thread, name }, Some(site));
                }
            }
            Note::Synchronized { thread, mut on, is_done, chosen, place, .. } => {
                let what = match chosen {
                    Some(chosen) => What::Did(on.swap_remove(chosen)),
                    None if is_done => What::DidOneOf(on),
                    None => {
                        self.waiting.insert(thread, on.clone());
                        self.blocks = Some(thread);
                        What::Waits(on)
                    }
                };
                self.push(step, Some(thread), what, place);
            }
            Note::Looked { thread, on, .. } => {
                self.push(step, Some(thread), What::Looks(on), None);
            }
            Note::Blocked { thread, .. } if self.blocks != Some(thread) => {
                self.push(step, Some(thread), What::Waits(Vec::new()), None);
            }
            Note::Woken { thread, by: None, .. } => self.push(step, Some(thread), What::Woken, None),
            Note::Woken { thread, by, .. } => self.push(step, by, What::Woke(thread), None),
            Note::Jumped { by, is_early, .. } => self.push(step, None, What::Jumped { by, is_early }, None),
            Note::Ended { thread, .. } => self.push(step, Some(thread), What::Ends, None),
            _ => (),
        }
    }
}
