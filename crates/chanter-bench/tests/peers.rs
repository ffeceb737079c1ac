//! `bench peers` from the outside, beside peers that a test has made up.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;
use tempfile::TempDir;

/// A folder of peers, and a folder for their builds.
struct Peers {
    folder: TempDir,
    cache: TempDir,
}

impl Peers {
    fn new() -> Self {
        let new = || tempfile::tempdir().expect("a folder");
        Self { folder: new(), cache: new() }
    }

    /// A peer that has `sieve`, with the body of its `setup` and of its `run` after `--list`.
    fn with(self, name: &str, setup: &str, run: &str) -> Self {
        let peer = self.folder.path().join(name);
        std::fs::create_dir(&peer).expect("a folder for a peer");
        script(&peer.join("setup"), setup);
        script(&peer.join("run"), &format!("if [ \"$2\" = --list ]; then echo sieve/a; exit; fi\n{run}"));
        self
    }

    fn bench(&self, args: &[&str]) -> Output {
        Command::new(env!("CARGO_BIN_EXE_chanter-bench"))
            .args(["peers", "sieve", "--quick", "--rounds", "1", "--peers"])
            .arg(self.folder.path())
            .args(args)
            .env("XDG_CACHE_HOME", self.cache.path())
            .output()
            .expect("the command that was built runs")
    }
}

fn script(path: &Path, body: &str) {
    std::fs::write(path, format!("#!/usr/bin/env bash\nset -euo pipefail\n{body}\n")).expect("a script");
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).expect("an executable script");
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Checks that it is called as the contract says, and gives the 400th prime.
const RIGHT: &str = r#"
[ -e "$1/made" ] && [ "$2" = sieve/a ] && [ "$3" = 400 ]
echo '{"seconds": 0.000001, "answer": "2741"}'"#;
const MAKE: &str = r#"touch "$1/made"; echo Good 1.0"#;

#[test]
fn a_peer_that_is_right_has_a_time_and_may_be_first() {
    let peers = Peers::new().with("good", MAKE, RIGHT);
    let svg = peers.folder.path().join("peers.svg");
    let output = peers.bench(&["--svg", svg.to_str().expect("letters")]);
    assert!(output.status.success(), "{output:?}");
    let shown = text(&output.stdout);
    let rows: Vec<&str> = shown.lines().filter(|line| line.starts_with("| sieve ")).collect();
    assert_eq!(rows.len(), 2, "{shown}");
    assert!(rows.iter().all(|row| row.contains("| good/a") && row.contains("trails by")), "{shown}");
    assert!(shown.contains("good: Good 1.0"), "{shown}");
    let picture = std::fs::read_to_string(svg).expect("the picture was written");
    assert!(picture.contains("sieve: chanter / best peer, 2 VP") && picture.contains("</svg>"));
}

#[test]
fn a_wrong_answer_makes_the_command_fail() {
    let wrong = r#"echo '{"seconds": 0.000001, "answer": "2740"}'"#;
    let output = Peers::new().with("wrong", MAKE, wrong).bench(&["--vps", "1"]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let complaint = text(&output.stderr);
    assert!(complaint.contains(r#"wrong/peers/sieve/a: the answer is "2740", not "2741""#), "{complaint}");
    assert!(output.stdout.is_empty(), "{output:?}");
}

#[test]
fn peers_that_are_missing_or_broken_are_skipped_and_reported() {
    let peers = Peers::new()
        .with("absent", "echo progress >&2; echo 'no `frob`: install frob' >&2; exit 69", RIGHT)
        .with("broken", MAKE, "echo 'out of memory' >&2; exit 1")
        .with("single", MAKE, &format!("[ \"$4\" = 1 ] || exit 64\n{RIGHT}"));
    let output = peers.bench(&["--json", "-"]);
    assert!(output.status.success(), "{output:?}");
    let complaint = text(&output.stderr);
    assert!(complaint.contains("absent skipped: no `frob`: install frob"), "{complaint}");
    assert!(complaint.contains("broken/peers/sieve/a skipped: `run` failed: out of memory"), "{complaint}");

    let lines: Vec<Value> = text(&output.stdout)
        .lines()
        .map(|line| serde_json::from_str(line).expect("each line is JSON"))
        .collect();
    let line = |is: &dyn Fn(&Value) -> bool| lines.iter().find(|line| is(line)).expect("a line");
    assert_eq!(line(&|l| l["peer"] == "absent")["missing"], "no `frob`: install frob");
    assert_eq!(line(&|l| l["peer"] == "single")["version"], "Good 1.0");
    let of = |system: &str, vps: u64| {
        line(&|l| l["system"] == system && l["vps"] == vps && l["bench"] == "peers/sieve")["checked"] == true
    };
    let all = [of("single", 1), of("single", 2), of("broken", 1), of("chanter", 1), of("chanter", 2)];
    assert_eq!(all, [true, false, false, true, true]);
    assert_eq!(line(&|l| l["program"] == "sieve" && l["vps"] == 1)["first"], "single/a");
    assert_eq!(line(&|l| l["program"] == "sieve" && l["vps"] == 2)["ratio"], Value::Null);
}

#[test]
fn without_setup_only_what_is_set_up_takes_part() {
    let peers = Peers::new().with("good", MAKE, RIGHT);
    let parts = |args: &[&str]| {
        let output = peers.bench(args);
        assert!(output.status.success(), "{output:?}");
        text(&output.stdout).lines().any(|line| line.contains("good: Good 1.0"))
    };
    assert!(!parts(&["--no-setup", "--vps", "1"]));
    assert!(parts(&["--vps", "1"]));
    assert!(parts(&["--no-setup", "--vps", "1"]));
}

#[test]
fn outside_of_a_clone_the_folder_is_asked_for() {
    let elsewhere = tempfile::tempdir().expect("a folder");
    let output = Command::new(env!("CARGO_BIN_EXE_chanter-bench"))
        .args(["peers"])
        .current_dir(elsewhere.path())
        .output()
        .expect("the command that was built runs");
    assert_eq!(output.status.code(), Some(2));
    let complaint = text(&output.stderr);
    assert!(complaint.contains("programs/peers") && complaint.contains("--peers"), "{complaint}");
}
