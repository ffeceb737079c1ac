//! Requests from a hostile process: calls, posts, withdrawals and answers with any bytes, to the services for threads
//! and names.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use chanter::prelude::*;

use super::Input;
use crate::Process;
use crate::engine::{Engine, Lane, Local, ProcessId, Sink};
use crate::node::Node;
use crate::remote::Function;
use crate::wire::{Body, Control, Ended, Header, Kind, LENGTH, Number};

/// The services of every process, one that does not exist, and one of the process's program.
const SERVICES: [&str; 8] = [
    "chanter::spawn",
    "chanter::order",
    "chanter::register",
    "chanter::find",
    "chanter::free",
    "chanter::held",
    "fuzz::nobody",
    "fuzz::echo",
];
/// A function that waits, or ends at once with its argument.
const WORK: Function<u32, u32> = Function::new("fuzz::work");
const ECHO: crate::Service<u32, u32> = crate::Service::new("fuzz::echo");
/// Number of turns after which a call that waits counts as not answered.
const TURNS: usize = 8;

/// Checks `Answers`: each request is answered at most once, only if it was made, and the process goes on.
///
/// # Panics
/// The check fails, or a machine cannot be made.
pub fn target(bytes: &[u8]) {
    static MACHINE: OnceLock<Machine> = OnceLock::new();
    let machine = MACHINE.get_or_init(|| Machine::builder().vps(1).build().expect("a machine"));
    let bytes = bytes.to_vec();
    machine.block_on(async move { requests_come(Input(&bytes)).await });
}

async fn requests_come(mut input: Input<'_>) {
    let [first, second] = <[Local; 2]>::try_from(Local::cluster(2)).expect("two");
    let node = Node::start(Arc::new(first), false);
    let here = Process::of(Arc::clone(&node));
    let echoing = here.serve(ECHO, |_, number| async move { number }).expect("it is free");
    let offering = here.offer(WORK, |_, number| async move {
        if number.is_multiple_of(2) {
            never::<()>().await;
        }
        number
    });
    // A request of the process itself is under way, which the other one may answer.
    let call = spawn({
        let there = here.at(1);
        async move { there.call(ECHO.ask(&7)).await }
    });
    let mut answers = Answers::default();
    run(&node, &second, &mut answers).await;
    while !input.is_empty() {
        let own = answers.own;
        let frame = answers.note(frame(&mut input, own));
        if second.try_send(ProcessId(0), Lane::User, frame).is_err() {
            run(&node, &second, &mut answers).await;
        }
        if input.byte().is_multiple_of(4) {
            run(&node, &second, &mut answers).await;
        }
    }
    run(&node, &second, &mut answers).await;
    goes_on(&here, "a name that nobody guesses").await;
    // The end of the other process ends its waits, and frees the names that it had.
    second.kill();
    assert!(matches!(call.join().await, Ok(Ok(_) | Err(_))));
    goes_on(&here, "own").await;
    drop((echoing, offering));
}

async fn run(node: &Node, second: &Local, answers: &mut Answers) {
    for _ in 0..TURNS {
        node.poll();
        yield_now().await;
        while second.poll(64, answers).has_found() {}
    }
}

/// Checks that the process's own threads make requests as before.
async fn goes_on(here: &Process, name: &str) {
    let itself = here.at(0);
    assert_eq!(itself.call(ECHO.ask(&5)).await, Ok(5));
    let thread = itself.spawn(WORK.with(&3)).await.expect("a thread");
    assert_eq!(thread.join().await, Ok(3));
    drop(thread);
    let waits = itself.spawn(WORK.with(&2)).await.expect("a thread");
    assert_eq!(waits.cancel().await, Ok(()));
    let inbox = here.inbox().expect("an inbox");
    let registered = here.register(name, &inbox).await.expect("nobody else has it");
    assert_eq!(here.find(name).await, Ok(inbox.name()));
    drop(registered);
}

