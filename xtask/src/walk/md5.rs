//! The digest by which a profile and the code it is of name functions and lists of files.

/// The first eight bytes of the MD5 digest of `data`, as LLVM uses it for a name.
pub(crate) fn name(data: &[u8]) -> u64 {
    const SHIFTS: [[u32; 4]; 4] = [[7, 12, 17, 22], [5, 9, 14, 20], [4, 11, 16, 23], [6, 10, 15, 21]];
    let mut message = data.to_vec();
    message.push(0x80);
    while message.len() % 64 != 56 {
        message.push(0);
    }
    message.extend_from_slice(&(8 * data.len() as u64).to_le_bytes());
    let mut state: [u32; 4] = [0x6745_2301, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476];
    for block in message.chunks_exact(64) {
        let words: Vec<u32> = block
            .chunks_exact(4)
            .map(|word| u32::from_le_bytes(word.try_into().expect("four bytes")))
            .collect();
        let [mut a, mut b, mut c, mut d] = state;
        for step in 0..64 {
            let (mixed, word) = match step / 16 {
                0 => ((b & c) | (!b & d), step),
                1 => ((d & b) | (!d & c), (5 * step + 1) % 16),
                2 => (b ^ c ^ d, (3 * step + 5) % 16),
                _ => (c ^ (b | !d), 7 * step % 16),
            };
            let constant = (f64::sin((step + 1) as f64).abs() * 2_f64.powi(32)) as u32;
            let sum = a.wrapping_add(mixed).wrapping_add(constant).wrapping_add(words[word]);
            (a, d, c) = (d, c, b);
            b = b.wrapping_add(sum.rotate_left(SHIFTS[step / 16][step % 4]));
        }
        for (state, word) in state.iter_mut().zip([a, b, c, d]) {
            *state = state.wrapping_add(word);
        }
    }
    u64::from(state[0]) | u64::from(state[1]) << 32
}

#[cfg(test)]
mod tests {
    #[test]
    fn digests_are_those_of_the_standard() {
        // RFC 1321, A.5: d41d8cd98f00b204..., 900150983cd24fb0..., 57edf4a22be3c955...
        assert_eq!(super::name(b"").to_le_bytes(), [0xd4, 0x1d, 0x8c, 0xd9, 0x8f, 0x00, 0xb2, 0x04]);
        assert_eq!(super::name(b"abc").to_le_bytes(), [0x90, 0x01, 0x50, 0x98, 0x3c, 0xd2, 0x4f, 0xb0]);
        let long = "1234567890".repeat(8);
        assert_eq!(
            super::name(long.as_bytes()).to_le_bytes(),
            [0x57, 0xed, 0xf4, 0xa2, 0x2b, 0xe3, 0xc9, 0x55]
        );
    }
}
