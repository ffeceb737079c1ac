//! The file processor: a thread for each request. It turns a path into an answer, and goes on to send the chunks of a
//! file of more than one.
//!
//! It runs in place while memory holds its data: kept files, directory entries and pages of the served directory's
//! own file system. It sends the rest to the disk threads, so nothing here waits for a disk.
//! So on parasites a request for a small file in memory is one plain call. The processor of a large file moves to the
//! connection that takes its chunks.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use bytes::Bytes;
use chanter::prelude::*;
use chanter::sync::{OwnedPermit, Semaphore};
use http::header::{
    CONTENT_LENGTH, CONTENT_RANGE, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderMap, HeaderValue, LOCATION,
    RANGE, SERVER, X_CONTENT_TYPE_OPTIONS,
};
use http::{Method, Response, StatusCode, Uri};
use rustix::fs::{FileType, fstat};

use crate::body::Content;
use crate::buffer::Buffer;
use crate::conditional::{Validators, Verdict};
use crate::config::{Config, Mode};
use crate::disk::{Disk, Place, Unanswered};
use crate::errors::ErrorLog;
use crate::facts::{self, Facts};
use crate::identity::Identity;
use crate::kept::{Kept, KeptFiles};
use crate::listing::Page;
use crate::media;
use crate::pace::{Pace, Turn};
use crate::platform::{Found, Wait, read_now};
use crate::range::{self, Ranged};
use crate::target::{BadTarget, Target};
use crate::tree::{Refusal, Tree};

/// Number of bytes of a file that are in memory at a time, for each request.
const CHUNK: usize = 64 * 1024;
/// Largest number of listings that are made at a time. A listing that its client does not take at once counts until
/// it is taken.
const LISTINGS: usize = 128;
/// Largest number of versions that are tried of a file that shrinks while it is read.
const VERSIONS: usize = 4;
/// Time that each part of a listing waits for another file system's facts about its entries.
const FOR_DETAILS: Duration = Duration::from_millis(500);

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

/// Shared parts of file processors.
struct Means {
    tree: Tree,
    kept: KeptFiles,
    disk: Disk,
    mode: Mode,
    errors: ErrorLog,
    pace: Pace,
    hidden: bool,
    listings: Arc<Semaphore>,
}

/// A file or a directory of the tree.
enum Node {
    File(Opened),
    Directory(Listable),
}

/// A file that is open.
struct Opened {
    /// `None` once it is dropped.
    file: Option<File>,
    identity: Identity,
    path: PathBuf,
    /// Threads that the calls on it can hold up: none if it lies on our own disk and in memory.
    place: Arc<Place>,
    is_own: bool,
}

/// A directory that was found, and by which calls it can be read.
struct Listable {
    found: Found,
    place: Arc<Place>,
    wait: Wait,
}

/// The head of a file's answer.
enum Head {
    /// There is no more to it.
    Alone(Answer),
    /// This part of the file is to follow, of a byte at least.
    Of(Range<u64>, Answer),
}

/// Rest of the answer behind its head.
struct Rest {
    source: Source,
    chunks: Sender<io::Result<Bytes>>,
    turn: Turn,
}

/// The source of the content.
enum Source {
    /// It is here, and no more than a chunk.
    Memory(Bytes),
    File {
        file: Arc<Opened>,
        start: u64,
        end: u64,
    },
    /// The rest of a listing, whose first part is here.
    Page {
        first: Bytes,
        page: Page,
        place: Arc<Place>,
        _permit: OwnedPermit,
    },
}

