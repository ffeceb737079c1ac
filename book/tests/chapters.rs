//! Checks of the chapters beyond the compiler's: links, paths, names of tests, and code that stands in a file of its
//! own.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

fn book() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src")
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_path_buf()
}

/// The files in `src`, by name.
fn files() -> BTreeMap<String, String> {
    let files = fs::read_dir(book()).unwrap().map(|entry| {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        (name, fs::read_to_string(path).unwrap())
    });
    files.collect()
}

/// The fenced blocks: their info string and their lines.
fn blocks(text: &str) -> Vec<(String, String)> {
    let mut blocks = Vec::new();
    let mut open: Option<(String, String)> = None;
    for line in text.lines() {
        match (line.strip_prefix("```"), &mut open) {
            (Some(_), Some(_)) => blocks.extend(open.take()),
            (Some(info), None) => open = Some((info.to_owned(), String::new())),
            (None, Some((_, code))) => *code += &format!("{line}\n"),
            (None, None) => (),
        }
    }
    assert!(open.is_none(), "a block that does not end");
    blocks
}

/// The lines outside of blocks.
fn prose(text: &str) -> String {
    let mut inside = false;
    let mut prose = String::new();
    for line in text.lines() {
        if line.starts_with("```") {
            inside = !inside;
        } else if !inside {
            prose += line;
            prose.push('\n');
        }
    }
    prose
}

/// Anchor that mdBook makes of a heading.
fn anchor(heading: &str) -> String {
    let heading = heading.trim().to_lowercase();
    let kept = heading.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '_' | '-'));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

fn anchors(text: &str) -> BTreeSet<String> {
    let prose = prose(text);
    let headings = prose.lines().filter(|line| line.starts_with('#'));
    headings.map(|line| anchor(line.trim_start_matches('#'))).collect()
}

/// The targets of `[..](target)`.
fn links(prose: &str) -> Vec<&str> {
    prose.split("](").skip(1).map(|rest| rest.split(')').next().unwrap()).collect()
}

/// Text in single backticks.
fn spans(prose: &str) -> Vec<&str> {
    prose.split("\n\n").flat_map(|paragraph| paragraph.split('`').skip(1).step_by(2)).collect()
}

#[test]
fn links_lead_somewhere() {
    let files = files();
    let mut count = 0;
    for (name, text) in &files {
        for link in links(&prose(text)) {
            count += 1;
            if link.contains("://") {
                continue;
            }
            let (file, heading) = link.split_once('#').unwrap_or((link, ""));
            let file = if file.is_empty() { name } else { file };
            let target = files.get(file).unwrap_or_else(|| panic!("{name}: no chapter {file}"));
            assert!(heading.is_empty() || anchors(target).contains(heading), "{name}: no heading {link}");
        }
    }
    assert!(count > 30, "links are not found any more");
}

#[test]
fn every_chapter_is_in_the_summary_once_and_is_tested() {
    let mut files = files();
    let summary = files.remove("SUMMARY.md").unwrap();
    let mut listed: Vec<_> = links(&summary).into_iter().map(str::to_owned).collect();
    listed.sort_unstable();
    assert_eq!(listed, files.keys().cloned().collect::<Vec<_>>());
    let tested = fs::read_to_string(root().join("book/chapters.rs")).unwrap();
    for name in files.keys() {
        assert!(tested.contains(&format!("\"src/{name}\"")), "{name} is not in chapters.rs");
    }
}

/// All Rust of the book runs, mostly as documentation tests. A block that is marked `ignore` stands word by word in a
/// file of tests, or in an example that CI runs.
#[test]
fn what_is_ignored_stands_in_a_test() {
    let mut tests = fs::read_to_string(root().join("book/tests/exploring.rs")).unwrap();
    tests += &fs::read_to_string(root().join("programs/libraries/src/lib.rs")).unwrap();
    for folder in ["programs/libraries/examples", "crates/chanter-zenoh/examples"] {
        let files = fs::read_dir(root().join(folder)).unwrap().map(|entry| entry.unwrap().path());
        for example in files.filter(|path| path.is_file()) {
            tests += &fs::read_to_string(example).unwrap();
        }
    }
    let mut ignored = 0;
    for (name, text) in files() {
        for (info, code) in blocks(&text) {
            assert!(!info.is_empty(), "{name}: a block without a language is Rust to some readers");
            if info.contains("ignore") {
                ignored += 1;
                assert!(
                    tests.contains(&code),
                    "{name}: in no test, and no example of the libraries or of Zenoh:\n{code}"
                );
            }
        }
    }
    assert!(ignored > 0);
}

/// Paths that are named exist.
#[test]
fn paths_exist() {
    let mut paths = 0;
    for (name, text) in files() {
        for path in spans(&prose(&text)).into_iter().filter(|span| is_path(span)) {
            paths += 1;
            assert!(root().join(path).exists(), "{name}: there is no {path}");
        }
    }
    assert!(paths > 30, "{paths} paths: they are not found any more");
}

fn is_path(span: &str) -> bool {
    ["crates/", "semantics/", "ci/", "book/", "programs/"].iter().any(|folder| span.starts_with(folder))
        && !span.contains(' ')
}

/// Tests that hold a guarantee are in the file that is named before them.
#[test]
fn guarantees_name_tests_that_exist() {
    let text = prose(&files()["guarantees.md"]);
    let mut file = ("", String::new());
    let mut tests = 0;
    for span in spans(&text) {
        if is_path(span) && span.ends_with(".rs") {
            file = (span, fs::read_to_string(root().join(span)).unwrap());
        }
        // Names of tests are sentences; few others are as long.
        let is_name = span.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
        if is_name && span.matches('_').count() >= 2 && !is_public(span) {
            tests += 1;
            let (plain, generic) = (format!("fn {span}("), format!("fn {span}<"));
            assert!(file.1.contains(&plain) || file.1.contains(&generic), "there is no {span} in {}", file.0);
        }
    }
    assert!(tests > 50, "{tests} tests: they are not found any more");
}

/// Whether the name is one of the library's own.
fn is_public(name: &str) -> bool {
    let lib = fs::read_to_string(root().join("crates/chanter/src/lib.rs")).unwrap();
    lib.split(|c: char| !c.is_alphanumeric() && c != '_').any(|word| word == name)
}

#[test]
fn anchors_are_those_of_the_book() {
    assert_eq!(anchor(" On Tokio's own runtime"), "on-tokios-own-runtime");
    assert_eq!(anchor("`sync_blocking` on a virtual processor"), "sync_blocking-on-a-virtual-processor");
    assert_eq!(anchor("9. Losers are told"), "9-losers-are-told");
}
