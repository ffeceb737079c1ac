//! Reads Rust sources as tokens: enough to find imports, items, lines of code and comments.
//!
//! A reader of tokens sees the bodies of macros too, which a parser of items skips, and it sees
//! comments, which the compiler's own parser drops.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Ident,
    Punct,
    /// A string, a character, a number or a lifetime.
    Literal,
    /// `//` and `/* */`.
    Comment,
    /// `///` and `/** */`: documents the item that follows.
    OuterDoc,
    /// `//!` and `/*! */`: documents the item around it.
    InnerDoc,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Token<'a> {
    pub(crate) kind: Kind,
    pub(crate) text: &'a str,
    /// The line on which it begins, from 1, and the one on which it ends.
    pub(crate) line: usize,
    pub(crate) last: usize,
}

impl Token<'_> {
    pub(crate) fn is(&self, text: &str) -> bool {
        self.text == text && matches!(self.kind, Kind::Ident | Kind::Punct)
    }

    pub(crate) fn is_comment(&self) -> bool {
        matches!(self.kind, Kind::Comment | Kind::OuterDoc | Kind::InnerDoc)
    }
}

/// All tokens of `source`, comments included. `::` is one token, any other punctuation one a character.
pub(crate) fn tokens(source: &str) -> Vec<Token<'_>> {
    let bytes = source.as_bytes();
    let (mut at, mut line) = (0, 1);
    let mut found = Vec::new();
    while at < bytes.len() {
        if bytes[at].is_ascii_whitespace() {
            line += usize::from(bytes[at] == b'\n');
            at += 1;
            continue;
        }
        let (kind, length) = first(&source[at..]);
        let text = &source[at..at + length];
        let last = line + text.matches('\n').count();
        found.push(Token { kind, text, line, last });
        (at, line) = (at + length, last);
    }
    found
}

/// The kind and the length of the token that `rest` begins with.
fn first(rest: &str) -> (Kind, usize) {
    if rest.starts_with("//") {
        let length = rest.find('\n').unwrap_or(rest.len());
        return (comment(rest, "///", "//!"), length);
    }
    if rest.starts_with("/*") {
        return (comment(rest, "/**", "/*!"), block(rest));
    }
    if rest.starts_with("::") {
        return (Kind::Punct, 2);
    }
    let head = rest.chars().next().expect("a token has a character");
    if head.is_alphabetic() || head == '_' {
        return word(rest);
    }
    match head {
        '"' => (Kind::Literal, quoted(rest, '"')),
        '\'' => (Kind::Literal, character(rest)),
        '0'..='9' => (Kind::Literal, number(rest)),
        _ => (Kind::Punct, head.len_utf8()),
    }
}

/// `////` and `/***` are plain comments.
fn comment(rest: &str, outer: &str, inner: &str) -> Kind {
    let again = outer.chars().next_back().expect("it is three characters");
    if rest.starts_with(inner) {
        Kind::InnerDoc
    } else if rest.starts_with(outer) && !rest[3..].starts_with(again) && !rest.starts_with("/**/") {
        Kind::OuterDoc
    } else {
        Kind::Comment
    }
}

/// Block comments nest.
fn block(rest: &str) -> usize {
    let (mut at, mut depth) = (0, 0);
    while at < rest.len() {
        let here = &rest.as_bytes()[at..];
        if here.starts_with(b"/*") {
            (at, depth) = (at + 2, depth + 1);
        } else if here.starts_with(b"*/") {
            (at, depth) = (at + 2, depth - 1);
            if depth == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }
    rest.len()
}

/// An identifier, or a literal that begins like one: `r"..."`, `br#"..."#`, `b'x'`, `c"..."`.
fn word(rest: &str) -> (Kind, usize) {
    let length = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
    let tail = &rest[length..];
    match &rest[..length] {
        "r" | "br" | "cr" => {
            let hashes = tail.len() - tail.trim_start_matches('#').len();
            if tail[hashes..].starts_with('"') {
                let end = format!("\"{}", "#".repeat(hashes));
                let inside = &tail[hashes + 1..];
                let close = inside.find(&end).map_or(inside.len(), |at| at + end.len());
                return (Kind::Literal, length + hashes + 1 + close);
            }
            if hashes == 1 {
                // A raw identifier: `r#type`.
                let name = tail[1..].find(|c: char| !c.is_alphanumeric() && c != '_');
                return (Kind::Ident, length + 1 + name.unwrap_or(tail.len() - 1));
            }
        }
        "b" | "c" if tail.starts_with('"') => return (Kind::Literal, length + quoted(tail, '"')),
        "b" if tail.starts_with('\'') => return (Kind::Literal, length + quoted(tail, '\'')),
        _ => {}
    }
    (Kind::Ident, length)
}

/// The length of the literal that begins with `quote` and ends with the next one that is not escaped.
fn quoted(rest: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, c) in rest.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            c if c == quote => return at + 1,
            _ => {}
        }
    }
    rest.len()
}

