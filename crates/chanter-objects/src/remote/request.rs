//! The wire format of a request on an object, and of its answer.
//!
//! ```text
//!   request: slot u32 | generation u32 | 0 | arguments
//!            slot u32 | generation u32 | 1 or 2 | of its home: process u32, slot u32, generation u32 | arguments
//!   answer:  0 | value              1 | why there is none
//!            5: as 1, and the arguments were not read
//!            2, 3 or 7: the same, behind the object's name and the place where it is, each process u32, slot u32, generation u32
//! ```
//!
//! A request with 1 was forwarded by the home, and its caller is told the place. A request with 2 was sent to a place
//! that the caller had been told.
//!
//! INV-REQUEST: all fields are checked before use.
//!
//! 1. A number that no object has is refused when it is read ([`slot::is_generation`]).
//! 2. A request for a hosted object runs if that object was adopted from the home that the request names. Else it goes to that home.
//! 3. A caller keeps the place named by an answer, if the object that it asked lives there. The answer may be another
//!    object's: a method can forward its continuation.
//! 4. An object's `allow` judges the process whose connection brings a request, and that may be a process in the
//!    middle. A request that a hosted object's home forwards was judged by the home. This process's own calls are not
//!    judged.

use std::panic::{AssertUnwindSafe, catch_unwind};

use chanter_cluster::__table::{Elsewhere, read, write};
use chanter_cluster::Caller;
use chanter_cluster::wire::Body;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::context::ProcessContext;
use super::hosted::Hosted;
use super::migration::whereabouts;
use crate::place::Name;
use crate::{ObjectError, Ref, slot};

/// A function that decides whether an object serves a caller, whose identity its connection proves.
pub type Allow = fn(&Caller) -> bool;

/// The way by which a request has come to its process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum How {
    /// Sent to the object's home, or to the process in which it was made.
    Home,
    /// Forwarded by the object's home, which is given.
    HandedOn(Name),
    /// Sent by a hint; the object's home is given.
    Hinted(Name),
}

/// A request.
#[derive(Debug)]
pub(super) struct Asked<'a> {
    /// Slot and generation, here.
    pub(super) name: (u32, u32),
    pub(super) how: How,
    pub(super) arguments: &'a [u8],
}

const VALUE: u8 = 0;
const GONE: u8 = 1;
const PLACED: u8 = 2;
/// Set beside `GONE`: the arguments were not read, so the continuations among them are still the sender's.
const UNREAD: u8 = 4;
const GONE_UNREAD: u8 = GONE | UNREAD;

fn number(bytes: &[u8]) -> Option<(u32, &[u8])> {
    let (number, rest) = bytes.split_first_chunk::<4>()?;
    Some((u32::from_le_bytes(*number), rest))
}

fn name(bytes: &[u8]) -> Option<(Name, &[u8])> {
    let (process, rest) = number(bytes)?;
    let (slot, rest) = number(rest)?;
    let (generation, rest) = number(rest)?;
    slot::is_generation(generation).then_some(((process, slot, generation), rest))
}

fn push_name(body: &mut Body, (process, slot, generation): Name) {
    for number in [process, slot, generation] {
        body.extend_from_slice(&number.to_le_bytes());
    }
}

/// The name in a request that is for no object: slot and generation.
pub(super) const NOBODY: (u32, u32) = (0, 0);

impl<'a> Asked<'a> {
    /// A request on an object.
    pub(super) fn read(body: &'a [u8]) -> Result<Self, String> {
        let asked = Self::read_any(body)?;
        match asked.name {
            NOBODY => Err("this request names no object".to_owned()),
            _ => Ok(asked),
        }
    }

    /// A request on an object, or on [`NOBODY`].
    pub(super) fn read_any(body: &'a [u8]) -> Result<Self, String> {
        let read = || {
            let (slot, rest) = number(body)?;
            let (generation, rest) = number(rest)?;
            if !slot::is_generation(generation) && (slot, generation) != NOBODY {
                return None;
            }
            let (how, rest) = rest.split_first()?;
            let (how, arguments) = match how {
                0 => (How::Home, rest),
                1 => name(rest).map(|(home, rest)| (How::HandedOn(home), rest))?,
                2 => name(rest).map(|(home, rest)| (How::Hinted(home), rest))?,
                _ => return None,
            };
            Some(Self { name: (slot, generation), how, arguments })
        };
        read().ok_or_else(|| "this is no request on an object".to_owned())
    }

