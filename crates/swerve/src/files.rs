//! The file processor: a thread for each request, which turns a path into an answer, and, for a file
//! of more than a chunk, goes on to send the chunks.
//!
//! It runs in place while memory holds what it needs (files that are kept, directory entries and pages), and
//! sends the rest to the disk threads. On parasites, a request for a small file in memory is therefore one
//! plain call, and the processor of a large file moves to the connection that takes its chunks.

use std::fs::{File, Metadata};
use std::io;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use bytes::Bytes;
use chanter::prelude::*;
use http::header::{
    CONTENT_LENGTH, CONTENT_RANGE, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderMap, HeaderValue, LOCATION,
    RANGE, SERVER, X_CONTENT_TYPE_OPTIONS,
};
use http::{Method, Response, StatusCode, Uri};

use crate::body::Content;
use crate::buffer::Buffer;
use crate::conditional::{Validators, Verdict};
use crate::config::Mode;
use crate::disk::Disk;
use crate::errors::ErrorLog;
use crate::facts::{self, Facts};
use crate::kept::{Kept, KeptFiles};
use crate::listing;
use crate::pace::{Pace, Turn};
use crate::platform::{Wait, read_now};
use crate::range::{self, Ranged};
use crate::target::{BadTarget, Target};
use crate::tree::{Node, Refusal, Tree};

/// How much of a file is in memory at a time, for each request.
const CHUNK: usize = 64 * 1024;

/// The answer to a request, without what HTTP itself adds.
pub(crate) type Answer = Response<Content>;

/// A request as the file processor sees it.
pub(crate) struct Ask {
    pub(crate) method: Method,
    pub(crate) uri: Uri,
    pub(crate) headers: HeaderMap,
}

/// Starts file processors. Cheap to clone.
#[derive(Clone)]
pub(crate) struct FileProcessor {
    /// One count for all, as every request counts.
    means: Arc<Means>,
}

/// What file processors work with.
struct Means {
    tree: Tree,
    kept: KeptFiles,
    disk: Disk,
    mode: Mode,
    errors: ErrorLog,
    pace: Pace,
}

/// The head of a file's answer.
enum Head {
    /// There is no more to it.
    Alone(Answer),
    /// This part of the file is to follow, of a byte at least.
    Of(Range<u64>, Answer),
}

/// What is left to send when the answer's head has gone.
struct Rest {
    source: Source,
    chunks: Sender<io::Result<Bytes>>,
    turn: Turn,
}

/// Where it comes from.
enum Source {
    /// It is here, and no more than a chunk.
    Memory(Bytes),
    File {
        file: Arc<File>,
        start: u64,
        end: u64,
    },
}

impl FileProcessor {
    /// `kept`: how many bytes of small files to keep in memory.
    pub(crate) fn new(tree: Tree, disk: Disk, mode: Mode, kept: u64, errors: ErrorLog) -> FileProcessor {
        let kept = KeptFiles::new(kept);
        FileProcessor { means: Arc::new(Means { tree, kept, disk, mode, errors, pace: Pace::new() }) }
    }

    /// Starts the processor of one request. Its answer comes from the channel; the channel closes
    /// without one if the processor fails.
    pub(crate) fn start(&self, ask: Ask) -> Receiver<Answer> {
        let (answers, answer) = channel();
        let means = self.means.clone();
        self.means.mode.start(async move {
            let (answer, rest) = match means.process(&ask).await {
                Ok(answer) => answer,
                Err(refusal) => (refused(&ask.uri, &refusal, &means.errors), None),
            };
            drop(ask);
            // Asynchronously, an answer that is ready at once is left there, and the processor ends
            // (or goes on to its chunks) without waiting.
            let is_sent = if means.mode.is_synchronous() {
                answers.send(answer).await.is_ok()
            } else {
                answers.asend(answer).is_ok()
            };
            if is_sent && let Some(rest) = rest {
                rest.send(&means).await;
            }
        });
        answer
    }
}

