//! The systems: Chanter, and the peers in their folder; how each is set up and run.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use chanter_peer_kit::System as _;
use chanter_programs::peers::Chanter;
use indicatif::ProgressBar;
use serde::Deserialize;

use super::contract::PROGRAMS;
use crate::case::{Failure, Load};
use crate::process;

/// The name of our side.
pub(super) const OURS: &str = "chanter";

/// Exit statuses of the contract.
const NO_SUCH_PROGRAM: i32 = 64;
const NOT_HERE: i32 = 69;

/// The longest that a run may take, its warm-up included.
const LIMIT: Duration = Duration::from_secs(300);

/// A system that can be run.
#[derive(Debug)]
pub(super) struct System {
    pub(super) name: String,
    pub(super) version: String,
    /// `program`, or `program/variant`.
    pub(super) programs: Vec<String>,
    /// Arguments before a program, its size and the processors.
    command: Vec<OsString>,
}

/// A system that is missing.
#[derive(Debug)]
pub(super) struct Missing {
    pub(super) name: String,
    pub(super) why: String,
}

/// A run's report about itself.
#[derive(Deserialize)]
pub(super) struct Said {
    pub(super) seconds: f64,
    pub(super) answer: String,
}

/// Whether peers are set up first.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Setup {
    Run,
    /// Only those count that have been set up before.
    Skip,
}

/// Chanter's own programs.
pub(super) fn ours() -> impl Iterator<Item = &'static str> {
    Chanter::PROGRAMS.iter().map(|program| program.name())
}

/// The folder of the peers: the one named, or `programs/peers` here or above.
pub(super) fn folder(named: Option<&Path>) -> Result<PathBuf, String> {
    if let Some(folder) = named {
        let found = folder.canonicalize().ok().filter(|folder| folder.is_dir());
        return found.ok_or_else(|| format!("{}: no such folder", folder.display()));
    }
    let here = std::env::current_dir().map_err(|error| error.to_string())?;
    let mut places = here.ancestors().map(|place| place.join("programs/peers"));
    places.find(|place| place.join("README.md").is_file()).ok_or_else(|| {
        format!(
            "no folder `programs/peers` in {} or above: run this in a clone of Chanter, or name it with --peers",
            here.display()
        )
    })
}

/// The names of the peers in `folder`, in order.
pub(super) fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let is_peer = |place: &Path| place.join("setup").is_file() && place.join("run").is_file();
    let mut names: Vec<String> = entries
        .filter(|entry| is_peer(&entry.path()))
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect();
    names.sort_unstable();
    names
}

/// Chanter, as this program.
pub(super) fn chanter() -> Result<System, String> {
    let here = std::env::current_exe().map_err(|error| error.to_string())?;
    Ok(System {
        name: OURS.to_owned(),
        version: format!("Chanter {}, allocator: {}", env!("CARGO_PKG_VERSION"), crate::report::ALLOCATOR),
        programs: ours().map(str::to_owned).collect(),
        command: vec![here.into(), "peers-sample".into()],
    })
}

/// The peer of that name.
pub(super) fn peer(folder: &Path, name: &str, setup: Setup) -> Result<System, Missing> {
    let missing = |why: String| Missing { name: name.to_owned(), why };
    let source = folder.join(name);
    let place = cache().join(name);
    let version = match setup {
        Setup::Run => set_up(&source, &place),
        Setup::Skip => remembered(&source, &place),
    };
    let version = version.map_err(missing)?;
    let command = vec![source.join("run").into(), place.into()];
    let listed = Command::new(&command[0]).args(&command[1..]).arg("--list").output();
    let listed = listed.map_err(|error| missing(error.to_string()))?;
    if !listed.status.success() {
        return Err(missing(format!("`run --list`: {}", complaint(&listed))));
    }
    let programs = String::from_utf8_lossy(&listed.stdout).lines().map(str::to_owned).collect();
    Ok(System { name: name.to_owned(), version, programs, command })
}

/// The folder where peers keep their builds.
fn cache() -> PathBuf {
    let named = |variable| std::env::var_os(variable).filter(|value| !value.is_empty()).map(PathBuf::from);
    let cache = named("XDG_CACHE_HOME").or_else(|| Some(named("HOME")?.join(".cache")));
    cache.unwrap_or_else(std::env::temp_dir).join("chanter/peers")
}

/// File in a peer's folder that marks it as set up. Its first line names the sources, and the rest names the system.
const MARK: &str = "set-up";

