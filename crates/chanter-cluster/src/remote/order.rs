//! The messages between processes about threads, and their answers.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::name::ThreadName;
use crate::service::Service;
use crate::wire::{Enclosed, Slot};

/// Spawns a thread.
pub(super) const SPAWN: Service<Spawn, Result<Slot, Unspawned>> = Service::new("chanter::spawn");
/// Makes a request to a thread.
pub(super) const ORDER: Service<(Slot, Order), Reply> = Service::new("chanter::order");

/// The thread to spawn.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Spawn<A = Enclosed> {
    /// The number of its function.
    pub(super) function: u64,
    pub(super) arguments: A,
    pub(super) name: Option<String>,
    pub(super) vp: Option<u32>,
}

/// The reason why there is no thread.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Unspawned {
    NoFunction,
    /// There is no such virtual processor: the process has the given number of them.
    NoSuchProcessor(u32),
    BadArguments(String),
    Full,
    /// The function's `allow` does not accept the caller.
    Refused,
}

/// A request to a thread.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) enum Order {
    /// Asks for its end, once it has ended.
    Join,
    /// Asks for its end for the last time, and detaches it.
    Take,
    /// Asks for its end without the value.
    Watch,
    Cancel,
    Terminate(Enclosed),
    Suspend(Option<Duration>),
    Resume,
    /// Blocks it until the gate of that number is opened.
    Block(u64),
    /// Opens a gate of the sender; the thread is ignored.
    Open(u64),
    /// No later request asks for the value.
    Detach,
    /// Cancels it when the other thread has ended otherwise than with a value.
    Link(ThreadName),
}

/// The answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) enum Reply<V = Enclosed> {
    /// There is no such thread, or it was detached and has ended.
    NoThread,
    Done,
    Refused(Refused),
    /// True if there was something to resume.
    Resumed(bool),
    Ended(End<V>),
    /// The asking process, or the thread's spawner, has as much here as it may.
    Full,
    /// The thread does not obey the process that asks.
    NotAllowed,
}

/// The reason why a request to a thread was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Refused {
    Overruled,
    Withdrawn,
    Determined,
}

/// The end of a thread.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) enum End<V = Enclosed> {
    /// It ended with this value, which is empty for an order to watch.
    Value(V),
    Panicked(String),
    Cancelled,
}

impl End {
    /// Number of bytes that it keeps.
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Value(value) => value.len(),
            Self::Panicked(message) => message.len(),
            Self::Cancelled => 0,
        }
    }
}

/// The body of a spawn, for fuzzers.
#[cfg(test)]
pub(crate) fn encoded_spawn(function: &str, arguments: &impl Serialize) -> Vec<u8> {
    let arguments = Enclosed::from(&crate::wire::encode(arguments).expect("they can be written"));
    let function = crate::wire::Number::of(function).0;
    let spawn = Spawn { function, arguments, name: Some("a".into()), vp: Some(0) };
    crate::wire::encode(&spawn).expect("it can be written").to_vec()
}

/// The bodies of all orders to that thread, for fuzzers.
#[cfg(test)]
pub(crate) fn encoded_order(slot: Slot, time: Duration, other: ThreadName) -> Vec<Vec<u8>> {
    let orders = [
        Order::Suspend(None),
        Order::Suspend(Some(time)),
        Order::Resume,
        Order::Block(7),
        Order::Block(7),
        Order::Open(7),
        Order::Link(other),
        Order::Watch,
        Order::Join,
        Order::Terminate(Enclosed::from(vec![1])),
        Order::Cancel,
        Order::Take,
        Order::Detach,
    ];
    let encoded =
        orders.map(|order| crate::wire::encode(&(slot, order)).expect("it can be written").to_vec());
    encoded.into()
}

#[cfg(test)]
mod tests {
    use std::fmt::Debug;

    use serde::de::DeserializeOwned;

    use super::*;
    use crate::engine::{NodeId, ProcessId};
    use crate::wire::{decode, encode};

    /// Short, long, changed and random bytes: an error or a value, and what is a value is written as it was read.
    fn is_safe_from<T: Serialize + DeserializeOwned + PartialEq + Debug>(value: &T) {
        let body = encode(value).unwrap();
        assert_eq!(decode::<T>(&body).as_ref(), Ok(value));
        for length in 0..body.len() {
            assert!(decode::<T>(&body[..length]).is_err(), "{value:?}, cut to {length}");
        }
        let mut longer = body.to_vec();
        longer.push(0);
        assert!(decode::<T>(&longer).is_err(), "{value:?}, and a byte more");
        let mut random = fastrand::Rng::with_seed(7);
        for _ in 0..2000 {
            let mut bytes = body.to_vec();
            match random.u8(..3) {
                0 if !bytes.is_empty() => bytes[random.usize(..body.len())] = random.u8(..),
                1 => bytes = (0..random.usize(..40)).map(|_| random.u8(..)).collect(),
                _ => bytes.truncate(random.usize(..=body.len())),
            }
            if let Ok(read) = decode::<T>(&bytes) {
                assert_eq!(decode::<T>(&encode(&read).unwrap()), Ok(read));
            }
        }
    }

    #[test]
    fn hostile_bytes_are_refused() {
        let slot = Slot { index: 3, generation: 9 };
        let bytes = || Enclosed::from(vec![1_u8, 2, 3]);
        is_safe_from(&Spawn { function: u64::MAX, arguments: bytes(), name: Some("a".into()), vp: Some(1) });
        let orders = [
            Order::Join,
            Order::Take,
            Order::Watch,
            Order::Cancel,
            Order::Terminate(bytes()),
            Order::Suspend(Some(Duration::MAX)),
            Order::Suspend(None),
            Order::Resume,
            Order::Block(7),
            Order::Open(7),
            Order::Detach,
            Order::Link(ThreadName { pe: NodeId(1), process: ProcessId(2), thread: slot }),
        ];
        orders.into_iter().for_each(|order| is_safe_from(&(slot, order)));
        let ends = [End::Value(bytes()), End::Panicked("why".into()), End::Cancelled].map(Reply::Ended);
        let refusals = [Refused::Overruled, Refused::Withdrawn, Refused::Determined].map(Reply::Refused);
        let others = [Reply::NoThread, Reply::Done, Reply::Resumed(true), Reply::Full, Reply::NotAllowed];
        ends.iter().chain(&refusals).chain(&others).for_each(is_safe_from);
        let unspawned = [
            Unspawned::NoFunction,
            Unspawned::NoSuchProcessor(1),
            Unspawned::BadArguments("x".into()),
            Unspawned::Full,
            Unspawned::Refused,
        ];
        unspawned.map(Err::<Slot, _>).iter().for_each(is_safe_from);
        is_safe_from(&Ok::<_, Unspawned>(slot));
    }

    #[test]
    fn a_kind_that_there_is_not_is_an_error() {
        assert!(decode::<Order>(&[12]).is_err());
        assert!(decode::<Reply>(&[7]).is_err());
        assert!(decode::<End>(&[3]).is_err());
        assert!(decode::<Result<Slot, Unspawned>>(&[1, 5]).is_err());
    }
}
