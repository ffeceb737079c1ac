//! The public names of a crate, as its sources say: those that its public modules declare or re-export.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// The names of types and traits in each public module.
pub(crate) type Names = BTreeMap<String, BTreeSet<String>>;

/// The public names of the crate `name`, whose `lib.rs` is in the folder `src`.
pub(crate) fn names(name: &str, src: &Path) -> Names {
    let mut names = Names::new();
    read(name, &src.join("lib.rs"), src, &mut names);
    // It has but what lies elsewhere.
    names.remove(&format!("{name}::prelude"));
    // For what macros expand to.
    names.retain(|module, _| !module.contains("::__"));
    names
}

/// Reads `file`, which is the public module `module`; its submodules lie in `folder`.
fn read(module: &str, file: &Path, folder: &Path, names: &mut Names) {
    let text = std::fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    // An inline module that we are in.
    let mut inline: Option<String> = None;
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if inline.is_some() && line == "}" {
            inline = None;
        }
        let indented = line.starts_with("    ");
        let line = line.trim_start();
        let Some(item) = line.strip_prefix("pub ") else { continue };
        // Items of functions and of `impl`s are not the module's.
        if indented && inline.is_none() {
            continue;
        }
        let here = inline.clone().unwrap_or_else(|| module.to_owned());
        if let Some(name) = item.strip_prefix("mod ") {
            let below = |name: &str| format!("{module}::{name}");
            match name.strip_suffix(';') {
                Some(name) => {
                    let (file, folder) = room(folder, name);
                    read(&below(name), &file, &folder, names);
                }
                None => inline = Some(below(name.trim_end_matches(" {"))),
            }
        } else if let Some(first) = item.strip_prefix("use ") {
            let mut used = first.to_owned();
            while !used.contains(';') {
                used.push_str(lines.next().expect("a `use` ends"));
            }
            // All that a private module shows is public here.
            if let Some(name) = used.strip_prefix("crate::").and_then(|path| path.strip_suffix("::*;")) {
                let (file, below) = given(&text, folder, name).unwrap_or_else(|| room(folder, name));
                read(&here, &file, &below, names);
                continue;
            }
            // A module that is re-exported itself.
            let alone =
                used.strip_suffix(';').filter(|path| path.contains("::") && !path.contains(['{', ' ']));
            let path = used.split_once("::{self").map(|(path, _)| path).or(alone);
            if let Some(path) = path.map(|path| path.trim_start_matches("crate::")) {
                let name = path.rsplit("::").next().expect("the last");
                let parent = path.split("::").take(path.matches("::").count());
                let (file, folder) = room(
                    &parent.fold(folder.to_owned(), |folder, name| {
                        given(&text, &folder, name).map_or_else(|| folder.join(name), |(_, below)| below)
                    }),
                    name,
                );
                if file.exists() {
                    read(&format!("{here}::{name}"), &file, &folder, names);
                }
            }
            // A name in a public module is public there.
            let from = used.split("::").next().expect("the first");
            if text
                .lines()
                .any(|line| line == format!("pub mod {from};") || line == format!("pub mod {from} {{"))
            {
                continue;
            }
            let used = used.split(|c: char| !c.is_alphanumeric() && c != '_');
            names.entry(here).or_default().extend(used.filter(|name| is_type(name)).map(str::to_owned));
        } else if let Some(name) = declared(item) {
            names.entry(here).or_default().insert(name.to_owned());
        }
    }
}

/// The file of the module `name` that `text` declares with its path, and the folder of its submodules.
fn given(text: &str, folder: &Path, name: &str) -> Option<(PathBuf, PathBuf)> {
    let declared = text.lines().position(|line| line == format!("mod {name};"))?;
    let path =
        text.lines().nth(declared.checked_sub(1)?)?.strip_prefix("#[path = \"")?.strip_suffix("\"]")?;
    let file = folder.join(path);
    let below = file.parent()?.to_owned();
    Some((file, below))
}

/// The file of the module `name`, and the folder of its submodules.
fn room(folder: &Path, name: &str) -> (PathBuf, PathBuf) {
    let below = folder.join(name);
    let file = below.join("mod.rs");
    if file.exists() { (file, below) } else { (folder.join(format!("{name}.rs")), below) }
}

/// The type or trait that `pub item` declares.
fn declared(item: &str) -> Option<&str> {
    let kinds = ["struct ", "enum ", "union ", "type ", "trait ", "unsafe trait "];
    let rest = kinds.iter().find_map(|kind| item.strip_prefix(kind))?;
    rest.split(|c: char| !c.is_alphanumeric() && c != '_').next()
}

/// Types and traits begin with a capital, and are not all capitals, as constants are.
fn is_type(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_uppercase()) && name.contains(|c: char| c.is_ascii_lowercase())
}
