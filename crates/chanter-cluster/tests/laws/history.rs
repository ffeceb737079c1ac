//! What happened in a run, as its threads saw it, held against the laws of delivery.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex};

use chanter::prelude::*;
use chanter_cluster::engine::ProcessId;
use chanter_cluster::{ANY_TAG, Inbox, Received, RecvError, Returned, SendError, Source, ThreadName};

/// What each message says: whom it is for, and the how-manieth it is of its sender.
pub(crate) type Message = (ThreadName, u32);

#[derive(Clone, Debug)]
enum Happened {
    /// A send has committed.
    Sent {
        from: ThreadName,
        to: ThreadName,
        tag: u32,
        number: u32,
    },
    /// A send has ended with an error.
    Refused {
        from: ThreadName,
        to: ThreadName,
        number: u32,
    },
    Received {
        by: ThreadName,
        from: ThreadName,
        tag: u32,
        message: Message,
    },
    /// A thread was told that a process has gone.
    Lost {
        by: ThreadName,
        process: ProcessId,
    },
    Returned {
        from: ThreadName,
        process: ProcessId,
        returned: Returned,
    },
}

/// A law that was broken, and how.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Broken {
    pub(crate) law: &'static str,
    pub(crate) what: String,
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is broken: {}", self.law, self.what)
    }
}

impl std::error::Error for Broken {}

macro_rules! holds {
    ($condition:expr, $law:literal, $($what:tt)+) => {
        if !$condition {
            return Err(Broken { law: $law, what: format!($($what)+) });
        }
    };
}

/// A record. Clones are the same one.
#[derive(Clone, Default)]
pub(crate) struct History(Arc<Mutex<Vec<Happened>>>);

impl History {
    fn push(&self, happened: Happened) {
        self.0.lock().unwrap().push(happened);
    }

    /// Sends a message with a number.
    pub(crate) async fn send(
        &self,
        inbox: &Inbox,
        to: ThreadName,
        tag: u32,
        number: u32,
    ) -> Result<(), SendError> {
        let sent = inbox.send(to, tag, &(to, number)).await;
        let from = inbox.name();
        self.push(match sent {
            Ok(()) => Happened::Sent { from, to, tag, number },
            Err(_) => Happened::Refused { from, to, number },
        });
        sent
    }

    /// The event of receiving a message, of any tag.
    pub(crate) fn recv(
        &self,
        inbox: &Inbox,
        from: Source,
    ) -> impl Event<Output = Result<Received<Message>, RecvError>> + use<> {
        let (history, by) = (self.clone(), inbox.name());
        inbox.recv::<Message>(from, ANY_TAG).wrap(move |got| {
            match &got {
                Ok(got) => {
                    let Received { from, tag, value: message } = *got;
                    history.push(Happened::Received { by, from, tag, message });
                }
                Err(RecvError::Lost(process, _)) => history.push(Happened::Lost { by, process: *process }),
                Err(error) => panic!("{error}"),
            }
            got
        })
    }

    /// Waits for the end of a process.
    pub(crate) async fn returned(&self, inbox: &Inbox, process: u32) -> Returned {
        let returned = inbox.returned(process).await;
        let record = returned.clone();
        self.push(Happened::Returned { from: inbox.name(), process: ProcessId(process), returned: record });
        returned
    }

