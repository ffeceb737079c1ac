//! One line of the access log, in the combined format.

use std::fmt::Write as _;
use std::net::IpAddr;
use std::time::SystemTime;

use http::header::{HeaderValue, REFERER, USER_AGENT};
use http::request::Parts;
use http::{Method, Uri, Version};

use crate::clock::{Moment, unix_seconds};

/// What is logged of one exchange. Made when the request arrives, posted when its answer has gone.
#[derive(Debug)]
pub(crate) struct Record {
    peer: IpAddr,
    arrived: SystemTime,
    /// `None` when nothing that could be read as a request came.
    request: Option<Request>,
    /// The status sent, or 499 (after nginx) when the client left before there was one.
    pub(crate) status: u16,
    /// Bytes of the body handed to the network.
    pub(crate) sent: u64,
}

#[derive(Debug)]
struct Request {
    method: Method,
    uri: Uri,
    version: Version,
    referer: Option<HeaderValue>,
    agent: Option<HeaderValue>,
}

impl Record {
    /// The record of a request that has just been read. Copies nothing but reference counts.
    pub(crate) fn of_request(peer: IpAddr, parts: &Parts) -> Record {
        Record {
            peer,
            arrived: SystemTime::now(),
            request: Some(Request {
                method: parts.method.clone(),
                uri: parts.uri.clone(),
                version: parts.version,
                referer: parts.headers.get(REFERER).cloned(),
                agent: parts.headers.get(USER_AGENT).cloned(),
            }),
            status: 499,
            sent: 0,
        }
    }

    /// The record of bytes that never became a request, and of how they were answered.
    pub(crate) fn of_garbage(peer: IpAddr, status: u16) -> Record {
        Record { peer, arrived: SystemTime::now(), request: None, status, sent: 0 }
    }
}

/// Writes records as lines. Remembers the date of the last second, which most lines share.
#[derive(Debug, Default)]
pub(crate) struct LineWriter {
    second: Option<i64>,
    date: String,
}

impl LineWriter {
    /// Appends the line of `record` to `out`.
    pub(crate) fn write(&mut self, record: &Record, out: &mut String) {
        let second = unix_seconds(record.arrived);
        if self.second != Some(second) {
            self.second = Some(second);
            self.date = Moment::from_unix(second).for_log();
        }
        let _ = write!(out, "{} - - [{}] \"", record.peer, self.date);
        let (mut referer, mut agent) = (None, None);
        match &record.request {
            Some(request) => {
                escape(request.method.as_str().as_bytes(), out);
                out.push(' ');
                escape(request.uri.to_string().as_bytes(), out);
                let _ = write!(out, " {:?}", request.version);
                (referer, agent) = (request.referer.as_ref(), request.agent.as_ref());
            }
            None => out.push('-'),
        }
        let _ = write!(out, "\" {} {} \"", record.status, record.sent);
        escape(referer.map_or(b"-", HeaderValue::as_bytes), out);
        out.push_str("\" \"");
        escape(agent.map_or(b"-", HeaderValue::as_bytes), out);
        out.push_str("\"\n");
    }
}

/// What clients send may not forge lines, end quotes or speak to a terminal.
fn escape(bytes: &[u8], out: &mut String) {
    for &b in bytes {
        match b {
            b'"' | b'\\' => {
                out.push('\\');
                out.push(char::from(b));
            }
            b' '..=b'~' => out.push(char::from(b)),
            _ => {
                let _ = write!(out, "\\x{b:02x}");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use super::*;

    fn record(uri: &str, agent: &[u8]) -> Record {
        let (parts, ()) = http::Request::get(uri)
            .header(USER_AGENT, HeaderValue::from_bytes(agent).unwrap())
            .body(())
            .unwrap()
            .into_parts();
        let mut record = Record::of_request(IpAddr::from([127, 0, 0, 1]), &parts);
        record.arrived = UNIX_EPOCH + Duration::from_secs(971_186_136);
        record
    }

    #[test]
    fn combined_format() {
        let mut writer = LineWriter::default();
        let mut out = String::new();
        let mut first = record("/a?b=c", b"curl/8");
        (first.status, first.sent) = (200, 2326);
        writer.write(&first, &mut out);
        let mut second = Record::of_garbage(IpAddr::from([10, 0, 0, 2]), 400);
        second.arrived = UNIX_EPOCH;
        writer.write(&second, &mut out);
        assert_eq!(
            out,
            "127.0.0.1 - - [10/Oct/2000:13:55:36 +0000] \"GET /a?b=c HTTP/1.1\" 200 2326 \"-\" \"curl/8\"\n\
             10.0.0.2 - - [01/Jan/1970:00:00:00 +0000] \"-\" 400 0 \"-\" \"-\"\n"
        );
    }

    #[test]
    fn a_client_cannot_forge_a_line() {
        let mut out = String::new();
        LineWriter::default().write(&record("/", b"x\" 200 \\ \xff\ty"), &mut out);
        assert!(out.ends_with("\"x\\\" 200 \\\\ \\xff\\x09y\"\n"), "{out}");
        assert_eq!(out.lines().count(), 1);
    }
}
