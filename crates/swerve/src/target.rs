//! The *target* of a request: from the bytes of the request line to a relative path that cannot
//! climb.
//!
//! Every segment is decoded exactly once and judged after decoding, so that no second decoder
//! (ours, the kernel's) ever sees something that this one has not judged.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_encode};

/// All but the unreserved characters of RFC 3986: a name written this way is a name in every
/// context (path, attribute, `Location`), a colon and a quote included.
const NAME: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Target of a request path, relative to the served directory.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Target {
    /// Only ordinary components; empty for the served directory itself.
    pub(crate) path: PathBuf,
    /// Whether the request ended in a slash, so that only a directory will do.
    pub(crate) directory: bool,
}

/// The reason why a request path names nothing that could be served.
#[derive(Debug, PartialEq, Eq, Clone, Copy)]
pub(crate) enum BadTarget {
    /// Not a path at all: 400.
    Malformed,
    /// A path that tries to be more than names between slashes: 403.
    Forbidden,
}

impl Target {
    /// Reads the path of a request, as it came (still percent-encoded).
    pub(crate) fn parse(raw: &str) -> Result<Target, BadTarget> {
        let rest = raw.strip_prefix('/').ok_or(BadTarget::Malformed)?;
        let mut path = Vec::with_capacity(rest.len());
        let mut directory = true;
        for raw in rest.split('/') {
            let before = path.len();
            if before > 0 {
                path.push(b'/');
            }
            let from = path.len();
            decode(raw, &mut path)?;
            let name = &path[from..];
            directory = name.is_empty() || name == b".";
            if directory {
                path.truncate(before);
                continue;
            }
            // A NUL ends a path early. `\` is a letter here, and to the kernel.
            if name == b".." || name.iter().any(|b| matches!(b, b'/' | 0)) {
                return Err(BadTarget::Forbidden);
            }
        }
        Ok(Target { path: OsString::from_vec(path).into(), directory })
    }

    /// Whether any name on the path is hidden. The target of a link does not count: the maker of a link with a
    /// visible name has shown it.
    pub(crate) fn is_hidden(&self) -> bool {
        self.path.iter().enumerate().any(|(i, name)| is_hidden(i == 0, name.as_bytes()))
    }

    /// The last name of the path as a relative reference that ends in a slash (RFC 9110, 10.2.2). A request for a
    /// directory is redirected to it. It is right behind a proxy that serves the tree beneath a prefix, which
    /// this server does not know. It never names a host or a scheme: their letters are percent-encoded.
    pub(crate) fn location(&self, query: Option<&str>) -> String {
        let name = self.path.file_name().map_or(&b"."[..], |name| name.as_bytes());
        let mut location = encode_name(name);
        location.push('/');
        if let Some(query) = query {
            location.push('?');
            location.push_str(query);
        }
        location
    }
}

/// One name as a path segment of a reference.
pub(crate) fn encode_name(name: &[u8]) -> String {
    percent_encode(name, NAME).to_string()
}

/// Whether a request could name this entry of a `directory`, and would be served if hidden ones are or
/// (`hidden`) are not: see [`Target::parse`] and [`Target::is_hidden`].
pub(crate) fn can_be_asked_for(directory: &Path, name: &[u8], hidden: bool) -> bool {
    hidden || !is_hidden(directory.as_os_str().is_empty(), name)
}

/// Whether a name is hidden: it begins with a dot. The one that RFC 8615 gives to the top of a server is not hidden.
fn is_hidden(at_top: bool, name: &[u8]) -> bool {
    name.starts_with(b".") && !(at_top && name == b".well-known")
}

