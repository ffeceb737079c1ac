//! The most urgent thread first, and nobody waits for ever.

use super::{Policy, Ready, ReadyQueue, Reason};
use crate::sync::Lock;
use crate::sync::atomic::{AtomicUsize, Ordering};

/// Least and greatest priority that are told apart: those beyond count as the nearest.
const LEAST: i8 = -8;
const MOST: i8 = 7;
/// Number of levels, one for each priority that is told apart.
const LEVELS: usize = (MOST - LEAST + 1) as usize;
/// Times that a level is passed over before its first thread runs, by default.
const PATIENCE: u32 = 64;

/// The thread with the greatest [`priority`](super::Attributes::priority) first; among equals, the one that has
/// waited for longest. Priorities from -8 to 7 are told apart.
///
/// *Ageing*: a level that was passed over 64 times (see [`with_patience`](Priority::with_patience)) is served once,
/// even if more urgent threads are ready. So a thread before which `n` others of its own level wait runs after at
/// most `(n + 1)(64 + 16)` others.
///
/// Virtual processors that search for work are given the most urgent thread.
#[derive(Debug)]
pub struct Priority {
    patience: u32,
    levels: Lock<Levels>,
    /// Number of threads that could be given away: a hint.
    movable: AtomicUsize,
}

#[derive(Debug)]
struct Levels {
    /// A queue for each level, the most urgent first.
    queues: [ReadyQueue; LEVELS],
    /// Number of times that each level was passed over since it was last served, or last empty.
    passed: [u32; LEVELS],
    /// A bit for each level that is not empty.
    filled: u16,
}

impl Priority {
    /// An empty policy.
    pub fn new() -> Self {
        Self::with_patience(PATIENCE)
    }

    /// An empty policy that serves a level once after it was passed over `patience` times. With `u32::MAX` the
    /// priorities are practically strict.
    pub fn with_patience(patience: u32) -> Self {
        let levels = Levels { queues: [const { ReadyQueue::new() }; LEVELS], passed: [0; LEVELS], filled: 0 };
        Self { patience, levels: Lock::new(levels), movable: AtomicUsize::new(0) }
    }

    fn took(&self, thread: Option<Ready>) -> Option<Ready> {
        if thread.as_ref().is_some_and(Ready::may_move) {
            // ORDER: Relaxed: a hint.
            self.movable.fetch_sub(1, Ordering::Relaxed);
        }
        thread
    }
}

impl Default for Priority {
    fn default() -> Self {
        Self::new()
    }
}

impl Levels {
    fn first(&self) -> Option<usize> {
        (self.filled != 0).then(|| self.filled.trailing_zeros() as usize)
    }

    fn pop(&mut self, level: usize) -> Option<Ready> {
        self.passed[level] = 0;
        let thread = self.queues[level].pop_front();
        if self.queues[level].is_empty() {
            self.filled &= !(1 << level);
        }
        thread
    }

    /// Chooses the level whose turn it is. Those that wait behind it grow older.
    fn choose(&mut self, patience: u32) -> Option<usize> {
        let first = self.first()?;
        let mut others = self.filled & (self.filled - 1);
        let mut chosen = first;
        while others != 0 {
            let level = others.trailing_zeros() as usize;
            others &= others - 1;
            self.passed[level] = self.passed[level].saturating_add(1);
            // Of several levels that are out of patience, the one that has waited for longest is served.
            if self.passed[level] > patience && (chosen == first || self.passed[level] > self.passed[chosen])
            {
                chosen = level;
            }
        }
        Some(chosen)
    }
}

impl Policy for Priority {
    fn enqueue(&self, thread: Ready, _reason: Reason) -> Option<Ready> {
        let level = (MOST - thread.attributes().priority.clamp(LEAST, MOST)) as usize;
        let movable = thread.may_move();
        let mut levels = self.levels.lock();
        levels.queues[level].push_back(thread);
        levels.filled |= 1 << level;
        if movable {
            self.movable.fetch_add(1, Ordering::Relaxed);
        }
        None
    }

    fn next(&self) -> Option<Ready> {
        let thread = {
            let mut levels = self.levels.lock();
            let level = levels.choose(self.patience)?;
            levels.pop(level)
        };
        self.took(thread)
    }

    fn give(&self, _stealer: &dyn Policy) -> Option<Ready> {
        if self.waiting() == 0 {
            return None;
        }
        let thread = {
            let mut levels = self.levels.try_lock()?;
            (0..LEVELS).find_map(|level| {
                let thread = levels.queues[level].take_first(Ready::may_move)?;
                if levels.queues[level].is_empty() {
                    levels.filled &= !(1 << level);
                    levels.passed[level] = 0;
                }
                Some(thread)
            })
        };
        self.took(thread)
    }

    fn waiting(&self) -> usize {
        self.movable.load(Ordering::Relaxed)
    }
}
