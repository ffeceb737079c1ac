//! Certificates of peers.

use std::fmt;
use std::sync::Arc;

/// A certificate that a peer has shown and whose key it holds. An authority that this process trusts has signed it.
///
/// It belongs to the connection, not to the process's number: any process that knows the job's secret may claim a
/// free number.
#[derive(Clone, PartialEq, Eq)]
pub struct Certificate {
    der: Arc<[u8]>,
    names: Arc<[String]>,
}

impl Certificate {
    /// A certificate that an engine has checked, from its bytes in DER and its names.
    pub fn new(der: &[u8], names: impl IntoIterator<Item = String>) -> Self {
        Self { der: der.into(), names: names.into_iter().collect() }
    }

    /// The DNS names of the certificate (its subject alternative names), unchanged. A common name does not count.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(String::as_str)
    }

    /// Whether the certificate is for `name`, ignoring ASCII case. A wildcard is a name like any other and matches
    /// only itself.
    pub fn is_for(&self, name: &str) -> bool {
        self.names().any(|own| own.eq_ignore_ascii_case(name))
    }

    /// The whole certificate, in DER.
    pub fn der(&self) -> &[u8] {
        &self.der
    }
}

impl fmt::Debug for Certificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Certificate").field("names", &self.names).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_is_for_its_names_and_no_others() {
        let certificate = Certificate::new(&[1], ["web.job".to_owned(), "*.store.job".to_owned()]);
        assert!(["web.job", "WEB.Job", "*.store.job"].iter().all(|name| certificate.is_for(name)));
        let others = ["", "job", "b.job", "xweb.job", "web.job.", "a.store.job", "store.job"];
        assert!(!others.iter().any(|name| certificate.is_for(name)));
    }
}