/// Decodes `%XX` once, to the end of `out`. A `%` without two digits is malformed rather than literal: guessing is how
/// two parties come to read one path in two ways.
fn decode(raw: &str, out: &mut Vec<u8>) -> Result<(), BadTarget> {
    let mut bytes = raw.bytes();
    while let Some(byte) = bytes.next() {
        if byte != b'%' {
            out.push(byte);
            continue;
        }
        let digit = |b: Option<u8>| b.and_then(|b| char::from(b).to_digit(16));
        match (digit(bytes.next()), digit(bytes.next())) {
            (Some(high), Some(low)) => out.push((high * 16 + low) as u8),
            _ => return Err(BadTarget::Malformed),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(raw: &str) -> Result<String, BadTarget> {
        Target::parse(raw).map(|t| t.path.to_str().unwrap().to_owned())
    }

    #[test]
    fn ordinary_paths() {
        assert_eq!(path("/"), Ok(String::new()));
        assert_eq!(path("/a/b.txt"), Ok("a/b.txt".into()));
        assert_eq!(path("/a%20b/%c3%bc"), Ok("a b/ü".into()));
        assert_eq!(path("//etc///passwd"), Ok("etc/passwd".into()));
        assert_eq!(path("/./a/%2e/b"), Ok("a/b".into()));
        assert_eq!(path("/..."), Ok("...".into()));
        assert_eq!(path("/a+b"), Ok("a+b".into()));
        // A backslash is a letter of a name.
        assert_eq!(path("/a%5cb"), Ok("a\\b".into()));
        assert_eq!(path("/..\\x"), Ok("..\\x".into()));
    }

    #[test]
    fn a_slash_at_the_end_asks_for_a_directory() {
        assert!(Target::parse("/").unwrap().directory);
        assert!(Target::parse("/a/").unwrap().directory);
        assert!(Target::parse("/a/.").unwrap().directory);
        assert!(!Target::parse("/a").unwrap().directory);
    }

    #[test]
    fn nothing_climbs() {
        for raw in [
            "/..",
            "/../etc/passwd",
            "/a/../b",
            "/a/..",
            "/%2e%2e/x",
            "/%2E./x",
            "/.%2e/x",
            "/a%2fb",
            "/..%2f..%2fetc",
            "/a%00.txt",
        ] {
            assert_eq!(path(raw), Err(BadTarget::Forbidden), "{raw}");
        }
    }

    #[test]
    fn a_second_encoding_is_a_name_and_not_a_path() {
        assert_eq!(path("/%252e%252e/x"), Ok("%2e%2e/x".into()));
        assert_eq!(path("/%252fetc"), Ok("%2fetc".into()));
    }

    /// Every path of up to six characters that matter, so every way to spell a climb that short.
    #[test]
    fn no_spelling_climbs() {
        use std::path::Component;
        const ALPHABET: &[u8] = b"/.%2e5c\\";
        for len in 1..=6_u32 {
            for mut code in 0..ALPHABET.len().pow(len) {
                let mut raw = String::from("/");
                for _ in 0..len {
                    raw.push(char::from(ALPHABET[code % ALPHABET.len()]));
                    code /= ALPHABET.len();
                }
                if let Ok(target) = Target::parse(&raw) {
                    assert!(
                        target.path.components().all(|c| matches!(c, Component::Normal(_))),
                        "{raw}: {target:?}"
                    );
                }
            }
        }
    }

    #[test]
    fn a_dot_hides_what_is_below_it_too() {
        let is_hidden = |raw| Target::parse(raw).unwrap().is_hidden();
        for raw in [
            "/.git",
            "/.git/config",
            "/a/.env",
            "/%2eenv",
            "/a/./.b/c",
            "/...",
            "/.well-known2",
            "/a/.well-known/b",
            "/.well-known/.b",
            "/.Well-Known",
        ] {
            assert!(is_hidden(raw), "{raw}");
        }
        for raw in ["/", "/./a", "/a.b", "/a./b", "/.well-known/acme-challenge/x", "/.well-known"] {
            assert!(!is_hidden(raw), "{raw}");
        }
    }

    #[test]
    fn malformed_paths() {
        for raw in ["", "*", "a", "/%", "/%4", "/%zz", "/a%g0", "/%+1"] {
            assert_eq!(path(raw), Err(BadTarget::Malformed), "{raw}");
        }
    }

    #[test]
    fn a_location_never_names_a_host_or_a_scheme() {
        let target = Target::parse("//evil.example/a b").unwrap();
        assert_eq!(target.location(None), "a%20b/");
        assert_eq!(target.location(Some("x=1")), "a%20b/?x=1");
        for (raw, location) in [
            ("//evil.example", "evil.example/"),
            ("/http:", "http%3A/"),
            ("/a%0d%0aX:y", "a%0D%0AX%3Ay/"),
            ("/%5cevil.example", "%5Cevil.example/"),
            ("/a/?b", "%3Fb/"),
        ] {
            assert_eq!(Target::parse(raw).unwrap().location(None), location, "{raw}");
        }
    }
}
