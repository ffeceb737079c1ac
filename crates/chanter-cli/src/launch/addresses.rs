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
    /// The folder of the sockets, if they have paths. Only this user may enter it. It is removed when dropped.
    _folder: Option<TempDir>,
}

impl Listeners {
    /// Binds a listener for each process: a Unix socket, or a TCP port of the loopback interface.
    ///
    /// # Errors
    /// Errors of the OS.
    pub(super) fn bind(count: usize, tcp: bool) -> io::Result<Self> {
        let mut listeners =
            Self { addresses: Vec::with_capacity(count), sockets: Vec::with_capacity(count), _folder: None };
        if tcp {
            for _ in 0..count {
                let socket = TcpListener::bind(("127.0.0.1", 0))?;
                listeners.add(Address::Tcp(socket.local_addr()?), socket.into());
            }
        } else {
            listeners.bind_unix(count)?;
        }
        Ok(listeners)
    }

    fn add(&mut self, address: Address, socket: OwnedFd) {
        self.addresses.push(address);
        self.sockets.push(socket);
    }

    /// Binds to abstract names, which are in no folder. They are short, and vanish with their sockets, however this
    /// process ends. (Any user may connect to such a name. So the processes ask the OS which user is at the other end.)
    #[cfg(any(target_os = "linux", target_os = "android"))]
    fn bind_unix(&mut self, count: usize) -> io::Result<()> {
        #[cfg(target_os = "android")]
        use std::os::android::net::SocketAddrExt;
        #[cfg(target_os = "linux")]
        use std::os::linux::net::SocketAddrExt;
        use std::os::unix::net::SocketAddr;

        let mut job = [0; 16];
        getrandom::fill(&mut job).map_err(io::Error::other)?;
        let job: String = job.iter().map(|byte| format!("{byte:02x}")).collect();
        for number in 0..count {
            let name = format!("chanter-{job}-{number}");
            let socket = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name)?)?;
            self.add(Address::Unix(format!("@{name}").into()), socket.into());
        }
        Ok(())
    }

    /// Binds in a new folder beneath the system's folder for temporary files. If that path is too long for a socket, or
    /// has a comma, the folder is made in `/tmp`.
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    fn bind_unix(&mut self, count: usize) -> io::Result<()> {
        /// Largest number of bytes of a socket's path on some systems, less those of a number and a folder's name.
        const LONGEST: usize = 80;
        let temporary = std::env::temp_dir();
        let is_good = temporary.to_str().is_some_and(|path| path.len() <= LONGEST && !path.contains(','));
        let mut builder = tempfile::Builder::new();
        builder.prefix("chanter-");
        let folder = if is_good { builder.tempdir()? } else { builder.tempdir_in("/tmp")? };
        for number in 0..count {
            let path = folder.path().join(number.to_string());
            let socket = UnixListener::bind(&path)?;
            self.add(Address::Unix(path), socket.into());
        }
        self._folder = Some(folder);
        Ok(())
    }

    /// The addresses as text, in the form in which the processes get them.
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
