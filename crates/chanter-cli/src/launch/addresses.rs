//! Where the processes of a job listen.

use std::io;
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener;

use chanter_cluster::launcher::{Address, Secret};
use tempfile::TempDir;

/// Listening sockets, one for each process.
pub(super) struct Listeners {
    pub(super) addresses: Vec<Address>,
    pub(super) sockets: Vec<OwnedFd>,
    /// The folder of the sockets, which only this user may enter. Removed when dropped.
    pub(super) _folder: Option<TempDir>,
}

impl Listeners {
    /// Binds them all: Unix sockets, or TCP ports of the loopback interface.
    ///
    /// # Errors
    /// Those of the OS; or the path of the folder for temporary files is too long, or has a comma.
    pub(super) fn bind(count: usize, tcp: bool) -> io::Result<Self> {
        let folder = if tcp { None } else { Some(tempfile::Builder::new().prefix("chanter-").tempdir()?) };
        let mut listeners =
            Self { addresses: Vec::with_capacity(count), sockets: Vec::with_capacity(count), _folder: None };
        for number in 0..count {
            let (address, socket): (_, OwnedFd) = match &folder {
                Some(folder) => {
                    let path = folder.path().join(number.to_string());
                    if path.to_str().is_none_or(|path| path.contains(',')) {
                        let why = format!("{}: the path has a comma, or is no text", path.display());
                        return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
                    }
                    let socket = UnixListener::bind(&path)?;
                    (Address::Unix(path), socket.into())
                }
                None => {
                    let socket = TcpListener::bind(("127.0.0.1", 0))?;
                    (Address::Tcp(socket.local_addr()?), socket.into())
                }
            };
            listeners.addresses.push(address);
            listeners.sockets.push(socket);
        }
        listeners._folder = folder;
        Ok(listeners)
    }

    /// The addresses, as the processes are told them.
    pub(super) fn text(&self) -> String {
        let addresses: Vec<String> = self.addresses.iter().map(Address::to_string).collect();
        addresses.join(",")
    }
}

/// A secret that nobody can guess.
pub(super) fn secret() -> io::Result<Secret> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).map_err(io::Error::other)?;
    Ok(Secret::new(bytes))
}
