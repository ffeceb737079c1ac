//! One line of the access log, in the combined format.

use std::io::Write as _;
use std::net::IpAddr;
use std::time::SystemTime;

use http::header::{HeaderValue, REFERER, USER_AGENT};
use http::request::Parts;
use http::{Method, Uri, Version};

use crate::clock::{Moment, unix_seconds};

/// Log record of one exchange. Made when the request arrives, posted when its answer has gone.
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

/// Writes records as lines. Remembers the client and the date of the last one, which many lines share.
#[derive(Debug, Default)]
pub(crate) struct LineWriter {
    peer: Option<IpAddr>,
    name: String,
    second: Option<i64>,
    date: String,
}

impl LineWriter {
    /// Appends the line of `record` to `out`.
    pub(crate) fn write(&mut self, record: &Record, out: &mut Vec<u8>) {
        if self.peer != Some(record.peer) {
            self.peer = Some(record.peer);
            self.name = record.peer.to_string();
        }
        let second = unix_seconds(record.arrived);
        if self.second != Some(second) {
            self.second = Some(second);
            self.date = Moment::from_unix(second).for_log();
        }
        let mut digits = itoa::Buffer::new();
        put(&[&self.name, " - - [", &self.date, "] \""], out);
        let (mut referer, mut agent) = (None, None);
        match &record.request {
            Some(request) => {
                request.write(out);
                (referer, agent) = (request.referer.as_ref(), request.agent.as_ref());
            }
            None => out.push(b'-'),
        }
        put(&["\" ", digits.format(record.status), " "], out);
        put(&[digits.format(record.sent), " \""], out);
        escape(referer.map_or(b"-", HeaderValue::as_bytes), out);
        put(&["\" \""], out);
        escape(agent.map_or(b"-", HeaderValue::as_bytes), out);
        put(&["\"\n"], out);
    }
}

impl Request {
    /// Appends the request line.
    fn write(&self, out: &mut Vec<u8>) {
        escape(self.method.as_str().as_bytes(), out);
        out.push(b' ');
        match self.uri.path_and_query() {
            Some(path) if self.uri.authority().is_none() => escape(path.as_str().as_bytes(), out),
            _ => escape(self.uri.to_string().as_bytes(), out),
        }
        // Writing to memory does not fail.
        let _ = match self.version {
            Version::HTTP_11 => out.write_all(b" HTTP/1.1"),
            version => write!(out, " {version:?}"),
        };
    }
}

fn put(parts: &[&str], out: &mut Vec<u8>) {
    for part in parts {
        out.extend_from_slice(part.as_bytes());
    }
}

/// Bytes of clients must not forge lines, end quotes or speak to a terminal.
fn escape(bytes: &[u8], out: &mut Vec<u8>) {
    let is_plain = |b: &u8| matches!(b, b' '..=b'~') && !matches!(b, b'"' | b'\\');
    let mut rest = bytes;
    loop {
        let plain = rest.iter().take_while(|b| is_plain(b)).count();
        out.extend_from_slice(&rest[..plain]);
        match rest[plain..].split_first() {
            None => return,
            Some((&b, after)) => {
                rest = after;
                let _ = match b {
                    b'"' | b'\\' => out.write_all(&[b'\\', b]),
                    _ => write!(out, "\\x{b:02x}"),
                };
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
        let mut out = Vec::new();
        let mut first = record("/a?b=c", b"curl/8");
        (first.status, first.sent) = (200, 2326);
        writer.write(&first, &mut out);
        let mut second = Record::of_garbage(IpAddr::from([10, 0, 0, 2]), 400);
        second.arrived = UNIX_EPOCH;
        writer.write(&second, &mut out);
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "127.0.0.1 - - [10/Oct/2000:13:55:36 +0000] \"GET /a?b=c HTTP/1.1\" 200 2326 \"-\" \"curl/8\"\n\
             10.0.0.2 - - [01/Jan/1970:00:00:00 +0000] \"-\" 400 0 \"-\" \"-\"\n"
        );
    }

    #[test]
    fn a_client_cannot_forge_a_line() {
        let mut out = Vec::new();
        LineWriter::default().write(&record("/", b"x\" 200 \\ \xff\ty"), &mut out);
        let out = String::from_utf8(out).unwrap();
        assert!(out.ends_with("\"x\\\" 200 \\\\ \\xff\\x09y\"\n"), "{out}");
        assert_eq!(out.lines().count(), 1);
    }
}
