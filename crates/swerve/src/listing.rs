//! The page that lists a directory.
//!
//! It is made as its client takes it. Names are read from the directory some at a time, in order
//! ([`Tree::entries`](crate::tree::Tree::entries)). Their details are looked up a chunk at a time. Sent parts of the
//! page are not kept. So a client that is slow holds [`NAMES`] and a chunk or two,
//! whatever the directory holds. A file that is created or removed meanwhile may be missing or listed. Nothing is
//! listed twice.
//!
//! Names are whatever bytes the file system holds, so each is written twice in two languages:
//! percent-encoded in the link, and escaped for HTML where people read it.

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::fs::FileType;

use crate::clock::Moment;
use crate::platform::{Found, Wait};
use crate::target::encode_name;
use crate::tree::{Entry, Refusal, Tree};

/// A listing stops here: a page of a hundred megabytes serves nobody.
const MOST_ROWS: usize = 50_000;
/// A chunk of a page, in rows: some 50 kB of text.
const ROWS: usize = 256;
/// Number of bytes of names that are read from the directory at a time. For each such part the directory is read
/// once from beginning to end.
const NAMES: usize = 128 * 1024;

/// A page in the making.
pub(crate) struct Page {
    directory: Found,
    path: PathBuf,
    /// Waits that the directory's own calls may make.
    wait: Wait,
    /// Read, and not looked at.
    names: VecDeque<Entry>,
    last: Option<Entry>,
    /// Whether there may be names after the last.
    more: bool,
    taken: usize,
    most: usize,
    has_begun: bool,
}

/// Some rows of a page.
pub(crate) struct Part {
    rows: Vec<Row>,
    is_last: bool,
}

/// One entry of a directory.
#[derive(Debug)]
struct Row {
    entry: Entry,
    state: State,
}

/// Its details, as far as they are known.
#[derive(Debug)]
pub(crate) enum State {
    /// Nothing yet: it lies elsewhere.
    Unseen,
    /// Only what the directory itself says, and no more will be.
    Listed,
    /// It would not be served.
    Gone,
    Seen {
        /// Length of a file; `None` for a directory.
        len: Option<u64>,
        /// Time of change, in seconds since 1970.
        modified: i64,
    },
}

impl State {
    fn of(found: Result<Found, Refusal>) -> State {
        match found {
            Ok(found) => State::Seen {
                len: (found.kind != FileType::Directory).then_some(found.identity.len),
                modified: found.identity.modified.0,
            },
            Err(Refusal::Elsewhere) => State::Unseen,
            Err(_) => State::Gone, // removed meanwhile, say
        }
    }
}

/// Entries that lie elsewhere: they are looked at apart from the page, which does not wait long for them.
pub(crate) struct Details {
    paths: Vec<PathBuf>,
    seen: Arc<Mutex<Vec<State>>>,
}

impl Page {
    /// The page of the directory that was found at `path`; `wait`: by which calls.
    pub(crate) fn new(directory: Found, path: PathBuf, wait: Wait) -> Page {
        Page {
            directory,
            path,
            wait,
            names: VecDeque::new(),
            last: None,
            more: true,
            taken: 0,
            most: MOST_ROWS,
            has_begun: false,
        }
    }

    /// Path of the directory.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Looks at the next entries. Waits for the disk.
    pub(crate) fn next(&mut self, tree: &Tree) -> io::Result<Part> {
        let mut rows = Vec::new();
        while rows.len() < ROWS && self.taken < self.most {
            if self.names.is_empty() {
                if !self.more {
                    break;
                }
                let (names, more) =
                    tree.entries(&self.directory, &self.path, self.last.as_ref(), NAMES, self.wait)?;
                self.more = more;
                self.last = names.last().cloned();
                self.names = names.into();
                continue;
            }
            let Some(entry) = self.names.pop_front() else { break };
            self.taken += 1;
            let state = match self.wait {
                Wait::Anything => State::Unseen,
                wait => {
                    let name = Path::new(&entry.name);
                    State::of(tree.look_at_entry(&self.directory, &self.path, name, wait))
                }
            };
            // On a directory, another file system is mounted. There is little to be said of it.
            let is_mount = !entry.is_no_directory && self.wait != Wait::Anything;
            let state = if is_mount && matches!(state, State::Unseen) { State::Listed } else { state };
            rows.push(Row { entry, state });
        }
        let is_last = self.taken == self.most || (self.names.is_empty() && !self.more);
        Ok(Part { rows, is_last })
    }

