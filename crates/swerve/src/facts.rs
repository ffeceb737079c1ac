//! Headers of a file, made once for all answers while it is kept.

use std::path::Path;
use std::time::SystemTime;

use http::header::{
    ACCEPT_RANGES, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, ETAG, HeaderMap, HeaderValue,
    LAST_MODIFIED, SERVER, X_CONTENT_TYPE_OPTIONS,
};

use crate::conditional::Validators;
use crate::identity::Identity;
use crate::media::Media;

/// Name of the server.
pub(crate) const NAME: HeaderValue = HeaderValue::from_static("swerve");

/// Facts about one version of a file.
#[derive(Debug, Clone)]
pub(crate) struct Facts {
    pub(crate) len: u64,
    pub(crate) validators: Validators,
    /// Headers of the answer that has the whole file.
    pub(crate) headers: HeaderMap,
    pub(crate) media: Media,
}

impl Facts {
    /// Makes the facts of this version of a file of this name, at `now`. For text, no charset is announced before it
    /// is known: see [`Facts::is_utf8`].
    pub(crate) fn new(name: &Path, identity: &Identity, now: SystemTime) -> Facts {
        let len = identity.len;
        let validators = Validators::new(identity);
        let mut headers = HeaderMap::with_capacity(MOST_HEADERS);
        headers.insert(ETAG, validators.etag_value());
        if let Some(modified) = validators.last_modified(now) {
            headers.insert(LAST_MODIFIED, modified);
        }
        headers.insert(ACCEPT_RANGES, HeaderValue::from_static("bytes"));
        let media = Media::of(name);
        headers.insert(CONTENT_TYPE, media.content_type(false));
        if media.is_gzip {
            headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        }
        headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        headers.insert(CONTENT_LENGTH, HeaderValue::from(len));
        headers.insert(SERVER, NAME);
        Facts { len, validators, headers, media }
    }

    /// Notes that the text has been found to be UTF-8.
    pub(crate) fn is_utf8(&mut self) {
        self.headers.insert(CONTENT_TYPE, self.media.content_type(true));
    }

    /// The headers of the answer that the client has this version already (RFC 9110, 15.4.5).
    pub(crate) fn not_modified(&self) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for name in [ETAG, LAST_MODIFIED, SERVER] {
            if let Some(value) = self.headers.get(&name) {
                headers.insert(name, value.clone());
            }
        }
        headers
    }
}

/// Largest number of headers of a file's answer.
const MOST_HEADERS: usize = 8;
