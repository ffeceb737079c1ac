//! Extension: choice over sends and receives (Parallel CML, section 2).
//!
//! A synchronization is evaluated to a list of offers, one for each base event (leaf) in it, and
//! blocks. It commits with a partner, through two offers that match, or by itself, through an
//! offer of `always`. A plain `send` or `recv` is the case of one offer; the paper has frames of
//! its own for them. A choice never matches itself, since a communication takes two stacks.
//!
//! A choice that can go on by itself does not wait for a partner: it communicates with one that
//! waits, or goes on alone. So two of them never meet. That is how synchronization is defined
//! there (section 5): it blocks, and can be found by others, only if nothing is enabled.

use crate::outcome::{Datum, Observation, Wait};
use crate::state::{Frame, Stack};
use crate::term::{Constant, Event};
use crate::value::{ChannelName, Value};

/// A base event whose parts are values.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Base {
    /// Offers a value to a receiver.
    Send(ChannelName, Value),
    /// Accepts a value.
    Receive(ChannelName),
    /// Can commit at any time.
    Always(Value),
    /// Cannot.
    Never,
}

/// A leaf of a synchronization.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Offer {
    /// The base event.
    pub base: Base,
    /// Replacement of its result: the outermost `wrap` around it.
    pub wrap: Option<Constant>,
}

/// The offers of `event`, given the values of its parts; `None` if a part has the wrong type.
pub(crate) fn offers(event: &Event, values: &[Value]) -> Option<Vec<Offer>> {
    fn collect<'v>(
        event: &Event,
        values: &mut impl Iterator<Item = &'v Value>,
        wrap: Option<Constant>,
        offers: &mut Vec<Offer>,
    ) -> Option<()> {
        let base = match event {
            Event::Send(..) => {
                let Value::Channel(channel) = values.next()? else { return None };
                Base::Send(channel.clone(), values.next()?.clone())
            }
            Event::Receive(_) => {
                let Value::Channel(channel) = values.next()? else { return None };
                Base::Receive(channel.clone())
            }
            Event::Always(_) => Base::Always(values.next()?.clone()),
            Event::Never => Base::Never,
            Event::Choose(events) => {
                return events.iter().try_for_each(|event| collect(event, values, wrap, offers));
            }
            Event::Wrap(event, result) => return collect(event, values, wrap.or(Some(*result)), offers),
        };
        offers.push(Offer { base, wrap });
        Some(())
    }
    let mut found = Vec::new();
    collect(event, &mut values.iter(), None, &mut found)?;
    Some(found)
}

/// Whether `frame` keeps its computation from going on.
pub(crate) fn is_blocked(frame: &Frame) -> bool {
    matches!(frame, Frame::RBlock(_) | Frame::SBlock(..) | Frame::CBlock(_))
}

/// Operations that a blocked frame waits for.
pub(crate) fn waits(frame: &Frame) -> Vec<Wait> {
    match frame {
        Frame::RBlock(channel) => vec![Wait::Receive(channel.clone())],
        Frame::SBlock(channel, value) => vec![Wait::Send(channel.clone(), Datum::from(value))],
        Frame::CBlock(offers) => {
            let wait = |offer: &Offer| match &offer.base {
                Base::Send(channel, value) => Wait::Send(channel.clone(), Datum::from(value)),
                Base::Receive(channel) => Wait::Receive(channel.clone()),
                Base::Always(_) | Base::Never => Wait::Never,
            };
            offers.iter().map(wait).collect()
        }
        _ => Vec::new(),
    }
}

/// The leaves of a blocked stack that receive: number and channel.
fn receives(stack: &Stack) -> Vec<(usize, &ChannelName)> {
    match stack.k.split() {
        Some((Frame::RBlock(channel), _)) => vec![(0, channel)],
        Some((Frame::CBlock(offers), _)) => {
            let mut found = Vec::new();
            for (leaf, offer) in offers.iter().enumerate() {
                if let Base::Receive(channel) = &offer.base {
                    found.push((leaf, channel));
                }
            }
            found
        }
        _ => Vec::new(),
    }
}

/// The leaves of a blocked stack that send: number, channel and value.
fn sends(stack: &Stack) -> Vec<(usize, &ChannelName, &Value)> {
    match stack.k.split() {
        Some((Frame::SBlock(channel, value), _)) => vec![(0, channel, value)],
        Some((Frame::CBlock(offers), _)) => {
            let mut found = Vec::new();
            for (leaf, offer) in offers.iter().enumerate() {
                if let Base::Send(channel, value) = &offer.base {
                    found.push((leaf, channel, value));
                }
            }
            found
        }
        _ => Vec::new(),
    }
}

/// Whether one of the two waits.
fn may_meet(one: &Stack, other: &Stack) -> bool {
    let waits = |stack: &Stack| match stack.k.split() {
        Some((Frame::CBlock(offers), _)) => offers.iter().all(|offer| !matches!(offer.base, Base::Always(_))),
        _ => true,
    };
    waits(one) || waits(other)
}

/// Whether the two could communicate in these roles.
pub(crate) fn can_communicate(receiver: &Stack, sender: &Stack) -> bool {
    if !may_meet(receiver, sender) {
        return false;
    }
    let sends = sends(sender);
    !sends.is_empty() && receives(receiver).iter().any(|(_, at)| sends.iter().any(|(_, to, _)| at == to))
}

/// Every way in which the two can communicate in these roles: both stacks afterwards.
pub(crate) fn communications(receiver: &Stack, sender: &Stack) -> Vec<(Stack, Stack)> {
    if !may_meet(receiver, sender) {
        return Vec::new();
    }
    let sends = sends(sender);
    let mut found = Vec::new();
    for (at_leaf, at) in receives(receiver) {
        for (to_leaf, to, value) in &sends {
            if at == *to {
                found.push((commit(receiver, at_leaf, value), commit(sender, *to_leaf, &Value::UNIT)));
            }
        }
    }
    found
}

/// Every way in which a blocked stack can go on by itself.
pub(crate) fn alone(stack: &Stack) -> Vec<Stack> {
    let Some((Frame::CBlock(offers), _)) = stack.k.split() else { return Vec::new() };
    let mut found = Vec::new();
    for (leaf, offer) in offers.iter().enumerate() {
        if let Base::Always(value) = &offer.base {
            found.push(commit(stack, leaf, value));
        }
    }
    found
}

/// Pops the blocked frame: its leaf `leaf` has committed with `result`.
fn commit(stack: &Stack, leaf: usize, result: &Value) -> Stack {
    let (top, beneath) = stack.k.split().expect("a blocked stack has a frame");
    let mut next = stack.with(beneath.clone());
    let result = match top {
        Frame::CBlock(offers) => {
            let result = offers[leaf].wrap.map_or_else(|| result.clone(), Value::Constant);
            next.log.push(Observation::Chose(leaf, Datum::from(&result)));
            result
        }
        Frame::RBlock(_) => {
            next.log.push(Observation::Received(Datum::from(result)));
            result.clone()
        }
        _ => result.clone(),
    };
    next.returning(result)
}
