//! `select!`: a choice whose branches have code of their own.

/// Waits for one of several events, of any types, and runs its arm.
///
/// ```
/// # use chanter::prelude::*;
/// # use std::time::Duration;
/// # async fn serve(rx: Receiver<u32>, tx: Sender<u32>, stop: Receiver<()>) -> u32 {
/// let mut sum = 0;
/// loop {
///     select! {
///         Ok(number) = rx.recv() => sum += number,
///             else Err(Closed) => break,
///         sent = tx.send(sum), if sum > 100 => {
///             if sent.is_err() { return sum }
///             yield_now().await;
///         }
///         _ = stop.recv() => break,
///         _ = after(Duration::from_secs(5)) => println!("still here"),
///     }
/// }
/// sum
/// # }
/// # chanter::block_on(async {
/// # let (tx, rx) = mailbox();
/// # let (out, got) = mailbox();
/// # let (_stop, stopped) = channel();
/// # (1..=4).for_each(|n| tx.try_send(n).unwrap());
/// # drop(tx);
/// # assert_eq!(serve(rx, out, stopped).await, 10);
/// # });
/// ```
///
/// # Arms
///
/// * `pattern = event => body`. The event is any [`Event`](crate::Event): sends
///   and receives, timers, joins, choices. The body runs after the commit, in
///   the caller's own function: it may `.await`, use `?`, `return`, `break`. All
///   bodies have one type, the value of the whole.
/// * `pattern = event, if condition => body`. Without the condition the event is
///   not even made.
/// * `default => body`, last: nothing can commit now. `default(duration) =>
///   body`: nothing could for so long.
/// * Up to 12 arms with an event.
///
/// # Patterns
///
/// The pattern is matched after the commit, when the message has been taken: an
/// arm cannot "go on waiting" because it did not like it. So a pattern either
/// matches always (the compiler checks it), or it says what else:
///
/// * `else pattern => body` after an arm: what that one got, and did not match.
///   Nothing is lost: `else other => ..` has the whole of it.
/// * `else => body`, after all arms: for any of them; what did not match has
///   been dropped, as in `let .. else`.
///
/// What may not match, and says nothing, does not compile:
///
/// ```compile_fail,E0004
/// # use chanter::prelude::*;
/// # let (_tx, rx) = channel::<u32>();
/// select! { blocking; Ok(number) = rx.recv() => drop(number) }
/// ```
///
/// # Order
///
/// Fair, as [`choose`](crate::choose), or in order after a first word
/// `biased;`, as [`choose_biased`](crate::choose_biased). With the first word
/// `blocking;` it waits with `sync_blocking` instead of `.await`, for code that
/// is not `async`.
///
/// Law: it is `choose((a.wrap(First), b.wrap(Second), ..)).await`, and a
/// `match` over that. So the losers never happened, and dropping it while it
/// waits loses nothing.
///
/// # For those who come from elsewhere
///
/// * From Tokio: no arm need be "cancel safe", because losing an event loses
///   nothing. A plain future is no event: wrap it with
///   [`from_future`](crate::event::from_future),
///   [`resumable`](crate::event::resumable) or, if it is cancel safe,
///   [`from_cancel_safe`](crate::event::from_cancel_safe). An arm whose pattern does
///   not match is not "disabled": see above.
///   ```compile_fail,E0277
///   # use chanter::prelude::*;
///   select! { blocking; () = async {} => () }
///   ```
/// * From crossbeam: `recv(rx) -> msg => ..` is `msg = rx.recv() => ..`, and
///   `send(tx, v) -> res => ..` is `res = tx.send(v) => ..`; on OS threads say
///   `blocking;`. `default` is the same.
#[macro_export]
macro_rules! select {
    () => {
        ::core::compile_error!("`select!` needs an arm: `pattern = event => body`")
    };
    ($($input:tt)+) => {
        $crate::__select!(@flags [choose] [await] $($input)+)
    };
}

