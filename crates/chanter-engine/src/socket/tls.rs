//! TLS on a TCP connection, both ends with certificates.
//!
//! rustls implements the protocol, without I/O. A session puts it above our own non-blocking socket. Records that the
//! socket does not take wait in the session, and [`flush`](Session::flush) goes on with them.

use std::fmt;
use std::io::{self, ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use chanter::io::{Readiness, TcpStream};
use rustls::client::Resumption;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, ClientConnection, Connection, RootCertStore, ServerConfig, ServerConnection};
use webpki::EndEntityCert;

use super::inbox::lock;
use crate::certificate::Certificate;
use crate::launcher::TlsFiles;

/// Largest number of bytes of records that wait in a session. More is not taken.
const RECORDS: usize = 128 << 10;

/// Settings for mutual TLS: the certificate and key of a process, and the authorities that it trusts.
///
/// Both ends of each TCP connection show a certificate that an authority has signed. The connecting end also checks
/// that the certificate is for the address of the connection, or for a given [name](Self::for_name). Only TLS 1.3 is
/// spoken. Sessions are not resumed: each connection is checked anew.
#[derive(Clone)]
pub struct Tls {
    client: Arc<ClientConfig>,
    server: Arc<ServerConfig>,
    name: Option<ServerName<'static>>,
    own: Certificate,
}

/// The reason why certificates cannot be used for TLS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadTls(String);

impl fmt::Display for BadTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no TLS with these certificates: {}", self.0)
    }
}

impl std::error::Error for BadTls {}

impl Tls {
    /// Reads settings from text in PEM: the chain of this process's certificate, its key, and the certificates of the
    /// authorities.
    ///
    /// # Errors
    /// A text is not valid, or the key does not belong to the certificate.
    pub fn from_pem(certificates: &[u8], key: &[u8], authorities: &[u8]) -> Result<Self, BadTls> {
        let bad = |what: &str, error: &dyn fmt::Display| BadTls(format!("{what}: {error}"));
        let all = |text, what: &str| {
            let all: Vec<CertificateDer<'static>> = CertificateDer::pem_slice_iter(text)
                .collect::<Result<_, _>>()
                .map_err(|error| bad(what, &error))?;
            if all.is_empty() { Err(bad(what, &"there is none")) } else { Ok(all) }
        };
        let chain = all(certificates, "the certificate")?;
        let own = read(&chain[0]).map_err(|error| bad("the certificate", &error))?;
        let key = PrivateKeyDer::from_pem_slice(key).map_err(|error| bad("the key", &error))?;
        let mut roots = RootCertStore::empty();
        for authority in all(authorities, "the authority's certificate")? {
            roots.add(authority).map_err(|error| bad("the authority's certificate", &error))?;
        }
        let roots = Arc::new(roots);
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::clone(&roots), Arc::clone(&provider))
            .build()
            .map_err(|error| bad("the authority's certificate", &error))?;
        let versions = &[&rustls::version::TLS13];
        let mut server = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(versions)
            .and_then(|config| {
                config.with_client_cert_verifier(verifier).with_single_cert(chain.clone(), key.clone_key())
            })
            .map_err(|error| bad("the certificate and its key", &error))?;
        // Sessions are not resumed.
        server.send_tls13_tickets = 0;
        let mut client = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(versions)
            .and_then(|config| config.with_root_certificates(roots).with_client_auth_cert(chain, key))
            .map_err(|error| bad("the certificate and its key", &error))?;
        client.resumption = Resumption::disabled();
        Ok(Self { client: Arc::new(client), server: Arc::new(server), name: None, own })
    }

    /// Expects all processes' certificates to be for `name`, and not for their addresses.
    ///
    /// # Errors
    /// The name is neither a DNS name nor an IP address.
    pub fn for_name(self, name: &str) -> Result<Self, BadTls> {
        let name =
            ServerName::try_from(name.to_owned()).map_err(|error| BadTls(format!("{name:?}: {error}")))?;
        Ok(Self { name: Some(name), ..self })
    }

    /// Reads the files that a launcher has named. The error says what is wrong with them.
    #[doc(hidden)]
    pub fn from_launcher(files: &TlsFiles) -> Result<Self, BadTls> {
        let read = |path: &std::path::Path| {
            std::fs::read(path).map_err(|error| BadTls(format!("{}: {error}", path.display())))
        };
        let tls = Self::from_pem(&read(&files.certificate)?, &read(&files.key)?, &read(&files.authority)?)?;
        match &files.name {
            Some(name) => tls.for_name(name),
            None => Ok(tls),
        }
    }

    /// The certificate of this process.
    pub(super) fn certificate(&self) -> Certificate {
        self.own.clone()
    }

    /// Makes a session on the side that has connected to `to`.
    pub(super) async fn connect(&self, socket: TcpStream, to: SocketAddr) -> io::Result<Session> {
        let name = self.name.clone().unwrap_or_else(|| ServerName::IpAddress(to.ip().into()));
        let connection = ClientConnection::new(Arc::clone(&self.client), name).map_err(io::Error::other)?;
        Session::shake_hands(socket, connection.into()).await
    }

    /// Makes a session on the side that has accepted the connection.
    pub(super) async fn accept(&self, socket: TcpStream) -> io::Result<Session> {
        let connection = ServerConnection::new(Arc::clone(&self.server)).map_err(io::Error::other)?;
        Session::shake_hands(socket, connection.into()).await
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls").field("name", &self.name).finish_non_exhaustive()
    }
}

