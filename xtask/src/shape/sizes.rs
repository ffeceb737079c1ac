//! Sizes that are read from sources: lines, functions, structs, and names that a crate shows.

use crate::source::{self, Kind, Member, Token};
use std::collections::BTreeSet;
use std::path::Path;

/// More than these is too large.
pub(crate) const FIELDS: usize = 20;
pub(crate) const FUNCTION_LINES: usize = 70;
pub(crate) const FILE_LINES: usize = 500;

/// Something too large: its kind, its place, and its size.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Large {
    pub(crate) size: usize,
    pub(crate) name: String,
    pub(crate) at: String,
}

#[derive(Default)]
pub(crate) struct Sizes {
    /// Lines with code.
    pub(crate) lines: usize,
    pub(crate) structs: Vec<Large>,
    pub(crate) functions: Vec<Large>,
    pub(crate) files: Vec<Large>,
}

impl Sizes {
    /// Reads all crates whose sources lie in `folder`, a folder `src`. `shown` is how reports name it.
    pub(crate) fn read(&mut self, folder: &Path, shown: &str) -> Result<(), String> {
        let mut entries: Vec<String> = ["lib.rs", "main.rs"].map(str::to_owned).to_vec();
        if folder.join("bin").is_dir() {
            let programs = source::files(&folder.join("bin"), &[".rs"], &[])?;
            let names = programs.iter().filter_map(|path| path.file_name());
            entries.extend(names.map(|name| format!("bin/{}", name.to_string_lossy())));
        }
        let mut seen = BTreeSet::new();
        for entry in entries.iter().filter(|entry| folder.join(entry).is_file()) {
            for member in source::members(folder, entry)? {
                if seen.insert(member.file.clone()) {
                    self.add(&member, shown);
                }
            }
        }
        Ok(())
    }

    fn add(&mut self, member: &Member, shown: &str) {
        let all = source::tokens(&member.text);
        let code = source::shipped(&all);
        if code.is_empty() {
            return;
        }
        let file = format!("{shown}/{}", member.file);
        self.lines += source::lines(&code);
        let lines = member.text.lines().count();
        if lines > FILE_LINES {
            self.files.push(Large { size: lines, name: "file".to_owned(), at: file.clone() });
        }
        let large = |size: usize, token: &Token, name: &Token| Large {
            size,
            name: name.text.to_owned(),
            at: format!("{file}:{}", token.line),
        };
        for (at, token) in code.iter().enumerate() {
            let Some(name) = code.get(at + 1).filter(|name| name.kind == Kind::Ident) else { continue };
            if token.is("fn") {
                let Some(end) = source::body(&code, at) else { continue };
                let lines = code[end - 1].last - token.line + 1;
                if lines > FUNCTION_LINES {
                    self.functions.push(large(lines, token, name));
                }
            } else if token.is("struct") {
                let fields = fields(&code, at);
                // A record that shows all its fields is a list for readers.
                if fields.all > FIELDS && fields.public < fields.all {
                    self.structs.push(large(fields.all, token, name));
                }
            }
        }
    }
}

struct Fields {
    all: usize,
    public: usize,
}

fn fields(code: &[Token], at: usize) -> Fields {
    let mut fields = Fields { all: 0, public: 0 };
    let Some(end) = source::body(code, at) else { return fields };
    let open = (at..end).find(|&i| code[i].is("{")).expect("the body has a brace");
    let mut depth = 0;
    for i in open..end {
        match code[i].text {
            "{" | "(" | "[" => depth += 1,
            "}" | ")" | "]" => depth -= 1,
            ":" if depth == 1 && code[i - 1].kind == Kind::Ident => {
                fields.all += 1;
                fields.public += usize::from(code[i - 2].is("pub"));
            }
            _ => {}
        }
    }
    fields
}

/// The names that a crate shows in its root, and in its prelude.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Names {
    pub(crate) root: BTreeSet<String>,
    pub(crate) prelude: BTreeSet<String>,
}

pub(crate) fn names(folder: &Path) -> Result<Names, String> {
    let members = source::members(folder, "lib.rs")?;
    let read = |member: &Member, inside: Option<&str>| {
        let all = source::tokens(&member.text);
        let code = source::shipped(&all);
        match inside {
            None => shown(&code),
            Some(module) => match (0..code.len()).find(|&at| code[at].is("mod") && code[at + 1].is(module)) {
                Some(at) if code[at + 2].is("{") => shown(&code[at + 3..source::group(&code, at + 2) - 1]),
                _ => Ok(BTreeSet::new()),
            },
        }
    };
    let mut root = read(&members[0], None)?;
    for member in &members {
        let all = source::tokens(&member.text);
        root.extend(exported_macros(&source::shipped(&all)));
    }
    let prelude = match members.iter().find(|member| member.module == ["prelude"]) {
        Some(file) => read(file, None)?,
        None => read(&members[0], Some("prelude"))?,
    };
    Ok(Names { root, prelude })
}

