//! Tuple spaces on [Chanter](chanter)'s threads.
//!
//! A [`TupleSpace`] is a bag of tuples that threads share. A thread *puts* a tuple, and others *read* or *take* it by a
//! pattern. A field of a pattern is a value, which the tuple's field must equal, or [`Any`] (Linda calls it a
//! *formal*), which every value matches. So the threads that communicate need not know each other, and need not run at
//! the same time.
//!
//! ```
//! use chanter::prelude::*;
//! use chanter_tuples::{Any, TupleSpace};
//!
//! # chanter::block_on(async {
//! let space = TupleSpace::new();
//! space.put(("job", 1, 2.5)).await;
//! space.put(("job", 2, 0.5)).await;
//! let (_, number, size) = space.take(("job", Any, Any)).await;
//! assert_eq!((number, size), (1, 2.5));
//! assert_eq!(space.read(("job", 2, Any)).await, ("job", 2, 0.5));
//! // Nothing matches: a choice takes another branch.
//! let nothing = choose((
//!     space.take(("job", 7, Any)).wrap(Some),
//!     after(std::time::Duration::from_millis(1)).wrap(|()| None),
//! ));
//! assert_eq!(nothing.await, None);
//! # });
//! ```
//!
//! | Linda | here |
//! |---|---|
//! | `out(t)` | [`space.put(t)`](TupleSpace::put) |
//! | `in(p)` | [`space.take(p)`](TupleSpace::take) |
//! | `rd(p)` | [`space.read(p)`](TupleSpace::read) |
//! | `inp(p)`, `rdp(p)` | [`try_sync`](chanter::Event::try_sync) on these |
//! | `eval(t)` | [`space.spawn(shape, body)`](TupleSpace::spawn), [`space.delay(shape, body)`](TupleSpace::delay) |
//! | `?x` | [`Any`], and a name where the tuple is taken apart |
//!
//! The operations `put`, `take`, `read`, `spawn` and `delay` are events: they are awaited, or composed in a choice. A
//! branch that is not chosen takes nothing.
//!
//! # Fields
//!
//! A space holds tuples of one type, with one to eight fields. Each field is a [`Field`]: numbers, `bool`, `char`,
//! strings, options and small tuples of these are compared by value. Other types are [`Opaque`]: only [`Any`] matches
//! them. [`Data`] makes a field of any type.
//!
//! # Order
//!
//! * Tuples are found by their first field, through a hash table, and then in the order in which they were put.
//! * A new tuple goes to all waiting readers that it matches, and then to the taker that has waited longest.
//!   Nobody who comes later sees a tuple that has a taker.
//! * A tuple that was given to a future that is dropped returns to its place in the order.
//!
//! Linda: Carriero and Gelernter, *Linda in context* (1989). STING, section 2.2, counts distributed data structures
//! among the things to be built on threads; there a field may be a thread, which its reader steals.

mod field;
mod held;
mod note;
mod pattern;
mod space;
mod state;

pub use field::{Data, Field, Key, Opaque, Value};
pub use pattern::{Any, FieldPattern, Pattern, Tuple};
pub use space::{Put, Read, Take, TupleSpace};
