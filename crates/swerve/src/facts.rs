//! What an answer says of a file, made once for all answers while it is kept.

use std::path::Path;
use std::time::SystemTime;

use http::HeaderValue;

use crate::conditional::Validators;
use crate::media;

/// What is known of one version of a file.
#[derive(Debug, Clone)]
pub(crate) struct Facts {
    pub(crate) len: u64,
    pub(crate) validators: Validators,
    pub(crate) etag: HeaderValue,
    /// `None` where there is no date to give.
    pub(crate) last_modified: Option<HeaderValue>,
    pub(crate) content_type: HeaderValue,
}

impl Facts {
    /// Of a file with this name, length and time of change, at `now`.
    pub(crate) fn new(name: &Path, len: u64, modified: Option<SystemTime>, now: SystemTime) -> Facts {
        let validators = Validators::new(len, modified);
        Facts {
            len,
            etag: validators.etag_value(),
            last_modified: validators.last_modified(now),
            validators,
            content_type: media::content_type(name),
        }
    }
}
