//! Conditional requests (RFC 9110, section 13): validators, and what the preconditions say.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use http::header::{
    HeaderMap, HeaderName, HeaderValue, IF_MATCH, IF_MODIFIED_SINCE, IF_NONE_MATCH, IF_RANGE,
    IF_UNMODIFIED_SINCE,
};

use crate::identity::Identity;

/// The last second that an HTTP date can name (end of the year 9999).
const LAST_DATE: Duration = Duration::from_secs(253_402_300_799);

/// Identity of one version of a file.
#[derive(Debug, Clone)]
pub(crate) struct Validators {
    /// Strong entity tag, quotes included: length, time of change in nanoseconds, and a digest of the rest of the
    /// [`Identity`]. Length and time alone would be those of a file that was put in its place with both
    /// (`cp --preserve`, `rsync --times`, an archive that is unpacked).
    pub(crate) etag: String,
    /// Time of change in whole seconds; `None` where an HTTP date cannot say it.
    pub(crate) modified: Option<SystemTime>,
}

/// Verdict on the preconditions of a request.
#[derive(Debug, PartialEq, Eq, Clone, Copy)]
pub(crate) enum Verdict {
    /// Answer as if there were none.
    Proceed,
    /// The client has this version: 304.
    NotModified,
    /// The client insists on another version: 412.
    Failed,
}

impl Validators {
    /// The validators of this version of a file.
    pub(crate) fn new(identity: &Identity) -> Validators {
        let since = identity.modified().and_then(|t| t.duration_since(UNIX_EPOCH).ok());
        let nanos = since.map_or(0, |d| d.as_nanos());
        let (len, rest) = (identity.len, digest(identity));
        Validators {
            // Until the year 2554 the nanoseconds are 64 bits, which are written much faster.
            etag: match u64::try_from(nanos) {
                Ok(nanos) => format!("\"{len:x}-{nanos:x}-{rest:x}\""),
                Err(_) => format!("\"{len:x}-{nanos:x}-{rest:x}\""),
            },
            modified: since
                .filter(|d| *d <= LAST_DATE)
                .map(|d| UNIX_EPOCH + Duration::from_secs(d.as_secs())),
        }
    }

    /// The value of `ETag`.
    pub(crate) fn etag_value(&self) -> HeaderValue {
        HeaderValue::from_str(&self.etag).expect("hexadecimal digits, dashes and quotes")
    }

    /// The value of `Last-Modified`. A file from the future has none: it would claim to be newer
    /// than the answer that carries it.
    pub(crate) fn last_modified(&self, now: SystemTime) -> Option<HeaderValue> {
        let modified = self.modified.filter(|t| *t <= now)?;
        HeaderValue::from_str(&httpdate::fmt_http_date(modified)).ok()
    }

    /// Judges the preconditions of a GET or HEAD in the order that the RFC prescribes (13.2.2).
    pub(crate) fn judge(&self, headers: &HeaderMap) -> Verdict {
        if headers.contains_key(IF_MATCH) {
            if !self.listed(headers, IF_MATCH, Comparison::Strong) {
                return Verdict::Failed;
            }
        } else if let (Some(limit), Some(modified)) = (date(headers, IF_UNMODIFIED_SINCE), self.modified)
            && modified > limit
        {
            return Verdict::Failed;
        }
        if headers.contains_key(IF_NONE_MATCH) {
            if self.listed(headers, IF_NONE_MATCH, Comparison::Weak) {
                return Verdict::NotModified;
            }
        } else if let (Some(limit), Some(modified)) = (date(headers, IF_MODIFIED_SINCE), self.modified)
            && modified <= limit
        {
            return Verdict::NotModified;
        }
        Verdict::Proceed
    }

    /// Whether `Range` is to be heeded: there is no `If-Range`, or it has the tag of this very version.
    ///
    /// A date never does. Two versions of one second have the same date, and so does a file that was given the time
    /// of another one. So ours is no strong validator (RFC 9110, 8.8.2.2), and the condition is false (13.1.5).
    /// Nor may a client send one that has a tag, and every file here has one.
    pub(crate) fn range_applies(&self, headers: &HeaderMap) -> bool {
        let Some(value) = headers.get(IF_RANGE) else {
            return true;
        };
        let Ok(value) = value.to_str() else {
            return false;
        };
        value.trim() == self.etag
    }

    fn listed(&self, headers: &HeaderMap, name: HeaderName, comparison: Comparison) -> bool {
        headers.get_all(name).iter().filter_map(|v| v.to_str().ok()).any(|list| {
            list.trim() == "*"
                || tags(list).any(|(weak, tag)| (!weak || comparison == Comparison::Weak) && tag == self.etag)
        })
    }
}

/// The part of an identity that a tag holds in another form: the inode, which is not for clients, and the time of the
/// last change. The device is left out: its number may be another after each mount.
fn digest(identity: &Identity) -> u64 {
    let Identity { device: _, inode, len, modified, changed } = *identity;
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for word in [inode, len, modified.0 as u64, modified.1 as u64, changed.0 as u64, changed.1 as u64] {
        // Multiply and fold: every bit of the word reaches every bit of the result.
        let product = u128::from(hash ^ word) * 0x9e37_79b9_7f4a_7c15;
        hash = (product >> 64) as u64 ^ product as u64;
    }
    hash
}

#[derive(PartialEq, Eq, Clone, Copy)]
enum Comparison {
    Strong,
    Weak,
}

