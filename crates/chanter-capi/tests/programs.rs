//! The programs of `tests/c`: each is compiled against the library, and ends by itself with code 0.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

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
    candidates.into_iter().find(|path| path.exists()).unwrap_or_else(|| {
        panic!("no libchanter_c.a in {}: cargo builds it with this test", folder.display())
    })
}

fn run(name: &str) {
    let compiler = compiler();
    if !is_there(&compiler) {
        eprintln!("skipped {name}: there is no C compiler ({compiler})");
        return;
    }
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let program = env::temp_dir().join(format!("chanter-c-{name}-{}", std::process::id()));
    let mut command = Command::new(&compiler);
    command.args(["-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic", "-O1", "-g", "-pthread"]);
    command.arg("-D_POSIX_C_SOURCE=200809L");
    command.arg("-I").arg(here.join("include")).arg(here.join("tests/c").join(format!("{name}.c")));
    command.arg(library()).args(["-lm", "-ldl", "-o"]).arg(&program);
    let compiled = command.output().expect("the compiler runs");
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    let output = Command::new(&program).output().expect("the program runs");
    drop(std::fs::remove_file(&program));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{name}: {:?}\n{said}", output.status);
    // What the library had to catch is printed, and is a fault.
    assert!(!said.contains("panicked"), "{name}: {said}");
}

macro_rules! programs {
    ($($name:ident),* $(,)?) => {
        $(#[test]
        fn $name() {
            run(stringify!($name));
        })*
    };
}

programs!(threads);
