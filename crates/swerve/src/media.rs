//! Content types, by the file's name, and the charset of text, by its bytes. A type that depended on the bytes could be
//! wrong in ways that nobody foresees. A charset is another matter. The charset that is announced overrides the one
//! that the file names itself. So it is announced only for text that is UTF-8.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use http::HeaderValue;

const TEXT: &str = "text/plain";

/// The media type of a file, by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Media {
    /// The media type, without parameters.
    name: &'static str,
    /// Whether the contents are compressed (`Content-Encoding: gzip`). The type is then that of the uncompressed
    /// contents.
    pub(crate) is_gzip: bool,
}

impl Media {
    /// The media type of a file of this name.
    pub(crate) fn of(name: &Path) -> Media {
        let is_gzip = name.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("svgz"));
        let guess = || mime_guess::from_path(name).first_raw().unwrap_or("application/octet-stream");
        let known = usual(name).or_else(|| is_plain_text(name).then_some(TEXT));
        Media { name: known.unwrap_or_else(guess), is_gzip }
    }

    /// Whether its charset can be told from the bytes of the file.
    pub(crate) fn is_text(&self) -> bool {
        let is_text = self.name.starts_with("text/")
            || matches!(self.name, "application/javascript" | "application/json" | "image/svg+xml");
        is_text && !self.is_gzip
    }

    /// The value of `Content-Type`. Without a charset, browsers use the one that the file names itself, or an old
    /// default.
    pub(crate) fn content_type(&self, is_utf8: bool) -> HeaderValue {
        let bare = HeaderValue::from_static(self.name);
        if !is_utf8 || !self.is_text() {
            return bare;
        }
        HeaderValue::from_str(&format!("{}; charset=utf-8", self.name)).unwrap_or(bare)
    }
}

/// Whether text that begins with these bytes is UTF-8, as far as can be seen. The last letter may be cut off if
/// `is_whole` is false. Text with escapes does not count as UTF-8: after an escape, encodings such as ISO 2022 write
/// their letters in ASCII.
pub(crate) fn is_utf8(beginning: &[u8], is_whole: bool) -> bool {
    const ESCAPE: u8 = 0x1b;
    let is_valid = match std::str::from_utf8(beginning) {
        Ok(_) => true,
        Err(error) => !is_whole && error.error_len().is_none(),
    };
    is_valid && !beginning.contains(&ESCAPE)
}

/// The types of the most usual files, found without the table.
fn usual(name: &Path) -> Option<&'static str> {
    Some(match name.extension()?.as_bytes() {
        b"html" => "text/html",
        b"css" => "text/css",
        b"js" => "text/javascript",
        b"json" => "application/json",
        b"txt" => TEXT,
        b"png" => "image/png",
        b"jpg" | b"jpeg" => "image/jpeg",
        b"svg" => "image/svg+xml",
        b"webp" => "image/webp",
        b"woff2" => "font/woff2",
        _ => return None,
    })
}

/// Whether a file is text that the table of types does not know, or takes for something else. The extension `ts` is
/// registered for MPEG transport streams, but trees of files have more TypeScript. Players look at the playlist and the
/// bytes, and browsers show text.
fn is_plain_text(name: &Path) -> bool {
    /// Names of text files in trees of sources. They have no extension, and may have a variant after a dash
    /// (`LICENSE-MIT`).
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

    fn content_type(name: &Path) -> HeaderValue {
        Media::of(name).content_type(true)
    }

    /// The short cut finds the same types as the table.
    #[test]
    fn the_usual_is_no_different() {
        for extension in ["html", "css", "js", "json", "txt", "png", "jpg", "jpeg", "svg", "webp", "woff2"] {
            let usual = content_type(Path::new(&format!("x.{extension}")));
            // An extension in capitals is not among the usual ones.
            assert_eq!(usual, content_type(Path::new(&format!("x.{}", extension.to_uppercase()))));
        }
    }

    #[test]
    fn by_name() {
        const UTF8_TEXT: &str = "text/plain; charset=utf-8";
        for (name, expect) in [
            ("a/index.html", "text/html; charset=utf-8"),
            ("README.TXT", UTF8_TEXT),
            ("x.png", "image/png"),
            ("x.wasm", "application/wasm"),
            ("x.json", "application/json; charset=utf-8"),
            ("archive.tar.gz", "application/gzip"),
            ("README", UTF8_TEXT),
            ("a/License", UTF8_TEXT),
            ("LICENSE-APACHE", UTF8_TEXT),
            ("COPYING", UTF8_TEXT),
            ("Makefile", UTF8_TEXT),
            ("x.ts", UTF8_TEXT),
            ("x.d.ts", UTF8_TEXT),
            ("x.TSX", UTF8_TEXT),
            ("Cargo.lock", UTF8_TEXT),
            ("x.md", "text/markdown; charset=utf-8"),
            ("x.mp4", "video/mp4"),
            (".profile", "application/octet-stream"),
            ("a", "application/octet-stream"),
            ("licensed", "application/octet-stream"),
            ("x.no-such-extension", "application/octet-stream"),
            ("x.svg", "image/svg+xml; charset=utf-8"),
            ("x.svgz", "image/svg+xml"),
            ("x.SVGZ", "image/svg+xml"),
        ] {
            assert_eq!(content_type(Path::new(name)), expect, "{name}");
        }
    }

    /// The charset that is announced overrides the one that the file names itself.
    #[test]
    fn only_utf8_is_announced_and_only_of_text() {
        for (bytes, is_whole, expect) in [
            (&b""[..], true, true),
            (b"plain", true, true),
            ("gr\u{fc}n".as_bytes(), true, true),
            (b"gr\xfcn", true, false),
            (b"\xff\xfea\0", true, false),
            (b"gr\xc3", false, true),
            (b"gr\xc3", true, false),
            (b"gr\xc3n", false, false),
            (b"\x1b$B8@8l\x1b(B", true, false),
        ] {
            assert_eq!(is_utf8(bytes, is_whole), expect, "{bytes:?}");
        }
        assert_eq!(Media::of(Path::new("x.html")).content_type(false), "text/html");
        assert_eq!(Media::of(Path::new("x.png")).content_type(true), "image/png");
        assert!(Media::of(Path::new("x.svgz")).is_gzip && !Media::of(Path::new("x.svg.gz")).is_gzip);
    }
}
