//! The lines of JSON between the launcher of a job and its nodes. They pass through the standard streams of `chanter
//! launch-node`.
//!
//! ```text
//!   launcher                                         node
//!      | Order: program, processes, address             |
//!      |----------------------------------------------->|  binds its listeners
//!      | Answer: their addresses                        |
//!      |<-----------------------------------------------|
//!      | Word::Start: all addresses, the secret         |
//!      |----------------------------------------------->|  starts its processes
//!      | Word::Signal                                   |
//!      |----------------------------------------------->|
//!      | output of the processes                        |
//!      |<-----------------------------------------------|
//! ```
//!
//! The secret of the job stands in no command line. The end of a node's standard input means that the launcher has gone.

use std::ffi::OsString;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::prefix::Prefix;

/// Version of these lines. Another version is refused.
pub(super) const VERSION: u32 = 1;
/// Largest part of a wrong line that a message quotes, in characters.
const QUOTED: usize = 120;

/// The first line to a node.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Order {
    pub(super) version: u32,
    /// Name of the host, for messages.
    pub(super) host: String,
    /// The program, and its arguments.
    pub(super) program: Vec<OsString>,
    /// Where the program is run, if the node has this folder.
    pub(super) folder: Option<PathBuf>,
    /// Number of the node's first process.
    pub(super) first: u32,
    /// Number of the node's processes.
    pub(super) here: u32,
    /// Number of all processes of the job.
    pub(super) count: u32,
    /// Address at which the processes listen.
    pub(super) address: IpAddr,
    /// Whether the processes of the node share memory.
    pub(super) segment: bool,
    pub(super) grace: f64,
    pub(super) keep_going: bool,
    pub(super) status: bool,
    pub(super) prefix: Prefix,
}

/// A node's line: the addresses of its listeners, in the order of the processes' numbers.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Answer {
    pub(super) version: u32,
    pub(super) addresses: Vec<SocketAddr>,
}

/// A further line to a node. It has a secret, so it is never printed.
#[derive(Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Word {
    /// The first one: all listen.
    Start(Start),
    /// The node acts on a signal's number as the launcher does.
    Signal(i32),
}

/// All that the processes of a job are told alike.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct Start {
    pub(super) addresses: Vec<SocketAddr>,
    /// In hexadecimal.
    pub(super) secret: String,
    /// Further variables of the processes.
    pub(super) variables: Vec<(String, String)>,
}

/// The version alone, which no other version changes.
#[derive(Deserialize)]
struct Versioned {
    version: u32,
}

/// A line of JSON, with its end.
pub(super) fn line(value: &impl Serialize) -> Vec<u8> {
    let mut line = serde_json::to_vec(value).expect("text keys, and nothing that can fail");
    line.push(b'\n');
    line
}

/// Reads a line that names its version.
///
/// # Errors
/// The line is of another version, or is something else. `writer` and `reader` name the two sides.
pub(super) fn read_first<T: DeserializeOwned>(
    line: &[u8],
    what: &str,
    writer: &str,
    reader: &str,
) -> Result<T, String> {
    match serde_json::from_slice::<Versioned>(line) {
        Ok(Versioned { version: VERSION }) => {
            serde_json::from_slice(line).map_err(|error| format!("{what} is wrong: {error}"))
        }
        Ok(Versioned { version }) => Err(format!(
            "{writer} is of another version of chanter than {reader} (format {version}, not {VERSION})"
        )),
        Err(_) => Err(format!("expected {what}, but got {}", quoted(line))),
    }
}

/// The beginning of the line, with what is no text escaped.
fn quoted(line: &[u8]) -> String {
    let text = String::from_utf8_lossy(line);
    let text = text.trim_end();
    let beginning: String = text.chars().take(QUOTED).collect();
    let rest = if beginning.len() < text.len() { " .." } else { "" };
    format!("{beginning:?}{rest}")
}

impl Answer {
    /// Largest length of an answer with that many addresses, in bytes.
    pub(super) fn longest(count: u32) -> usize {
        const ADDRESS: usize = 80;
        256 + ADDRESS * count as usize
    }

    /// The addresses of a node that was told to bind `count` listeners at `address`.
    ///
    /// # Errors
    /// The line is something else.
    pub(super) fn judge(line: &[u8], address: IpAddr, count: u32) -> Result<Vec<SocketAddr>, String> {
        let Self { addresses, .. } = read_first(line, "the answer of chanter launch-node", "it", "this one")?;
        if addresses.len() != count as usize {
            return Err(format!("it listens at {} addresses in place of {count}", addresses.len()));
        }
        match addresses.iter().find(|one| one.ip() != address || one.port() == 0) {
            Some(other) => Err(format!("it listens at {other}, which is not at {address}")),
            None => Ok(addresses),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judge(line: &str) -> Result<Vec<SocketAddr>, String> {
        Answer::judge(line.as_bytes(), "10.0.0.1".parse().unwrap(), 2)
    }

    #[test]
    fn an_answer_is_read() {
        let addresses = ["10.0.0.1:1", "10.0.0.1:65535"].map(|address| address.parse().unwrap()).to_vec();
        let answer = Answer { version: VERSION, addresses: addresses.clone() };
        assert_eq!(judge(std::str::from_utf8(&line(&answer)).unwrap()), Ok(addresses));
    }

    #[test]
    fn what_is_no_answer_is_refused_and_quoted() {
        for (line, why) in [
            ("Welcome!\n", r#"expected the answer of chanter launch-node, but got "Welcome!""#),
            ("\u{1b}[31m", r#"expected the answer of chanter launch-node, but got "\u{1b}[31m""#),
            ("", r#"expected the answer of chanter launch-node, but got """#),
            (r#"{"version":2}"#, "it is of another version of chanter than this one (format 2, not 1)"),
            (r#"{"version":1}"#, "the answer of chanter launch-node is wrong: missing field"),
            (r#"{"version":1,"addresses":[]}"#, "it listens at 0 addresses in place of 2"),
            (
                r#"{"version":1,"addresses":["10.0.0.1:1","10.0.0.2:1"]}"#,
                "it listens at 10.0.0.2:1, which is not at 10.0.0.1",
            ),
            (r#"{"version":1,"addresses":["10.0.0.1:0","10.0.0.1:1"]}"#, "it listens at 10.0.0.1:0"),
        ] {
            let error = judge(line).unwrap_err();
            assert!(error.starts_with(why), "{line:?}: {error}");
        }
        let long = judge(&"x".repeat(1000)).unwrap_err();
        assert!(long.ends_with("xxx\" .."), "{long}");
        assert!(long.len() < 200);
    }

    #[test]
    fn an_answer_of_most_addresses_is_short_enough() {
        let longest = "[ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff%4294967295]:65535".parse().unwrap();
        for count in [0, 1, 4096] {
            let answer = Answer { version: u32::MAX, addresses: vec![longest; count] };
            assert!(line(&answer).len() <= Answer::longest(count as u32));
        }
    }
}
