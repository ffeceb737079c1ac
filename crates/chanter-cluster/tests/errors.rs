//! Each error, as it comes about, and what it says: what has happened, and what to do.

#![cfg(unix)]

use std::fmt::Display;
use std::process::{Command, Stdio};

use chanter::prelude::*;
use chanter_cluster::engine::socket::{Config, Sockets, StartError};
use chanter_cluster::engine::{Engine, Local, ProcessId, Why};
use chanter_cluster::launcher::{self, Address, BadEnvironment, Launched, Secret};
use chanter_cluster::wire::{BadHeader, Header, Kind, LENGTH};
use chanter_cluster::{
    ANYONE, ClusterError, LookupError, OpenError, Process, RecvError, SendError, Undecoded, local,
};
use serde::{Serialize, Serializer};

use narrow::Narrow;

#[path = "common/narrow.rs"]
mod narrow;

const TAG: u32 = 1;

/// The parts of a message are there.
#[track_caller]
fn says(error: &impl Display, parts: &[&str]) {
    let error = error.to_string();
    for part in parts {
        assert!(error.contains(part), "{error:?} does not say {part:?}");
    }
}

fn two() -> [Process; 2] {
    local(2).try_into().unwrap()
}

struct Unwritable;

impl Serialize for Unwritable {
    fn serialize<S: Serializer>(&self, _serializer: S) -> Result<S::Ok, S::Error> {
        Err(serde::ser::Error::custom("no bytes for this"))
    }
}

#[chanter::test]
async fn sends() {
    let [first, second] = two();
    let (me, there) = (first.inbox().unwrap(), second.inbox().unwrap());
    let name = there.name();

    let nobody = {
        let mut nobody = name;
        nobody.process = ProcessId(9);
        nobody
    };
    let error = me.send(nobody, TAG, &1).await.unwrap_err();
    assert_eq!(error, SendError::NoSuchProcess(ProcessId(9)));
    says(&error, &["no process 9", "`Process::count`"]);

    // postcard does not pass on what a serializer says.
    let error = me.send(name, TAG, &Unwritable).await.unwrap_err();
    assert!(matches!(error, SendError::Encode(_)), "{error:?}");
    says(&error, &["cannot be written"]);

    drop(there);
    // Who sends before it has heard of it is told at the latest when the window is used up.
    let error = loop {
        if let Err(error) = me.send(name, TAG, &1).await {
            break error;
        }
    };
    assert_eq!(error, SendError::Gone(name));
    says(&error, &[&name.to_string(), "closed its inbox", "ask for a new one"]);

    second.leave().await;
    assert_eq!(me.returned(1).await.why, Why::Left);
    let error = me.send(name, TAG, &1).await.unwrap_err();
    assert_eq!(error, SendError::Lost(ProcessId(1), Why::Left));
    says(&error, &["process 1 has left the cluster", "not sent", "`Inbox::returned`"]);
}

#[chanter::test]
async fn receives() {
    let [first, second] = two();
    let (me, there) = (first.inbox().unwrap(), second.inbox().unwrap());
    there.send(me.name(), TAG, "text").await.unwrap();
    let error = me.recv::<u64>(ANYONE, TAG).await.unwrap_err();
    let RecvError::Decode(undecoded) = &error else { panic!("{error:?}") };
    let Undecoded { from, tag, bytes, .. } = &**undecoded;
    assert_eq!((*from, *tag, &bytes[..]), (there.name(), TAG, &b"\x04text"[..]));
    says(&error, &["5 bytes", "tag 1", &from.to_string(), "not of the type", "another build"]);

    let name = there.name();
    drop(there);
    second.leave().await;
    let error = me.recv::<u64>(name, TAG).await.unwrap_err();
    assert_eq!(error, RecvError::Lost(ProcessId(1), Why::Left));
    says(&error, &["process 1 has left the cluster", "no message of it is left"]);
}

