//! The limit on open descriptors: every connection is one, and so is every file that is being sent.

use std::fmt;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Descriptors that are neither connections nor files: listeners, pollers, standard streams.
const RESERVED: u64 = 64;

/// Limit of the system; see [`raise_descriptor_limit`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Descriptors {
    /// Number of descriptors that the process may hold now.
    pub allowed: u64,
    /// Number of descriptors that the wanted connections would take.
    pub wanted: u64,
}

impl Descriptors {
    /// Number of connections that can be held within the limit: at most `wish`, and one if any are wished for.
    /// A quarter of the descriptors is left to the files that they ask for.
    pub fn connections(&self, wish: usize) -> usize {
        let room = self.allowed.saturating_sub(RESERVED) / 4 * 3;
        wish.min(usize::try_from(room).unwrap_or(usize::MAX).max(1))
    }
}

impl fmt::Display for Descriptors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} open descriptors are allowed, {} are wanted", self.allowed, self.wanted)
    }
}

/// Raises the process's limit on descriptors, as far as it is allowed, to what `connections` need.
pub fn raise_descriptor_limit(connections: usize) -> Descriptors {
    let wanted = (connections as u64).saturating_add(2) / 3 * 4 + RESERVED + 4;
    let limit = getrlimit(Resource::Nofile);
    let enough = |have: Option<u64>| have.is_none_or(|have| have >= wanted);
    if !enough(limit.current) {
        let hard = limit.maximum;
        let within = if enough(hard) { wanted } else { hard.unwrap_or(wanted) };
        // Beyond the hard limit only with privileges; then to the hard limit at least.
        let _ = setrlimit(
            Resource::Nofile,
            Rlimit { current: Some(wanted), maximum: if enough(hard) { hard } else { Some(wanted) } },
        )
        .or_else(|_| setrlimit(Resource::Nofile, Rlimit { current: Some(within), maximum: hard }));
    }
    let allowed = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    Descriptors { allowed, wanted }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wanted_holds_what_was_asked_for() {
        for connections in [1, 7, 1_000, 10_240, 100_000] {
            let wanted = raise_descriptor_limit(connections).wanted;
            let granted = Descriptors { allowed: wanted, wanted };
            assert_eq!(granted.connections(connections), connections);
        }
    }

    #[test]
    fn a_low_limit_means_fewer_connections() {
        let low = Descriptors { allowed: 1_024, wanted: 13_724 };
        assert_eq!(low.connections(10_240), 720);
        assert_eq!(Descriptors { allowed: 3, wanted: 99 }.connections(10), 1);
        assert_eq!(low.connections(0), 0);
    }
}
