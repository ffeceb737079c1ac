//! How large a program's input is, and how its threads are made.

use std::fmt;

/// How much work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Size {
    /// Milliseconds: for tests, and to see that all is well.
    Quick,
    /// As in the paper.
    Paper,
    /// As in the paper, and each thread has about as many processor cycles of work as there: STING's programs, on
    /// processors of 33 MHz, have 40,000 for each thread. Other programs are as at `Paper`.
    Grain,
}

/// How a program's work is divided among threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Form {
    /// No threads, and the best algorithm for them: the yardstick.
    Serial,
    /// No threads, and the algorithm that the threads divide among them. Only programs whose best serial algorithm is
    /// another one have this form.
    SerialSame,
    /// Hosts that communicate synchronously (the papers' programs without parasites).
    Synchronous,
    /// Asynchronous communication and implicit threads, made of hosts.
    AsynchronousHosts,
    /// The same, made of parasites. A message is left in its channel (`Sender::asend`).
    AsynchronousParasites,
    /// The same, as in the paper: a parasite of its own sends each message. It blocks, is reified, and is attached by
    /// the receiver.
    PaperParasites,
    /// Threads that are stolen by the demander of their value (STING's futures).
    Stolen,
    /// The same as fibers, which are scheduled: STING's threads have stacks.
    Fibers,
    /// Halves of a computation that a processor without work may take (`fork_join`).
    Forked,
    /// Methods of objects that are called through references (Concert's programs).
    Objects,
    /// No threads of Chanter's: loops that rayon divides among as many OS threads.
    Rayon,
    /// No threads of Chanter's: the same messages between as many OS threads, written by hand with the standard
    /// library. It shows what a second core can give at the grain of the program.
    ByHand,
}

impl Form {
    /// All of them.
    pub const ALL: [Self; 12] = [
        Self::Serial,
        Self::SerialSame,
        Self::Synchronous,
        Self::AsynchronousHosts,
        Self::AsynchronousParasites,
        Self::PaperParasites,
        Self::Stolen,
        Self::Fibers,
        Self::Forked,
        Self::Objects,
        Self::Rayon,
        Self::ByHand,
    ];

    /// The forms of a program whose best serial algorithm is the one that its threads divide.
    pub const WITHOUT_SAME: [Self; 7] = [
        Self::Serial,
        Self::Synchronous,
        Self::AsynchronousHosts,
        Self::AsynchronousParasites,
        Self::PaperParasites,
        Self::Stolen,
        Self::Forked,
    ];

    /// Whether it has no threads.
    pub const fn is_serial(self) -> bool {
        matches!(self, Self::Serial | Self::SerialSame)
    }

    /// Whether it runs on Chanter's threads.
    pub const fn has_threads(self) -> bool {
        !self.is_serial() && !matches!(self, Self::Rayon | Self::ByHand)
    }

    /// Its name on the command line and in records.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Serial => "serial",
            Self::SerialSame => "serial-same",
            Self::Synchronous => "sync-hosts",
            Self::AsynchronousHosts => "async-hosts",
            Self::AsynchronousParasites => "async-parasites",
            Self::PaperParasites => "paper-parasites",
            Self::Stolen => "stolen",
            Self::Fibers => "fibers",
            Self::Forked => "forked",
            Self::Objects => "objects",
            Self::Rayon => "rayon",
            Self::ByHand => "by-hand",
        }
    }
}

impl fmt::Display for Form {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