    /// The body of a request up to its arguments.
    pub(super) fn begin((slot, generation): (u32, u32), how: How) -> Body {
        let mut body = Body::with_capacity(64);
        body.extend_from_slice(&slot.to_le_bytes());
        body.extend_from_slice(&generation.to_le_bytes());
        match how {
            How::Home => body.push(0),
            How::HandedOn(home) => {
                body.push(1);
                push_name(&mut body, home);
            }
            How::Hinted(home) => {
                body.push(2);
                push_name(&mut body, home);
            }
        }
        body
    }

    fn again(&self, name: (u32, u32), how: How) -> Body {
        let mut body = Self::begin(name, how);
        body.extend_from_slice(self.arguments);
        body
    }

    /// The object, if it is of type `T`. Also a hosted object of any type that has left: no call enters by its name.
    pub(super) fn object<T: 'static>(&self, context: &ProcessContext) -> Result<Ref<T>, ObjectError> {
        let (number, generation) = self.name;
        let slot = slot::by_number(number).ok_or(ObjectError::Ended)?;
        let is_meant = || self.hosted().is_none_or(|hosted| context.is_guest(hosted));
        let has_left = || self.hosted().is_some() && slot.has_ended(generation);
        if slot.is_of::<T>(generation) && is_meant() || has_left() {
            Ok(Ref::new(slot, generation))
        } else {
            Err(ObjectError::Ended)
        }
    }

    /// The hosted object that the request names, if the request takes it for one that has moved here.
    pub(super) fn hosted(&self) -> Option<Hosted> {
        match self.how {
            How::Home => None,
            How::HandedOn(home) | How::Hinted(home) => Some(Hosted { name: self.name, home }),
        }
    }

    /// The object's name and its place, if the caller is to be told.
    pub(super) fn tells(&self, context: &ProcessContext) -> Option<Placed> {
        match self.how {
            How::HandedOn(home) => Some((home, (context.number, self.name.0, self.name.1))),
            _ => None,
        }
    }
}

/// An object's name, and where it is.
pub(super) type Placed = (Name, Name);

/// The place to which a request belongs, if not here (INV-MIGRATION). A request that is not let in is not forwarded.
pub(super) fn route(allow: Allow, caller: &Caller, body: &Body) -> Option<Elsewhere> {
    let asked = Asked::read(body).ok()?;
    let elsewhere = asked.elsewhere(caller)?;
    // (`allow` is user code in the server thread: if it panics, the request is not let in.)
    let let_in = || asked.is_let_in(allow, caller, &ProcessContext::of(&caller.here()));
    catch_unwind(AssertUnwindSafe(let_in)).is_ok_and(|is_let_in| is_let_in).then_some(elsewhere)
}

impl Asked<'_> {
    /// Whether the object serves the caller (INV-REQUEST 4).
    pub(super) fn is_let_in(&self, allow: Allow, caller: &Caller, context: &ProcessContext) -> bool {
        let by = caller.process();
        let home_has_judged = || match self.how {
            How::HandedOn(home) => home.0 == by && context.is_guest(Hosted { name: self.name, home }),
            _ => false,
        };
        by == context.number || home_has_judged() || allow(caller)
    }

    fn elsewhere(&self, caller: &Caller) -> Option<Elsewhere> {
        match self.how {
            How::Home => {
                let (to, slot, generation) = whereabouts(self.name)?;
                let home = (caller.here().number(), self.name.0, self.name.1);
                Some(Elsewhere { to, body: self.again((slot, generation), How::HandedOn(home)) })
            }
            How::HandedOn(home) | How::Hinted(home) => {
                let (to, slot, generation) = home;
                let here = caller.here();
                let is_there = slot::by_number(self.name.0).is_some_and(|slot| !slot.is_over(self.name.1));
                let is_here =
                    is_there && ProcessContext::of(&here).is_guest(Hosted { name: self.name, home });
                // An object whose home has gone has ended.
                if is_here || here.down(to).is_some() {
                    return None;
                }
                Some(Elsewhere { to, body: self.again((slot, generation), How::Home) })
            }
        }
    }
}

/// The place, if the object is still there.
pub(super) fn still(placed: Option<Placed>) -> Option<Placed> {
    placed.filter(|&(_, (_, slot, generation))| {
        slot::by_number(slot).is_some_and(|slot| !slot.is_over(generation))
    })
}

/// The body of an answer. `place` is the place that the caller is told.
pub(super) fn answer<R: Serialize>(
    result: Result<R, ObjectError>,
    place: Option<Placed>,
) -> Result<Body, String> {
    answer_with(0, result, place)
}