/// The entity tags of a list: whether each is weak, and its quoted text. A comma inside quotes
/// belongs to the tag, so the list cannot simply be split. Stops at the first thing that is no tag.
fn tags(list: &str) -> impl Iterator<Item = (bool, &str)> {
    let mut rest = list;
    std::iter::from_fn(move || {
        rest = rest.trim_start_matches([' ', '\t', ',']);
        let (weak, quoted) = match rest.strip_prefix("W/") {
            Some(quoted) => (true, quoted),
            None => (false, rest),
        };
        let inner = quoted.strip_prefix('"')?;
        let close = inner.find('"')?;
        let (tag, after) = quoted.split_at(close + 2);
        rest = after;
        Some((weak, tag))
    })
}

fn date(headers: &HeaderMap, name: HeaderName) -> Option<SystemTime> {
    httpdate::parse_http_date(headers.get(name)?.to_str().ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identity::tests::SOME;

    /// 1994-11-06 08:49:37.5, the RFC's example half a second on.
    const FILE: Identity = Identity { modified: (784_111_777, 500_000_000), ..SOME };

    fn file() -> Validators {
        Validators::new(&FILE)
    }

    fn judge(pairs: &[(HeaderName, &str)]) -> Verdict {
        file().judge(&map(pairs))
    }

    fn map(pairs: &[(HeaderName, &str)]) -> HeaderMap {
        let mut map = HeaderMap::new();
        for (name, value) in pairs {
            map.append(name.clone(), HeaderValue::from_str(value).unwrap());
        }
        map
    }

    const THEN: &str = "Sun, 06 Nov 1994 08:49:37 GMT";
    const BEFORE: &str = "Sun, 06 Nov 1994 08:49:36 GMT";

    #[test]
    fn if_none_match() {
        let tag = file().etag;
        assert_eq!(judge(&[(IF_NONE_MATCH, &tag)]), Verdict::NotModified);
        assert_eq!(judge(&[(IF_NONE_MATCH, &format!("W/{tag}"))]), Verdict::NotModified);
        assert_eq!(judge(&[(IF_NONE_MATCH, &format!("\"a,b\" ,{tag}"))]), Verdict::NotModified);
        assert_eq!(judge(&[(IF_NONE_MATCH, "\"x\""), (IF_NONE_MATCH, &tag)]), Verdict::NotModified);
        assert_eq!(judge(&[(IF_NONE_MATCH, "*")]), Verdict::NotModified);
        assert_eq!(judge(&[(IF_NONE_MATCH, "\"x\"")]), Verdict::Proceed);
        assert_eq!(judge(&[(IF_NONE_MATCH, tag.trim_matches('"'))]), Verdict::Proceed);
        // The tag decides alone, whatever the date says.
        assert_eq!(judge(&[(IF_NONE_MATCH, "\"x\""), (IF_MODIFIED_SINCE, THEN)]), Verdict::Proceed);
    }

    #[test]
    fn if_modified_since() {
        assert_eq!(judge(&[(IF_MODIFIED_SINCE, THEN)]), Verdict::NotModified);
        assert_eq!(judge(&[(IF_MODIFIED_SINCE, BEFORE)]), Verdict::Proceed);
        assert_eq!(judge(&[(IF_MODIFIED_SINCE, "yesterday")]), Verdict::Proceed);
    }

    #[test]
    fn if_match_compares_strongly() {
        let tag = file().etag;
        assert_eq!(judge(&[(IF_MATCH, &tag)]), Verdict::Proceed);
        assert_eq!(judge(&[(IF_MATCH, "*")]), Verdict::Proceed);
        assert_eq!(judge(&[(IF_MATCH, &format!("W/{tag}"))]), Verdict::Failed);
        assert_eq!(judge(&[(IF_MATCH, "\"x\"")]), Verdict::Failed);
    }

    #[test]
    fn if_unmodified_since() {
        assert_eq!(judge(&[(IF_UNMODIFIED_SINCE, THEN)]), Verdict::Proceed);
        assert_eq!(judge(&[(IF_UNMODIFIED_SINCE, BEFORE)]), Verdict::Failed);
    }

    #[test]
    fn if_range_wants_the_same_bytes() {
        let tag = file().etag;
        let applies = |value: &str| file().range_applies(&map(&[(IF_RANGE, value)]));
        assert!(file().range_applies(&HeaderMap::new()));
        assert!(applies(&tag));
        assert!(!applies(THEN), "a date is a weak validator");
        assert!(!applies(&format!("W/{tag}")));
        assert!(!applies("\"x\""));
        assert!(!applies(BEFORE));
        assert!(!applies("Sun, 06 Nov 1994 08:49:38 GMT"));
    }

    #[test]
    fn times_that_http_cannot_say() {
        let at = |seconds| Validators::new(&Identity { modified: (seconds, 0), ..SOME });
        assert_eq!(at(-1).modified, None);
        assert_eq!(at(LAST_DATE.as_secs() as i64 + 1).modified, None);
        assert_eq!(at(i64::MAX).modified, None);
        let now = SystemTime::now();
        let tomorrow = now.duration_since(UNIX_EPOCH).unwrap().as_secs() as i64 + 86_400;
        assert_eq!(at(tomorrow).last_modified(now), None);
    }

    #[test]
    fn versions_have_different_tags() {
        let tag = |identity: Identity| Validators::new(&identity).etag;
        assert_eq!(tag(SOME), tag(SOME));
        assert_eq!(tag(SOME), tag(Identity { device: 9, ..SOME }), "mounted again");
        for other in [
            Identity { inode: 9, ..SOME },
            Identity { len: 9, ..SOME },
            Identity { modified: (100, 6), ..SOME },
            Identity { modified: (-100, 5), ..SOME },
            Identity { changed: (100, 6), ..SOME },
            Identity { changed: (101, 5), ..SOME },
        ] {
            assert_ne!(tag(SOME), tag(other), "{other:?}");
        }
    }
}
