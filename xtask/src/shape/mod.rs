//! `ci/shape`: sizes, public names and prose. Each number is recorded, and may only shrink.

mod sizes;

use crate::prose;
use crate::source;
use sizes::{FIELDS, FILE_LINES, FUNCTION_LINES, Large, Sizes};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

const RECORD: &str = "ci/shape.record";
const CORE: &str = "crates/chanter/src";

const HELP: &str = "\
ci/shape [--list | --prose | --record [--grow]]

Counts lines, large structs, functions and files, public names, and sentences that ci/prose.rules marks.
Fails when a number grew past the one in ci/shape.record.

  --list    prints what is too large, and where
  --prose   prints the sentences by area and kind
  --record  writes the record anew; --grow allows that a number becomes larger
";

/// Each number by its name.
type Numbers = BTreeMap<String, u64>;

pub(crate) fn main(root: &Path, args: &[String]) -> Result<(), String> {
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    if let ["--prose"] = args[..] {
        print!("{}", prose::table(&prose::counts(root)?));
        return Ok(());
    }
    let mut core = Sizes::default();
    core.read(&root.join(CORE), CORE)?;
    let mut others = Sizes::default();
    for name in crates(root)? {
        let shown = format!("crates/{name}/src");
        others.read(&root.join(&shown), &shown)?;
    }
    if let ["--list"] = args[..] {
        list(&core, &others);
        return Ok(());
    }
    let now = numbers(root, &core, &others)?;
    let before = recorded(root)?;
    match args[..] {
        [] => {
            print!("{}", table(&now, &before));
            check(&now, &before)
        }
        ["--record"] | ["--record", "--grow"] => record(root, &now, &before, args.len() == 2),
        _ => Err(format!("shape does not know {args:?}\n\n{HELP}")),
    }
}

/// The crates beside the core.
fn crates(root: &Path) -> Result<Vec<String>, String> {
    let entries = std::fs::read_dir(root.join("crates")).map_err(|error| format!("crates: {error}"))?;
    let names = entries.filter_map(|entry| Some(entry.ok()?.file_name().to_string_lossy().into_owned()));
    let mut names: Vec<String> = names.filter(|name| name != "chanter").collect();
    names.sort();
    Ok(names)
}

fn numbers(root: &Path, core: &Sizes, others: &Sizes) -> Result<Numbers, String> {
    let mut numbers = Numbers::new();
    let mut add = |name: String, number: usize| numbers.insert(name, number as u64);
    add("core: lines of code".to_owned(), core.lines);
    for (whose, sizes) in [("core", core), ("crates", others)] {
        add(format!("{whose}: structs over {FIELDS} fields"), sizes.structs.len());
        add(format!("{whose}: functions over {FUNCTION_LINES} lines"), sizes.functions.len());
        add(format!("{whose}: files over {FILE_LINES} lines"), sizes.files.len());
    }
    let names = sizes::names(&root.join(CORE))?;
    add("core: names in the root".to_owned(), names.root.len());
    add("core: names in the prelude".to_owned(), names.prelude.len());
    for (area, count) in prose::counts(root)? {
        numbers.insert(format!("prose: {area}"), count.marked);
        numbers.insert(format!("prose, worst: {area}"), count.worst);
    }
    Ok(numbers)
}

fn list(core: &Sizes, others: &Sizes) {
    type Part = fn(&Sizes) -> &Vec<Large>;
    let all = |of: Part| {
        let mut all: Vec<&Large> = of(core).iter().chain(of(others)).collect();
        all.sort_by_key(|large| std::cmp::Reverse(large.size));
        all
    };
    let kinds: [(&str, Part); 3] = [
        ("fields", |sizes| &sizes.structs),
        ("lines", |sizes| &sizes.functions),
        ("lines", |sizes| &sizes.files),
    ];
    for (unit, of) in kinds {
        for Large { size, name, at } in all(of) {
            println!("{size:>5} {unit:<6} {name:<30} {at}");
        }
    }
}

fn recorded(root: &Path) -> Result<Numbers, String> {
    let path = root.join(RECORD);
    if path.exists() { parse(&source::read(&path)?) } else { Ok(Numbers::new()) }
}

fn parse(text: &str) -> Result<Numbers, String> {
    let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines
        .map(|line| {
            let parts =
                line.split_once(' ').and_then(|(number, name)| Some((name.to_owned(), number.parse().ok()?)));
            parts.ok_or_else(|| format!("{RECORD}: `{line}` is no number and a name"))
        })
        .collect()
}

