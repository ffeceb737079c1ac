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
use crate::node::Tests;

/// A form of polling: a way to look for a message while a thread waits for it; see [`Recv::polling`]. *Thread polls*,
/// *partial switch* and *waiting queue* are the names of the paper. [`QueueAny`](Self::QueueAny) is the form that the
/// paper could not try: no library of its time could test any of many receives at once.
///
/// In every form the engine's test is a single one for all messages of the process. The forms differ in which thread
/// asks for the test, how often, and how a thread hears of its message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
#[doc(alias = "Form")]
pub enum PollMode {
    /// The scheduler polls, and the thread is woken when its message is there. The thread is in no queue of tested
    /// threads. Nothing is posted to the engine; its poll is one test for any number of waiting threads.
    #[default]
    QueueRing,
    /// The thread polls the engine, and yields if its message is not there (*Thread polls*, figure 5). If no other
    /// thread is ready, it polls a few times more before it yields. Its processor never sleeps meanwhile. This form
    /// answers soonest where the processor has nothing else to do.
    ThreadPolls,
    /// The scheduler tests for the next waiting thread in turn, and switches to it only if its message is there
    /// (*Scheduler polls*, with a *partial switch*, figure 6).
    PartialSwitch,
    /// The scheduler keeps a queue of waiting threads, and tests for each at every turn (*Scheduler polls*, with a
    /// *waiting queue*, figure 7).
    QueueEach,
    /// The scheduler keeps such a queue, with one test for any of its threads (the paper's section 4.2:
    /// `msgtestany`).
    QueueAny,
}

impl PollMode {
    /// All forms.
    pub const ALL: [Self; 5] =
        [Self::ThreadPolls, Self::PartialSwitch, Self::QueueEach, Self::QueueAny, Self::QueueRing];
}

/// Number of polls before a thread yields, if no other thread is ready.
const POLLS: u32 = 16;

impl<T, R: Read<T>> Recv<T, R> {
    /// Receives a message, and polls in the form `mode` until it is there. An await of the event polls in the form
    /// [`PollMode::QueueRing`]. With engines that wake a waiting process, the other forms only cost time.
    /// [`PollMode::PartialSwitch`] and [`PollMode::QueueEach`] keep the processors of a machine with a
    /// [`Pump`](crate::Pump) awake. Without a pump they test when the engine has woken the process.
    ///
    /// **Cancel safety.** A future that is dropped has received nothing.
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
        // Another poll may have brought the message.
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
