//! A thread of another process, as its spawner sees it.

use std::fmt;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use chanter::Event;
use chanter::prelude::*;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::error::{AskError, Down, EndError, SpawnError, Unended};
use super::functions::Plan;
use super::order::{End, ORDER, Order, Reply, SPAWN, Spawn, Unspawned};
use crate::Process;
use crate::engine::ProcessId;
use crate::name::ThreadName;
use crate::node::Node;
use crate::service::{At, CallError, Outcome, Unwanted, read};
use crate::wire::{Contents, Enclosed, EnclosedIn, Enclosing, Slot, decode, encode};

/// A thread of another process, or of this one, that yields a `T`; see [`At::spawn`].
///
/// Dropping the handle lets the thread go on by itself, and its value is dropped. Its [name](Self::name) may be sent
/// to others, which get handles by [`Process::thread`].
pub struct GlobalThread<T> {
    at: At,
    name: ThreadName,
    is_owner: bool,
    value: PhantomData<fn() -> T>,
}

impl<T> fmt::Debug for GlobalThread<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GlobalThread").field("name", &self.name).field("is_owner", &self.is_owner).finish()
    }
}

impl<T> Drop for GlobalThread<T> {
    fn drop(&mut self) {
        if self.is_owner {
            // The post fails if too many requests are under way or the process has gone; nothing can be done then.
            let _ = self.at.post(ORDER.ask(&(self.name.thread, Order::Detach)));
        }
    }
}

/// Awaiting the handle itself joins the thread, at half the cost of [`join`](GlobalThread::join) and a drop: the value is taken, and nobody can ask for
/// it again.
///
/// **Cancel safety.** Dropping the future is like dropping the handle.
impl<T: DeserializeOwned + 'static> IntoFuture for GlobalThread<T> {
    type Output = Result<T, EndError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        let order = if self.is_owner { Order::Take } else { Order::Join };
        Box::pin(async move {
            let mut this = self;
            let ask = ORDER.ask(&(this.name.thread, order));
            let outcome = this.at.call_or(ask, Unwanted::Withdraw).await;
            // The process that has answered has also detached the thread.
            this.is_owner &= outcome.is_err();
            ended(outcome)
        })
    }
}

/// Reads the value in place.
fn ended<T: DeserializeOwned>(outcome: Outcome) -> Result<T, EndError> {
    let body = outcome.map_err(EndError::Call)?;
    body.reading(|bytes| match decode::<Reply<EnclosedIn<'_>>>(bytes) {
        Ok(Reply::Ended(End::Value(value))) => {
            value.decode().map_err(|error| EndError::Call(CallError::BadAnswer(error)))
        }
        Ok(Reply::Ended(End::Panicked(message))) => Err(EndError::Panicked(message)),
        Ok(Reply::Ended(End::Cancelled)) => Err(EndError::Cancelled),
        Ok(Reply::NoThread) => Err(EndError::NoThread),
        Ok(Reply::NotAllowed) => Err(EndError::Refused),
        Ok(reply) => Err(EndError::Call(senseless(&reply))),
        Err(error) => Err(EndError::Call(CallError::BadAnswer(error))),
    })
}

impl At {
    /// The event of spawning a thread there: it runs a function that the process [offers](Process::offer).
    ///
    /// The request is sent when the event is synchronized on, and the event commits when the thread is there. If the
    /// event is not chosen, or dropped before, a thread that is spawned nevertheless is cancelled.
    ///
    /// # Errors
    /// See [`SpawnError`].
    pub fn spawn<T>(
        &self,
        plan: Plan<T>,
    ) -> impl Event<Output = Result<GlobalThread<T>, SpawnError>> + Send + use<T> {
        let Plan { function, number, arguments, name, vp, .. } = plan;
        let ask = match arguments {
            Ok(arguments) => {
                let arguments = Enclosing(&arguments);
                SPAWN.ask_as(&Spawn { function: number.0, arguments, name, vp })
            }
            Err(error) => SPAWN.cannot(error),
        };
        let at = self.clone();
        self.call_or(ask, Unwanted::Undo(cancel_unwanted)).wrap(move |outcome| {
            let slot = spawned(outcome, function)?;
            let name = at.node.name(at.peer, slot);
            Ok(GlobalThread { at, name, is_owner: true, value: PhantomData })
        })
    }
}

