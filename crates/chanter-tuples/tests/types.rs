//! Each rule of the types has a program in `tests/ui` that breaks it. The compiler's message is beside it.

#![cfg(not(miri))]

#[test]
fn rules_are_enforced_where_they_are_broken() {
    trybuild::TestCases::new().compile_fail("tests/ui/*.rs");
}

const fn is_send<T: Send>() {}
const fn is_sync<T: Sync>() {}

/// Tuples that are `Send` may be in a space that threads share, even if they are not `Sync`.
#[test]
fn a_space_is_send_and_sync() {
    type Space = chanter_tuples::TupleSpace<(u8, chanter_tuples::Data<std::cell::Cell<u8>>)>;
    is_send::<Space>();
    is_sync::<Space>();
}
