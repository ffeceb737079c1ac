//! Concurrent objects, whose methods cost a call until they block.
//!
//! An object has one [`Owner`] and any number of [`Ref`]s. A call through a `Ref` is a logical thread of the object.
//! It waits until the object lets it in, and runs where its caller runs, on its caller's stack. Concert (*Runtime
//! Mechanisms for Efficient Dynamic Multithreading*, section 4.2) calls this hybrid stack-heap execution.
//!
//! ```
//! use chanter_objects::Owner;
//!
//! # chanter::block_on(async {
//! let account = Owner::new(100);
//! let account_ref = account.reference();
//! account_ref.with_mut(|balance| *balance -= 30).await?;
//! assert_eq!(account_ref.with(|balance| *balance).await, Ok(70));
//! drop(account);
//! assert!(account_ref.with(|balance| *balance).await.is_err());
//! # Ok::<(), chanter_objects::ObjectError>(())
//! # }).unwrap();
//! ```
//!
//! # Who is inside
//!
//! | how | beside it |
//! |---|---|
//! | [`with`](Ref::with), [`with_async`](Ref::with_async) | others that read |
//! | [`with_mut`](Ref::with_mut), [`with_mut_async`](Ref::with_mut_async) | nobody |
//!
//! An object lets calls enter in the order of their arrival (see [`chanter::sync`]). A call that waits and is not
//! polled delays no other. An async method is inside until it ends, beyond its suspensions. A method that calls its own
//! object through a `Ref` waits for itself, unless both calls may be inside together. So calls within an object are
//! plain calls of the methods themselves.
//!
//! # What a call costs
//!
//! A `Ref` is an address, so a call looks nothing up. An OS thread that uses an object often enters and leaves it
//! without a read-modify-write. Any other OS thread, and each one at first, pays one each way. A call that does not
//! block touches no heap. A call that blocks is a part of its caller's frame, and allocates nothing.
//!
//! # Objects of other processes
//!
//! With the feature `cluster`, a `Ref` may be sent to any process of a `chanter_cluster` job, and is called there as it is here:
//! `remote.area().await`. The methods are those of an [`#[object(remote)]`](crate::object), whose arguments and answers are data (`serde`).
//! `Owner::new_on` makes an object in another process, `Ref::migrate` moves one; its references stay good. Local
//! calls are no slower for it. See `remote`.
//!
//! # Cancel safety
//!
//! A call that is dropped while it waits was never inside. An async method that is dropped while it is suspended ends there,
//! as any future does, and the object is free. Its changes to the object stay.
//!
//! # Panics
//!
//! A panic of a method unwinds into its caller, as with any call. If the method may write, its panic leaves the
//! object *poisoned*: further calls give [`ObjectError::Poisoned`], until its owner [forgives](Owner::forgive).

mod answer;
mod apart;
mod begin;
mod call;
mod conc;
mod counter;
mod error;
mod hold;
mod lazy;
mod may_block;
mod object;
mod owner;
mod place;
mod progress;
mod promise;
mod reference;
#[cfg(feature = "cluster")]
#[doc(alias = "far")]
pub mod remote;
mod slot;
mod with;

pub use call::{Call, Calling, Method, Reads, Writes};
pub use conc::conc_for;
#[doc(hidden)]
pub use conc::{Now as __Now, is_there as __is_there, output as __output};
pub use counter::Counter;
pub use error::{Begun, ObjectError};
pub use lazy::{Answers, Forward, Forwarded, Forwarding, Lazy};
pub use object::Object;
pub use owner::Owner;
pub use promise::{Continuation, IntoTouch, Promise, Touch};
pub use reference::Ref;

