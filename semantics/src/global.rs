//! Global evaluation (figure 8).

use crate::choice;
use crate::local::{self, Local};
use crate::rule::Rule;
use crate::state::{Control, Host, Stack, State};
use crate::term::Term;
use crate::value::{ChannelName, Value};

/// Every state that `state` can lead to, and the rule for each.
pub fn step(state: &State) -> Vec<(Rule, State)> {
    let mut found = Vec::new();
    for (index, host) in state.hosts.iter().enumerate() {
        // (LocalEvaluation)
        for local in local::control(host).into_iter().chain(local::returns(host)) {
            found.push((local.rule, local_evaluation(state.clone(), index, local)));
        }
        found.extend(channel(state, index));
        found.extend(spawn(state, index));
        found.extend(inflate(state, index));
    }
    found.extend(migrations(state));
    found
}

/// `𝒯[t ↦ s] → 𝒯[t ↦ s']` if `s → s'`
pub(crate) fn local_evaluation(mut next: State, index: usize, local: Local) -> State {
    if let Some((stack, value)) = &local.ended {
        next.end(stack, value);
    }
    next.hosts[index] = local.host;
    next.normal()
}

fn with_hosts<const N: usize>(state: &State, index: usize, hosts: [Host; N]) -> State {
    let mut next = state.clone();
    next.hosts.remove(index);
    next.hosts.extend(hosts);
    next.normal()
}

/// The control state becomes a return state: `⟨ret[v] : k ∥ k̄⟩`.
fn returning(host: &Host, stack: Stack) -> Host {
    let mut stacks = host.stacks.clone();
    stacks.push(stack.into());
    Host::returning(stacks)
}

/// (Channel): `Chan()` returns a fresh channel.
pub(crate) fn channel(state: &State, index: usize) -> Option<(Rule, State)> {
    let host = &state.hosts[index];
    let Control { exp, stack, .. } = host.control.as_ref()?;
    let Term::Channel = **exp else { return None };
    let fresh = ChannelName { maker: stack.name.clone(), index: stack.channels };
    let stack = Stack { channels: stack.channels + 1, ..stack.returning(Value::Channel(fresh)) };
    Some((Rule::Channel, with_hosts(state, index, [returning(host, stack)])))
}

/// (Spawn): `spawn(e)` returns unit, and a fresh thread evaluates `e`.
pub(crate) fn spawn(state: &State, index: usize) -> Option<(Rule, State)> {
    let host = &state.hosts[index];
    let Control { exp, env, stack } = host.control.as_ref()?;
    let Term::Spawn(body) = &**exp else { return None };
    let fresh = Stack { name: stack.name.child(stack.spawned), ..Stack::default() };
    let spawner = Stack { spawned: stack.spawned + 1, ..stack.returning(Value::UNIT) };
    let control = Control { exp: body.clone(), env: env.clone(), stack: fresh };
    let spawned = Host { control: Some(control), stacks: Vec::new() };
    Some((Rule::Spawn, with_hosts(state, index, [returning(host, spawner), spawned])))
}

/// (Inflate): the computation leaves its host, and evaluates `e` in a fresh one.
pub(crate) fn inflate(state: &State, index: usize) -> Option<(Rule, State)> {
    let host = &state.hosts[index];
    let Control { exp, env, stack } = host.control.as_ref()?;
    let Term::Inflate(e) = &**exp else { return None };
    let left = Host::returning(host.stacks.clone());
    let control = Control { exp: e.clone(), env: env.clone(), stack: stack.clone() };
    let inflated = Host { control: Some(control), stacks: Vec::new() };
    Some((Rule::Inflate, with_hosts(state, index, [left, inflated])))
}

/// (MigrateLeft): a receiver moves to the host of a sender that it could communicate with.
/// (MigrateRight): the sender moves to the receiver's.
fn migrations(state: &State) -> Vec<(Rule, State)> {
    let mut found = Vec::new();
    for (i, receivers) in state.hosts.iter().enumerate() {
        for (j, senders) in state.hosts.iter().enumerate() {
            if i == j || receivers.control.is_some() || senders.control.is_some() {
                continue;
            }
            for (r, receiver) in receivers.stacks.iter().enumerate() {
                for (s, sender) in senders.stacks.iter().enumerate() {
                    if choice::can_communicate(receiver, sender) {
                        found.push((Rule::MigrateLeft, migrate(state, (i, r), j)));
                        found.push((Rule::MigrateRight, migrate(state, (j, s), i)));
                    }
                }
            }
        }
    }
    found
}

fn migrate(state: &State, (from, index): (usize, usize), to: usize) -> State {
    let mut next = state.clone();
    let stack = next.hosts[from].stacks.remove(index);
    next.hosts[to].stacks.push(stack);
    next.normal()
}
