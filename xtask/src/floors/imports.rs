//! The imports of one crate: its files, and for each file the others whose items it names.
//!
//! A path is followed through re-exports to the file that defines the item. An import of a module is
//! no import by itself: the paths that begin with it are.

use crate::source::{self, Kind, Token};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::Path;

/// A file names an item of another: where, and by which path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Import {
    pub(crate) line: usize,
    pub(crate) written: String,
}

/// The files of a crate, relative to its root, and the imports of each.
#[derive(Default)]
pub(crate) struct Imports {
    pub(crate) files: Vec<String>,
    /// At least one for each edge, in the order of the file.
    pub(crate) edges: BTreeMap<(usize, usize), Vec<Import>>,
}

/// Reads the crate whose `lib.rs` lies in `root`, without code that is compiled for tests or models alone.
pub(crate) fn read(root: &Path) -> Result<Imports, String> {
    let mut tree = Tree::default();
    for member in source::members(root, "lib.rs")? {
        let all = source::tokens(&member.text);
        tree.add(&member.module, member.file, &source::shipped(&all));
    }
    Ok(tree.imports())
}

#[derive(Default)]
struct Tree {
    files: Vec<String>,
    modules: Vec<Module>,
    by_path: HashMap<Vec<String>, usize>,
}

/// A module: a file, or a part of one between braces.
#[derive(Default)]
struct Module {
    path: Vec<String>,
    file: usize,
    /// The paths of `use` declarations, by the name that each gives here.
    names: HashMap<String, Vec<Vec<String>>>,
    globs: Vec<Vec<String>>,
    items: HashSet<String>,
    mentions: Vec<Mention>,
}

