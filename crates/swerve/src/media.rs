//! Content types, by the extension of the file's name.

use std::path::Path;

use http::HeaderValue;

/// The media type to announce for a file of this name.
///
/// Text is announced as UTF-8: without a charset, browsers fall back to one of the last century.
pub(crate) fn content_type(name: &Path) -> HeaderValue {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn by_extension() {
        for (name, expect) in [
            ("a/index.html", "text/html; charset=utf-8"),
            ("README.TXT", "text/plain; charset=utf-8"),
            ("x.png", "image/png"),
            ("x.wasm", "application/wasm"),
            ("x.json", "application/json; charset=utf-8"),
            ("archive.tar.gz", "application/gzip"),
            ("Makefile", "application/octet-stream"),
            (".profile", "application/octet-stream"),
            ("x.no-such-extension", "application/octet-stream"),
        ] {
            assert_eq!(content_type(Path::new(name)), expect, "{name}");
        }
    }
}
