//! What the `chanter` command does, for it and for `chanter-bench`, which runs the same server.

mod serve;

pub use serve::{ServeArgs, serve};