    /// Holds what happened against D1, D2, D3 and D5. `dead`: the processes that were killed, or have left early. All
    /// others must have received everything.
    pub(crate) fn check(&self, dead: &[u32]) -> Result<(), Broken> {
        let all = self.0.lock().unwrap().clone();
        let lives = |name: &ThreadName| !dead.contains(&name.process.0);
        let (mut sent, mut received) = (BTreeMap::new(), BTreeMap::new());
        let mut told = BTreeSet::new();
        for happened in &all {
            match happened {
                Happened::Sent { from, to, tag, number } => {
                    sent.entry((*from, *to, *tag)).or_insert_with(Vec::new).push(*number);
                }
                Happened::Received { by, from, tag, message: (to, number) } => {
                    holds!(by == to, "D5", "{by} has received what was for {to}");
                    let is_late = told.contains(&(*by, from.process));
                    holds!(!is_late, "D3", "{by} has received from {from} after its end");
                    received.entry((*from, *by, *tag)).or_insert_with(Vec::new).push(*number);
                }
                Happened::Lost { by, process } => drop(told.insert((*by, *process))),
                Happened::Refused { .. } | Happened::Returned { .. } => (),
            }
        }
        for (way @ (from, to, _), got) in &received {
            // Committed by a process that is dead, it may have no record of it.
            let nothing = Vec::new();
            let sent = sent.get(way).unwrap_or(&nothing);
            let is_prefix = sent.starts_with(got) || (!lives(from) && got.starts_with(sent));
            let law = if lives(from) && lives(to) { "D1" } else { "D3" };
            let what = || format!("{to} has received {got:?} of {sent:?} from {from}");
            if !is_prefix {
                return Err(Broken { law, what: what() });
            }
        }
        for (way @ (from, to, _), sent) in &sent {
            let got = received.get(way).map_or(0, Vec::len);
            let is_done = got == sent.len() || !lives(from) || !lives(to);
            holds!(is_done, "D1", "{to} has received {got} of {sent:?} from {from}");
        }
        all.iter().try_for_each(|happened| match happened {
            Happened::Returned { from, process, returned } => Self::account(&all, *from, *process, returned),
            _ => Ok(()),
        })
    }

    /// D2: of what a thread has sent to a process that has gone.
    fn account(
        all: &[Happened],
        sender: ThreadName,
        process: ProcessId,
        returned: &Returned,
    ) -> Result<(), Broken> {
        let mut sent = Vec::new();
        let mut refused = Vec::new();
        let mut received = BTreeSet::new();
        for happened in all {
            match *happened {
                Happened::Sent { from, to, tag, number } if from == sender && to.process == process => {
                    sent.push((to, tag, number));
                }
                Happened::Refused { from, to, number } if from == sender && to.process == process => {
                    refused.push(number);
                }
                Happened::Received { by, from, message: (_, number), .. }
                    if from == sender && by.process == process =>
                {
                    received.insert(number);
                }
                _ => (),
            }
        }
        let (unknown, unsent) = (returned.unknown.len(), returned.unsent.len());
        let known = sent.len().checked_sub(unknown + unsent);
        let Some(taken) = known else {
            let what = format!("{returned:?} is more than {sender} has sent: {sent:?}");
            return Err(Broken { law: "D2", what });
        };
        let of_unknown = returned.unknown.iter().map(|message| (message.to, message.tag));
        let is_named = of_unknown.eq(sent[taken..][..unknown].iter().map(|(to, tag, _)| (*to, *tag)));
        holds!(is_named, "D2", "{returned:?} are not the last of {sent:?}");
        let of_unsent = returned.unsent.iter().map(|message| {
            let (to, number) = message.value::<Message>().expect("what was sent");
            assert_eq!((message.from, message.to), (sender, to));
            (to, message.tag, number)
        });
        let is_whole = of_unsent.eq(sent[taken + unknown..].iter().copied());
        holds!(is_whole, "D2", "{returned:?} are not the last of {sent:?}");
        for (place, (.., number)) in sent.iter().enumerate() {
            let has_come = received.contains(number);
            holds!(has_come || place >= taken, "D2", "{number} was taken, and has not come");
            holds!(!has_come || place < taken + unknown, "D2", "{number} was given back, and has come");
        }
        let came = refused.iter().find(|number| received.contains(number));
        holds!(came.is_none(), "D2", "{came:?} was refused, and has come");
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use chanter_cluster::engine::{NodeId, Why};
    use chanter_cluster::wire::Slot;

    fn name(process: u32, generation: u32) -> ThreadName {
        ThreadName { pe: NodeId(0), process: ProcessId(process), thread: Slot { index: 0, generation } }
    }

    fn sent(number: u32) -> Happened {
        Happened::Sent { from: name(0, 1), to: name(1, 1), tag: 0, number }
    }

    fn received(number: u32) -> Happened {
        Happened::Received { by: name(1, 1), from: name(0, 1), tag: 0, message: (name(1, 1), number) }
    }

    fn check(all: &[Happened], dead: &[u32]) -> Option<&'static str> {
        History(Arc::new(Mutex::new(all.to_vec()))).check(dead).err().map(|broken| broken.law)
    }

