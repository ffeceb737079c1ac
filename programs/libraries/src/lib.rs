//! Libraries that want Tokio, on Chanter: see `examples/`, and the book's chapter on them. Here is what the
//! examples share.

use std::io;

use axum::Router;
use chanter::prelude::*;
use chanter::{bridge::hyper::Timer, io::TcpListener, sync::CVar};
use hyper::server::conn::http1;
use hyper_util::service::TowerToHyperService;

/// Serves `router`, each connection on a thread of its own, until `stop` is set.
///
/// # Errors
/// Those of accepting a connection.
pub async fn serve(listener: TcpListener, router: Router, stop: CVar) -> io::Result<()> {
    loop {
        let stream = select! {
            accepted = listener.accept() => accepted?.0,
            () = stop.wait() => return Ok(()),
        };
        let service = TowerToHyperService::new(router.clone());
        spawn(http1::Builder::new().timer(Timer).serve_connection(stream, service));
    }
}
