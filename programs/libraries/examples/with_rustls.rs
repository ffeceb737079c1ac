//! TLS by rustls over Chanter's own streams: they have the traits of `futures-io`, so this needs no Tokio.

use chanter::io::{TcpListener, TcpStream};
use chanter::prelude::*;
use futures::{AsyncReadExt, AsyncWriteExt};
use futures_rustls::pki_types::{PrivatePkcs8KeyDer, ServerName};
use futures_rustls::rustls::{ClientConfig, RootCertStore, ServerConfig};
use futures_rustls::{TlsAcceptor, TlsConnector};
use std::error::Error;
use std::io;
use std::sync::Arc;

/// Both sides of a connection, with a certificate that signs itself.
fn sides() -> Result<(TlsAcceptor, TlsConnector), Box<dyn Error>> {
    let own = rcgen::generate_simple_self_signed(["localhost".to_owned()])?;
    let key = PrivatePkcs8KeyDer::from(own.signing_key.serialize_der());
    let server = ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(vec![own.cert.der().clone()], key.into())?;
    let mut roots = RootCertStore::empty();
    roots.add(own.cert.der().clone())?;
    let client = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
    Ok((TlsAcceptor::from(Arc::new(server)), TlsConnector::from(Arc::new(client))))
}

async fn shout(acceptor: TlsAcceptor, stream: TcpStream) -> io::Result<()> {
    let mut stream = acceptor.accept(stream).await?;
    let mut text = String::new();
    stream.read_to_string(&mut text).await?;
    stream.write_all(text.to_uppercase().as_bytes()).await?;
    stream.close().await
}

#[chanter::main]
pub(crate) async fn main() -> Result<(), Box<dyn Error>> {
    let (acceptor, connector) = sides()?;
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    let server = spawn(async move {
        let (stream, _) = listener.accept().await?;
        let refused = listener.accept().await?.0;
        let (served, refused) = futures::join!(shout(acceptor.clone(), stream), shout(acceptor, refused));
        assert!(refused.is_err());
        served
    });

    let stream = TcpStream::connect(address).await?;
    let stranger = TcpStream::connect(address).await?;
    let mut stream = connector.connect(ServerName::try_from("localhost")?, stream).await?;
    stream.write_all(b"over tls").await?;
    stream.close().await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    assert_eq!(answer, "OVER TLS");

    // The certificate is not valid for another name.
    let wrong = connector.connect(ServerName::try_from("elsewhere")?, stranger).await;
    assert!(wrong.is_err());

    server.await??;
    println!("rustls: the answer is right");
    Ok(())
}
