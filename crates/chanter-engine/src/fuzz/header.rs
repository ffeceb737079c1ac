//! The header of a message. An input holds a limit, and then the header's bytes.

use super::Input;
use crate::wire::{BadHeader, Body, Header, LENGTH};

/// Checks `Header::decode`.
pub fn target(bytes: &[u8]) {
    let mut input = Input(bytes);
    let limit = input.word();
    let bytes = input.0;
    match Header::decode(bytes, limit) {
        Ok(header) => {
            assert!(header.length <= limit);
            assert_eq!(header.encode(), bytes[..LENGTH], "nothing is lost, and nothing is made up");
            let mut body = Body::of_frame(bytes.to_vec()).expect("there is a header");
            body.set_header(&header);
            assert_eq!(body.frame(), bytes);
            assert_eq!(&*body, &bytes[LENGTH..]);
        }
        Err(BadHeader::Short(length)) => {
            assert!(length == bytes.len() && length < LENGTH);
            assert!(Body::of_frame(bytes.to_vec()).is_none());
        }
        Err(BadHeader::Kind(kind)) => {
            assert!(kind == bytes[0] && !matches!(kind, 1 | 2 | 4 | 6..=23));
        }
        Err(BadHeader::Long { length, limit: most }) => assert!(length > most && most == limit),
    }
}

#[cfg(test)]
pub(super) fn seeds() -> Vec<(&'static str, Vec<u8>)> {
    use crate::wire::{Kind, Slot};

    let header = |kind, length| {
        let slot = Slot { index: 3, generation: 7 };
        Header { tag: 5, to: slot, from: slot, length, ..Header::new(kind) }.encode().to_vec()
    };
    let with = |limit: u32, bytes: &[u8]| [&limit.to_le_bytes()[..], bytes].concat();
    vec![
        ("message", with(u32::MAX, &[header(Kind::Message, 4), vec![1; 4]].concat())),
        ("gone", with(0, &header(Kind::Gone, 0))),
        ("too-long", with(1000, &header(Kind::Message, 1001))),
        ("longest", with(u32::MAX, &header(Kind::Message, u32::MAX))),
        ("short", with(0, &header(Kind::Message, 0)[..LENGTH - 1])),
        ("no-kind", with(0, &[0xff; LENGTH])),
        ("empty", Vec::new()),
    ]
}
