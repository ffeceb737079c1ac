//! The `bench` command from the outside: its output, and its failures.

use std::process::{Command, Output};

use serde_json::Value;

fn chanter(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_chanter-bench"))
        .args(args)
        .output()
        .expect("the command that was built runs")
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
    let output = chanter(&["micro", "pingpogn"]);
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
    let output = chanter(&["micro", "call", "--json", "/no/such/folder/x.json"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(output.stdout.is_empty(), "{output:?}");
}

#[test]
fn each_case_becomes_a_json_line() {
    let found = lines(&chanter(&[
        "micro", "pingpong", "call", "--n", "2000", "--rounds", "1", "--json", "-", "--system", "chanter",
        "--system", "tokio", "--system", "plain",
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
    let mut args = vec!["choice", "--quick", "--n", "300", "--json", "-"];
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
    let output = chanter(&["choice", "busy-9"]);
    assert_eq!(output.status.code(), Some(2));
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(complaint.lines().count() == 1 && complaint.contains("mixed-64"), "{complaint}");
}

#[test]
fn blocked_threads_are_measured_in_bytes() {
    let found = lines(&chanter(&["micro", "tokio-blocked", "--n", "20000", "--rounds", "1", "--json", "-"]));
    let bytes = found[0]["bytes_per_thread"].as_f64().expect("a number");
    assert!((300.0..5000.0).contains(&bytes), "{bytes}");
}

#[test]
fn figure_7_is_printed_beside_the_papers() {
    let folder = tempfile::tempdir().expect("a folder for the record");
    let (json, svg) = (folder.path().join("7.json"), folder.path().join("7.svg"));
    let (json, svg) = (json.to_str().expect("a name"), svg.to_str().expect("a name"));
    let output = chanter(&[
        "sting",
        "primes",
        "random-tree-grain",
        "delayed-memory",
        "--quick",
        "--json",
        json,
        "--svg",
        svg,
    ]);
    assert!(output.status.success(), "{output:?}");
    let shown = String::from_utf8_lossy(&output.stdout);
    for text in [
        "threads stolen",
        "context switches",
        "best serial",
        "same serial",
        "speed-up, same serial",
        "1499",
        "1.84 s",
        "delayed 2",
        "paper 2",
    ] {
        assert!(shown.contains(text), "{text}: {shown}");
    }
    let record = std::fs::read_to_string(json).expect("the record is written");
    let lines: Vec<Value> =
        record.lines().map(|line| serde_json::from_str(line).expect("each line is JSON")).collect();
    // Serially in two ways, and four ways on one virtual processor and on two.
    let programs = lines.iter().filter(|line| line["bench"] == "primes" && line["checked"] == true);
    assert_eq!(programs.count(), 2 + 4 * 2);
    let grain = lines.iter().filter(|line| line["bench"] == "random-tree-grain" && line["checked"] == true);
    assert_eq!(grain.count(), 1 + 4 * 2);
    assert!(shown.contains("random-tree-grain, default: 1 VP / 2 VP"), "{shown}");
    let delayed = |line: &&Value| line["variant"] == "delayed" && line["vps"] == 1;
    let delayed = lines.iter().find(delayed).expect("a case is called so");
    for serial in ["best", "same"] {
        let [speed_up, ns] = [format!("speed_up_{serial}"), format!("serial_{serial}_ns")];
        let product = delayed[speed_up].as_f64().zip(delayed["ns_per_op"].as_f64()).map(|(s, ns)| s * ns);
        let (product, ns) = product.zip(delayed[ns].as_f64()).expect("both speed-ups are in the record");
        assert!((product / ns - 1.0).abs() < 1e-9, "{delayed}");
    }
    assert_eq!((delayed["threads"].as_f64(), delayed["stolen"].as_f64()), (Some(1501.0), Some(1500.0)));
    let memory = lines.iter().find(|line| line["bench"] == "delayed-memory").expect("a case is called so");
    let [bytes, threads] = ["bytes_per_thread", "n"].map(|field| memory[field].as_f64().expect("a number"));
    // The system may have made a huge page of a few used ones meanwhile.
    let most = 128.0 + f64::from(2 << 20) / threads;
    assert!((64.0..=most).contains(&bytes), "{memory}");
    assert!(std::fs::read_to_string(svg).is_ok_and(|picture| picture.contains("</svg>")));
}

/// The peer gives Swerve's answers, byte for byte, or this fails; and both are measured. Needs no generator.
#[test]
fn the_web_server_and_its_peer_answer_alike() {
    let found = lines(&chanter(&[
        "swerve",
        "swerve-idle",
        "--quick",
        "--rounds",
        "1",
        "--system",
        "chanter",
        "--system",
        "tokio-hyper",
        "--json",
        "-",
    ]));
    assert_eq!(found.len(), 3, "{found:?}");
    for line in &found {
        assert_eq!(line["checked"], true, "{line}");
        let bytes = line["bytes_per_thread"].as_f64().expect("a number");
        assert!((500.0..200_000.0).contains(&bytes), "{line}");
    }
}

#[test]
fn an_unknown_study_of_the_web_server_is_one_line_with_the_list() {
    let output = chanter(&["swerve", "swerve-idel"]);
    assert_eq!(output.status.code(), Some(2));
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(complaint.lines().count() == 1 && complaint.contains("swerve-httperf"), "{complaint}");
}

/// Every program and study of the papers, small, in every form; and a page with the tables and the pictures.
#[test]
fn the_papers_programs_are_measured_and_reported() {
    let folder = tempfile::tempdir().expect("a folder for the page");
    let page = folder.path().join("paper.html");
    let path = page.to_str().expect("a name of letters");
    let found = lines(&chanter(&["paper", "--quick", "--vps", "2", "--json", "-", "--html", path]));
    let of = |bench: &str, variant: &str| {
        let is_it =
            |line: &&Value| line["bench"] == bench && line["variant"] == variant && line["checked"] == true;
        found.iter().filter(is_it).collect::<Vec<_>>()
    };
    for program in ["mandelbrot", "k-clustering", "barnes-hut", "count-graphs", "ray-tracer"] {
        assert_eq!(of(program, "serial").len(), 1, "{program}");
        assert_eq!(of(program, "serial-same").len(), usize::from(program == "k-clustering"), "{program}");
        for form in ["sync-hosts", "async-hosts", "async-parasites", "paper-parasites"] {
            let runs = of(program, form);
            assert_eq!(runs.len(), 2, "{program}, {form}");
            for run in runs {
                assert!(run["speed_up_best"].is_number() && run["speed_up_same"].is_number(), "{run}");
                // An asynchronous send is no thread, so some programs have no parasites in that form.
                if form != "async-parasites" {
                    assert_eq!(run["parasites"].as_f64() > Some(0.0), form == "paper-parasites", "{run}");
                }
                assert!(
                    run["communications"].as_f64() > Some(0.0) && run["host_bytes"].as_f64() > Some(0.0),
                    "{run}"
                );
            }
        }
    }
    for (study, variant) in [
        ("table-1", "sendEvt"),
        ("figure-9", "hosts"),
        ("figure-10", "hosts, 8 producers"),
        ("figure-10", "figure 5, parasites, 8 producers"),
    ] {
        assert_eq!(of(study, variant).len(), 2, "{study}");
    }
    let promised = found.iter().filter(|line| line["figure"].is_string());
    assert!(promised.clone().count() >= 7 && promised.clone().all(|line| line["value"].is_number()));
    let page = std::fs::read_to_string(&page).expect("the page was written");
    for id in ["table-1", "figure-9", "figure-10", "figure-16", "table-2", "figure-11", "floors"] {
        assert!(page.contains(&format!("<h2 id=\"{id}\">")), "{id}");
    }
    for column in ["best serial, ms", "same serial, ms", "2 VPs, best", "2 VPs, same"] {
        assert!(page.contains(&format!(">{column}</th>")), "{column}");
    }
    assert!(page.matches("<svg").count() >= 4 + 5 && page.ends_with("</html>\n"));
    assert!(!page.contains("href") && !page.contains("src="), "the page needs no other file");
}

#[test]
fn an_unknown_program_of_the_papers_is_one_line_with_the_list() {
    let output = chanter(&["paper", "mandelbort"]);
    assert_eq!(output.status.code(), Some(2));
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(complaint.lines().count() == 1 && complaint.contains("mandelbrot"), "{complaint}");
}
