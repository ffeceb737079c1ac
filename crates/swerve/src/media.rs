//! Content types, by the file's name. What is in a file is not looked at: a type that depends on the
//! bytes would have to be found before the head of each answer, and can be wrong in ways that nobody foresees.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use http::HeaderValue;

const TEXT: &str = "text/plain; charset=utf-8";

/// The media type to announce for a file of this name.
///
/// Text is announced as UTF-8: without a charset, browsers fall back to one of the last century.
pub(crate) fn content_type(name: &Path) -> HeaderValue {
    if let Some(usual) = usual(name) {
        return HeaderValue::from_static(usual);
    }
    if is_plain_text(name) {
        return HeaderValue::from_static(TEXT);
    }
    let Some(guess) = mime_guess::from_path(name).first_raw() else {
        return HeaderValue::from_static("application/octet-stream");
    };
    let textual = guess.starts_with("text/")
        || matches!(guess, "application/javascript" | "application/json" | "image/svg+xml");
    if textual {
        HeaderValue::from_str(&format!("{guess}; charset=utf-8")).unwrap_or(HeaderValue::from_static(guess))
    } else {
        HeaderValue::from_static(guess)
    }
}

/// The types of what is asked for most, made beforehand.
fn usual(name: &Path) -> Option<&'static str> {
    Some(match name.extension()?.as_bytes() {
        b"html" => "text/html; charset=utf-8",
        b"css" => "text/css; charset=utf-8",
        b"js" => "text/javascript; charset=utf-8",
        b"json" => "application/json; charset=utf-8",
        b"txt" => TEXT,
        b"png" => "image/png",
        b"jpg" | b"jpeg" => "image/jpeg",
        b"svg" => "image/svg+xml; charset=utf-8",
        b"webp" => "image/webp",
        b"woff2" => "font/woff2",
        _ => return None,
    })
}

/// Text that the table of types does not know, or takes for something else. `.ts` is registered for MPEG transport
/// streams and used for TypeScript, which is what a tree of files has more often; players go by the
/// playlist and by the bytes, and browsers show text.
fn is_plain_text(name: &Path) -> bool {
    /// In a tree of sources, without an extension or with a variant after a dash (`LICENSE-MIT`).
    const NAMES: [&str; 18] = [
        "README",
        "LICENSE",
        "LICENCE",
        "COPYING",
        "NOTICE",
        "AUTHORS",
        "CONTRIBUTORS",
        "CHANGELOG",
        "CHANGES",
        "NEWS",
        "TODO",
        "INSTALL",
        "VERSION",
        "CONTRIBUTING",
        "CODEOWNERS",
        "MAKEFILE",
        "DOCKERFILE",
        "PATENTS",
    ];
    const EXTENSIONS: [&str; 10] = ["ts", "mts", "cts", "tsx", "lock", "mod", "sum", "cfg", "adoc", "diff"];
    let is_one_of =
        |all: &[&str], one: &[u8]| all.iter().any(|name| name.as_bytes().eq_ignore_ascii_case(one));
    match (name.file_stem(), name.extension()) {
        (Some(stem), None) => {
            let stem = stem.as_bytes();
            let base = stem.split(|byte| matches!(byte, b'-' | b'_')).next().unwrap_or(stem);
            is_one_of(&NAMES, base)
        }
        (_, Some(extension)) => is_one_of(&EXTENSIONS, extension.as_bytes()),
        (None, None) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is made beforehand is what would have been made.
    #[test]
    fn the_usual_is_no_different() {
        for extension in ["html", "css", "js", "json", "txt", "png", "jpg", "jpeg", "svg", "webp", "woff2"] {
            let usual = content_type(Path::new(&format!("x.{extension}")));
            // In capitals it is not looked for among the usual.
            assert_eq!(usual, content_type(Path::new(&format!("x.{}", extension.to_uppercase()))));
        }
    }

    #[test]
    fn by_name() {
        for (name, expect) in [
            ("a/index.html", "text/html; charset=utf-8"),
            ("README.TXT", TEXT),
            ("x.png", "image/png"),
            ("x.wasm", "application/wasm"),
            ("x.json", "application/json; charset=utf-8"),
            ("archive.tar.gz", "application/gzip"),
            ("README", TEXT),
            ("a/License", TEXT),
            ("LICENSE-APACHE", TEXT),
            ("COPYING", TEXT),
            ("Makefile", TEXT),
            ("x.ts", TEXT),
            ("x.d.ts", TEXT),
            ("x.TSX", TEXT),
            ("Cargo.lock", TEXT),
            ("x.md", "text/markdown; charset=utf-8"),
            ("x.mp4", "video/mp4"),
            (".profile", "application/octet-stream"),
            ("a", "application/octet-stream"),
            ("licensed", "application/octet-stream"),
            ("x.no-such-extension", "application/octet-stream"),
        ] {
            assert_eq!(content_type(Path::new(name)), expect, "{name}");
        }
    }
}
