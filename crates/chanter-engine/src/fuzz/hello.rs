//! The hello. An input holds the side that reads, and then the bytes that it reads. No input knows the secret, so
//! none gets in.

use super::Input;
use crate::engine::ProcessId;
use crate::launcher::Secret;
use crate::socket::hello::{CHALLENGE, GREETING, Introduction, MAGIC, PROOF, Stranger, greeted};

/// Checks `greeted` and `Introduction`.
pub fn target(bytes: &[u8]) {
    let secret = Secret::new([42; 32]);
    let mut input = Input(bytes);
    let (me, peer) = (ProcessId(2), ProcessId(3));
    if input.byte().is_multiple_of(2) {
        let theirs: [u8; GREETING] = input.array();
        let number = u32::from_le_bytes([theirs[8], theirs[9], theirs[10], theirs[11]]);
        match greeted(&secret, me, [5; CHALLENGE], theirs, |number| number == peer) {
            Ok(greeted) => {
                assert!(theirs[..8] == MAGIC && number == peer.0);
                assert_eq!(greeted.answer[..8], MAGIC);
                assert!(matches!(greeted.proved(&input.array::<PROOF>()), Err(Stranger::Proof)));
            }
            Err(Stranger::Number(said)) => assert!(theirs[..8] == MAGIC && said == number && said != peer.0),
            Err(Stranger::Version) => assert!(theirs[..7] == MAGIC[..7] && theirs[7] != MAGIC[7]),
            Err(Stranger::Magic) => assert!(theirs[..7] != MAGIC[..7]),
            Err(error) => panic!("{error:?}"),
        }
    } else {
        let introduction = Introduction::new(&secret, peer, [5; CHALLENGE], Some(me));
        match introduction.answered(&input.array()) {
            Err(Stranger::Proof | Stranger::Version | Stranger::Magic) => {}
            other => panic!("who does not know the secret is {other:?}"),
        }
    }
}

#[cfg(test)]
pub(super) fn seeds() -> Vec<(&'static str, Vec<u8>)> {
    let secret = Secret::new([1; 32]);
    let mine = Introduction::new(&secret, ProcessId(3), [9; CHALLENGE], Some(ProcessId(2)));
    let theirs = greeted(&secret, ProcessId(2), [8; CHALLENGE], *mine.greeting(), |_| true)
        .unwrap_or_else(|_| unreachable!());
    let (proof, _) = mine.answered(&theirs.answer).unwrap_or_else(|_| unreachable!());
    let accepting = [&[0][..], mine.greeting(), &proof].concat();
    let mut other_version = accepting.clone();
    other_version[8] += 1;
    let mut other_number = accepting.clone();
    other_number[9] = 200;
    vec![
        ("another-secret", accepting.clone()),
        ("another-version", other_version),
        ("another-number", other_number),
        ("half", accepting[..20].to_vec()),
        ("answer", [&[1][..], &theirs.answer].concat()),
        ("echo", [&[1][..], mine.greeting(), &proof].concat()),
    ]
}