/// `'x'` is a character, `'x` a lifetime.
fn character(rest: &str) -> usize {
    let mut chars = rest.char_indices().skip(1);
    let Some((_, head)) = chars.next() else { return rest.len() };
    let closes = chars.next().is_some_and(|(_, c)| c == '\'');
    if head == '\\' || closes {
        return quoted(rest, '\'');
    }
    rest[1..].find(|c: char| !c.is_alphanumeric() && c != '_').map_or(rest.len(), |at| at + 1)
}

/// `1.5` is one number, `1..5` and `1.max(2)` begin with the number 1.
fn number(rest: &str) -> usize {
    let whole = |text: &str| text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len());
    let length = whole(rest);
    match rest[length..].strip_prefix('.') {
        Some(tail) if tail.starts_with(|c: char| c.is_ascii_digit()) => length + 1 + whole(tail),
        _ => length,
    }
}

/// The tokens of code that ships: no comments, and nothing that is compiled for tests or models alone.
pub(crate) fn shipped<'a>(all: &[Token<'a>]) -> Vec<Token<'a>> {
    let code: Vec<Token<'a>> = all.iter().filter(|token| !token.is_comment()).copied().collect();
    let mut kept = Vec::new();
    let mut at = 0;
    while at < code.len() {
        if code[at].is("#") && code.get(at + 1).is_some_and(|next| next.is("!")) {
            let end = group(&code, at + 2);
            if is_test(&code[at + 2..end]) {
                // The file is for tests alone.
                return Vec::new();
            }
            kept.extend_from_slice(&code[at..end]);
            at = end;
        } else if code[at].is("#") && code.get(at + 1).is_some_and(|next| next.is("[")) {
            let (end, test) = attributes(&code, at);
            if !test {
                kept.extend_from_slice(&code[at..end]);
            }
            at = if test { item(&code, end) } else { end };
        } else {
            kept.push(code[at]);
            at += 1;
        }
    }
    kept
}

/// The end of the attributes that begin at `at`, and whether one of them is for tests.
fn attributes(code: &[Token], mut at: usize) -> (usize, bool) {
    let mut test = false;
    while at + 1 < code.len() && code[at].is("#") && code[at + 1].is("[") {
        let end = group(code, at + 1);
        test |= is_test(&code[at + 1..end]);
        at = end;
    }
    (at, test)
}

/// Whether the attribute `[...]` keeps its item out of a build that is neither a test nor a model.
fn is_test(attribute: &[Token]) -> bool {
    let inside = &attribute[1..attribute.len() - 1];
    match inside {
        [only] => only.is("test"),
        [name, open, condition @ .., _] => name.is("cfg") && open.is("(") && needs_test(condition),
        _ => false,
    }
}

fn needs_test(condition: &[Token]) -> bool {
    match condition {
        [only] => ["test", "loom", "doctest"].iter().any(|name| only.is(name)),
        [name, open, inside @ .., _] if open.is("(") => {
            let mut parts = split(inside);
            match name.text {
                "all" => parts.any(needs_test),
                "any" => parts.all(needs_test),
                _ => false,
            }
        }
        _ => false,
    }
}