/// The names that `code` shows at its outermost level: no modules, and nothing that is hidden from documentation.
fn shown(code: &[Token]) -> Result<BTreeSet<String>, String> {
    let mut found = BTreeSet::new();
    let mut hidden = false;
    let mut at = 0;
    while at < code.len() {
        let is = |ahead: usize, text: &str| code.get(at + ahead).is_some_and(|token| token.is(text));
        if is(0, "#") {
            let open = if is(1, "!") { at + 2 } else { at + 1 };
            let end = source::group(code, open);
            hidden |= code[open..end].iter().any(|token| token.is("hidden"));
            at = end;
        } else if is(0, "pub") && is(1, "use") {
            let end = (at..code.len()).find(|&i| code[i].is(";")).unwrap_or(code.len());
            for leaf in source::leaves(&code[at + 2..end]).into_iter().filter(|_| !hidden) {
                let path = leaf.path.join("::");
                found.insert(
                    leaf.name.ok_or_else(|| format!("`pub use {path}::*` hides how many names it shows"))?,
                );
            }
            (at, hidden) = (end + 1, false);
        } else if is(0, "pub") && !is(1, "(") {
            let words =
                ["unsafe", "async", "const", "static", "fn", "struct", "enum", "union", "trait", "type"];
            let name = code[at + 1..].iter().find(|token| !words.iter().any(|word| token.is(word)));
            found.extend(name.filter(|name| !hidden && !name.is("mod")).map(|name| name.text.to_owned()));
            (at, hidden) = (item_end(code, at), false);
        } else if is(0, "{") {
            (at, hidden) = (source::group(code, at), false);
        } else {
            hidden &= !is(0, ";");
            at += 1;
        }
    }
    Ok(found)
}

/// The index after the item at `at`: its `;`, or its braces.
fn item_end(code: &[Token], at: usize) -> usize {
    match (at..code.len()).find(|&i| code[i].is(";") || code[i].is("{")) {
        Some(i) if code[i].is("{") => source::group(code, i),
        Some(i) => i + 1,
        None => code.len(),
    }
}

fn exported_macros(code: &[Token]) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut attributes = BTreeSet::new();
    for at in 0..code.len() {
        if code[at].is("#") && code.get(at + 1).is_some_and(|token| token.is("[")) {
            attributes.extend(code[at + 1..source::group(code, at + 1)].iter().map(|token| token.text));
        } else if code[at].is("macro_rules") {
            if attributes.contains("macro_export") && !attributes.contains("hidden") {
                found.extend(code.get(at + 2).map(|name| name.text.to_owned()));
            }
        } else if code[at].is("}") || code[at].is(";") {
            attributes.clear();
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sizes(text: &str) -> Sizes {
        let mut sizes = Sizes::default();
        let member = Member { module: Vec::new(), file: "lib.rs".to_owned(), text: text.to_owned() };
        sizes.add(&member, "src");
        sizes
    }

    fn named(text: &str) -> Vec<String> {
        let all = source::tokens(text);
        shown(&all).unwrap().into_iter().collect()
    }

    #[test]
    fn lines_are_those_with_code_that_ships() {
        let text =
            "// no\nfn f() {\n\n    /* no */ g(); // no\n}\n#[cfg(test)]\nmod tests {\n    fn t() {}\n}\n";
        assert_eq!(sizes(text).lines, 3);
    }

    #[test]
    fn long_functions_are_found_where_they_begin() {
        let long = format!("fn short(x: [u8; 4]) {{}}\nfn long() {{\n{}}}\n", "x();\n".repeat(69));
        let found = sizes(&long).functions;
        assert_eq!(found, [Large { size: 71, name: "long".to_owned(), at: "src/lib.rs:2".to_owned() }]);
        let short = format!("fn short() {{\n{}}}\n", "x();\n".repeat(68));
        assert_eq!(sizes(&short).functions, []);
    }

    #[test]
    fn structs_of_many_fields_are_found_and_records_are_not() {
        let of = |visibility: &str, count: usize| {
            let fields: String =
                (0..count).map(|i| format!("{visibility} f{i}: HashMap<u8, fn(a: u8)>,\n")).collect();
            format!("pub struct S<T: Copy> {{\n{fields}}}\nstruct T(u8);\nstruct U;\n")
        };
        assert_eq!(sizes(&of("", 20)).structs, []);
        assert_eq!(sizes(&of("pub", 21)).structs, []);
        assert_eq!(sizes(&of("pub(crate)", 21)).structs[0].size, 21);
    }

    #[test]
    fn names_are_counted_as_documentation_shows_them() {
        let text = "mod a; pub mod b; pub use a::{c, d::{self, E as F}};\n#[doc(hidden)] pub use a::g; pub(crate) use a::h;\n\
                    pub mod prelude { pub use crate::x; } pub async fn i() { pub_(); } #[doc(hidden)] pub mod j { pub fn k() {} } pub struct L;";
        assert_eq!(named(text), ["F", "L", "c", "d", "i"]);
        assert!(shown(&source::tokens("pub use a::*;")).unwrap_err().contains("pub use a::*"));
    }

    #[test]
    fn macros_are_names_of_the_root() {
        let text = "#[macro_export] macro_rules! a { () => {}; } #[doc(hidden)] #[macro_export] macro_rules! b { } macro_rules! c { }";
        assert_eq!(exported_macros(&source::tokens(text)), BTreeSet::from(["a".to_owned()]));
    }
}
