//! The admission of processes: the leader gives each a number, and all members await it before it learns that number.
//!
//! INV-ADMIT: a process connects to no member that does not await it, and each number has one process. The *leader*, which
//! is the living process with the lowest number, admits one process at a time. It takes a number that no process has had as far
//! as it knows, and asks each living member to await the process of that number. A member refuses a number that it
//! knows; then the leader takes the next one. The leader answers when each member has agreed or has gone. So
//! all members know the process before it connects to any, and before a message can bring its name to any.
//! A leader that dies in between has told no number. So members await no process any longer when the leader that has
//! asked them to has gone. The next leader may not know of that number; those that do refuse it.
//!
//! A member believes the leader's word only when it knows that all processes with lower numbers have gone. They have
//! gone for ever, so there is one leader at a time among processes that can reach each other.

use std::sync::Arc;

use chanter::ThreadBuilder;
use chanter::prelude::*;
use chanter::sync::Mutex as Turns;
use serde::{Deserialize, Serialize};

use crate::engine::socket::Door;
use crate::engine::socket::joining::{Answer, Applicant, Known, Request};
use crate::engine::{NodeId, ProcessId};
use crate::launcher::Address;
use crate::service::{CallError, Service};
use crate::{Process, Serving};

/// Asks the leader to admit a process.
const ADMIT: Service<Request, Admitted> = Service::new("chanter::admit");
/// Asks a member to await a process.
const EXPECT: Service<Known, bool> = Service::new("chanter::expect");
/// Tells a member to await a process no longer.
const DISMISS: Service<ProcessId, ()> = Service::new("chanter::dismiss");

/// The leader's answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Admitted {
    As {
        number: ProcessId,
        node: NodeId,
        others: Vec<Known>,
    },
    /// The process that was asked is not the leader.
    Elsewhere,
    Refused(String),
}

/// Lets processes join from now on.
pub(crate) fn serve(here: &Process, door: Door) {
    let turns = Arc::new(Turns::new(()));
    let (admits, expects, dismisses) = (door.clone(), door.clone(), door.clone());
    let served = [
        here.serve(ADMIT, move |caller, request: Request| {
            let (door, turns) = (admits.clone(), Arc::clone(&turns));
            async move {
                let _alone = turns.lock().await;
                admit(&caller.here(), &door, request).await
            }
        }),
        here.serve(EXPECT, move |caller, known: Known| {
            let door = expects.clone();
            async move { expect(&caller.here(), &door, caller.process(), &known).await }
        }),
        here.serve(DISMISS, move |_, peer| {
            let door = dismisses.clone();
            async move { door.dismiss(peer) }
        }),
    ];
    // A starting process has no services of these names, so this cannot fail.
    served.into_iter().flatten().for_each(Serving::forever);
    // The thread ends with the process: the door's other end is the engine's.
    let node = Arc::downgrade(here.node());
    drop(ThreadBuilder::new().name("joins").spawn(async move {
        while let Some(applicant) = door.applicant().await {
            let Some(node) = node.upgrade() else { return };
            let here = Process::of(node);
            let door = door.clone();
            spawn(async move { lead_in(&here, &door, applicant).await });
        }
    }));
}

/// Leads a process in that has come here.
async fn lead_in(here: &Process, door: &Door, applicant: Applicant) {
    let Ok(request) = applicant.request().await else { return };
    if let Some(number) = request.failed {
        dismiss(here, door, number);
    }
    let answer = loop {
        let leader = here.leader();
        match here.at(leader).call(ADMIT.ask(&request)).await {
            Ok(Admitted::As { number, node, others }) => break Answer::Admitted { number, node, others },
            Ok(Admitted::Refused(why)) => break Answer::Refused(why),
            // This process does not know yet what the other one knows.
            Ok(Admitted::Elsewhere) => yield_now().await,
            Err(CallError::Lost { .. }) => {}
            Err(error) => break Answer::Refused(error.to_string()),
        }
    };
    let said = applicant.answer(&answer).await;
    let Answer::Admitted { number, .. } = answer else { return };
    if said.is_err() || applicant.is_in().await.is_err() {
        dismiss(here, door, number);
    }
}

/// Tells all that a process will not come, if it is still awaited.
fn dismiss(here: &Process, door: &Door, number: ProcessId) {
    door.dismiss(number);
    for member in others(here, door) {
        let _ = here.at(member).post(DISMISS.ask(&number));
    }
}

/// The living members but this one, and those that are awaited.
fn others(here: &Process, door: &Door) -> Vec<u32> {
    let is_other = |number: &u32| *number != here.number() && here.down(*number).is_none();
    door.members().into_iter().map(|(peer, ..)| peer.0).filter(is_other).collect()
}

/// Admits a process, as the leader (INV-ADMIT).
async fn admit(here: &Process, door: &Door, Request { address, failed }: Request) -> Admitted {
    if here.leader() != here.number() {
        return Admitted::Elsewhere;
    }
    let Ok(parsed) = address.parse::<Address>() else {
        return Admitted::Refused("it has told no address".to_owned());
    };
    // The other members may hear of it later.
    failed.into_iter().for_each(|number| door.dismiss(number));
    loop {
        let number = door.next();
        let node = node_of(number, &parsed, &door.members());
        if !door.expect(number, node, parsed.clone(), never()) {
            return Admitted::Refused("this process is leaving".to_owned());
        }
        let known = Known { number, node, address: address.clone() };
        let asked: Vec<_> = others(here, door)
            .into_iter()
            .filter(|member| *member < number.0)
            .map(|member| {
                let (here, ask) = (here.clone(), EXPECT.ask(&known));
                spawn(async move { here.at(member).call(ask).await })
            })
            .collect();
        let mut is_refused = false;
        for asked in asked {
            is_refused |= matches!(asked.join().await, Ok(Ok(false)));
        }
        if is_refused {
            door.dismiss(number);
            continue;
        }
        // It connects to these, and those that are admitted later connect to it.
        let is_there = |peer: &ProcessId| *peer < number && here.down(peer.0).is_none();
        let others = door.members().into_iter().filter(|(peer, ..)| is_there(peer));
        let others =
            others.map(|(number, node, address)| Known { number, node, address: address.to_string() });
        return Admitted::As { number, node, others: others.collect() };
    }
}

/// The node of a new process: that of a member on the same host, or a new one.
fn node_of(number: ProcessId, address: &Address, members: &[(ProcessId, NodeId, Address)]) -> NodeId {
    let ip = |address: &Address| match address {
        Address::Unix(_) => None,
        Address::Tcp(address) => Some(address.ip().to_canonical()).filter(|ip| !ip.is_loopback()),
    };
    let same = members.iter().find(|(_, _, other)| ip(other) == ip(address));
    same.map_or(NodeId(number.0), |(_, node, _)| *node)
}

/// Awaits a process, for the leader (INV-ADMIT).
async fn expect(here: &Process, door: &Door, leader: u32, known: &Known) -> bool {
    if leader > here.number() {
        return false;
    }
    for process in (0..leader).filter(|process| *process != here.number()) {
        here.node().gone(ProcessId(process)).await;
    }
    let Ok(address) = known.address.parse() else { return false };
    // A leader that has gone may not have told the number. If it has, the process fails here, and begins again.
    let is_off = here.node().gone(ProcessId(leader)).wrap(drop);
    door.expect(known.number, known.node, address, is_off)
}
