//! The frames of a connection. An input holds the cuts into reads, and then the bytes that come.

use super::Input;
use crate::socket::frame::{BadFrame, Frame, Frames, LONGEST};
use crate::wire;

/// Checks `Frames`: any cuts of the bytes give the same frames, and no more bytes are stored than came.
pub fn target(bytes: &[u8]) {
    let mut input = Input(bytes);
    let chunks = [usize::from(input.byte()) + 1, usize::from(input.byte()) * 61 + 1];
    let whole = read(input.0, &[usize::MAX]);
    assert_eq!(read(input.0, &chunks), whole, "cut into {chunks:?}");
    if input.0.len() < 1000 {
        assert_eq!(read(input.0, &[1]), whole, "byte by byte");
    }
}

fn read(bytes: &[u8], chunks: &[usize]) -> (Vec<Frame>, Result<bool, BadFrame>) {
    let (mut frames, mut all, mut rest, mut given) = (Frames::new(), Vec::new(), bytes, 0);
    for chunk in chunks.iter().cycle() {
        loop {
            match frames.next() {
                Ok(Some(frame)) => {
                    if let Frame::Message(_, message) = &frame {
                        assert!((wire::LENGTH..=LONGEST).contains(&message.len()));
                        given += message.len();
                    }
                    all.push(frame);
                }
                Ok(None) => break,
                Err(error) => {
                    assert_eq!(frames.next(), Err(error), "a connection does not get well again");
                    return (all, Err(error));
                }
            }
        }
        assert!(frames.begun() + given <= bytes.len() - rest.len(), "it keeps what has come, and no more");
        if rest.is_empty() {
            break;
        }
        let room = frames.room();
        assert!(!room.is_empty());
        let read = (*chunk).min(rest.len()).min(room.len());
        room[..read].copy_from_slice(&rest[..read]);
        frames.filled(read);
        rest = &rest[read..];
    }
    (all, Ok(frames.is_torn()))
}

#[cfg(test)]
pub(super) fn seeds() -> Vec<(&'static str, Vec<u8>)> {
    use crate::engine::Lane;
    use crate::socket::frame::{Word, head};

    let frame = |word, lane, length: usize| [&head(word, lane, length)[..], &vec![7; length]].concat();
    let message = |lane| frame(Word::Last, lane, wire::LENGTH + 3);
    let words: Vec<u8> = [Word::Alive, Word::Notify, Word::Leave, Word::Goodbye]
        .iter()
        .flat_map(|word| frame(*word, Lane::Control, 0))
        .collect();
    let pieces =
        [frame(Word::Piece, Lane::Bulk, 60), message(Lane::User), frame(Word::Last, Lane::Bulk, 5)].concat();
    let mut longest = head(Word::Last, Lane::User, 48).to_vec();
    longest[4..8].fill(0xff);
    let cut = |bytes: &[u8]| [&[6, 1][..], bytes].concat();
    vec![
        ("messages", cut(&[message(Lane::Control), message(Lane::User), message(Lane::Bulk)].concat())),
        ("words", cut(&words)),
        ("pieces", cut(&pieces)),
        ("longest", cut(&longest)),
        ("half", cut(&message(Lane::User)[..30])),
        ("no-header", cut(&frame(Word::Last, Lane::User, 47))),
        ("after-leave", cut(&[frame(Word::Leave, Lane::User, 0), message(Lane::User)].concat())),
        ("http", cut(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")),
    ]
}
