//! Failures before there is a server.

mod common;

use std::net::TcpListener;

use chanter::prelude::Machine;
use swerve::{Config, Server, StartError};
use tempfile::TempDir;

fn bind(config: Config) -> Result<(), StartError> {
    let machine = Machine::builder().vps(1).build().unwrap();
    machine.block_on(async { Server::bind(config).map(drop) })
}

#[test]
fn no_directory() {
    let dir = TempDir::new().unwrap();
    let addr = ([127, 0, 0, 1], 0).into();
    let missing = dir.path().join("missing");
    let error = bind(Config::new(&missing, addr)).unwrap_err();
    assert!(matches!(&error, StartError::Directory(path, _) if *path == missing));
    assert!(error.to_string().contains("missing") && !error.to_string().contains('\n'));

    let file = dir.path().join("file");
    std::fs::write(&file, "x").unwrap();
    assert!(matches!(bind(Config::new(file, addr)), Err(StartError::Directory(..))));
}

#[test]
fn a_busy_port() {
    let dir = TempDir::new().unwrap();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = taken.local_addr().unwrap();
    let error = bind(Config::new(dir.path(), addr)).unwrap_err();
    assert!(matches!(error, StartError::Address(at, _) if at == addr));
    assert!(error.to_string().contains(&addr.to_string()));
}

#[test]
fn no_connections_at_all() {
    let dir = TempDir::new().unwrap();
    let mut config = Config::new(dir.path(), ([127, 0, 0, 1], 0).into());
    config.max_connections = 0;
    let error = bind(config).unwrap_err();
    assert!(matches!(error, StartError::NoConnections));
    assert!(!error.to_string().is_empty());
}
