//! Above networks within one process, good ones and bad ones.

use chanter::prelude::*;
use chanter_conformance::engine::Kit;
use chanter_cluster::engine::{Fault, Faults, Local, Pace, Reliable, Simulated};

use super::*;

/// An engine that takes no body longer than 1000 bytes.
struct Short<E>(E);

const SHORT: u32 = 1000;

impl<E: Engine> Engine for Short<E> {
    fn me(&self) -> ProcessId {
        self.0.me()
    }

    fn roster(&self) -> Vec<(ProcessId, NodeId)> {
        self.0.roster()
    }

    fn caps(&self, to: ProcessId) -> Caps {
        Caps { eager: SHORT, ..self.0.caps(to) }
    }

    fn has_ended(&self) -> bool {
        self.0.has_ended()
    }

    fn attach(&self, notifier: Notifier) {
        self.0.attach(notifier);
    }

    fn try_send(&self, to: ProcessId, lane: Lane, body: Body) -> Result<(), Full> {
        assert!(body.len() <= SHORT as usize, "a piece of {} bytes", body.len());
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
}

#[chanter::test]
async fn it_keeps_what_an_engine_promises() {
    let make =
        async |count| Local::cluster(count).into_iter().map(|local| Pieces::over(Short(local))).collect();
    Kit::new(make).killed_by(|pieces: &Pieces<Short<Local>>| pieces.engine.0.kill()).run().await.unwrap();
}

/// Messages of all lengths over a network that loses, doubles and reorders their pieces.
#[chanter::test]
async fn long_bodies_pass_a_network_that_misbehaves() {
    let faults = Faults::of(&[Fault::Lose, Fault::Duplicate, Fault::Reorder], 20);
    let pace = || Pace { window: 8, ..Pace::default() };
    let mut engines =
        Simulated::cluster(2, faults).into_iter().map(|one| Pieces::over(Reliable::over(Short(one), pace())));
    let (one, other) = (engines.next().unwrap(), engines.next().unwrap());
    let here = chanter_cluster::Process::start(one);
    let there = chanter_cluster::Process::start(other);
    let from = here.inbox().unwrap();
    let to = there.open("to").unwrap();
    let name = here.lookup("to@1").await.unwrap();
    let lengths = [0, 1, 999, 1000, 1001, 5000, 100_000, 17];
    let sending = spawn(async move {
        for length in lengths {
            from.send(name, 1, &vec![7_u8; length]).await.unwrap();
        }
        from
    });
    for length in lengths {
        let got = to.recv::<Vec<u8>>(chanter_cluster::ANYONE, 1).await.unwrap();
        assert_eq!(got.value, vec![7_u8; length]);
    }
    drop(sending.join().await.unwrap());
}

/// Senseless pieces: nothing is told, and the engine below gives the peer up.
#[test]
fn nonsense_is_not_gathered() {
    struct Nobody;
    impl Sink for Nobody {
        fn arrived(&mut self, from: ProcessId, _lane: Lane, frame: Body) {
            panic!("{from:?} has sent {frame:?}");
        }

        fn peer(&mut self, _peer: ProcessId, _change: Change) {}
    }
    let piece = |at: u32, total: u64, length: usize| {
        let mut body = Body::copied_from(&vec![1; length]);
        body.set_header(&Header {
            tag: at,
            request: total,
            length: length as u32,
            ..Header::new(Kind::Descriptor)
        });
        body
    };
    let mut whole = Body::copied_from(b"x");
    whole.set_header(&Header { length: 1, ..Header::new(Kind::Message) });
    let most = (LENGTH + LONGEST) as u64;
    let bad: Vec<Vec<Body>> = vec![
        vec![piece(1, 200, 100)],
        vec![piece(0, 99, 100)],
        vec![piece(0, 200, 0)],
        vec![piece(0, most + 1, 100)],
        vec![piece(0, u64::MAX, 100)],
        vec![piece(0, 47, 47)],
        vec![piece(0, 200, 100), piece(0, 200, 100)],
        vec![piece(0, 200, 100), piece(100, 200, 101)],
        vec![piece(0, 200, 100), whole],
    ];
    for frames in bad {
        let [engine, _other] = <[Local; 2]>::try_from(Local::cluster(2)).unwrap();
        let mut coming = BTreeMap::new();
        let mut gather = Gather { engine: &engine, coming: &mut coming, sink: &mut Nobody, told: 0 };
        for frame in frames {
            gather.arrived(ProcessId(1), Lane::User, frame);
        }
        assert_eq!(gather.told, 0);
        assert!(coming.is_empty(), "nothing is kept");
    }
}
