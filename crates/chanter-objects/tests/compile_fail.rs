//! Each rule that the types or the attribute enforce has a program in `tests/ui` that breaks it, and the message that its
//! author reads beside it.

#![cfg(not(miri))]

#[test]
fn rules_are_enforced_where_they_are_broken() {
    trybuild::TestCases::new().compile_fail("tests/ui/*.rs");
}
