//! `chanter launch --hosts`: jobs over several hosts. They are addresses of the loopback interface, and `env` stands for
//! `ssh`.

#![cfg(target_os = "linux")]

mod common;

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;

use common::{Job, Leash, lines, said};

const BY: &str = "env HOST={host}";
/// Two processes on the first host, and one on each other.
const THREE: &str = "127.0.0.1 slots=2\nb address=127.0.0.2 # of another name\n\n127.0.0.3";
const COUNT: usize = 4;

/// A job over hosts, and the folder of their file.
struct Hosts {
    folder: TempDir,
    /// The folder of a script that starts them.
    _script: Option<TempDir>,
    command: Command,
}

impl Hosts {
    /// `chanter launch --hosts FILE ARGS.. PROGRAM..`
    fn new(hosts: &str, by: &str, args: &[&str], program: &[&str]) -> Self {
        let folder = TempDir::new().unwrap();
        let file = folder.path().join("hosts");
        std::fs::write(&file, hosts).unwrap();
        let chanter = env!("CARGO_BIN_EXE_chanter");
        let mut command = Command::new(chanter);
        command.args(["launch", "--hosts"]).arg(file).args(["--by", by, "--remote-chanter", chanter]);
        if !args.contains(&"--timeout") {
            // Of tests that hang.
            command.args(["--timeout", "300"]);
        }
        command.args(args).arg("--").args(program);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Self { folder, _script: None, command }
    }

    /// The script, on three hosts.
    fn three(args: &[&str], script: &str) -> Self {
        Self::new(THREE, BY, args, &["sh", "-c", script])
    }

    fn run(mut self) -> Output {
        self.command.output().unwrap()
    }

    fn ready(mut self) -> Job {
        Job::ready_as(&mut self.command, COUNT)
    }

    /// A job whose hosts are started by the script `by`. It gets a host's name and a command.
    fn by(by: &str, args: &[&str], script: &str) -> Self {
        let folder = TempDir::new().unwrap();
        let file = folder.path().join("by");
        std::fs::write(&file, format!("host=$1; shift; {by}")).unwrap();
        let by = format!("sh {} {{host}}", file.display());
        Self { _script: Some(folder), ..Self::new(THREE, &by, args, &["sh", "-c", script]) }
    }
}

fn sorted(output: &Output) -> Vec<&str> {
    let mut all = lines(&output.stdout);
    all.sort_unstable();
    all
}

#[test]
fn processes_are_told_of_all_hosts_and_share_memory_on_one() {
    let folder = TempDir::new().unwrap();
    let script =
        r#"echo "$HOST $CHANTER_COUNT ${CHANTER_SEGMENT+shared} $CHANTER_ADDRESSES $CHANTER_SECRET $PWD""#;
    for (args, memory) in [(&[][..], "shared"), (&["--no-segment"], "")] {
        let mut job = Hosts::three(args, script);
        job.command.current_dir(folder.path());
        let output = job.run();
        assert_eq!((output.status.code(), said(&output).as_str()), (Some(0), ""));
        let all = sorted(&output);
        let words = |line: &str| -> Vec<String> { line.split(' ').map(str::to_owned).collect() };
        let hosts = [("127.0.0.1", memory), ("127.0.0.1", memory), ("b", ""), ("127.0.0.3", "")];
        assert_eq!(all.len(), hosts.len());
        for ((number, line), (host, memory)) in all.iter().enumerate().zip(hosts) {
            let line = words(line);
            assert_eq!(line[..4], [&format!("[{number}]"), host, "4", memory], "{all:?}");
            let addresses: Vec<&str> = line[4].split(',').collect();
            for (address, last) in addresses.iter().zip([1, 1, 2, 3]) {
                assert!(address.starts_with(&format!("tcp:127.0.0.{last}:")), "{addresses:?}");
            }
            assert_eq!((addresses.len(), line[5].len()), (COUNT, 64));
            assert_eq!(line[6], folder.path().canonicalize().unwrap().display().to_string());
            assert_eq!(line[4..], words(all[0])[4..], "all are told the same");
        }
    }
}

