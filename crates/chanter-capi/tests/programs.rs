//! The programs of `tests/c`: each is compiled against the library, and ends by itself with code 0.

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The folder of the libraries of this build: that of this test, or the one above.
fn libraries() -> PathBuf {
    let test = env::current_exe().expect("a test has a path");
    let folder = test.parent().expect("a file has a folder");
    folder.parent().expect("the folder of tests has one above").to_owned()
}

fn compiler() -> String {
    env::var("CC").unwrap_or_else(|_| "cc".to_owned())
}

fn is_there(program: &str) -> bool {
    Command::new(program).arg("--version").output().is_ok_and(|output| output.status.success())
}

/// Builds the static library beside this test, and returns its path.
fn library() -> PathBuf {
    let folder = libraries();
    let candidates = [folder.join("libchanter_c.a"), folder.join("deps/libchanter_c.a")];
    // An earlier build may have left one of them.
    let newest =
        candidates.into_iter().filter_map(|path| Some((path.metadata().ok()?.modified().ok()?, path))).max();
    newest.map(|(_, path)| path).unwrap_or_else(|| {
        panic!("no libchanter_c.a in {}: cargo builds it with this test", folder.display())
    })
}

/// Compiles a program, and returns its path. `None`: there is no C compiler.
fn compiled(name: &str) -> Option<PathBuf> {
    let compiler = compiler();
    if !is_there(&compiler) {
        eprintln!("skipped {name}: there is no C compiler ({compiler})");
        return None;
    }
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let program = env::temp_dir().join(format!("chanter-c-{name}-{}", std::process::id()));
    let mut command = Command::new(&compiler);
    command.args(["-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic", "-O1", "-g", "-pthread"]);
    command.arg("-D_POSIX_C_SOURCE=200809L");
    command.arg("-I").arg(here.join("include")).arg(here.join("tests/c").join(format!("{name}.c")));
    command.arg(library()).args(["-lm", "-ldl", "-o"]).arg(&program);
    let output = command.output().expect("the compiler runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(program)
}

fn check(name: &str, output: &Output) {
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{name}: {:?}\n{said}", output.status);
    // A panic that the library had to catch is printed, and is a fault.
    assert!(!said.contains("panicked"), "{name}: {said}");
}

fn run(name: &str) {
    let Some(program) = compiled(name) else { return };
    let output = Command::new(&program).output().expect("the program runs");
    drop(std::fs::remove_file(&program));
    check(name, &output);
}

macro_rules! programs {
    ($($name:ident),* $(,)?) => {
        $(#[test]
        fn $name() {
            run(stringify!($name));
        })*
    };
}

programs!(channels, policies, threads);

/// Runs a job of two processes, as `chanter launch` starts it.
#[cfg(all(target_os = "linux", feature = "cluster"))]
fn run_two(program: &Path, arguments: &[&str]) -> Vec<Output> {
    use std::os::fd::AsRawFd;
    use std::os::linux::net::SocketAddrExt;
    use std::os::unix::net::{SocketAddr, UnixListener};
    use std::os::unix::process::CommandExt;
    use std::process::Stdio;

    let job = program.file_name().expect("a file").to_string_lossy();
    let names = [0, 1].map(|number| format!("{job}-{}-{number}", arguments.join("-")));
    let listeners = names.each_ref().map(|name| {
        let address = SocketAddr::from_abstract_name(name).expect("a short name");
        UnixListener::bind_addr(&address).expect("a new name")
    });
    let addresses = names.each_ref().map(|name| format!("unix:@{name}")).join(",");
    let begun: Vec<_> = listeners
        .iter()
        .enumerate()
        .map(|(number, listener)| {
            let descriptor = listener.as_raw_fd();
            let mut command = Command::new(program);
            command
                .args(arguments)
                .env("CHANTER_NUMBER", number.to_string())
                .env("CHANTER_COUNT", "2")
                .env("CHANTER_ADDRESSES", &addresses)
                .env("CHANTER_LISTENER", descriptor.to_string())
                .env("CHANTER_SECRET", "5a".repeat(32))
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped());
            // SAFETY: the call may be made between a fork and an exec.
            unsafe {
                command.pre_exec(move || match libc::fcntl(descriptor, libc::F_SETFD, 0) {
                    0 => Ok(()),
                    _ => Err(std::io::Error::last_os_error()),
                });
            }
            command.spawn().expect("the program runs")
        })
        .collect();
    // Their standard inputs stay open until all have ended.
    let (begun, _inputs): (Vec<_>, Vec<_>) = begun
        .into_iter()
        .map(|mut process| {
            let input = process.stdin.take();
            (process, input)
        })
        .unzip();
    begun.into_iter().map(|process| process.wait_with_output().expect("it ends")).collect()
}

#[cfg(all(target_os = "linux", feature = "cluster"))]
#[test]
fn processes() {
    let Some(program) = compiled("processes") else { return };
    check("processes, alone", &Command::new(&program).output().expect("the program runs"));
    run_two(&program, &[]).iter().for_each(|output| check("processes", output));
    drop(std::fs::remove_file(&program));
}

#[cfg(all(target_os = "linux", feature = "cluster"))]
#[test]
fn leaves() {
    let Some(program) = compiled("leaves") else { return };
    let alone = |variables: &[(&str, &str)], arguments: &[&str]| {
        let mut command = Command::new(&program);
        command.args(arguments).envs(variables.iter().copied()).output().expect("the program runs")
    };
    check("leaves, alone", &alone(&[], &[]));
    run_two(&program, &[]).iter().for_each(|output| check("leaves", output));

    // A process that ends without `chanter_finalize` has failed, and its output is written. Alone, it fails nobody.
    check("quits, alone", &alone(&[], &["0"]));
    // Of 256 the system keeps 0. Neither a thread that reads the standard input nor a standard error that takes no more
    // holds up an exit.
    let cases: [&[&str]; 6] =
        [&["0", "0"], &["1", "0"], &["1", "256"], &["1", "3"], &["0", "0", "reads"], &["0", "0", "deaf"]];
    for arguments in cases {
        let (quits, code) = (arguments[0], arguments[1]);
        let outputs = run_two(&program, arguments);
        for (number, output) in outputs.iter().enumerate() {
            let said = String::from_utf8_lossy(&output.stderr);
            if number.to_string() != quits {
                check("quits, the other", output);
            } else if code != "3" {
                assert_eq!(output.status.code(), Some(1), "{said}");
                let is_deaf = arguments.last() == Some(&"deaf");
                assert!(is_deaf || said.contains("without chanter_finalize"), "{said}");
                let is_written = String::from_utf8_lossy(&output.stdout).contains("work to flush");
                assert!(is_written || arguments.len() > 2, "{arguments:?}");
            } else {
                assert_eq!(output.status.code(), Some(3), "{said}");
            }
        }
    }

    // One of several of `mpirun`, which are not a job of one each.
    let of_mpirun = [("PMI_RANK", "0"), ("PMI_SIZE", "2")];
    let refused = alone(&of_mpirun, &[]);
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(!refused.status.success() && said.contains("call chanter_init_mpi"), "{said}");
    check("leaves, wanted alone", &alone(&[of_mpirun[0], of_mpirun[1], ("CHANTER_ALONE", "1")], &[]));
    drop(std::fs::remove_file(&program));
}
