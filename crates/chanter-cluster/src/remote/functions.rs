//! Functions that threads run which other processes spawn.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::{Arc, Weak};

use chanter::base::{Guard, Lock};
use foldhash::fast::RandomState;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::engine::ProcessId;
use crate::inbox::Inbox;
use crate::node::Node;
use crate::wire::{Body, Enclosed, Number, encode};
use crate::{Caller, Process, ServeError};

/// A function that other processes may run: a name, which is the same in all processes, and the types of its arguments and
/// its value.
pub struct Function<Q, T> {
    name: &'static str,
    number: Number,
    types: PhantomData<fn(Q) -> T>,
}

impl<Q, T> Function<Q, T> {
    /// The function of that name; see [`Service::new`](crate::Service::new).
    pub const fn new(name: &'static str) -> Self {
        Self { name, number: Number::of(name), types: PhantomData }
    }

    /// Its name.
    pub const fn name(&self) -> &'static str {
        self.name
    }
}

impl<Q: Serialize, T> Function<Q, T> {
    /// A plan of a thread. The arguments are encoded at once.
    pub fn with(&self, arguments: &Q) -> Plan<T> {
        Plan {
            function: self.name,
            number: self.number,
            arguments: encode(arguments),
            name: None,
            vp: None,
            value: PhantomData,
        }
    }
}

impl<Q, T> Clone for Function<Q, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<Q, T> Copy for Function<Q, T> {}

impl<Q, T> fmt::Debug for Function<Q, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Function").field(&self.name).finish()
    }
}

/// The plan of a thread: a function and its arguments. See [`At::spawn`](crate::At::spawn).
#[must_use = "a plan does nothing until it is spawned"]
pub struct Plan<T> {
    pub(super) function: &'static str,
    pub(super) number: Number,
    pub(super) arguments: Result<Body, String>,
    pub(super) name: Option<String>,
    pub(super) vp: Option<u32>,
    value: PhantomData<fn() -> T>,
}

impl<T> Plan<T> {
    /// Gives the thread a name, for reports.
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Puts the thread on the virtual processor `vp` of its process, where it stays.
    pub fn on_vp(mut self, vp: u32) -> Self {
        self.vp = Some(vp);
        self
    }
}

impl<T> Plan<T> {
    /// The same plan without the type of the value, for a caller that does not want it.
    pub(crate) fn erased(self) -> Plan<()> {
        let Self { function, number, arguments, name, vp, .. } = self;
        Plan { function, number, arguments, name, vp, value: PhantomData }
    }
}

impl<T> Clone for Plan<T> {
    fn clone(&self) -> Self {
        let Self { function, number, arguments, name, vp, value } = self;
        Self {
            function,
            number: *number,
            arguments: arguments.clone(),
            name: name.clone(),
            vp: *vp,
            value: *value,
        }
    }
}

impl<T> fmt::Debug for Plan<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Plan").field("function", &self.function).finish_non_exhaustive()
    }
}

/// The context of a thread that was spawned by another process.
pub struct Context {
    inbox: Inbox,
    spawner: ProcessId,
}

impl Context {
    pub(super) fn new(inbox: Inbox, spawner: ProcessId) -> Self {
        Self { inbox, spawner }
    }

    /// The thread's inbox: its name is the thread's.
    pub fn inbox(&self) -> &Inbox {
        &self.inbox
    }

    /// The process that it runs in.
    pub fn here(&self) -> Process {
        Process::of(Arc::clone(self.inbox.node()))
    }

    /// The process that has spawned it.
    pub fn spawner(&self) -> u32 {
        self.spawner.0
    }
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context").field("inbox", &self.inbox).field("spawner", &self.spawner).finish()
    }
}

/// A thread's body, which encodes its value.
pub(crate) type Work = Pin<Box<dyn Future<Output = Body> + Send>>;

/// Makes a thread's body of its arguments.
pub(crate) type Make = Arc<dyn Fn(Context, &Enclosed) -> Result<Work, String> + Send + Sync>;

/// Makes bodies that call `body` and encode its value.
pub(crate) fn make<Q, T, F, R>(body: F) -> Make
where
    Q: DeserializeOwned,
    T: Serialize + 'static,
    F: Fn(Context, Q) -> R + Send + Sync + 'static,
    R: Future<Output = T> + Send + 'static,
{
    Arc::new(move |context, arguments| {
        let body = body(context, arguments.decode()?);
        Ok(Box::pin(async move {
            match encode(&body.await) {
                Ok(value) => value,
                Err(error) => panic!("the thread's value cannot be written: {error}"),
            }
        }))
    })
}

