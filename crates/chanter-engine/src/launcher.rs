//! The environment variables by which a launcher informs the processes that it starts.
//!
//! | variable | value |
//! |---|---|
//! | `CHANTER_NUMBER` | this process's number, from 0 |
//! | `CHANTER_COUNT` | the number of processes |
//! | `CHANTER_ADDRESSES` | the address of each, in the order of their numbers, with commas between them: `unix:PATH`, `unix:@NAME` or `tcp:IP:PORT` |
//! | `CHANTER_LISTENER` | the descriptor, open in this process, that listens at its own address |
//! | `CHANTER_SEGMENT` | the descriptor, open in this process, of the memory that the processes share; without it they have none |
//! | `CHANTER_SECRET` | the job's secret: 32 bytes in hexadecimal |
//! | `CHANTER_OPEN` | `1`: processes may join the job while it runs |
//! | `CHANTER_TLS_CERT`, `CHANTER_TLS_KEY`, `CHANTER_TLS_CA` | files in PEM: the process's certificate, its key, and
//! the certificates of the job's authorities; without them there is no TLS |
//! | `CHANTER_TLS_NAME` | the name for which the certificates are; without it, they are for the processes' addresses
//! |
//!
//! `@NAME` is an abstract name of Linux: it is in no folder, and ends with its socket. Any user may connect to it. So a
//! process that listens there closes connections that come neither from its own user nor from root.
//!
//! All listen before the first process starts. So nobody has to try twice to connect.

use std::ffi::OsString;
use std::fmt;
use std::net::SocketAddr;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::shm::mapping::Protocol;

/// Name of the variable with this process's number.
pub const NUMBER: &str = "CHANTER_NUMBER";
/// Name of the variable with the number of processes.
pub const COUNT: &str = "CHANTER_COUNT";
/// Name of the variable with the addresses of all processes.
pub const ADDRESSES: &str = "CHANTER_ADDRESSES";
/// Name of the variable with the descriptor that listens at this process's address.
pub const LISTENER: &str = "CHANTER_LISTENER";
/// Name of the variable with the descriptor of the shared memory.
pub const SEGMENT: &str = "CHANTER_SEGMENT";
/// Name of the variable with the job's secret.
pub const SECRET: &str = "CHANTER_SECRET";

/// Name of the variable by which processes may join the job.
pub const OPEN: &str = "CHANTER_OPEN";

/// Name of the variable with the file of this process's certificate.
pub const TLS_CERT: &str = "CHANTER_TLS_CERT";
/// Name of the variable with the file of the certificate's key.
pub const TLS_KEY: &str = "CHANTER_TLS_KEY";
/// Name of the variable with the file of the certificate authority of the job.
pub const TLS_CA: &str = "CHANTER_TLS_CA";
/// Name of the variable with the name for which the certificates are.
pub const TLS_NAME: &str = "CHANTER_TLS_NAME";

/// Largest number of processes of a job.
pub const MOST: u32 = 4096;

/// The address at which a process listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// A Unix socket's path; or `@` and an abstract name (Linux).
    Unix(PathBuf),
    /// A TCP port.
    Tcp(SocketAddr),
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
            Self::Tcp(address) => write!(f, "tcp:{address}"),
        }
    }
}

impl FromStr for Address {
    type Err = BadEnvironment;

    fn from_str(text: &str) -> Result<Self, BadEnvironment> {
        match text.split_once(':') {
            Some(("unix", path)) if !path.is_empty() => Ok(Self::Unix(path.into())),
            Some(("tcp", address)) => {
                address.parse().map(Self::Tcp).map_err(|_| BadEnvironment { variable: ADDRESSES })
            }
            _ => Err(BadEnvironment { variable: ADDRESSES }),
        }
    }
}

/// The secret that the processes of a job share. Never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret([u8; 32]);

