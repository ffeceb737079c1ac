//! Objects of other processes, read through copies. The paper's programs cache what they have fetched, too
//! (*Runtime Mechanisms for Efficient Dynamic Multithreading*, section 5.2).

use chanter_objects::{ObjectError, Owner, Ref};

use super::Threads;
use super::threads::call;

/// An object that threads of other processes read through copies. All that a copy holds is fixed as long as the
/// version stays the same, so it is fetched once for each.
pub trait Original: Send + Sync + Sized + 'static {
    /// A version. The program's phases count them.
    type Version: Copy + PartialEq + Send + Sync + 'static;
    /// All that threads read.
    type View: Send + Sync + 'static;

    /// The object as it is in a version.
    fn at(&self, version: Self::Version) -> &Self::View;

    /// Brings a copy from one version to another, by calls of the object.
    fn fetch(
        object: Ref<Self>,
        view: &mut Self::View,
        from: Self::Version,
        to: Self::Version,
    ) -> impl Future<Output = Result<(), ObjectError>> + Send;
}

/// A process's copy of an object of another process. It is an object itself: threads that read it while it is fetched
/// wait there.
#[derive(Debug)]
pub struct Copied<T: Original> {
    of: Ref<T>,
    version: T::Version,
    view: T::View,
}

impl<T: Original> Copied<T> {
    async fn fetch(&mut self, version: T::Version) -> Result<(), ObjectError> {
        if self.version != version {
            T::fetch(self.of, &mut self.view, self.version, version).await?;
            self.version = version;
        }
        Ok(())
    }
}

/// Where a process reads an object.
#[derive(Debug)]
pub enum Place<T: Original> {
    /// The object is its own.
    Here(Ref<T>),
    /// The object is another process's, and this one has a copy.
    Elsewhere(Ref<T>, Ref<Copied<T>>),
}

impl<T: Original> Clone for Place<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T: Original> Copy for Place<T> {}

impl<T: Original> Place<T> {
    /// The place of an object of another process. Its copy lives as long as the owner that comes with it.
    pub fn copied(of: Ref<T>, version: T::Version, view: T::View) -> (Self, Owner<Copied<T>>) {
        let copy = Owner::new(Copied { of, version, view });
        (Self::Elsewhere(of, copy.reference()), copy)
    }

    /// The object itself.
    pub fn object(self) -> Ref<T> {
        match self {
            Self::Here(object) | Self::Elsewhere(object, _) => object,
        }
    }

    /// Reads the object in a version: where it is, or in the copy. Waits if the copy has another version.
    ///
    /// # Errors
    /// [`ObjectError`], if the object is gone.
    pub async fn read<R: Send + 'static>(
        self,
        threads: Threads,
        version: T::Version,
        what: impl Fn(&T::View) -> R + Send + Sync + 'static,
    ) -> Result<R, ObjectError> {
        call(threads, async move {
            match self {
                Self::Here(object) => object.with(|object| what(object.at(version))).await,
                Self::Elsewhere(_, copy) => loop {
                    let is_it = |copy: &Copied<T>| (copy.version == version).then(|| what(&copy.view));
                    if let Some(found) = copy.with(is_it).await? {
                        return Ok(found);
                    }
                    copy.with_mut_async(async move |copy: &mut Copied<T>| copy.fetch(version).await)
                        .await??;
                },
            }
        })
        .await
    }
}
