//! `ci/floors`: a folder of the core uses the folders below it, and no circle of files is large.

mod imports;

use crate::source;
use imports::Imports;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;

/// The folders and files right below `crates/chanter/src`, by floor. A folder uses only floors below its own;
/// folders of one floor may use each other in one direction.
const FLOORS: [(u32, &[&str]); 12] = [
    (11, &["lib", "prelude", "select"]),
    (10, &["bridge"]),
    (9, &["inspect"]),
    (8, &["machine"]),
    (7, &["io", "process", "signal"]),
    (6, &["thread"]),
    (5, &["channel", "lock"]),
    (4, &["event"]),
    (3, &["sched"]),
    (2, &["policy"]),
    (1, &["frame"]),
    (0, &["sync"]),
];

const CORE: &str = "crates/chanter/src";
/// Crates without floors. A circle there is one in the whole crate.
const OTHERS: [&str; 5] = [
    "crates/chanter-cluster/src/",
    "crates/chanter-engine/src/",
    "crates/chanter-mpi/src/",
    "crates/chanter-objects/src/",
    "crates/chanter-tuples/src/",
];
const ALLOWED: &str = "ci/floors.allow";
/// A circle of more files than this within a folder is one too large.
const CIRCLE: usize = 3;

const HELP: &str = "\
ci/floors [--list | --circles | --record [--grow]]

Fails when an import of crates/chanter/src runs upwards, or a circle within a folder there, or within
the crate of the cluster, engines, objects or tuples, has more than three files, and ci/floors.allow does not list it; also when that list holds more than it needs.

  --list     prints the upward imports that are left, one a line
  --circles  prints the files that stand in circles of more than three, and the imports that hold these together
  --record   writes the list anew; --grow allows that it becomes longer
";

/// An allowed thing: `up FROM TO` or `circle FILE`.
type Entry = String;

pub(crate) fn main(root: &Path, args: &[String]) -> Result<(), String> {
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let mut found = Found::of(&imports::read(&root.join(CORE))?)?;
    for path in OTHERS {
        found.add(path, &imports::read(&root.join(path))?, |_, _| true);
    }
    let allowed = allowed(&root.join(ALLOWED))?;
    match args[..] {
        [] => check(&found, &allowed),
        ["--list"] => {
            found.print("up ");
            Ok(())
        }
        ["--circles"] => {
            found.print("circle ");
            found.holding.iter().for_each(|line| println!("{line}"));
            Ok(())
        }
        ["--record"] | ["--record", "--grow"] => record(root, &found, &allowed, args.len() == 2),
        _ => Err(format!("floors does not know {args:?}\n\n{HELP}")),
    }
}

/// The breaches of the rules: each with the line that names it.
struct Found {
    entries: BTreeMap<Entry, String>,
    /// The imports that hold the large circles together.
    holding: Vec<String>,
    files: usize,
    imports: usize,
    largest: usize,
}

impl Found {
    fn of(imports: &Imports) -> Result<Self, String> {
        let names = &imports.files;
        let floors = names.iter().map(|file| floor(file)).collect::<Result<Vec<u32>, String>>()?;
        let mut entries = BTreeMap::new();
        for ((from, to), written) in &imports.edges {
            let (from, to, import) = (*from, *to, &written[0]);
            if floors[to] > floors[from] {
                let line = format!(
                    "{}:{}: {} leads up to {}, from floor {} to floor {}",
                    names[from], import.line, import.written, names[to], floors[from], floors[to]
                );
                entries.insert(format!("up {} {}", names[from], names[to]), line);
            }
        }
        sideways(imports, &floors)?;
        let mut found = Self { entries, holding: Vec::new(), files: 0, imports: 0, largest: 0 };
        found.add("", imports, |from, to| top(from) == top(to));
        Ok(found)
    }

    /// Adds the files of a crate, and its circles of imports that are `within` bounds.
    fn add(&mut self, path: &str, imports: &Imports, within: impl Fn(&str, &str) -> bool) {
        let names = &imports.files;
        self.files += names.len();
        self.imports += imports.edges.len();
        let edges = imports.edges.keys().filter(|(from, to)| within(&names[*from], &names[*to]));
        for circle in circles(names.len(), edges) {
            self.largest = self.largest.max(circle.len());
            if circle.len() > CIRCLE {
                for &file in &circle {
                    let line = format!("{path}{}: in a circle of {} files", names[file], circle.len());
                    self.entries.insert(format!("circle {path}{}", names[file]), line);
                }
                let inside = |file: &usize| circle.binary_search(file).is_ok();
                for ((from, to), written) in
                    imports.edges.iter().filter(|((from, to), _)| inside(from) && inside(to))
                {
                    let written: BTreeSet<&str> =
                        written.iter().map(|import| import.written.as_str()).collect();
                    let written = written.into_iter().collect::<Vec<_>>().join(", ");
                    self.holding.push(format!("{path}{} > {}: {written}", names[*from], names[*to]));
                }
            }
        }
    }

