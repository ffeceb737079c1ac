//! The hello of a connection: each end proves that it knows the job's secret before anything else is read.
//!
//! ```text
//!   connecting                               accepting
//!       | magic, number, challenge (44 bytes)    |
//!       |--------------------------------------->|
//!       | magic, number, challenge, proof (76)   |   proof = HMAC-SHA256(secret, "accept" and all of the above)
//!       |<---------------------------------------|
//!       | proof (32 bytes)                       |   proof = HMAC-SHA256(secret, "connect" and all of the above)
//!       |--------------------------------------->|
//! ```
//!
//! All lengths are fixed, so an unproved peer can make this process read 76 bytes, and no more. The proofs of the two
//! sides differ in their first word, so neither can be sent back as the other's. Challenges are fresh, so no proof
//! can be used again.
//!
//! An unexpected peer gets no answer, and its connection is closed. A process of another version of this library gets
//! the 8 bytes of the magic, so that it can report that. Functions without I/O judge the bytes that each side reads
//! ([`greeted`], [`Introduction`]).

use std::fmt;
use std::io::{self, ErrorKind};

use hmac::{Hmac, Mac};
use sha2::Sha256;

use super::stream::Stream;
use crate::engine::ProcessId;
use crate::launcher::Secret;

/// The number that a process gives in its hello if it wants to join.
pub(super) const JOINS: ProcessId = ProcessId(u32::MAX);
/// The number of a process that looks for a cluster itself.
pub(super) const LOOKS: ProcessId = ProcessId(u32::MAX - 1);
/// Largest number of strangers at a time.
pub(super) const STRANGERS: usize = 64;

/// First bytes of a greeting. Engines of other versions have another last byte.
pub(crate) const MAGIC: [u8; 8] = *b"chanter1";
pub(crate) const CHALLENGE: usize = 32;
pub(crate) const PROOF: usize = 32;
/// Length of a greeting, in bytes: magic, number, challenge.
pub(crate) const GREETING: usize = MAGIC.len() + 4 + CHALLENGE;
/// Length of an answer, in bytes: a greeting and a proof.
pub(crate) const ANSWER: usize = GREETING + PROOF;

/// The reason why the other end is no peer.
#[derive(Debug)]
pub(crate) enum Stranger {
    /// The other end has gone, or the connection broke.
    Io(io::Error),
    /// The other end has closed the connection instead of answering.
    Refuses,
    /// The other end speaks another protocol.
    Magic,
    /// The other end is of another version.
    Version,
    /// The other end claims an unexpected process number.
    Number(u32),
    /// The other end does not know the secret.
    Proof,
}

impl fmt::Display for Stranger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => error.fmt(f),
            Self::Refuses => f.write_str(
                "it has closed the connection without an answer: it is of another job, does not expect this process, or wants TLS",
            ),
            Self::Magic => f.write_str("what answers there is no process of a job"),
            Self::Version => f.write_str(
                "it is built with another version of chanter-cluster: build all programs of a job with the same",
            ),
            Self::Number(number) => write!(f, "it calls itself process {number}, who is not expected"),
            Self::Proof => f.write_str("it does not know the job's secret: it is of another job"),
        }
    }
}

impl From<io::Error> for Stranger {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset | ErrorKind::BrokenPipe => Self::Refuses,
            _ => Self::Io(error),
        }
    }
}

#[derive(Clone, Copy)]
enum Side {
    Accept,
    Connect,
}

struct Greeting([u8; GREETING]);

impl Greeting {
    #[cfg(test)]
    fn new(me: ProcessId) -> io::Result<Self> {
        challenge().map(|challenge| Self::with(me, challenge))
    }

    fn with(me: ProcessId, challenge: [u8; CHALLENGE]) -> Self {
        let mut bytes = [0; GREETING];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..12].copy_from_slice(&me.0.to_le_bytes());
        bytes[12..].copy_from_slice(&challenge);
        Self(bytes)
    }

    /// Checks the magic, and returns the process number that the greeting claims.
    fn check(&self) -> Result<ProcessId, Stranger> {
        check_magic(self.0.first_chunk().expect("a greeting begins with a magic"))?;
        Ok(ProcessId(u32::from_le_bytes([self.0[8], self.0[9], self.0[10], self.0[11]])))
    }
}

fn check_magic(magic: &[u8; 8]) -> Result<(), Stranger> {
    match magic {
        magic if *magic == MAGIC => Ok(()),
        magic if magic[..7] == MAGIC[..7] => Err(Stranger::Version),
        _ => Err(Stranger::Magic),
    }
}

fn hmac(secret: &Secret, side: Side, connecting: &Greeting, accepting: &Greeting) -> Hmac<Sha256> {
    let mut hmac = Hmac::<Sha256>::new_from_slice(secret.bytes()).expect("a key may have any length");
    hmac.update(match side {
        Side::Accept => b"accept ",
        Side::Connect => b"connect",
    });
    hmac.update(&connecting.0);
    hmac.update(&accepting.0);
    hmac
}

