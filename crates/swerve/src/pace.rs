//! The pace of large files: a bounded number is under way, and the others wait their turn, so that the run queues
//! stay short. Without it a newcomer would wait, at each step of its request, until every download that
//! has room to go on has gone on.
//!
//! A file processor takes its [`Turn`] before it reads a chunk, and keeps it for some chunks. An idle holder gives it
//! up: the processor, when it waits for a disk, and the connection, when its client takes no more.
//! So neither a slow disk nor many stalled clients hold up anybody else.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use chanter::sync::{OwnedPermit, Semaphore};

/// Turns at the same time: enough to keep all processors busy, even if the half of them wait to be scheduled.
const TURNS_PER_CORE: usize = 4;
/// Chunks that are sent in a turn.
const CHUNKS: u32 = 8;

/// Gives turns. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Pace {
    turns: Arc<Semaphore>,
}

/// The turn of one download, which it has or has not. A processor and a connection share it.
#[derive(Debug, Clone)]
pub(crate) struct Turn {
    pace: Pace,
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    taken: Option<Taken>,
    /// Whether the client takes no more. The processor then gets no further than its next chunk, which needs no turn.
    is_stalled: bool,
}

#[derive(Debug)]
struct Taken {
    _permit: OwnedPermit,
    /// Chunks for which it is good.
    left: u32,
}

impl Pace {
    pub(crate) fn new() -> Pace {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Pace { turns: Arc::new(Semaphore::new(TURNS_PER_CORE * cores)) }
    }

    /// For a download, which has no turn yet.
    pub(crate) fn download(&self) -> Turn {
        Turn { pace: self.clone(), state: Arc::default() }
    }
}

impl Turn {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes it for a chunk, and waits for it if need be.
    pub(crate) async fn take(&self) {
        if self.lasts() {
            return;
        }
        // Others may have waited for longer.
        self.give_up();
        // The semaphore is never closed.
        let Ok(permit) = self.pace.turns.clone().acquire_owned(1).await else { return };
        let taken = Taken { _permit: permit, left: CHUNKS - 1 };
        let mut state = self.state();
        if state.is_stalled {
            drop(state);
            drop(taken);
        } else {
            state.taken = Some(taken);
        }
    }

    /// Whether no other has to be waited for.
    fn lasts(&self) -> bool {
        let mut state = self.state();
        match &mut state.taken {
            Some(Taken { left: left @ 1.., .. }) => {
                *left -= 1;
                true
            }
            _ => state.is_stalled,
        }
    }

    /// Gives it up, if it is taken. The download goes on with what it has.
    pub(crate) fn give_up(&self) {
        let taken = self.state().taken.take();
        // Outside of the lock: others are woken.
        drop(taken);
    }

    /// Notes that the client has begun to take nothing, or to take more.
    pub(crate) fn stall(&self, is_stalled: bool) {
        let mut state = self.state();
        state.is_stalled = is_stalled;
        let taken = if is_stalled { state.taken.take() } else { None };
        drop(state);
        drop(taken);
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use super::*;

    /// A pace of one turn at a time.
    fn narrow() -> Pace {
        Pace { turns: Arc::new(Semaphore::new(1)) }
    }

    fn is_free(pace: &Pace) -> bool {
        pace.turns.available() == 1
    }

    fn poll(future: std::pin::Pin<&mut impl Future<Output = ()>>) -> Poll<()> {
        future.poll(&mut Context::from_waker(Waker::noop()))
    }

    /// Takes a turn for which nobody has to be waited for.
    fn take(turn: &Turn) {
        assert!(poll(pin!(turn.take())).is_ready());
    }

    #[test]
    fn a_turn_ends() {
        let pace = narrow();
        let (first, second) = (pace.download(), pace.download());
        take(&first);
        assert!(!is_free(&pace));
        let mut waits = pin!(second.take());
        assert!(poll(waits.as_mut()).is_pending());
        // For all of its chunks it waits for nobody.
        for _ in 1..CHUNKS {
            take(&first);
        }
        assert!(poll(waits.as_mut()).is_pending());
        // Then the other has its turn, if not at once: a returning one may go first a number of times.
        let tries = (0..100_000).take_while(|_| {
            let _ = poll(pin!(first.take()));
            poll(waits.as_mut()).is_pending()
        });
        assert!(tries.count() < 100_000);
        assert!(poll(pin!(first.take())).is_pending());
        second.give_up();
        take(&first);
        first.give_up();
        assert!(is_free(&pace));
    }

    #[test]
    fn who_is_stalled_keeps_no_turn_and_waits_for_none() {
        let pace = narrow();
        let (stalled, other) = (pace.download(), pace.download());
        take(&stalled);
        stalled.stall(true);
        assert!(is_free(&pace));
        take(&other);
        take(&stalled);
        other.give_up();
        assert!(is_free(&pace));
        stalled.stall(false);
        take(&stalled);
        assert!(!is_free(&pace));
    }

    /// It stalls while it waits for its turn.
    #[test]
    fn a_turn_that_comes_too_late_is_not_kept() {
        let pace = narrow();
        let (first, second) = (pace.download(), pace.download());
        take(&first);
        let mut waits = pin!(second.take());
        assert!(poll(waits.as_mut()).is_pending());
        second.stall(true);
        first.give_up();
        assert!(poll(waits.as_mut()).is_ready());
        assert!(is_free(&pace));
    }
}
