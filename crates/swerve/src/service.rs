//! What hyper calls with each request: judges what needs no file, and asks a file processor the rest.

use std::convert::Infallible;
use std::future::Future;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use http::header::{ALLOW, CONTENT_LENGTH, HOST, HeaderValue};
use http::request::Parts;
use http::{Method, Request, Response, StatusCode, Version};
use hyper::body::Incoming;

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
        // A body, if there is one, is dropped here: hyper drains it or ends the connection.
        let (parts, _) = request.into_parts();
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
        Answering { answer, is_head, exchange: Some(exchange) }
    }
}

/// Where an answer comes from.
enum Source {
    /// It is here.
    Here(Option<Answer>),
    /// A file processor is still at it. `None` comes from one that failed.
    Processor(Pin<Box<dyn Future<Output = Option<Answer>> + Send>>),
}

/// The future of an answer.
pub(crate) struct Answering {
    answer: Source,
    is_head: bool,
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
        let mut exchange = self.exchange.take().expect("polled again after it was ready");
        exchange.answer_with(answer.status().as_u16());
        Poll::Ready(Ok(answer.map(|content| Body::new(content, exchange))))
    }
}

/// The answer to what can be answered from the head alone.
fn judge(parts: &Parts) -> Option<Answer> {
    if parts.method != Method::GET && parts.method != Method::HEAD {
        let mut answer = plain(StatusCode::METHOD_NOT_ALLOWED);
        answer.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
        return Some(answer);
    }
    // RFC 9112, 3.2: exactly one, from HTTP/1.1 on.
    let hosts = parts.headers.get_all(HOST).iter().count();
    if hosts > 1 || (hosts == 0 && parts.version > Version::HTTP_10) {
        let mut answer = plain(StatusCode::BAD_REQUEST);
        debug_assert!(answer.headers().contains_key(CONTENT_LENGTH));
        answer.headers_mut().insert(http::header::CONNECTION, HeaderValue::from_static("close"));
        return Some(answer);
    }
    None
}
