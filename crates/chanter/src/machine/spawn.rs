//! Spawning on a machine, from any OS thread.

use std::panic::Location;
use std::sync::Arc;

use super::Machine;
use crate::frame::Site;
use crate::thread::attributed::spawn_said_in;
use crate::thread::scope::{Scope, blocking};
use crate::thread::spawn::{spawn_fiber_in, spawn_named_fiber};
use crate::thread::{Thread, ThreadBuilder, fiber};

impl Machine {
    /// Spawns a fiber; see [`spawn_fiber`](crate::spawn_fiber). It may be called from any OS thread.
    /// [`fiber::Builder::spawn_in`] has more options.
    #[track_caller]
    pub fn spawn_fiber<F, T>(&self, closure: F) -> Thread<T>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        fiber::Builder::new().spawn_in(self, closure)
    }
}

impl Machine {
    /// Runs a [`scope_blocking`](crate::thread::scope_blocking) whose threads run on this machine. It is for OS threads.
    ///
    /// ```
    /// # use chanter::prelude::*;
    /// let machine = Machine::new()?;
    /// let mut list = vec![3, 1, 2];
    /// machine.scope_blocking(|s| drop(s.spawn(async { list.sort() })));
    /// assert_eq!(list, [1, 2, 3]);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn scope_blocking<'env, F, T>(&'env self, body: F) -> T
    where
        F: for<'scope> FnOnce(&'scope Scope<'scope, 'env>) -> T,
    {
        blocking(Some(Arc::clone(self.pool())), body)
    }
}

impl ThreadBuilder {
    /// Spawns the thread on `machine`, from any OS thread.
    ///
    /// # Panics
    /// Panics if the machine has no virtual processor of the number that was asked for.
    #[track_caller]
    pub fn spawn_in<F>(self, machine: &Machine, future: F) -> Thread<F::Output>
    where
        F: IntoFuture,
        F::IntoFuture: Send + 'static,
        F::Output: Send + 'static,
    {
        let future = future.into_future();
        self.spawn_at_in(machine, Location::caller(), future)
    }

    pub(super) fn spawn_at_in<F>(self, machine: &Machine, site: Site, future: F) -> Thread<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        spawn_said_in(machine.pool(), self.said, future, site)
    }
}

impl fiber::Builder {
    /// Spawns the fiber on `machine`, from any OS thread.
    ///
    /// # Panics
    /// Panics if the machine has no virtual processor of the number that was asked for.
    #[track_caller]
    pub fn spawn_in<F, T>(self, machine: &Machine, closure: F) -> Thread<T>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        let (name, on) = (self.name.clone(), self.on);
        if self.has_attributes() {
            let host = self.host();
            return host.spawn_in(machine, self.body(closure, Location::caller()).0);
        }
        let (body, site) = self.body(closure, Location::caller());
        match name {
            None => spawn_fiber_in(machine.pool(), on, body, site),
            Some(name) => spawn_named_fiber(machine.pool(), name, on, body, site),
        }
    }
}
