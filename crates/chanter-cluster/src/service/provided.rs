//! The values that a process has for its services, one of each type.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};

use crate::Process;
use crate::lock::lock;

type Values = HashMap<TypeId, Arc<dyn Any + Send + Sync>>;

/// The values.
#[derive(Default)]
pub(crate) struct Provided(Mutex<Values>);

impl Provided {
    fn lock(&self) -> MutexGuard<'_, Values> {
        lock(&self.0)
    }
}

impl Process {
    /// Gives this process a value for its services and threads, which find it by [`state`](Self::state). Returns the
    /// earlier value of that type.
    pub fn provide<T: Send + Sync + 'static>(&self, value: T) -> Option<Arc<T>> {
        let before = self.node().requests().provided.lock().insert(TypeId::of::<T>(), Arc::new(value));
        before.and_then(|before| before.downcast().ok())
    }

    /// The process's value of that type, if it was [given](Self::provide) one.
    pub fn state<T: Send + Sync + 'static>(&self) -> Option<Arc<T>> {
        let value = self.node().requests().provided.lock().get(&TypeId::of::<T>()).map(Arc::clone);
        value.and_then(|value| value.downcast().ok())
    }
}
