//! What arrives.

use std::sync::atomic::Ordering;

use super::{LONGEST_NAME, Node, lock};
use crate::engine::{Change, Lane, ProcessId, Sink, Why};
use crate::error::{LookupError, SendError};
use crate::inbox::Core;
use crate::name::{Asker, ThreadName};
use crate::port::PortMessage;
use crate::wire::{Body, CARRIES, Control, Header, Kind, LENGTH, Slot, WITHDRAWN};

impl Sink for &Node {
    fn arrived(&mut self, from: ProcessId, _lane: Lane, frame: Body) {
        if self.is_understood(from, frame).is_none() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn peer(&mut self, peer: ProcessId, change: Change) {
        if let Change::Down(why) = change {
            self.lose(peer, why);
        }
    }
}

/// The header of a frame that is whole, and of who has sent it.
#[inline(always)]
fn whole_header(from: ProcessId, frame: &Body) -> Option<Header> {
    let header = Header::decode(frame.frame(), u32::MAX).ok()?;
    let is_whole = frame.frame().len() - LENGTH == header.length as usize;
    (header.process == from.0 && is_whole).then_some(header)
}

impl Node {
    /// `None`: it made no sense, or was for nobody. Its sender is told, if that may be a message that somebody has sent: it is given up.
    fn is_understood(&self, from: ProcessId, mut frame: Body) -> Option<()> {
        let link = self.links.get(from)?;
        let Some(header) = whole_header(from, &frame) else { return self.refuse(from) };
        // ORDER: Relaxed: see `lose`.
        if link.is_down.load(Ordering::Relaxed) {
            // The engine knows nothing of that, and the process perhaps has not heard it.
            if header.kind != Kind::GivenUp {
                self.say_given_up(from);
            }
            return None;
        }
        if header.flags & CARRIES != 0 && self.unpack(from, &mut frame).is_none() {
            return self.refuse(from);
        }
        match header.kind {
            Kind::Message => {
                // What is wrong with that is not the message's fault.
                let credit = (header.credit > 0).then(|| {
                    let (taken, bytes) =
                        ((header.request >> 32) as u32, header.request & u64::from(u32::MAX));
                    self.hear_credit(from, &header, taken, bytes)
                });
                // ORDER: Relaxed, and no addition at once: an engine hands over by one poll at a time, one after the other.
                link.taken.store(link.taken.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
                let sender = ThreadName { pe: link.pe, process: from, thread: header.from };
                let inbox = self.table.find(header.to).map(Core::of);
                let has_arrived = inbox.and_then(|inbox| inbox.arrive(sender, header.tag, frame));
                match has_arrived {
                    Some(true) => credit.unwrap_or(Some(())),
                    Some(false) => self.refuse(from),
                    None => {
                        self.tell_gone(from, header.to);
                        None
                    }
                }
            }
            Kind::Acknowledge => self.hear_credit(from, &header, header.tag, header.request),
            Kind::Gone => {
                self.are_taken(from, header.tag);
                let name = self.name(from, header.from);
                self.close_window(name, &SendError::Gone(name));
                Some(())
            }
            Kind::Lookup => {
                let name = std::str::from_utf8(&frame).ok().filter(|name| name.len() <= LONGEST_NAME)?;
                let asker = Asker { peer: from, request: header.request };
                if header.flags & WITHDRAWN == 0 {
                    self.look_up(asker, name);
                } else {
                    lock(&self.registry).withdraw(name, asker);
                }
                Some(())
            }
            Kind::Found => {
                let found = if header.from == Slot::default() {
                    Err(LookupError::Full)
                } else {
                    Ok(self.name(from, header.from))
                };
                self.is_answered(from, header.request, found);
                Some(())
            }
            Kind::Call
            | Kind::Post
            | Kind::Answer
            | Kind::Withdraw
            | Kind::Forward
            | Kind::Moved
            | Kind::Returned => self.take_in(from, Control::read(&header)?, frame),
            Kind::Hold | Kind::Held | Kind::Release | Kind::Unpacked | Kind::Confirm | Kind::Confirmed => {
                self.hear_word(from, PortMessage::read(&header)?);
                Some(())
            }
            Kind::GivenUp => {
                self.lose(from, Why::Unreachable);
                Some(())
            }
            // Of links and engines that are not there yet.
            Kind::Descriptor | Kind::Ready | Kind::Heartbeat | Kind::Leave => None,
        }
    }

    /// A frame cannot be taken, as its sender does not keep to the rules: nothing more is taken from it, and both sides know.
    #[cold]
    fn refuse(&self, from: ProcessId) -> Option<()> {
        // What comes before the engine says that it is down would come after what is missing.
        // ORDER: Relaxed: see `lose`.
        self.links.get(from).inspect(|link| link.is_down.store(true, Ordering::Relaxed));
        self.give_up_on(from);
        None
    }

    /// An inbox of `from` has received so much from here, and the process has taken so many messages. `None`: it has not.
    fn hear_credit(&self, from: ProcessId, header: &Header, taken: u32, bytes: u64) -> Option<()> {
        self.are_taken(from, taken);
        self.is_earned(from, header.credit.into(), bytes)?;
        // Windows that were closed are forgotten, if there are many. What else the frame says is true all the same.
        let window = self.windows.lock().get(&self.name(from, header.from));
        window.inspect(|window| window.give_back(header.credit.into(), bytes));
        Some(())
    }
}
