//! Sentences: out of Markdown, and out of the comments of Rust sources.

use crate::source::{self, Kind, Token};

/// Where a sentence stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Place {
    Document,
    /// In documentation that rustdoc shows.
    Public,
    Comment,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Sentence {
    pub(crate) line: usize,
    pub(crate) place: Place,
    pub(crate) text: String,
}

/// Gathers lines into paragraphs, and these into sentences.
#[derive(Default)]
struct Paragraphs {
    found: Vec<Sentence>,
    open: Option<Sentence>,
    in_code: bool,
}

impl Paragraphs {
    fn line(&mut self, line: usize, place: Place, text: &str) {
        let trimmed = text.trim();
        if trimmed.starts_with("```") {
            self.in_code = !self.in_code;
            return self.end();
        }
        let is_reference = trimmed.starts_with('[') && trimmed.contains("]: ");
        // A heading, a line of HTML, a link's target: no sentences.
        if self.in_code || trimmed.is_empty() || trimmed.starts_with(['#', '<']) || is_reference {
            return self.end();
        }
        if trimmed.starts_with('|') {
            self.end();
            for cell in trimmed.split('|').filter(|cell| cell.contains(char::is_alphanumeric)) {
                self.sentences(line, place, cell);
            }
            return;
        }
        let item = list_item(trimmed);
        // Four spaces are code, unless a paragraph or a list goes on.
        if text.starts_with("    ") && item.is_none() && self.open.is_none() {
            return;
        }
        if item.is_some() {
            self.end();
        }
        let text = item.unwrap_or(trimmed);
        match &mut self.open {
            Some(open) => {
                open.text.push(' ');
                open.text.push_str(text);
            }
            None => self.open = Some(Sentence { line, place, text: text.to_owned() }),
        }
    }

    fn end(&mut self) {
        if let Some(open) = self.open.take() {
            self.sentences(open.line, open.place, &open.text);
        }
    }

    fn sentences(&mut self, line: usize, place: Place, paragraph: &str) {
        let text = plain(paragraph);
        let sentences = split(&text).into_iter().filter(|text| text.contains(char::is_alphanumeric));
        self.found.extend(sentences.map(|text| Sentence { line, place, text: text.to_owned() }));
    }
}

/// The text after the mark of a list item.
fn list_item(text: &str) -> Option<&str> {
    let bullet = ["- ", "* ", "+ "].iter().find_map(|mark| text.strip_prefix(mark));
    bullet.or_else(|| {
        let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        text[digits..].strip_prefix(". ").filter(|_| digits > 0)
    })
}

/// Code becomes one word, and a link its text.
fn plain(text: &str) -> String {
    let mut plain = String::new();
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let tail = &rest[c.len_utf8()..];
        if c == '`' {
            let ticks = rest.len() - rest.trim_start_matches('`').len();
            let fence = &rest[..ticks];
            if let Some(end) = rest[ticks..].find(fence) {
                plain.push_str("CODE");
                rest = &rest[2 * ticks + end..];
                continue;
            }
        } else if c == ']' {
            let closing = match tail.chars().next() {
                Some('(') => tail.find(')'),
                Some('[') => tail.find(']'),
                _ => None,
            };
            rest = closing.map_or(tail, |end| &tail[end + 1..]);
            continue;
        } else if !matches!(c, '[' | '*') {
            plain.push(c);
        }
        rest = tail;
    }
    plain
}

/// A sentence ends with a mark, a space and a capital letter.
fn split(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut begin = 0;
    let chars: Vec<(usize, char)> = text.char_indices().collect();
    for (i, &(_, c)) in chars.iter().enumerate() {
        let is_end =
            matches!(c, '.' | '!' | '?' | ':' | ';') && chars.get(i + 1).is_some_and(|next| next.1 == ' ');
        let Some(&(at, next)) = chars[i + 1..].iter().find(|next| next.1 != ' ') else { continue };
        if is_end && (next.is_uppercase() || matches!(next, '(' | '"' | '“')) {
            found.push(text[begin..at].trim());
            begin = at;
        }
    }
    found.push(text[begin..].trim());
    found
}

pub(crate) fn markdown(text: &str) -> Vec<Sentence> {
    let mut paragraphs = Paragraphs::default();
    for (at, line) in text.lines().enumerate() {
        paragraphs.line(at + 1, Place::Document, line);
    }
    paragraphs.end();
    paragraphs.found
}

