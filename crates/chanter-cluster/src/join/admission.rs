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
use std::time::Duration;

use chanter::ThreadBuilder;
use chanter::event::from_cancel_safe;
use chanter::prelude::*;
use chanter::sync::Mutex as Turns;
use serde::{Deserialize, Serialize};

use crate::engine::socket::joining::{Answer, Applicant, Known, Request};
use crate::engine::socket::{Door, host};
use crate::engine::{NodeId, ProcessId};
use crate::launcher::Address;
use crate::service::{CallError, Service};
use crate::{Process, Serving};

/// Longest address of a process, in bytes.
const LONGEST_ADDRESS: usize = 256;

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

/// Leads a process in that has come here. Each step has its time.
async fn lead_in(here: &Process, door: &Door, applicant: Applicant) {
    let limit = door.patience();
    let Some(Ok(request)) = from_cancel_safe(applicant.request()).timeout(limit).await else { return };
    if let Some(number) = request.failed {
        dismiss(here, door, number);
    }
    // A process that has gone needs no number. (It says nothing before it has an answer.)
    let has_gone = from_cancel_safe(applicant.says_it_is_in()).wrap(|_| None);
    let is_over = choose((has_gone, door.ended().wrap(|()| None), after(3 * limit).wrap(|()| None)));
    let asked = from_cancel_safe(ask_the_leader(here, &request)).wrap(Some);
    let Some(answer) = choose((asked, is_over)).await else { return };
    let said = from_cancel_safe(applicant.answer(&answer)).timeout(limit).await;
    let Answer::Admitted { number, .. } = answer else { return };
    let is_in = match said {
        Some(Ok(())) => from_cancel_safe(applicant.says_it_is_in()).timeout(2 * limit).await,
        _ => None,
    };
    if !matches!(is_in, Some(Ok(()))) {
        dismiss(here, door, number);
    }
}

async fn ask_the_leader(here: &Process, request: &Request) -> Answer {
    loop {
        match here.at(here.leader()).call(ADMIT.ask(request)).await {
            Ok(Admitted::As { number, node, others }) => return Answer::Admitted { number, node, others },
            Ok(Admitted::Refused(why)) => return Answer::Refused(why),
            // The two differ about who has gone. The process tries again soon.
            Ok(Admitted::Elsewhere) => return Answer::Refused("the leader is about to change".to_owned()),
            // The next one is asked.
            Err(CallError::Lost { .. }) => {}
            Err(error) => return Answer::Refused(error.to_string()),
        }
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

/// A number that was given, and is awaited no longer if this is dropped before the admission has succeeded.
struct Given<'a> {
    here: &'a Process,
    door: &'a Door,
    number: ProcessId,
    has_succeeded: bool,
}

impl Drop for Given<'_> {
    fn drop(&mut self) {
        if !self.has_succeeded {
            dismiss(self.here, self.door, self.number);
        }
    }
}

/// Admits a process, as the leader (INV-ADMIT).
async fn admit(here: &Process, door: &Door, Request { address, failed }: Request) -> Admitted {
    if here.leader() != here.number() {
        return Admitted::Elsewhere;
    }
    let parsed = address.parse::<Address>().ok().filter(|_| address.len() <= LONGEST_ADDRESS);
    let Some(parsed) = parsed else { return Admitted::Refused("it has told no address".to_owned()) };
    // The other members may hear of it later.
    failed.into_iter().for_each(|number| door.dismiss(number));
    loop {
        let number = door.next();
        let node = node_of(number, &parsed, &door.members());
        if !door.expect(number, node, parsed.clone(), never()) {
            return Admitted::Refused("this process is leaving".to_owned());
        }
        let mut given = Given { here, door, number, has_succeeded: false };
        let known = Known { number, node, address: address.clone() };
        let asked: Vec<_> = others(here, door)
            .into_iter()
            .filter(|member| *member < number.0)
            .map(|member| {
                let (here, known, limit) = (here.clone(), known.clone(), door.patience());
                spawn(async move { await_it(&here, member, &known, limit).await })
            })
            .collect();
        let mut answers = Vec::new();
        for asked in asked {
            answers.push(asked.join().await.unwrap_or(Awaits::Silent));
        }
        if answers.contains(&Awaits::Silent) {
            return Admitted::Refused("a member does not answer in time".to_owned());
        }
        if answers.contains(&Awaits::No) {
            continue;
        }
        // It connects to these, and those that are admitted later connect to it.
        let is_there = |peer: &ProcessId| *peer < number && here.down(peer.0).is_none();
        let others = door.members().into_iter().filter(|(peer, ..)| is_there(peer));
        let others =
            others.map(|(number, node, address)| Known { number, node, address: address.to_string() });
        given.has_succeeded = true;
        return Admitted::As { number, node, others: others.collect() };
    }
}

/// A member's answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Awaits {
    /// It awaits the process, or has gone.
    Yes,
    /// It knows a process of that number.
    No,
    /// It has not answered in time.
    Silent,
}

/// Asks a member to await a process.
async fn await_it(here: &Process, member: u32, known: &Known, limit: Duration) -> Awaits {
    let asking = async {
        loop {
            match here.at(member).call(EXPECT.ask(known)).await {
                Ok(true) | Err(CallError::Lost { .. }) => return Awaits::Yes,
                Ok(false) => return Awaits::No,
                // It has just come, or has too much to do.
                Err(_) => after(Duration::from_millis(1)).await,
            }
        }
    };
    from_cancel_safe(asking).timeout(limit).await.unwrap_or(Awaits::Silent)
}

/// The node of a new process: that of a member on the same host, or a new one.
fn node_of(number: ProcessId, address: &Address, members: &[(ProcessId, NodeId, Address)]) -> NodeId {
    let same = members.iter().find(|(_, _, other)| host(other) == host(address));
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
    let awaits = door.expect(known.number, known.node, address, is_off);
    if awaits {
        // Now, as a message may bring its name before the engine's next poll tells of it.
        here.node().add(known.number, known.node);
    }
    awaits
}
