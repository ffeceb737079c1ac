//! States of the machine (figure 6).

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::choice::{self, Offer};
use crate::outcome::{Datum, End, Observation, Outcome, StrandOutcome};
use crate::term::{Event, Exp};
use crate::value::{ChannelName, Env, Name, Value};

/// A frame of a stack. The first eight are the paper's.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Frame {
    /// `ret[v]`: a value for the frame beneath.
    Ret(Value),
    /// `arg[e, r]`: the argument is to be evaluated.
    Arg(Exp, Env),
    /// `fun[v]`: a function waits for its argument.
    Fun(Value),
    /// `recv[]`: waits for the channel.
    Recv,
    /// `sval[e, r]`: the message is to be evaluated.
    SVal(Exp, Env),
    /// `send[c]`: waits for the message.
    Send(ChannelName),
    /// `rblock[c]`: blocked; only a communication pops it.
    RBlock(ChannelName),
    /// `sblock[c, v]`: blocked; only a communication pops it.
    SBlock(ChannelName, Value),
    /// Extension, `log[]`: waits for the value to observe.
    Log,
    /// Extension, `event[v̄, ev, r]`: `v̄` are the values of the first parts of `ev`.
    Event(Arc<[Value]>, Arc<Event>, Env),
    /// Extension, `cblock[ō]`: blocked; the commit of one of the offers pops it.
    CBlock(Arc<[Offer]>),
}

/// A continuation, `k`: a persistent stack of frames.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Cont(Option<Arc<(Frame, Cont)>>);

impl Cont {
    /// `frame : k`
    #[must_use]
    pub fn push(&self, frame: Frame) -> Self {
        Self(Some(Arc::new((frame, self.clone()))))
    }

    /// The top frame, and the continuation beneath it.
    pub fn split(&self) -> Option<(&Frame, &Self)> {
        self.0.as_deref().map(|(frame, beneath)| (frame, beneath))
    }

    /// Whether it is `.`, the empty sequence.
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }
}

/// One computation: a stack in some host. In the paper it is the continuation alone; here it also carries its name,
/// and the values that it has seen.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Stack {
    /// Its name.
    pub name: Name,
    /// How many computations it has spawned.
    pub spawned: u16,
    /// How many channels it has made.
    pub channels: u16,
    /// The things that it has seen.
    pub log: Vec<Observation>,
    /// Its frames.
    pub k: Cont,
}

impl Stack {
    /// The same computation with other frames.
    #[must_use]
    pub fn with(&self, k: Cont) -> Self {
        Self { k, ..self.clone() }
    }

    /// The same computation, having returned `value`.
    #[must_use]
    pub fn returning(&self, value: Value) -> Self {
        self.with(self.k.push(Frame::Ret(value)))
    }
}

/// A control state's expression, environment and stack: `e, r, k`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Control {
    /// The term under evaluation.
    pub exp: Exp,
    /// Where its variables are bound.
    pub env: Env,
    /// The frames that use the result.
    pub stack: Stack,
}

/// A host thread's state, `s`: a control state `⟨e, r, k, k̄⟩` or a return state `⟨k̄⟩`. A thread in
/// the halt state is left out of the [`State`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Host {
    /// The term under evaluation, in a control state.
    pub control: Option<Control>,
    /// `k̄`, in the order of their names.
    pub stacks: Vec<Arc<Stack>>,
}

impl Host {
    /// A return state.
    pub fn returning(stacks: Vec<Arc<Stack>>) -> Self {
        Self { control: None, stacks }
    }

    /// `⟨k̄⟩` without one of its members, for the rules that take it out.
    pub(crate) fn without(&self, index: usize) -> Vec<Arc<Stack>> {
        let mut stacks = self.stacks.clone();
        stacks.remove(index);
        stacks
    }

    fn is_empty(&self) -> bool {
        self.control.is_none() && self.stacks.is_empty()
    }

    fn first_name(&self) -> Option<&Name> {
        let control = self.control.as_ref().map(|control| &control.stack.name);
        control.into_iter().chain(self.stacks.first().map(|stack| &stack.name)).min()
    }
}

/// The global state, `𝒯`.
///
/// Thread identifiers are fresh and never seen. So the map is a list in the order of the computations' names, and
/// states that differ only in identifiers are equal.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct State {
    /// The threads that have not halted.
    pub hosts: Vec<Host>,
    /// The computations that have ended.
    pub ended: BTreeMap<Name, Arc<StrandOutcome>>,
}

impl State {
    /// One host, about to evaluate `program`.
    pub fn new(program: &Exp) -> Self {
        let control = Control { exp: program.clone(), env: Env::default(), stack: Stack::default() };
        Self { hosts: vec![Host { control: Some(control), stacks: Vec::new() }], ended: BTreeMap::new() }
    }

    /// Puts the state into its one form. A host that its last computation has left is gone.
    #[must_use]
    pub fn normal(mut self) -> Self {
        self.hosts.retain(|host| !host.is_empty());
        for host in &mut self.hosts {
            host.stacks.sort_by(|a, b| a.name.cmp(&b.name));
        }
        self.hosts.sort_by(|a, b| a.first_name().cmp(&b.first_name()));
        self
    }

    /// Records the end of a computation.
    pub(crate) fn end(&mut self, stack: &Stack, value: &Value) {
        let part = StrandOutcome { log: stack.log.clone(), end: End::Ended(Datum::from(value)) };
        self.ended.insert(stack.name.clone(), Arc::new(part));
    }

    /// Visible part of this state, to which no rule applies.
    pub fn outcome(&self) -> Outcome {
        let mut parts: BTreeMap<_, _> =
            self.ended.iter().map(|(name, part)| (name.clone(), (**part).clone())).collect();
        for host in &self.hosts {
            for stack in &host.stacks {
                let end = match stack.k.split() {
                    Some((top, _)) if choice::is_blocked(top) => End::Blocked(choice::waits(top)),
                    _ => End::Stuck,
                };
                parts.insert(stack.name.clone(), StrandOutcome { log: stack.log.clone(), end });
            }
            if let Some(Control { stack, .. }) = &host.control {
                parts.insert(stack.name.clone(), StrandOutcome { log: stack.log.clone(), end: End::Stuck });
            }
        }
        Outcome(parts)
    }
}