fn answer_with<R: Serialize>(
    mark: u8,
    result: Result<R, ObjectError>,
    place: Option<Placed>,
) -> Result<Body, String> {
    let mut body = Body::with_capacity(32);
    let placed = if place.is_some() { PLACED } else { 0 };
    body.push(mark | placed | if result.is_ok() { VALUE } else { GONE });
    if let Some((object, place)) = place {
        push_name(&mut body, object);
        push_name(&mut body, place);
    }
    match result {
        Ok(value) => write(body, &value),
        Err(gone) => write(body, &gone),
    }
}

/// The body of an answer to a request whose arguments were not read.
pub(super) fn unread(why: ObjectError, place: Option<Placed>) -> Result<Body, String> {
    answer_with::<()>(UNREAD, Err(why), place)
}

/// Whether an answer says that the request's arguments were not read.
pub(super) fn is_unread(body: &[u8]) -> bool {
    body.first().is_some_and(|tag| tag & !PLACED == GONE_UNREAD)
}

/// The parts of an answer: its value's bytes, and the place of the object.
pub(super) fn answered(body: &[u8]) -> (Result<&[u8], ObjectError>, Option<Placed>) {
    let parsed = || {
        let (tag, rest) = body.split_first()?;
        let (place, rest) = match tag & PLACED {
            0 => (None, rest),
            _ => {
                let (object, rest) = name(rest)?;
                let (place, rest) = name(rest)?;
                (Some((object, place)), rest)
            }
        };
        match tag & !PLACED {
            VALUE => Some((Ok(rest), place)),
            GONE | GONE_UNREAD => Some((Err(gone(rest)), place)),
            _ => None,
        }
    };
    parsed().unwrap_or((Err(ObjectError::Incompatible), None))
}

fn gone(bytes: &[u8]) -> ObjectError {
    read_as(bytes).unwrap_or(ObjectError::Incompatible)
}

fn read_as<T: DeserializeOwned>(bytes: &[u8]) -> Option<T> {
    read(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let home = (1, 2, 3);
        for how in [How::Home, How::HandedOn(home), How::Hinted(home)] {
            let mut body = Asked::begin((7, 9), how);
            body.extend_from_slice(b"arguments");
            let asked = Asked::read(&body).unwrap();
            assert_eq!((asked.name, asked.how, asked.arguments), ((7, 9), how, &b"arguments"[..]));
        }
        for place in [None, Some(((1, 2, 3), (4, 5, 6)))] {
            let body = answer(Ok(300_u32), place).unwrap();
            let (value, told) = answered(&body);
            assert_eq!((read_as::<u32>(value.unwrap()), told), (Some(300), place));
            let body = answer::<()>(Err(ObjectError::Poisoned), place).unwrap();
            assert_eq!(answered(&body), (Err(ObjectError::Poisoned), place));
        }
    }

    /// Whatever comes is understood or refused.
    #[test]
    fn hostile_bytes_are_refused() {
        let mut random = 0x9e37_79b9_7f4a_7c15_u64;
        for length in 0..64 {
            for _ in 0..1000 {
                let bytes: Vec<u8> = (0..length)
                    .map(|_| {
                        random ^= random << 13;
                        random ^= random >> 7;
                        random ^= random << 17;
                        if random & 1 == 0 { (random >> 8) as u8 & 3 } else { (random >> 16) as u8 }
                    })
                    .collect();
                let _ = Asked::read(&bytes);
                let _ = answered(&bytes);
            }
        }
        assert!(Asked::read(&[0; 8]).is_err());
        // Numbers that no object has, in each place.
        for generation in [0, slot::NEVER, slot::NEVER - 1] {
            for how in [How::Home, How::HandedOn((0, 1, 1)), How::Hinted((0, 1, 1))] {
                assert!(Asked::read(&Asked::begin((0, generation), how)).is_err(), "{generation}");
                assert!(Asked::read(&Asked::begin((7, generation), how)).is_err(), "{generation}");
            }
            let of_home = (0, 1, generation);
            for how in [How::HandedOn(of_home), How::Hinted(of_home)] {
                assert!(Asked::read_any(&Asked::begin((7, 1), how)).is_err(), "{generation}");
            }
            let placed = answer(Ok(1_u32), Some(((0, 1, 1), (1, 1, generation)))).unwrap();
            assert_eq!(answered(&placed), (Err(ObjectError::Incompatible), None));
        }
        assert!(Asked::read_any(&Asked::begin(NOBODY, How::Home)).is_ok());
        assert_eq!(answered(&[]), (Err(ObjectError::Incompatible), None));
        assert_eq!(answered(&[4]), (Err(ObjectError::Incompatible), None));
    }
}
