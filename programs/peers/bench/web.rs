//! The peer: the same files, the same headers, by Tokio and hyper, as a user of both would write it.
//!
//! It answers GET and HEAD with the bytes of Swerve's answers; the comparison is part of the run. It leaves out the
//! parts that no request here needs: listings, redirects, the log, time limits of clients, and the check of links.
//! The missing parts favour the peer.
//!
//! It opens files in two ways. *In place*, on the worker that serves the connection, is the fastest while memory
//! holds them. Tokio's own `tokio::fs`, on its pool of OS threads, never makes a worker wait for a disk. Swerve does
//! both: in place what is in memory, elsewhere what is not.

use std::convert::Infallible;
use std::fs::Metadata;
use std::io::{self, SeekFrom, Write};
use std::net::SocketAddr;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::{
    ACCEPT_RANGES, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, ETAG, HeaderMap, HeaderValue,
    IF_MODIFIED_SINCE, IF_NONE_MATCH, IF_RANGE, LAST_MODIFIED, RANGE, SERVER, X_CONTENT_TYPE_OPTIONS,
};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt, AsyncSeekExt};
use tokio::net::TcpListener;

/// Where files are opened and read.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Files {
    /// On the worker itself
    InPlace,
    /// By `tokio::fs`
    Pool,
}

/// Serves `directory` until it is killed. Says the port in a line on standard output.
pub(crate) fn serve(directory: PathBuf, addr: SocketAddr, workers: usize, files: Files) -> io::Result<()> {
    // One worker uses the runtime that has no queues to share, as a careful user would choose.
    let runtime = match workers {
        1 => tokio::runtime::Builder::new_current_thread().enable_all().build()?,
        _ => tokio::runtime::Builder::new_multi_thread().worker_threads(workers).enable_all().build()?,
    };
    runtime.block_on(async {
        let listener = TcpListener::bind(addr).await?;
        writeln!(io::stdout(), "{}", listener.local_addr()?)?;
        io::stdout().flush()?;
        let directory = Arc::new(directory);
        loop {
            let Ok((stream, _)) = listener.accept().await else {
                tokio::time::sleep(Duration::from_millis(10)).await;
                continue;
            };
            let directory = directory.clone();
            tokio::spawn(async move {
                let _ = stream.set_nodelay(true);
                let service = service_fn(move |request| answer(request, directory.clone(), files));
                // A connection that fails concerns its client alone.
                let _ = http1::Builder::new()
                    .max_buf_size(32 * 1024)
                    .half_close(true)
                    .serve_connection(TokioIo::new(stream), service)
                    .await;
            });
        }
    })
}

async fn answer(
    request: Request<Incoming>,
    directory: Arc<PathBuf>,
    files: Files,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let mut answer = match of_file(&request, &directory, files).await {
        Ok(answer) => answer,
        Err(error) if error.kind() == io::ErrorKind::NotFound => plain(StatusCode::NOT_FOUND),
        Err(_) => plain(StatusCode::INTERNAL_SERVER_ERROR),
    };
    if request.method() == Method::HEAD {
        *answer.body_mut() = Full::default();
    }
    answer.headers_mut().insert(SERVER, HeaderValue::from_static("swerve"));
    Ok(answer)
}

async fn of_file(
    request: &Request<Incoming>,
    directory: &Path,
    files: Files,
) -> io::Result<Response<Full<Bytes>>> {
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        return Ok(plain(StatusCode::METHOD_NOT_ALLOWED));
    }
    let Some(path) = beneath(directory, request.uri().path()) else {
        return Ok(plain(StatusCode::FORBIDDEN));
    };
    let (mut file, metadata) = match files {
        Files::InPlace => {
            let file = std::fs::File::open(&path)?;
            let metadata = file.metadata()?;
            (Opened::InPlace(file), metadata)
        }
        Files::Pool => {
            let file = tokio::fs::File::open(&path).await?;
            let metadata = file.metadata().await?;
            (Opened::Pool(file), metadata)
        }
    };
    if !metadata.is_file() {
        return Err(io::ErrorKind::NotFound.into());
    }
    let mut answer = Response::new(Full::default());
    let validators = Validators::of(&metadata);
    let headers = answer.headers_mut();
    headers.insert(ETAG, value(&validators.etag));
    if let Some(modified) = validators.modified {
        headers.insert(LAST_MODIFIED, value(&httpdate::fmt_http_date(modified)));
    }
    if validators.not_modified(request.headers()) {
        *answer.status_mut() = StatusCode::NOT_MODIFIED;
        return Ok(answer);
    }
    headers.insert(ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    headers.insert(CONTENT_TYPE, content_type(&path));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    let len = metadata.len();
    let part = (*request.method() == Method::GET && validators.range_applies(request.headers()))
        .then(|| range(request.headers(), len))
        .flatten();
    let (start, end) = part.unwrap_or((0, len));
    if part.is_some() {
        headers.insert(CONTENT_RANGE, value(&format!("bytes {start}-{}/{len}", end - 1)));
        *answer.status_mut() = StatusCode::PARTIAL_CONTENT;
    }
    answer.headers_mut().insert(CONTENT_LENGTH, HeaderValue::from(end - start));
    if *request.method() == Method::GET {
        *answer.body_mut() = Full::new(file.read(start, end - start).await?.into());
    }
    Ok(answer)
}

