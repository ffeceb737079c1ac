//! The answers to requests to threads, as they are written.

use std::sync::Arc;

use serde::{Serialize, Serializer};

use super::host::Entry;
use super::order::{End, Reply};

/// A reply, as it is written.
pub(super) enum Answer {
    Reply(Reply),
    /// The end of the thread. The thread's entry, if it was taken out, is dropped after the answer is written.
    Ended {
        end: Arc<End>,
        _kept: Option<Entry>,
    },
}

impl From<Reply> for Answer {
    fn from(reply: Reply) -> Self {
        Self::Reply(reply)
    }
}

impl Serialize for Answer {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Reply(reply) => reply.serialize(serializer),
            // This matches the derived encoding. (A test compares the two.)
            Self::Ended { end, .. } => serializer.serialize_newtype_variant("Reply", 4, "Ended", &**end),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{Enclosed, decode, encode};

    #[test]
    fn an_answer_is_written_as_a_reply() {
        let ends = [End::Value(Enclosed::from(vec![1_u8, 2])), End::Panicked("why".into()), End::Cancelled];
        for end in ends {
            let reply = encode(&Reply::Ended(end.clone())).unwrap();
            assert_eq!(encode(&Answer::Ended { end: Arc::new(end), _kept: None }).unwrap(), reply);
            assert_eq!(encode(&Answer::Reply(decode(&reply).unwrap())).unwrap(), reply);
        }
    }
}
