//! The messages of requests and their answers: all valid headers of these kinds.
//!
//! | kind | `request` | `to` | `tag` | body |
//! |---|---|---|---|---|
//! | call, post | its number, not 0 | the number of the service | 0 | what is asked |
//! | answer | that of the request | 0 | how it ended: [`Ended`] | the answer, or what went wrong, as text |
//! | withdraw | that of the call | 0 | 0 | none |
//! | forward | that of the call | the number of the service | 0 | what is asked |
//! | moved | that of the call | 0 | 0 | none |
//! | returned | that of the call | the number of the service | 0 | what is asked |
//!
//! A forwarded call has the details in `from`. A *forward* and a *returned* have their caller's process there; a
//! *moved* has the process that has the call now. All of these, and the answer, have the number of forwards there; a
//! return counts as a forward.
//!
//! Any other header of these kinds is dropped.

use chanter_engine::wire::{Header, Kind, Slot};

/// A service's number: the hash of its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Number(pub u64);

impl Number {
    /// The number of a name: its FNV-1a hash, so that processes of other builds agree.
    pub const fn of(name: &str) -> Self {
        let bytes = name.as_bytes();
        let mut hash = 0xcbf2_9ce4_8422_2325_u64;
        let mut at = 0;
        while at < bytes.len() {
            hash = (hash ^ bytes[at] as u64).wrapping_mul(0x0100_0000_01b3);
            at += 1;
        }
        Self(hash)
    }

    fn slot(self) -> Slot {
        Slot { index: self.0 as u32, generation: (self.0 >> 32) as u32 }
    }
}

impl From<Slot> for Number {
    fn from(slot: Slot) -> Self {
        Self(u64::from(slot.index) | u64::from(slot.generation) << 32)
    }
}

/// The way in which a request has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Ended {
    /// It ended with the value in the body.
    Well = 1,
    /// It panicked; the body is the message.
    Panicked = 2,
    /// There is no such service.
    NoService = 3,
    /// The service does not serve this caller.
    Refused = 4,
    /// The service cannot read the request; the body says why.
    BadRequest = 5,
    /// The answer cannot be sent; the body says why.
    BadAnswer = 6,
    /// It was given up, because its machine has ended or it was withdrawn.
    GivenUp = 7,
    /// It could not be forwarded, and has not begun; the body says why.
    NotBegun = 8,
}

impl Ended {
    fn of(code: u32) -> Option<Self> {
        const ALL: [Ended; 8] = [
            Ended::Well,
            Ended::Panicked,
            Ended::NoService,
            Ended::Refused,
            Ended::BadRequest,
            Ended::BadAnswer,
            Ended::GivenUp,
            Ended::NotBegun,
        ];
        ALL.into_iter().find(|ended| *ended as u32 == code)
    }
}

/// A control message of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Control {
    /// A request.
    Ask {
        /// The service.
        service: Number,
        /// Its number among the caller's.
        request: u64,
        /// True if nobody waits for the answer; the sender still counts requests that are not done.
        is_post: bool,
    },
    /// Its answer.
    Answer {
        /// The number of the request.
        request: u64,
        /// The way in which it has ended.
        ended: Ended,
        /// Number of times that the request was forwarded.
        forwarded: u32,
    },
    /// A request made by `origin`, which waits for the answer.
    Forward {
        /// The service.
        service: Number,
        /// Its number among the origin's.
        request: u64,
        /// The process that made it.
        origin: u32,
        /// Number of times that it was forwarded, this one included.
        forwarded: u32,
    },
    /// A forward that found no room and goes back to its sender.
    Returned {
        /// The service.
        service: Number,
        /// Its number among the origin's.
        request: u64,
        /// The process that made it.
        origin: u32,
        /// Number of times that it was forwarded, its return included.
        forwarded: u32,
    },
    /// A call was forwarded to the process `to`.
    Moved {
        /// The number of the request.
        request: u64,
        /// The process that has it now.
        to: u32,
        /// Number of times that it was forwarded, this one included.
        forwarded: u32,
    },
    /// The caller does not wait any more.
    Withdraw {
        /// The number of the request.
        request: u64,
    },
}

impl Control {
    /// Reads a header. `None`: it is of another kind, or malformed.
    pub fn read(header: &Header) -> Option<Self> {
        let request = header.request;
        if request == 0 {
            return None;
        }
        match header.kind {
            Kind::Call | Kind::Post => {
                Some(Self::Ask { service: header.to.into(), request, is_post: header.kind == Kind::Post })
            }
            Kind::Answer => Some(Self::Answer {
                request,
                ended: Ended::of(header.tag)?,
                forwarded: header.from.generation,
            }),
            Kind::Forward if header.from.generation > 0 => Some(Self::Forward {
                service: header.to.into(),
                request,
                origin: header.from.index,
                forwarded: header.from.generation,
            }),
            Kind::Returned if header.from.generation > 1 => Some(Self::Returned {
                service: header.to.into(),
                request,
                origin: header.from.index,
                forwarded: header.from.generation,
            }),
            Kind::Moved if header.length == 0 && header.from.generation > 0 => {
                Some(Self::Moved { request, to: header.from.index, forwarded: header.from.generation })
            }
            Kind::Withdraw if header.length == 0 => Some(Self::Withdraw { request }),
            _ => None,
        }
    }

