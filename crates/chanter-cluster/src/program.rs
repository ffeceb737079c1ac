//! The check, when processes join a job, that they agree on the requests that they can make of each other.
//!
//! Processes know a function, a service, and a method of an object by its name, which is its path and signature. The first process
//! compares those of each other one with its own:
//!
//! ```text
//!   a process ── hash of its names ──► the first
//!             ◄── the same; or: say them ──
//!             ── its names ──────────►
//!             ◄── where they differ ──
//! ```
//!
//! If they differ, neither joins. The first has joined when it has heard from all others, or that they have gone. A
//! process that agrees with the first agrees with all. If the first has gone, the next living process is asked; so a process that
//! [joins](crate::join) later asks the leader.
//!
//! A job may be made of several programs. So a path (of a type, or a module) that only one of the two knows is no
//! difference. Names under a path that both know must be the same in both.

use std::collections::{BTreeMap, BTreeSet};

use chanter::prelude::*;
use serde::{Deserialize, Serialize};

use crate::engine::{Disagreement, ProcessId};
use crate::node::Node;
use crate::service::{CallError, Caller, Service};
use crate::wire::Number;
use crate::{__table, Process, Serving};

const FIRST: u32 = 0;

const COMPARE: Service<Asked, Verdict> = Service::new("chanter::program");

#[derive(Debug, Serialize, Deserialize)]
enum Asked {
    Hash(u64),
    Names(Vec<String>),
}

#[derive(Debug, Serialize, Deserialize)]
enum Verdict {
    Same,
    /// The hashes differ, so the names must be sent.
    Say,
    Differs(Difference),
}

/// A name that two programs have with different signatures.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Difference {
    /// The path of the name.
    what: String,
    /// Its signature in the first process's program, if that has it.
    first: Option<String>,
    /// Its signature in the other process's program, if that has it.
    other: Option<String>,
}

/// The knowledge of a process about the others' programs.
pub(crate) struct Program {
    names: BTreeSet<String>,
    /// The results for each other process, kept by the first one: filled when that process has asked.
    heard: BTreeMap<ProcessId, IVar<Option<Difference>>>,
}

impl Node {
    fn program(&self) -> &Program {
        self.concern()
    }
}

impl Program {
    /// The program of this build.
    pub(crate) fn new(peers: impl Iterator<Item = ProcessId>) -> Self {
        Self::with(__table::names().map(str::to_owned), peers)
    }

    fn with(names: impl Iterator<Item = String>, peers: impl Iterator<Item = ProcessId>) -> Self {
        // The first does not ask itself.
        let others = peers.filter(|peer| peer.0 != FIRST);
        Self { names: names.collect(), heard: others.map(|peer| (peer, IVar::new())).collect() }
    }

    /// Hash of all names in order, which is the same in other builds with the same names.
    fn hash(&self) -> u64 {
        let all: Vec<&str> = self.names.iter().map(String::as_str).collect();
        Number::of(&all.join("\n")).0
    }

    /// Answers a process, as the first one.
    fn judge(&self, peer: ProcessId, asked: Asked) -> Verdict {
        let difference = match asked {
            Asked::Hash(hash) if hash == self.hash() => None,
            Asked::Hash(_) => return Verdict::Say,
            Asked::Names(names) => difference(&self.names, &names.into_iter().collect()),
        };
        if let Some(heard) = self.heard.get(&peer) {
            let _ = heard.put(difference.clone());
        }
        difference.map_or(Verdict::Same, Verdict::Differs)
    }
}

/// A name's parts: the path of its type or module, its own path, and its signature.
fn parts(name: &str) -> (&str, &str, &str) {
    let (what, signature) = name.split_once('#').unwrap_or((name, ""));
    let path = what.rsplit_once("::").map_or("", |(path, _)| path);
    (path, what, signature)
}

fn difference(first: &BTreeSet<String>, other: &BTreeSet<String>) -> Option<Difference> {
    let paths = |names: &BTreeSet<String>| -> BTreeSet<String> {
        names.iter().map(|name| parts(name).0.to_owned()).collect()
    };
    let both: BTreeSet<String> = paths(first).intersection(&paths(other)).cloned().collect();
    let name = first.symmetric_difference(other).find(|name| both.contains(parts(name).0))?;
    let (_, what, _) = parts(name);
    let signature = |names: &BTreeSet<String>| {
        let of = |name: &String| {
            let (_, its, signature) = parts(name);
            (its == what).then(|| signature.to_owned())
        };
        names.iter().find_map(of)
    };
    Some(Difference { what: what.to_owned(), first: signature(first), other: signature(other) })
}

/// Serves requests to compare this program with another's.
pub(crate) fn serve(here: &Process) {
    let judged = |caller: Caller, asked| async move { caller.node().program().judge(caller.peer(), asked) };
    // A process has no others when it starts.
    here.serve(COMPARE, judged).into_iter().for_each(Serving::forever);
}

/// Compares the programs of all processes, for [`Process::agree`].
async fn agree(here: &Process) -> Result<(), Disagreement> {
    let program = here.node().program();
    if here.number() != FIRST {
        return match ask(here, program).await {
            Some((process, Difference { what, first, other })) => {
                Err(Disagreement::new(process, what, other, first))
            }
            None => Ok(()),
        };
    }
    let mut result = Ok(());
    for (peer, heard) in &program.heard {
        let gone = here.node().gone(*peer).wrap(|_| None);
        // A process that was told of a difference goes. Then both results are there, and the first counts.
        if let Some(Difference { what, first, other }) = choose_biased((heard.get(), gone)).await
            && result.is_ok()
        {
            result = Err(Disagreement::new(peer.0, what, first, other));
        }
    }
    result
}

