//! `chanter launch` as a process: what comes out of it, how it ends, and who is left.

#![cfg(unix)]

mod common;

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write, pipe};
use std::os::fd::AsFd;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::sys::signal::Signal;

use common::{Job, Leash, lines, said};

/// `chanter launch ARGS.. sh -c SCRIPT`
fn launch(args: &[&str], script: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_chanter"));
    command.arg("launch").args(args).args(["--", "sh", "-c", script]);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn run(args: &[&str], script: &str) -> Output {
    launch(args, script).output().unwrap()
}

/// A job that has written `count` lines.
fn ready(args: &[&str], script: &str, count: usize) -> Job {
    Job::ready_as(&mut launch(args, script), count)
}

#[test]
fn lines_are_prefixed_whole_and_in_the_order_of_each_process() {
    let script = r#"
        i=0
        while [ $i -lt 200 ]; do
            printf 'line '; printf "$i of "; printf "$CHANTER_NUMBER\n"
            i=$((i+1))
        done
        printf 'no end'"#;
    let output = run(&["-n", "4"], script);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let all = lines(&output.stdout);
    assert_eq!(all.len(), 4 * 201);
    for number in 0..4 {
        let prefix = format!("[{number}] ");
        let own: Vec<&str> = all.iter().filter_map(|line| line.strip_prefix(&prefix)).collect();
        let mut expected: Vec<String> = (0..200).map(|i| format!("line {i} of {number}")).collect();
        expected.push("no end".into());
        assert_eq!(own, expected);
    }
}

#[test]
fn both_streams_are_passed_on_with_and_without_prefixes_and_colours() {
    let script = "echo out; echo err >&2";
    let output = run(&[], script);
    assert_eq!((lines(&output.stdout), lines(&output.stderr)), (vec!["[0] out"], vec!["[0] err"]));
    let output = run(&["--no-prefix"], script);
    assert_eq!((lines(&output.stdout), lines(&output.stderr)), (vec!["out"], vec!["err"]));
    let output = run(&["--color", "always"], script);
    assert_eq!(lines(&output.stdout), ["\u{1b}[36m[0]\u{1b}[0m out"]);
}

#[test]
fn each_process_is_told_who_it_is_and_gets_its_own_socket_only() {
    for (kind, args) in [("unix:", &["-n", "3"][..]), ("tcp:", &["-n", "3", "--tcp"])] {
        let script = r#"
            for fd in /dev/fd/*; do [ -S $fd ] && sockets="$sockets ${fd#/dev/fd/}"; done
            echo "$CHANTER_COUNT $CHANTER_SECRET $CHANTER_ADDRESSES $([ "$sockets" = " $CHANTER_LISTENER" ] && echo alone)""#;
        let output = run(args, script);
        let mut all: Vec<&str> = lines(&output.stdout);
        all.sort_unstable();
        assert_eq!(all.len(), 3, "{}", said(&output));
        let of = |line: &str| -> Vec<String> { line.split(' ').map(str::to_owned).collect() };
        for (number, line) in all.iter().enumerate() {
            let words = of(line);
            assert_eq!(words[0], format!("[{number}]"));
            assert_eq!(words[1], "3");
            assert_eq!(words[2].len(), 64);
            assert_eq!(words[3].split(',').filter(|address| address.starts_with(kind)).count(), 3);
            assert_eq!(words[4], "alone");
            assert_eq!(words[1..], of(all[0])[1..], "all are told the same");
        }
        let other = run(args, "echo $CHANTER_SECRET");
        assert_ne!(lines(&other.stdout)[0].split(' ').nth(1), of(all[0]).get(2).map(String::as_str));
        // The folder of the sockets has gone, if they had one.
        if let Some(path) = of(all[0])[3].split(',').next().unwrap().strip_prefix("unix:") {
            assert!(!Path::new(path).parent().unwrap().exists());
        }
    }
}

#[test]
fn the_first_failure_ends_the_others_and_is_the_answer() {
    let script = "[ $CHANTER_NUMBER = 2 ] && exit 7; sleep 100000";
    let output = run(&["-n", "4", "--status"], script);
    assert_eq!(output.status.code(), Some(7));
    let said = said(&output);
    assert!(said.starts_with("chanter: process 2 failed (exit 7): ending the others\n"), "{said}");
    assert_eq!(said.matches("signal 15 SIGTERM").count(), 3, "{said}");
    assert_eq!(said.matches("exit 7").count(), 2, "{said}");
}

#[test]
fn others_may_go_on() {
    let leash = Leash::new();
    // The others end after the one that fails has been seen to.
    let script = format!(
        "if [ $CHANTER_NUMBER = 1 ]; then exec 3>{0}; exit 3; fi
         if [ $CHANTER_NUMBER = 0 ]; then cat {0}; fi
         echo done; exit 0",
        leash.path()
    );
    let output = run(&["-n", "3", "--keep-going"], &script);
    assert_eq!(output.status.code(), Some(3));
    let mut all = lines(&output.stdout);
    all.sort_unstable();
    assert_eq!(all, ["[0] done", "[2] done"]);
    assert_eq!(said(&output), "chanter: process 1 failed (exit 3)\n");
}

#[test]
fn a_process_that_is_killed_is_128_and_its_signal() {
    let output = run(&[], "kill -KILL $$");
    assert_eq!(output.status.code(), Some(137));
    assert_eq!(said(&output), "chanter: process 0 failed (signal 9 SIGKILL)\n");
}

#[test]
fn when_the_time_is_up_it_is_124() {
    let output = run(&["-n", "2", "--timeout", "0.1"], "sleep 100000");
    assert_eq!(output.status.code(), Some(124));
    assert_eq!(said(&output), "chanter: the time is up\n");
}

#[test]
fn signals_are_passed_on_and_processes_may_end_well() {
    for (signal, name) in [(Signal::SIGINT, "INT"), (Signal::SIGTERM, "TERM"), (Signal::SIGHUP, "HUP")] {
        let script =
            format!("trap 'echo told; exit 0' {name}; echo ready; while :; do sleep 100000 & wait; done");
        let job = ready(&["-n", "2", "--grace", "3600"], &script, 2);
        job.signal(signal);
        let (code, out, err) = job.ended();
        assert_eq!((code, err.as_str()), (Some(0), ""));
        let mut all = lines(out.as_bytes());
        all.sort_unstable();
        assert_eq!(all, ["[0] told", "[1] told"]);
    }
}

#[test]
fn who_does_not_listen_is_killed_after_the_grace_or_the_second_signal() {
    let script = "trap '' TERM; echo ready; while :; do sleep 100000; done";
    let job = ready(&["-n", "2", "--grace", "0.1"], script, 2);
    job.signal(Signal::SIGTERM);
    assert_eq!(job.ended().0, Some(137));

    let script = "trap 'echo ready' TERM; echo ready; while :; do sleep 100000 & wait; done";
    let mut job = ready(&["--grace", "3600"], script, 1);
    job.signal(Signal::SIGTERM);
    let mut line = String::new();
    job.stdout.read_line(&mut line).unwrap();
    assert_eq!(line, "[0] ready\n");
    job.signal(Signal::SIGTERM);
    assert_eq!(job.ended().0, Some(137));
}

#[test]
fn nobody_is_left_when_a_process_ends_before_those_that_it_started() {
    let leash = Leash::new();
    let script = format!("exec 3>{}; sleep 100000 & echo started", leash.path());
    let launcher = launch(&[], &script).spawn().unwrap();
    // Waits for a process to hold it, then for none to.
    File::open(leash.path()).unwrap().read_to_end(&mut Vec::new()).unwrap();
    let output = launcher.wait_with_output().unwrap();
    assert_eq!((output.status.code(), lines(&output.stdout)), (Some(0), vec!["[0] started"]));
}

#[test]
#[cfg(target_os = "linux")]
fn nobody_is_left_when_the_launcher_is_killed() {
    let leash = Leash::new();
    // Programs that the launcher has started, not children of theirs.
    let script = format!(
        "exec 3>{}; trap '' TERM HUP INT; echo ready; while read never; do :; done </dev/zero",
        leash.path()
    );
    let opened = File::options().read(true).write(true).open(leash.folder.path().join("leash")).unwrap();
    let mut command = launch(&["-n", "3"], &script);
    // With a path that is too long for a socket's.
    let temporary = leash.folder.path().join("a".repeat(200));
    std::fs::create_dir(&temporary).unwrap();
    let job = Job::ready_as(command.env("TMPDIR", &temporary), 3);
    // Opened while somebody has it: that would wait for a writer, who may be dead by then.
    let mut end = File::open(leash.folder.path().join("leash")).unwrap();
    job.signal(Signal::SIGKILL);
    // From now on only the processes hold it.
    drop(opened);
    end.read_to_end(&mut Vec::new()).unwrap();
    let left: Vec<_> = std::fs::read_dir(&temporary).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(left.is_empty(), "{left:?}");
}

/// A pipe whose end that the launcher gets is non-blocking.
fn non_blocking(end: &impl AsFd) {
    let flags = OFlag::from_bits_retain(fcntl(end, FcntlArg::F_GETFL).unwrap());
    fcntl(end, FcntlArg::F_SETFL(flags | OFlag::O_NONBLOCK)).unwrap();
}

/// All comes through standard streams that do not block, and are full or empty for a while.
#[test]
fn standard_streams_that_do_not_block_are_waited_for() {
    const LINES: u32 = 100_000;
    let [(stdin, mut to), (mut out, stdout), (mut err, stderr)] = [(); 3].map(|()| pipe().unwrap());
    non_blocking(&stdin);
    non_blocking(&stdout);
    non_blocking(&stderr);
    let script = format!("seq {LINES}; seq {LINES} >&2; echo ready; cat");
    let mut command = launch(&["--stdin", "--no-prefix"], &script);
    command.stdin(stdin).stdout(stdout).stderr(stderr);
    let mut launcher = command.spawn().unwrap();
    // Its copies of the launcher's ends.
    drop(command);
    // The pipes fill up; that they have is not needed.
    std::thread::sleep(Duration::from_millis(100));
    let expected: String = (1..=LINES).map(|line| format!("{line}\n")).collect();
    let reading = std::thread::spawn(move || {
        let mut said = String::new();
        err.read_to_string(&mut said).unwrap();
        said
    });
    let mut said = vec![0; expected.len() + "ready\n".len()];
    out.read_exact(&mut said).unwrap();
    assert!(said == format!("{expected}ready\n").into_bytes());
    // Nothing was there to be read until now.
    to.write_all(b"first\n").unwrap();
    let mut first = [0; 6];
    out.read_exact(&mut first).unwrap();
    assert_eq!(first, *b"first\n");
    to.write_all(expected.as_bytes()).unwrap();
    drop(to);
    let mut rest = String::new();
    out.read_to_string(&mut rest).unwrap();
    assert!(rest == expected);
    assert_eq!(launcher.wait().unwrap().code(), Some(0));
    assert!(reading.join().unwrap() == expected);
}

/// A job starts whose memory has no room, and says so.
#[test]
#[cfg(target_os = "linux")]
fn a_job_without_room_for_its_memory_talks_by_sockets() {
    let within = |script: &str| {
        let mut command = Command::new("unshare");
        command.args(["--user", "--map-root-user", "--mount", "sh", "-c", script]);
        command.output()
    };
    let mounts = "mount -t tmpfs -o size=1m tmpfs /dev/shm";
    if !within(mounts).is_ok_and(|output| output.status.success()) {
        eprintln!("not tried: this user may not mount a smaller /dev/shm");
        return;
    }
    let chanter = env!("CARGO_BIN_EXE_chanter");
    for (processes, has_room) in [("4", false), ("2", false), ("4 --no-segment", true)] {
        let script = format!(
            "{mounts} && exec {chanter} launch --no-prefix -n {processes} sh -c 'echo ${{CHANTER_SEGMENT-none}}'"
        );
        let output = within(&script).unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", said(&output));
        assert!(lines(&output.stdout).iter().all(|segment| *segment == "none"));
        let said = said(&output);
        assert_eq!(said.is_empty(), has_room, "{said}");
        assert!(has_room || said.contains("there is no room for the memory of"), "{said}");
    }
}

#[test]
fn the_standard_input_is_process_0s() {
    let mut child = launch(&["-n", "2", "--stdin"], "echo $(cat)").stdin(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"all\nof it").unwrap();
    let output = child.wait_with_output().unwrap();
    let mut all = lines(&output.stdout);
    all.sort_unstable();
    assert_eq!((output.status.code(), all), (Some(0), vec!["[0] all of it", "[1] "]));
    // Not asked for: nobody has it. And who does not read it is not waited for.
    let mut child = launch(&[], "cat").stdin(Stdio::piped()).spawn().unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
    let mut child = launch(&["--stdin"], "exit 0").stdin(Stdio::piped()).spawn().unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn it_says_who_is_there_when_asked() {
    let script = "trap 'exit 0' TERM; echo ready; while :; do sleep 100000 & wait; done";
    let mut job = ready(&["-n", "2", "--status"], script, 2);
    job.signal(Signal::SIGUSR1);
    let mut stderr = BufReader::new(job.launcher.stderr.take().unwrap());
    let mut line = String::new();
    stderr.read_line(&mut line).unwrap();
    assert!(line.starts_with("number pid"), "{line}");
    for number in ["0", "1"] {
        line.clear();
        stderr.read_line(&mut line).unwrap();
        let words: Vec<&str> = line.split_whitespace().collect();
        assert_eq!((words[0], words[2]), (number, "running"));
        words[1].parse::<u32>().unwrap();
    }
    job.signal(Signal::SIGTERM);
    let mut rest = String::new();
    stderr.read_to_string(&mut rest).unwrap();
    assert_eq!(rest.matches("exit 0").count(), 2, "{rest}");
}

#[test]
fn it_ends_when_nobody_reads_it() {
    let mut launcher = launch(&["-n", "2"], "while :; do echo ready; done").spawn().unwrap();
    let mut line = String::new();
    BufReader::new(launcher.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert!(line.ends_with("] ready\n"));
    assert_eq!(launcher.wait().unwrap().code(), Some(141));
}

#[test]
fn who_holds_its_output_and_does_not_read_it_does_not_keep_it() {
    let mut job = ready(&["-n", "2", "--grace", "0.1"], "while :; do echo ready; done", 1);
    job.signal(Signal::SIGTERM);
    // All the while the pipe is full, and open.
    assert_eq!(job.launcher.wait().unwrap().code(), Some(143));
}

#[test]
fn a_program_that_cannot_be_run_is_one_line() {
    for (program, code) in [("/no/such/program", 127), ("/", 126)] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_chanter"));
        let output = command.args(["launch", "-n", "2", program]).output().unwrap();
        assert_eq!(output.status.code(), Some(code));
        assert!(said(&output).starts_with(&format!("chanter: cannot run {program}: ")), "{}", said(&output));
        assert_eq!(said(&output).lines().count(), 1);
    }
}

#[test]
fn many_processes_need_no_leave_of_the_soft_limit() {
    let script = format!("ulimit -Sn 40; exec {} launch -n 30 echo here", env!("CARGO_BIN_EXE_chanter"));
    let output = Command::new("sh").args(["-c", &script]).output().unwrap();
    assert_eq!((output.status.code(), said(&output).as_str()), (Some(0), ""));
    assert_eq!(lines(&output.stdout).len(), 30);
}