    /// The message's header, in which all other fields are 0.
    pub fn header(self) -> Header {
        match self {
            Self::Ask { service, request, is_post } => {
                let kind = if is_post { Kind::Post } else { Kind::Call };
                Header { to: service.slot(), request, ..Header::new(kind) }
            }
            Self::Answer { request, ended, forwarded } => {
                let from = Slot { index: 0, generation: forwarded };
                Header { request, from, tag: ended as u32, ..Header::new(Kind::Answer) }
            }
            Self::Forward { service, request, origin, forwarded } => {
                let from = Slot { index: origin, generation: forwarded };
                Header { to: service.slot(), from, request, ..Header::new(Kind::Forward) }
            }
            Self::Returned { service, request, origin, forwarded } => {
                let from = Slot { index: origin, generation: forwarded };
                Header { to: service.slot(), from, request, ..Header::new(Kind::Returned) }
            }
            Self::Moved { request, to, forwarded } => {
                let from = Slot { index: to, generation: forwarded };
                Header { from, request, ..Header::new(Kind::Moved) }
            }
            Self::Withdraw { request } => Header { request, ..Header::new(Kind::Withdraw) },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::LENGTH;

    fn all() -> Vec<Control> {
        let ended = (0..9).filter_map(Ended::of);
        let answers = ended.map(|ended| Control::Answer { request: u64::MAX, ended, forwarded: 3 });
        let asks = [false, true].map(|is_post| Control::Ask {
            service: Number::of("a::b#fn(u64)"),
            request: 1,
            is_post,
        });
        let moves = [
            Control::Withdraw { request: 7 },
            Control::Forward { service: Number::of("a::B::c"), request: 8, origin: 2, forwarded: 1 },
            Control::Moved { request: 9, to: 3, forwarded: u32::MAX },
            Control::Returned { service: Number::of("a::B::c"), request: 10, origin: 2, forwarded: 2 },
        ];
        asks.into_iter().chain(answers).chain(moves).collect()
    }

    #[test]
    fn what_is_written_is_read() {
        assert_eq!(all().len(), 2 + 8 + 4);
        for control in all() {
            let bytes = control.header().encode();
            let header = Header::decode(&bytes, 0).unwrap();
            assert_eq!(Control::read(&header), Some(control));
        }
    }

    /// Whatever comes is understood or refused, and what is understood says what it was made of.
    #[test]
    fn hostile_headers_are_refused() {
        let mut random = fastrand::Rng::with_seed(20);
        for _ in 0..100_000 {
            let mut bytes: [u8; LENGTH] = std::array::from_fn(|_| random.u8(..));
            bytes[0] = random.u8(1..=23);
            if random.bool() {
                bytes[4..8].copy_from_slice(&random.u32(0..10).to_le_bytes());
                bytes[28..32].fill(0);
            }
            // Some numbers are of no kind.
            let Ok(header) = Header::decode(&bytes, u32::MAX) else { continue };
            if let Some(control) = Control::read(&header) {
                let again = control.header();
                assert_eq!((again.kind, again.request), (header.kind, header.request));
            }
        }
        for control in all() {
            let header = control.header();
            assert_eq!(Control::read(&Header { request: 0, ..header }), None, "no request has number 0");
        }
        let answer = Control::Answer { request: 1, ended: Ended::Well, forwarded: 0 }.header();
        for code in (0..=0).chain(9..100).chain([u32::MAX]) {
            assert_eq!(Control::read(&Header { tag: code, ..answer }), None, "{code}");
        }
        let withdraw = Control::Withdraw { request: 1 }.header();
        assert_eq!(Control::read(&Header { length: 1, ..withdraw }), None, "it has no body");
        for kind in [Kind::Forward, Kind::Moved, Kind::Returned] {
            assert_eq!(Control::read(&Header { request: 1, ..Header::new(kind) }), None, "it was handed on");
        }
        assert_eq!(Control::read(&Header::new(Kind::Message)), None);
    }

    #[test]
    fn names_have_the_numbers_of_the_published_hash() {
        assert_eq!(Number::of(""), Number(0xcbf2_9ce4_8422_2325));
        assert_eq!(Number::of("a"), Number(0xaf63_dc4c_8601_ec8c));
        assert_eq!(Number::of("foobar"), Number(0x8594_4171_f739_67e8));
    }
}