/// The comments of a source. `is_public`: whether the module that the file holds is public.
pub(crate) fn rust(source: &str, is_public: bool) -> Vec<Sentence> {
    let all = source::tokens(source);
    let mut paragraphs = Paragraphs::default();
    let mut shown = Shown::default();
    let mut before: Option<(Kind, usize)> = None;
    for (at, token) in all.iter().enumerate() {
        if !token.is_comment() {
            shown.see(&all, at);
            continue;
        }
        let place = match token.kind {
            Kind::InnerDoc if is_public && shown.depth == 0 => Place::Public,
            Kind::OuterDoc if shown.is_public(&all[at..]) => Place::Public,
            _ => Place::Comment,
        };
        // A comment goes on where the line before was one of its kind, and this one has no code before it.
        let follows_code = at > 0 && all[at - 1].last == token.line;
        if follows_code || before != Some((token.kind, token.line - 1)) {
            paragraphs.end();
            paragraphs.in_code = false;
        }
        before = (!follows_code).then_some((token.kind, token.last));
        for (ahead, line) in content(token).into_iter().enumerate() {
            paragraphs.line(token.line + ahead, place, line);
        }
    }
    paragraphs.end();
    paragraphs.found
}

/// The lines of a comment without its marks.
fn content<'a>(token: &Token<'a>) -> Vec<&'a str> {
    let open = if token.kind == Kind::Comment { 2 } else { 3 };
    let text = &token.text[open..];
    if token.text.starts_with("//") {
        return vec![text.strip_prefix(' ').unwrap_or(text)];
    }
    let text = text.strip_suffix("*/").unwrap_or(text);
    text.lines().map(|line| line.trim_start().trim_start_matches('*').trim_start()).collect()
}

/// Follows the code, to know whether a doc comment is of something public.
#[derive(Default)]
struct Shown {
    depth: usize,
    /// Public enums and traits, whose variants and methods are public too: the depth of each.
    open: Vec<usize>,
    /// The enum or trait whose body begins with the next brace.
    begun: bool,
}

impl Shown {
    fn see(&mut self, all: &[Token], at: usize) {
        let token = &all[at];
        if token.is("{") {
            self.depth += 1;
            if std::mem::take(&mut self.begun) {
                self.open.push(self.depth);
            }
        } else if token.is("}") {
            if self.open.last() == Some(&self.depth) {
                self.open.pop();
            }
            self.depth = self.depth.saturating_sub(1);
        } else if token.is("pub") {
            let next = all[at + 1..].iter().find(|token| !token.is("unsafe"));
            self.begun = next.is_some_and(|token| token.is("enum") || token.is("trait"));
        } else if token.is(";") {
            self.begun = false;
        }
    }

    /// Whether the item that the comment at the beginning of `rest` documents is public.
    fn is_public(&self, rest: &[Token]) -> bool {
        if self.open.last() == Some(&self.depth) {
            return true;
        }
        let code: Vec<Token> = rest.iter().filter(|token| !token.is_comment()).take(200).copied().collect();
        let mut at = 0;
        while code.get(at).is_some_and(|token| token.is("#")) {
            at = source::group(&code, at + 1);
        }
        let is = |ahead: usize, text: &str| code.get(at + ahead).is_some_and(|token| token.is(text));
        (is(0, "pub") && !is(1, "(")) || is(0, "macro_rules")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(found: &[Sentence]) -> Vec<(usize, Place, &str)> {
        found.iter().map(|s| (s.line, s.place, s.text.as_str())).collect()
    }

    #[test]
    fn markdown_without_code_headings_and_links() {
        let text = "# Head\nOne `a.b. C` is\n[here](x.md). Two: The end.\n\n- item one\n- item two\n\n```rust\nNo.\n```\n| a | b |\n|---|---|\n\n    code\n";
        use Place::Document as D;
        assert_eq!(
            texts(&markdown(text)),
            [
                (2, D, "One CODE is here."),
                (2, D, "Two:"),
                (2, D, "The end."),
                (5, D, "item one"),
                (6, D, "item two"),
                (11, D, "a"),
                (11, D, "b")
            ]
        );
    }

    #[test]
    fn public_docs_and_comments_are_told_apart() {
        let text = "\
//! The file.

/// A pub.
#[derive(Debug)]
pub enum E {
    /// A variant.
    A, // behind code
    // alone,
    // and on.
}
/// Hidden.
pub(crate) struct S {
    /// Hidden too.
    x: u8,
}
";
        use Place::{Comment as C, Public as P};
        assert_eq!(
            texts(&rust(text, true)),
            [
                (1, P, "The file."),
                (3, P, "A pub."),
                (6, P, "A variant."),
                (7, C, "behind code"),
                (8, C, "alone, and on."),
                (11, C, "Hidden."),
                (13, C, "Hidden too.")
            ]
        );
        assert_eq!(rust("//! The file.", false)[0].place, C);
    }

    #[test]
    fn examples_in_docs_are_no_prose() {
        assert_eq!(
            texts(&rust("/// A.\n/// ```\n/// let x = 1;\n/// ```\n/// B.\npub fn f() {}", false)).len(),
            2
        );
    }
}
