//! Forms of polling: ways to look for the message of a waiting thread (Chant, section 4.2).

use std::fmt;

use chanter::base::{WakeList, is_wanted};
use chanter::yield_now;

use super::Recv;
use super::pattern::Pattern;
use super::place::{Core, Got};
use super::read::Read;
use super::recv::{Received, receive};
use crate::error::RecvError;

/// A way to look for a message while a thread waits for it; see [`Recv::polling`]. The names are the paper's.
///
/// The engine's test is a single one for all messages of the process, in either way. The paper's other forms test each
/// of many receives. They only cost time here. The benchmark `cluster` has them, as a
/// scheduling policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
#[doc(alias = "Form")]
pub enum PollMode {
    /// The scheduler polls, and the thread is woken when its message is there (*Scheduler polls*). Nothing is posted
    /// to the engine, so a poll takes as long for a thousand waiting threads as for one.
    #[default]
    SchedulerPolls,
    /// The thread polls the engine, and yields if its message is not there (*Thread polls*, figure 5). If no other
    /// thread is ready, it polls a few times more before it yields. Its processor never sleeps meanwhile. This form
    /// answers soonest where the processor has nothing else to do.
    ThreadPolls,
}

impl PollMode {
    /// All forms.
    pub const ALL: [Self; 2] = [Self::ThreadPolls, Self::SchedulerPolls];
}

/// Number of polls before a thread yields, if no other thread is ready.
const POLLS: u32 = 16;

impl<T, R: Read<T>> Recv<T, R> {
    /// Receives a message, and polls in the form `mode` until it is there. An await of the event polls in the form
    /// [`PollMode::SchedulerPolls`].
    ///
    /// **Cancel safety.** A future that is dropped has received nothing.
    ///
    /// # Errors
    /// As for [`Inbox::recv`](crate::Inbox::recv).
    pub async fn polling(self, mode: PollMode) -> Result<Received<T>, RecvError> {
        let (core, pattern) = (self.core(), self.pattern());
        match mode {
            PollMode::SchedulerPolls => self.await,
            PollMode::ThreadPolls => receive::<T, R>(&core, &pattern, thread_polls(core, pattern).await),
        }
    }
}

async fn thread_polls(core: Core, pattern: Pattern) -> Got {
    let take = || {
        let mut wakes = WakeList::new();
        let got = core.take(&pattern, &mut wakes);
        wakes.queue();
        got
    };
    if let Some(got) = take() {
        return got;
    }
    let home = core.home();
    loop {
        for _ in 0..POLLS {
            if home.as_ref().is_some_and(|home| home.poll_for_oneself())
                && let Some(got) = take()
            {
                return got;
            }
            if is_wanted() {
                break;
            }
        }
        yield_now().await;
        // Another poll may have brought the message.
        if let Some(got) = take() {
            return got;
        }
    }
}

impl fmt::Display for PollMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::SchedulerPolls => "scheduler polls",
            Self::ThreadPolls => "thread polls",
        })
    }
}