impl Means {
    async fn process(self: &Arc<Self>, ask: &Ask) -> Result<(Answer, Option<Rest>), Refusal> {
        let target = match Target::parse(ask.uri.path()) {
            Ok(target) => target,
            Err(BadTarget::Malformed) => return Ok((plain(StatusCode::BAD_REQUEST), None)),
            Err(BadTarget::Forbidden) => return Err(Refusal::Forbidden),
        };
        match self.kept.find(&self.tree, &target.path) {
            Some(_) if target.directory => Err(Refusal::NotFound),
            Some(kept) => Ok(self.file_kept(ask, &kept)),
            // Boxed, as a thread that answers from what is kept should not carry the room for it.
            None => Box::pin(self.process_opened(ask, target)).await,
        }
    }

    async fn process_opened(
        self: &Arc<Self>,
        ask: &Ask,
        Target { path, directory: wanted }: Target,
    ) -> Result<(Answer, Option<Rest>), Refusal> {
        let directory = match self.open(&path).await? {
            Node::File(..) if wanted => return Err(Refusal::NotFound),
            Node::File(file, metadata) => return self.file(ask, &path, Arc::new(file), &metadata).await,
            Node::Directory(_) if !wanted => {
                let location = Target { path, directory: wanted }.location(ask.uri.query());
                return Ok((redirect(&location), None));
            }
            Node::Directory(directory) => directory,
        };
        let index = path.join("index.html");
        if let Some(kept) = self.kept.find(&self.tree, &index) {
            return Ok(self.file_kept(ask, &kept));
        }
        match self.open(&index).await {
            Ok(Node::File(file, metadata)) => self.file(ask, &index, Arc::new(file), &metadata).await,
            Ok(Node::Directory(_)) | Err(Refusal::NotFound) => self.directory(ask, path, directory).await,
            Err(refusal) => Err(refusal),
        }
    }

    async fn open(self: &Arc<Self>, path: &Path) -> Result<Node, Refusal> {
        match self.tree.open(path, Wait::Never) {
            Err(Refusal::WouldWait) => {
                let (means, path) = (self.clone(), path.to_owned());
                let opened = self.disk.run(move || means.tree.open(&path, Wait::Allowed)).await;
                opened.unwrap_or(Err(Refusal::Busy))
            }
            opened => opened,
        }
    }

    async fn file(
        &self,
        ask: &Ask,
        path: &Path,
        file: Arc<File>,
        metadata: &Metadata,
    ) -> Result<(Answer, Option<Rest>), Refusal> {
        let now = SystemTime::now();
        let facts = Facts::new(path, metadata.len(), metadata.modified().ok(), now);
        match head(ask, &facts) {
            Head::Alone(answer) => Ok((answer, None)),
            Head::Of(part, answer) => {
                let source = self.source(path, (&file, metadata), (&facts, now), part.clone()).await?;
                Ok(self.with_body(answer, part, source))
            }
        }
    }

    fn file_kept(&self, ask: &Ask, kept: &Kept) -> (Answer, Option<Rest>) {
        match head(ask, &kept.facts) {
            Head::Alone(answer) => (answer, None),
            Head::Of(part, answer) => {
                let bytes = kept.bytes.slice(part.start as usize..part.end as usize);
                self.with_body(answer, part, Source::Memory(bytes))
            }
        }
    }

    /// The answer, and what its processor is to send after it.
    fn with_body(&self, mut answer: Answer, part: Range<u64>, source: Source) -> (Answer, Option<Rest>) {
        match source {
            Source::Memory(bytes) if !self.mode.is_synchronous() => {
                *answer.body_mut() = Content::Whole(bytes);
                (answer, None)
            }
            source => {
                let (chunks, taken) = channel();
                let (left, turn) = (part.end - part.start, self.pace.download());
                *answer.body_mut() = Content::Chunks { chunks: taken, left, turn: turn.clone() };
                (answer, Some(Rest { source, chunks, turn }))
            }
        }
    }

