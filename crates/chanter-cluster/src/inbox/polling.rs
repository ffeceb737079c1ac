//! Who looks for a message while a thread waits (Chant, section 4.2).

use std::fmt;

use chanter::yield_now;
use serde::de::DeserializeOwned;

use super::Recv;
use super::recv::{Received, receive};
use crate::error::RecvError;

/// Who looks for a message while a thread waits for it; see [`Recv::polling`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Form {
    /// The scheduler: the thread is queued, and woken when its message is there. Nothing of it is posted to the engine, whose
    /// poll is one test however many wait. (The paper's *scheduler polls*, with a queue that nobody goes through.)
    #[default]
    QueueRing,
    /// The thread itself: it polls the engine, and yields when its message was not there (*Thread polls*, figure 5). Its
    /// processor never sleeps meanwhile; it answers soonest where it has nothing else to do.
    ThreadPolls,
}

impl<T: DeserializeOwned> Recv<T> {
    /// Receives, and polls in this form until the message is there. [`Form::QueueRing`] is what awaiting the event does.
    /// With engines that wake who waits, [`Form::ThreadPolls`] only costs time.
    ///
    /// **Cancel safety.** Dropped, it has received nothing.
    ///
    /// # Errors
    /// As for [`Inbox::recv`](crate::Inbox::recv).
    pub async fn polling(self, form: Form) -> Result<Received<T>, RecvError> {
        match form {
            Form::QueueRing => self.await,
            Form::ThreadPolls => self.thread_polls().await,
        }
    }

    async fn thread_polls(self) -> Result<Received<T>, RecvError> {
        let (core, pattern) = (self.core(), self.pattern());
        let node = core.node();
        loop {
            if let Some(got) = core.take(&pattern) {
                return receive(core, pattern, got);
            }
            if let Some(node) = &node {
                node.poll_for_oneself();
            }
            if let Some(got) = core.take(&pattern) {
                return receive(core, pattern, got);
            }
            yield_now().await;
        }
    }
}

impl fmt::Display for Form {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::QueueRing => "queue, ring",
            Self::ThreadPolls => "thread polls",
        })
    }
}
