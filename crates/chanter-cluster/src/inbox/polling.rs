//! Who looks for a message while a thread waits (Chant, section 4.2).

use std::fmt;

use chanter::base::{WakeList, is_wanted};
use chanter::yield_now;

use super::Recv;
use super::pattern::Pattern;
use super::place::{Core, Got};
use super::read::Read;
use super::recv::{Received, receive};
use crate::error::RecvError;
use crate::node::Tests;

/// Who looks for a message while a thread waits for it; see [`Recv::polling`]. The first three are the paper's, the fourth is what
/// it could not try, since no library of its time had one test for any of many receives.
///
/// In all of them a receive is posted in its inbox, and the engine's test is one for all messages of the process. The forms
/// differ in who asks for it, how often, and how a thread hears of its message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
#[doc(alias = "Form")]
pub enum PollMode {
    /// The scheduler: the thread is queued nowhere, and woken when its message is there. Nothing of it is posted to the engine, whose
    /// poll is one test however many wait.
    #[default]
    QueueRing,
    /// The thread itself: it polls the engine, and yields when its message was not there (*Thread polls*, figure 5); where no other
    /// thread is ready, after some polls more. Its processor never sleeps meanwhile; it answers soonest where it has nothing else to do.
    ThreadPolls,
    /// The scheduler, for the thread whose turn it is among those that wait, which is switched to only if its message is there
    /// (*Scheduler polls*, with a *partial switch*, figure 6).
    PartialSwitch,
    /// The scheduler, by a queue of those who wait, with a test for each at every turn (*Scheduler polls*, with a *waiting
    /// queue*, figure 7).
    QueueEach,
    /// The same, with one test for any of them (the paper's section 4.2: `msgtestany`).
    QueueAny,
}

impl PollMode {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::ThreadPolls, Self::PartialSwitch, Self::QueueEach, Self::QueueAny, Self::QueueRing];
}

/// So often a thread polls before it yields, if nothing else is to be run.
const POLLS: u32 = 16;

impl<T, R: Read<T>> Recv<T, R> {
    /// Receives, and polls in this form until the message is there. [`PollMode::QueueRing`] is what awaiting the event does.
    /// With engines that wake who waits, the others only cost time. Those in which the scheduler tests for each keep the processors of a machine with a
    /// [`Pump`](crate::Pump) awake; without one they test when the engine has woken the process.
    ///
    /// **Cancel safety.** Dropped, it has received nothing.
    ///
    /// # Errors
    /// As for [`Inbox::recv`](crate::Inbox::recv).
    pub async fn polling(self, mode: PollMode) -> Result<Received<T>, RecvError> {
        let (core, pattern) = (self.core(), self.pattern());
        match mode {
            PollMode::QueueRing => self.await,
            PollMode::ThreadPolls => receive::<T, R>(&core, &pattern, thread_polls(core, pattern).await),
            PollMode::PartialSwitch => self.queued(Tests::Next).await,
            PollMode::QueueEach => self.queued(Tests::Each).await,
            PollMode::QueueAny => self.queued(Tests::Any).await,
        }
    }

    async fn queued(self, tests: Tests) -> Result<Received<T>, RecvError> {
        let node = self.core().node();
        let receive = self.posted();
        if let Some(node) = node {
            receive.wait_in_queue(&node, tests).await;
        }
        receive.await
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
    let node = core.node();
    loop {
        for _ in 0..POLLS {
            if node.as_ref().is_some_and(|node| node.poll_for_oneself())
                && let Some(got) = take()
            {
                return got;
            }
            if is_wanted() {
                break;
            }
        }
        yield_now().await;
        // Others poll, too.
        if let Some(got) = take() {
            return got;
        }
    }
}

impl fmt::Display for PollMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::QueueRing => "queue, ring",
            Self::ThreadPolls => "thread polls",
            Self::PartialSwitch => "partial switch",
            Self::QueueEach => "queue, test each",
            Self::QueueAny => "queue, test any",
        })
    }
}