enum Opened {
    InPlace(std::fs::File),
    Pool(tokio::fs::File),
}

impl Opened {
    async fn read(&mut self, start: u64, len: u64) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; len as usize];
        match self {
            Opened::InPlace(file) => file.read_exact_at(&mut bytes, start)?,
            Opened::Pool(file) => {
                if start > 0 {
                    file.seek(SeekFrom::Start(start)).await?;
                }
                file.read_exact(&mut bytes).await?;
            }
        }
        Ok(bytes)
    }
}

/// The file that a request path names, if it does not climb.
fn beneath(directory: &Path, raw: &str) -> Option<PathBuf> {
    let mut path = directory.to_owned();
    for name in raw.strip_prefix('/')?.split('/') {
        let name = percent_encoding::percent_decode_str(name).decode_utf8().ok()?;
        if name == ".." || name.contains(['/', '\\', '\0']) {
            return None;
        }
        if !matches!(&*name, "" | ".") {
            path.push(&*name);
        }
    }
    Some(path)
}

/// Part of Swerve's entity tags beside the length and the time. With it the same requests get the same answers.
fn digest(file: &Metadata) -> u64 {
    let times = [file.mtime(), file.mtime_nsec(), file.ctime(), file.ctime_nsec()].map(|time| time as u64);
    [file.ino(), file.len()].into_iter().chain(times).fold(0xcbf2_9ce4_8422_2325_u64, |hash, word| {
        let product = u128::from(hash ^ word) * 0x9e37_79b9_7f4a_7c15;
        (product >> 64) as u64 ^ product as u64
    })
}

/// Tag of one version of a file, written as Swerve writes it.
struct Validators {
    etag: String,
    modified: Option<SystemTime>,
}

impl Validators {
    fn of(metadata: &Metadata) -> Self {
        let since = metadata.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
        let nanos = since.map_or(0, |since| since.as_nanos());
        let etag = format!("\"{:x}-{nanos:x}-{:x}\"", metadata.len(), digest(metadata));
        Self { etag, modified: since.map(|since| UNIX_EPOCH + Duration::from_secs(since.as_secs())) }
    }

    fn not_modified(&self, headers: &HeaderMap) -> bool {
        match headers.get(IF_NONE_MATCH).and_then(|list| list.to_str().ok()) {
            Some(list) => {
                let mut tags = list.split(',').map(|tag| tag.trim().trim_start_matches("W/"));
                list.trim() == "*" || tags.any(|tag| tag == self.etag)
            }
            None => date(headers, &IF_MODIFIED_SINCE)
                .zip(self.modified)
                .is_some_and(|(limit, modified)| modified <= limit),
        }
    }

    fn range_applies(&self, headers: &HeaderMap) -> bool {
        match headers.get(IF_RANGE).map(|value| value.to_str().unwrap_or("")) {
            None => true,
            Some(tag) if tag.starts_with('"') => tag == self.etag,
            Some(_) => date(headers, &IF_RANGE) == self.modified && self.modified.is_some(),
        }
    }
}

fn date(headers: &HeaderMap, name: &hyper::header::HeaderName) -> Option<SystemTime> {
    httpdate::parse_http_date(headers.get(name)?.to_str().ok()?).ok()
}

/// `bytes=START-[END]`, the one form that is compared.
fn range(headers: &HeaderMap, len: u64) -> Option<(u64, u64)> {
    let (start, last) = headers.get(RANGE)?.to_str().ok()?.strip_prefix("bytes=")?.split_once('-')?;
    let start: u64 = start.parse().ok()?;
    let last = if last.is_empty() { len.checked_sub(1)? } else { last.parse().ok()? };
    (start <= last && start < len).then_some((start, len.min(last.checked_add(1)?)))
}

fn content_type(path: &Path) -> HeaderValue {
    match mime_guess::from_path(path).first_raw() {
        Some(guess) if guess.starts_with("text/") => value(&format!("{guess}; charset=utf-8")),
        Some(guess) => HeaderValue::from_static(guess),
        None => HeaderValue::from_static("application/octet-stream"),
    }
}

fn plain(status: StatusCode) -> Response<Full<Bytes>> {
    let text = format!("{} {}\n", status.as_u16(), status.canonical_reason().unwrap_or(""));
    let mut answer = Response::new(Full::default());
    *answer.status_mut() = status;
    let headers = answer.headers_mut();
    headers.insert(CONTENT_LENGTH, HeaderValue::from(text.len()));
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    *answer.body_mut() = Full::new(text.into());
    answer
}

fn value(text: &str) -> HeaderValue {
    HeaderValue::from_str(text).unwrap_or(HeaderValue::from_static(""))
}
