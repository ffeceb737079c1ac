//! The examples, run as tests: each asserts its own results.

use std::process::ExitCode;

macro_rules! examples {
    ($($example:ident: $file:literal)*) => {
        $(
            #[path = $file]
            mod $example;

            #[test]
            fn $example() {
                assert_eq!($example::main(), ExitCode::SUCCESS);
            }
        )*
    };
}

examples! {
    dropped_sends: "../examples/dropped_sends.rs"
    with_axum: "../examples/with_axum.rs"
    with_reqwest: "../examples/with_reqwest.rs"
    with_rustls: "../examples/with_rustls.rs"
    with_sqlx: "../examples/with_sqlx.rs"
}