/// Decides whether a caller may spawn threads with a function.
pub(crate) type Allow = Arc<dyn Fn(&Caller) -> bool + Send + Sync>;

/// A function that is offered, and its `allow`.
#[derive(Clone)]
pub(crate) struct Offer {
    pub(super) name: &'static str,
    pub(super) allow: Allow,
    pub(super) make: Make,
}

impl Offer {
    pub(crate) fn new(
        name: &'static str,
        allow: impl Fn(&Caller) -> bool + Send + Sync + 'static,
        make: Make,
    ) -> Self {
        Self { name, allow: Arc::new(allow), make }
    }
}

/// The functions that a process offers.
pub(crate) struct Functions {
    offered: Lock<HashMap<Number, Arc<Offer>, RandomState>>,
}

impl Default for Functions {
    fn default() -> Self {
        Self { offered: Lock::new(HashMap::default()) }
    }
}

impl Functions {
    fn lock(&self) -> Guard<'_, HashMap<Number, Arc<Offer>, RandomState>> {
        self.offered.lock()
    }

    pub(crate) fn insert(&self, number: Number, offer: Offer) -> Result<(), ServeError> {
        match self.lock().entry(number) {
            Entry::Occupied(taken) => Err(ServeError::Taken(taken.get().name)),
            Entry::Vacant(free) => {
                free.insert(Arc::new(offer));
                Ok(())
            }
        }
    }

    pub(super) fn get(&self, number: Number) -> Option<Arc<Offer>> {
        self.lock().get(&number).cloned()
    }
}

/// A function that is offered as long as this lives. Threads that have begun go on afterwards.
#[must_use = "a function is offered as long as this lives"]
pub struct Offering {
    node: Weak<Node>,
    name: &'static str,
    number: Number,
}

impl Offering {
    /// Offers the function as long as the process lives.
    pub fn forever(self) {
        std::mem::forget(self);
    }
}

impl fmt::Debug for Offering {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Offering").field(&self.name).finish()
    }
}

impl Drop for Offering {
    fn drop(&mut self) {
        if let Some(node) = self.node.upgrade() {
            let function = node.remote().functions.lock().remove(&self.number);
            drop(function);
        }
    }
}

impl Process {
    /// Lets other processes, and this one, spawn threads here that run `body`, until the returned [`Offering`] is
    /// dropped. Each of them may make any request to such a thread whose name it knows or guesses;
    /// [`offer_if`](Self::offer_if) limits this.
    ///
    /// # Errors
    /// [`ServeError::Taken`]: the process offers that name already, or one with the same hash.
    pub fn offer<Q, T, F, R>(&self, function: Function<Q, T>, body: F) -> Result<Offering, ServeError>
    where
        Q: DeserializeOwned,
        T: Serialize + 'static,
        F: Fn(Context, Q) -> R + Send + Sync + 'static,
        R: Future<Output = T> + Send + 'static,
    {
        self.offer_if(function, |_| true, body)
    }

    /// Like [`offer`](Self::offer), to processes that `allow` accepts; all others get
    /// [`SpawnError::Refused`](crate::SpawnError::Refused).
    ///
    /// The threads obey processes that `allow` accepts, their spawners, and this process. If another process asks to
    /// join, watch, suspend, resume, block, link, cancel or terminate one, it gets
    /// [`AskError::Refused`](crate::AskError::Refused), [`EndError::Refused`](crate::EndError::Refused) or
    /// [`Down::Refused`](crate::Down::Refused).
    ///
    /// # Errors
    /// The errors of [`offer`](Self::offer).
    pub fn offer_if<Q, T, F, R>(
        &self,
        function: Function<Q, T>,
        allow: impl Fn(&Caller) -> bool + Send + Sync + 'static,
        body: F,
    ) -> Result<Offering, ServeError>
    where
        Q: DeserializeOwned,
        T: Serialize + 'static,
        F: Fn(Context, Q) -> R + Send + Sync + 'static,
        R: Future<Output = T> + Send + 'static,
    {
        let offer = Offer::new(function.name, allow, make(body));
        self.node().remote().functions.insert(function.number, offer)?;
        Ok(Offering { node: Arc::downgrade(self.node()), name: function.name, number: function.number })
    }
}
