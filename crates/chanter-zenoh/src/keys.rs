//! The key expressions of a job. They decide which process may say what, so a frame's sender is in its key and
//! nowhere else.
//!
//! ```text
//!   chanter/JOB/f/FROM/ONCE/TO/ONCE/LANE     frames, put by process FROM and subscribed to by TO
//!   chanter/JOB/b/FROM/ONCE                  heartbeats, put by FROM, subscribed to by all
//!   chanter/JOB/t/FROM/ONCE/alive            liveliness tokens of FROM: it is there,
//!   chanter/JOB/t/FROM/ONCE/with-HASH        .. knows whom this is the hash of, as its job,
//!   chanter/JOB/t/FROM/ONCE/left             .. and has said good-bye
//! ```
//!
//! A process draws `ONCE` when it starts. A frame for a process of the same number in an earlier job of the same name
//! reaches nobody (law D5 of `chanter_cluster`).

use std::fmt;

use chanter_engine::{Lane, ProcessId};

/// A number that a process draws when it starts. Processes of one host have the same upper half.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Once(pub(crate) u64);

impl Once {
    /// The host's part of the number.
    pub(crate) fn host(self) -> u32 {
        (self.0 >> 32) as u32
    }
}

impl fmt::Display for Once {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl fmt::Debug for Once {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Once {
    fn parse(text: &str) -> Option<Self> {
        u64::from_str_radix(text, 16).ok().map(Self)
    }
}

/// Content of a liveliness token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Says {
    Alive,
    /// It knows the processes of its job; this is their hash.
    With(u64),
    Left,
}

/// A token: the content of its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Token {
    pub(crate) peer: ProcessId,
    pub(crate) once: Once,
    pub(crate) says: Says,
}

pub(crate) const LANES: [Lane; 3] = [Lane::Control, Lane::User, Lane::Bulk];

/// Prefix of all keys of a job.
pub(crate) fn root(job: &str) -> String {
    format!("chanter/{job}")
}

/// Whether `job` may be the name of a job: names are parts of key expressions.
pub(crate) fn is_job(job: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    (1..=64).contains(&job.len()) && job.bytes().all(is_plain)
}

pub(crate) fn frames(job: &str, from: (ProcessId, Once), to: (ProcessId, Once), lane: Lane) -> String {
    format!("{}/f/{}/{}/{}/{}/{}", root(job), from.0.0, from.1, to.0.0, to.1, lane as u8)
}

/// All frames for a process.
pub(crate) fn frames_to(job: &str, to: (ProcessId, Once)) -> String {
    format!("{}/f/*/*/{}/{}/*", root(job), to.0.0, to.1)
}

pub(crate) fn beats(job: &str, from: (ProcessId, Once)) -> String {
    format!("{}/b/{}/{}", root(job), from.0.0, from.1)
}

pub(crate) fn all_beats(job: &str) -> String {
    format!("{}/b/*/*", root(job))
}

pub(crate) fn token(job: &str, token: Token) -> String {
    let Token { peer, once, says } = token;
    let start = format!("{}/t/{}/{once}", root(job), peer.0);
    match says {
        Says::Alive => format!("{start}/alive"),
        Says::With(hash) => format!("{start}/with-{hash:016x}"),
        Says::Left => format!("{start}/left"),
    }
}

pub(crate) fn all_tokens(job: &str) -> String {
    format!("{}/t/*/*/*", root(job))
}

/// Sender and lane of a frame. The key has matched [`frames_to`], but another process has written it.
pub(crate) fn sender_of_frame(key: &str) -> Option<(ProcessId, Once, Lane)> {
    let mut parts = key.rsplit('/');
    let lane = match parts.next()? {
        "0" => Lane::Control,
        "1" => Lane::User,
        "2" => Lane::Bulk,
        _ => return None,
    };
    let _to = (parts.next()?, parts.next()?);
    let (once, from) = (Once::parse(parts.next()?)?, parts.next()?.parse().ok()?);
    Some((ProcessId(from), once, lane))
}

/// Sender of a heartbeat.
pub(crate) fn sender_of_beat(key: &str) -> Option<(ProcessId, Once)> {
    let mut parts = key.rsplit('/');
    let (once, from) = (Once::parse(parts.next()?)?, parts.next()?.parse().ok()?);
    Some((ProcessId(from), once))
}

pub(crate) fn read_token(key: &str) -> Option<Token> {
    let mut parts = key.rsplit('/');
    let says = match parts.next()? {
        "alive" => Says::Alive,
        "left" => Says::Left,
        other => Says::With(u64::from_str_radix(other.strip_prefix("with-")?, 16).ok()?),
    };
    let (once, from) = (Once::parse(parts.next()?)?, parts.next()?.parse().ok()?);
    Some(Token { peer: ProcessId(from), once, says })
}

#[cfg(test)]
mod tests {
    use super::*;

    const ME: (ProcessId, Once) = (ProcessId(3), Once(0xabc));
    const OTHER: (ProcessId, Once) = (ProcessId(12), Once(u64::MAX));

    #[test]
    fn what_a_key_says_is_read_again() {
        for lane in LANES {
            let key = frames("heat.1", ME, OTHER, lane);
            assert_eq!(sender_of_frame(&key), Some((ME.0, ME.1, lane)));
        }
        assert_eq!(sender_of_beat(&beats("heat", OTHER)), Some(OTHER));
        for says in [Says::Alive, Says::Left, Says::With(0), Says::With(u64::MAX)] {
            let said = Token { peer: ME.0, once: ME.1, says };
            assert_eq!(read_token(&token("heat", said)), Some(said));
        }
    }

    #[test]
    fn expressions_match_their_keys_and_no_others() {
        use zenoh::key_expr::keyexpr;
        let matches = |all: &str, one: &str| keyexpr::new(all).unwrap().includes(keyexpr::new(one).unwrap());
        let mine = frames_to("heat", ME);
        assert!(matches(&mine, &frames("heat", OTHER, ME, Lane::Bulk)));
        assert!(!matches(&mine, &frames("heat", ME, OTHER, Lane::Bulk)));
        assert!(!matches(&mine, &frames("cold", OTHER, ME, Lane::Bulk)));
        assert!(!matches(&mine, &frames("heat", OTHER, (ME.0, Once(7)), Lane::Bulk)), "an earlier one's");
        assert!(matches(&all_beats("heat"), &beats("heat", OTHER)));
        let said = Token { peer: ME.0, once: ME.1, says: Says::With(5) };
        assert!(matches(&all_tokens("heat"), &token("heat", said)));
    }

    #[test]
    fn nonsense_is_no_key() {
        for key in
            ["", "/", "a/b", "chanter/j/f/1/2/3/4/3", "chanter/j/f/x/2/3/4/1", "chanter/j/f/1/zz/3/4/1"]
        {
            assert_eq!(sender_of_frame(key), None, "{key}");
        }
        for key in ["", "alive", "1/alive", "x/1/alive", "1/x/alive", "1/2/dead", "1/2/with-", "1/2/with-xyz"]
        {
            assert_eq!(read_token(key), None, "{key}");
        }
        for job in ["", "a/b", "a*", "a b", "$", "a#b", "a?"] {
            assert!(!is_job(job), "{job}");
        }
        assert!(is_job("heat-2.b_1"));
    }
}
