//! A process of the job that forges: it asks in another's name, answers the calls of others, and hands on calls that it never had.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use chanter::prelude::*;
use chanter::{event::from_cancel_safe, sync::CVar};
use chanter_cluster::__table::{self, Called, linkme};
use chanter_cluster::engine::{
    Caps, Certificate, Change, Engine, Full, Idle, Lane, Leave, Local, NodeId, Notifier, Polled, ProcessId,
    Sink,
};
use chanter_cluster::wire::{Body, Control, Ended, Header, Kind, Number};
use chanter_cluster::{CallError, Caller, Process, Service};

const DISMISS: Service<u32, u32> = Service::new("test::dismiss");
const CLERK: &str = "clerk.example";
/// An answer that does not come for so long never comes.
const PATIENCE: Duration = Duration::from_secs(300);

/// A process whose peer 0 has shown the clerk's certificate, and nobody else any.
struct Certified(Local);

impl Engine for Certified {
    fn me(&self) -> ProcessId {
        self.0.me()
    }

    fn roster(&self) -> Vec<(ProcessId, NodeId)> {
        self.0.roster()
    }

    fn caps(&self, to: ProcessId) -> Caps {
        self.0.caps(to)
    }

    fn has_ended(&self) -> bool {
        self.0.has_ended()
    }

    fn attach(&self, notifier: Notifier) {
        self.0.attach(notifier);
    }

    fn try_send(&self, to: ProcessId, lane: Lane, body: Body) -> Result<(), Full> {
        self.0.try_send(to, lane, body)
    }

    fn has_work(&self) -> bool {
        self.0.has_work()
    }

    fn poll(&self, budget: u32, sink: &mut dyn Sink) -> Polled {
        self.0.poll(budget, sink)
    }

    fn park(&self) -> Idle {
        self.0.park()
    }

    fn unpark(&self) {
        self.0.unpark();
    }

    fn leave(&self, how: Leave) {
        self.0.leave(how);
    }

    fn certificate(&self, peer: ProcessId) -> Option<Certificate> {
        (peer == ProcessId(0)).then(|| Certificate::new(&[1], [CLERK.to_owned()]))
    }
}

/// A service whose requests may be forwarded, as those of objects are.
#[linkme::distributed_slice(__table::SERVICES)]
#[linkme(crate = linkme)]
static WHO: __table::Service = __table::Service::new("forged::who", || {
    __table::raw_forwarded("forged::who", |_, _| None, |caller, _| async move { Ok(seen(&caller)) })
});

/// The same, which is answered when somebody says so.
#[linkme::distributed_slice(__table::SERVICES)]
#[linkme(crate = linkme)]
static SLOW: __table::Service = __table::Service::new("forged::slow", || {
    __table::raw(
        "forged::slow",
        |_, _| None,
        |caller, _, _| async move {
            let gate = caller.here().state::<CVar>().expect("the process has a gate");
            gate.wait().await;
            Ok(Body::copied_from(b"genuine"))
        },
    )
});

/// The process that has sent the request, the one that is said to have made it, and whether the clerk has sent it.
fn seen(caller: &Caller) -> Body {
    let is_clerk = caller.is_certified_for(CLERK);
    let seen = [caller.process(), caller.origin(), u32::from(caller.is_forwarded()), u32::from(is_clerk)];
    Body::copied_from(&seen.map(|number| number as u8))
}

fn call(from: &Process, to: u32, name: &'static str) -> Called {
    match from.at(to).call_raw(name, Number::of(name), Body::with_capacity(0)) {
        Ok(called) => called,
        Err(_) => panic!("there is room for a call"),
    }
}

/// Processes 0 and 1, and the engine of 2, which says what it likes.
fn job() -> (Process, Process, Arc<Local>) {
    let [first, second, hostile] = <[Local; 3]>::try_from(Local::cluster(3)).unwrap();
    (Process::start(Certified(first)), Process::start(Certified(second)), Arc::new(hostile))
}

async fn say(hostile: &Local, to: u32, control: Control, bytes: &[u8]) {
    let mut frame = Body::copied_from(bytes);
    frame.set_header(&Header { process: 2, length: bytes.len() as u32, ..control.header() });
    let mut unsent = Some(frame);
    while let Some(frame) = unsent.take() {
        if let Err(Full { body }) = hostile.try_send(ProcessId(to), Lane::User, frame) {
            unsent = Some(body);
            yield_now().await;
        }
    }
}

/// The frames that have come to the hostile process.
#[derive(Default)]
struct Heard(Vec<(ProcessId, Header, Vec<u8>)>);

impl Sink for Heard {
    fn arrived(&mut self, from: ProcessId, _lane: Lane, frame: Body) {
        self.0.push((from, Header::decode(frame.frame(), u32::MAX).unwrap(), frame.to_vec()));
    }

    fn peer(&mut self, _peer: ProcessId, _change: Change) {}
}

impl Heard {
    /// Waits for a frame of that kind.
    async fn next(&mut self, hostile: &Local, kind: Kind) -> (ProcessId, Header, Vec<u8>) {
        loop {
            hostile.poll(64, self);
            if let Some(at) = self.0.iter().position(|(_, header, _)| header.kind == kind) {
                return self.0.remove(at);
            }
            yield_now().await;
        }
    }
}