    fn print(&self, kind: &str) {
        self.entries
            .iter()
            .filter(|(entry, _)| entry.starts_with(kind))
            .for_each(|(_, line)| println!("{line}"));
    }

    fn count(&self, kind: &str) -> usize {
        self.entries.keys().filter(|entry| entry.starts_with(kind)).count()
    }
}

/// The folder or file right below the root that `file` belongs to.
fn top(file: &str) -> &str {
    file.split('/').next().unwrap_or(file).trim_end_matches(".rs")
}

/// The floor of a file of the core.
pub(crate) fn floor(file: &str) -> Result<u32, String> {
    let found = FLOORS.iter().find(|(_, folders)| folders.contains(&top(file)));
    found.map(|(floor, _)| *floor).ok_or_else(|| {
        format!(
            "{CORE}/{file}: `{}` has no floor; give it one in the table of xtask/src/floors/mod.rs",
            top(file)
        )
    })
}

/// Folders of one floor that use each other, directly or by way of a third, are one folder in truth.
fn sideways(imports: &Imports, floors: &[u32]) -> Result<(), String> {
    let names = &imports.files;
    let tops: Vec<&str> = names.iter().map(|file| top(file)).collect::<BTreeSet<_>>().into_iter().collect();
    let index = |file: usize| tops.binary_search(&top(&names[file])).expect("each file has a folder");
    let level = imports.edges.keys().filter(|(from, to)| floors[*from] == floors[*to]);
    let edges: Vec<(usize, usize)> = level.map(|(from, to)| (index(*from), index(*to))).collect();
    match circles(tops.len(), edges.iter()).iter().find(|circle| circle.len() > 1) {
        None => Ok(()),
        Some(circle) => {
            let circle: Vec<&str> = circle.iter().map(|&folder| tops[folder]).collect();
            Err(format!("these folders of one floor import each other: {}", circle.join(", ")))
        }
    }
}

/// The strongly connected parts of a graph of `nodes` nodes.
fn circles<'e>(nodes: usize, edges: impl Iterator<Item = &'e (usize, usize)>) -> Vec<Vec<usize>> {
    let mut next = vec![Vec::new(); nodes];
    edges.for_each(|&(from, to)| next[from].push(to));
    let reach: Vec<BTreeSet<usize>> = (0..nodes)
        .map(|node| {
            let (mut seen, mut waiting) = (BTreeSet::new(), vec![node]);
            while let Some(node) = waiting.pop() {
                waiting.extend(next[node].iter().filter(|&&to| seen.insert(to)));
            }
            seen
        })
        .collect();
    let mut found: Vec<Vec<usize>> = Vec::new();
    let mut placed = vec![false; nodes];
    for node in 0..nodes {
        if !placed[node] {
            let mut circle: Vec<usize> = (node + 1..nodes)
                .filter(|&other| reach[node].contains(&other) && reach[other].contains(&node))
                .collect();
            circle.insert(0, node);
            circle.iter().for_each(|&member| placed[member] = true);
            found.push(circle);
        }
    }
    found
}

fn allowed(path: &Path) -> Result<BTreeSet<Entry>, String> {
    if !path.exists() {
        return Ok(BTreeSet::new());
    }
    let text = source::read(path)?;
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    Ok(lines.map(str::to_owned).collect())
}

fn check(found: &Found, allowed: &BTreeSet<Entry>) -> Result<(), String> {
    let new: Vec<&String> =
        found.entries.iter().filter(|(entry, _)| !allowed.contains(*entry)).map(|(_, line)| line).collect();
    let stale: Vec<&Entry> = allowed.iter().filter(|entry| !found.entries.contains_key(*entry)).collect();
    let mut message = String::new();
    if !new.is_empty() {
        message += "a folder uses only the folders below it, and a circle has at most three files:\n";
        new.iter().for_each(|line| writeln!(message, "  {line}").expect("a string grows"));
    }
    if !stale.is_empty() {
        message += &format!("no longer so; remove these lines from {ALLOWED}, or call ci/floors --record:\n");
        stale.iter().for_each(|entry| writeln!(message, "  {entry}").expect("a string grows"));
    }
    println!(
        "floors: {} imports between {} files; {} upwards; {} files in circles of more than {CIRCLE}, the largest of {}",
        found.imports,
        found.files,
        found.count("up "),
        found.count("circle "),
        found.largest
    );
    if message.is_empty() { Ok(()) } else { Err(message) }
}

