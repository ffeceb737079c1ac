//! The examples, in four processes each: they check their results themselves.

#![cfg(unix)]

#[path = "common/example.rs"]
mod example;

use std::process::Command;

use example::example;

fn launched(name: &str, arguments: &[&str]) -> Vec<String> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_chanter"));
    command.args(["launch", "-n", "4", "--timeout", "300"]).arg(example(name)).args(arguments);
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!((output.status.code(), &*said), (Some(0), ""), "{name}");
    let mut lines: Vec<String> =
        String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect();
    lines.sort();
    lines
}

#[test]
fn each_process_greets_the_first() {
    let said = |process| format!("[0] <pe 0, process {process}, thread 1.1> says hello");
    assert_eq!(launched("hello", &[]), [said(1), said(2), said(3)]);
}

#[test]
fn a_token_loses_no_step() {
    let lines = launched("token_ring", &["200"]);
    assert!(lines.len() == 1 && lines[0].starts_with("[0] 800 steps, "), "{lines:?}");
}

#[test]
fn a_plate_that_is_divided_is_computed_as_by_one() {
    let lines = launched("heat", &["40", "30"]);
    assert!(lines.len() == 1 && lines[0].ends_with("the same, bit for bit"), "{lines:?}");
    assert!(lines[0].contains("in 4 processes"));
}

#[test]
fn memory_that_is_shared_is_coherent() {
    let lines = launched("fetch", &["400"]);
    assert!(lines.len() == 1 && lines[0].starts_with("[0] 200 additions, all there; "), "{lines:?}");
}

/// Three of four replicas are killed with SIGKILL, and each request is accounted for. So often that CHANTER_KILLS have died in all.
#[test]
fn a_store_serves_while_its_replicas_are_killed() {
    let kills: u64 = std::env::var("CHANTER_KILLS").map_or(6, |kills| kills.parse().unwrap());
    for seed in 0..kills.div_ceil(3) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_chanter"));
        command.args(["launch", "-n", "5", "--timeout", "300", "--keep-going"]);
        command.args(["--tcp", "--no-segment"].iter().take(seed as usize % 3)).arg(example("store"));
        let output = command.args(["300", &seed.to_string()]).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        let lines = String::from_utf8(output.stdout).unwrap();
        assert!(lines.starts_with("[0] 2400 requests: "), "{seed}: {lines}{said}");
        let end = "; 3 replicas killed; every key is linearizable\n";
        assert!(lines.ends_with(end), "{seed}: {lines}{said}");
        // The launcher says that they have died.
        assert_eq!(output.status.code(), Some(137), "{seed}: {said}");
    }
}
