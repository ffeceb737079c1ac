//! The readers of bytes from other processes, each as a function of bytes, for fuzzers and for the driver here.
//!
//! A target panics if a promise is broken. The tests replay its corpus, `corpus/TARGET/`, and then mutate it.
//! `CHANTER_FUZZ` is the number of inputs to try (20,000 by default), and `CHANTER_FUZZ_SEED` selects them. A failing
//! input is printed in hexadecimal; to try it again, make it a file of the target's corpus.

pub mod control;
#[cfg(test)]
#[path = "../../../chanter-engine/src/fuzz/driver.rs"]
mod driver;
pub mod requests;

use chanter_engine::fuzz::Input;

#[cfg(test)]
mod tests {
    use super::driver::fuzz;
    use super::{control, requests};

    #[test]
    fn requests_of_another_process() {
        fuzz("requests", requests::target, requests::seeds(), 10_000);
    }

    #[test]
    fn control_messages() {
        fuzz("control", control::target, control::seeds(), 20_000);
    }
}