/// Makes the methods of a type callable through references: `object.method(..)`.
///
/// Each method with the attribute `#[method]` gets a call of the same name, which yields a `Result<_, ObjectError>`:
///
/// | method | inside | its receiver |
/// |---|---|---|
/// | `#[method(read)]` | beside others that read | `&self` |
/// | `#[method(mut)]` | alone | `&mut self` |
/// | `#[method(free)]` | beside anybody: no method of the object may be `mut` | `&self` |
/// | `#[method]` | as its receiver says: `read` or `mut` | |
///
/// and by its form one of Concert's schemas (section 4.2.2):
///
/// | form | schema | the call |
/// |---|---|---|
/// | `fn f(&self, ..) -> R` | non-blocking | [`Call`] |
/// | `async fn f(&self, ..) -> R` | may-block | an `IntoFuture` |
/// | `async fn f(&self, .., k: Lazy<'_, R>)` | continuation-passing | [`Forward`] |
///
/// The methods stay what they are: calls within the object are plain ones.
///
/// # Other processes
///
/// With the feature `cluster`, and `#[object(remote)]`, all methods may be called from other processes of a job. Their
/// arguments and answers are data (`Serialize`, `DeserializeOwned`), their futures are `Send`, and the type is not
/// generic. A method that is `#[method(.., local)]` is exempt: it can be called in its own process only. Processes know
/// a method by the hash of `path::Type::method#signature`, so another version of the program may not know it. Such
/// processes are refused when they join a job (`Process::agree`). Without that check, the caller gets
/// [`ObjectError::Incompatible`].
///
/// With `#[object(remote, moves)]` the type is data itself, and its objects may be made in other processes (`Owner::new_on`) and
/// migrate (`Ref::migrate`).
///
/// `#[object(remote, allow = function)]` says which processes the objects serve, and which may place and move them.
/// The function takes a `chanter_cluster::Caller`, like the `allow` function of a `#[service]`.
/// `#[method(.., allow = function)]` says so for one method, instead. All other processes get
/// [`ObjectError::Refused`]. Calls within the process are not judged. A forwarded call is judged by the process that
/// has forwarded it, and by the home of an object that has moved.
///
/// ```
/// use chanter_objects::{Lazy, ObjectError, Owner, Ref, object};
///
/// struct Patch {
///     area: f64,
///     child: Option<Ref<Patch>>,
/// }
///
/// #[object]
/// impl Patch {
///     #[method(read)]
///     fn area(&self) -> f64 {
///         self.area
///     }
///
///     #[method(mut)]
///     async fn refine(&mut self, by: Ref<Patch>) -> Result<f64, ObjectError> {
///         self.area -= by.area().await?;
///         Ok(self.area())
///     }
///
///     #[method(read)]
///     async fn smallest(&self, k: Lazy<'_, f64>) {
///         match self.child {
///             Some(child) => k.forward_boxed(child.smallest()).await,
///             None => k.fill(self.area),
///         }
///     }
/// }
///
/// # chanter::block_on(async {
/// let small = Owner::new(Patch { area: 1.0, child: None });
/// let large = Owner::new(Patch { area: 4.0, child: Some(small.reference()) });
/// let large = large.reference();
/// # let keep = Owner::new(Patch { area: 4.0, child: Some(small.reference()) });
/// # let large = keep.reference();
/// assert_eq!(large.refine(small.reference()).await??, 3.0);
/// assert_eq!(large.smallest().await?, 1.0);
/// # Ok::<(), ObjectError>(())
/// # }).unwrap();
/// ```
///
/// A method that calls itself, through references, boxes that call (`Box::pin(call.into_future()).await`,
/// [`Lazy::forward_boxed`]), as every recursive `async fn` does: its frame cannot be a part of itself. The paper
/// makes a heap context at this point.
///
/// # What it writes
///
/// The block itself, and a type to which a `Ref` derefs (called `PatchRef`, unless it says `#[object(name = ..)]`):
///
/// ```ignore
/// #[repr(transparent)]
/// pub struct PatchRef(Ref<Patch>);
///
/// unsafe impl Object for Patch {
///     type Methods = PatchRef;
/// }
///
/// impl PatchRef {
///     fn area(self) -> Call<Patch, impl Method<Patch, Output = f64>> {
///         self.0.with(move |this: &Patch| <Patch>::area(this))
///     }
///     fn refine(self, by: Ref<Patch>)
///     -> impl IntoFuture<Output = Result<Result<f64, ObjectError>, ObjectError>, IntoFuture = impl Future<..>> {
///         if false {
///             // Never runs: says that the method takes any borrow, and that what it returns keeps none.
///             let _ = self.0.with_mut_async(async move |this: &mut Patch| <Patch>::refine(this, by).await);
///             unreachable!()
///         }
///         // The same, without a future around the method's.
///         unsafe { self.0.__with_mut_async(move |this| <Patch>::refine(this, by)) }
///     }
///     fn smallest(self) -> impl Forward<Answer = f64, Output = Result<f64, ObjectError>, IntoFuture = impl Answers<f64>> {
///         if false {
///             let _ = self.0.with_lazily(async move |this: &Patch, k: Lazy<'_, f64>| <Patch>::smallest(this, k).await);
///             unreachable!()
///         }
///         unsafe { self.0.__with_lazily(move |this, k| <Patch>::smallest(this, k)) }
///     }
/// }
/// ```
///
/// With `remote`, the calls are made by `Ref::named`, which has the arguments as data, and the program's table gets an entry:
///
/// ```ignore
/// fn refine(self, by: Ref<Patch>)
/// -> impl IntoFuture<Output = Result<Result<f64, ObjectError>, ObjectError>, IntoFuture = impl Future<..>> {
///     const NAME: &str = concat!(module_path!(), "::Patch::refine#asyncfnrefine(&mutself,by:Ref<Self>)->Result<f64,Gone>");
///     const KEY: remote::Key<(Ref<Patch>,), Result<f64, ObjectError>> = remote::Key::new(NAME);
///     #[linkme::distributed_slice(remote::table::SERVICES)]
///     static ENTRY: remote::table::Service = remote::table::Service::new(NAME, || {
///         remote::serve::<Patch, (Ref<Patch>,), Result<f64, ObjectError>, _>(NAME, |to, (by,)| PatchRef(to).refine(by))
///     });
///     self.0
///         .named(KEY, (by,))
///         .with_mut_async(async |this: &mut Patch, (by,): (Ref<Patch>,)| <Patch>::refine(this, by).await)
/// }
/// ```
///
/// All that the attribute writes can be written by hand; without `__with_mut_async` and similar methods, a call costs a
/// little more.
pub use chanter_macros::object;