fn spawned(outcome: Outcome, function: &'static str) -> Result<Slot, SpawnError> {
    let answer = outcome.and_then(|body| read::<Result<Slot, Unspawned>>(&body)).map_err(SpawnError::Call)?;
    answer.map_err(|unspawned| match unspawned {
        Unspawned::NoFunction => SpawnError::NoFunction(function),
        Unspawned::NoSuchProcessor(vps) => SpawnError::NoSuchProcessor(vps),
        Unspawned::BadArguments(error) => SpawnError::BadArguments(error),
        Unspawned::Full => SpawnError::Full,
        Unspawned::Refused => SpawnError::Refused(function),
    })
}

/// Cancels a thread whose spawner no longer wants it.
fn cancel_unwanted(node: &Arc<Node>, peer: ProcessId, outcome: Outcome) {
    if let Ok(slot) = spawned(outcome, "") {
        let at = At::new(Arc::clone(node), peer);
        for order in [Order::Cancel, Order::Detach] {
            let _ = at.post(ORDER.ask(&(slot, order)));
        }
    }
}

impl Process {
    /// Makes a handle of the thread with this name, which another process, or thread, has spawned. A drop of this
    /// handle has no effect on the thread.
    pub fn thread<T>(&self, name: ThreadName) -> GlobalThread<T> {
        GlobalThread { at: self.at(name.process.0), name, is_owner: false, value: PhantomData }
    }
}

/// Requests to the thread are sent at once, whether or not anybody waits for the answer, and each is answered once.
/// They have the meaning of the [requests](chanter::Thread::suspend) to a local thread.
impl<T> GlobalThread<T> {
    /// The thread's name, which is that of its inbox.
    pub fn name(&self) -> ThreadName {
        self.name
    }

    fn ask(&self, order: Order) -> impl Event<Output = Result<Reply, CallError>> + Send + use<T> {
        self.at.ask_now(ORDER.ask(&(self.name.thread, order)))
    }

    fn request(&self, order: Order) -> impl Event<Output = Result<(), AskError>> + Send + use<T> {
        self.ask(order).wrap(|reply| match reply {
            Ok(Reply::Done) => Ok(()),
            other => Err(refusal(other)),
        })
    }

    /// The event of the thread's end. It yields the thread's value, or the reason of its failure. Any number of threads
    /// may wait, again and again, and all get the same value.
    ///
    /// If the event is not chosen, or dropped, the value stays.
    ///
    /// # Errors
    /// See [`EndError`].
    pub fn join(&self) -> impl Event<Output = Result<T, EndError>> + Send + use<T>
    where
        T: DeserializeOwned,
    {
        self.at.call_or(ORDER.ask(&(self.name.thread, Order::Join)), Unwanted::Withdraw).wrap(ended)
    }

    /// The event that the thread has gone (a monitor). It commits after all that the thread has sent to this process is in its
    /// inboxes: nothing comes of it any more.
    pub fn down(&self) -> impl Event<Output = Down> + Send + use<T> {
        self.at.call(ORDER.ask(&(self.name.thread, Order::Watch))).wrap(|reply| match reply {
            Ok(Reply::Ended(End::Value(_))) => Down::Ended,
            Ok(Reply::Ended(End::Panicked(message))) => Down::Panicked(message),
            Ok(Reply::Ended(End::Cancelled)) => Down::Cancelled,
            Ok(Reply::NoThread) => Down::NoThread,
            Ok(Reply::NotAllowed) => Down::Refused,
            Err(CallError::Lost { process, why, .. }) => Down::ProcessLost(process, why),
            Ok(reply) => Down::Unknown(senseless(&reply)),
            Err(error) => Down::Unknown(error),
        })
    }

    /// Ties two threads together: when one ends otherwise than with a value, or its process goes, the other one is
    /// cancelled. The process of each thread watches the other thread. If a process [may not
    /// watch](crate::Process::offer_if) the other thread, its own thread is cancelled at once.
    ///
    /// # Errors
    /// See [`AskError`]: one of the two threads could not be asked. The other one is perhaps tied to it already, and
    /// then ends with it.
    pub async fn link<U>(&self, other: &GlobalThread<U>) -> Result<(), AskError> {
        self.request(Order::Link(other.name)).await?;
        other.request(Order::Link(self.name)).await
    }

