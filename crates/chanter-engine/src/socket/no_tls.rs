//! The TLS types without the feature `tls`. They have no values.

use std::convert::Infallible;
use std::io;
use std::net::{Shutdown, SocketAddr};

use chanter::io::{Readiness, TcpStream};

use crate::certificate::Certificate;
use crate::launcher::TlsFiles;

/// Settings for mutual TLS. This type has no value, as the crate was built without the feature `tls`.
#[derive(Clone, Debug)]
pub struct Tls(Infallible);

impl Tls {
    #[doc(hidden)]
    pub fn from_launcher(_files: &TlsFiles) -> Result<Self, &'static str> {
        Err("this program is built without the feature `tls` of chanter-cluster, and its launcher wants TLS")
    }

    pub(super) fn certificate(&self) -> Certificate {
        match self.0 {}
    }

    pub(super) async fn connect(&self, _socket: TcpStream, _to: SocketAddr) -> io::Result<Session> {
        match self.0 {}
    }

    pub(super) async fn accept(&self, _socket: TcpStream) -> io::Result<Session> {
        match self.0 {}
    }
}

/// A TLS session, which does not exist without the feature.
pub(super) struct Session(Infallible);

impl Session {
    pub(super) fn certificate(&self) -> Option<Certificate> {
        match self.0 {}
    }

    pub(super) fn readable(&self) -> Readiness {
        match self.0 {}
    }

    pub(super) fn writable(&self) -> Readiness {
        match self.0 {}
    }

    pub(super) fn try_read(&self, _buffer: &mut [u8]) -> io::Result<usize> {
        match self.0 {}
    }

    pub(super) fn try_write(&self, _buffer: &[u8]) -> io::Result<usize> {
        match self.0 {}
    }

    pub(super) fn flush(&self) -> io::Result<()> {
        match self.0 {}
    }

    pub(super) fn shutdown(&self, _how: Shutdown) -> io::Result<()> {
        match self.0 {}
    }
}