impl Secret {
    /// Makes a secret of bytes that nobody can guess.
    pub const fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// Its bytes.
    pub const fn bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// Its text in the environment.
    pub fn to_hex(&self) -> String {
        self.0.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    #[doc(hidden)]
    pub fn from_hex(text: &str) -> Option<Self> {
        let digits: Vec<u8> =
            text.chars().map(|digit| digit.to_digit(16).map(|digit| digit as u8)).collect::<Option<_>>()?;
        let bytes: Vec<u8> = digits.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]).collect();
        (digits.len() == 64).then(|| bytes.try_into().ok().map(Self))?
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

/// The files that a process needs for mutual TLS, in PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// The chain of its certificate.
    pub certificate: PathBuf,
    /// The key of the certificate.
    pub key: PathBuf,
    /// The certificates of the authorities that sign the job's certificates.
    pub authority: PathBuf,
    /// Name for which the certificates are; `None`: they are for the addresses.
    pub name: Option<String>,
}

/// The error of a variable of the environment that is missing, or has a value that no launcher sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadEnvironment {
    /// Which.
    pub variable: &'static str,
}

impl fmt::Display for BadEnvironment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the environment variable {} is missing, or not what a launcher sets: start the program by `chanter launch`, or \
             without any CHANTER_ variable",
            self.variable
        )
    }
}

impl std::error::Error for BadEnvironment {}

/// The data that a launcher has given to this process.
#[derive(Debug)]
pub struct Launched {
    /// This process's number.
    pub number: u32,
    /// The addresses of all processes, this one among them.
    pub addresses: Vec<Address>,
    /// The socket that listens at this process's address.
    pub listener: OwnedFd,
    /// The secret by which the processes know each other.
    pub secret: Secret,
    /// The memory that they share, if they do: see [`ShmSlot`](crate::shm::ShmSlot).
    pub segment: Option<OwnedFd>,
    /// The data for TLS, if the process uses it over TCP.
    pub tls: Option<TlsFiles>,
    /// Whether processes may join the job while it runs.
    pub is_open: bool,
}

/// Makes the memory that the processes of a node share, for [`SEGMENT`]. It has no name, and is gone with the last of
/// them.
///
/// # Errors
/// The OS grants no such file, or has no room for all of it: 1 MiB for each process.
pub fn segment(processes: u32) -> std::io::Result<OwnedFd> {
    segment_of(processes, Protocol::default())
}

/// Like [`segment`], for the given protocol. All processes of the job then use that one.
///
/// # Errors
/// The errors of [`segment`].
///
/// # Examples
///
/// ```
/// use chanter_engine::shm::Protocol;
/// use chanter_engine::launcher::segment_of;
///
/// let segment = segment_of(2, Protocol::Push).unwrap();
/// # drop(segment);
/// ```
pub fn segment_of(processes: u32, protocol: Protocol) -> std::io::Result<OwnedFd> {
    crate::shm::mapping::create(processes, protocol)
}

/// Whether a descriptor is a socket that listens. Elsewhere than on Linux, any bound socket is taken for one.
fn is_listener(descriptor: &OwnedFd) -> bool {
    let socket = socket2::SockRef::from(descriptor);
    #[cfg(any(target_os = "linux", target_os = "android"))]
    return socket.is_listener().unwrap_or(false);
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    socket.local_addr().is_ok()
}

