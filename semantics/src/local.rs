//! Local evaluation: the control and return transitions of one host (figure 7).

use std::sync::Arc;

use crate::choice;
use crate::outcome::{Datum, Observation};
use crate::rule::Rule;
use crate::state::{Control, Frame, Host, Stack};
use crate::term::Term;
use crate::value::{Env, Value};

/// Result of a local transition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Local {
    /// The rule.
    pub rule: Rule,
    /// The host afterwards; in the halt state it is empty.
    pub host: Host,
    /// The computation that ended with this transition, and its value.
    pub ended: Option<(Arc<Stack>, Value)>,
}

/// The control transition of a host in a control state. `None`: it is in a return state, or its
/// next transition is a global one, or it is stuck.
pub fn control(host: &Host) -> Option<Local> {
    let Control { exp, env, stack } = host.control.as_ref()?;
    // ⟨ret[v] : k ∥ k̄⟩
    let returns = |rule, value| Some(local(rule, with(&host.stacks, stack.returning(value))));
    // ⟨e, r, frame : k, k̄⟩
    let evaluate = |rule, e: &_, frame| {
        let control =
            Control { exp: Clone::clone(e), env: env.clone(), stack: stack.with(stack.k.push(frame)) };
        Some(local(rule, Host { control: Some(control), stacks: host.stacks.clone() }))
    };
    match &**exp {
        Term::Constant(constant) => returns(Rule::Constant, Value::Constant(*constant)),
        Term::Variable(x) => match env.get(x) {
            Some(value) => returns(Rule::Variable, value),
            // ⟨k ∥ k̄⟩: no rule will apply to `k`; the others go on.
            None => Some(local(Rule::Wrong, with(&host.stacks, stack.clone()))),
        },
        Term::Lambda(x, body) => returns(Rule::Closure, Value::Closure(x.clone(), body.clone(), env.clone())),
        Term::Apply(function, argument) => {
            evaluate(Rule::Application, function, Frame::Arg(argument.clone(), env.clone()))
        }
        Term::Send(channel, value) => evaluate(Rule::Send, channel, Frame::SVal(value.clone(), env.clone())),
        Term::Receive(channel) => evaluate(Rule::Receive, channel, Frame::Recv),
        Term::SpawnParasite(body) => {
            let name = stack.name.child(stack.spawned);
            let spawner = Stack { spawned: stack.spawned + 1, ..stack.returning(Value::UNIT) };
            let parasite = Stack { name, ..Stack::default() };
            let control = Control { exp: body.clone(), env: env.clone(), stack: parasite };
            let Host { stacks, .. } = with(&host.stacks, spawner);
            Some(local(Rule::SpawnParasite, Host { control: Some(control), stacks }))
        }
        Term::Log(e) => evaluate(Rule::Log, e, Frame::Log),
        Term::Sync(event) => match event.parts().first() {
            Some(first) => evaluate(Rule::Sync, first, Frame::Event([].into(), event.clone(), env.clone())),
            // ⟨cblock[ō] : k ∥ k̄⟩: there is nothing to evaluate.
            None => {
                let offers = choice::offers(event, &[])?;
                let blocked = stack.with(stack.k.push(Frame::CBlock(offers.into())));
                Some(local(Rule::ChoiceBlock, with(&host.stacks, blocked)))
            }
        },
        Term::Channel | Term::Spawn(_) | Term::Inflate(_) => None,
    }
}

/// The return transitions of a host in a return state: any of its computations may go on.
pub fn returns(host: &Host) -> Vec<Local> {
    if host.control.is_some() {
        return Vec::new();
    }
    let mut found: Vec<Local> =
        (0..host.stacks.len()).filter_map(|index| return_transition(host, index)).collect();
    for (index, stack) in host.stacks.iter().enumerate() {
        for next in choice::alone(stack) {
            found.push(local(Rule::ChooseAlways, with(&host.without(index), next)));
        }
    }
    for (i, receiver) in host.stacks.iter().enumerate() {
        for (j, sender) in host.stacks.iter().enumerate() {
            if i == j {
                continue;
            }
            for (received, sent) in choice::communications(receiver, sender) {
                let mut stacks = host.stacks.clone();
                stacks[i] = Arc::new(received);
                stacks[j] = Arc::new(sent);
                found.push(local(Rule::LocalCommunication, Host::returning(stacks)));
            }
        }
    }
    found
}

/// The transition of the computation `index`, if a value is on top of its stack.
pub(crate) fn return_transition(host: &Host, index: usize) -> Option<Local> {
    let stack = &host.stacks[index];
    let (Frame::Ret(value), k) = stack.k.split()? else { return None };
    let Some((beneath, k)) = k.split() else {
        let stacks = host.without(index);
        let rule = if stacks.is_empty() { Rule::ThreadHalt } else { Rule::ParasiteHalt };
        let ended = Some((stack.clone(), value.clone()));
        return Some(Local { rule, host: Host::returning(stacks), ended });
    };
    let evaluate = |rule, e: &_, env: Env, k| {
        let control = Control { exp: Clone::clone(e), env, stack: stack.with(k) };
        Some(local(rule, Host { control: Some(control), stacks: host.without(index) }))
    };
    let becomes = |rule, next| Some(local(rule, with(&host.without(index), next)));
    match (beneath, value) {
        (Frame::Arg(e, env), _) => {
            evaluate(Rule::Argument, e, env.clone(), k.push(Frame::Fun(value.clone())))
        }
        (Frame::Fun(Value::Closure(x, e, env)), _) => {
            evaluate(Rule::Function, e, env.with(x.as_ref(), value.clone()), k.clone())
        }
        (Frame::SVal(e, env), Value::Channel(channel)) => {
            evaluate(Rule::SendValue, e, env.clone(), k.push(Frame::Send(channel.clone())))
        }
        (Frame::Send(channel), _) => {
            becomes(Rule::SendBlock, stack.with(k.push(Frame::SBlock(channel.clone(), value.clone()))))
        }
        (Frame::Recv, Value::Channel(channel)) => {
            becomes(Rule::ReceiveBlock, stack.with(k.push(Frame::RBlock(channel.clone()))))
        }
        (Frame::Log, _) => {
            let mut next = stack.with(k.push(Frame::Ret(value.clone())));
            next.log.push(Observation::Logged(Datum::from(value)));
            becomes(Rule::LogValue, next)
        }
        (Frame::Event(values, event, env), _) => {
            let values: Vec<Value> = values.iter().chain([value]).cloned().collect();
            match event.parts().get(values.len()) {
                Some(part) => {
                    let k = k.push(Frame::Event(values.into(), event.clone(), env.clone()));
                    evaluate(Rule::EventValue, part, env.clone(), k)
                }
                None => {
                    let offers = choice::offers(event, &values)?;
                    becomes(Rule::ChoiceBlock, stack.with(k.push(Frame::CBlock(offers.into()))))
                }
            }
        }
        _ => None,
    }
}

fn local(rule: Rule, host: Host) -> Local {
    Local { rule, host, ended: None }
}

/// `⟨k ∥ k̄⟩`
fn with(stacks: &[Arc<Stack>], stack: Stack) -> Host {
    let mut stacks = stacks.to_vec();
    stacks.push(Arc::new(stack));
    Host::returning(stacks)
}
