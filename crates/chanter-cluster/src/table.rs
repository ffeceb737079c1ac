//! The services and functions of a program, which the linker collects.

use std::sync::{Arc, Mutex, Weak};

use chanter::Event;
use serde::Serialize;
use serde::de::DeserializeOwned;

pub use linkme;

use crate::engine::{ProcessId, Why};
use crate::lock::lock;
use crate::node::Node;
use crate::remote::{Offer, make};
use crate::service::raw;
pub use crate::service::raw::{Called, Duty, Elsewhere, read, write};
use crate::service::{Start, start};
use crate::wire::{Body, Number};
use crate::{Caller, Context, Process};

/// The services that `#[service]` has made.
#[linkme::distributed_slice]
pub static SERVICES: [Service];

/// The functions that `#[remote]` has made.
#[linkme::distributed_slice]
pub static FUNCTIONS: [Function];

/// Begins a service's requests.
pub struct Begin(Start);

/// Makes a function's bodies, for the callers that are allowed.
pub struct Bodies(Offer);

/// A service of the program.
#[derive(Debug)]
pub struct Service {
    name: &'static str,
    begin: fn() -> Begin,
}

impl Service {
    /// The service of that name, whose requests `begin` starts.
    pub const fn new(name: &'static str, begin: fn() -> Begin) -> Self {
        Self { name, begin }
    }

    /// Its name.
    pub const fn name(&self) -> &'static str {
        self.name
    }
}

/// A function of the program.
#[derive(Debug)]
pub struct Function {
    name: &'static str,
    bodies: fn(&'static str) -> Bodies,
}

impl Function {
    /// The function of that name, whose bodies `bodies` makes.
    pub const fn new(name: &'static str, bodies: fn(&'static str) -> Bodies) -> Self {
        Self { name, bodies }
    }
}

/// The start of a service's requests, for the table of services; see [`Process::serve_if`].
pub fn service<Q, A, F, R>(allow: fn(&Caller) -> bool, handler: F) -> Begin
where
    Q: DeserializeOwned + Send + 'static,
    A: Serialize + 'static,
    F: Fn(Caller, Q) -> R + Send + Sync + 'static,
    R: Future<Output = A> + Send + 'static,
{
    Begin(start(allow, handler))
}

/// Requests of bytes, which may be forwarded to other processes: see `service/raw.rs`.
pub fn raw<R>(
    name: &'static str,
    route: impl Fn(&Caller, &Body) -> Option<Elsewhere> + Send + Sync + 'static,
    handler: impl Fn(Caller, Duty, Body) -> R + Send + Sync + 'static,
) -> Begin
where
    R: Future<Output = Result<Body, String>> + Send + 'static,
{
    Begin(raw::start(Number::of(name), route, handler))
}

/// Like `raw`, for requests that come directly from their callers: forwarded ones are refused.
pub fn raw_here<R>(
    name: &'static str,
    route: impl Fn(&Caller, &Body) -> Option<Elsewhere> + Send + Sync + 'static,
    handler: impl Fn(Caller, Body) -> R + Send + Sync + 'static,
) -> Begin
where
    R: Future<Output = Result<Body, String>> + Send + 'static,
{
    Begin(raw::start_here(Number::of(name), false, route, handler))
}

/// Like `raw`, for requests that may arrive forwarded, and are not forwarded once they have begun.
pub fn raw_forwarded<R>(
    name: &'static str,
    route: impl Fn(&Caller, &Body) -> Option<Elsewhere> + Send + Sync + 'static,
    handler: impl Fn(Caller, Body) -> R + Send + Sync + 'static,
) -> Begin
where
    R: Future<Output = Result<Body, String>> + Send + 'static,
{
    Begin(raw::start_here(Number::of(name), true, route, handler))
}

/// The bodies of a function's threads, for the table of functions; see [`Process::offer_if`].
pub fn function<Q, T, F, R>(name: &'static str, allow: fn(&Caller) -> bool, body: F) -> Bodies
where
    Q: DeserializeOwned,
    T: Serialize + 'static,
    F: Fn(Context, Q) -> R + Send + Sync + 'static,
    R: Future<Output = T> + Send + 'static,
{
    Bodies(Offer::new(name, allow, make(body)))
}

/// The cluster's processes that lie in this OS process and are in use.
static IN_USE: Mutex<Vec<Weak<Node>>> = Mutex::new(Vec::new());

/// The process of this OS process, if exactly one is in use.
pub fn only() -> Option<Process> {
    let in_use = lock(&IN_USE);
    let mut live = in_use.iter().filter_map(Weak::upgrade);
    let first = live.next()?;
    let second = live.next();
    // These may be the last handles, so they are dropped without the lock.
    drop(live);
    drop(in_use);
    second.is_none().then(|| Process::of(first))
}

/// A weak handle of a process.
#[derive(Clone, Debug)]
pub struct WeakProcess(Weak<Node>);

impl WeakProcess {
    /// A weak handle of that process.
    pub fn of(here: &Process) -> Self {
        Self(Arc::downgrade(here.node()))
    }

    /// The process, if it is in use.
    pub fn upgrade(&self) -> Option<Process> {
        self.0.upgrade().map(Process::of)
    }
}

/// The event that a process has gone.
pub fn gone(here: &Process, process: u32) -> impl Event<Output = Why> + Send + use<> {
    here.node().gone(ProcessId(process))
}

/// The process that holds a call of this one, to the knowledge of this process; `None` if the call has ended.
pub fn holder(here: &Process, request: u64) -> Option<u32> {
    here.node().holder(request).map(|holder| holder.0)
}

/// Largest number of bytes of a message to a process; `None` if there is no such process.
pub fn longest(here: &Process, process: u32) -> Option<u32> {
    let to = ProcessId(process);
    if to == here.node().me() { Some(u32::MAX) } else { here.node().longest(to) }
}

/// The names of all services and functions.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    SERVICES.iter().map(|service| service.name).chain(FUNCTIONS.iter().map(|function| function.name))
}

/// Lets a process serve all services and offer all functions.
///
/// # Panics
/// Two names have the same hash: one has to be changed.
pub(crate) fn serve(here: &Process) {
    let node = here.node();
    {
        let mut in_use = lock(&IN_USE);
        in_use.retain(|node| node.strong_count() > 0);
        in_use.push(Arc::downgrade(node));
    }
    for Service { name, begin } in SERVICES {
        match node.registered(name, Number::of(name), begin().0) {
            Ok(serving) => serving.forever(),
            Err(error) => panic!("{name} cannot be served: {error}"),
        }
    }
    for Function { name, bodies } in FUNCTIONS {
        if let Err(error) = node.remote().functions.insert(Number::of(name), bodies(name).0) {
            panic!("{name} cannot be offered: {error}");
        }
    }
}
