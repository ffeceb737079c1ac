//! What an engine refuses is sent when there is room.

use std::sync::atomic::{AtomicBool, Ordering};

use chanter_cluster::engine::{
    Caps, Engine, Full, Idle, Lane, Leave, Local, NodeId, Notifier, Polled, ProcessId, Sink,
};
use chanter_cluster::wire::Body;
use chanter_cluster::{ANYONE, Process};

/// Refuses one message; there is room again before anybody has noted that, so the notifier was called too early to be of use.
struct Hasty {
    engine: Local,
    has_refused: AtomicBool,
}

impl Engine for Hasty {
    fn me(&self) -> ProcessId {
        self.engine.me()
    }

    fn roster(&self) -> Vec<(ProcessId, NodeId)> {
        self.engine.roster()
    }

    fn caps(&self, to: ProcessId) -> Caps {
        self.engine.caps(to)
    }

    fn has_ended(&self) -> bool {
        self.engine.has_ended()
    }

    fn attach(&self, notifier: Notifier) {
        self.engine.attach(notifier);
    }

    fn try_send(&self, to: ProcessId, lane: Lane, body: Body) -> Result<(), Full> {
        if lane == Lane::User && !self.has_refused.swap(true, Ordering::Relaxed) {
            return Err(Full { body });
        }
        self.engine.try_send(to, lane, body)
    }

    fn has_work(&self) -> bool {
        self.engine.has_work()
    }

    fn poll(&self, budget: u32, sink: &mut dyn Sink) -> Polled {
        self.engine.poll(budget, sink)
    }

    fn park(&self) -> Idle {
        self.engine.park()
    }

    fn unpark(&self) {
        self.engine.unpark();
    }

    fn leave(&self, how: Leave) {
        self.engine.leave(how);
    }
}

/// The server may look between a refusal and the moment in which what was refused is kept: nobody calls it again.
#[chanter::test]
async fn what_was_refused_goes_though_nobody_tells_of_room_afterwards() {
    let [first, second] = <[Local; 2]>::try_from(Local::cluster(2)).unwrap();
    let first = Process::start(Hasty { engine: first, has_refused: AtomicBool::new(false) });
    let second = Process::start(second);
    let (from, to) = (first.inbox().unwrap(), second.inbox().unwrap());
    from.send(to.name(), 1, &7).await.unwrap();
    assert_eq!(to.recv::<i32>(ANYONE, 1).await.unwrap().value, 7);
}
