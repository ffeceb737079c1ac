//! Seeds: where processes of a cluster are found.

use std::fmt;
use std::fs;
use std::io;
use std::net::ToSocketAddrs;
use std::path::PathBuf;
use std::str::FromStr;

use chanter::spawn_blocking;

use crate::launcher::Address;

/// A place where the addresses of processes of a cluster are found. As text:
///
/// | text | place |
/// |---|---|
/// | `tcp:IP:PORT`, `unix:PATH` | this address |
/// | `dns:NAME:PORT` | all addresses of that name, which is looked up at each attempt |
/// | `file:PATH` | the addresses in that file, one in a line, which is read at each attempt; `#` begins a comment |
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Seed {
    /// This address.
    Address(Address),
    /// The addresses of a name, with a port: `name:port`.
    Dns(String),
    /// The addresses in a file.
    File(PathBuf),
}

/// The error of a text that names no seed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadSeed(String);

impl fmt::Display for BadSeed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} is no seed: use tcp:IP:PORT, unix:PATH, dns:NAME:PORT or file:PATH", self.0)
    }
}

impl std::error::Error for BadSeed {}

impl fmt::Display for Seed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(address) => address.fmt(f),
            Self::Dns(name) => write!(f, "dns:{name}"),
            Self::File(path) => write!(f, "file:{}", path.display()),
        }
    }
}

impl FromStr for Seed {
    type Err = BadSeed;

    fn from_str(text: &str) -> Result<Self, BadSeed> {
        let bad = || BadSeed(text.to_owned());
        match text.split_once(':').ok_or_else(bad)? {
            ("dns", name) => match name.rsplit_once(':') {
                Some((host, port)) if !host.is_empty() && port.parse::<u16>().is_ok() => {
                    Ok(Self::Dns(name.to_owned()))
                }
                _ => Err(bad()),
            },
            ("file", path) if !path.is_empty() => Ok(Self::File(path.into())),
            _ => text.parse().map(Self::Address).map_err(|_| bad()),
        }
    }
}

impl Seed {
    /// The addresses that are found there now. Those of a name or a file are sorted.
    pub(super) async fn addresses(&self) -> io::Result<Vec<Address>> {
        let mut addresses = match self {
            Self::Address(address) => return Ok(vec![address.clone()]),
            Self::Dns(name) => {
                let name = name.clone();
                // The OS looks names up by a call that blocks.
                let found = spawn_blocking(move || name.to_socket_addrs().map(Iterator::collect::<Vec<_>>));
                let found = found.join().await.map_err(|_| io::ErrorKind::Other)??;
                found.into_iter().map(Address::Tcp).collect()
            }
            Self::File(path) => read(&fs::read_to_string(path)?)?,
        };
        addresses.sort_by_cached_key(Address::to_string);
        addresses.dedup();
        Ok(addresses)
    }
}

/// The addresses in a file's text.
fn read(text: &str) -> io::Result<Vec<Address>> {
    let lines = text.lines().map(|line| line.split('#').next().unwrap_or("").trim());
    let address = |line: &str| {
        line.parse()
            .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, format!("{line:?} is no address")))
    };
    lines.filter(|line| !line.is_empty()).map(address).collect()
}

/// Whether a seed is the address at which this process is reached. For a process that listens at all addresses of its host, the
/// port and an address of the host decide.
pub(super) fn is_own(seed: &Address, own: &Address) -> bool {
    match (seed, own) {
        (Address::Tcp(seed), Address::Tcp(own)) if own.ip().is_unspecified() => {
            // An address of this host, and no other one, can be bound here.
            seed.port() == own.port() && std::net::UdpSocket::bind((seed.ip(), 0)).is_ok()
        }
        _ => seed == own,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_are_read_and_written() {
        for text in
            ["tcp:127.0.0.1:80", "tcp:[::1]:80", "unix:/tmp/a", "dns:chat.example:7000", "file:/etc/seeds"]
        {
            assert_eq!(text.parse::<Seed>().unwrap().to_string(), text);
        }
        for text in
            ["", "tcp", "tcp:", "tcp:host:1", "dns:", "dns:name", "dns::1", "dns:name:x", "file:", "udp:1"]
        {
            let error = text.parse::<Seed>().unwrap_err().to_string();
            assert!(error.starts_with(&format!("{text:?} is no seed")), "{error}");
        }
    }

    #[chanter::test]
    async fn addresses_come_from_files_and_names() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("seeds");
        let seed = Seed::File(path.clone());
        assert_eq!(seed.addresses().await.unwrap_err().kind(), io::ErrorKind::NotFound);
        fs::write(&path, "# ours\ntcp:127.0.0.2:1 # second\n\n  tcp:127.0.0.1:1\ntcp:127.0.0.2:1\n").unwrap();
        let found: Vec<String> = seed.addresses().await.unwrap().iter().map(Address::to_string).collect();
        assert_eq!(found, ["tcp:127.0.0.1:1", "tcp:127.0.0.2:1"]);
        fs::write(&path, "tcp:127.0.0.1:1\nnonsense\n").unwrap();
        let error = seed.addresses().await.unwrap_err();
        assert_eq!(error.to_string(), "\"nonsense\" is no address");
        let named = "dns:localhost:7".parse::<Seed>().unwrap().addresses().await.unwrap();
        assert!(named.iter().any(|address| address.to_string() == "tcp:127.0.0.1:7"), "{named:?}");
    }

    #[test]
    fn an_address_of_this_host_is_its_own() {
        let is_own = |seed: &str, own: &str| is_own(&seed.parse().unwrap(), &own.parse().unwrap());
        assert!(is_own("tcp:127.0.0.1:7", "tcp:127.0.0.1:7") && is_own("unix:/a", "unix:/a"));
        assert!(!is_own("tcp:127.0.0.1:7", "tcp:127.0.0.1:8") && !is_own("unix:/a", "unix:/b"));
        assert!(is_own("tcp:127.0.0.1:7", "tcp:0.0.0.0:7"));
        assert!(!is_own("tcp:192.0.2.1:7", "tcp:0.0.0.0:7"), "an address for documentation");
    }
}
