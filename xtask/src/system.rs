//! The programs that the steps need from the machine: found, installed where we may, or asked for by name.

use std::process::{Command, Stdio};

/// A program that a step calls, and the system package that brings it.
struct Program {
    name: &'static str,
    package: &'static str,
    reason: &'static str,
}

const PROGRAMS: [Program; 3] = [
    Program { name: "cc", package: "gcc", reason: "links programs and compiles the C code of dependencies" },
    Program { name: "bash", package: "bash", reason: "runs the scripts of ci/" },
    Program { name: "timeout", package: "coreutils", reason: "ends examples and models that hang" },
];

/// Makes the machine ready, or reports the missing programs and how to get them.
pub(crate) fn make_ready(rustfmt: bool, clippy: bool) -> Result<(), String> {
    let missing: Vec<&Program> = PROGRAMS.iter().filter(|p| !answers(p.name, &[])).collect();
    if !missing.is_empty() {
        install(&missing)?;
    }
    if rustfmt && !answers("cargo", &["fmt"]) {
        component("rustfmt")?;
    }
    if clippy && !answers("cargo", &["clippy"]) {
        component("clippy")?;
    }
    Ok(())
}

/// Whether `program args.. --version` runs.
fn answers(program: &str, args: &[&str]) -> bool {
    Command::new(program)
        .args(args)
        .arg("--version")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

fn install(missing: &[&Program]) -> Result<(), String> {
    let packages: Vec<&str> = missing.iter().map(|program| program.package).collect();
    if answers("apt-get", &[]) && is_root() {
        println!("xtask: installing {}", packages.join(" "));
        let mut apt = Command::new("apt-get");
        apt.env("DEBIAN_FRONTEND", "noninteractive");
        apt.args(["install", "--yes", "--no-install-recommends"]).args(&packages);
        // Package lists may be absent or old; fetching them is only worth it when they are.
        let installed = runs(&mut apt) || (runs(Command::new("apt-get").arg("update")) && runs(&mut apt));
        if installed && missing.iter().all(|program| answers(program.name, &[])) {
            return Ok(());
        }
    }
    Err(wanted(missing))
}

fn wanted(missing: &[&Program]) -> String {
    let mut message = String::from("this machine lacks:\n");
    for Program { name, package, reason } in missing {
        message += &format!("  {name:<8} {reason} (package {package})\n");
    }
    let packages: Vec<&str> = missing.iter().map(|program| program.package).collect();
    message + &format!("install them, for instance: sudo apt-get install {}", packages.join(" "))
}

fn component(name: &str) -> Result<(), String> {
    println!("xtask: adding the toolchain component {name}");
    if runs(Command::new("rustup").args(["component", "add", name])) {
        return Ok(());
    }
    Err(format!("the toolchain lacks {name}, and `rustup component add {name}` did not bring it"))
}

fn runs(command: &mut Command) -> bool {
    command.status().is_ok_and(|status| status.success())
}

fn is_root() -> bool {
    Command::new("id").arg("-u").output().is_ok_and(|output| output.stdout.trim_ascii() == b"0")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_named_with_reason_and_package() {
        let message = wanted(&[&PROGRAMS[0], &PROGRAMS[2]]);
        assert!(message.contains("cc") && message.contains(PROGRAMS[0].reason));
        assert!(message.ends_with("sudo apt-get install gcc coreutils"), "{message}");
    }

    #[test]
    fn only_programs_that_exist_answer() {
        assert!(answers("cargo", &[]));
        assert!(!answers("no-such-program-here", &[]));
    }
}
