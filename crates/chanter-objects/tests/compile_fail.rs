//! Each rule of the types or the attribute has a program in `tests/ui` that breaks it. The message that its author
//! reads stands beside it.

#![cfg(not(miri))]

#[test]
fn rules_are_enforced_where_they_are_broken() {
    trybuild::TestCases::new().compile_fail("tests/ui/*.rs");
}