/// A frame made from the input. `own`: the number of the process's own request.
fn frame(input: &mut Input<'_>, own: u64) -> Body {
    let (how, service) = (input.byte(), usize::from(input.byte()));
    let request = u64::from(input.byte() % 16);
    let service = Number::of(SERVICES[service % SERVICES.len()]);
    let length = usize::from(input.byte()) % 96;
    let body = input.bytes(length);
    let control = match how % 8 {
        0..4 => Control::Ask { service, request, is_post: false },
        4..6 => Control::Ask { service, request, is_post: true },
        6 => Control::Withdraw { request },
        _ => {
            // A fuzzer cannot guess the number of a request.
            let request = if request == 1 { own } else { request };
            Control::Answer { request, ended: Ended::Well, forwarded: u32::from(how) >> 3 }
        }
    };
    let mut frame = Body::copied_from(if how % 8 == 6 { &[] } else { body });
    let mut header = Header { process: 1, ..control.header() };
    if how % 8 == 7 {
        header.tag = u32::from(how) >> 3;
    }
    header.length = frame.len() as u32;
    frame.set_header(&header);
    frame
}

/// The answers of the process, and the requests that it got.
#[derive(Default)]
struct Answers {
    /// Unanswered requests, by number.
    asked: HashMap<u64, u32>,
    /// Number of the process's own last request; 0: there was none.
    own: u64,
}

impl Answers {
    fn note(&mut self, frame: Body) -> Body {
        let header = Header::decode(frame.frame(), u32::MAX).expect("a header");
        if matches!(header.kind, Kind::Call | Kind::Post) {
            *self.asked.entry(header.request).or_default() += 1;
        }
        frame
    }
}

impl Sink for Answers {
    fn arrived(&mut self, from: ProcessId, _lane: Lane, frame: Body) {
        let header = Header::decode(frame.frame(), u32::MAX).expect("a header");
        assert_eq!((header.process, from), (0, ProcessId(0)));
        assert_eq!(header.length as usize, frame.frame().len() - LENGTH);
        if header.kind == Kind::Call {
            self.own = header.request;
        }
        if header.kind == Kind::Answer {
            assert!(matches!(Control::read(&header), Some(Control::Answer { .. })));
            let asked = self.asked.get_mut(&header.request).expect("it was asked");
            *asked = asked.checked_sub(1).expect("it is answered once");
        }
    }

    fn peer(&mut self, _peer: ProcessId, _change: crate::engine::Change) {}
}

#[cfg(test)]
pub(super) fn seeds() -> Vec<(&'static str, Vec<u8>)> {
    use std::time::Duration;

    use crate::engine::NodeId;
    use crate::name::ThreadName;
    use crate::remote::{encoded_order, encoded_spawn};
    use crate::wire::{Slot, encode};

    let ask = |how: u8, service: u8, request: u8, body: &[u8]| {
        [&[how, service, request, body.len() as u8][..], body, &[0]].concat()
    };
    let slot = |index| Slot { index, generation: 1 };
    let name = |process| ThreadName { pe: NodeId(0), process: ProcessId(process), thread: slot(0) };
    let spawn = |request, arguments: u32| ask(0, 0, request, &encoded_spawn("fuzz::work", &arguments));
    let mut orders = Vec::new();
    for index in 0..3 {
        for (request, body) in (2..).zip(encoded_order(slot(index), Duration::from_millis(1), name(1))) {
            orders.extend(ask(0, 1, request, &body));
        }
    }
    let of = |value: Result<Body, String>| value.expect("it can be written").to_vec();
    let names = |process| of(encode(&("own", name(process))));
    vec![
        ("spawns", [spawn(1, 2), spawn(2, 3), spawn(3, u32::MAX)].concat()),
        ("orders", [spawn(1, 2), spawn(15, 3), orders].concat()),
        ("withdrawn", [spawn(1, 2), ask(6, 0, 1, b""), spawn(1, 2), ask(6, 0, 9, b"")].concat()),
        (
            "names",
            [ask(0, 2, 1, &names(1)), ask(0, 3, 2, &of(encode("own"))), ask(4, 4, 3, &names(1))].concat(),
        ),
        ("names-of-others", [ask(0, 2, 1, &names(0)), ask(4, 4, 2, &names(0)), ask(0, 5, 3, b"")].concat()),
        ("waits-for-a-name", ask(0, 3, 1, &of(encode("late")))),
        ("answers", [ask(7 | 1 << 3, 0, 1, &[7]), ask(7 | 2 << 3, 0, 1, b"x"), ask(7, 0, 2, b"")].concat()),
        ("again", [ask(0, 7, 1, &[5]), ask(4, 7, 1, &[5]), ask(0, 7, 0, &[5]), ask(0, 6, 2, b"")].concat()),
        ("nonsense", (0..16).flat_map(|service| ask(service, service, service, &[0xff; 9])).collect()),
    ]
}