/// A TLS connection, after both ends have shown their certificates.
pub(super) struct Session {
    socket: TcpStream,
    connection: Mutex<Connection>,
    /// Certificate of the other end.
    certificate: Option<Certificate>,
}

/// Reads a certificate that was checked, or that is this process's own.
fn read(certificate: &CertificateDer<'_>) -> Result<Certificate, webpki::Error> {
    let parsed = EndEntityCert::try_from(certificate)?;
    Ok(Certificate::new(certificate, parsed.valid_dns_names().map(str::to_owned)))
}

/// The socket, with the traits that rustls needs.
struct Socket<'a>(&'a TcpStream);

impl Read for Socket<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.try_read(buffer)
    }
}

impl Write for Socket<'_> {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        self.0.try_write(buffer)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Session {
    async fn shake_hands(socket: TcpStream, mut connection: Connection) -> io::Result<Self> {
        connection.set_buffer_limit(Some(RECORDS));
        loop {
            while connection.wants_write() {
                match connection.write_tls(&mut Socket(&socket)) {
                    Ok(_) => {}
                    Err(error) if error.kind() == ErrorKind::WouldBlock => socket.writable().await?,
                    Err(error) => return Err(error),
                }
            }
            if !connection.is_handshaking() {
                let shown = connection.peer_certificates().and_then(<[_]>::first);
                let certificate = shown.and_then(|shown| read(shown).ok());
                return Ok(Self { socket, connection: Mutex::new(connection), certificate });
            }
            match connection.read_tls(&mut Socket(&socket)) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => socket.readable().await?,
                Err(error) => return Err(error),
            }
            if let Err(error) = connection.process_new_packets() {
                // The alert says why. It would be lost if the socket were closed with unread bytes.
                let _ = connection.write_tls(&mut Socket(&socket));
                let _ = socket.shutdown(std::net::Shutdown::Write);
                drain(&socket).await;
                return Err(io::Error::new(ErrorKind::InvalidData, format!("TLS: {error}")));
            }
        }
    }

    pub(super) fn certificate(&self) -> Option<Certificate> {
        self.certificate.clone()
    }

    pub(super) fn readable(&self) -> Readiness {
        self.socket.readable()
    }

    pub(super) fn writable(&self) -> Readiness {
        self.socket.writable()
    }

    pub(super) fn try_read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut connection = lock(&self.connection);
        loop {
            match connection.reader().read(buffer) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                // If the socket ends before the session, the process has ended, as without TLS.
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(0),
                read => return read,
            }
            // The plain bytes are used up, so there is room for a whole record.
            if connection.read_tls(&mut Socket(&self.socket))? == 0 {
                return Ok(0);
            }
            let processed = connection.process_new_packets();
            if connection.wants_write() {
                // An alert, or an answer to a new key. Bytes that are not taken go with the next flush.
                let _ = connection.write_tls(&mut Socket(&self.socket));
            }
            processed.map_err(|error| io::Error::new(ErrorKind::InvalidData, format!("TLS: {error}")))?;
        }
    }

    /// Takes the bytes for which its records have room.
    pub(super) fn try_write(&self, buffer: &[u8]) -> io::Result<usize> {
        let mut connection = lock(&self.connection);
        Self::write_records(&self.socket, &mut connection)?;
        let written = connection.writer().write(buffer)?;
        match Self::write_records(&self.socket, &mut connection) {
            Err(error) if error.kind() != ErrorKind::WouldBlock => Err(error),
            _ => Ok(written),
        }
    }

    /// Writes the waiting records; `WouldBlock` if some still wait.
    pub(super) fn flush(&self) -> io::Result<()> {
        Self::write_records(&self.socket, &mut lock(&self.connection))
    }

    fn write_records(socket: &TcpStream, connection: &mut Connection) -> io::Result<()> {
        while connection.wants_write() {
            connection.write_tls(&mut Socket(socket))?;
        }
        Ok(())
    }

    pub(super) fn shutdown(&self, how: std::net::Shutdown) -> io::Result<()> {
        let mut connection = lock(&self.connection);
        connection.send_close_notify();
        let _ = Self::write_records(&self.socket, &mut connection);
        self.socket.shutdown(how)
    }
}

/// Reads bytes that still come, at most as many as a handshake has. Otherwise the bytes that were sent could be lost
/// at the close.
async fn drain(socket: &TcpStream) {
    let (mut buffer, mut left) = ([0; 4096], 64_usize << 10);
    while left > 0 {
        match socket.try_read(&mut buffer) {
            Ok(0) => return,
            Ok(read) => left = left.saturating_sub(read),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                if socket.readable().await.is_err() {
                    return;
                }
            }
            Err(_) => return,
        }
    }
}
