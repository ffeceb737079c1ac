//! Each error of requests, remote threads, names, groups and supervisors says what has happened, and what to do.

use std::fmt::Display;

use chanter_cluster::engine::{NodeId, ProcessId, Why};
use chanter_cluster::group::{GroupError, Lost};
use chanter_cluster::supervise::TeamError;
use chanter_cluster::wire::Slot;
use chanter_cluster::{
    AskError, Begun, CallError, Down, EndError, NameError, ServeError, SpawnError, ThreadName,
};

#[track_caller]
fn says(error: &impl Display, parts: &[&str]) {
    let error = error.to_string();
    for part in parts {
        assert!(error.contains(part), "{error:?} does not say {part:?}");
    }
    assert!(error.len() < 200 && !error.ends_with('.'), "{error:?}");
}

fn lost(begun: Begun) -> CallError {
    CallError::Lost { process: ProcessId(3), why: Why::Died, begun }
}

#[test]
fn errors_of_requests() {
    says(&CallError::NoSuchProcess(ProcessId(9)), &["no process 9", "`Process::count`"]);
    says(&lost(Begun::No), &["process 3 has died", "never sent", "made elsewhere"]);
    says(&lost(Begun::Unknown), &["process 3 has died", "may have run, or not"]);
    says(
        &CallError::Full(ProcessId(3)),
        &["16384 requests", "4 MiB", "process 3", "wait for some answers first"],
    );
    says(&CallError::Encode("why".into()), &["the request cannot be written: why"]);
    says(&CallError::TooLong { length: 20, longest: 10 }, &["20 bytes", "at most 10", "in parts"]);
    let no_service = CallError::NoService { process: ProcessId(3), name: "a::b" };
    says(&no_service, &["process 3", "\"a::b\"", "another version", "not that far yet"]);
    let refused = CallError::Refused { process: ProcessId(3), name: "a::b" };
    says(&refused, &["process 3", "\"a::b\"", "to this one", "`allow`"]);
    says(&CallError::BadRequest("why".into()), &["cannot read the request (why)", "another version"]);
    says(&CallError::BadAnswer("why".into()), &["no use in it: why"]);
    says(&CallError::Panicked("as planned".into()), &["the request panicked: as planned"]);
    says(&CallError::GivenUp, &["given up", "may have been done"]);
    says(&CallError::NotBegun("it left".to_owned()), &["handed on", "it left", "made again"]);
    says(&ServeError::Taken("a::b"), &["\"a::b\" already", "choose another name"]);
}

#[test]
fn errors_of_threads_of_other_processes() {
    says(
        &SpawnError::NoFunction("a::b"),
        &["does not offer \"a::b\"", "another version", "not that far yet"],
    );
    says(&SpawnError::NoSuchProcessor(2), &["only 2 virtual processors", "from 0"]);
    says(&SpawnError::BadArguments("why".into()), &["cannot read the arguments: why"]);
    says(&SpawnError::Full, &["as many threads there as it may", "await, or drop, the handles"]);
    says(&SpawnError::Refused("a::b"), &["\"a::b\" to this one", "`allow`"]);
    says(&SpawnError::Call(lost(Begun::No)), &["process 3 has died", "made elsewhere"]);
    says(&EndError::Panicked("as planned".into()), &["the thread panicked: as planned"]);
    says(&EndError::Cancelled, &["was cancelled"]);
    says(&EndError::NoThread, &["no such thread", "detached and has ended"]);
    says(&AskError::Overruled, &["a stronger request came first"]);
    says(&AskError::Withdrawn, &["withdrawn by a resumption"]);
    says(&AskError::Determined, &["determined"]);
    says(&AskError::NoThread, &["no such thread", "detached and has ended"]);
    says(&AskError::Full, &["as many threads are blocked", "resume some, or drop their handles"]);
    says(&Down::ProcessLost(ProcessId(3), Why::Unreachable), &["process 3", "cannot be reached"]);
    says(
        &Down::Unknown(CallError::Full(ProcessId(3))),
        &["cannot be watched", "wait for some answers first"],
    );
}

#[test]
fn errors_of_names_groups_and_supervisors() {
    let thread =
        ThreadName { pe: NodeId(0), process: ProcessId(3), thread: Slot { index: 1, generation: 2 } };
    says(&NameError::Taken(thread), &["taken by", &thread.to_string()]);
    says(&NameError::Bad(String::new()), &["\"\" is no name", "1 to 255 bytes"]);
    says(&NameError::Full, &["as many names as it may", "let some go"]);
    says(&GroupError::NoSuchRank { rank: 4, size: 4 }, &["a group of 4 has no rank 4"]);
    says(&GroupError::Name(NameError::Taken(thread)), &["taken by"]);
    says(&GroupError::Size { rank: 1, size: 3 }, &["member 1", "a group of 3", "say the same size"]);
    let missing = GroupError::Missing { rank: 2, gone: vec![1, 4] };
    says(&missing, &["member 2", "gone: 1, 4", "make a group without it"]);
    says(&Lost { member: 5 }, &["member 5", "make a group without it"]);
    let spawn = TeamError::Spawn { child: "index".into(), why: SpawnError::Full };
    says(&spawn, &["\"index\" cannot be started", "drop, the handles"]);
    let often = TeamError::TooOften { child: "index".into(), down: Down::Panicked("as planned".into()) };
    says(
        &often,
        &["more often than `at_most` allows", "\"index\" last", "as planned", "all have been ended"],
    );
}
