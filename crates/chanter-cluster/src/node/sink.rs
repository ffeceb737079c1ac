//! Arriving frames.

use std::sync::atomic::Ordering;

use super::parts::OutOfPlace;
use super::{LONGEST_NAME, Node};
use crate::engine::{Change, Lane, ProcessId, Sink, Why};
use crate::error::{LookupError, SendError};
use crate::inbox::Core;
use crate::lock::lock;
use crate::name::{Asker, ThreadName};
use crate::port::PortMessage;
use crate::wire::{Body, CARRIES, Control, Header, Kind, LENGTH, Slot, WITHDRAWN};

impl Sink for &Node {
    fn arrived(&mut self, from: ProcessId, lane: Lane, frame: Body) {
        if self.is_understood(from, lane, frame).is_none() {
            self.peers.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn peer(&mut self, peer: ProcessId, change: Change) {
        match change {
            Change::Awaited(pe) => self.add(peer, pe),
            Change::Up => self.has_joined(peer),
            Change::Down(why) => self.lose(peer, why),
            Change::Suspect | Change::Well => {}
        }
    }
}

/// The header of a frame, if the frame is whole and names its true sender.
#[inline(always)]
fn whole_header(from: ProcessId, frame: &Body) -> Option<Header> {
    let header = Header::decode(frame.frame(), u32::MAX).ok()?;
    let is_whole = frame.frame().len() - LENGTH == header.length as usize;
    (header.process == from.0 && is_whole).then_some(header)
}

impl Node {
    /// Handles a frame. `None`: it was malformed, or had no receiver. The sender of a frame that breaks the rules is
    /// told and given up.
    fn is_understood(&self, from: ProcessId, lane: Lane, mut frame: Body) -> Option<()> {
        let link = self.peers.links.get(from)?;
        let Some(header) = whole_header(from, &frame) else { return self.refuse(from) };
        // ORDER: Relaxed: mostly the engine has told of it inside a poll, and this poll is ordered after that one.
        if link.is_down.load(Ordering::Relaxed) {
            // The engine may not know that the process was given up, and that process may not have heard it. (If either
            // has left, there is nothing to say.)
            if header.kind != Kind::GivenUp && link.state.lock().down != Some(Why::Left) {
                self.say_given_up(from);
            }
            return None;
        }
        if header.flags & CARRIES != 0 && self.unpack(from, &mut frame).is_none() {
            return self.refuse(from);
        }
        match header.kind {
            Kind::Message => {
                // A message with wrong credit is delivered nevertheless.
                let credit = (header.credit > 0).then(|| {
                    let (taken, bytes) =
                        ((header.request >> 32) as u32, header.request & u64::from(u32::MAX));
                    self.hear_credit(from, &header, taken, bytes)
                });
                // ORDER: Relaxed, and no atomic addition: an engine delivers from one poll at a time, each ordered
                // after the last.
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
                    lock(&self.names.registry).withdraw(name, asker);
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
            Kind::Part => self.is_part(from, lane, &header, &frame),
            // A kind of engines.
            Kind::Leave => None,
        }
    }

    /// Handles a part of a frame, and the frame if the part is its last.
    #[cold]
    fn is_part(&self, from: ProcessId, lane: Lane, header: &Header, part: &Body) -> Option<()> {
        let added = self.peers.links.get(from)?.parts.lock().add(self.engine.longest(), lane, header, part);
        match added {
            Ok(None) => Some(()),
            Ok(Some(whole)) => self.is_understood(from, lane, whole),
            Err(OutOfPlace) => self.refuse(from),
        }
    }

    /// Refuses a frame whose sender breaks the rules. No more frames are taken from that process, and both sides
    /// know.
    #[cold]
    fn refuse(&self, from: ProcessId) -> Option<()> {
        // Frames that arrive before the engine reports the process down would follow a missing one, so they are
        // dropped.
        // ORDER: Relaxed: mostly the engine has told of it inside a poll, and this poll is ordered after that one.
        self.peers.links.get(from).inspect(|link| link.is_down.store(true, Ordering::Relaxed));
        self.give_up_on(from);
        None
    }

    /// Takes credit: an inbox of `from` has received messages, and the process has taken `taken` in all. `None`: the
    /// credit is more than was sent.
    fn hear_credit(&self, from: ProcessId, header: &Header, taken: u32, bytes: u64) -> Option<()> {
        self.are_taken(from, taken);
        self.is_earned(from, header.credit.into(), bytes)?;
        // The window may be missing: closed ones are forgotten if there are many. The frame's other contents hold
        // nevertheless.
        let window = self.peers.windows.lock().get(&self.name(from, header.from));
        window.inspect(|window| window.give_back(header.credit.into(), bytes));
        Some(())
    }
}