#[chanter::test]
async fn names() {
    let here = local(1).remove(0);
    let mut open = vec![here.open("a").unwrap()];
    let error = here.open("a").unwrap_err();
    assert_eq!(error, OpenError::Taken("a".into()));
    says(&error, &["\"a\" is taken", "choose another one"]);
    for bad in ["", "a@0", &"a".repeat(256)] {
        let error = here.open(bad).unwrap_err();
        assert_eq!(error, OpenError::Bad(bad.into()));
        says(&error, &[&format!("{bad:?}"), "at most 255 bytes"]);
    }
    let error = loop {
        match here.open(&open.len().to_string()) {
            Ok(inbox) => open.push(inbox),
            Err(error) => break error,
        }
    };
    assert_eq!((error, open.len()), (OpenError::Full, 1 << 16));
    says(&OpenError::Full, &["as many open inboxes, or names, as it may", "close some"]);
    open.pop();
    here.open("again").unwrap();
}

#[chanter::test]
async fn lookups() {
    let [first, second] = two();
    for bad in ["", "a@", "a@x", "@0", "a@-1"] {
        let error = first.lookup(bad).await.unwrap_err();
        assert_eq!(error, LookupError::Bad(bad.into()));
        says(&error, &[&format!("{bad:?}"), "`name@process`"]);
    }
    let error = first.lookup("a@7").await.unwrap_err();
    assert_eq!(error, LookupError::NoSuchProcess(ProcessId(7)));
    says(&error, &["no process 7", "`Process::count`"]);

    // One who gives up leaves room for another: as many as may wait, again and again.
    for _ in 0..40_000 {
        assert!(first.lookup("nobody@0").try_sync().is_none());
        let gives_up = choose_biased((first.lookup("nobody@1").wrap(|_| false), always(true)));
        assert!(gives_up.await);
    }
    // One more than may wait: it is told so, and the others wait.
    let (answers, answered) = mailbox();
    for _ in 0..=1 << 14 {
        let (asked, answers) = (first.lookup("nobody@1").into_future(), answers.clone());
        spawn(async move { answers.send(asked.await.unwrap_err()).await.unwrap() });
    }
    let full = answered.recv().await.unwrap();
    assert_eq!(full, LookupError::Full);
    says(&full, &["too many wait for names in that process", "give some up"]);

    second.leave().await;
    for _ in 0..1 << 14 {
        assert_eq!(answered.recv().await.unwrap(), LookupError::Lost(ProcessId(1), Why::Left));
    }
    let error = first.lookup("a@1").await.unwrap_err();
    assert_eq!(error, LookupError::Lost(ProcessId(1), Why::Left));
    says(&error, &["process 1 has left the cluster", "its names with it"]);
}

/// How a process may go.
#[chanter::test]
async fn ends() {
    let [first, second] = <[Local; 2]>::try_from(Local::cluster(2)).unwrap();
    let here = Process::start(first);
    let me = here.inbox().unwrap();
    second.kill();
    assert_eq!(me.returned(1).await.why, Why::Died);
    let there = {
        let mut there = me.name();
        there.process = ProcessId(1);
        there
    };
    says(&me.send(there, TAG, &1).await.unwrap_err(), &["process 1 has died"]);
    says(&Why::Unreachable, &["cannot be reached any more"]);
}

/// Any of them is a `ClusterError`, which says the same.
#[test]
fn all_of_them() {
    let same = |error: ClusterError, inner: &dyn Display| {
        assert_eq!(error.to_string(), inner.to_string());
        assert_eq!(std::error::Error::source(&error).unwrap().to_string(), inner.to_string());
    };
    same(SendError::NoSuchProcess(ProcessId(1)).into(), &SendError::NoSuchProcess(ProcessId(1)));
    same(RecvError::Lost(ProcessId(1), Why::Died).into(), &RecvError::Lost(ProcessId(1), Why::Died));
    same(OpenError::Full.into(), &OpenError::Full);
    same(LookupError::Full.into(), &LookupError::Full);
}

#[test]
fn headers() {
    let header = Header { length: 100, ..Header::new(Kind::Message) }.encode();
    says(&Header::decode(&header[..LENGTH - 1], 0).unwrap_err(), &["47 bytes", "header of 48"]);
    says(&Header::decode(&header, 99).unwrap_err(), &["100 bytes", "limit of 99"]);
    let error = Header::decode(&[77; LENGTH], 0).unwrap_err();
    assert_eq!(error, BadHeader::Kind(77));
    says(&error, &["kind 77", "another version"]);
}

fn alone(count: u32) -> (Launched, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let path = |number: u32| folder.path().join(number.to_string());
    let listener = std::os::unix::net::UnixListener::bind(path(0)).unwrap();
    let addresses = (0..count).map(|number| Address::Unix(path(number))).collect();
    let launched = Launched {
        number: 0,
        addresses,
        listener: listener.into(),
        secret: Secret::new([1; 32]),
        segment: None,
        tls: None,
        is_open: false,
    };
    (launched, folder)
}