    #[test]
    fn a_history_that_keeps_the_laws_passes() {
        assert_eq!(check(&[received(0), sent(0), sent(1), received(1)], &[]), None);
        assert_eq!(check(&[sent(0), sent(1), received(0)], &[1]), None);
        let lost = Happened::Lost { by: name(1, 1), process: ProcessId(0) };
        assert_eq!(check(&[sent(0), sent(1), received(0), lost], &[0]), None);
    }

    #[test]
    fn a_history_that_breaks_a_law_is_told_by_it() {
        assert_eq!(check(&[sent(0), sent(1), received(0)], &[]), Some("D1"), "lost");
        assert_eq!(check(&[sent(0), received(0), received(0)], &[]), Some("D1"), "twice");
        assert_eq!(check(&[sent(0), sent(1), received(1), received(0)], &[]), Some("D1"), "out of order");
        assert_eq!(check(&[sent(0), sent(1), received(1)], &[0]), Some("D3"), "no prefix");
        let lost = Happened::Lost { by: name(1, 1), process: ProcessId(0) };
        assert_eq!(check(&[sent(0), lost, received(0)], &[0]), Some("D3"), "after the end");
        let Happened::Received { from, tag, message, .. } = received(0) else { unreachable!() };
        let other = Happened::Received { by: name(1, 2), from, tag, message };
        assert_eq!(check(&[sent(0), other], &[]), Some("D5"));
    }

    /// Accounts come from real runs only: one is bent here.
    #[chanter::test]
    async fn an_account_that_is_wrong_is_told() {
        let mut engines = chanter_cluster::engine::Local::cluster(2);
        let (dead, alive) = (engines.pop().unwrap(), chanter_cluster::Process::start(engines.pop().unwrap()));
        let (inbox, history) = (alive.inbox().unwrap(), History::default());
        let to = ThreadName { process: ProcessId(1), ..inbox.name() };
        for number in 0..2 {
            history.send(&inbox, to, 0, number).await.unwrap();
        }
        dead.kill();
        let returned = history.returned(&inbox, 1).await;
        assert_eq!((returned.why, returned.unknown.len()), (Why::Died, 2));
        assert_eq!(history.check(&[1]), Ok(()));
        let sent = |from: ThreadName, number| Happened::Sent { from, to, tag: 0, number };
        let bent = |change: fn(&mut Vec<Happened>)| {
            let mut all = vec![sent(inbox.name(), 0), sent(inbox.name(), 1)];
            let (from, returned) = (inbox.name(), returned.clone());
            all.push(Happened::Returned { from, process: ProcessId(1), returned });
            change(&mut all);
            check(&all, &[1])
        };
        assert_eq!(bent(|_| ()), None);
        assert_eq!(bent(|all| drop(all.remove(0))), Some("D2"), "more than was sent");
        let fewer = |all: &mut Vec<Happened>| {
            let Some(Happened::Returned { returned, .. }) = all.last_mut() else { unreachable!() };
            returned.unknown.pop();
        };
        assert_eq!(bent(fewer), Some("D2"), "taken, and has not come");
        let other_tag = |all: &mut Vec<Happened>| {
            let Some(Happened::Returned { returned, .. }) = all.last_mut() else { unreachable!() };
            returned.unknown[0].tag = 9;
        };
        assert_eq!(bent(other_tag), Some("D2"), "another message");
    }
}
