//! The file of `--hosts`, and the shares of its hosts in a job.

use std::fmt;
use std::net::{IpAddr, ToSocketAddrs};

use chanter_cluster::launcher::MOST;

/// A line of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Host {
    pub(super) name: String,
    /// Largest number of processes there.
    slots: u32,
    /// Where other processes reach those of the host; `None`: the address of the name.
    address: Option<IpAddr>,
    /// Number of the line, from 1.
    line: usize,
}

/// A host that has processes of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Share {
    pub(super) name: String,
    pub(super) address: IpAddr,
    /// Number of its first process.
    pub(super) first: u32,
    pub(super) count: u32,
}

/// The error of a line of the file.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct BadLine {
    line: usize,
    why: String,
}

impl fmt::Display for BadLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.why)
    }
}

/// The hosts of a file: one a line, `NAME [slots=N] [address=IP]`. A `#` begins a comment.
pub(super) fn parse(text: &str) -> Result<Vec<Host>, BadLine> {
    let mut hosts: Vec<Host> = Vec::new();
    for (line, content) in (1..).zip(text.lines()) {
        let content = content.split('#').next().unwrap_or_default();
        let bad = |why: String| BadLine { line, why };
        let Some(host) = host(content, line).map_err(bad)? else { continue };
        if let Some(other) = hosts.iter().find(|other| other.name == host.name) {
            return Err(bad(format!(
                "{} stands on line {} too: give it more slots there",
                host.name, other.line
            )));
        }
        hosts.push(host);
    }
    Ok(hosts)
}

fn host(content: &str, line: usize) -> Result<Option<Host>, String> {
    let mut words = content.split_whitespace();
    let Some(name) = words.next() else { return Ok(None) };
    if name.starts_with('-') || name.contains(['=', ',']) || name.contains(char::is_control) {
        return Err(format!("{name:?} is no name of a host"));
    }
    let (mut slots, mut address) = (None, None);
    for word in words {
        let is_second = match word.split_once('=') {
            Some(("slots", number)) => {
                let number = number.parse().ok().filter(|number| (1..=MOST).contains(number));
                slots.replace(number.ok_or(format!("{word:?}: slots are between 1 and {MOST}"))?).is_some()
            }
            Some(("address", ip)) => {
                address.replace(ip.parse().map_err(|_| format!("{ip:?} is no IP address"))?).is_some()
            }
            _ => return Err(format!("{word:?} is neither slots=N nor address=IP")),
        };
        if is_second {
            return Err(format!("{word:?} is given twice"));
        }
    }
    Ok(Some(Host { name: name.to_owned(), slots: slots.unwrap_or(1), address, line }))
}

/// The shares of a job of `wanted` processes, or of as many as there are slots. The hosts are filled in their order.
pub(super) fn share(hosts: &[Host], wanted: Option<u32>) -> Result<Vec<Share>, String> {
    let slots: u64 = hosts.iter().map(|host| u64::from(host.slots)).sum();
    if slots == 0 {
        return Err("it names no host".into());
    }
    let wanted = wanted.map_or(slots, u64::from);
    if wanted > slots {
        return Err(format!("{wanted} processes are wanted, but its hosts have {slots} slots"));
    }
    if wanted > u64::from(MOST) {
        return Err(format!("its hosts have {slots} slots, but a job has at most {MOST} processes"));
    }
    let mut shares = Vec::new();
    let mut first = 0;
    for host in hosts {
        // No more than `MOST`.
        let count = host.slots.min(wanted as u32 - first);
        if count == 0 {
            break;
        }
        let address = host.address().map_err(|why| BadLine { line: host.line, why }.to_string())?;
        shares.push(Share { name: host.name.clone(), address, first, count });
        first += count;
    }
    reach(&shares)?;
    Ok(shares)
}

