//! Switches of the mechanisms that must earn their place. `--cfg chanter_off="NAME"` turns one off.
//!
//! A switch is private, for measurements only: `chanter-bench ablate` builds with each one off and compares the times.
//! The library is correct with any of them off. Each constant is used where the mechanism decides, so the compiler
//! removes what is off. The names also stand in the workspace's `Cargo.toml`, and the results in
//! `docs/decisions/what-earns-its-place.md`.

/// A revoker asks the owner of a bias before it uses a heavy fence.
pub(crate) const CONSENT: bool = !cfg!(chanter_off = "consent");
/// The memory of channels that have ended is kept for the next ones.
pub(crate) const CHANNEL_BLOCKS: bool = !cfg!(chanter_off = "channel_blocks");
/// A small message that is the first to wait lies in the channel itself.
pub(crate) const INLINE_MESSAGE: bool = !cfg!(chanter_off = "inline_message");
/// An asynchronous send that waits is an offer without a thread. Without this, programs spawn a parasite that sends.
pub const DETACHED_ASEND: bool = !cfg!(chanter_off = "detached_asend");
/// The offers of a choice set stay in their queues from one synchronization to the next.
pub(crate) const KEPT_OFFERS: bool = !cfg!(chanter_off = "kept_offers");
/// A gathering of sends and receives counts them, and needs no threads.
pub(crate) const COUNTED_GATHER: bool = !cfg!(chanter_off = "counted_gather");
/// An object's gate may be biased to an OS thread.
pub(crate) const OBJECT_GATE: bool = !cfg!(chanter_off = "object_gate");
/// A delayed thread whose handle is awaited, and that nobody else knows, runs as a call.
pub(crate) const EVALUATE_ALONE: bool = !cfg!(chanter_off = "evaluate_alone");
/// A joiner takes a thread that has not run out of its queue.
pub(crate) const WITHDRAWAL: bool = !cfg!(chanter_off = "withdrawal");
/// A parasite that uses up its quantum has the next ones of its spawner start as hosts.
pub(crate) const PENALTY: bool = !cfg!(chanter_off = "penalty");
/// A parasite becomes a host when another processor has searched for a heartbeat.
pub(crate) const HEARTBEAT: bool = !cfg!(chanter_off = "heartbeat");
/// Several parasites become hosts if those of the last heartbeat were long. It needs [`HEARTBEAT`].
pub(crate) const SAMPLES: bool = !cfg!(chanter_off = "samples");
/// A worker spins before it parks.
pub(crate) const SPIN: bool = !cfg!(chanter_off = "spin");
/// The first thread that is given a message in a turn runs before the others of the run-next list.
pub(crate) const RUN_NEXT: bool = !cfg!(chanter_off = "run_next");
/// Only a thread that is given a message may run next. Without this, the first thread woken in a turn does.
pub(crate) const WAKE_PRIORITY: bool = !cfg!(chanter_off = "wake_priority");
/// A message in shared memory names the slot of the next one, which the receiver watches.
pub const NAMED_NEXT: bool = !cfg!(chanter_off = "named_next");
