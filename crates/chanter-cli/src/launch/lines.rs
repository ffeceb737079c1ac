//! Whole lines out of a stream's bytes, each with its prefix.

/// A longer line is cut: what a process may make the launcher remember has a limit.
const LONGEST: usize = 1 << 20;

/// Cuts one stream into lines.
pub(super) struct Lines {
    prefix: Vec<u8>,
    /// The beginning of a line whose end has not come.
    begun: Vec<u8>,
}

impl Lines {
    pub(super) fn new(prefix: Vec<u8>) -> Self {
        Self { prefix, begun: Vec::new() }
    }

    /// The lines that these bytes complete, prefixed.
    pub(super) fn feed(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut lines = Vec::new();
        for piece in bytes.split_inclusive(|&byte| byte == b'\n') {
            let mut piece = piece;
            while self.begun.len() + piece.len() > LONGEST {
                let (now, later) = piece.split_at(LONGEST - self.begun.len());
                self.begun.extend_from_slice(now);
                self.finish(&mut lines);
                piece = later;
            }
            self.begun.extend_from_slice(piece);
            if piece.ends_with(b"\n") {
                self.finish(&mut lines);
            }
        }
        lines
    }

    /// The last line, if the stream has ended within it.
    pub(super) fn end(&mut self) -> Vec<u8> {
        let mut lines = Vec::new();
        if !self.begun.is_empty() {
            self.finish(&mut lines);
        }
        lines
    }

    fn finish(&mut self, lines: &mut Vec<u8>) {
        lines.extend_from_slice(&self.prefix);
        lines.append(&mut self.begun);
        if !lines.ends_with(b"\n") {
            lines.push(b'\n');
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(chunks: &[&[u8]]) -> Vec<u8> {
        let mut lines = Lines::new(b"[7] ".to_vec());
        let mut all: Vec<u8> = chunks.iter().flat_map(|chunk| lines.feed(chunk)).collect();
        all.extend(lines.end());
        all
    }

    #[test]
    fn the_lines_are_the_same_however_they_are_cut() {
        let text = b"one\n\ntwo \xff three\r\n  four";
        let expected = b"[7] one\n[7] \n[7] two \xff three\r\n[7]   four\n";
        for first in 0..=text.len() {
            for second in first..=text.len() {
                assert_eq!(all(&[&text[..first], &text[first..second], &text[second..]]), expected);
            }
        }
    }

    #[test]
    fn what_has_no_end_waits_for_it() {
        let mut lines = Lines::new(Vec::new());
        assert_eq!(lines.feed(b"be"), b"");
        assert_eq!(lines.feed(b"gun\nnext"), b"begun\n");
        assert_eq!(lines.end(), b"next\n");
        assert_eq!(lines.end(), b"");
    }

    #[test]
    fn an_endless_line_is_cut_and_not_remembered_whole() {
        let mut lines = Lines::new(b">".to_vec());
        let mut all = Vec::new();
        for _ in 0..5 {
            all.extend(lines.feed(&vec![b'x'; LONGEST / 2]));
            assert!(lines.begun.len() <= LONGEST);
        }
        all.extend(lines.end());
        let lengths: Vec<usize> =
            all.split_inclusive(|&byte| byte == b'\n').map(|line| line.len() - 2).collect();
        assert_eq!(lengths, [LONGEST, LONGEST, LONGEST / 2]);
    }
}
