//! The peer for comparison: QUIC by quinn, on Tokio.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use quinn::crypto::rustls::QuicClientConfig;
use quinn::{ClientConfig, Endpoint, ServerConfig};
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};

use super::TRIPS;
use super::children::{Outcome, broken, say};
use super::raw::{FRAME, message, number};

fn runtime() -> Result<tokio::runtime::Runtime, String> {
    tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(broken)
}

pub(crate) fn echo() -> Outcome {
    let _ = rustls::crypto::ring::default_provider().install_default();
    runtime()?.block_on(async {
        let signed = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).map_err(broken)?;
        let key = PrivatePkcs8KeyDer::from(signed.signing_key.serialize_der());
        let certificate = signed.cert.der().clone();
        let hex: String = certificate.iter().map(|byte| format!("{byte:02x}")).collect();
        let server = ServerConfig::with_single_cert(vec![certificate], key.into()).map_err(broken)?;
        let local: SocketAddr = "127.0.0.1:0".parse().map_err(broken)?;
        let endpoint = Endpoint::server(server, local).map_err(broken)?;
        say(format!("{}/{hex}", endpoint.local_addr().map_err(broken)?));
        let connection = endpoint.accept().await.ok_or("nobody connects")?.await.map_err(broken)?;
        let (mut out, mut coming) = connection.accept_bi().await.map_err(broken)?;
        let mut message = [0; FRAME];
        while coming.read_exact(&mut message).await.is_ok() {
            out.write_all(&message).await.map_err(broken)?;
        }
        Ok(())
    })
}

pub(crate) fn call(address: &str) -> Outcome {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let (address, hex) = address.split_once('/').ok_or("no certificate")?;
    let digits: Vec<u8> =
        hex.chars().filter_map(|digit| digit.to_digit(16).map(|digit| digit as u8)).collect();
    let certificate: Vec<u8> = digits.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]).collect();
    let mut roots = rustls::RootCertStore::empty();
    roots.add(CertificateDer::from(certificate)).map_err(broken)?;
    let tls = rustls::ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
    let config = ClientConfig::new(Arc::new(QuicClientConfig::try_from(tls).map_err(broken)?));
    let (address, local): (SocketAddr, SocketAddr) =
        (address.parse().map_err(broken)?, "127.0.0.1:0".parse().map_err(broken)?);
    runtime()?.block_on(async {
        let mut endpoint = Endpoint::client(local).map_err(broken)?;
        endpoint.set_default_client_config(config);
        let connection = endpoint.connect(address, "localhost").map_err(broken)?.await.map_err(broken)?;
        let (mut out, mut coming) = connection.open_bi().await.map_err(broken)?;
        let mut answer = [0; FRAME];
        let clock = Instant::now();
        for trip in 0..TRIPS {
            out.write_all(&message(trip)).await.map_err(broken)?;
            coming.read_exact(&mut answer).await.map_err(broken)?;
            if number(&answer) != Some(trip) {
                return Err(format!("a wrong answer to {trip}"));
            }
        }
        say(clock.elapsed().as_nanos());
        connection.close(0_u32.into(), b"done");
        endpoint.wait_idle().await;
        Ok(())
    })
}