/// The steps of [`select!`]: flags, then one arm after another, then their
/// places in the choice, then the whole.
///
/// `@arms [how] [wait] [arms] [last arm] [else] [default] input`; an arm is
/// `[{pattern} {event} {condition} {body} [[{pattern} {body}] ..]]`, with the
/// `else`s of its own at the end.
#[doc(hidden)]
#[macro_export]
macro_rules! __select {
    // Flags.
    (@flags [$how:ident] [$wait:ident] biased; $($rest:tt)*) => {
        $crate::__select!(@flags [choose_biased] [$wait] $($rest)*)
    };
    (@flags [$how:ident] [$wait:ident] blocking; $($rest:tt)*) => {
        $crate::__select!(@flags [$how] [blocking] $($rest)*)
    };
    (@flags $how:tt $wait:tt $($rest:tt)*) => {
        $crate::__select!(@arms $how $wait [] [] [] [] $($rest)*)
    };

    // Nothing is left. The list begins with an empty arm: the one before the first.
    (@arms $how:tt $wait:tt $arms:tt [] $else:tt $default:tt) => {
        ::core::compile_error!("`select!` needs an arm with an event: `pattern = event => body`")
    };
    (@arms $how:tt $wait:tt [[] $($arms:tt)*] $last:tt $else:tt $default:tt) => {
        $crate::__select!(@places $how $wait $else $default [$($arms)* $last]
            [[A1 Arms1] [A2 Arms2] [A3 Arms3] [A4 Arms4] [A5 Arms5] [A6 Arms6]
            [A7 Arms7] [A8 Arms8] [A9 Arms9] [A10 Arms10] [A11 Arms11] [A12 Arms12]] [] None)
    };
    (@arms $how:tt $wait:tt [] $last:tt $else:tt $default:tt) => {
        $crate::__select!(@places $how $wait $else $default [$last] [[A1 Arms1]] [] None)
    };

    // `default`: the last.
    (@arms $how:tt $wait:tt $arms:tt $last:tt $else:tt [] default => $body:expr $(,)?) => {
        $crate::__select!(@arms $how $wait $arms $last $else [{} {$body}])
    };
    (@arms $how:tt $wait:tt $arms:tt $last:tt $else:tt [] default ($for:expr) => $body:expr $(,)?) => {
        $crate::__select!(@arms $how $wait $arms $last $else [{$for} {$body}])
    };
    (@arms $how:tt $wait:tt $arms:tt $last:tt $else:tt $default:tt default $($rest:tt)*) => {
        ::core::compile_error!(
            "`default => body` or `default(duration) => body` is the last arm of `select!`"
        )
    };

    // `else` for all.
    (@arms $how:tt $wait:tt $arms:tt $last:tt [] [] else => $body:block , $($rest:tt)*) => {
        $crate::__select!(@arms $how $wait $arms $last [{$body}] [] $($rest)*)
    };
    (@arms $how:tt $wait:tt $arms:tt $last:tt [] [] else => $body:block $($rest:tt)*) => {
        $crate::__select!(@arms $how $wait $arms $last [{$body}] [] $($rest)*)
    };
    (@arms $how:tt $wait:tt $arms:tt $last:tt [] [] else => $body:expr , $($rest:tt)*) => {
        $crate::__select!(@arms $how $wait $arms $last [{$body}] [] $($rest)*)
    };
    (@arms $how:tt $wait:tt $arms:tt $last:tt [] [] else => $body:expr) => {
        $crate::__select!(@arms $how $wait $arms $last [{$body}] [])
    };
    (@arms $how:tt $wait:tt $arms:tt $last:tt [$($else:tt)+] $default:tt else => $($rest:tt)*) => {
        ::core::compile_error!("`select!` has one `else => body` for all arms")
    };

    // `else` for the arm before.
    (@arms $how:tt $wait:tt $arms:tt
        [$pattern:tt $event:tt $if:tt $then:tt [$($others:tt)*]] $else:tt []
        else $other:pat => $body:block , $($rest:tt)*) => {
        $crate::__select!(@arms $how $wait $arms
            [$pattern $event $if $then [$($others)* [{$other} {$body}]]] $else [] $($rest)*)
    };
    (@arms $how:tt $wait:tt $arms:tt
        [$pattern:tt $event:tt $if:tt $then:tt [$($others:tt)*]] $else:tt []
        else $other:pat => $body:block $($rest:tt)*) => {
        $crate::__select!(@arms $how $wait $arms
            [$pattern $event $if $then [$($others)* [{$other} {$body}]]] $else [] $($rest)*)
    };
    (@arms $how:tt $wait:tt $arms:tt
        [$pattern:tt $event:tt $if:tt $then:tt [$($others:tt)*]] $else:tt []
        else $other:pat => $body:expr , $($rest:tt)*) => {
        $crate::__select!(@arms $how $wait $arms
            [$pattern $event $if $then [$($others)* [{$other} {$body}]]] $else [] $($rest)*)
    };
    (@arms $how:tt $wait:tt $arms:tt
        [$pattern:tt $event:tt $if:tt $then:tt [$($others:tt)*]] $else:tt []
        else $other:pat => $body:expr) => {
        $crate::__select!(@arms $how $wait $arms
            [$pattern $event $if $then [$($others)* [{$other} {$body}]]] $else [])
    };
    (@arms $how:tt $wait:tt $arms:tt $last:tt $else:tt $default:tt else $($rest:tt)*) => {
        ::core::compile_error!(
            "`else` follows an arm of `select!`: `else pattern => body` or `else => body`"
        )
    };

    // An arm.
    (@arms $how:tt $wait:tt [$($arms:tt)*] $last:tt $else:tt []
        $pattern:pat = $event:expr $(, if $if:expr)? => $body:block , $($rest:tt)*) => {
        $crate::__select!(@arms $how $wait [$($arms)* $last]
            [{$pattern} {$event} {$($if)?} {$body} []] $else [] $($rest)*)
    };
    (@arms $how:tt $wait:tt [$($arms:tt)*] $last:tt $else:tt []
        $pattern:pat = $event:expr $(, if $if:expr)? => $body:block $($rest:tt)*) => {
        $crate::__select!(@arms $how $wait [$($arms)* $last]
            [{$pattern} {$event} {$($if)?} {$body} []] $else [] $($rest)*)
    };
    (@arms $how:tt $wait:tt [$($arms:tt)*] $last:tt $else:tt []
        $pattern:pat = $event:expr $(, if $if:expr)? => $body:expr , $($rest:tt)*) => {
        $crate::__select!(@arms $how $wait [$($arms)* $last]
            [{$pattern} {$event} {$($if)?} {$body} []] $else [] $($rest)*)
    };
    (@arms $how:tt $wait:tt [$($arms:tt)*] $last:tt $else:tt []
        $pattern:pat = $event:expr $(, if $if:expr)? => $body:expr) => {
        $crate::__select!(@arms $how $wait [$($arms)* $last]
            [{$pattern} {$event} {$($if)?} {$body} []] $else [])
    };
    (@arms $how:tt $wait:tt $arms:tt $last:tt $else:tt $default:tt $($rest:tt)+) => {
        ::core::compile_error!(
            "an arm of `select!` is `pattern = event => body` or `pattern = event, if condition => body`"
        )
    };

    // Each arm gets its place.
    (@places $how:tt $wait:tt $else:tt $default:tt [$arm:tt $($arms:tt)*] [[$place:ident $name:ident] $($places:tt)*]
        [$($placed:tt)*] $last:ident) => {
        $crate::__select!(@places $how $wait $else $default [$($arms)*] [$($places)*]
            [$($placed)* [$place $arm]] $name)
    };
    (@places $how:tt $wait:tt $else:tt $default:tt [] $places:tt [$($placed:tt)*] $name:ident) => {
        $crate::__select!(@whole $how $wait $else $default $name $($placed)*)
    };
    (@places $how:tt $wait:tt $else:tt $default:tt [$($arms:tt)+] [] $placed:tt $name:ident) => {
        ::core::compile_error!("`select!` has at most 12 arms: use `choose` over a vector for more")
    };

    // The whole. The events are gone before a body runs. Its braces may be doubled.
    (@whole [$how:ident] $wait:tt [$($else:tt)?] [] $name:ident
        $([$place:ident [{$pattern:pat} $event:tt $if:tt $body:tt [$([{$other:pat} $then:tt])*]]])+) => {
        {
        let chosen = $crate::__select!(@wait $wait $crate::$how((
            $($crate::Event::wrap($crate::__select!(@event $event $if), $crate::__arms::$name::$place),)+
        )));
        match chosen {
            $(
                #[allow(unused_braces)]
                $crate::__arms::$name::$place($pattern) => $body
                $(#[allow(unused_braces)] $crate::__arms::$name::$place($other) => $then)*
            )+
            $(#[allow(unused_braces)] _ => $else)?
        }
        }
    };
    (@whole [$how:ident] $wait:tt [$($else:tt)?] [$for:tt $default:tt] $name:ident
        $([$place:ident [{$pattern:pat} $event:tt $if:tt $body:tt [$([{$other:pat} $then:tt])*]]])+) => {
        {
        let chosen = $crate::__select!(@wait_for $for $wait $crate::$how((
            $($crate::Event::wrap($crate::__select!(@event $event $if), $crate::__arms::$name::$place),)+
        )));
        match chosen {
            $(
                #[allow(unused_braces)]
                ::core::option::Option::Some($crate::__arms::$name::$place($pattern)) => $body
                $(#[allow(unused_braces)] ::core::option::Option::Some($crate::__arms::$name::$place($other)) => $then)*
            )+
            #[allow(unused_braces)]
            ::core::option::Option::None => $default
            $(#[allow(unused_braces)] _ => $else)?
        }
        }
    };

    (@event {$event:expr} {}) => { $event };
    (@event {$event:expr} {$if:expr}) => {
        $crate::event::optional(if $if { ::core::option::Option::Some($event) } else { ::core::option::Option::None })
    };

    (@wait [await] $choice:expr) => { $choice.await };
    (@wait [blocking] $choice:expr) => { $crate::Event::sync_blocking($choice) };
    (@wait_for {} $wait:tt $choice:expr) => { $crate::Event::try_sync($choice) };
    (@wait_for {$for:expr} $wait:tt $choice:expr) => {
        $crate::__select!(@wait $wait $crate::Event::by($choice, $crate::__arms::deadline($for)))
    };
}

/// What [`select!`] chooses among.
#[allow(missing_docs, missing_debug_implementations, reason = "the macro's own")]
pub mod arms {
    use std::time::{Duration, Instant};

    macro_rules! arms {
        ($($name:ident $($place:ident)+;)*) => {
            $(pub enum $name<$($place),+> { $($place($place)),+ })*
        };
    }

    arms! {
        Arms1 A1;
        Arms2 A1 A2;
        Arms3 A1 A2 A3;
        Arms4 A1 A2 A3 A4;
        Arms5 A1 A2 A3 A4 A5;
        Arms6 A1 A2 A3 A4 A5 A6;
        Arms7 A1 A2 A3 A4 A5 A6 A7;
        Arms8 A1 A2 A3 A4 A5 A6 A7 A8;
        Arms9 A1 A2 A3 A4 A5 A6 A7 A8 A9;
        Arms10 A1 A2 A3 A4 A5 A6 A7 A8 A9 A10;
        Arms11 A1 A2 A3 A4 A5 A6 A7 A8 A9 A10 A11;
        Arms12 A1 A2 A3 A4 A5 A6 A7 A8 A9 A10 A11 A12;
    }

    /// A moment `duration` from now; in a century, if that cannot be said.
    pub fn deadline(duration: Duration) -> Instant {
        let now = crate::now();
        now.checked_add(duration).unwrap_or_else(|| now + Duration::from_secs(100 * 365 * 24 * 3600))
    }
}
