//! Laws of every program, by the semantics alone.

use chanter_semantics::generate::{Sketch, programs, tiny_programs};
use chanter_semantics::{Limits, enumerate, enumerate_by_every_rule};
use proptest::prelude::*;

const LIMITS: Limits = Limits { states: 5_000, silent: 10_000 };

fn config(cases: u32) -> ProptestConfig {
    // Programs that are too large are rejected; too many of them fail the test.
    ProptestConfig { cases, max_global_rejects: cases / 5, failure_persistence: None, ..Default::default() }
}

fn have_the_same_outcomes(one: &Sketch, other: &Sketch) -> Result<(), TestCaseError> {
    let (Ok(one), Ok(other)) = (enumerate(&one.program(), LIMITS), enumerate(&other.program(), LIMITS))
    else {
        return Err(TestCaseError::reject("too many states"));
    };
    prop_assert_eq!(one, other);
    Ok(())
}

proptest! {
    #![proptest_config(config(200))]

    /// The search that is used everywhere else leaves out nothing.
    #[test]
    fn silent_first_in_one_host_finds_the_same(sketch in tiny_programs()) {
        let program = sketch.program();
        let Ok(all) = enumerate_by_every_rule(&program, LIMITS) else {
            return Err(TestCaseError::reject("too many states"));
        };
        prop_assert_eq!(enumerate(&program, LIMITS).unwrap(), all);
    }
}

proptest! {
    #![proptest_config(config(200))]

    /// Section 3: parasites are equivalent to threads.
    #[test]
    fn hosts_and_parasites_are_equivalent(sketch in programs()) {
        have_the_same_outcomes(&sketch, &sketch.with_kinds_exchanged())?;
    }

    /// To inflate changes where a computation lives, and nothing that can be seen.
    #[test]
    fn inflation_cannot_be_seen(sketch in programs()) {
        have_the_same_outcomes(&sketch, &sketch.with_inflation())?;
    }
}