impl Process {
    /// Compares which methods of objects, services and functions the programs of all processes have. All processes of a
    /// cluster have to call this. Those that [`launched`](Self::launched) makes do so when they join.
    ///
    /// It **blocks** the thread until the first process has answered. In the first process, it blocks until all others
    /// have asked, or have gone.
    ///
    /// # Errors
    /// This process and another one do not agree on something that both know. The other one gets the same error. Their
    /// requests to each other could not be understood, so this process should leave.
    pub async fn agree(&self) -> Result<(), Disagreement> {
        agree(self).await
    }
}

/// The processes that have not been heard.
#[cfg(unix)]
pub(crate) fn unheard(here: &Process) -> Vec<ProcessId> {
    if here.number() != FIRST {
        return vec![ProcessId(FIRST)];
    }
    let heard = here.node().program().heard.iter();
    heard.filter(|(_, heard)| heard.try_get().is_none()).map(|(peer, _)| *peer).collect()
}

/// Asks the leader. `None`: they agree; or there is none before this process.
async fn ask(here: &Process, program: &Program) -> Option<(u32, Difference)> {
    let mut asked = Asked::Hash(program.hash());
    loop {
        let leader = here.leader();
        if leader == here.number() {
            return None;
        }
        match here.at(leader).call(COMPARE.ask(&asked)).await {
            Ok(Verdict::Differs(difference)) => return Some((leader, difference)),
            Ok(Verdict::Say) if matches!(asked, Asked::Hash(_)) => {
                asked = Asked::Names(program.names.iter().cloned().collect());
            }
            // The next one is asked.
            Err(CallError::Lost { .. }) => {}
            Ok(Verdict::Say | Verdict::Same) | Err(_) => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::{Engine, Local, reliable};
    use crate::node::Node;

    fn names(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|&name| name.to_owned()).collect()
    }

    const AREA: &str = "app::Patch::area#fnarea(&self)->f64";
    const REFINE: &str = "app::Patch::refine#asyncfnrefine(&mutself)->f64";

    #[test]
    fn programs_differ_where_both_know_the_path() {
        let ours = names(&[AREA, REFINE, "app::Patch#moves"]);
        assert_eq!(difference(&ours, &ours), None);
        assert_eq!(difference(&ours, &names(&["other::Wall::area#fnarea(&self)->f64"])), None);
        assert_eq!(difference(&ours, &names(&[])), None);
        let found = |other: &[&str]| {
            let Difference { what, first, other } = difference(&ours, &names(other)).unwrap();
            (what, first.is_some(), other.is_some())
        };
        let area32 = "app::Patch::area#fnarea(&self)->f32";
        assert_eq!(found(&[area32, REFINE, "app::Patch#moves"]), ("app::Patch::area".to_owned(), true, true));
        assert_eq!(found(&[AREA, "app::Patch#moves"]), ("app::Patch::refine".to_owned(), true, false));
        let more = "app::Patch::zoom#fnzoom(&self)";
        assert_eq!(
            found(&[AREA, REFINE, "app::Patch#moves", more]),
            ("app::Patch::zoom".to_owned(), false, true)
        );
        assert_eq!(found(&[AREA, REFINE, "app::wall#fnwall()"]).0, "app::Patch");
    }

    /// A process of a build that has these.
    fn started(engine: Local, names: &[&str]) -> Process {
        let peers: Vec<ProcessId> = engine.roster().into_iter().map(|(peer, _)| peer).collect();
        let program = Program::with(names.iter().map(|&name| name.to_owned()), peers.into_iter());
        Process::of(Node::start_as(reliable(engine), false, program))
    }

    #[chanter::test]
    async fn processes_of_the_same_build_join() {
        let job: Vec<Process> =
            Local::cluster(3).into_iter().map(|engine| started(engine, &[AREA, REFINE])).collect();
        let joins: Vec<_> =
            job.iter().cloned().map(|here| spawn(async move { agree(&here).await })).collect();
        for join in joins {
            assert_eq!(join.join().await.unwrap(), Ok(()));
        }
    }

    #[chanter::test]
    async fn another_build_is_refused_by_the_name_of_a_method() {
        let [first, second, third] = <[_; 3]>::try_from(Local::cluster(3)).unwrap();
        let area32 = "app::Patch::area#fnarea(&self)->f32";
        let job = [
            started(first, &[AREA, REFINE]),
            started(second, &[AREA, REFINE]),
            started(third, &[area32, REFINE]),
        ];
        let [first, second, third] = job.map(|here| spawn(async move { agree(&here).await }));
        assert_eq!(second.join().await.unwrap(), Ok(()));
        let here = first.join().await.unwrap().unwrap_err();
        assert_eq!((here.process, &*here.what), (2, "app::Patch::area"));
        let there = third.join().await.unwrap().unwrap_err();
        assert_eq!(
            there.to_string(),
            "process 0 has `app::Patch::area` as `fnarea(&self)->f64`, and this one as `fnarea(&self)->f32`: \
             build all processes of a job from the same version"
        );
    }

    /// A process that goes before it has joined delays no other.
    #[chanter::test]
    async fn who_has_gone_is_not_waited_for() {
        let [first, second] = <[_; 2]>::try_from(Local::cluster(2)).unwrap();
        let (first, second) = (started(first, &[AREA]), started(second, &[REFINE]));
        let join = spawn(async move { agree(&first).await });
        second.leave().await;
        assert_eq!(join.join().await.unwrap(), Ok(()));
    }
}
