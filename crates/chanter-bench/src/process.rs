//! Processes: where programs are, which core they run on, what they cost.

use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use nix::unistd::{SysconfVar, sysconf};

/// A core to keep a process to.
#[derive(Clone, Copy)]
pub(crate) enum Core {
    First,
    Last,
}

/// Finds a program in the path, or where services are.
pub(crate) fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
    folders.push("/usr/sbin".into());
    folders.into_iter().map(|folder| folder.join(program)).find(|path| path.is_file())
}

/// A command that runs on one core, where `taskset` is there to see to it.
pub(crate) fn pinned(program: &Path, core: Option<Core>) -> Command {
    let core = core.map(|core| match core {
        Core::First => 0,
        Core::Last => cores() - 1,
    });
    match (core, find("taskset")) {
        (Some(core), Some(taskset)) => {
            let mut command = Command::new(taskset);
            command.args(["-c", &core.to_string()]).arg(program);
            command
        }
        _ => Command::new(program),
    }
}

/// The output of `command`; `None` if it has not ended in time, and was killed.
pub(crate) fn output_within(command: &mut Command, limit: Duration) -> io::Result<Option<Output>> {
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let end = Instant::now() + limit;
    // Its reports are short: they fit a pipe.
    while child.try_wait()?.is_none() {
        if Instant::now() > end {
            child.kill()?;
            child.wait()?;
            return Ok(None);
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    child.wait_with_output().map(Some)
}

pub(crate) fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Processor time in seconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CpuTime {
    /// Time in the programs' own code.
    pub(crate) user: f64,
    /// Time in the kernel.
    pub(crate) system: f64,
}

impl CpuTime {
    /// The resources that a process and its children have used so far. Linux only.
    pub(crate) fn of(pid: u32) -> Option<Self> {
        let per_second = sysconf(SysconfVar::CLK_TCK).ok().flatten()? as f64;
        let stats: Vec<_> = family(pid).iter().filter_map(|pid| stat(*pid)).collect();
        let seconds = |ticks: fn(&Stat) -> f64| stats.iter().map(ticks).sum::<f64>() / per_second;
        Some(Self { user: seconds(|stat| stat.user), system: seconds(|stat| stat.system) })
    }

    pub(crate) fn total(self) -> f64 {
        self.user + self.system
    }
}

/// Resident memory of a process and its children, in bytes. Linux only.
pub(crate) fn resident(pid: u32) -> Option<f64> {
    let page = sysconf(SysconfVar::PAGE_SIZE).ok().flatten()? as f64;
    let pages = family(pid).into_iter().filter_map(|pid| {
        let statm = std::fs::read_to_string(format!("/proc/{pid}/statm")).ok()?;
        statm.split(' ').nth(1)?.parse::<f64>().ok()
    });
    Some(pages.sum::<f64>() * page)
}

struct Stat {
    parent: u32,
    user: f64,
    system: f64,
}

fn stat(pid: u32) -> Option<Stat> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name, in parentheses, may hold anything.
    let fields: Vec<&str> = stat.rsplit_once(") ")?.1.split(' ').collect();
    let number = |i: usize| fields.get(i)?.parse::<f64>().ok();
    Some(Stat { parent: fields.get(1)?.parse().ok()?, user: number(11)?, system: number(12)? })
}

fn family(pid: u32) -> Vec<u32> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.filter(|&other| other == pid || stat(other).is_some_and(|stat| stat.parent == pid)).collect()
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn this_process_costs_something() {
        let pid = std::process::id();
        assert!(resident(pid).is_some_and(|bytes| bytes > 100_000.0));
        let used = || CpuTime::of(pid).map(CpuTime::total);
        let before = used().expect("Linux tells");
        let until = std::time::Instant::now() + std::time::Duration::from_secs(20);
        while used().is_some_and(|now| now <= before) {
            assert!(std::time::Instant::now() < until, "a busy process takes no time");
        }
    }

    #[test]
    fn a_program_is_found_or_not() {
        assert!(find("sh").is_some());
        assert!(find("no-such-program-at-all").is_none());
    }
}
