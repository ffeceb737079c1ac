//! A replica.
//!
//! * A write is done when all replicas that live have it. The primary holds the key's lock until then, and reads under it: what was
//!   read is everywhere.
//! * Versions are ordered by the primary that gave them, then by number. A new primary gives all its values a version
//!   of its own, and writes them everywhere before it answers. So a value that a dead primary has written to some
//!   replicas only is overwritten, or is everywhere.
//! * It relies on who is said to be dead being dead, as the kernel tells on one machine. A replica that is only unreachable
//!   (a partition) ends the store: that needs majorities.

use std::sync::Arc;

use chanter::prelude::*;
use chanter::sync::Mutex;
use chanter_cluster::engine::Why;
use chanter_cluster::{CallError, Process, ServeError, Service, Serving};
use serde::{Deserialize, Serialize};

pub(crate) const KEYS: u32 = 8;

pub(crate) const PUT: Service<(u32, u64), Result<(), NotPrimary>> = Service::new("store::put");
pub(crate) const GET: Service<u32, Result<Option<u64>, NotPrimary>> = Service::new("store::get");
pub(crate) const PID: Service<(), i32> = Service::new("store::pid");
/// A key's value, from the primary.
const WRITE: Service<(u32, Entry), ()> = Service::new("store::write");

/// Ask another one.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct NotPrimary;

/// The primary that gave the version, and the version's number within the key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
struct Version {
    primary: u32,
    number: u64,
}

#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
struct Entry {
    version: Version,
    value: Option<u64>,
}

pub(crate) struct Replica {
    here: Process,
    keys: Vec<Mutex<Entry>>,
    /// Whether it has become the primary.
    is_primary: Mutex<bool>,
}

impl Replica {
    pub(crate) fn new(here: Process) -> Self {
        let keys = (0..KEYS).map(|_| Mutex::new(Entry::default())).collect();
        Self { here, keys, is_primary: Mutex::new(false) }
    }

    pub(crate) fn serve(self: Arc<Self>) -> Result<[Serving; 4], ServeError> {
        let here = self.here.clone();
        let [puts, gets, writes] = [(); 3].map(|()| Arc::clone(&self));
        Ok([
            here.serve(PUT, move |_, (key, value)| {
                let replica = Arc::clone(&puts);
                // A thread of its own: a client that dies must not leave a write half done.
                let put = spawn(async move { replica.put(key, value).await });
                async move { put.await.expect("a put does not fail") }
            })?,
            here.serve(GET, move |_, key| {
                let replica = Arc::clone(&gets);
                async move { replica.get(key).await }
            })?,
            here.serve(WRITE, move |_, (key, entry): (u32, Entry)| {
                let replica = Arc::clone(&writes);
                async move {
                    let mut kept = replica.keys[key as usize].lock().await;
                    if entry.version > kept.version {
                        *kept = entry;
                    }
                }
            })?,
            here.serve(PID, |_, ()| async { std::process::id() as i32 })?,
        ])
    }

    async fn put(&self, key: u32, value: u64) -> Result<(), NotPrimary> {
        self.be_primary().await?;
        let mut entry = self.keys[key as usize].lock().await;
        *entry = self.newer(*entry, Some(value));
        self.write_everywhere(key, *entry).await;
        Ok(())
    }

    async fn get(&self, key: u32) -> Result<Option<u64>, NotPrimary> {
        self.be_primary().await?;
        Ok(self.keys[key as usize].lock().await.value)
    }

    fn newer(&self, entry: Entry, value: Option<u64>) -> Entry {
        let number = entry.version.number + 1;
        Entry { version: Version { primary: self.here.number(), number }, value }
    }

    /// The replicas before this one have died, and all values that it has are everywhere.
    async fn be_primary(&self) -> Result<(), NotPrimary> {
        let mut is_primary = self.is_primary.lock().await;
        if *is_primary {
            return Ok(());
        }
        if (1..self.here.number()).any(|before| !self.is_dead(before)) {
            return Err(NotPrimary);
        }
        for key in 0..KEYS {
            let mut entry = self.keys[key as usize].lock().await;
            *entry = self.newer(*entry, entry.value);
            self.write_everywhere(key, *entry).await;
        }
        *is_primary = true;
        Ok(())
    }

    fn is_dead(&self, replica: u32) -> bool {
        match self.here.down(replica) {
            None => false,
            Some(Why::Died) => true,
            Some(why) => {
                eprintln!("replica {replica} {why}: the store does not know how to go on");
                std::process::exit(3);
            }
        }
    }

    async fn write_everywhere(&self, key: u32, entry: Entry) {
        for replica in (self.here.number() + 1..self.here.count()).filter(|replica| !self.is_dead(*replica)) {
            match self.here.at(replica).call(WRITE.ask(&(key, entry))).await {
                Ok(()) => {}
                // It has died; if it has not, that is seen at the next.
                Err(CallError::Lost { .. }) => _ = self.is_dead(replica),
                Err(error) => panic!("replica {replica}: {error}"),
            }
        }
    }
}