#[test]
fn processes_of_all_hosts_talk() {
    let test = std::env::current_exe().unwrap();
    let examples = test.parent().and_then(|deps| deps.parent()).unwrap().join("examples");
    let launched = |name: &str, arguments: &[&str]| -> Vec<String> {
        let example: PathBuf = examples.join(name);
        assert!(example.exists(), "a single test does not build it: cargo build -p chanter-cli --examples");
        let program = [&[example.to_str().unwrap()][..], arguments].concat();
        let of_hosts = |hosts| {
            let output = Hosts::new(hosts, BY, &["-n", "4"], &program).run();
            assert_eq!((output.status.code(), said(&output).as_str()), (Some(0), ""), "{name}");
            sorted(&output).into_iter().map(str::to_owned).collect()
        };
        for hosts in ["127.0.0.1\n127.0.0.2 slots=3", "127.0.0.1 slots=9\n127.0.0.2"] {
            let _: Vec<String> = of_hosts(hosts);
        }
        of_hosts(THREE)
    };
    let hello = |process| format!("[0] <pe 0, process {process}, thread 1.1> says hello");
    assert_eq!(launched("hello", &[]), [hello(1), hello(2), hello(3)]);
    let ring = launched("token_ring", &["200"]);
    assert!(ring.len() == 1 && ring[0].starts_with("[0] 800 steps, "), "{ring:?}");
    let heat = launched("heat", &["40", "30"]);
    assert!(heat.len() == 1 && heat[0].ends_with("the same, bit for bit"), "{heat:?}");
}

#[test]
fn lines_come_whole_and_in_the_order_of_each_process() {
    let script =
        "i=0; while [ $i -lt 200 ]; do printf 'line '; printf \"$i\\n\"; i=$((i+1)); done; printf end";
    let output = Hosts::three(&["--color", "never"], script).run();
    assert_eq!((output.status.code(), said(&output).as_str()), (Some(0), ""));
    let all = lines(&output.stdout);
    assert_eq!(all.len(), COUNT * 201);
    for number in 0..COUNT {
        let prefix = format!("[{number}] ");
        let own: Vec<&str> = all.iter().filter_map(|line| line.strip_prefix(&prefix)).collect();
        let expected: Vec<String> = (0..200).map(|i| format!("line {i}")).chain(["end".into()]).collect();
        assert_eq!(own, expected);
    }
    let output = Hosts::three(&["--color", "always", "-n", "1"], "echo out").run();
    assert_eq!(lines(&output.stdout), ["\u{1b}[36m[0]\u{1b}[0m out"]);
    let output = Hosts::three(&["--no-prefix", "-n", "1"], "echo out; echo err >&2").run();
    assert_eq!((lines(&output.stdout), said(&output).as_str()), (vec!["out"], "err\n"));
}

#[test]
fn the_first_failure_ends_the_others_and_is_the_answer() {
    let script = "[ $CHANTER_NUMBER = 2 ] && exit 7; sleep 100000";
    let output = Hosts::three(&["--status"], script).run();
    assert_eq!(output.status.code(), Some(7));
    let said = said(&output);
    assert!(said.contains("chanter: process 2 failed (exit 7)\n"), "{said}");
    assert!(said.contains("chanter: host b failed (exit 7): ending the others\n"), "{said}");
    // Each node lists its own.
    for host in ["127.0.0.1", "b", "127.0.0.3"] {
        assert!(said.contains(&format!("host {host}\nnumber pid")), "{said}");
    }
    assert_eq!(said.matches("signal 15 SIGTERM").count(), 3, "{said}");
}