impl Launched {
    /// The data that a launcher has given; `None` if none has started this process, or if the answer was already
    /// given: the
    /// listener is handed out once.
    ///
    /// # Errors
    /// [`BadEnvironment`]: a variable is not what a launcher sets.
    pub fn from_env() -> Result<Option<Self>, BadEnvironment> {
        static GIVEN: AtomicBool = AtomicBool::new(false);
        let Some(said) = Said::read(|variable| std::env::var_os(variable))? else { return Ok(None) };
        // ORDER: Relaxed: only one caller may see `false`; nothing else is published.
        if GIVEN.swap(true, Ordering::Relaxed) {
            return Ok(None);
        }
        let bad = BadEnvironment { variable: LISTENER };
        std::fs::metadata(format!("/dev/fd/{}", said.listener)).map_err(|_| bad)?;
        // SAFETY: it is open, as was just seen, and no standard stream, as `Said` has checked. It is a launcher's gift to
        // this process: nothing in it has opened it, and `GIVEN` hands it out once. A descriptor that is no listening
        // socket is no such gift, and is forgotten, not closed.
        let listener = unsafe { OwnedFd::from_raw_fd(said.listener) };
        if !is_listener(&listener) {
            std::mem::forget(listener);
            return Err(bad);
        }
        // Programs that this one starts shall not have it.
        socket2::SockRef::from(&listener).set_cloexec(true).map_err(|_| bad)?;
        let segment = said.segment.map(inherited).transpose()?;
        Ok(Some(Self {
            number: said.number,
            addresses: said.addresses,
            listener,
            secret: said.secret,
            segment,
            tls: said.tls,
            is_open: said.is_open,
        }))
    }
}

/// The segment, under a number that programs which this one starts do not have.
fn inherited(segment: RawFd) -> Result<OwnedFd, BadEnvironment> {
    let bad = BadEnvironment { variable: SEGMENT };
    std::fs::metadata(format!("/dev/fd/{segment}")).map_err(|_| bad)?;
    // SAFETY: it is open, as was just seen, no standard stream, as `Said` has checked, and a launcher's gift to this process,
    // which is taken once.
    let segment = unsafe { OwnedFd::from_raw_fd(segment) };
    // A clone is closed on exec.
    segment.try_clone().map_err(|_| bad)
}

/// The variables, each checked.
#[derive(Debug, PartialEq, Eq)]
struct Said {
    number: u32,
    addresses: Vec<Address>,
    listener: RawFd,
    secret: Secret,
    segment: Option<RawFd>,
    tls: Option<TlsFiles>,
    is_open: bool,
}

/// The files for TLS, if there is a variable for one of them.
#[doc(hidden)]
pub fn tls_files(variable: impl Fn(&str) -> Option<OsString>) -> Result<Option<TlsFiles>, BadEnvironment> {
    if [TLS_CERT, TLS_KEY, TLS_CA].iter().all(|name| variable(name).is_none()) {
        return Ok(None);
    }
    let file = |name| variable(name).map(PathBuf::from).ok_or(BadEnvironment { variable: name });
    let name = variable(TLS_NAME).map(OsString::into_string).transpose();
    let name = name.map_err(|_| BadEnvironment { variable: TLS_NAME })?;
    Ok(Some(TlsFiles { certificate: file(TLS_CERT)?, key: file(TLS_KEY)?, authority: file(TLS_CA)?, name }))
}

