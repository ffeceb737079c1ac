//! The compiler's view of each public type: `Send`, `Sync`, `Unpin`, and variance.
//!
//! `table.md` says what they should be, for all crates that programs use. `TYPES=overwrite` writes down what it is,
//! for a reader to judge the difference. `exploits/` has programs that would break memory if they compiled.

#![cfg(all(unix, not(miri)))]

mod measure;
mod probe;
mod public;
mod table;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use probe::Probe;
use table::Table;

fn here() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/types")
}

fn crates() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("a folder up")
}

#[test]
fn each_public_type_is_in_the_table() {
    let table = Table::read(&fs::read_to_string(here().join("table.md")).unwrap());
    let mut wrong = Vec::new();
    for name in ["chanter", "chanter_explore", "swerve"] {
        let mut public = public::names(name, &crates().join(name.replace('_', "-")).join("src"));
        let is_here = |module: &str| module.split("::").next() == Some(name);
        for section in table.sections.iter().filter(|section| is_here(&section.module)) {
            let module = &section.module;
            let listed = BTreeSet::from_iter(section.names());
            let public = public.remove(module).unwrap_or_default();
            wrong.extend(
                public.difference(&listed).map(|name| format!("{module}::{name} is not in the table")),
            );
            wrong.extend(listed.difference(&public).map(|name| format!("{module}::{name} is not public")));
        }
        // Hidden: for crates of Chanter's, which are checked as a whole.
        public.retain(|module, _| !module.starts_with("chanter::base"));
        for (module, names) in public {
            wrong.push(format!("no section {module}, with {names:?}"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn each_type_is_what_the_table_says() {
    let text = fs::read_to_string(here().join("table.md")).unwrap();
    let table = Table::read(&text);
    let measured = measure::measure(&table);
    if std::env::var_os("TYPES").is_some_and(|what| what == "overwrite") {
        fs::write(here().join("table.md"), measured.to_string()).unwrap();
        return;
    }
    let differences = table.rows().zip(measured.rows()).filter(|(stated, measured)| stated != measured);
    let differences: Vec<_> = differences
        .map(|(stated, measured)| format!("the table:    {stated}\nthe compiler: {measured}"))
        .collect();
    assert!(differences.is_empty(), "\n{}", differences.join("\n"));
    assert_eq!(table.to_string(), text, "`TYPES=overwrite` repairs its form");
}

/// The lines that must not compile end with `//~` and the reason.
#[test]
fn exploits_do_not_compile() {
    let probe = Probe::new(&["chanter"]);
    let mut count = 0;
    for entry in fs::read_dir(here().join("exploits")).unwrap() {
        let path = entry.unwrap().path();
        let program = fs::read_to_string(&path).unwrap();
        let wrong = (1..).zip(program.lines()).filter(|(_, line)| line.contains("//~")).map(|(line, _)| line);
        let name = path.file_stem().unwrap().to_str().unwrap();
        let errors = probe.errors(name, &program);
        assert_eq!(
            errors.keys().copied().collect::<Vec<usize>>(),
            wrong.collect::<Vec<_>>(),
            "{name}: {errors:#?}"
        );
        count += 1;
    }
    assert!(count >= 3);
}
