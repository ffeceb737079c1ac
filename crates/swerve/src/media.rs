//! Content types, by the extension of the file's name.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use http::HeaderValue;

/// The media type to announce for a file of this name.
///
/// Text is announced as UTF-8: without a charset, browsers fall back to one of the last century.
pub(crate) fn content_type(name: &Path) -> HeaderValue {
    if let Some(usual) = usual(name) {
        return HeaderValue::from_static(usual);
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
        b"txt" => "text/plain; charset=utf-8",
        b"png" => "image/png",
        b"jpg" | b"jpeg" => "image/jpeg",
        b"svg" => "image/svg+xml; charset=utf-8",
        b"webp" => "image/webp",
        b"woff2" => "font/woff2",
        _ => return None,
    })
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
