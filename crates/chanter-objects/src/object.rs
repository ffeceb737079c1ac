//! `Object`: what `#[object]` implements.

/// A type whose methods can be called through a [`Ref`](crate::Ref), as `object.method(..)`.
///
/// [`#[object]`](crate::object) implements it: see there.
///
/// # Safety
/// `Methods` is `#[repr(transparent)]` over a `Ref<Self>`.
pub unsafe trait Object: Send + Sized + 'static {
    /// The type to which a `Ref` derefs; its methods call those of the object.
    type Methods;
}