#[test]
fn others_may_go_on() {
    let leash = Leash::new();
    // The others end after the one that fails has been seen to.
    let script = format!(
        "if [ $CHANTER_NUMBER = 1 ]; then exec 3>{0}; exit 3; fi
         if [ $CHANTER_NUMBER = 2 ]; then cat {0}; fi
         echo done",
        leash.path()
    );
    let output = Hosts::three(&["--keep-going"], &script).run();
    assert_eq!(output.status.code(), Some(3));
    assert_eq!(sorted(&output), ["[0] done", "[2] done", "[3] done"]);
    let said = said(&output);
    assert!(said.contains("chanter: process 1 failed (exit 3)\n"), "{said}");
    assert!(said.contains("chanter: host 127.0.0.1 failed (exit 3)\n"), "{said}");
}

#[test]
fn a_program_that_cannot_be_run_is_named() {
    for (program, code) in [("/no/such/program", 127), ("/", 126)] {
        let output = Hosts::new(THREE, BY, &[], &[program]).run();
        assert_eq!(output.status.code(), Some(code));
        assert!(said(&output).contains(&format!("chanter: cannot run {program}: ")), "{}", said(&output));
    }
    let output = Hosts::new(THREE, "/no/such/program {host}", &[], &["true"]).run();
    assert_eq!(output.status.code(), Some(127));
    assert!(said(&output).starts_with("chanter: cannot run /no/such/program: "), "{}", said(&output));
}

/// A job whose processes hold a pipe, and ignore most signals. It is there for others to be killed.
fn held(leash: &Leash, hosts: impl Fn(&[&str], &str) -> Hosts) -> (Job, File) {
    let script = format!(
        "exec 3>{}; trap '' TERM HUP INT; echo $PPID >&2; echo ready; while read never; do :; done </dev/zero",
        leash.path()
    );
    let path = leash.folder.path().join("leash");
    let opened = File::options().read(true).write(true).open(&path).unwrap();
    let job = hosts(&["--grace", "0.1"], &script).ready();
    // Opened while somebody has it: that would wait for a writer, who may be dead by then.
    let end = File::open(path).unwrap();
    // From now on only the processes hold it.
    drop(opened);
    (job, end)
}

#[test]
fn nobody_is_left_when_the_launcher_is_killed() {
    let leash = Leash::new();
    let (job, mut end) = held(&leash, Hosts::three);
    job.signal(Signal::SIGKILL);
    end.read_to_end(&mut Vec::new()).unwrap();
}

/// The nodes are told by nothing but the end of their standard input.
#[test]
fn nobody_is_left_when_a_connection_ends() {
    let leash = Leash::new();
    let (job, mut end) = held(&leash, |args, script| Hosts::by("cat | \"$@\"", args, script));
    job.signal(Signal::SIGKILL);
    end.read_to_end(&mut Vec::new()).unwrap();
}

#[test]
fn nobody_is_left_when_a_node_is_killed_or_told_to_end() {
    for (signal, how) in [(Signal::SIGKILL, "signal 9 SIGKILL"), (Signal::SIGTERM, "exit 137")] {
        let leash = Leash::new();
        let (mut job, mut end) = held(&leash, Hosts::three);
        let mut stderr = BufReader::new(job.launcher.stderr.take().unwrap());
        let node = loop {
            let mut line = String::new();
            assert!(stderr.read_line(&mut line).unwrap() > 0);
            if let Some(node) = line.strip_prefix("[2] ") {
                break node.trim().parse().unwrap();
            }
        };
        kill(Pid::from_raw(node), signal).unwrap();
        end.read_to_end(&mut Vec::new()).unwrap();
        let mut said = String::new();
        stderr.read_to_string(&mut said).unwrap();
        let says = format!("chanter: host b failed ({how}): ending the others\n");
        assert!(said.contains(&says), "{said}");
        assert_eq!(job.launcher.wait().unwrap().code(), Some(137));
    }
}

#[test]
fn when_the_time_is_up_it_is_124() {
    let output = Hosts::three(&["--timeout", "0.5"], "sleep 100000").run();
    assert_eq!(output.status.code(), Some(124));
    assert!(said(&output).contains("chanter: the time is up\n"), "{}", said(&output));
}