fn record(root: &Path, found: &Found, allowed: &BTreeSet<Entry>, grow: bool) -> Result<(), String> {
    for kind in ["up ", "circle "] {
        let before = allowed.iter().filter(|entry| entry.starts_with(kind)).count();
        let after = found.count(kind);
        if after > before && !grow {
            let kind = kind.trim();
            return Err(format!(
                "{ALLOWED} would grow from {before} to {after} lines of `{kind}`; --grow allows it"
            ));
        }
    }
    let mut text = String::from(
        "# What still breaks the rules of ci/floors. This list only shrinks: ci/floors --record writes it anew.\n\
         # up FROM TO: FROM imports TO, which stands on a higher floor.\n\
         # circle FILE: FILE stands in a circle of more than three files of its folder, or of its crate outside of the core.\n",
    );
    found.entries.keys().for_each(|entry| writeln!(text, "{entry}").expect("a string grows"));
    std::fs::write(root.join(ALLOWED), text).map_err(|error| format!("{ALLOWED}: {error}"))?;
    println!(
        "floors: {} upward imports and {} files in circles recorded",
        found.count("up "),
        found.count("circle ")
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use imports::Import;

    fn found(files: &[&str], edges: &[(usize, usize)]) -> Result<Found, String> {
        let import = Import { line: 3, written: "crate::x".to_owned() };
        Found::of(&Imports {
            files: files.iter().map(|file| (*file).to_owned()).collect(),
            edges: edges.iter().map(|edge| (*edge, vec![import.clone()])).collect(),
        })
    }

    fn entries(files: &[&str], edges: &[(usize, usize)]) -> Vec<Entry> {
        found(files, edges).unwrap().entries.into_keys().collect()
    }

    #[test]
    fn only_imports_that_run_upwards_are_found() {
        let files = ["sync/cell.rs", "event/sync.rs", "select.rs"];
        assert_eq!(entries(&files, &[(1, 0), (2, 1)]), [""; 0]);
        assert_eq!(entries(&files, &[(0, 1)]), ["up sync/cell.rs event/sync.rs"]);
        assert_eq!(entries(&files, &[(1, 2)]), ["up event/sync.rs select.rs"]);
    }

    #[test]
    fn an_unknown_folder_is_an_error() {
        assert!(found(&["cellar/wine.rs"], &[]).err().unwrap().contains("`cellar` has no floor"));
    }

    #[test]
    fn one_floor_is_used_in_one_direction() {
        assert_eq!(entries(&["io/a.rs", "process/b.rs"], &[(1, 0)]), [""; 0]);
        let error = found(&["io/a.rs", "process/b.rs", "io/c.rs"], &[(1, 0), (2, 1)]).err().unwrap();
        assert!(error.ends_with("io, process"), "{error}");
    }

    #[test]
    fn a_circle_of_more_than_three_files_is_found() {
        let files = ["io/a.rs", "io/b.rs", "io/c.rs", "io/d.rs"];
        assert_eq!(entries(&files, &[(0, 1), (1, 2), (2, 0), (3, 0)]), [""; 0]);
        let all = entries(&files, &[(0, 1), (1, 2), (2, 3), (3, 0)]);
        assert_eq!(all, ["circle io/a.rs", "circle io/b.rs", "circle io/c.rs", "circle io/d.rs"]);
    }

    #[test]
    fn the_list_holds_what_is_there_no_less_and_no_more() {
        let found = found(&["sync/cell.rs", "event/sync.rs"], &[(0, 1)]).unwrap();
        let list = |entries: &[&str]| entries.iter().map(|entry| (*entry).to_owned()).collect();
        assert_eq!(check(&found, &list(&["up sync/cell.rs event/sync.rs"])), Ok(()));
        let new = check(&found, &list(&[])).unwrap_err();
        assert!(
            new.contains("sync/cell.rs:3: crate::x leads up to event/sync.rs, from floor 0 to floor 4"),
            "{new}"
        );
        let stale = check(&found, &list(&["up sync/cell.rs event/sync.rs", "circle io/a.rs"])).unwrap_err();
        assert!(stale.contains("remove these lines") && stale.contains("circle io/a.rs"), "{stale}");
    }
}