/// The accepting side, after it has read a valid greeting.
pub(crate) struct Greeted {
    /// Process number that the peer claims.
    peer: ProcessId,
    /// The answer of this side.
    pub(crate) answer: [u8; ANSWER],
    wanted: Hmac<Sha256>,
}

/// Judges a greeting on the accepting side.
///
/// # Errors
/// The peer is not `expected`, and gets no answer.
pub(crate) fn greeted(
    secret: &Secret,
    me: ProcessId,
    challenge: [u8; CHALLENGE],
    theirs: [u8; GREETING],
    expected: impl Fn(ProcessId) -> bool,
) -> Result<Greeted, Stranger> {
    let (theirs, mine) = (Greeting(theirs), Greeting::with(me, challenge));
    let peer = theirs.check()?;
    if !expected(peer) {
        return Err(Stranger::Number(peer.0));
    }
    let mut answer = [0; ANSWER];
    answer[..GREETING].copy_from_slice(&mine.0);
    answer[GREETING..].copy_from_slice(&hmac(secret, Side::Accept, &theirs, &mine).finalize().into_bytes());
    Ok(Greeted { peer, answer, wanted: hmac(secret, Side::Connect, &theirs, &mine) })
}

impl Greeted {
    /// Checks the peer's proof, and returns its process number.
    ///
    /// # Errors
    /// The proof is wrong.
    pub(crate) fn proved(self, proof: &[u8; PROOF]) -> Result<ProcessId, Stranger> {
        // In constant time, as `hmac` promises.
        self.wanted.verify_slice(proof).map_err(|_| Stranger::Proof)?;
        Ok(self.peer)
    }
}

/// The connecting side, after it has greeted.
pub(crate) struct Introduction<'a> {
    secret: &'a Secret,
    mine: Greeting,
    /// The wanted process; `None`: any.
    peer: Option<ProcessId>,
}

impl<'a> Introduction<'a> {
    pub(crate) fn new(
        secret: &'a Secret,
        me: ProcessId,
        challenge: [u8; CHALLENGE],
        peer: Option<ProcessId>,
    ) -> Self {
        Self { secret, mine: Greeting::with(me, challenge), peer }
    }

    pub(crate) fn greeting(&self) -> &[u8; GREETING] {
        &self.mine.0
    }

    /// Checks the answer of a peer, which has proved to be the wanted process. Returns this side's proof, and the peer's number.
    ///
    /// # Errors
    /// The peer is not that process. It has then learned nothing that helps it to pass as this one.
    pub(crate) fn answered(&self, answer: &[u8; ANSWER]) -> Result<([u8; PROOF], ProcessId), Stranger> {
        let mut theirs = Greeting([0; GREETING]);
        theirs.0.copy_from_slice(&answer[..GREETING]);
        let number = theirs.check()?;
        // In constant time, as `hmac` promises.
        hmac(self.secret, Side::Accept, &self.mine, &theirs)
            .verify_slice(&answer[GREETING..])
            .map_err(|_| Stranger::Proof)?;
        if self.peer.is_some_and(|peer| number != peer) {
            return Err(Stranger::Number(number.0));
        }
        let proof = hmac(self.secret, Side::Connect, &self.mine, &theirs).finalize().into_bytes().into();
        Ok((proof, number))
    }
}

fn challenge() -> io::Result<[u8; CHALLENGE]> {
    let mut challenge = [0; CHALLENGE];
    getrandom::fill(&mut challenge).map_err(io::Error::other)?;
    Ok(challenge)
}

/// Introduces this process to the process that it has connected to. `peer`: `None` stands for any process of the job.
/// Returns its number.
///
/// # Errors
/// The other end is not `peer`. It has then learned nothing that helps it to pass as this process.
pub(super) async fn connect(
    stream: &Stream,
    secret: &Secret,
    me: ProcessId,
    peer: Option<ProcessId>,
) -> Result<ProcessId, Stranger> {
    let introduction = Introduction::new(secret, me, challenge()?, peer);
    stream.write_all(introduction.greeting()).await?;
    let mut answer = [0; ANSWER];
    // A process of another version sends no more than this.
    let (magic, rest) = answer.split_first_chunk_mut().expect("an answer begins with a magic");
    stream.read_exact(magic).await?;
    check_magic(magic)?;
    stream.read_exact(rest).await?;
    let (proof, number) = introduction.answered(&answer)?;
    stream.write_all(&proof).await?;
    Ok(number)
}