#[test]
fn signals_are_passed_on_and_processes_may_end_well() {
    for (signal, name) in [(Signal::SIGINT, "INT"), (Signal::SIGTERM, "TERM"), (Signal::SIGHUP, "HUP")] {
        let script =
            format!("trap 'echo told; exit 0' {name}; echo ready; while :; do sleep 100000 & wait; done");
        let job = Hosts::three(&["--grace", "3600"], &script).ready();
        job.signal(signal);
        let (code, out, err) = job.ended();
        assert_eq!((code, err.as_str()), (Some(0), ""));
        let mut all = lines(out.as_bytes());
        all.sort_unstable();
        assert_eq!(all, ["[0] told", "[1] told", "[2] told", "[3] told"]);
    }
}

#[test]
fn processes_that_do_not_listen_are_killed_after_the_grace_or_the_second_signal() {
    let script = "trap '' TERM; echo ready; while :; do sleep 100000; done";
    let job = Hosts::three(&["--grace", "0.1"], script).ready();
    job.signal(Signal::SIGTERM);
    assert_eq!(job.ended().0, Some(137));

    let script = "trap 'echo ready' TERM; echo ready; while :; do sleep 100000 & wait; done";
    let mut job = Hosts::three(&["--grace", "3600"], script).ready();
    job.signal(Signal::SIGTERM);
    for _ in 0..COUNT {
        let mut line = String::new();
        job.stdout.read_line(&mut line).unwrap();
        assert!(line.ends_with("] ready\n"), "{line:?}");
    }
    job.signal(Signal::SIGTERM);
    assert_eq!(job.ended().0, Some(137));
}

#[test]
fn nodes_list_their_processes_when_asked() {
    let script = "trap 'exit 0' TERM; echo ready; while :; do sleep 100000 & wait; done";
    let mut job = Hosts::three(&[], script).ready();
    job.signal(Signal::SIGUSR1);
    let mut stderr = BufReader::new(job.launcher.stderr.take().unwrap());
    // A host's name, a heading, and a line for each process.
    let mut said = Vec::new();
    for _ in 0..3 + 3 + COUNT {
        let mut line = String::new();
        stderr.read_line(&mut line).unwrap();
        said.push(line);
    }
    assert_eq!(said.iter().filter(|line| line.contains(" running ")).count(), COUNT, "{said:?}");
    assert_eq!(said.iter().filter(|line| line.starts_with("host ")).count(), 3, "{said:?}");
    job.signal(Signal::SIGTERM);
    assert_eq!(job.launcher.wait().unwrap().code(), Some(0));
}

#[test]
fn what_is_no_answer_of_a_node_is_quoted() {
    for (script, says) in [
        (
            "[ $host = b ] && echo 'Welcome to b'; exec \"$@\"",
            "chanter: host b: expected the answer of chanter launch-node, but got \"Welcome to b\"",
        ),
        (
            "[ $host = b ] && printf 'no end' && exit 1; exec \"$@\"",
            "chanter: host b: expected the answer of chanter launch-node, but got \"no end\"",
        ),
        (
            "[ $host = b ] && echo '{\"version\":2,\"ports\":[]}'; exec \"$@\"",
            "chanter: host b: it is of another version of chanter than this one (format 2, not 1)",
        ),
        (
            "[ $host = b ] && echo '{\"version\":1,\"addresses\":[]}'; exec \"$@\"",
            "chanter: host b: it listens at 0 addresses in place of 1",
        ),
        (
            "[ $host = b ] && exec yes | tr -d '\\n'; exec \"$@\"",
            "chanter: host b: expected the answer of chanter launch-node, but got \"yyyyyyyyyyy",
        ),
        (
            "[ $host = b ] && exit 3; exec \"$@\"",
            "chanter: host b has ended before the job began (exit 3): ending the others",
        ),
        (
            "[ $host = b ] && exit 0; exec \"$@\"",
            "chanter: host b has ended before the job began (exit 0): ending the others",
        ),
    ] {
        let output = Hosts::by(script, &[], "echo never").run();
        let said = said(&output);
        assert!(said.starts_with(says), "{script}: {said}");
        assert_eq!(output.status.code(), Some(if script.contains("exit 3") { 3 } else { 1 }), "{said}");
        assert_eq!(lines(&output.stdout), [""; 0]);
    }
}