    /// Where the bytes of a `part` of an open file are to come from; a small file that is wanted whole is kept.
    async fn source(
        &self,
        path: &Path,
        (file, metadata): (&Arc<File>, &Metadata),
        (facts, now): (&Facts, SystemTime),
        part: Range<u64>,
    ) -> Result<Source, Refusal> {
        let Range { start, end } = part;
        if end - start > CHUNK as u64 {
            return Ok(Source::File { file: file.clone(), start, end });
        }
        let bytes = self.disk.read_whole(file, start, end).await.map_err(Refusal::Failed)?;
        if end - start == facts.len {
            self.kept.keep(path, metadata, now, facts, &bytes);
        }
        Ok(Source::Memory(bytes))
    }

    async fn directory(
        self: &Arc<Self>,
        ask: &Ask,
        path: PathBuf,
        directory: OwnedFd,
    ) -> Result<(Answer, Option<Rest>), Refusal> {
        let means = self.clone();
        let page = self.disk.run(move || {
            let (rows, cut) = means.tree.rows(directory, &path)?;
            Ok(listing::render(&path, rows, cut))
        });
        let page = page.await.unwrap_or(Err(io::ErrorKind::Other.into()));
        let page = page.map_err(Refusal::Failed)?;
        let mut answer = whole(&ask.method, page, "text/html; charset=utf-8");
        // Names are escaped; should one slip through, the browser is told to run nothing.
        answer.headers_mut().insert(
            CONTENT_SECURITY_POLICY,
            HeaderValue::from_static("default-src 'none'; style-src 'unsafe-inline'"),
        );
        Ok((answer, None))
    }
}

impl Rest {
    /// Sends the chunks, each when the one before has been taken. Ends early when the client has
    /// gone, which is to say that its end of the channel has.
    async fn send(self, means: &Means) {
        let Rest { source, chunks, turn } = self;
        match source {
            // Refused when the client has gone.
            Source::Memory(bytes) => drop(chunks.send(Ok(bytes)).await),
            Source::File { file, start, end } => {
                Box::pin(send_file(&file, start..end, (&chunks, &turn), &means.disk)).await;
            }
        }
    }
}

async fn send_file(
    file: &Arc<File>,
    part: Range<u64>,
    (chunks, turn): (&Sender<io::Result<Bytes>>, &Turn),
    disk: &Disk,
) {
    let Range { mut start, end } = part;
    while start < end {
        turn.take().await;
        let chunk = disk.read(file, start, end, || turn.give_up()).await;
        if let Ok(bytes) = &chunk {
            start += bytes.len() as u64;
        }
        let last = chunk.is_err();
        if chunks.send(chunk).await.is_err() || last {
            break;
        }
    }
    turn.give_up();
}

