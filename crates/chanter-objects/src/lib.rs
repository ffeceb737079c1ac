//! Concurrent objects: methods that cost a call.
//!
//! Objects are called by [reference](Ref) from any thread. Each has a gate: methods that change it are alone in it, methods that
//! read are beside others that do. A method of a free object is a call, on the caller's stack; one that blocks blocks in its caller's
//! frame, and nothing is allocated for it. (Concert: Karamcheti, Plevyak, Chien; "Runtime mechanisms for efficient dynamic
//! multithreading".)
//!
//! ```
//! use chanter_objects::prelude::*;
//!
//! struct Account(i64);
//!
//! #[object]
//! impl Account {
//!     #[method(read)]
//!     fn balance(&self) -> i64 {
//!         self.0
//!     }
//!
//!     #[method(mut)]
//!     async fn move_to(&mut self, other: Ref<Account>, sum: i64) -> Result<(), Gone> {
//!         self.0 -= sum;
//!         other.add(sum).await
//!     }
//!
//!     #[method(mut)]
//!     fn add(&mut self, sum: i64) {
//!         self.0 += sum;
//!     }
//! }
//!
//! # chanter::block_on(async {
//! let (mine, yours) = (Owner::new(Account(10)), Owner::new(Account(0)));
//! mine.by_ref().move_to(yours.by_ref(), 4).await??;
//! conc! { mine = mine.by_ref().balance(), yours = yours.by_ref().balance() }
//! assert_eq!((mine?, yours?), (6, 4));
//! # Ok::<(), Gone>(()) }).unwrap();
//! ```

mod call;
mod conc;
mod continuation;
mod error;
mod gate;
mod object;
mod table;

pub use chanter_macros::object;
pub use conc::{Conc, conc_for};
pub use continuation::{Continuation, Counter, Lazy, Promise};
pub use error::Gone;
pub use object::{Owner, Ref};

/// What the macros expand to.
#[doc(hidden)]
pub mod __object {
    pub use crate::call::{change, change_async, change_lazily, read, read_async, read_lazily};
    pub use crate::conc::{Join, all};
    pub use crate::continuation::answered;
}

/// Everything that most programs with objects need.
pub mod prelude {
    pub use crate::{Continuation, Counter, Gone, Lazy, Owner, Promise, Ref, conc, conc_for, object};
}
