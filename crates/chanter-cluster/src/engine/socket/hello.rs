//! Who is at the other end: each proves that it knows the job's secret before anything else is read.
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
//! All lengths are fixed: who has proved nothing can make this process read 76 bytes, and no more. The proofs of the two
//! sides differ in their first word, so none can be sent back as the other's; challenges are fresh, so none can be used again.

use std::fmt;
use std::io;

use hmac::{Hmac, Mac};
use sha2::Sha256;

use super::stream::Stream;
use crate::engine::Peer;
use crate::launcher::Secret;

/// Engines of other versions have another.
const MAGIC: [u8; 8] = *b"chanter1";
const CHALLENGE: usize = 32;
const PROOF: usize = 32;
/// Magic, number, challenge.
const GREETING: usize = MAGIC.len() + 4 + CHALLENGE;

/// Why somebody is no peer.
#[derive(Debug)]
pub(super) enum Stranger {
    /// It has gone, or the connection broke.
    Io(io::Error),
    /// It speaks something else.
    Magic,
    /// It says that it is somebody else than expected.
    Number(u32),
    /// It does not know the secret.
    Proof,
}

impl fmt::Display for Stranger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => error.fmt(f),
            Self::Magic => f.write_str("it is no process of this job, or of another version"),
            Self::Number(number) => write!(f, "it calls itself process {number}, who is not expected"),
            Self::Proof => f.write_str("it does not know the job's secret"),
        }
    }
}

impl From<io::Error> for Stranger {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

#[derive(Clone, Copy)]
enum Side {
    Accept,
    Connect,
}

struct Greeting([u8; GREETING]);

impl Greeting {
    fn new(me: Peer) -> io::Result<Self> {
        let mut bytes = [0; GREETING];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..12].copy_from_slice(&me.0.to_le_bytes());
        getrandom::fill(&mut bytes[12..]).map_err(io::Error::other)?;
        Ok(Self(bytes))
    }

    /// From whom it is, as it says.
    fn check(&self) -> Result<Peer, Stranger> {
        if self.0[..8] != MAGIC {
            return Err(Stranger::Magic);
        }
        Ok(Peer(u32::from_le_bytes([self.0[8], self.0[9], self.0[10], self.0[11]])))
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

/// Introduces this process to the one that it has connected to.
///
/// # Errors
/// It is not `peer`. This process has then said nothing that helps it to seem so.
pub(super) async fn connect(stream: &Stream, secret: &Secret, me: Peer, peer: Peer) -> Result<(), Stranger> {
    let mine = Greeting::new(me)?;
    stream.write_all(&mine.0).await?;
    let mut theirs = Greeting([0; GREETING]);
    stream.read_exact(&mut theirs.0).await?;
    let mut proof = [0; PROOF];
    stream.read_exact(&mut proof).await?;
    let number = theirs.check()?;
    // In constant time, as `hmac` promises.
    hmac(secret, Side::Accept, &mine, &theirs).verify_slice(&proof).map_err(|_| Stranger::Proof)?;
    if number != peer {
        return Err(Stranger::Number(number.0));
    }
    stream.write_all(&hmac(secret, Side::Connect, &mine, &theirs).finalize().into_bytes()).await?;
    Ok(())
}

/// Finds out who has connected.
///
/// # Errors
/// It is nobody `expected`.
pub(super) async fn accept(
    stream: &Stream,
    secret: &Secret,
    me: Peer,
    expected: impl Fn(Peer) -> bool,
) -> Result<Peer, Stranger> {
    let mut theirs = Greeting([0; GREETING]);
    stream.read_exact(&mut theirs.0).await?;
    let peer = theirs.check()?;
    if !expected(peer) {
        return Err(Stranger::Number(peer.0));
    }
    let mine = Greeting::new(me)?;
    let proof = hmac(secret, Side::Accept, &theirs, &mine).finalize().into_bytes();
    stream.write_all(&[&mine.0[..], &proof[..]].concat()).await?;
    let mut proof = [0; PROOF];
    stream.read_exact(&mut proof).await?;
    hmac(secret, Side::Connect, &theirs, &mine).verify_slice(&proof).map_err(|_| Stranger::Proof)?;
    Ok(peer)
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use chanter::prelude::*;

    use super::*;

    const ME: Peer = Peer(1);
    const OTHER: Peer = Peer(2);

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
        let connecting = spawn(async move { connect(&one, &secret(), OTHER, ME).await });
        assert_eq!(accept(&other, &secret(), ME, |peer| peer == OTHER).await.unwrap(), OTHER);
        connecting.join().await.unwrap().unwrap();
    }

    #[chanter::test]
    async fn who_does_not_is_refused_by_either_side() {
        let (one, other) = pair();
        let accepting = spawn(async move { accept(&other, &Secret::new([8; 32]), ME, |_| true).await });
        assert!(matches!(connect(&one, &secret(), OTHER, ME).await, Err(Stranger::Proof)));
        drop(one);
        assert!(matches!(accepting.join().await.unwrap(), Err(Stranger::Io(_))));

        // Who sends back the proof that it has got has the wrong one.
        let (one, other) = pair();
        let accepting = spawn(async move { accept(&other, &secret(), ME, |_| true).await });
        one.write_all(&Greeting::new(OTHER).unwrap().0).await.unwrap();
        let mut answer = [0; GREETING + PROOF];
        one.read_exact(&mut answer).await.unwrap();
        one.write_all(&answer[GREETING..]).await.unwrap();
        assert!(matches!(accepting.join().await.unwrap(), Err(Stranger::Proof)));
    }

    #[chanter::test]
    async fn who_is_not_expected_gets_no_answer() {
        for (greeting, number) in [([b'x'; GREETING], None), (Greeting::new(Peer(9)).unwrap().0, Some(9))] {
            let (one, other) = pair();
            let accepting = spawn(async move { accept(&other, &secret(), ME, |peer| peer == OTHER).await });
            one.write_all(&greeting).await.unwrap();
            match accepting.join().await.unwrap() {
                Err(Stranger::Magic) => assert_eq!(number, None),
                Err(Stranger::Number(said)) => assert_eq!(number, Some(said)),
                other => panic!("{other:?}"),
            }
            assert!(one.read_exact(&mut [0]).await.is_err(), "not a byte");
        }
        // Another process of the job, at the address of the one that is looked for.
        let (one, other) = pair();
        let accepting = spawn(async move { accept(&other, &secret(), Peer(3), |_| true).await });
        assert!(matches!(connect(&one, &secret(), OTHER, ME).await, Err(Stranger::Number(3))));
        drop(one);
        assert!(accepting.join().await.unwrap().is_err());
    }
}
