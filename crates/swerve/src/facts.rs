//! What an answer says of a file, made once for all answers while it is kept.

use std::path::Path;
use std::time::SystemTime;

use http::header::{
    ACCEPT_RANGES, CONTENT_LENGTH, CONTENT_TYPE, ETAG, HeaderMap, HeaderValue, LAST_MODIFIED, SERVER,
    X_CONTENT_TYPE_OPTIONS,
};

use crate::conditional::Validators;
use crate::identity::Identity;
use crate::media;

/// What the server calls itself.
pub(crate) const NAME: HeaderValue = HeaderValue::from_static("swerve");

/// What is known of one version of a file.
#[derive(Debug, Clone)]
pub(crate) struct Facts {
    pub(crate) len: u64,
    pub(crate) validators: Validators,
    /// Of the answer that has the whole file.
    pub(crate) headers: HeaderMap,
}

impl Facts {
    /// Of this version of a file of this name, at `now`.
    pub(crate) fn new(name: &Path, identity: &Identity, now: SystemTime) -> Facts {
        let len = identity.len;
        let validators = Validators::new(identity);
        let mut headers = HeaderMap::with_capacity(MOST_HEADERS);
        headers.insert(ETAG, validators.etag_value());
        if let Some(modified) = validators.last_modified(now) {
            headers.insert(LAST_MODIFIED, modified);
        }
        headers.insert(ACCEPT_RANGES, HeaderValue::from_static("bytes"));
        headers.insert(CONTENT_TYPE, media::content_type(name));
        headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        headers.insert(CONTENT_LENGTH, HeaderValue::from(len));
        headers.insert(SERVER, NAME);
        Facts { len, validators, headers }
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

/// As many as a file's answer has.
const MOST_HEADERS: usize = 7;
