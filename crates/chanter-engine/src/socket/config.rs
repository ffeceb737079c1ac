//! Limits of the socket engine.

use std::time::Duration;

use super::tls::Tls;

/// Limits of a [`Sockets`](super::Sockets).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Config {
    /// Bytes that may wait in each lane to each peer; one body may be longer. 1 MiB by default.
    pub queue: usize,
    /// Bytes from each peer that may wait for a poll; the message that exceeds it is taken. 4 MiB by default.
    pub inbox: usize,
    /// Time within which a connecting process must prove to belong to the job, and a process that joins has
    /// for each of its steps. 10 seconds by default.
    pub hello: Duration,
    /// Time within which all connections must be made. 60 seconds by default.
    pub start: Duration,
    /// Interval at which a process says that it lives, if it sends nothing else. 200 ms by default.
    pub heartbeat: Duration,
    /// Number of heartbeats without a word after which a peer is suspect. 5 by default.
    pub suspect_after: u32,
    /// Number of heartbeats without a word after which a TCP peer is unreachable, for good. 150 by default; a process
    /// that was stopped for less goes on. A silent peer on a Unix socket is waited for, as the OS would report its
    /// end. On any socket, a peer is also unreachable if it takes nothing for this many heartbeats while this process
    /// waits to leave.
    pub lost_after: u32,
    /// TLS on TCP connections (feature `tls`). `None`: the TLS that the [launcher](crate::launcher) has set, if any.
    /// The hello with the job's secret remains.
    pub tls: Option<Tls>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            queue: 1 << 20,
            inbox: 4 << 20,
            hello: Duration::from_secs(10),
            start: Duration::from_secs(60),
            heartbeat: Duration::from_millis(200),
            suspect_after: 5,
            lost_after: 150,
            tls: None,
        }
    }
}
