//! The table in `table.md`.

use std::fmt;

/// Whether a type has a trait.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answer {
    Yes,
    No,
    If(&'static str),
    /// Not filled in yet, or not understood.
    Unknown,
}

const CONDITIONS: [&str; 4] = ["T: Send", "T: Sync", "T: Send + Sync", "T: Unpin"];

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Variance {
    Covariant,
    Contravariant,
    Invariant,
    Unknown,
}

/// A type: its text, in which `T` and the lifetimes but `'static` and `'x` are holes.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) text: String,
    /// `Send`, `Sync`, `Unpin`.
    pub(crate) traits: [Answer; 3],
    pub(crate) variances: Vec<(String, Variance)>,
}

#[derive(Clone)]
pub(crate) struct Section {
    /// `chanter::channel`.
    pub(crate) module: String,
    pub(crate) rows: Vec<Row>,
    /// Public names that are traits.
    pub(crate) traits: Vec<String>,
}

#[derive(Clone)]
pub(crate) struct Table {
    /// The text before the first section.
    prose: String,
    pub(crate) sections: Vec<Section>,
}

impl Table {
    pub(crate) fn read(text: &str) -> Self {
        let mut parts = text.split("\n## ");
        let prose = parts.next().expect("the first").to_owned();
        Self { prose, sections: parts.map(Section::read).collect() }
    }

    pub(crate) fn rows(&self) -> impl Iterator<Item = &Row> {
        self.sections.iter().flat_map(|section| &section.rows)
    }
}

impl Section {
    fn read(text: &str) -> Self {
        let (module, body) = text.split_once('\n').expect("a heading");
        let rows = body.lines().filter(|line| line.starts_with("| `")).map(Row::read).collect();
        let traits = body.lines().filter_map(|line| line.strip_prefix("Traits: "));
        let traits = traits.flat_map(|line| line.split(['`', ',', '.', ' '])).filter(|name| !name.is_empty());
        Self { module: module.to_owned(), rows, traits: traits.map(str::to_owned).collect() }
    }

    /// Of its types and traits.
    pub(crate) fn names(&self) -> impl Iterator<Item = String> {
        let entries = self.rows.iter().map(|row| &row.text).chain(&self.traits);
        entries.map(|entry| entry.split('<').next().expect("the first").to_owned())
    }
}

impl Row {
    fn read(line: &str) -> Self {
        let mut cells = line.trim_matches('|').split('|').map(str::trim);
        let mut next = || cells.next().unwrap_or("");
        let text = next().trim_matches('`').to_owned();
        let traits = [(); 3].map(|()| Answer::read(next()));
        let variances = next().split(", ").filter_map(|cell| cell.trim_matches('`').split_once("` "));
        let variances = variances.map(|(hole, word)| (hole.to_owned(), Variance::read(word)));
        Self { text, traits, variances: variances.collect() }
    }

    /// Its pieces; those that are a hole or may be one are alone.
    fn pieces(&self) -> Vec<&str> {
        let mut pieces = Vec::new();
        let mut rest = self.text.as_str();
        while !rest.is_empty() {
            let is_word = |c: char| c.is_alphanumeric() || c == '_';
            let start = rest.find(|c: char| is_word(c) || c == '\'').unwrap_or(rest.len());
            let quote = usize::from(rest[start..].starts_with('\''));
            let end = rest[start + quote..].find(|c| !is_word(c)).map_or(rest.len(), |at| start + quote + at);
            pieces.push(&rest[..start]);
            pieces.push(&rest[start..end]);
            rest = &rest[end..];
        }
        pieces
    }

    /// Its holes, each once.
    pub(crate) fn holes(&self) -> Vec<String> {
        let mut holes: Vec<String> = Vec::new();
        for piece in self.pieces() {
            if is_hole(piece) && !holes.iter().any(|hole| hole == piece) {
                holes.push(piece.to_owned());
            }
        }
        holes
    }

    /// Its text with something in each hole.
    pub(crate) fn filled<S: AsRef<str>>(&self, mut with: impl FnMut(&str) -> S) -> String {
        let mut text = String::new();
        for piece in self.pieces() {
            if is_hole(piece) {
                text.push_str(with(piece).as_ref());
            } else {
                text.push_str(piece);
            }
        }
        text
    }
}

fn is_hole(piece: &str) -> bool {
    piece == "T" || (piece.starts_with('\'') && piece != "'static" && piece != "'x")
}

impl Answer {
    fn read(cell: &str) -> Self {
        match cell.trim_matches('`') {
            "yes" => Self::Yes,
            "no" => Self::No,
            cell => {
                CONDITIONS.iter().find(|known| **known == cell).map_or(Self::Unknown, |known| Self::If(known))
            }
        }
    }
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Yes => f.write_str("yes"),
            Self::No => f.write_str("no"),
            Self::If(condition) => write!(f, "`{condition}`"),
            Self::Unknown => f.write_str("?"),
        }
    }
}

impl Variance {
    fn read(word: &str) -> Self {
        match word {
            "covariant" => Self::Covariant,
            "contravariant" => Self::Contravariant,
            "invariant" => Self::Invariant,
            _ => Self::Unknown,
        }
    }
}

impl fmt::Display for Variance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Covariant => "covariant",
            Self::Contravariant => "contravariant",
            Self::Invariant => "invariant",
            Self::Unknown => "?",
        })
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [send, sync, unpin] = &self.traits;
        write!(f, "| `{}` | {send} | {sync} | {unpin} |", self.text)?;
        for (at, (hole, variance)) in self.variances.iter().enumerate() {
            write!(f, "{} `{hole}` {variance}", if at == 0 { "" } else { "," })?;
        }
        f.write_str(" |")
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.prose)?;
        for section in &self.sections {
            write!(f, "\n## {}\n\n", section.module)?;
            if !section.rows.is_empty() {
                f.write_str("| type | `Send` | `Sync` | `Unpin` | variance |\n|---|---|---|---|---|\n")?;
            }
            for row in &section.rows {
                writeln!(f, "{row}")?;
            }
            if !section.traits.is_empty() {
                let gap = if section.rows.is_empty() { "" } else { "\n" };
                writeln!(f, "{gap}Traits: `{}`.", section.traits.join("`, `"))?;
            }
        }
        Ok(())
    }
}