/// The parts of `inside` between the commas that stand in no parentheses.
fn split<'s, 'a>(inside: &'s [Token<'a>]) -> impl Iterator<Item = &'s [Token<'a>]> {
    let mut depth = 0;
    inside
        .split(move |token| {
            depth += i32::from(token.is("(")) - i32::from(token.is(")"));
            depth == 0 && token.is(",")
        })
        .filter(|part| !part.is_empty())
}

/// The index after the group whose opening bracket is at `open`.
pub(crate) fn group(code: &[Token], open: usize) -> usize {
    let mut depth = 0;
    for (at, token) in code.iter().enumerate().skip(open) {
        depth += nesting(token);
        if depth == 0 {
            return at + 1;
        }
    }
    code.len()
}

/// The index after the body of the function at `at`; nothing for one without a body.
pub(crate) fn body(code: &[Token], at: usize) -> Option<usize> {
    let mut next = at;
    while next < code.len() {
        if code[next].is("{") {
            return Some(group(code, next));
        }
        if code[next].is(";") {
            return None;
        }
        // An array in a signature holds a `;` too.
        next = if code[next].is("(") || code[next].is("[") { group(code, next) } else { next + 1 };
    }
    None
}

fn nesting(token: &Token) -> i32 {
    match token.text {
        "(" | "[" | "{" if token.kind == Kind::Punct => 1,
        ")" | "]" | "}" if token.kind == Kind::Punct => -1,
        _ => 0,
    }
}

/// The index after the item, statement, field or variant that begins at `begin`.
fn item(code: &[Token], begin: usize) -> usize {
    const ITEMS: [&str; 14] = [
        "fn", "struct", "enum", "union", "trait", "impl", "mod", "use", "static", "type", "const", "unsafe",
        "async", "extern",
    ];
    let mut at = begin;
    if code.get(at).is_some_and(|token| token.is("pub")) {
        at += 1;
        if code.get(at).is_some_and(|token| token.is("(")) {
            at = group(code, at);
        }
    }
    let is_item = code.get(at).is_some_and(|token| ITEMS.iter().any(|word| token.is(word)));
    while at < code.len() {
        match nesting(&code[at]) {
            1 => {
                let braces = code[at].is("{");
                at = group(code, at);
                let more = code.get(at).is_some_and(|next| next.is(";") || next.is(".") || next.is("else"));
                if braces && !more {
                    return at;
                }
                continue;
            }
            -1 => return at,
            _ => {}
        }
        let ends = code[at].is(";") || (!is_item && code[at].is(","));
        at += 1;
        if ends {
            return at;
        }
    }
    at
}

/// How many lines hold a token.
pub(crate) fn lines(code: &[Token]) -> usize {
    code.iter().flat_map(|token| token.line..=token.last).collect::<BTreeSet<_>>().len()
}

/// A module that a file declares, or holds between braces.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Declared {
    pub(crate) name: String,
    pub(crate) is_public: bool,
    /// `#[path = "..."]`.
    pub(crate) path: Option<String>,
}

/// The modules that `code` declares as files of their own: `mod name;`.
pub(crate) fn declared(code: &[Token]) -> Vec<Declared> {
    let mut found = Vec::new();
    for at in 0..code.len().saturating_sub(2) {
        if code[at].is("mod") && code[at + 1].kind == Kind::Ident && code[at + 2].is(";") {
            let is_public = at > 0 && code[at - 1].is("pub");
            let path = path_before(code, if is_public { at - 1 } else { at });
            found.push(Declared { name: code[at + 1].text.to_owned(), is_public, path });
        }
    }
    found
}

/// The `path` attribute, if the last one before `end` is one.
fn path_before(code: &[Token], end: usize) -> Option<String> {
    match code.get(end.checked_sub(6)?..end)? {
        [hash, open, name, equals, value, close]
            if hash.is("#") && open.is("[") && name.is("path") && equals.is("=") && close.is("]") =>
        {
            Some(value.text.trim_matches('"').to_owned())
        }
        _ => None,
    }
}

/// One import of a `use` declaration; one without a name is a glob.
pub(crate) struct Leaf {
    pub(crate) path: Vec<String>,
    pub(crate) name: Option<String>,
    pub(crate) line: usize,
}