    /// Asks the thread to end without a value; see [`Thread::cancel`](chanter::Thread::cancel).
    ///
    /// # Errors
    /// See [`AskError`].
    pub fn cancel(&self) -> impl Event<Output = Result<(), AskError>> + Send + use<T> {
        self.request(Order::Cancel)
    }

    /// Asks the thread to suspend until it is resumed; see [`Thread::suspend`](chanter::Thread::suspend).
    ///
    /// # Errors
    /// See [`AskError`].
    pub fn suspend(&self) -> impl Event<Output = Result<(), AskError>> + Send + use<T> {
        self.request(Order::Suspend(None))
    }

    /// Asks the thread to suspend for `quantum`, or until it is resumed.
    ///
    /// # Errors
    /// See [`AskError`].
    pub fn suspend_for(
        &self,
        quantum: Duration,
    ) -> impl Event<Output = Result<(), AskError>> + Send + use<T> {
        self.request(Order::Suspend(Some(quantum)))
    }

    /// Lets a thread go on that a request has suspended or blocked, and withdraws such requests that it has not taken.
    /// `false`: there was no such request.
    ///
    /// # Errors
    /// See [`AskError`].
    pub fn resume(&self) -> impl Event<Output = Result<bool, AskError>> + Send + use<T> {
        self.ask(Order::Resume).wrap(|reply| match reply {
            Ok(Reply::Resumed(any)) => Ok(any),
            other => Err(refusal(other)),
        })
    }

    /// Asks the thread to block until `condition` holds, or until it is resumed; see
    /// [`Thread::block`](chanter::Thread::block). The condition stays here: a thread of this process waits for it,
    /// and then sends a message to the blocked thread's process. If this process goes, the condition counts as
    /// fulfilled.
    ///
    /// # Errors
    /// See [`AskError`].
    ///
    /// # Panics
    /// The caller is no thread of a machine.
    pub fn block<C>(&self, condition: C) -> impl Event<Output = Result<(), AskError>> + Send + use<T, C>
    where
        C: IntoFuture<Output = ()>,
        C::IntoFuture: Send + 'static,
    {
        let gate = self.at.node.new_number();
        let request = self.request(Order::Block(gate));
        let (at, slot) = (self.at.clone(), self.name.thread);
        let condition = condition.into_future();
        spawn(async move {
            condition.await;
            // `Full` passes: requests that are under way end.
            while let Err(CallError::Full(_)) = at.post(ORDER.ask(&(slot, Order::Open(gate)))) {
                yield_now().await;
            }
        });
        request
    }

    /// Asks the thread to end, with `value` as its value; see [`Thread::terminate`](chanter::Thread::terminate).
    ///
    /// # Errors
    /// [`Unended`] gives the value back, and the reason.
    pub fn terminate(&self, value: T) -> impl Event<Output = Result<(), Unended<T>>> + Send + use<T>
    where
        T: Serialize + Send,
    {
        let order = encode(&value).map(|body| Order::Terminate(Enclosed::from(&body)));
        let ask = match order {
            Ok(order) => ORDER.ask(&(self.name.thread, order)),
            Err(error) => ORDER.cannot(error),
        };
        self.at.ask_now(ask).wrap(|reply| match reply {
            Ok(Reply::Done) => Ok(()),
            other => Err(Unended { value, why: refusal(other) }),
        })
    }
}

fn refusal(reply: Result<Reply, CallError>) -> AskError {
    match reply {
        Ok(Reply::Refused(refused)) => refused.into(),
        Ok(Reply::NoThread) => AskError::NoThread,
        Ok(Reply::Full) => AskError::Full,
        Ok(Reply::NotAllowed) => AskError::Refused,
        Ok(reply) => AskError::Call(senseless(&reply)),
        Err(error) => AskError::Call(error),
    }
}

fn senseless(reply: &impl fmt::Debug) -> CallError {
    CallError::BadAnswer(format!("{reply:?} is no answer to what was asked"))
}