/// Checks that no host has an address at which only the host itself reaches its processes.
fn reach(shares: &[Share]) -> Result<(), String> {
    let is_loopback = |share: &&Share| share.address.to_canonical().is_loopback();
    match shares.iter().find(is_loopback) {
        Some(Share { name, address, .. }) if !shares.iter().all(|share| is_loopback(&share)) => Err(format!(
            "{address} of {name} is a loopback address, where other hosts do not reach it: give address=IP"
        )),
        _ => Ok(()),
    }
}

impl Host {
    fn address(&self) -> Result<IpAddr, String> {
        if let Some(address) = self.address {
            return Ok(address);
        }
        // Commands such as `ssh` take USER@NAME.
        let name = self.name.rsplit('@').next().unwrap_or_default();
        let found = (name, 0).to_socket_addrs();
        let found = found.map_err(|error| format!("the address of {name} is not known: {error}"))?;
        let mut found = found.map(|address| address.ip());
        found.next().ok_or_else(|| format!("{name} has no address"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shares(text: &str, wanted: Option<u32>) -> Result<Vec<(String, u32, u32)>, String> {
        let hosts = parse(text).unwrap();
        let shares = share(&hosts, wanted)?;
        Ok(shares.into_iter().map(|share| (share.name, share.first, share.count)).collect())
    }

    #[test]
    fn a_line_is_a_host() {
        let hosts = parse("# all\n\n a\nme@b slots=3 # more\n c  address=::1 slots=2").unwrap();
        let host = |name: &str, slots, address: Option<&str>, line| Host {
            name: name.into(),
            slots,
            address: address.map(|ip| ip.parse().unwrap()),
            line,
        };
        let expected = [host("a", 1, None, 3), host("me@b", 3, None, 4), host("c", 2, Some("::1"), 5)];
        assert_eq!(hosts, expected);
    }

    #[test]
    fn a_bad_line_is_named() {
        for (bad, part) in [
            ("b slots=0", "between 1 and 4096"),
            ("b slots=4097", "between 1 and 4096"),
            ("b slots=-1", "between 1 and 4096"),
            ("b slots=", "between 1 and 4096"),
            ("b slots=1 slots=2", "twice"),
            ("b address=here", "no IP address"),
            ("b address=::1 address=::1", "twice"),
            ("b 4", "neither slots=N nor address=IP"),
            ("slots=4", "no name"),
            ("-oProxyCommand", "no name"),
            ("a", "stands on line 1 too"),
        ] {
            let error = parse(&format!("a\n{bad}\nc")).unwrap_err();
            assert!(error.line == 2 && error.why.contains(part), "{bad}: {error}");
        }
    }

    #[test]
    fn hosts_are_filled_in_their_order() {
        let text = "127.0.0.1 slots=2\n127.0.0.2\n127.0.0.3 slots=4";
        let of = |host: &str, first, count| (format!("127.0.0.{host}"), first, count);
        assert_eq!(shares(text, None).unwrap(), [of("1", 0, 2), of("2", 2, 1), of("3", 3, 4)]);
        assert_eq!(shares(text, Some(3)).unwrap(), [of("1", 0, 2), of("2", 2, 1)]);
        assert_eq!(shares(text, Some(1)).unwrap(), [of("1", 0, 1)]);
        let error = shares(text, Some(8)).unwrap_err();
        assert_eq!(error, "8 processes are wanted, but its hosts have 7 slots");
        let error = shares("a slots=4096\nb", None).unwrap_err();
        assert_eq!(error, "its hosts have 4097 slots, but a job has at most 4096 processes");
        assert_eq!(shares("# none", None).unwrap_err(), "it names no host");
    }

    #[test]
    fn a_host_that_others_do_not_reach_is_refused() {
        let error = shares("a address=10.0.0.1\nb address=127.0.1.1", None).unwrap_err();
        assert!(error.starts_with("127.0.1.1 of b is a loopback address"), "{error}");
        assert!(shares("a address=127.0.0.1\nb address=::1", None).is_ok());
        assert!(shares("a address=127.0.0.1\nb address=10.0.0.1", Some(1)).is_ok(), "b has no process");
    }
}
