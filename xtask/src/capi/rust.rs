//! Reads the functions that the library exports from its source.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// The exported functions, with the kinds of their parameters and last that of their result.
pub(super) fn functions(folder: &Path) -> Result<BTreeMap<String, Vec<String>>, String> {
    let mut found = BTreeMap::new();
    let entries = fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    for entry in entries {
        let path = entry.map_err(|error| error.to_string())?.path();
        if path.is_dir() {
            found.append(&mut functions(&path)?);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
            collect(&text, &mut found)?;
        }
    }
    Ok(found)
}

fn collect(text: &str, found: &mut BTreeMap<String, Vec<String>>) -> Result<(), String> {
    for part in text.split("#[unsafe(no_mangle)]").skip(1) {
        let part = part.split_once("extern \"C\" fn ").ok_or("an exported item is no function of C")?.1;
        let (name, rest) = part.split_once('(').ok_or("a function has no parameters")?;
        let (parameters, result) = rest.split_once(')').map_or((rest, ""), |_| {
            // The parameters end at the parenthesis before the body or the result.
            let end = rest.find(") -> ").into_iter().chain(rest.find(") {")).min().unwrap_or(0);
            (&rest[..end], rest[end + 1..].split('{').next().unwrap_or_default())
        });
        let mut types: Vec<String> = parameters
            .split(',')
            .filter_map(|parameter| parameter.split_once(": "))
            .map(|(_, of)| kind(of.trim()))
            .collect();
        types.push(kind(result.trim().trim_start_matches("->").trim()));
        found.insert(name.to_owned(), types);
    }
    Ok(())
}

/// The kind of a type; see `header.rs`.
fn kind(of: &str) -> String {
    let kind = match of {
        "u64" => "u64",
        "u32" => "u32",
        "usize" => "size",
        "c_int" => "int",
        "" | "!" => "nothing",
        _ if of.starts_with("Option<") => "function",
        _ if of.starts_with("*const") => "const pointer",
        _ if of.starts_with("*mut") => "pointer",
        _ => of,
    };
    kind.to_owned()
}