#[test]
fn a_node_that_does_not_answer_is_not_waited_for() {
    let script = "[ $host = 127.0.0.1 ] || exec cat >&2; exec \"$@\"";
    let output = Hosts::by(script, &["--connect-timeout", "1"], "echo never").run();
    assert_eq!(output.status.code(), Some(1));
    let said = said(&output);
    assert!(said.contains("chanter: no answer from host "), "{said}");
    assert!(said.contains("host b, host 127.0.0.3 within 1 s\n"), "{said}");
    // The job has not begun, so nobody is told its secret.
    assert!(!said.contains("secret"), "{said}");
}

#[test]
fn a_signal_ends_a_job_that_has_not_begun() {
    let leash = Leash::new();
    let mut job = Hosts::by(&format!("exec 3>{}; sleep 100000", leash.path()), &[], "echo never");
    let launcher = job.command.spawn().unwrap();
    // Opened once all hold it, or some; the others are told, too.
    let mut end = File::open(leash.folder.path().join("leash")).unwrap();
    kill(Pid::from_raw(launcher.id().try_into().unwrap()), Signal::SIGTERM).unwrap();
    end.read_to_end(&mut Vec::new()).unwrap();
    assert_eq!(launcher.wait_with_output().unwrap().status.code(), Some(143));
}

#[test]
fn a_bad_file_is_an_error_with_the_number_of_its_line() {
    for (hosts, args, says) in [
        ("a\nb slots=x", &[][..], ": line 2: \"slots=x\": slots are between 1 and 4096\n"),
        (
            "127.0.0.1 slots=2\n127.0.0.2",
            &["-n", "4"],
            ": 4 processes are wanted, but its hosts have 3 slots\n",
        ),
        ("# nobody", &[], ": it names no host\n"),
        ("\nno.such.host.invalid", &[], ": line 2: the address of no.such.host.invalid is not known: "),
    ] {
        let output = Hosts::new(hosts, BY, args, &["true"]).run();
        let said = said(&output);
        assert_eq!((output.status.code(), said.lines().count()), (Some(1), 1), "{said}");
        assert!(said.starts_with("chanter: ") && said.contains(says), "{said}");
    }
    let job = Hosts::new(THREE, BY, &[], &["true"]);
    std::fs::remove_file(job.folder.path().join("hosts")).unwrap();
    let output = job.run();
    assert!(said(&output).contains("/hosts: No such file"), "{}", said(&output));
}

#[test]
fn options_that_hosts_do_not_have_are_refused() {
    let refused = |args: &[&str], by: &str, says: &str| {
        let output = Hosts::new(THREE, by, args, &["true"]).run();
        assert_eq!(output.status.code(), Some(2));
        assert!(said(&output).contains(says), "{}", said(&output));
    };
    refused(&["--stdin"], BY, "cannot be used with");
    refused(&["--tcp"], BY, "cannot be used with");
    refused(&[], "env", "there is no {host} in it");
}

#[test]
fn a_node_wants_a_launcher() {
    let node = |stdin: &str| {
        let folder = TempDir::new().unwrap();
        let file = folder.path().join("stdin");
        std::fs::write(&file, stdin).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_chanter"));
        let output = command.arg("launch-node").stdin(File::open(file).unwrap()).output().unwrap();
        (output.status.code(), said(&output))
    };
    assert_eq!(node(""), (Some(1), "chanter: the launcher has gone\n".into()));
    let (code, said) = node("hello\n");
    assert_eq!(code, Some(2));
    assert_eq!(said, "chanter: launch-node: expected an order of chanter launch, but got \"hello\"\n");
    let (code, said) = node("{\"version\":7}\n");
    assert_eq!(code, Some(2));
    assert!(
        said.contains("the launcher is of another version of chanter than this node (format 7"),
        "{said}"
    );
}
