//! Each rule of the attribute has a program in `tests/ui` that breaks it, and the message that its author reads beside it.

#[test]
fn rules_are_enforced_where_they_are_broken() {
    trybuild::TestCases::new().compile_fail("tests/ui/*.rs");
}
