//! `cargo xtask prose`: sentences that a stranger stumbles over, by the rules of `ci/prose.rules`.

mod rules;
mod text;

use crate::source;
use rules::{Mark, Rules};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use text::{Place, Sentence};

const RULES: &str = "ci/prose.rules";
/// Where prose stands, below the root.
const ROOTS: [&str; 11] = [
    "README.md",
    "ARCHITECTURE.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "docs",
    "book",
    "crates",
    "programs",
    "semantics",
    "xtask",
    "ci",
];
/// Folders without prose of ours: builds, and the output of compilers.
const SKIP: [&str; 4] = ["target", ".git", "ui", "node_modules"];

const HELP: &str = "\
cargo xtask prose [--list | --most N] [PATH..]

Counts the sentences that ci/prose.rules marks, by area: in documents, in public docs, in comments.

  --list    prints each marked sentence, with its file, line and reasons
  --most N  prints the N sentences with most marks
  PATH..    only these files and folders
";

/// The sentences of one area.
#[derive(Default, Debug, PartialEq, Eq)]
pub(crate) struct Count {
    pub(crate) sentences: u64,
    pub(crate) marked: u64,
    /// Number of sentences of the kinds that have to come to nothing.
    pub(crate) worst: u64,
    kinds: BTreeMap<String, u64>,
}

impl Count {
    fn add(&mut self, rules: &Rules, marks: &[Mark]) {
        self.sentences += 1;
        self.marked += u64::from(!marks.is_empty());
        self.worst += u64::from(marks.iter().any(|mark| rules.is_worst(&mark.kind)));
        marks.iter().for_each(|mark| *self.kinds.entry(mark.kind.clone()).or_default() += 1);
    }

    fn merge(&mut self, other: &Count) {
        self.sentences += other.sentences;
        self.marked += other.marked;
        self.worst += other.worst;
        other.kinds.iter().for_each(|(kind, count)| *self.kinds.entry(kind.clone()).or_default() += count);
    }

    fn share(&self) -> f64 {
        100.0 * self.marked as f64 / self.sentences.max(1) as f64
    }
}

pub(crate) type Counts = BTreeMap<String, Count>;

struct Marked {
    file: String,
    sentence: Sentence,
    marks: Vec<Mark>,
}

pub(crate) fn main(root: &Path, args: &[String]) -> Result<(), String> {
    let mut most = 0;
    let mut paths = Vec::new();
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--list" => most = usize::MAX,
            "--most" => {
                let number = args.next().and_then(|number| number.parse().ok());
                most = number.ok_or("--most needs a number")?;
            }
            option if option.starts_with('-') => {
                return Err(format!("prose does not know {option}\n\n{HELP}"));
            }
            path => paths.push(std::path::absolute(path).map_err(|error| format!("{path}: {error}"))?),
        }
    }
    if paths.is_empty() {
        paths = ROOTS.iter().map(|path| root.join(path)).filter(|path| path.exists()).collect();
    }
    let (counts, mut marked) = read(root, &paths)?;
    if most < usize::MAX {
        marked.sort_by_key(|marked| std::cmp::Reverse(marked.marks.len()));
    }
    for Marked { file, sentence, marks } in marked.iter().take(most) {
        let reasons = marks.iter().map(|mark| match mark.detail.as_str() {
            "" => mark.kind.clone(),
            detail => format!("{}: {detail}", mark.kind),
        });
        println!("{file}:{} [{}] {}", sentence.line, reasons.collect::<Vec<_>>().join(", "), sentence.text);
    }
    print!("{}", table(&counts));
    Ok(())
}

/// The counts of the whole tree, by area.
pub(crate) fn counts(root: &Path) -> Result<Counts, String> {
    let paths: Vec<PathBuf> = ROOTS.iter().map(|path| root.join(path)).filter(|path| path.exists()).collect();
    Ok(read(root, &paths)?.0)
}

fn read(root: &Path, paths: &[PathBuf]) -> Result<(Counts, Vec<Marked>), String> {
    let rules = Rules::parse(&source::read(&root.join(RULES))?)?;
    let mut files = BTreeSet::new();
    for path in paths {
        if path.is_dir() {
            files.extend(source::files(path, &[".rs", ".md"], &SKIP)?);
        } else {
            files.insert(path.clone());
        }
    }
    let public = public_modules(&files)?;
    let mut counts = Counts::new();
    let mut marked = Vec::new();
    for path in &files {
        let file = path.strip_prefix(root).unwrap_or(path).to_string_lossy().into_owned();
        let text = source::read(path)?;
        let is_rust = file.ends_with(".rs");
        let sentences =
            if is_rust { text::rust(&text, public.contains(path)) } else { text::markdown(&text) };
        for sentence in sentences {
            let marks = rules.marks(&sentence.text);
            counts.entry(area(&file, sentence.place)).or_default().add(&rules, &marks);
            if !marks.is_empty() {
                marked.push(Marked { file: file.clone(), sentence, marks });
            }
        }
    }
    Ok((counts, marked))
}

