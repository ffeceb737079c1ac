//! The readers of bytes from other processes, each as a function of bytes, for fuzzers and for the driver here.
//!
//! A target panics if a promise is broken. The tests replay its corpus, `corpus/TARGET/`, and then mutate it.
//! `CHANTER_FUZZ` is the number of inputs to try (20,000 by default), and `CHANTER_FUZZ_SEED` selects them. A failing
//! input is printed in hexadecimal; to try it again, make it a file of the target's corpus.

#[cfg(test)]
mod driver;
pub mod frames;
pub mod header;
pub mod hello;
mod input;
pub mod link;
pub mod segment;

pub use input::Input;

#[cfg(test)]
mod tests {
    use super::driver::fuzz;
    use super::{frames, header, hello, link, segment};

    #[test]
    fn headers() {
        fuzz("header", header::target, header::seeds(), 20_000);
    }

    #[test]
    fn frames_of_a_connection() {
        fuzz("frames", frames::target, frames::seeds(), 20_000);
    }

    #[test]
    fn hellos() {
        fuzz("hello", hello::target, hello::seeds(), 20_000);
    }

    #[test]
    fn links() {
        fuzz("link", link::target, link::seeds(), 20_000);
    }

    #[test]
    fn segments() {
        fuzz("segment", segment::target, segment::seeds(), 20_000);
    }
}
