//! Concurrent objects: methods that cost a call, until they block.
//!
//! An object has one [`Owner`] and any number of [`Ref`]s. A call through a `Ref` is a logical thread of the object: it
//! waits until the object lets it in, and runs where its caller runs, on its caller's stack. Concert (*Runtime
//! Mechanisms for Efficient Dynamic Multithreading*, section 4.2) calls this hybrid stack-heap execution.
//!
//! ```
//! use chanter_objects::Owner;
//!
//! # chanter::block_on(async {
//! let account = Owner::new(100);
//! let account_ref = account.refer();
//! account_ref.write(|balance| *balance -= 30).await?;
//! assert_eq!(account_ref.read(|balance| *balance).await, Ok(70));
//! drop(account);
//! assert!(account_ref.read(|balance| *balance).await.is_err());
//! # Ok::<(), chanter_objects::Gone>(())
//! # }).unwrap();
//! ```
//!
//! # Who is inside
//!
//! | how | beside it |
//! |---|---|
//! | [`read`](Ref::read), [`read_async`](Ref::read_async) | others that read |
//! | [`write`](Ref::write), [`write_async`](Ref::write_async) | nobody |
//!
//! An object lets in who is polled, in order of coming (see [`chanter::lock`]): one that waits and is not polled holds nobody
//! up. An async method is inside until it ends, beyond its suspensions. If it calls its own object through a `Ref` and may not
//! be inside twice, it waits for itself; so calls within an object are plain ones, of the methods themselves.
//!
//! # What a call costs
//!
//! A `Ref` is an address, so a call looks nothing up. An object that one OS thread uses often lets it in and out without a
//! read-modify-write; for others, and at first, that costs one each way. A call that does not block touches no heap; one
//! that blocks is a part of its caller's frame, and allocates nothing.
//!
//! # Cancel safety
//!
//! A call that is dropped while it waits was never inside. An async method that is dropped while it is suspended ends there,
//! as any future does, and the object is free. What it has changed it has changed.
//!
//! # Panics
//!
//! A panic of a method is one of its caller, as with any call. One of a method that may write leaves the object *poisoned*:
//! further calls give [`Gone::Poisoned`], until its owner [forgives](Owner::forgive).

mod call;
mod gone;
mod hold;
mod may_block;
mod object;
mod owner;
mod reference;
mod slot;

pub use call::{Call, Calling, Method, Reads, Writes};
pub use gone::Gone;
pub use may_block::{Alone, Inside, MayBlock, Shared, may_block};
pub use object::Object;
pub use owner::Owner;
pub use reference::Ref;
