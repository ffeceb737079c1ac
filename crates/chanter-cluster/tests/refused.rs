//! What an engine refuses is sent when there is room.

use std::sync::atomic::{AtomicBool, Ordering};

use chanter_cluster::engine::{Bell, Caps, Engine, Full, Lane, Leave, Local, Pe, Peer, Polled, Rest, Sink};
use chanter_cluster::wire::Body;
use chanter_cluster::{ANYONE, Here};

/// Refuses one message; there is room again before anybody has noted that, so the bell was rung too early to be of use.
struct Hasty {
    engine: Local,
    has_refused: AtomicBool,
}

impl Engine for Hasty {
    fn me(&self) -> Peer {
        self.engine.me()
    }

    fn roster(&self) -> Vec<(Peer, Pe)> {
        self.engine.roster()
    }

    fn caps(&self, to: Peer) -> Caps {
        self.engine.caps(to)
    }

    fn has_ended(&self) -> bool {
        self.engine.has_ended()
    }

    fn attach(&self, bell: Bell) {
        self.engine.attach(bell);
    }

    fn try_send(&self, to: Peer, lane: Lane, body: Body) -> Result<(), Full> {
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

    fn rest(&self) -> Rest {
        self.engine.rest()
    }

    fn rise(&self) {
        self.engine.rise();
    }

    fn leave(&self, how: Leave) {
        self.engine.leave(how);
    }
}

/// The server may look between a refusal and the moment in which what was refused is kept: nobody calls it again.
#[chanter::test]
async fn what_was_refused_goes_though_nobody_tells_of_room_afterwards() {
    let [first, second] = <[Local; 2]>::try_from(Local::cluster(2)).unwrap();
    let first = Here::start(Hasty { engine: first, has_refused: AtomicBool::new(false) });
    let second = Here::start(second);
    let (from, to) = (first.inbox().unwrap(), second.inbox().unwrap());
    from.send(to.name(), 1, &7).await.unwrap();
    assert_eq!(to.recv::<i32>(ANYONE, 1).await.unwrap().value, 7);
}