impl Disk {
    /// Reads at most a chunk from `start`, and at least a byte of it. Calls `waits` before it waits for a disk.
    async fn read(&self, file: &Arc<File>, start: u64, end: u64, waits: impl Fn()) -> io::Result<Bytes> {
        let want = usize::try_from(end - start).map_or(CHUNK, |left| left.min(CHUNK));
        let mut buffer = Buffer::take(want);
        let read = match read_now(file, buffer.as_mut(), start) {
            Some(read) => read?,
            None => {
                waits();
                let file = file.clone();
                let waited = self.run(move || {
                    let read = std::os::unix::fs::FileExt::read_at(&*file, buffer.as_mut(), start);
                    (read, buffer)
                });
                let (read, back) = waited.await.ok_or(io::ErrorKind::Other)?;
                buffer = back;
                read?
            }
        };
        if read == 0 {
            // Shorter than it was when its length was promised.
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(buffer.into_bytes(read))
    }

    /// Reads all from `start` to `end`, which is no more than a chunk.
    async fn read_whole(&self, file: &Arc<File>, start: u64, end: u64) -> io::Result<Bytes> {
        let first = self.read(file, start, end, || ()).await?;
        let mut at = start + first.len() as u64;
        if at == end {
            return Ok(first);
        }
        let mut all = Vec::from(first);
        while at < end {
            let next = self.read(file, at, end, || ()).await?;
            at += next.len() as u64;
            all.extend_from_slice(&next);
        }
        Ok(all.into())
    }
}

/// What the preconditions and the range of a request make of a file.
fn head(ask: &Ask, facts: &Facts) -> Head {
    let (len, validators) = (facts.len, &facts.validators);
    let mut answer = Response::new(Content::Empty);
    match validators.judge(&ask.headers) {
        Verdict::Proceed => {}
        Verdict::NotModified => {
            *answer.status_mut() = StatusCode::NOT_MODIFIED;
            *answer.headers_mut() = facts.not_modified();
            return Head::Alone(answer);
        }
        Verdict::Failed => return Head::Alone(plain(StatusCode::PRECONDITION_FAILED)),
    }
    let part = match ranged(ask, validators, len) {
        Ranged::Whole => {
            *answer.headers_mut() = facts.headers.clone();
            0..len
        }
        Ranged::Part { start, end } => {
            let headers = answer.headers_mut();
            *headers = facts.headers.clone();
            headers.insert(CONTENT_RANGE, text(format!("bytes {start}-{}/{len}", end - 1)));
            headers.insert(CONTENT_LENGTH, HeaderValue::from(end - start));
            *answer.status_mut() = StatusCode::PARTIAL_CONTENT;
            start..end
        }
        Ranged::Unsatisfiable => {
            let mut answer = plain(StatusCode::RANGE_NOT_SATISFIABLE);
            answer.headers_mut().insert(CONTENT_RANGE, text(format!("bytes */{len}")));
            return Head::Alone(answer);
        }
    };
    if ask.method == Method::HEAD || part.is_empty() { Head::Alone(answer) } else { Head::Of(part, answer) }
}

/// The part that is asked for. Only GET has ranges (RFC 9110, 14.2).
fn ranged(ask: &Ask, validators: &Validators, len: u64) -> Ranged {
    let mut values = ask.headers.get_all(RANGE).iter();
    match (values.next(), values.next()) {
        (Some(value), None) if ask.method == Method::GET => match value.to_str() {
            Ok(value) if validators.range_applies(&ask.headers) => range::parse(value, len),
            _ => Ranged::Whole,
        },
        _ => Ranged::Whole,
    }
}

/// A short answer that says its status.
pub(crate) fn plain(status: StatusCode) -> Answer {
    let text = format!("{} {}\n", status.as_u16(), status.canonical_reason().unwrap_or(""));
    let mut answer = whole(&Method::GET, text, "text/plain; charset=utf-8");
    *answer.status_mut() = status;
    answer
}

fn whole(method: &Method, text: String, content_type: &'static str) -> Answer {
    let mut answer = Response::new(Content::Empty);
    let headers = answer.headers_mut();
    headers.insert(CONTENT_LENGTH, HeaderValue::from(text.len()));
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(SERVER, facts::NAME);
    if method != Method::HEAD {
        *answer.body_mut() = Content::Whole(text.into());
    }
    answer
}

fn redirect(location: &str) -> Answer {
    let mut answer = plain(StatusCode::MOVED_PERMANENTLY);
    answer.headers_mut().insert(LOCATION, text(location.to_owned()));
    answer
}

/// A header value made of what this crate wrote or percent-encoded itself.
fn text(value: String) -> HeaderValue {
    HeaderValue::try_from(value).unwrap_or(HeaderValue::from_static(""))
}

fn refused(uri: &Uri, refusal: &Refusal, errors: &ErrorLog) -> Answer {
    plain(match refusal {
        Refusal::NotFound => StatusCode::NOT_FOUND,
        Refusal::Forbidden => StatusCode::FORBIDDEN,
        Refusal::Busy | Refusal::WouldWait => StatusCode::SERVICE_UNAVAILABLE,
        Refusal::Failed(error) => {
            // Not for the client: it may say more about the machine than clients should know.
            errors.tell(format_args!("swerve: {:?}: {error}", uri.path()));
            StatusCode::INTERNAL_SERVER_ERROR
        }
    })
}