#[chanter::test]
async fn starts() {
    let mut config = Config::default();
    config.start = std::time::Duration::from_millis(20);
    let (launched, _folder) = alone(3);
    let error = Sockets::start(launched, config.clone()).await.unwrap_err();
    assert!(
        matches!(&error, StartError::Missing(peers) if peers[..] == [ProcessId(1), ProcessId(2)]),
        "{error:?}"
    );
    says(&error, &["have not connected in time: 1, 2", "have not started", "another job"]);

    // Nobody listens at the address of the other.
    let (launched, folder) = alone(2);
    let addresses = launched.addresses.iter().rev().cloned().collect();
    let error =
        Sockets::start(Launched { number: 1, addresses, ..launched }, config.clone()).await.unwrap_err();
    assert!(matches!(error, StartError::Unreachable(ProcessId(0), ..)), "{error:?}");
    says(&error, &["cannot reach process 0", &folder.path().join("1").display().to_string(), "has ended"]);

    let (launched, _folder) = alone(1);
    let sockets = Sockets::start(launched, config).await.unwrap();
    assert_eq!(sockets.roster().len(), 1);
    let me = Process::start(sockets).inbox().unwrap();
    me.send(me.name(), TAG, &vec![0_u8; 20 << 20]).await.unwrap();
}

/// The limit is the engine's; nothing was sent.
#[chanter::test]
async fn too_long() {
    let [first, second] = <[_; 2]>::try_from(Local::cluster(2))
        .unwrap()
        .map(|engine| Narrow { longest: 1000, ..Narrow::new(engine) });
    let longest = first.longest();
    let (first, _second) = (Process::start(first), Process::start(second));
    let me = first.inbox().unwrap();
    let there = {
        let mut there = me.name();
        there.process = ProcessId(1);
        there
    };
    let value = vec![1_u8; longest as usize + 1];
    let error = me.send(there, TAG, &value).await.unwrap_err();
    assert!(
        matches!(error, SendError::TooLong { length, longest: most } if length > value.len() && most == longest)
    );
    says(&error, &[&longest.to_string(), "send it in parts"]);
}

const CHILD: &str = "CHANTER_TEST_CHILD";

/// A process of the tests below: says what it thinks of its environment.
#[test]
fn a_launched_process() {
    if std::env::var_os(CHILD).is_some() {
        match Launched::from_env() {
            Ok(launched) => eprintln!("launched: {}", launched.is_some()),
            Err(error) => eprintln!("error: {error}"),
        }
    }
}

/// A process whose environment is that of process 0 of two, but for one variable.
fn launch(variable: &str, value: Option<&str>) -> String {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "a_launched_process", "--nocapture"]).stdin(Stdio::null()).env(CHILD, "1");
    let right = [
        (launcher::NUMBER, "0"),
        (launcher::COUNT, "2"),
        (launcher::ADDRESSES, "unix:/a,unix:/b"),
        // Its error stream is no listener, and a number that is not open is none.
        (launcher::LISTENER, "997"),
        (launcher::SECRET, &Secret::new([3; 32]).to_hex()),
    ];
    command.envs(right);
    match value {
        Some(value) => command.env(variable, value),
        None => command.env_remove(variable),
    };
    String::from_utf8(command.output().unwrap().stderr).unwrap()
}

#[test]
fn environments() {
    assert!(launch(launcher::NUMBER, None).contains("launched: false"));
    let wrong = [
        (launcher::NUMBER, Some("2")),
        (launcher::COUNT, None),
        (launcher::COUNT, Some("0")),
        (launcher::ADDRESSES, Some("tcp:localhost:1,unix:/b")),
        (launcher::LISTENER, Some("2")),
        (launcher::LISTENER, Some("998")),
        (launcher::SECRET, Some("abc")),
        (launcher::SEGMENT, Some("x")),
    ];
    for (variable, value) in wrong {
        let said = launch(variable, value);
        let expected = BadEnvironment { variable }.to_string();
        assert!(said.contains(&format!("error: {expected}")), "{variable}={value:?}: {said}");
        says(&expected, &[variable, "`chanter launch`"]);
    }
}
