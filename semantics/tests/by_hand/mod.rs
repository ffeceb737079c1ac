//! Small programs with all their outcomes, enumerated by hand.

use chanter_semantics::Exp;
use chanter_semantics::term::*;

pub(crate) struct Known {
    pub(crate) name: &'static str,
    pub(crate) program: Exp,
    /// Each as `Outcome` displays it.
    pub(crate) outcomes: Vec<String>,
}

fn known<S: Into<String>>(name: &'static str, program: Exp, outcomes: impl IntoIterator<Item = S>) -> Known {
    let mut outcomes: Vec<String> = outcomes.into_iter().map(Into::into).collect();
    outcomes.sort();
    Known { name, program, outcomes }
}

fn with_channels<const N: usize>(names: [&str; N], body: Exp) -> Exp {
    names.into_iter().rev().fold(body, |body, name| bind(name, channel(), body))
}

fn out(c: &str, value: i64) -> Exp {
    send(var(c), int(value))
}

fn get(c: &str) -> Exp {
    receive(var(c))
}

fn sends(c: &str, value: i64) -> Event {
    Event::Send(var(c), int(value))
}

fn receives(c: &str) -> Event {
    Event::Receive(var(c))
}

/// The first channel that the program makes is `t#0`, and so on.
pub(crate) fn known_programs() -> Vec<Known> {
    vec![
        known(
            "a rendezvous",
            with_channels(["c"], seq([spawn(out("c", 1)), log(get("c"))])),
            ["t: [Received(1), Logged(1)] Ended(1); t.0: [] Ended(())"],
        ),
        known(
            "two senders, one receiver",
            with_channels(["c"], seq([spawn(out("c", 1)), spawn_parasite(out("c", 2)), get("c")])),
            [
                "t: [Received(1)] Ended(1); t.0: [] Ended(()); t.1: [] Blocked([Send(t#0, 2)])",
                "t: [Received(2)] Ended(2); t.0: [] Blocked([Send(t#0, 1)]); t.1: [] Ended(())",
            ],
        ),
        known(
            "two receivers, two messages",
            with_channels(["c"], seq([spawn(get("c")), spawn_parasite(get("c")), out("c", 1), out("c", 2)])),
            [(1, 2), (2, 1)].map(|(a, b)| {
                format!("t: [] Ended(()); t.0: [Received({a})] Ended({a}); t.1: [Received({b})] Ended({b})")
            }),
        ),
        known(
            "a deadlock by crossing channels",
            with_channels(["a", "b"], {
                seq([spawn(seq([out("a", 1), get("b")])), spawn_parasite(seq([out("b", 2), get("a")]))])
            }),
            ["t: [] Ended(()); t.0: [] Blocked([Send(t#0, 1)]); t.1: [] Blocked([Send(t#1, 2)])"],
        ),
        known(
            "the same with choices: either may give way",
            with_channels(["a", "b"], {
                let first = choose([sends("a", 1), receives("b")]);
                let second = choose([sends("b", 2), receives("a")]);
                seq([spawn(first), spawn_parasite(second)])
            }),
            [
                "t: [] Ended(()); t.0: [Chose(0, ())] Ended(()); t.1: [Chose(1, 1)] Ended(1)",
                "t: [] Ended(()); t.0: [Chose(1, 2)] Ended(2); t.1: [Chose(0, ())] Ended(())",
            ],
        ),
        known(
            "three that swap over one channel: a pair, and a direction",
            with_channels(["c"], {
                let swap = |value| choose([sends("c", value), receives("c")]);
                seq([spawn(swap(0)), spawn_parasite(swap(1)), swap(2)])
            }),
            swaps_of_three(),
        ),
        known(
            "three in a circle: two of them, in one of three ways",
            with_channels(["a", "b", "c"], {
                seq([
                    spawn(choose([sends("a", 1), receives("b")])),
                    spawn(choose([sends("b", 2), receives("c")])),
                    spawn_parasite(choose([sends("c", 3), receives("a")])),
                ])
            }),
            [
                "t: [] Ended(()); t.0: [Chose(0, ())] Ended(()); \
                 t.1: [] Blocked([Send(t#1, 2), Receive(t#2)]); t.2: [Chose(1, 1)] Ended(1)",
                "t: [] Ended(()); t.0: [Chose(1, 2)] Ended(2); t.1: [Chose(0, ())] Ended(()); \
                 t.2: [] Blocked([Send(t#2, 3), Receive(t#0)])",
                "t: [] Ended(()); t.0: [] Blocked([Send(t#0, 1), Receive(t#1)]); \
                 t.1: [Chose(1, 3)] Ended(3); t.2: [Chose(0, ())] Ended(())",
            ],
        ),
        known(
            "a choice that need not wait",
            with_channels(["c"], {
                seq([spawn_parasite(out("c", 1)), choose([receives("c"), Event::Always(int(9))])])
            }),
            [
                "t: [Chose(0, 1)] Ended(1); t.0: [] Ended(())",
                "t: [Chose(1, 9)] Ended(9); t.0: [] Blocked([Send(t#0, 1)])",
            ],
        ),
        known(
            "the outermost wrap replaces the result",
            with_channels(["c"], {
                let inner = Event::Choose(vec![receives("c").wrap(Constant::Int(7)), Event::Never]);
                let outer = Event::Choose(vec![Event::Never, inner.wrap(Constant::Int(8)), receives("c")]);
                seq([spawn(out("c", 1)), sync(outer)])
            }),
            ["t: [Chose(1, 8)] Ended(8); t.0: [] Ended(())", "t: [Chose(3, 1)] Ended(1); t.0: [] Ended(())"],
        ),
        known(
            "a message for one of two leaves of the same channel",
            with_channels(["c"], {
                let tag = |value| receives("c").wrap(Constant::Int(value));
                seq([spawn(choose([tag(1), tag(2)])), out("c", 0)])
            }),
            ["t: [] Ended(()); t.0: [Chose(0, 1)] Ended(1)", "t: [] Ended(()); t.0: [Chose(1, 2)] Ended(2)"],
        ),
        known(
            "choices of nothing",
            seq([spawn(choose([])), spawn_parasite(choose([Event::Never, Event::Choose(vec![])]))]),
            ["t: [] Ended(()); t.0: [] Blocked([]); t.1: [] Blocked([Never])"],
        ),
        known(
            "a channel is sent over a channel",
            with_channels(["k"], {
                let client = bind("c", channel(), seq([send(var("k"), var("c")), get("c")]));
                seq([spawn_parasite(client), bind("c", get("k"), out("c", 5))])
            }),
            ["t: [Received(t.0#0)] Ended(()); t.0: [Received(5)] Ended(5)"],
        ),
        known(
            "two senders of two messages: their orders are kept, and mixed",
            with_channels(["c"], {
                seq([
                    spawn(seq([out("c", 1), out("c", 2)])),
                    spawn_parasite(seq([out("c", 3), out("c", 4)])),
                    repeat(4, get("c")),
                ])
            }),
            [[1, 2, 3, 4], [1, 3, 2, 4], [1, 3, 4, 2], [3, 1, 2, 4], [3, 1, 4, 2], [3, 4, 1, 2]].map(
                |[a, b, c, d]| {
                    format!(
                        "t: [Received({a}), Received({b}), Received({c}), Received({d})] Ended({d}); \
                         t.0: [] Ended(()); t.1: [] Ended(())"
                    )
                },
            ),
        ),
        known(
            "a relay that became a host",
            with_channels(["a", "b"], {
                let relay = bind("x", get("a"), inflate(seq([log(var("x")), send(var("b"), var("x"))])));
                seq([spawn_parasite(relay), spawn(out("a", 1)), spawn(out("a", 2)), get("b")])
            }),
            [(1, 1, 2), (2, 2, 1)].map(|(x, seen, left)| {
                let ended = |is_left| {
                    if is_left { format!("Blocked([Send(t#0, {left})])") } else { "Ended(())".to_owned() }
                };
                format!(
                    "t: [Received({x})] Ended({x}); t.0: [Received({x}), Logged({seen})] Ended(()); \
                     t.1: [] {}; t.2: [] {}",
                    ended(left == 1),
                    ended(left == 2)
                )
            }),
        ),
        known(
            "a parasite of a parasite, and who is served first",
            with_channels(["c"], {
                let nested = spawn_parasite(seq([spawn_parasite(get("c")), get("c")]));
                seq([nested, out("c", 1)])
            }),
            [
                "t: [] Ended(()); t.0: [Received(1)] Ended(1); t.0.0: [] Blocked([Receive(t#0)])",
                "t: [] Ended(()); t.0: [] Blocked([Receive(t#0)]); t.0.0: [Received(1)] Ended(1)",
            ],
        ),
        known(
            "what goes wrong stops, and nobody else does",
            with_channels(["c"], {
                seq([
                    spawn_parasite(send(int(1), int(2))),
                    spawn(log(var("nowhere"))),
                    spawn(out("c", 1)),
                    get("c"),
                ])
            }),
            ["t: [Received(1)] Ended(1); t.0: [] Stuck; t.1: [] Stuck; t.2: [] Ended(())"],
        ),
        known(
            "a function is a value",
            bind("f", lambda("x", log(var("x"))), seq([apply(var("f"), int(1)), log(var("f"))])),
            ["t: [Logged(1), Logged(λ)] Ended(λ)"],
        ),
    ]
}

/// Senders, receivers, and the rest.
fn swaps_of_three() -> Vec<String> {
    // The strands `t`, `t.0`, `t.1` offer 2, 0, 1.
    let names = ["t", "t.0", "t.1"];
    let values = [2, 0, 1];
    let mut outcomes = Vec::new();
    for (sender, receiver, left) in [(0, 1, 2), (0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0)] {
        let mut parts = [const { String::new() }; 3];
        parts[sender] = "[Chose(0, ())] Ended(())".to_owned();
        parts[receiver] = format!("[Chose(1, {0})] Ended({0})", values[sender]);
        parts[left] = format!("[] Blocked([Send(t#0, {}), Receive(t#0)])", values[left]);
        let parts: Vec<String> =
            names.iter().zip(parts).map(|(name, part)| format!("{name}: {part}")).collect();
        outcomes.push(parts.join("; "));
    }
    outcomes
}
