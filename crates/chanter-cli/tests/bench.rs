//! The `bench` command from the outside: what it prints, and how it fails.

use std::process::{Command, Output};

use serde_json::Value;

fn chanter(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_chanter")).args(args).output().expect("the command that was built runs")
}

fn lines(output: &Output) -> Vec<Value> {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8_lossy(&output.stdout)
        .lines()
        .map(|line| serde_json::from_str(line).expect("each line is JSON"))
        .collect()
}

#[test]
fn an_unknown_name_is_one_line_with_the_list_and_exit_code_2() {
    let output = chanter(&["bench", "micro", "pingpogn"]);
    assert_eq!(output.status.code(), Some(2));
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert_eq!(complaint.lines().count(), 1, "{complaint}");
    for name in ["pingpogn", "par-pingpong", "tokio-spawn", "lost-choice", "asend"] {
        assert!(complaint.contains(name), "{complaint}");
    }
    assert!(output.stdout.is_empty());
}

#[test]
fn a_file_that_cannot_be_written_is_found_before_measuring() {
    let output = chanter(&["bench", "micro", "call", "--json", "/no/such/folder/x.json"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(output.stdout.is_empty(), "{output:?}");
}

#[test]
fn each_case_becomes_a_json_line() {
    let found = lines(&chanter(&[
        "bench", "micro", "pingpong", "call", "--n", "2000", "--rounds", "1", "--json", "-", "--system",
        "chanter", "--system", "tokio", "--system", "plain",
    ]));
    let named = |name: &str| found.iter().filter(|l| l["name"] == name).count();
    assert_eq!((named("call"), named("pingpong"), named("tokio-pingpong")), (1, 2, 1));
    for line in &found {
        assert_eq!(line["checked"], true, "{line}");
        assert_eq!((line["n"].as_u64(), line["vps"].as_u64()), (Some(2000), Some(1)));
        assert!(line["ns_per_op"].as_f64().is_some_and(|ns| ns > 0.0), "{line}");
    }
}

/// Every benchmark of Chanter's own, on one VP and on two, gives the result that it should.
#[test]
fn every_benchmark_of_chanter_checks_its_result() {
    for vps in ["1", "2"] {
        let found = lines(&chanter(&[
            "bench",
            "micro",
            "--n",
            "4000",
            "--rounds",
            "1",
            "--json",
            "-",
            "--vps",
            vps,
            "--system",
            "chanter",
            "parasite",
            "host",
            "pingpong",
            "par-pingpong",
            "choose",
            "choose-both",
            "gather",
            "send",
            "mailbox",
            "asend",
            "blocked",
            "lost-choice",
        ]));
        assert!(found.len() >= 16, "{} cases", found.len());
        assert!(found.iter().all(|line| line["checked"] == true));
    }
}

/// Every row of `choice`, by every system that is part of this program, gives the result that it should.
#[test]
fn every_row_of_choice_checks_its_result() {
    let mut args = vec!["bench", "choice", "--quick", "--n", "300", "--json", "-"];
    let systems = ["chanter", "tokio", "futures", "flume", "kanal", "crossbeam"];
    args.extend(systems.iter().flat_map(|system| ["--system", system]));
    let found = lines(&chanter(&args));
    let of = |system: &str| {
        found.iter().filter(|line| line["system"] == system && line["checked"] == true).count()
    };
    // Of 22 rows of branches: tuples do 12, vectors and sets all; `select!` has no 1024, streams and `Selector` no sends.
    assert_eq!(systems.map(of), [12 + 22 + 22 + 6, 18 + 4, 22 + 22 + 16, 16 + 16, 16, 22 + 6]);
    for line in found.iter().filter(|line| line["checked"] == false) {
        assert!(line["skipped"].as_str().is_some_and(|why| why.len() > 10), "{line}");
    }
    let findings: Vec<_> = found.iter().filter_map(|line| Some((line["figure"].as_str()?, line))).collect();
    assert!(findings.len() > 60, "{}", findings.len());
    for (figure, line) in findings {
        assert_eq!(line["value"].is_number(), !figure.ends_with("/ go"), "{line}");
    }
}

#[test]
fn an_unknown_row_of_choice_is_one_line_with_the_list() {
    let output = chanter(&["bench", "choice", "busy-9"]);
    assert_eq!(output.status.code(), Some(2));
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(complaint.lines().count() == 1 && complaint.contains("mixed-64"), "{complaint}");
}

#[test]
fn blocked_threads_are_measured_in_bytes() {
    let found =
        lines(&chanter(&["bench", "micro", "tokio-blocked", "--n", "20000", "--rounds", "1", "--json", "-"]));
    let bytes = found[0]["bytes_per_thread"].as_f64().expect("a number");
    assert!((300.0..5000.0).contains(&bytes), "{bytes}");
}
