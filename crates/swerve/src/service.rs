//! Service that hyper calls with each request. It answers requests that need no file, and asks a file processor for
//! the rest.

use std::convert::Infallible;
use std::future::Future;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use http::header::{ALLOW, CONNECTION, HOST, HeaderValue};
use http::request::Parts;
use http::{Method, Request, Response, StatusCode, Version};
use hyper::body::{Body as _, Incoming};

use crate::body::{Body, Content, Exchange};
use crate::files::{Answer, Ask, FileProcessor, plain};
use crate::meter::Meter;
use crate::record::Record;

/// The service of one connection.
pub(crate) struct Service {
    pub(crate) files: FileProcessor,
    pub(crate) meter: Arc<Meter>,
    pub(crate) peer: IpAddr,
    pub(crate) logged: bool,
}

impl hyper::service::Service<Request<Incoming>> for Service {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Answering;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        let (parts, body) = request.into_parts();
        // Nothing here reads a body. The bytes after it are not taken for a request, as their sender may see the
        // body's end elsewhere.
        let is_last = !body.is_end_stream();
        drop(body);
        let record = self.logged.then(|| Box::new(Record::of_request(self.peer, &parts)));
        let exchange = Exchange::new(self.meter.clone(), record);
        let is_head = parts.method == Method::HEAD;
        let answer = match judge(&parts) {
            Some(answer) => Source::Here(Some(answer)),
            None => {
                let Parts { method, uri, headers, .. } = parts;
                let processor = self.files.start(Ask { method, uri, headers });
                // A processor that is a parasite, and did not wait, has left its answer already.
                match processor.try_recv() {
                    Ok(answer) => Source::Here(Some(answer)),
                    Err(_) => Source::Processor(Box::pin(async move { processor.recv().await.ok() })),
                }
            }
        };
        Answering { answer, is_head, is_last, exchange: Some(exchange) }
    }
}

/// Source of an answer.
enum Source {
    /// The answer itself.
    Here(Option<Answer>),
    /// A file processor that still works on the answer. `None`: it has failed.
    Processor(Pin<Box<dyn Future<Output = Option<Answer>> + Send>>),
}

/// The future of an answer.
pub(crate) struct Answering {
    answer: Source,
    is_head: bool,
    /// Whether the connection ends with this answer.
    is_last: bool,
    exchange: Option<Exchange>,
}

impl Future for Answering {
    type Output = Result<Response<Body>, Infallible>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let answer = match &mut self.answer {
            Source::Here(answer) => answer.take(),
            Source::Processor(answer) => ready!(answer.as_mut().poll(cx)),
        };
        let mut answer = answer.unwrap_or_else(|| plain(StatusCode::INTERNAL_SERVER_ERROR));
        if self.is_head {
            *answer.body_mut() = Content::Empty;
        }
        if self.is_last {
            answer.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        let mut exchange = self.exchange.take().expect("polled again after it was ready");
        exchange.answer_with(answer.status().as_u16());
        Poll::Ready(Ok(answer.map(|content| Body::new(content, exchange))))
    }
}

/// The answer to a request that can be answered from its head alone.
fn judge(parts: &Parts) -> Option<Answer> {
    if !has_good_host(parts) {
        let mut answer = plain(StatusCode::BAD_REQUEST);
        answer.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        return Some(answer);
    }
    if parts.method != Method::GET && parts.method != Method::HEAD {
        let mut answer = plain(StatusCode::METHOD_NOT_ALLOWED);
        answer.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
        return Some(answer);
    }
    None
}

/// Whether a request has one host, and the host's syntax is right. A request needs that whatever its method, except
/// in HTTP/1.0 (RFC 9112, 3.2).
fn has_good_host(parts: &Parts) -> bool {
    let mut hosts = parts.headers.get_all(HOST).iter();
    match (hosts.next(), hosts.next()) {
        (None, _) => parts.version <= Version::HTTP_10,
        (Some(host), None) => is_host(host.as_bytes()),
        (Some(_), Some(_)) => false,
    }
}

/// Whether a value is a `uri-host [ ":" port ]` of RFC 9110, 7.2. It may be empty: so is the host of some URIs.
fn is_host(value: &[u8]) -> bool {
    let (host, port) = match value.iter().rposition(|b| *b == b':') {
        // A colon within brackets belongs to an address.
        Some(colon) if !value.ends_with(b"]") => (&value[..colon], &value[colon + 1..]),
        _ => (value, &[][..]),
    };
    let is_plain = |b: &u8| b.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=".contains(b);
    let is_good = match host.strip_prefix(b"[").map(|rest| rest.strip_suffix(b"]")) {
        Some(Some(address)) => !address.is_empty() && address.iter().all(|b| is_plain(b) || *b == b':'),
        Some(None) => false,
        None => {
            let mut rest = host;
            loop {
                rest = match rest {
                    [] => break true,
                    [b'%', high, low, rest @ ..] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => {
                        rest
                    }
                    [b, rest @ ..] if is_plain(b) => rest,
                    _ => break false,
                };
            }
        }
    };
    is_good && port.iter().all(u8::is_ascii_digit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts() {
        for good in [
            "",
            "a",
            "a:",
            "a:80",
            "example.com",
            "127.0.0.1:8080",
            "[::1]",
            "[::1]:80",
            "[v1.x:y]",
            "a_b",
            "%c3%bc",
            "xn--a-b.",
            ":80",
        ] {
            assert!(is_host(good.as_bytes()), "{good}");
        }
        for bad in [
            "a b", "a,b c", "a/b", "user@a", "a:b", "a:80:90", "::1", "[::1", "::1]", "[]", "[::1]x", "a?b",
            "a#b", "%c", "%zz", "a\tb", "a\\b", "<a>", "\u{fc}", "[a]b]:1", "[::1]:x",
        ] {
            assert!(!is_host(bad.as_bytes()), "{bad}");
        }
    }
}