fn grown<'n>(now: &'n Numbers, before: &Numbers) -> Vec<(&'n String, u64, u64)> {
    let pairs = now.iter().map(|(name, number)| (name, before.get(name).copied().unwrap_or(0), *number));
    pairs.filter(|(_, before, now)| now > before).collect()
}

fn check(now: &Numbers, before: &Numbers) -> Result<(), String> {
    let grown = grown(now, before);
    if grown.is_empty() {
        let less = before.iter().any(|(name, before)| now.get(name).unwrap_or(&0) < before);
        if less {
            println!("shape: some numbers are smaller than recorded; ci/shape --record keeps them so");
        }
        return Ok(());
    }
    let mut message = String::from("these numbers only shrink, and grew:\n");
    for (name, before, now) in grown {
        writeln!(message, "  {name}: {before} -> {now}").expect("a string grows");
    }
    message +=
        "ci/shape --list and cargo xtask prose --list FOLDER say where; ci/shape --record --grow allows it";
    Err(message)
}

fn record(root: &Path, now: &Numbers, before: &Numbers, grow: bool) -> Result<(), String> {
    if !grow {
        check(now, before)?;
    }
    let mut text = String::from(
        "# The numbers of ci/shape. They only shrink: ci/shape --record writes them anew.\n\
         # prose: marked sentences of an area; prose, worst: those of the kinds that have to come to nothing.\n",
    );
    for (name, number) in now.iter().filter(|(_, number)| **number > 0) {
        writeln!(text, "{number} {name}").expect("a string grows");
    }
    std::fs::write(root.join(RECORD), text).map_err(|error| format!("{RECORD}: {error}"))?;
    println!("shape: {} numbers recorded", now.len());
    Ok(())
}

/// The sizes one a line; of the prose the sums of documents, public docs and comments.
fn table(now: &Numbers, before: &Numbers) -> String {
    let mut rows: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    for name in now.keys().chain(before.keys().filter(|name| !now.contains_key(*name))) {
        let row = match name.split_once(": ") {
            Some((prose, area)) if prose.starts_with("prose") => {
                format!("{prose}: {}", area.split(' ').next().unwrap_or(area))
            }
            _ => name.clone(),
        };
        let row = rows.entry(row).or_default();
        row.0 += now.get(name).unwrap_or(&0);
        row.1 += before.get(name).unwrap_or(&0);
    }
    let mut text = format!("{:<36} {:>8} {:>8}\n", "", "now", "recorded");
    for (name, (now, before)) in rows {
        let sign = match now.cmp(&before) {
            std::cmp::Ordering::Less => " less",
            std::cmp::Ordering::Equal => "",
            std::cmp::Ordering::Greater => " MORE",
        };
        writeln!(text, "{name:<36} {now:>8} {before:>8}{sign}").expect("a string grows");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(pairs: &[(&str, u64)]) -> Numbers {
        pairs.iter().map(|(name, number)| ((*name).to_owned(), *number)).collect()
    }

    #[test]
    fn a_number_that_grows_fails_by_name() {
        let before = numbers(&[("a", 3), ("b", 2)]);
        assert_eq!(check(&numbers(&[("a", 3), ("b", 1)]), &before), Ok(()));
        let error = check(&numbers(&[("a", 4), ("b", 1)]), &before).unwrap_err();
        assert!(error.contains("a: 3 -> 4") && !error.contains("b:"), "{error}");
    }

    #[test]
    fn what_was_not_recorded_was_nothing() {
        assert!(check(&numbers(&[("new", 1)]), &Numbers::new()).is_err());
        assert_eq!(check(&numbers(&[("new", 0)]), &Numbers::new()), Ok(()));
    }

    #[test]
    fn a_record_is_read_as_it_was_written() {
        assert_eq!(
            parse("# head\n3 prose: docs a\n12 core: b\n"),
            Ok(numbers(&[("prose: docs a", 3), ("core: b", 12)]))
        );
        assert!(parse("core 3").unwrap_err().contains("`core 3`"));
    }

    #[test]
    fn the_table_sums_prose_by_place() {
        let now = numbers(&[("core: x", 1), ("prose: docs a", 2), ("prose: docs b", 3)]);
        let text = table(&now, &numbers(&[("core: x", 2), ("prose: docs a", 5)]));
        let rows: Vec<String> =
            text.lines().skip(1).map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
        assert_eq!(rows, ["core: x 1 2 less", "prose: docs 5 5"]);
    }
}
