//! The server: starts the threads and joins them.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use chanter::io::TcpListener;
use chanter::prelude::*;

use crate::config::Config;
use crate::connection::Shared;
use crate::errors::ErrorLog;
use crate::files::FileProcessor;
use crate::listener::listen;
use crate::logger::Log;
use crate::manager::manage;
use crate::meter::Patience;
use crate::platform::Links;
use crate::stop::Stop;
use crate::tree::Tree;

/// The reason why a server could not be made.
#[derive(Debug)]
pub enum StartError {
    /// The folder to be served is not there, is not a directory, or may not be read.
    Directory(PathBuf, io::Error),
    /// The server could not listen at the address.
    Address(SocketAddr, io::Error),
    /// It may hold no connection at all.
    NoConnections,
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StartError::Directory(directory, error) => {
                write!(f, "cannot serve {}: {error}", directory.display())
            }
            StartError::Address(addr, error) => write!(f, "cannot listen on {addr}: {error}"),
            StartError::NoConnections => f.write_str("cannot serve with no connections at all"),
        }
    }
}

impl std::error::Error for StartError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            StartError::Directory(_, error) | StartError::Address(_, error) => Some(error),
            StartError::NoConnections => None,
        }
    }
}

/// Counters of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Summary {
    /// Connections taken.
    pub connections: u64,
    /// Connections cut because they outlasted the time of grace.
    pub cut: usize,
    /// Lines of the access log that were given up because nobody took them.
    pub lines_lost: u64,
}

/// A server that has its directory and its port, and has yet to run.
pub struct Server {
    config: Config,
    tree: Tree,
    listener: TcpListener,
    addr: SocketAddr,
    stop: Stop,
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").field("addr", &self.addr).finish_non_exhaustive()
    }
}

impl Server {
    /// Opens the directory and listens on the address. Clients can connect from now on; they are
    /// answered once the server runs.
    ///
    /// # Errors
    ///
    /// [`StartError`] if the directory or the address cannot be used, or `max_connections` is 0.
    pub fn bind(config: Config) -> Result<Server, StartError> {
        if config.max_connections == 0 {
            return Err(StartError::NoConnections);
        }
        let links = if config.follow_links { Links::Anywhere } else { Links::Inside };
        let tree = Tree::new(&config.directory, config.hidden, links)
            .map_err(|error| StartError::Directory(config.directory.clone(), error))?;
        let address = |error| StartError::Address(config.addr, error);
        let listener = TcpListener::bind(config.addr).map_err(address)?;
        let addr = listener.local_addr().map_err(address)?;
        Ok(Server { config, tree, listener, addr, stop: Stop::new() })
    }

    /// The address at which the server listens.
    pub fn local_addr(&self) -> SocketAddr {
        self.addr
    }

    /// A handle that stops the server.
    pub fn stop(&self) -> Stop {
        self.stop.clone()
    }

    /// Serves until it is told to stop and has stopped: the port is free, connections are closed,
    /// the log is written. Runs on a thread of a Chanter machine and blocks that thread only.
    ///
    /// Dropping the future without having stopped the server leaves its threads running.
    ///
    /// # Errors
    ///
    /// When the OS threads that it needs cannot be started, or one of its threads has failed. Connections are
    /// closed then, too.
    pub async fn run(self) -> io::Result<Summary> {
        let Server { mut config, tree, listener, stop, .. } = self;
        let patience = Patience::of(&config);
        let errors = match config.errors.take() {
            Some(errors) => errors,
            None => ErrorLog::stderr()?,
        };
        let (log, ending) = Log::start(std::mem::take(&mut config.log), config.mode, &errors)?.unzip();
        let files = FileProcessor::new(tree, &config, errors.clone());
        let shared = Shared { files, log, stop: stop.clone(), patience };

        let (arrive, arrivals) = channel();
        let network = spawn(listen(listener, arrive, stop.clone(), errors));
        let manager = spawn(manage(arrivals, shared, config.max_connections, config.grace));

        let managed = manager.join().await.map_err(io::Error::other);
        // A thread that is still there serves nobody.
        stop.halt();
        let listened = network.join().await.map_err(io::Error::other);
        let lines_lost = match ending {
            Some(ending) => ending.lost().await,
            None => 0,
        };
        listened?;
        Ok(Summary { lines_lost, ..managed? })
    }
}
