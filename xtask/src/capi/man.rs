//! Man pages, from the comments of the header.

use super::header::Prototype;

/// The version of the workspace.
pub(super) fn version(manifest: &str) -> Result<String, String> {
    let line = manifest.lines().find_map(|line| line.strip_prefix("version = \""));
    let version = line.and_then(|line| line.strip_suffix('"'));
    version.map(str::to_owned).ok_or_else(|| "the workspace has no version".to_owned())
}

/// The page of a function of a header.
pub(super) fn page(prototype: &Prototype, header: &str, version: &str) -> String {
    let Prototype { name, comment, text, .. } = prototype;
    let first = comment.first().map_or("", |paragraph| paragraph.as_str());
    let sentence = first.split(". ").next().unwrap_or(first).trim_end_matches('.');
    let mut page =
        format!(".TH {} 3 \"\" \"Chanter {version}\" \"The C interface of Chanter\"\n", name.to_uppercase());
    page += &format!(".SH NAME\n{} \\- {}\n", escaped(name), escaped(sentence));
    page += &format!(".SH SYNOPSIS\n.nf\n.B #include <{header}>\n.PP\n");
    page += &format!(".B \"{}\"\n.fi\n", escaped(text));
    page += ".SH DESCRIPTION\n";
    for (at, paragraph) in comment.iter().enumerate() {
        if at > 0 {
            page += ".PP\n";
        }
        page += &format!("{}\n", escaped(paragraph));
    }
    page += ".SH RETURN VALUE\n";
    page += match prototype.types.last().map(String::as_str) {
        Some("int") if name.starts_with("chanter_") || !text.contains("const pthread_chanter_t *t") => {
            "A function that may fail returns 0 or a positive\n.I errno\ncode, unless the description says otherwise.\n"
        }
        Some("nothing") => "None.\n",
        _ => "As described.\n",
    };
    page + ".SH SEE ALSO\nThe rules of all calls, and the places where each may run, are at the beginning of\n.IR chanter.h .\n"
}

/// A text in which `troff` sees no commands, with code in bold.
fn escaped(text: &str) -> String {
    let mut bold = false;
    let mut escaped = String::new();
    for (at, letter) in text.chars().enumerate() {
        match letter {
            '\\' => escaped.push_str("\\e"),
            '-' => escaped.push_str("\\-"),
            '"' => escaped.push_str("\\(dq"),
            '`' => {
                bold = !bold;
                escaped.push_str(if bold { "\\fB" } else { "\\fR" });
            }
            '.' | '\'' if at == 0 => {
                escaped.push_str("\\&");
                escaped.push(letter);
            }
            _ => escaped.push(letter),
        }
    }
    escaped
}