fn set_up(source: &Path, place: &Path) -> Result<String, String> {
    let spinner = ProgressBar::new_spinner().with_message(format!("setting up {}", source.display()));
    spinner.enable_steady_tick(Duration::from_millis(200));
    let in_words = |error: std::io::Error| error.to_string();
    let mark = place.join(MARK);
    std::fs::create_dir_all(place).map_err(|error| format!("{}: {error}", place.display()))?;
    // A set-up that fails half-way does not count.
    if mark.exists() {
        std::fs::remove_file(&mark).map_err(in_words)?;
    }
    let done = Command::new(source.join("setup")).arg(place).output().map_err(in_words)?;
    spinner.finish_and_clear();
    if !done.status.success() {
        let said = complaint(&done);
        return Err(if done.status.code() == Some(NOT_HERE) {
            said
        } else {
            format!("`setup` failed: {said}")
        });
    }
    let version = String::from_utf8_lossy(&done.stdout).trim().to_owned();
    std::fs::write(mark, format!("{}\n{version}\n", source.display())).map_err(in_words)?;
    Ok(version)
}

fn remembered(source: &Path, place: &Path) -> Result<String, String> {
    let mark = std::fs::read_to_string(place.join(MARK)).unwrap_or_default();
    match mark.trim_end().split_once('\n') {
        Some((from, version)) if Path::new(from) == source => Ok(version.to_owned()),
        _ => Err("not set up".to_owned()),
    }
}

/// The last thing that it said, or how it ended.
fn complaint(output: &std::process::Output) -> String {
    let said = String::from_utf8_lossy(&output.stderr);
    let last = said.lines().rev().map(str::trim).find(|line| !line.is_empty());
    last.map_or_else(|| output.status.to_string(), str::to_owned)
}

/// A program and its variant, as a system lists them.
pub(super) fn parted(listed: &str) -> (&str, &str) {
    listed.split_once('/').unwrap_or((listed, ""))
}

impl System {
    /// Programs that it lists and the contract does not have.
    pub(super) fn strangers(&self) -> impl Iterator<Item = &String> {
        let is_known = |listed: &str| PROGRAMS.iter().any(|program| program.name == parted(listed).0);
        self.programs.iter().filter(move |listed| !is_known(listed))
    }

    /// Runs a program once, in a process of its own.
    pub(super) fn run(&self, program: &str, load: Load) -> Result<Said, Failure> {
        // A peer that cannot do its work is reported; if Chanter cannot, nothing counts.
        let failed = |why| if self.name == OURS { Failure::Broken(why) } else { Failure::Unavailable(why) };
        let mut command = Command::new(&self.command[0]);
        command.args(&self.command[1..]).arg(program).args([load.n.to_string(), load.vps.to_string()]);
        let output =
            process::output_within(&mut command, LIMIT).map_err(|error| failed(error.to_string()))?;
        let output = output.ok_or_else(|| failed(format!("has not ended within {LIMIT:?}")))?;
        match output.status.code() {
            Some(0) => serde_json::from_slice(&output.stdout)
                .map_err(|error| failed(format!("`run` printed what is not a sample: {error}"))),
            Some(NO_SUCH_PROGRAM) => Err(Failure::Cannot(complaint(&output))),
            _ => Err(failed(format!("`run` failed: {}", complaint(&output)))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_folder_is_found_from_a_clone_and_its_peers_in_order() {
        // Tests run in the folder of their crate, which is in the workspace.
        let folder = folder(None).expect("this is a clone");
        let names = names(&folder);
        assert!(names.is_sorted() && !names.contains(&"kit".to_owned()), "{names:?}");
        for peer in ["crossbeam", "rayon", "smol", "tokio"] {
            assert!(names.iter().any(|name| name == peer), "{names:?}");
        }
    }

    #[test]
    fn a_folder_that_is_not_there_is_named() {
        assert_eq!(super::folder(Some(Path::new("/no/such"))), Err("/no/such: no such folder".to_owned()));
    }

    #[test]
    fn only_the_same_sources_count_as_set_up() {
        let place = tempfile::tempdir().expect("a folder");
        assert!(remembered(Path::new("/a"), place.path()).is_err());
        std::fs::write(place.path().join(MARK), "/a\nA 1.0\n").expect("written");
        assert_eq!(remembered(Path::new("/a"), place.path()), Ok("A 1.0".to_owned()));
        assert!(remembered(Path::new("/b"), place.path()).is_err());
    }
}
