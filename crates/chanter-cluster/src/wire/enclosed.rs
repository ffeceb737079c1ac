//! A value that was encoded before, within another one.

use std::fmt;
use std::sync::Arc;

use chanter_engine::wire::Body;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::codec::{Plain, PlainBytes};
use super::contents::Contents;
use super::decode::decode;
use super::transfer::{SenderTransfer, being_read, reading};

/// The bytes of a value, and the senders that it carries. It is written as a [`Plain`].
#[derive(Clone, Default)]
pub(crate) struct Enclosed {
    bytes: Plain<u8>,
    transfer: Option<Arc<SenderTransfer>>,
}

impl Enclosed {
    pub(crate) fn len(&self) -> usize {
        self.bytes.0.len()
    }

    /// The value, which must take all the bytes.
    pub(crate) fn decode<T: DeserializeOwned>(&self) -> Result<T, String> {
        match &self.transfer {
            Some(transfer) => reading(Arc::clone(transfer), || decode(&self.bytes.0)),
            None => decode(&self.bytes.0),
        }
    }

    /// The value as a body.
    pub(crate) fn to_body(&self) -> Body {
        let mut body = Body::copied_from(&self.bytes.0);
        body.set_transfer(self.transfer.clone());
        body
    }
}

impl From<&Body> for Enclosed {
    fn from(body: &Body) -> Self {
        Self { bytes: Plain(body.to_vec()), transfer: body.transfer() }
    }
}

impl From<Vec<u8>> for Enclosed {
    fn from(bytes: Vec<u8>) -> Self {
        Self { bytes: Plain(bytes), transfer: None }
    }
}

impl PartialEq for Enclosed {
    fn eq(&self, other: &Self) -> bool {
        self.bytes == other.bytes
    }
}

impl fmt::Debug for Enclosed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.bytes.fmt(f)
    }
}

/// A body within another one, written as an [`Enclosed`] without a copy.
pub(crate) struct Enclosing<'a>(pub(crate) &'a Body);

impl Serialize for Enclosing<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.transfer().iter().for_each(|transfer| transfer.carry());
        PlainBytes(self.0).serialize(serializer)
    }
}

/// An [`Enclosed`] that is read in place, while the senders that it carries are being read.
#[derive(Debug, Deserialize)]
pub(crate) struct EnclosedIn<'a>(#[serde(borrow)] PlainBytes<'a>);

impl EnclosedIn<'_> {
    /// The value, which must take all the bytes.
    pub(crate) fn decode<T: DeserializeOwned>(&self) -> Result<T, String> {
        decode(self.0.0)
    }
}

impl Serialize for Enclosed {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.transfer.iter().for_each(|transfer| transfer.carry());
        self.bytes.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Enclosed {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self { bytes: Plain::deserialize(deserializer)?, transfer: being_read() })
    }
}