/// Finds out which process has connected. `has_greeted` is called when a valid greeting has come.
///
/// # Errors
/// The other end is not `expected`.
pub(super) async fn accept(
    stream: &Stream,
    secret: &Secret,
    me: ProcessId,
    expected: impl Fn(ProcessId) -> bool,
    has_greeted: impl FnOnce(),
) -> Result<ProcessId, Stranger> {
    let mut theirs = [0; GREETING];
    stream.read_exact(&mut theirs).await?;
    let greeting = match greeted(secret, me, challenge()?, theirs, expected) {
        Err(Stranger::Version) => {
            stream.write_all(&MAGIC).await?;
            return Err(Stranger::Version);
        }
        greeting => greeting?,
    };
    has_greeted();
    stream.write_all(&greeting.answer).await?;
    let mut proof = [0; PROOF];
    stream.read_exact(&mut proof).await?;
    greeting.proved(&proof)
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use chanter::prelude::*;

    use super::*;

    const ME: ProcessId = ProcessId(1);
    const OTHER: ProcessId = ProcessId(2);

    fn pair() -> (Stream, Stream) {
        let (one, other) = UnixStream::pair().unwrap();
        (Stream::unix(one).unwrap(), Stream::unix(other).unwrap())
    }

    fn secret() -> Secret {
        Secret::new([7; 32])
    }

    #[chanter::test]
    async fn who_knows_the_secret_is_known() {
        let (one, other) = pair();
        let connecting = spawn(async move { connect(&one, &secret(), OTHER, Some(ME)).await });
        assert_eq!(accept(&other, &secret(), ME, |peer| peer == OTHER, || ()).await.unwrap(), OTHER);
        connecting.join().await.unwrap().unwrap();
    }

    #[chanter::test]
    async fn who_does_not_is_refused_by_either_side() {
        let (one, other) = pair();
        let accepting =
            spawn(async move { accept(&other, &Secret::new([8; 32]), ME, |_| true, || ()).await });
        assert!(matches!(connect(&one, &secret(), OTHER, Some(ME)).await, Err(Stranger::Proof)));
        drop(one);
        assert!(matches!(accepting.join().await.unwrap(), Err(Stranger::Refuses)));

        // A peer that sends the accepting side's proof back has the wrong proof.
        let (one, other) = pair();
        let accepting = spawn(async move { accept(&other, &secret(), ME, |_| true, || ()).await });
        one.write_all(&Greeting::new(OTHER).unwrap().0).await.unwrap();
        let mut answer = [0; GREETING + PROOF];
        one.read_exact(&mut answer).await.unwrap();
        one.write_all(&answer[GREETING..]).await.unwrap();
        assert!(matches!(accepting.join().await.unwrap(), Err(Stranger::Proof)));
    }

    #[chanter::test]
    async fn who_is_not_expected_gets_no_answer() {
        for (greeting, number) in
            [([b'x'; GREETING], None), (Greeting::new(ProcessId(9)).unwrap().0, Some(9))]
        {
            let (one, other) = pair();
            let accepting =
                spawn(async move { accept(&other, &secret(), ME, |peer| peer == OTHER, || ()).await });
            one.write_all(&greeting).await.unwrap();
            match accepting.join().await.unwrap() {
                Err(Stranger::Magic) => assert_eq!(number, None),
                Err(Stranger::Number(said)) => assert_eq!(number, Some(said)),
                other => panic!("{other:?}"),
            }
            assert!(one.read_exact(&mut [0]).await.is_err(), "not a byte");
        }
        // Another process of the job listens at the address of the wanted one.
        let (one, other) = pair();
        let accepting = spawn(async move { accept(&other, &secret(), ProcessId(3), |_| true, || ()).await });
        assert!(matches!(connect(&one, &secret(), OTHER, Some(ME)).await, Err(Stranger::Number(3))));
        drop(one);
        assert!(accepting.join().await.unwrap().is_err());
    }

    /// Both sides report another version, whichever of them is older.
    #[chanter::test]
    async fn another_version_is_told_so() {
        let (one, other) = pair();
        let accepting = spawn(async move { accept(&other, &secret(), ME, |_| true, || ()).await });
        let mut greeting = Greeting::new(OTHER).unwrap();
        greeting.0[7] += 1;
        one.write_all(&greeting.0).await.unwrap();
        assert!(matches!(accepting.join().await.unwrap(), Err(Stranger::Version)));
        let mut magic = [0; 8];
        one.read_exact(&mut magic).await.unwrap();
        assert_eq!(magic, MAGIC);
        assert!(one.read_exact(&mut [0]).await.is_err(), "not a byte more");

        let (one, other) = pair();
        let connecting = spawn(async move { connect(&one, &secret(), OTHER, Some(ME)).await });
        other.write_all(b"chanter0").await.unwrap();
        let error = connecting.join().await.unwrap().unwrap_err();
        assert!(matches!(error, Stranger::Version), "{error}");

        let (one, other) = pair();
        let connecting = spawn(async move { connect(&one, &secret(), OTHER, Some(ME)).await });
        other.read_exact(&mut [0; GREETING]).await.unwrap();
        drop(other);
        let error = connecting.join().await.unwrap().unwrap_err();
        assert!(matches!(error, Stranger::Refuses), "{error}");
    }
}