/// The files whose `//!` rustdoc shows: roots of libraries, and modules that a source declares by `pub mod`.
fn public_modules(files: &BTreeSet<PathBuf>) -> Result<BTreeSet<PathBuf>, String> {
    let mut public = BTreeSet::new();
    for file in files.iter().filter(|file| file.extension().is_some_and(|ending| ending == "rs")) {
        let stem = file.file_stem().unwrap_or_default();
        let mut folder = file.parent().unwrap_or(Path::new("")).to_path_buf();
        if stem == "lib" {
            public.insert(file.clone());
        }
        if !["lib", "main", "mod"].iter().any(|name| stem == *name) {
            folder.push(stem);
        }
        let text = source::read(file)?;
        let all = source::tokens(&text);
        for module in source::declared(&source::shipped(&all)).iter().filter(|module| module.is_public) {
            public.insert(folder.join(format!("{}.rs", module.name)));
            public.insert(folder.join(&module.name).join("mod.rs"));
        }
    }
    Ok(public)
}

/// The area of `file`: a document, or the docs or comments of a crate, and of a top folder in the core.
fn area(file: &str, place: Place) -> String {
    let parts: Vec<&str> = file.split('/').collect();
    let kind = match place {
        Place::Document => {
            let home = match parts[..] {
                ["crates", ..] => parts[..2].join("/"),
                _ => parts[0].to_owned(),
            };
            return format!("document {home}");
        }
        Place::Public => "docs",
        Place::Comment => "comments",
    };
    let home = match parts[..] {
        ["crates", "chanter", "src", top, ..] => format!("chanter/{}", top.trim_end_matches(".rs")),
        ["crates", "chanter", folder, ..] => format!("chanter ({})", folder.trim_end_matches(".rs")),
        ["crates", name, ..] => name.to_owned(),
        _ => parts[0].to_owned(),
    };
    format!("{kind} {home}")
}

/// The counts as a table, with the sums last.
pub(crate) fn table(counts: &Counts) -> String {
    let mut kinds: BTreeSet<&String> = BTreeSet::new();
    counts.values().for_each(|count| kinds.extend(count.kinds.keys()));
    let mut text = format!("{:<32} {:>9} {:>7} {:>7}", "", "sentences", "marked", "share");
    kinds.iter().for_each(|kind| text += &format!(" {kind:>8}"));
    text.push('\n');
    let mut all = Count::default();
    counts.values().for_each(|count| all.merge(count));
    for (name, count) in counts.iter().map(|(name, count)| (name.as_str(), count)).chain([("all", &all)]) {
        text += &format!("{name:<32} {:>9} {:>7} {:>5.1} %", count.sentences, count.marked, count.share());
        kinds.iter().for_each(|kind| text += &format!(" {:>8}", count.kinds.get(*kind).unwrap_or(&0)));
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_sentence_has_its_area() {
        assert_eq!(area("README.md", Place::Document), "document README.md");
        assert_eq!(area("book/src/intro.md", Place::Document), "document book");
        assert_eq!(area("crates/swerve/README.md", Place::Document), "document crates/swerve");
        assert_eq!(area("crates/chanter/src/event/sync.rs", Place::Public), "docs chanter/event");
        assert_eq!(area("crates/chanter/src/signal.rs", Place::Comment), "comments chanter/signal");
        assert_eq!(area("crates/chanter/tests/event.rs", Place::Comment), "comments chanter (tests)");
        assert_eq!(area("crates/chanter-mpi/src/engine/a.rs", Place::Public), "docs chanter-mpi");
        assert_eq!(area("xtask/src/main.rs", Place::Comment), "comments xtask");
    }

    #[test]
    fn counts_tell_the_marked_and_the_worst_apart() {
        let rules = Rules::parse("worst slang\nlong 3\nslang heir = owner waiter").unwrap();
        let mut count = Count::default();
        for sentence in ["One two.", "One two three four.", "The heir."] {
            count.add(&rules, &rules.marks(sentence));
        }
        assert_eq!((count.sentences, count.marked, count.worst), (3, 2, 1));
    }
}
