//! `Owner`: the handle that decides how long an object lives.

use std::fmt;
use std::marker::PhantomData;

use crate::Ref;
#[cfg(feature = "cluster")]
use crate::place::Place;
#[cfg(feature = "cluster")]
use crate::remote::{Migrations, RemoteOwner};
use crate::slot::{self, Slot};

/// An object's owner. The object ends when this is dropped. Calls that have not begun then give
/// [`ObjectError`](crate::ObjectError). Calls that are inside go on to their end, and the last one drops the value,
/// where it is.
///
/// (Concert leaves this to a collector. There is none here, across processes least of all.)
pub struct Owner<T: Send + 'static> {
    what: What,
    of: PhantomData<T>,
}

/// The object that an owner owns.
enum What {
    /// An object that was born here, of that generation.
    Process(&'static Slot, u32),
    /// One that was born in another process.
    #[cfg(feature = "cluster")]
    There(RemoteOwner),
}

// SAFETY: through a shared owner there are references only.
unsafe impl<T: Send> Sync for Owner<T> {}

impl<T: Send + 'static> Owner<T> {
    /// Makes an object of a value.
    ///
    /// # Panics
    /// If there are four billion objects.
    pub fn new(value: T) -> Self {
        let (slot, generation) = slot::put(value);
        Self { what: What::Process(slot, generation), of: PhantomData }
    }

    #[cfg(feature = "cluster")]
    pub(crate) fn remote(owner: RemoteOwner) -> Self {
        Self { what: What::There(owner), of: PhantomData }
    }

    /// The object's name.
    #[doc(alias = "refer")]
    pub fn reference(&self) -> Ref<T> {
        match &self.what {
            What::Process(slot, generation) => Ref::new(slot, *generation),
            #[cfg(feature = "cluster")]
            What::There(owner) => {
                let place = Place { context: owner.context(), process: owner.process, slot: owner.slot };
                Ref::of_away(place, owner.generation).expect("who has a space has a place in words")
            }
        }
    }

    /// Whether a method that may write has panicked. False for an object in another process: only a call can tell
    /// there.
    pub fn is_poisoned(&self) -> bool {
        match &self.what {
            What::Process(slot, generation) => slot.is_poisoned(*generation),
            #[cfg(feature = "cluster")]
            What::There(_) => false,
        }
    }

    /// The object may be called again, as it is, after a method that may write has panicked. If it is in another
    /// process, this sends a message there.
    pub fn forgive(&self) {
        match &self.what {
            What::Process(slot, generation) => {
                #[cfg(feature = "cluster")]
                {
                    // The object does not move while the table is locked.
                    let table = Migrations::lock();
                    if let Some(owner) = table.get((slot::number_of(slot), *generation)) {
                        return owner.forgive();
                    }
                    slot.forgive(*generation);
                }
                #[cfg(not(feature = "cluster"))]
                slot.forgive(*generation);
            }
            #[cfg(feature = "cluster")]
            What::There(owner) => owner.forgive(),
        }
    }
}

impl<T: Send + 'static> Drop for Owner<T> {
    fn drop(&mut self) {
        match &self.what {
            What::Process(slot, generation) => {
                slot.end(*generation);
                #[cfg(feature = "cluster")]
                {
                    let elsewhere = Migrations::lock().remove((slot::number_of(slot), *generation));
                    drop(elsewhere);
                }
            }
            #[cfg(feature = "cluster")]
            What::There(_) => (),
        }
    }
}

impl<T: Send + 'static> fmt::Debug for Owner<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Owner({:?})", self.reference())
    }
}
