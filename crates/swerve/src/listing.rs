//! The page that lists a directory.
//!
//! Names are whatever bytes the file system holds, so each is written twice in two languages:
//! percent-encoded in the link, and escaped for HTML where people read it.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::clock::Moment;
use crate::target::encode_name;

/// A listing stops here: a page of a hundred megabytes serves nobody.
pub(crate) const MOST_ROWS: usize = 50_000;

/// One entry of a directory.
#[derive(Debug)]
pub(crate) struct Row {
    /// The name, without a slash.
    pub(crate) name: OsString,
    /// Length of a file; `None` for a directory.
    pub(crate) len: Option<u64>,
    /// Time of change, in seconds since 1970.
    pub(crate) modified: i64,
}

/// Renders the listing of `directory` (relative to the served one). `cut`: there were more entries.
pub(crate) fn render(directory: &Path, mut rows: Vec<Row>, cut: bool) -> String {
    rows.sort_by(|a, b| (a.len.is_some(), &a.name).cmp(&(b.len.is_some(), &b.name)));

    let mut title = String::from("/");
    for name in directory {
        escape(&name.to_string_lossy(), &mut title);
        title.push('/');
    }
    let mut page = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n<title>{title}</title>\n\
         <style>body{{font-family:sans-serif;margin:2em}}td{{padding:.1em 1.5em .1em 0}}\
         td+td{{font-family:monospace;text-align:right;white-space:nowrap}}</style>\n\
         </head>\n<body>\n<h1>{title}</h1>\n<table>\n"
    );
    if directory.components().next().is_some() {
        page.push_str("<tr><td><a href=\"../\">../</a></td><td></td><td></td></tr>\n");
    }
    for row in &rows {
        let slash = if row.len.is_none() { "/" } else { "" };
        let link = encode_name(row.name.as_bytes());
        let _ = write!(page, "<tr><td><a href=\"{link}{slash}\">");
        escape(&row.name.to_string_lossy(), &mut page);
        let _ = write!(page, "{slash}</a></td><td>");
        match row.len {
            Some(len) => {
                let _ = write!(page, "{len}");
            }
            None => page.push('-'),
        }
        let when = Moment::from_unix(row.modified).for_listing();
        let _ = writeln!(page, "</td><td>{when}</td></tr>");
    }
    page.push_str("</table>\n");
    if cut {
        let _ = writeln!(page, "<p>Only {} entries are shown.</p>", rows.len());
    }
    page.push_str("</body>\n</html>\n");
    page
}

fn escape(text: &str, out: &mut String) {
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c => out.push(c),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStringExt;

    use super::*;

    fn file(name: &[u8]) -> Row {
        Row { name: OsString::from_vec(name.to_vec()), len: Some(3), modified: 971_186_136 }
    }

    fn directory(name: &str) -> Row {
        Row { name: name.into(), len: None, modified: 0 }
    }

    #[test]
    fn hostile_names_stay_names() {
        let page = render(
            Path::new("<b>&"),
            vec![
                file(b"<script>alert('1')</script>"),
                file(b"\" onmouseover=\"x"),
                file(b"javascript:alert(1)"),
                file(b"a&amp;b"),
                file(b"caf\xe9"),
            ],
            false,
        );
        assert!(!page.contains("<script"));
        assert!(!page.contains("\" onmouseover"));
        assert!(!page.contains("href=\"javascript:"));
        assert!(page.contains("href=\"javascript%3Aalert%281%29\""));
        assert!(page.contains("a&amp;amp;b"));
        assert!(page.contains("href=\"caf%E9\""));
        assert!(page.contains("<title>/&lt;b&gt;&amp;/</title>"));
    }

    #[test]
    fn directories_first_then_by_name() {
        let page = render(Path::new(""), vec![file(b"b"), directory("z"), file(b"a")], false);
        let at = |link: &str| page.find(&format!("href=\"{link}\"")).unwrap();
        assert!(at("z/") < at("a") && at("a") < at("b"));
        assert!(page.contains("2000-10-10 13:55"));
    }

    #[test]
    fn the_way_up_is_shown_below_the_top_only() {
        assert!(!render(Path::new(""), vec![], false).contains("../"));
        assert!(render(Path::new("a"), vec![], false).contains("href=\"../\""));
    }

    #[test]
    fn a_cut_listing_says_so() {
        assert!(render(Path::new(""), vec![file(b"a")], true).contains("Only 1 entries"));
    }
}