struct Mention {
    path: Vec<String>,
    line: usize,
    kind: Mentioned,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mentioned {
    Use,
    Glob,
    /// `pub use`, of any visibility.
    Export,
    /// In the middle of code.
    Inline,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Target {
    Module(usize),
    /// An item, by its file.
    Item(usize),
}

impl Tree {
    fn add(&mut self, path: &[String], file: String, code: &[Token]) {
        let file = {
            self.files.push(file);
            self.files.len() - 1
        };
        let mut open = vec![(self.module(path.to_vec(), file), 0)];
        let mut depth = 0;
        let mut at = 0;
        while at < code.len() {
            let (here, begin) = *open.last().expect("the file's own module stays");
            let token = &code[at];
            let next = |ahead: usize| code.get(at + ahead);
            let follows = |text: &str| next(1).is_some_and(|token| token.is(text));
            if token.is("{") {
                depth += 1;
            } else if token.is("}") {
                depth -= 1;
                if open.len() > 1 && depth == begin {
                    open.pop();
                }
            } else if token.is("#") && (follows("[") || follows("!")) {
                at = source::group(code, at + if follows("[") { 1 } else { 2 });
                continue;
            } else if token.is("pub") && follows("(") {
                at = source::group(code, at + 1);
                continue;
            } else if token.is("mod") && next(2).is_some_and(|token| token.is("{")) {
                let mut path = self.modules[here].path.clone();
                path.push(code[at + 1].text.to_owned());
                open.push((self.module(path, file), depth));
                at += 2;
                continue;
            } else if token.is("use") && !follows("<") {
                let end = (at..code.len()).find(|&i| code[i].is(";")).unwrap_or(code.len());
                let is_export = at > 0 && (code[at - 1].is("pub") || code[at - 1].is(")"));
                self.modules[here].import(&code[at + 1..end], is_export);
                at = end + 1;
                continue;
            } else if token.kind == Kind::Ident {
                at += self.modules[here].code(code, at);
                continue;
            }
            at += 1;
        }
    }

    fn module(&mut self, path: Vec<String>, file: usize) -> usize {
        self.modules.push(Module { path: path.clone(), file, ..Module::default() });
        // Of two files for one module, by `cfg`, paths lead to the first.
        self.by_path.entry(path).or_insert(self.modules.len() - 1);
        self.modules.len() - 1
    }

    fn imports(self) -> Imports {
        let mut edges = BTreeMap::<_, Vec<Import>>::new();
        for module in &self.modules {
            for mention in &module.mentions {
                let to = match self.resolve(module, &mention.path, 0) {
                    Some(Target::Item(file)) => file,
                    Some(Target::Module(target)) if mention.kind == Mentioned::Glob => {
                        self.modules[target].file
                    }
                    _ => continue,
                };
                let shows_own = mention.kind == Mentioned::Export && self.is_below(to, &module.path);
                if to != module.file && !shows_own {
                    let import = Import { line: mention.line, written: mention.path.join("::") };
                    edges.entry((module.file, to)).or_default().push(import);
                }
            }
        }
        Imports { files: self.files, edges }
    }

    /// Whether `file` belongs to a module below `path`.
    fn is_below(&self, file: usize, path: &[String]) -> bool {
        self.modules.iter().any(|module| module.file == file && module.path.starts_with(path))
    }

    fn child(&self, of: &Module, name: &str) -> Option<usize> {
        let mut path = of.path.clone();
        path.push(name.to_owned());
        self.by_path.get(&path).copied()
    }

    /// The target of `path` as it is written in `module`; nothing, if it lies outside the crate.
    fn resolve(&self, module: &Module, path: &[String], depth: usize) -> Option<Target> {
        if depth > 20 {
            return None;
        }
        let mut base = module.path.as_slice();
        let mut rest = path;
        match path.first()?.as_str() {
            "crate" => (base, rest) = (&[], &path[1..]),
            "self" => rest = &path[1..],
            "super" => {
                while rest.first().is_some_and(|segment| segment == "super") {
                    (base, rest) = (&base[..base.len().checked_sub(1)?], &rest[1..]);
                }
            }
            // A bare path begins with a name that this module has or has imported, or with another crate.
            head => {
                let known = self.child(module, head).is_some() || module.names.contains_key(head);
                if !known {
                    return None;
                }
            }
        }
        self.follow(*self.by_path.get(base)?, rest, depth)
    }

    fn follow(&self, module: usize, rest: &[String], depth: usize) -> Option<Target> {
        let (here_at, here) = (module, &self.modules[module]);
        let Some(head) = rest.first() else { return Some(Target::Module(module)) };
        let bound: Vec<Target> = here.names.get(head).map_or(Vec::new(), |paths| {
            // An import of another crate's item leads nowhere here.
            paths.iter().filter_map(|path| self.resolve(here, path, depth + 1)).collect()
        });
        let child = self.child(here, head);
        if rest.len() > 1 {
            let modules = bound.iter().filter_map(|target| match target {
                Target::Module(module) => Some(*module),
                Target::Item(_) => None,
            });
            let module = child.into_iter().chain(modules).next();
            let module = module.or_else(|| match self.through_globs(here_at, head, depth) {
                Some(Some(Target::Module(module))) => Some(module),
                _ => None,
            });
            if let Some(module) = module {
                return self.follow(module, &rest[1..], depth + 1);
            }
        }
        if let Some(item) = bound.iter().find(|target| matches!(target, Target::Item(_))) {
            return Some(*item);
        }
        if here.items.contains(head) {
            return Some(Target::Item(here.file));
        }
        if let Some(target) = child.map(Target::Module).or(bound.first().copied()) {
            return Some(target);
        }
        if here.names.contains_key(head) {
            return None;
        }
        // An item that a glob brings in, or that a macro of this file makes.
        self.through_globs(module, head, depth).unwrap_or(Some(Target::Item(here.file)))
    }

    /// The target of `name` among what the globs of `module` bring in; `None` inside if that lies outside the crate.
    fn through_globs(&self, module: usize, name: &String, depth: usize) -> Option<Option<Target>> {
        let here = &self.modules[module];
        let modules = here.globs.iter().filter_map(|glob| match self.resolve(here, glob, depth + 1) {
            Some(Target::Module(module)) if depth < 20 => Some(module),
            _ => None,
        });
        modules.into_iter().find_map(|module| self.named(module, name, depth + 1))
    }

    /// The target of `name` in `module`, or among what its globs bring in.
    fn named(&self, module: usize, name: &String, depth: usize) -> Option<Option<Target>> {
        let here = &self.modules[module];
        let has =
            here.items.contains(name) || here.names.contains_key(name) || self.child(here, name).is_some();
        if has {
            return Some(self.follow(module, std::slice::from_ref(name), depth));
        }
        self.through_globs(module, name, depth)
    }
}

impl Module {
    /// Reads the tree of a `use` declaration.
    fn import(&mut self, tree: &[Token], is_export: bool) {
        let kind = if is_export { Mentioned::Export } else { Mentioned::Use };
        for leaf in source::leaves(tree) {
            let mention = |kind| Mention { path: leaf.path.clone(), line: leaf.line, kind };
            match leaf.name {
                Some(name) => {
                    self.mentions.push(mention(kind));
                    self.names.entry(name).or_default().push(leaf.path);
                }
                None => {
                    self.mentions.push(mention(Mentioned::Glob));
                    self.globs.push(leaf.path);
                }
            }
        }
    }

    /// Reads the item or the path at `at`; returns how many tokens that took.
    fn code(&mut self, code: &[Token], at: usize) -> usize {
        const NAMED: [&str; 8] = ["fn", "struct", "enum", "union", "trait", "type", "const", "static"];
        let word = code[at].text;
        if NAMED.contains(&word) {
            let name =
                code.get(at + 1).filter(|next| next.kind == Kind::Ident && !NAMED.contains(&next.text));
            self.items.extend(name.map(|name| name.text.to_owned()));
            return if name.is_some() { 2 } else { 1 };
        }
        if word == "macro_rules" && code.get(at + 2).is_some_and(|name| name.kind == Kind::Ident) {
            self.items.insert(code[at + 2].text.to_owned());
            return 3;
        }
        let mut path = vec![word.to_owned()];
        let mut end = at + 1;
        while end + 1 < code.len() && code[end].is("::") && code[end + 1].kind == Kind::Ident {
            path.push(code[end + 1].text.to_owned());
            end += 2;
        }
        let before = at.checked_sub(1).map(|before| &code[before]);
        let continues = before
            .is_some_and(|before| before.is("::") || before.is(".") || (before.is("$") && word != "crate"));
        if path.len() > 1 && !continues {
            self.mentions.push(Mention { path, line: code[at].line, kind: Mentioned::Inline });
        }
        end - at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The imports of a crate of these files, as `from > to`.
    fn edges(files: &[(&str, &str)]) -> Vec<String> {
        let mut tree = Tree::default();
        for (file, text) in files {
            let path = file.trim_end_matches(".rs").trim_end_matches("mod").trim_end_matches('/');
            let path: Vec<String> =
                path.split('/').filter(|part| *part != "lib").map(str::to_owned).collect();
            let all = source::tokens(text);
            tree.add(&path, (*file).to_owned(), &source::shipped(&all));
        }
        let imports = tree.imports();
        let name = |file: usize| imports.files[file].trim_end_matches(".rs");
        imports.edges.keys().map(|(from, to)| format!("{} > {}", name(*from), name(*to))).collect()
    }

    const BASE: [(&str, &str); 3] = [
        ("lib.rs", "pub mod thread; mod vp; pub use thread::Thread;"),
        ("thread/mod.rs", "mod state; mod run; pub(crate) use state::{Thread, Word as W}; fn helper() {}"),
        ("thread/state.rs", "pub struct Thread; pub struct Word;"),
    ];

    fn with(file: &str, text: &str) -> Vec<String> {
        edges(&[&BASE[..], &[(file, text)]].concat())
    }

    #[test]
    fn globs_are_followed_through_globs() {
        let face = ("lib.rs", "mod low; mod vp; pub mod face { pub(crate) use crate::low::*; }");
        let low = [
            ("low/mod.rs", "mod door; pub(crate) use door::*;"),
            ("low/door.rs", "pub use std::Arc; pub struct Cell;"),
        ];
        let of = |text| edges(&[&[face], &low[..], &[("vp.rs", text)]].concat());
        let own = of("use std::Arc;");
        assert_eq!(of("use crate::face::Arc;"), own, "it lies outside");
        let with = |edge: &str| [&own[..], &[edge.to_owned()]].concat();
        assert_eq!(of("use crate::face::Cell;"), with("vp > low/door"));
        assert_eq!(of("use crate::face::door::Cell;"), with("vp > low/door"));
    }

    #[test]
    fn a_facade_that_shows_its_own_modules_imports_nothing() {
        assert_eq!(edges(&BASE), [""; 0]);
    }

    #[test]
    fn re_exports_lead_to_the_file_that_defines() {
        assert_eq!(with("vp.rs", "use crate::Thread;"), ["vp > thread/state"]);
        assert_eq!(with("vp.rs", "use crate::thread::W;"), ["vp > thread/state"]);
        assert_eq!(with("vp.rs", "use crate::thread::helper;"), ["vp > thread/mod"]);
    }

    #[test]
    fn a_re_export_from_elsewhere_is_an_import() {
        assert_eq!(with("vp.rs", "pub(crate) use crate::thread::W;"), ["vp > thread/state"]);
    }

    #[test]
    fn groups_nest() {
        let found = with("vp.rs", "use {std::fmt, crate::{thread::{self, state::{Word, Thread}}, vp::X}}; ");
        assert_eq!(found, ["vp > thread/state"]);
    }

    #[test]
    fn paths_in_code_count_and_modules_alone_do_not() {
        assert_eq!(with("vp.rs", "fn f() { crate::thread::helper() }"), ["vp > thread/mod"]);
        assert_eq!(with("vp.rs", "use crate::thread;"), [""; 0]);
        assert_eq!(
            with("vp.rs", "use crate::thread; fn f(x: thread::state::Word) {}"),
            ["vp > thread/state"]
        );
        assert_eq!(with("vp.rs", "pub(in crate::thread) fn f() { x.crate_::y }"), [""; 0]);
        assert_eq!(
            with("vp.rs", "macro_rules! m { () => { $crate::thread::W::new() } }"),
            ["vp > thread/state"]
        );
    }

    #[test]
    fn super_and_bare_paths_are_followed() {
        assert_eq!(with("thread/run.rs", "use super::state::Word;"), ["thread/run > thread/state"]);
        assert_eq!(with("thread/run.rs", "use super::W;"), ["thread/run > thread/state"]);
        assert_eq!(
            with("thread/run.rs", "mod os { use super::super::helper; }"),
            ["thread/run > thread/mod"]
        );
        assert_eq!(with("thread/run.rs", "use std::thread; fn f() { thread::park() }"), [""; 0]);
    }

    #[test]
    fn tests_comments_and_strings_import_nothing() {
        let text = "#[cfg(test)] mod tests { use crate::Thread; } // crate::thread::W\nconst A: &str = \"crate::Thread\";";
        assert_eq!(with("vp.rs", text), [""; 0]);
        assert_eq!(with("vp.rs", "#[cfg(all(test, loom))] use crate::Thread;"), [""; 0]);
    }

    #[test]
    fn globs_count_as_imports_of_the_module_and_show_its_names() {
        assert_eq!(with("vp.rs", "use crate::thread::state::*;"), ["vp > thread/state"]);
        let mut files = BASE.to_vec();
        files.extend([("vp.rs", "pub use crate::thread::*;"), ("time.rs", "use crate::vp::W;")]);
        assert_eq!(edges(&files), ["vp > thread/mod", "time > thread/state"]);
    }
}