impl Said {
    fn read(variable: impl Fn(&str) -> Option<OsString>) -> Result<Option<Self>, BadEnvironment> {
        let text = |name: &'static str| {
            let bad = BadEnvironment { variable: name };
            variable(name).ok_or(bad)?.into_string().map_err(|_| bad)
        };
        if variable(NUMBER).is_none() {
            return Ok(None);
        }
        let number_of = |name| text(name)?.parse().map_err(|_| BadEnvironment { variable: name });
        let (number, count): (u32, u32) = (number_of(NUMBER)?, number_of(COUNT)?);
        if !(1..=MOST).contains(&count) {
            return Err(BadEnvironment { variable: COUNT });
        }
        if number >= count {
            return Err(BadEnvironment { variable: NUMBER });
        }
        let addresses: Vec<Address> =
            text(ADDRESSES)?.split(',').map(str::parse).collect::<Result<_, _>>()?;
        if addresses.len() != count as usize {
            return Err(BadEnvironment { variable: ADDRESSES });
        }
        let listener: RawFd = text(LISTENER)?.parse().map_err(|_| BadEnvironment { variable: LISTENER })?;
        if listener <= 2 {
            return Err(BadEnvironment { variable: LISTENER });
        }
        let secret = Secret::from_hex(&text(SECRET)?).ok_or(BadEnvironment { variable: SECRET })?;
        let segment = match variable(SEGMENT) {
            None => None,
            Some(_) => match text(SEGMENT)?.parse() {
                Ok(segment) if segment > 2 && segment != listener => Some(segment),
                _ => return Err(BadEnvironment { variable: SEGMENT }),
            },
        };
        let is_open = match variable(OPEN) {
            None => false,
            Some(value) if value == "1" => true,
            Some(_) => return Err(BadEnvironment { variable: OPEN }),
        };
        let tls = tls_files(&variable)?;
        Ok(Some(Self { number, addresses, listener, secret, segment, tls, is_open }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(changed: &str, value: Option<&str>) -> Result<Option<Said>, BadEnvironment> {
        let secret = Secret::new([0xab; 32]).to_hex();
        Said::read(|name| {
            let value = if name == changed {
                value
            } else {
                Some(match name {
                    NUMBER => "1",
                    COUNT => "2",
                    ADDRESSES => "unix:/tmp/a b/0,tcp:[::1]:80",
                    LISTENER => "7",
                    SEGMENT => "8",
                    OPEN => "1",
                    TLS_CERT | TLS_KEY | TLS_CA => "file",
                    TLS_NAME => "job",
                    _ => &secret,
                })
            };
            value.map(OsString::from)
        })
    }

    #[test]
    fn a_launchers_environment_is_read() {
        let read = said("", None).unwrap().unwrap();
        assert_eq!((read.number, read.listener, read.segment), (1, 7, Some(8)));
        assert!(read.is_open && !said(OPEN, None).unwrap().unwrap().is_open);
        assert_eq!(said(SEGMENT, None).unwrap().unwrap().segment, None);
        assert_eq!(read.tls.as_ref().unwrap().name.as_deref(), Some("job"));
        assert_eq!(said(TLS_NAME, None).unwrap().unwrap().tls.unwrap().name, None);
        for variable in [TLS_CERT, TLS_KEY, TLS_CA] {
            assert_eq!(said(variable, None), Err(BadEnvironment { variable }), "all of them or none");
        }
        assert_eq!(read.secret, Secret::new([0xab; 32]));
        let again: Vec<Address> = read.addresses.iter().map(|one| one.to_string().parse().unwrap()).collect();
        assert_eq!(again, read.addresses);
        assert_eq!(read.addresses[0], Address::Unix("/tmp/a b/0".into()));
        assert!(!format!("{read:?}").contains("ab, ab") && !format!("{read:?}").contains("171"));
    }

    #[test]
    fn without_a_number_nobody_has_launched_it() {
        assert_eq!(said(NUMBER, None), Ok(None));
    }

    #[test]
    fn what_is_missing_or_wrong_is_named() {
        let wrong: [(&'static str, &[&str]); 7] = [
            (OPEN, &["", "0", "yes"]),
            (SEGMENT, &["", "-1", "2", "7", "x"]),
            (NUMBER, &["2", "-1", "", "x"]),
            (COUNT, &["0", "1", "4097", "3", ""]),
            (ADDRESSES, &["", "unix:a", "unix:,unix:b", "tcp:host:1,unix:b", "ipx:1,unix:b"]),
            (LISTENER, &["", "-1", "0", "2", "99999999999"]),
            (SECRET, &["", "ab", "zz", &"abc".repeat(22)]),
        ];
        for (variable, values) in wrong {
            if ![NUMBER, SEGMENT, OPEN].contains(&variable) {
                assert_eq!(said(variable, None), Err(BadEnvironment { variable }));
            }
            for value in values {
                let got = said(variable, Some(value)).unwrap_err().variable;
                // The count is what the number and the addresses are held against.
                assert!(got == variable || variable == COUNT, "{variable}={value:?}: {got}");
            }
        }
    }
}
