//! Processes that join a job, and take the places of those that leave, under load.

#![cfg(unix)]

#[path = "common/example.rs"]
mod example;

use std::process::{Child, Command, Output, Stdio};

use example::example;
use tempfile::TempDir;

/// Ended when dropped.
struct Running(Option<Child>);

impl Running {
    fn start(args: &[&str], program: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_chanter"));
        command.args(args).arg(example("rolling")).args(program);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Self(Some(command.spawn().unwrap()))
    }

    fn output(mut self) -> Output {
        self.0.take().unwrap().wait_with_output().unwrap()
    }

    /// It succeeds, and complains of nothing.
    fn succeeds(self) -> String {
        let output = self.output();
        let said = String::from_utf8_lossy(&output.stderr);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert_eq!((output.status.code(), &*said), (Some(0), ""), "{text}");
        text
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Three servers are restarted one after the other; each message and request is accounted for.
fn restarted(launch: &[&str]) {
    const SERVERS: usize = 3;
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("job");
    let file = file.to_str().unwrap();
    let job = Running::start(
        &[&["launch", "-n", "3", "--timeout", "600", "--open", file], launch].concat(),
        &["serve"],
    );
    while !std::path::Path::new(file).exists() {
        std::thread::yield_now();
    }
    let join = ["join", "--file", file];
    let control = Running::start(&join, &["control", "3", "3"]);
    let servers: Vec<_> = (0..SERVERS).map(|_| Running::start(&join, &["serve"])).collect();
    let text = control.succeeds();
    assert!(text.contains("3 of 3"), "{text}");
    assert!(text.contains("6 servers took ") && text.ends_with(" 0 unknown\n"), "{text}");
    for server in servers {
        server.succeeds();
    }
    job.succeeds();
}

#[test]
fn processes_are_replaced_under_load() {
    restarted(&[]);
}

#[test]
fn processes_are_replaced_over_tcp() {
    restarted(&["--tcp"]);
}

#[test]
fn what_is_missing_is_said() {
    let said = |args: &[&str]| {
        let output = Running::start(args, &[]).output();
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (code, why) = said(&["join"]);
    assert!(code == Some(2) && why.starts_with("chanter: no secret: "), "{code:?} {why}");
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("secret");
    std::fs::write(&file, "xyz").unwrap();
    let file = file.to_str().unwrap();
    let (code, why) = said(&["join", "--secret-file", file]);
    assert!(code == Some(2) && why.starts_with("chanter: no seeds: "), "{code:?} {why}");
    let (code, why) = said(&["join", "--secret-file", file, "--seed", "tcp:127.0.0.1:1"]);
    assert!(code == Some(1) && why.contains("CHANTER_SECRET_FILE"), "{code:?} {why}");
    let (code, why) = said(&["join", "--secret-file", file, "--seed", "nowhere"]);
    assert!(code == Some(2) && why.contains("is no seed"), "{code:?} {why}");
    let (code, why) = said(&["join", "--file", file]);
    assert!(code == Some(2) && why.contains("\"xyz\" is neither"), "{code:?} {why}");
}