/// The imports of the tree that stands between `use` and `;`.
pub(crate) fn leaves(tree: &[Token]) -> Vec<Leaf> {
    let mut found = Vec::new();
    branch(&[], tree, &mut found);
    found
}

fn branch(prefix: &[String], tree: &[Token], found: &mut Vec<Leaf>) {
    let mut path = prefix.to_vec();
    let mut at = 0;
    while at < tree.len() {
        let token = &tree[at];
        if token.is("{") {
            let end = group(tree, at);
            let mut depth = 0;
            let parts = tree[at + 1..end - 1].split(|token| {
                depth += i32::from(token.is("{")) - i32::from(token.is("}"));
                depth == 0 && token.is(",")
            });
            parts.filter(|part| !part.is_empty()).for_each(|part| branch(&path, part, found));
            return;
        }
        if token.is("*") {
            found.push(Leaf { path, name: None, line: token.line });
            return;
        }
        if token.is("as") {
            break;
        }
        // `{self}` names the module itself.
        let is_itself = token.is("self") && !path.is_empty();
        if token.kind == Kind::Ident && !is_itself {
            path.push(token.text.to_owned());
        }
        at += 1;
    }
    let Some(last) = tree.last().filter(|_| !path.is_empty()) else { return };
    let renamed = (at < tree.len()).then(|| last.text.to_owned());
    let name = renamed.or_else(|| path.last().cloned());
    found.push(Leaf { path, name, line: last.line });
}

/// A file of a crate, and the module that it is.
pub(crate) struct Member {
    pub(crate) module: Vec<String>,
    /// Relative to the root of the crate.
    pub(crate) file: String,
    pub(crate) text: String,
}

/// The files of the crate that begins with `entry` in `root`, without those for tests or models alone.
pub(crate) fn members(root: &Path, entry: &str) -> Result<Vec<Member>, String> {
    let mut found = Vec::new();
    let mut waiting = vec![(Vec::new(), entry.to_owned(), String::new())];
    while let Some((module, file, folder)) = waiting.pop() {
        let text = read(&root.join(&file))?;
        for child in declared(&shipped(&tokens(&text))) {
            let mut path = module.clone();
            path.push(child.name.clone());
            let (file, folder) = locate(root, &file, &folder, &child)?;
            waiting.push((path, file, folder));
        }
        found.push(Member { module, file, text });
    }
    Ok(found)
}

/// The file of a module that `parent` declares, and the folder of the module's own modules. `folder` is the parent's.
fn locate(root: &Path, parent: &str, folder: &str, child: &Declared) -> Result<(String, String), String> {
    let beside = |folder: &str, name: &str| {
        if folder.is_empty() { name.to_owned() } else { format!("{folder}/{name}") }
    };
    let folder_of = |file: &str| file.rsplit_once('/').map_or(String::new(), |(folder, _)| folder.to_owned());
    let candidates = match &child.path {
        // The modules of a file that is named by its path lie beside it.
        Some(given) => {
            let file = beside(&folder_of(parent), given);
            vec![(file.clone(), folder_of(&file))]
        }
        None => {
            let inner = beside(folder, &child.name);
            vec![(format!("{inner}.rs"), inner.clone()), (format!("{inner}/mod.rs"), inner)]
        }
    };
    let found = candidates.iter().find(|(file, _)| root.join(file).is_file());
    found
        .cloned()
        .ok_or_else(|| format!("{parent} declares {}, and there is no {}", child.name, candidates[0].0))
}