fn forward(name: &str, request: u64, origin: u32) -> Control {
    Control::Forward { service: Number::of(name), request, origin, forwarded: 1 }
}

/// A service serves those alone who have proved what it wants; a name in a frame proves nothing.
#[chanter::test]
async fn nobody_asks_a_service_in_anothers_name() {
    let (first, second, hostile) = job();
    let mut heard = Heard::default();
    let ran = Arc::new(Mutex::new(Vec::new()));
    let run = Arc::clone(&ran);
    let is_clerk = |caller: &Caller| caller.is_certified_for(CLERK);
    let _serving = second.serve_if(DISMISS, is_clerk, move |caller, number: u32| {
        run.lock().unwrap().push((caller.process(), number));
        async move { number }
    });
    for (request, origin) in [(1, 0), (2, 1), (3, 2)] {
        say(&hostile, 1, forward(DISMISS.name(), request, origin), &[request as u8]).await;
    }
    // Behind those, in its own name.
    let own = Control::Ask { service: Number::of(DISMISS.name()), request: 4, is_post: false };
    say(&hostile, 1, own, &[4]).await;
    loop {
        let (_, answer, _) = heard.next(&hostile, Kind::Answer).await;
        assert_eq!(answer.tag, Ended::Refused as u32);
        if answer.request == 4 {
            break;
        }
    }
    assert_eq!(first.at(1).call(DISMISS.ask(&5)).await, Ok(5));
    assert_eq!(*ran.lock().unwrap(), [(0, 5)]);
}

/// A request that was forwarded is judged by what its sender has proved. The caller that it names is shown as a claim.
#[chanter::test]
async fn a_request_that_was_handed_on_has_its_senders_proof() {
    let (first, _second, hostile) = job();
    let mut heard = Heard::default();
    let own = call(&first, 1, "forged::who").await.unwrap();
    assert_eq!(*own, [0, 0, 0, 1]);
    say(&hostile, 1, forward("forged::who", 1, 2), &[]).await;
    assert_eq!(heard.next(&hostile, Kind::Answer).await.2, [2, 2, 0, 0]);
    // Process 0 has made a call to the sender, which forwards it: so it gets the answer.
    let claimed = call(&first, 2, "forged::who");
    let (from, asked, _) = heard.next(&hostile, Kind::Call).await;
    assert_eq!(from, ProcessId(0));
    say(&hostile, 1, forward("forged::who", asked.request, 0), &[]).await;
    assert_eq!(*claimed.await.unwrap(), [2, 0, 1, 0]);
}

/// A call is answered by a process that has it, and by nobody who guesses; and moved by nobody else.
#[chanter::test]
async fn nobody_answers_anothers_call() {
    let (first, second, hostile) = job();
    let gate = Arc::new(CVar::new());
    second.provide(CVar::clone(&gate));
    for round in 0..4 {
        let called = call(&first, 1, "forged::slow");
        for request in 1..=500 {
            say(&hostile, 0, Control::Answer { request, ended: Ended::Well, forwarded: 1 }, b"forged").await;
            say(&hostile, 0, Control::Moved { request, to: 2, forwarded: 7 }, &[]).await;
        }
        // It has read all of that.
        while first.dropped() < 500 * (round + 1) {
            yield_now().await;
        }
        if round == 3 {
            hostile.kill();
            while first.down(2).is_none() {
                yield_now().await;
            }
        }
        gate.set();
        assert_eq!(*called.await.unwrap(), *b"genuine");
    }
}

/// Forged requests in the name of a process do not keep that process's own requests out.
#[chanter::test]
async fn nobody_takes_the_place_of_anothers_call() {
    let (first, second, hostile) = job();
    second.provide(CVar::new());
    for request in 1..=500 {
        say(&hostile, 1, forward("forged::slow", request, 0), &[]).await;
    }
    let begun = Arc::new(AtomicU32::new(0));
    let begins = Arc::clone(&begun);
    let _serving = second.serve(DISMISS, move |_, number: u32| {
        begins.fetch_add(1, Ordering::SeqCst);
        async move { number }
    });
    for number in 0..100 {
        let answer = first.at(1).call(DISMISS.ask(&number)).timeout(PATIENCE).await;
        assert_eq!(answer, Some(Ok(number)));
    }
    assert_eq!(begun.load(Ordering::SeqCst), 100);
}

/// A holder that names a process which does not exist keeps the call, and the call ends with the holder.
#[chanter::test]
async fn a_call_is_not_handed_on_to_nobody() {
    let (first, _second, hostile) = job();
    let mut heard = Heard::default();
    let called = call(&first, 2, "forged::slow");
    let (_, asked, _) = heard.next(&hostile, Kind::Call).await;
    say(&hostile, 0, Control::Moved { request: asked.request, to: 77, forwarded: 1 }, &[]).await;
    while first.dropped() < 1 {
        yield_now().await;
    }
    hostile.kill();
    let ended = from_cancel_safe(called).timeout(PATIENCE).await.expect("it ends");
    assert!(matches!(ended, Err(CallError::Lost { process: ProcessId(2), .. })), "{ended:?}");
}
