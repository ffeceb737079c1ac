//! A crate that asks the compiler: each of its programs is checked, and the lines are noted that do
//! not compile.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

pub(crate) struct Probe {
    folder: PathBuf,
}

impl Probe {
    /// One that depends on `crates`, all of this workspace.
    pub(crate) fn new(crates: &[&str]) -> Self {
        let workspace = crate::crates().parent().expect("a folder up");
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("types").join(crates.join("-"));
        let mut manifest = String::from(
            "[package]\nname = \"probe\"\nedition = \"2024\"\n\n[workspace]\n\n[dependencies]\n",
        );
        for name in crates {
            let path = crate::crates().join(name);
            let features = if *name == "chanter" { r#", features = ["hyper", "tokio"]"# } else { "" };
            writeln!(manifest, "{name} = {{ path = {path:?}{features} }}").expect("a string");
        }
        fs::create_dir_all(folder.join("src/bin")).unwrap();
        fs::write(folder.join("Cargo.toml"), manifest).unwrap();
        // The same versions, so that nothing need be fetched.
        fs::copy(workspace.join("Cargo.lock"), folder.join("Cargo.lock")).unwrap();
        Self { folder }
    }

    /// The lines of a program that do not compile, and why.
    ///
    /// # Panics
    /// Something else does not compile.
    pub(crate) fn errors(&self, name: &str, program: &str) -> BTreeMap<usize, String> {
        let file = format!("src/bin/{name}.rs");
        fs::write(self.folder.join(&file), program).unwrap();
        let output = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
            .args(["check", "--offline", "--quiet", "--message-format=short", "--bin", name])
            .arg("--target-dir")
            .arg(Path::new(env!("CARGO_TARGET_TMPDIR")).join("types/target"))
            .current_dir(&self.folder)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        let place = |error: &str| {
            let line = error.strip_prefix(&file)?.strip_prefix(':')?.split(':').next()?;
            Some((line.parse().ok()?, error.to_owned()))
        };
        let errors = said.lines().filter(|line| line.contains(": error"));
        let errors = errors.map(|error| place(error).unwrap_or_else(|| panic!("an error elsewhere: {said}")));
        let errors = BTreeMap::from_iter(errors);
        assert_eq!(output.status.success(), errors.is_empty(), "{said}");
        errors
    }
}
