//! Calls: what `#[object]` expands to (Concert, section 3.1: the schemas of invocation).

use std::any::TypeId;
use std::marker::PhantomData;
use std::thread;

use crate::continuation::Lazy;
use crate::error::Gone;
use crate::gate::{Entered, Gate, Turn, Use};
use crate::object::{Ref, end};
use crate::table;

/// Inside of an object, until this is dropped.
struct Inside<T> {
    at: *mut T,
    gate: &'static Gate,
    slot: u32,
    how: Use,
    /// By a turn of the lock; else by a mark.
    turn: Option<Turn>,
    _object: PhantomData<T>,
}

// SAFETY: it is a borrow of the object, which is `Send` and `Sync`; and the guards of a turn may move with their thread.
unsafe impl<T: Send + Sync> Send for Inside<T> {}
// SAFETY: as above.
unsafe impl<T: Send + Sync> Sync for Inside<T> {}

impl<T> Drop for Inside<T> {
    #[inline]
    fn drop(&mut self) {
        let poisons = self.how == Use::Change && thread::panicking();
        let object = match self.turn.take() {
            None => self.gate.leave(self.how, poisons),
            turn => self.gate.quit(turn, poisons),
        };
        if object.is_some() {
            end(self.slot, object);
        }
    }
}

/// Lined up; not any more when it is dropped.
struct LinedUp {
    gate: &'static Gate,
    slot: u32,
}

impl Drop for LinedUp {
    fn drop(&mut self) {
        end(self.slot, self.gate.quit(None, false));
    }
}

/// Goes in at once, or says how to wait.
#[inline]
fn enter<T: 'static>(object: Ref<T>, how: Use) -> Result<Result<Inside<T>, LinedUp>, Gone> {
    let slot = object.slot();
    let gate = table::gate(slot).ok_or(Gone::Dropped)?;
    Ok(match gate.enter(object.generation(), TypeId::of::<T>(), how)? {
        Entered::Marked(at) => {
            Ok(Inside { at: at.cast(), gate, slot, how, turn: None, _object: PhantomData })
        }
        Entered::LinedUp => Err(LinedUp { gate, slot }),
    })
}

/// Waits for a turn.
async fn wait<T: 'static>(object: Ref<T>, lined_up: LinedUp, how: Use) -> Result<Inside<T>, Gone> {
    let turn = lined_up.gate.turn(how).await;
    let at = lined_up.gate.begin_turn(object.generation(), TypeId::of::<T>())?.cast();
    let LinedUp { gate, slot } = lined_up;
    std::mem::forget(lined_up);
    Ok(Inside { at, gate, slot, how, turn: Some(turn), _object: PhantomData })
}

/// A method that reads, and is a plain function (NB).
#[inline]
pub async fn read<T, R>(object: Ref<T>, method: impl FnOnce(&T) -> R) -> Result<R, Gone>
where
    T: Send + Sync + 'static,
{
    let inside = match enter(object, Use::Read)? {
        Ok(inside) => inside,
        Err(lined_up) => wait(object, lined_up, Use::Read).await?,
    };
    // SAFETY: whoever is inside to read may, beside others that read: INV-MARK.
    Ok(method(unsafe { &*inside.at }))
}

/// A method that changes, and is a plain function (NB).
#[inline]
pub async fn change<T, R>(object: Ref<T>, method: impl FnOnce(&mut T) -> R) -> Result<R, Gone>
where
    T: Send + Sync + 'static,
{
    let inside = match enter(object, Use::Change)? {
        Ok(inside) => inside,
        Err(lined_up) => wait(object, lined_up, Use::Change).await?,
    };
    // SAFETY: whoever is inside to change is alone: INV-MARK.
    Ok(method(unsafe { &mut *inside.at }))
}

/// A method that reads, and may block (MB): its future lies in the caller's.
#[inline]
pub async fn read_async<T, R>(object: Ref<T>, method: impl AsyncFnOnce(&T) -> R) -> Result<R, Gone>
where
    T: Send + Sync + 'static,
{
    let inside = match enter(object, Use::Read)? {
        Ok(inside) => inside,
        Err(lined_up) => wait(object, lined_up, Use::Read).await?,
    };
    // SAFETY: as in `read`. The method's future, which has the borrow, ends before `inside` does.
    Ok(method(unsafe { &*inside.at }).await)
}

/// A method that changes, and may block (MB).
#[inline]
pub async fn change_async<T, R>(object: Ref<T>, method: impl AsyncFnOnce(&mut T) -> R) -> Result<R, Gone>
where
    T: Send + Sync + 'static,
{
    let inside = match enter(object, Use::Change)? {
        Ok(inside) => inside,
        Err(lined_up) => wait(object, lined_up, Use::Change).await?,
    };
    // SAFETY: as in `change`, and `read_async`.
    Ok(method(unsafe { &mut *inside.at }).await)
}

/// A method that reads, and has its caller's continuation (CP). If its object is gone, the first caller is told.
#[inline]
pub async fn read_lazily<T, R>(object: Ref<T>, lazy: Lazy<'_, R>, method: impl AsyncFnOnce(&T, Lazy<'_, R>))
where
    T: Send + Sync + 'static,
{
    let inside = match enter(object, Use::Read) {
        Ok(Ok(inside)) => inside,
        Ok(Err(lined_up)) => match wait(object, lined_up, Use::Read).await {
            Ok(inside) => inside,
            Err(gone) => return lazy.fail(gone),
        },
        Err(gone) => return lazy.fail(gone),
    };
    // SAFETY: as in `read_async`.
    method(unsafe { &*inside.at }, lazy).await;
}

/// A method that changes, and has its caller's continuation (CP).
#[inline]
pub async fn change_lazily<T, R>(
    object: Ref<T>,
    lazy: Lazy<'_, R>,
    method: impl AsyncFnOnce(&mut T, Lazy<'_, R>),
) where
    T: Send + Sync + 'static,
{
    let inside = match enter(object, Use::Change) {
        Ok(Ok(inside)) => inside,
        Ok(Err(lined_up)) => match wait(object, lined_up, Use::Change).await {
            Ok(inside) => inside,
            Err(gone) => return lazy.fail(gone),
        },
        Err(gone) => return lazy.fail(gone),
    };
    // SAFETY: as in `change_async`.
    method(unsafe { &mut *inside.at }, lazy).await;
}
