//! The rules, by the names that the paper gives them.

/// A rule of the machine.
///
/// (LocalEvaluation) of figure 8 is missing. It lifts a local transition to the global state, as
/// [`global::step`](crate::global::step) does with every local one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs, reason = "the names are the paper's; the rules are shown where they are applied")]
pub enum Rule {
    // Figure 7, control transitions.
    Constant,
    Variable,
    Closure,
    Application,
    Send,
    Receive,
    SpawnParasite,
    // Figure 7, return transitions.
    ThreadHalt,
    ParasiteHalt,
    Argument,
    Function,
    SendValue,
    SendBlock,
    ReceiveBlock,
    LocalCommunication,
    // Figure 8, global transitions.
    Channel,
    Spawn,
    MigrateLeft,
    MigrateRight,
    Inflate,
    // Extension: observations.
    Log,
    LogValue,
    // Extension: choice.
    Sync,
    EventValue,
    ChoiceBlock,
    ChooseAlways,
    // Extension: an unbound variable.
    Wrong,
}

impl Rule {
    /// All of them, in the order of the figures.
    pub const ALL: [Self; 27] = [
        Self::Constant,
        Self::Variable,
        Self::Closure,
        Self::Application,
        Self::Send,
        Self::Receive,
        Self::SpawnParasite,
        Self::ThreadHalt,
        Self::ParasiteHalt,
        Self::Argument,
        Self::Function,
        Self::SendValue,
        Self::SendBlock,
        Self::ReceiveBlock,
        Self::LocalCommunication,
        Self::Channel,
        Self::Spawn,
        Self::MigrateLeft,
        Self::MigrateRight,
        Self::Inflate,
        Self::Log,
        Self::LogValue,
        Self::Sync,
        Self::EventValue,
        Self::ChoiceBlock,
        Self::ChooseAlways,
        Self::Wrong,
    ];
}