    /// The entries of a part that lie elsewhere, if there are any. Their details come into the list.
    pub(crate) fn details(&self, part: &Part) -> Option<(Details, Arc<Mutex<Vec<State>>>)> {
        let unseen = part.rows.iter().filter(|row| row.is_unseen());
        let paths: Vec<_> = unseen.map(|row| self.path.join(&row.entry.name)).collect();
        let seen = Arc::<Mutex<Vec<State>>>::default();
        (!paths.is_empty()).then(|| (Details { paths, seen: seen.clone() }, seen))
    }

    /// The text of the rows, with what comes before the first and after the last.
    pub(crate) fn render(&mut self, part: &Part) -> String {
        let mut page = String::new();
        if !std::mem::replace(&mut self.has_begun, true) {
            self.begin(&mut page);
        }
        for row in &part.rows {
            row.render(&mut page);
        }
        if part.is_last {
            page.push_str("</table>\n");
            if self.more || !self.names.is_empty() {
                let _ = writeln!(page, "<p>Only the first {} entries are shown.</p>", self.taken);
            }
            page.push_str("</body>\n</html>\n");
        }
        page
    }

    fn begin(&self, page: &mut String) {
        let mut title = String::from("/");
        for name in &self.path {
            escape(&name.to_string_lossy(), &mut title);
            title.push('/');
        }
        let _ = write!(
            page,
            "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width\">\n<title>{title}</title>\n\
             <style>body{{font-family:sans-serif;margin:2em}}td{{padding:.1em 1.5em .1em 0}}\
             td+td{{font-family:monospace;text-align:right;white-space:nowrap}}</style>\n\
             </head>\n<body>\n<h1><bdi>{title}</bdi></h1>\n<table>\n"
        );
        if self.path.components().next().is_some() {
            page.push_str("<tr><td><a href=\"../\">../</a></td><td></td><td></td></tr>\n");
        }
    }
}

impl Part {
    /// Whether there is no more of the page.
    pub(crate) fn is_last(&self) -> bool {
        self.is_last
    }

    /// Part of [`Page::details`] that was seen. An entry that was not seen is shown as the directory has it, unless
    /// it
    /// may be a link.
    pub(crate) fn fill_in(&mut self, seen: Vec<State>) {
        let mut seen = seen.into_iter();
        for row in self.rows.iter_mut().filter(|row| row.is_unseen()) {
            let otherwise = if row.entry.may_be_link { State::Gone } else { State::Listed };
            row.state = seen.next().unwrap_or(otherwise);
        }
    }
}

impl Details {
    /// Looks at one after the other. Waits for anything.
    pub(crate) fn look(&self, tree: &Tree) {
        for path in &self.paths {
            let state = State::of(tree.look(path, Wait::Anything));
            self.seen.lock().unwrap_or_else(PoisonError::into_inner).push(state);
        }
    }
}

impl Row {
    fn is_unseen(&self) -> bool {
        matches!(self.state, State::Unseen)
    }

    fn render(&self, page: &mut String) {
        let (is_directory, len, modified) = match self.state {
            State::Gone => return,
            State::Unseen | State::Listed => (!self.entry.is_no_directory, None, None),
            State::Seen { len, modified } => (len.is_none(), len, Some(modified)),
        };
        let slash = if is_directory { "/" } else { "" };
        let name = &self.entry.name;
        let _ = write!(page, "<tr><td><a href=\"{}{slash}\"><bdi>", encode_name(name.as_bytes()));
        escape(&name.to_string_lossy(), page);
        let _ = write!(page, "</bdi>{slash}</a></td><td>");
        match len {
            Some(len) => {
                let _ = write!(page, "{len}");
            }
            None => page.push('-'),
        }
        page.push_str("</td><td>");
        if let Some(modified) = modified {
            page.push_str(&Moment::from_unix(modified).for_listing());
        }
        page.push_str("</td></tr>\n");
    }
}

/// Writes a name for people. An invisible character, or one that changes its neighbours' look, is written as
/// `\u{..}`, and a backslash of the name as two.
fn escape(text: &str, out: &mut String) {
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\\' => out.push_str("\\\\"),
            c if c.is_control() || is_format(c) => {
                let _ = write!(out, "{}", c.escape_unicode());
            }
            c => out.push(c),
        }
    }
}

/// Whether a character orders text, ends a line, or is not there to see. The joiners (U+200C, U+200D) do not count:
/// names in some scripts need them.
fn is_format(c: char) -> bool {
    matches!(c,
        '\u{61c}' | '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

#[cfg(test)]
mod tests;