/// The files below `folder` whose names end with one of `endings`, in order; `skip` names folders to leave out.
pub(crate) fn files(folder: &Path, endings: &[&str], skip: &[&str]) -> Result<Vec<PathBuf>, String> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(folder) = folders.pop() {
        let entries = std::fs::read_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        for entry in entries {
            let path = entry.map_err(|error| format!("{}: {error}", folder.display()))?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if path.is_dir() {
                if !skip.contains(&name.as_str()) {
                    folders.push(path);
                }
            } else if endings.iter().any(|ending| name.ends_with(ending)) {
                found.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}

pub(crate) fn read(path: &Path) -> Result<String, String> {
    std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(source: &str) -> Vec<&str> {
        tokens(source).iter().map(|token| token.text).collect()
    }

    fn left(source: &str) -> String {
        let all = tokens(source);
        shipped(&all).iter().map(|token| token.text).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn literals_are_one_token_each() {
        assert_eq!(
            texts(r##"a::b 'x' 'life b'\'' "use \" x" r#"mod " y"# 1.5 1..2 r#type"##),
            [
                "a",
                "::",
                "b",
                "'x'",
                "'life",
                r"b'\''",
                r#""use \" x""#,
                r##"r#"mod " y"#"##,
                "1.5",
                "1",
                ".",
                ".",
                "2",
                "r#type"
            ]
        );
    }

    #[test]
    fn comments_and_docs_are_told_apart() {
        let kinds: Vec<Kind> =
            tokens("// a\n/// b\n//! c\n//// d\n/* e /* f */ */ x").iter().map(|t| t.kind).collect();
        use Kind::*;
        assert_eq!(kinds, [Comment, OuterDoc, InnerDoc, Comment, Comment, Ident]);
    }

    #[test]
    fn tokens_know_their_lines() {
        let all = tokens("a\n\n\"b\nc\" d");
        assert_eq!(all.iter().map(|t| (t.line, t.last)).collect::<Vec<_>>(), [(1, 1), (3, 4), (4, 4)]);
        assert_eq!(lines(&all), 3);
    }

    #[test]
    fn tests_and_models_do_not_ship() {
        assert_eq!(left("a; #[cfg(test)] mod tests { fn x() {} } b"), "a ; b");
        assert_eq!(left("#[cfg(all(test, not(loom)))]\nmod child; b"), "b");
        assert_eq!(left("#[cfg(any(test, loom))] use x::{y, z}; b"), "b");
        assert_eq!(left("#[test] fn f<T>() where T: A, { } b"), "b");
        assert_eq!(left("S { a: 1, #[cfg(loom)] b: f(2, 3), c: 4 }"), "S { a : 1 , c : 4 }");
        assert_eq!(left("#![cfg(all(test, loom))] fn f() {}"), "");
    }

    #[test]
    fn what_ships_too_is_kept() {
        assert_eq!(left("#[cfg(not(loom))] mod a;"), "# [ cfg ( not ( loom ) ) ] mod a ;");
        assert_eq!(left("#[cfg(any(test, unix))] x;"), "# [ cfg ( any ( test , unix ) ) ] x ;");
    }

    #[test]
    fn declared_modules_know_visibility_and_path() {
        let all = tokens("pub mod a; mod b { } #[path = \"no_span.rs\"] mod span; pub(crate) mod c;");
        let found = declared(&all);
        let names: Vec<_> = found.iter().map(|d| (d.name.as_str(), d.is_public, d.path.as_deref())).collect();
        assert_eq!(names, [("a", true, None), ("span", false, Some("no_span.rs")), ("c", false, None)]);
    }

    #[test]
    fn modules_of_a_file_that_is_named_by_its_path_lie_beside_it() {
        let folder = tempfile();
        let write = |name: &str, text: &str| {
            let file = folder.join(name);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, text).unwrap();
        };
        write("lib.rs", "mod a; #[path = \"far/b/mod.rs\"] mod b;");
        write("a.rs", "mod inner;");
        write("a/inner.rs", "");
        write("far/b/mod.rs", "mod inner;");
        write("far/b/inner.rs", "");
        let mut files: Vec<_> = members(&folder, "lib.rs").unwrap().into_iter().map(|m| m.file).collect();
        files.sort_unstable();
        assert_eq!(files, ["a.rs", "a/inner.rs", "far/b/inner.rs", "far/b/mod.rs", "lib.rs"]);
        std::fs::remove_dir_all(folder).unwrap();
    }

    /// An empty folder of this test's own.
    fn tempfile() -> PathBuf {
        let folder = std::env::temp_dir().join(format!("xtask-modules-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        folder
    }
}