impl FileProcessor {
    pub(crate) fn new(tree: Tree, config: &Config, errors: ErrorLog) -> FileProcessor {
        let Config { mode, hidden, .. } = *config;
        let kept = KeptFiles::new(config.kept_bytes, config.kept_for);
        let disk = Disk::new(config.disk_timeout);
        let listings = Arc::new(Semaphore::new(LISTINGS));
        let means = Means { tree, kept, disk, mode, errors, pace: Pace::new(), hidden, listings };
        FileProcessor { means: Arc::new(means) }
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
            // Asynchronously, an answer that is ready at once is left there, or to its own parasite, and the
            // processor ends (or goes on to its chunks) without waiting.
            let is_sent = match means.mode {
                Mode::Synchronous => answers.send(answer).await.is_ok(),
                Mode::Hosts | Mode::Parasites => answers.asend(answer).is_ok(),
                Mode::PaperParasites => {
                    means.mode.start(async move { drop(answers.send(answer).await) });
                    true
                }
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
        if !self.hidden && target.is_hidden() {
            return Err(Refusal::NotFound);
        }
        match self.kept_or_found(&target.path) {
            Ok(_) if target.directory => Err(Refusal::NotFound),
            Ok(kept) => Ok(self.file_kept(ask, &kept)),
            // Boxed, as a thread that answers from what is kept should not carry the room for it.
            Err(found) => Box::pin(self.process_found(ask, target, found)).await,
        }
    }

    /// The kept file at `path`, or else the result of a look there that does not wait.
    fn kept_or_found(&self, path: &Path) -> Result<Arc<Kept>, Result<Found, Refusal>> {
        let now = Instant::now();
        if let Some(kept) = self.kept.fresh(path, now) {
            return Ok(kept);
        }
        let found = self.tree.look(path, Wait::Never);
        let kept = found.as_ref().ok().and_then(|found| self.kept.find(path, &found.identity, now));
        kept.ok_or(found)
    }

    async fn process_found(
        self: &Arc<Self>,
        ask: &Ask,
        Target { path, directory: wanted }: Target,
        found: Result<Found, Refusal>,
    ) -> Result<(Answer, Option<Rest>), Refusal> {
        let directory = match self.open(&path, found).await? {
            Node::File(..) if wanted => return Err(Refusal::NotFound),
            Node::File(file) => return self.file(ask, &path, file).await,
            Node::Directory(_) if !wanted => {
                let location = Target { path, directory: wanted }.location(ask.uri.query());
                return Ok((redirect(&location), None));
            }
            Node::Directory(directory) => directory,
        };
        let index = path.join("index.html");
        let found = match self.kept_or_found(&index) {
            Ok(kept) => return Ok(self.file_kept(ask, &kept)),
            Err(found) => found,
        };
        match self.open(&index, found).await {
            Ok(Node::File(file)) => self.file(ask, &index, file).await,
            Ok(Node::Directory(_)) | Err(Refusal::NotFound) => self.directory(ask, &path, directory).await,
            Err(refusal) => Err(refusal),
        }
    }

    /// Opens what is at `path`, which has been looked at without waiting.
    async fn open(self: &Arc<Self>, path: &Path, found: Result<Found, Refusal>) -> Result<Node, Refusal> {
        let opened = match found {
            Ok(found) => return self.node(found, path, self.disk.own(), Wait::OwnDisk),
            Err(Refusal::WouldWait) => self.open_waiting(path, self.disk.own(), Wait::OwnDisk).await,
            Err(refusal) => Err(refusal),
        };
        match opened {
            Err(Refusal::Elsewhere) => {
                let place = self.disk.beyond(self.tree.way_out(path));
                self.open_waiting(path, place, Wait::Anything).await
            }
            opened => opened,
        }
    }

    async fn open_waiting(
        self: &Arc<Self>,
        path: &Path,
        place: Arc<Place>,
        wait: Wait,
    ) -> Result<Node, Refusal> {
        let (means, at, asked) = (self.clone(), place.clone(), path.to_owned());
        let opened = self.disk.run(&place, path, move || {
            let found = means.tree.look(&asked, wait)?;
            means.node(found, &asked, at, wait)
        });
        opened.await?
    }

    fn node(&self, found: Found, path: &Path, place: Arc<Place>, wait: Wait) -> Result<Node, Refusal> {
        let is_own = wait == Wait::OwnDisk;
        if found.kind == FileType::Directory {
            let place = if is_own { self.disk.listings() } else { place };
            return Ok(Node::Directory(Listable { found, place, wait }));
        }
        let file = Some(self.tree.open(&found, path)?);
        Ok(Node::File(Opened { file, identity: found.identity, path: path.to_owned(), place, is_own }))
    }

    async fn file(&self, ask: &Ask, path: &Path, file: Opened) -> Result<(Answer, Option<Rest>), Refusal> {
        let mut identity = file.identity;
        let file = Arc::new(file);
        for _ in 0..VERSIONS {
            match self.version(ask, path, &file, identity).await {
                // It was cut off between the look at it and the reading: nothing has been said of it yet.
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {}
                answer => return answer.map_err(unread),
            }
            identity = self.disk.identity(&file).await.map_err(unread)?;
        }
        // It changes all the time, or its file system is wrong about its length.
        Err(Refusal::Busy)
    }

    /// The answer with this version of an open file. A text's beginning is read first: the answer names its charset.
    async fn version(
        &self,
        ask: &Ask,
        path: &Path,
        file: &Arc<Opened>,
        identity: Identity,
    ) -> io::Result<(Answer, Option<Rest>)> {
        let now = (SystemTime::now(), Instant::now());
        let mut facts = Facts::new(path, &identity, now.0);
        let mut beginning = None;
        if facts.media.is_text() && facts.validators.judge(&ask.headers) == Verdict::Proceed {
            let end = facts.len.min(CHUNK as u64);
            let bytes = if end > 0 { self.disk.read_whole(file, 0, end).await? } else { Bytes::new() };
            if media::is_utf8(&bytes, end == facts.len) {
                facts.is_utf8();
            }
            beginning = Some(bytes);
        }
        let (part, answer) = match head(ask, &facts) {
            Head::Alone(answer) => return Ok((answer, None)),
            Head::Of(part, answer) => (part, answer),
        };
        let Range { start, end } = part;
        if end - start > CHUNK as u64 {
            return Ok(self.with_body(answer, part, Source::File { file: file.clone(), start, end }));
        }
        let bytes = match beginning {
            // Both ends fit: it has been read, and is no longer than a chunk.
            Some(bytes) if end <= bytes.len() as u64 => bytes.slice(start as usize..end as usize),
            _ => self.disk.read_whole(file, start, end).await?,
        };
        // Of another file system nothing is kept: to look at it might wait.
        if end - start == facts.len && file.is_own {
            self.kept.keep(path, identity, now, &facts, &bytes);
        }
        Ok(self.with_body(answer, part, Source::Memory(bytes)))
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

    /// The listing of a directory. A short one is an answer like any other; a long one is made as it is taken.
    async fn directory(
        self: &Arc<Self>,
        ask: &Ask,
        path: &Path,
        directory: Listable,
    ) -> Result<(Answer, Option<Rest>), Refusal> {
        let permit = choose_biased((
            self.listings.clone().acquire_owned(1).wrap(|permit| permit.ok()),
            after(self.disk.patience()).wrap(|()| None),
        ));
        let permit = permit.await.ok_or(Refusal::Busy)?;
        let Listable { found, place, wait } = directory;
        let page = Page::new(found, path.to_owned(), wait);
        let (text, page) = self.next_of_page(page, &place).await?;
        let (mut answer, rest) = match page {
            None => (whole(&ask.method, text, PAGE), None),
            Some(page) => {
                let mut answer = headed(PAGE);
                let mut rest = None;
                if ask.method != Method::HEAD {
                    let (chunks, taken) = channel();
                    *answer.body_mut() = Content::Stream(taken);
                    let source = Source::Page { first: text.into(), page, place, _permit: permit };
                    // It waits for a disk at each part, and needs no turn.
                    rest = Some(Rest { source, chunks, turn: self.pace.download() });
                }
                (answer, rest)
            }
        };
        // Names are escaped; should one slip through, the browser is told to run nothing.
        answer.headers_mut().insert(
            CONTENT_SECURITY_POLICY,
            HeaderValue::from_static("default-src 'none'; style-src 'unsafe-inline'"),
        );
        Ok((answer, rest))
    }

    /// The next part of a listing, and the page if there is more of it.
    async fn next_of_page(
        self: &Arc<Self>,
        page: Page,
        place: &Arc<Place>,
    ) -> Result<(String, Option<Page>), Refusal> {
        let (means, path, mut moved) = (self.clone(), page.path().to_owned(), page);
        let read = self.disk.run(place, &path, move || moved.next(&means.tree).map(|part| (moved, part)));
        let (mut page, mut part) = read.await?.map_err(Refusal::Failed)?;
        if let Some((details, seen)) = page.details(&part) {
            let means = self.clone();
            let place = self.disk.details(self.tree.way_out(&path));
            let patience = FOR_DETAILS.min(self.disk.patience());
            // An entry that is not seen in time is shown without details.
            let _ = self.disk.run_within(patience, &place, &path, move || details.look(&means.tree)).await;
            part.fill_in(std::mem::take(&mut *seen.lock().unwrap_or_else(PoisonError::into_inner)));
        }
        let text = page.render(&part);
        Ok((text, (!part.is_last()).then_some(page)))
    }
}

impl Rest {
    /// Sends the chunks, each when the one before has been taken. Ends early when the client has
    /// gone, which is to say that its end of the channel has.
    async fn send(self, means: &Arc<Means>) {
        let Rest { source, chunks, turn } = self;
        match source {
            // Refused when the client has gone.
            Source::Memory(bytes) => drop(chunks.send(Ok(bytes)).await),
            Source::File { file, start, end } => {
                Box::pin(send_file(&file, start..end, (&chunks, &turn), &means.disk)).await;
            }
            Source::Page { first, page, place, _permit } => {
                Box::pin(send_page(first, page, &place, &chunks, means)).await;
            }
        }
    }
}

/// Sends a listing, each part when the one before has been taken, and then the empty chunk.
async fn send_page(
    first: Bytes,
    page: Page,
    place: &Arc<Place>,
    chunks: &Sender<io::Result<Bytes>>,
    means: &Arc<Means>,
) {
    let (mut text, mut page) = (first, Some(page));
    loop {
        // A part can be without text, if all of its entries are gone.
        if (!text.is_empty() || page.is_none()) && chunks.send(Ok(text)).await.is_err() {
            return;
        }
        let Some(more) = page.take() else { break };
        match means.next_of_page(more, place).await {
            Ok((next, more)) => (text, page) = (next.into(), more),
            Err(_) => {
                let _ = chunks.send(Err(io::ErrorKind::Other.into())).await;
                return;
            }
        }
    }
    let _ = chunks.send(Ok(Bytes::new())).await;
}

async fn send_file(
    file: &Arc<Opened>,
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
    async fn read(&self, file: &Arc<Opened>, start: u64, end: u64, waits: impl Fn()) -> io::Result<Bytes> {
        let want = usize::try_from(end - start).map_or(CHUNK, |left| left.min(CHUNK));
        let mut buffer = Buffer::take(want);
        let read = if file.is_own { read_now(file.as_file()?, buffer.as_mut(), start) } else { None };
        let read = match read {
            Some(read) => read?,
            None => {
                waits();
                let opened = file.clone();
                let waited = self.run(&file.place, &file.path, move || {
                    let read = opened.as_file().and_then(|file| file.read_at(buffer.as_mut(), start));
                    (read, buffer)
                });
                let (read, back) = waited.await?;
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

    /// The present version of an open file.
    async fn identity(&self, file: &Arc<Opened>) -> io::Result<Identity> {
        let look = |file: &Opened| Ok(Identity::of(&fstat(file.as_file()?)?));
        if file.is_own {
            // Memory holds it while it is open.
            return look(file);
        }
        let opened = file.clone();
        self.run(&file.place, &file.path, move || look(&opened)).await?
    }

    /// Reads all from `start` to `end`, which is no more than a chunk.
    async fn read_whole(&self, file: &Arc<Opened>, start: u64, end: u64) -> io::Result<Bytes> {
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

impl Opened {
    fn as_file(&self) -> io::Result<&File> {
        self.file.as_ref().ok_or_else(|| io::ErrorKind::Other.into())
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        if let Some(file) = self.file.take() {
            self.place.close(file);
        }
    }
}

impl From<Unanswered> for Refusal {
    fn from(unanswered: Unanswered) -> Refusal {
        match unanswered {
            Unanswered::Crowded => Refusal::Busy,
            Unanswered::Late => Refusal::Late,
            Unanswered::Failed => Refusal::Failed(unanswered.into()),
        }
    }
}

/// The refusal of a file that could not be read.
fn unread(error: io::Error) -> Refusal {
    match error.kind() {
        io::ErrorKind::ResourceBusy => Refusal::Busy,
        io::ErrorKind::TimedOut => Refusal::Late,
        _ => Refusal::Failed(error),
    }
}

/// The media type of a listing.
const PAGE: &str = "text/html; charset=utf-8";

/// Answer for a file, by the preconditions and the range of a request.
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
    let mut answer = headed(content_type);
    answer.headers_mut().insert(CONTENT_LENGTH, HeaderValue::from(text.len()));
    if method != Method::HEAD {
        *answer.body_mut() = Content::Whole(text.into());
    }
    answer
}

/// An answer of this type, whose body is to come.
fn headed(content_type: &'static str) -> Answer {
    let mut answer = Response::new(Content::Empty);
    let headers = answer.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(SERVER, facts::NAME);
    answer
}

/// Not for ever, as what is a directory today may be a file tomorrow: a client that had remembered the way
/// would never ask for it.
fn redirect(location: &str) -> Answer {
    let mut answer = plain(StatusCode::FOUND);
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
        Refusal::Busy | Refusal::WouldWait | Refusal::Elsewhere => StatusCode::SERVICE_UNAVAILABLE,
        Refusal::Late => StatusCode::GATEWAY_TIMEOUT,
        Refusal::Failed(error) => {
            // Not for the client: it may say more about the machine than clients should know.
            errors.tell(format_args!("swerve: {:?}: {error}", uri.path()));
            StatusCode::INTERNAL_SERVER_ERROR
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::platform::Links;

    /// A small file that is cut off between the look at it and the reading is answered as it is then.
    #[test]
    fn a_file_that_shrinks_while_it_is_read_is_answered() {
        let dir = tempfile::TempDir::new().unwrap();
        let tree = Tree::new(dir.path(), false, Links::Inside).unwrap();
        Machine::builder().vps(1).build().unwrap().block_on(async {
            let config = Config::new(dir.path(), ([127, 0, 0, 1], 0).into());
            let files = FileProcessor::new(tree, &config, ErrorLog::off());
            let means = &files.means;
            for (name, is_own) in [("f", true), ("f.txt", true), ("g", false), ("g.txt", false)] {
                for (left, range) in [(5, None), (0, None), (9, Some("bytes=7-"))] {
                    let (whole, path) = (dir.path().join(name), Path::new(name));
                    std::fs::write(&whole, vec![b'x'; 10_000]).unwrap();
                    let mut headers = HeaderMap::new();
                    headers.extend(range.map(|range| (RANGE, HeaderValue::from_static(range))));
                    let ask = Ask { method: Method::GET, uri: Uri::from_static("/"), headers };
                    let found = means.tree.look(path, Wait::OwnDisk).unwrap();
                    let place = if is_own { means.disk.own() } else { means.disk.beyond(path) };
                    let wait = if is_own { Wait::OwnDisk } else { Wait::Anything };
                    let Node::File(file) = means.node(found, path, place, wait).unwrap() else { panic!() };
                    std::fs::write(&whole, vec![b'y'; left]).unwrap();
                    let (answer, _) = means.file(&ask, path, file).await.unwrap();
                    let length = answer.headers().get(CONTENT_LENGTH).unwrap().to_str().unwrap();
                    let expect = if range.is_some() { (206, "2") } else { (200, ["0", "5"][left / 5]) };
                    assert_eq!((answer.status().as_u16(), length), expect, "{name}, {left}");
                    match answer.body() {
                        Content::Whole(bytes) => assert_eq!(bytes.len().to_string(), length),
                        Content::Empty => assert_eq!(left, 0),
                        _ => panic!("it comes later"),
                    }
                }
            }
        });
    }

    /// Those that are made at a time are bounded: who comes later waits, and is told so in the end.
    #[test]
    fn listings_at_a_time_are_bounded() {
        let dir = tempfile::TempDir::new().unwrap();
        std::fs::create_dir(dir.path().join("d")).unwrap();
        let tree = Tree::new(dir.path(), false, Links::Inside).unwrap();
        Machine::builder().vps(1).build().unwrap().block_on(async {
            let mut config = Config::new(dir.path(), ([127, 0, 0, 1], 0).into());
            config.disk_timeout = Duration::from_millis(50);
            let files = FileProcessor::new(tree, &config, ErrorLog::off());
            let get = async |path: &'static str| {
                let (method, uri) = (Method::GET, Uri::from_static(path));
                files.start(Ask { method, uri, headers: HeaderMap::new() }).recv().await.unwrap().status()
            };
            let all = files.means.listings.try_acquire(LISTINGS).unwrap();
            assert_eq!(get("/d/").await, StatusCode::SERVICE_UNAVAILABLE);
            assert_eq!(get("/d").await, StatusCode::FOUND);
            drop(all);
            // A machine that is busy otherwise may be late.
            while get("/d/").await != StatusCode::OK {}
        });
    }
}
