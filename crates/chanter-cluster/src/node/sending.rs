//! Outgoing frames: messages to threads here and elsewhere, and all other frames to other processes.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use chanter::base::wake_first;
use serde::Serialize;

use super::backlog::WaitingFrame;
use super::{Link, MOST_ANSWERED, MOST_ANSWERS, Node, SendEvent, WindowRef};
use crate::engine::{Lane, ProcessId, Why};
use crate::error::SendError;
use crate::inbox::{Core, Credit, Home, Message};
use crate::name::ThreadName;
use crate::port::PortMessage;
use crate::wire::{Body, CARRIES, Contents, Control, Header, Kind, write};

impl Node {
    #[inline]
    pub(crate) fn send<T: Serialize + ?Sized>(
        self: &Arc<Self>,
        from: ThreadName,
        to: ThreadName,
        tag: u32,
        value: &T,
    ) -> SendEvent {
        let is_here = to.process == self.me;
        let window_ref = if is_here {
            let Some(window_ref) = self.table.find(to.thread) else {
                return SendEvent::bad(SendError::Gone(to));
            };
            window_ref
        } else {
            match self.window(to) {
                Ok(window_ref) => window_ref,
                Err(error) => return SendEvent::bad(error),
            }
        };
        let mut message = Message::new(window_ref, from, to, tag);
        match write(value, &mut message.written) {
            Err(error) => SendEvent::bad(SendError::Encode(error)),
            Ok(()) if is_here => SendEvent::new(message),
            Ok(()) => self.send_away(message),
        }
    }

    /// Sends a body that has been written already.
    pub(crate) fn send_body(
        self: &Arc<Self>,
        from: ThreadName,
        to: ThreadName,
        tag: u32,
        body: Body,
    ) -> SendEvent {
        let window_ref = match self.window_ref(to) {
            Ok(window_ref) => window_ref,
            Err(error) => return SendEvent::bad(error),
        };
        let message = Message::of_body(window_ref, from, to, tag, body);
        if to.process == self.me { SendEvent::new(message) } else { self.send_away(message) }
    }

    /// Sends a written message to another process.
    fn send_away(self: &Arc<Self>, mut message: Box<Message>) -> SendEvent {
        let (length, longest) = (message.written.length_away(), self.engine.longest());
        if length > longest as usize {
            return SendEvent::bad(SendError::TooLong { length, longest });
        }
        message.home = Some(Arc::clone(self) as Arc<dyn Home>);
        SendEvent::new(message)
    }

    /// The window of messages to `to`; for a thread of this process, its inbox's own.
    fn window_ref(&self, to: ThreadName) -> Result<WindowRef, SendError> {
        if to.process != self.me {
            return self.window(to);
        }
        self.table.find(to.thread).ok_or(SendError::Gone(to))
    }

    /// The window of messages from here to `to`, in another process.
    fn window(&self, to: ThreadName) -> Result<WindowRef, SendError> {
        if let Some(window) = self.peers.windows.lock().get(&to) {
            return Ok(window);
        }
        let Some(link) = self.peers.links.get(to.process) else {
            return Err(self.unknown(to.process));
        };
        let mut windows = self.peers.windows.lock();
        // ORDER: Relaxed: a process that goes is marked first. Then its windows are closed, under the lock that is held here.
        if !link.is_down.load(Ordering::Relaxed) {
            return Ok(windows.of(to));
        }
        drop(windows);
        Err(self.why_closed(to))
    }

    /// The error of a send to a process of which nothing is known here.
    #[cold]
    fn unknown(&self, to: ProcessId) -> SendError {
        self.down(to).map_or(SendError::NoSuchProcess(to), |why| SendError::Lost(to, why))
    }

    /// The reason why the window of `to`, in another process, was given up.
    pub(super) fn why_closed(&self, to: ThreadName) -> SendError {
        match self.down(to.process) {
            Some(why) => SendError::Lost(to.process, why),
            None => SendError::Gone(to),
        }
    }

    /// Delivers a message to another process after its window has let it through.
    pub(super) fn deliver(
        &self,
        from: ThreadName,
        to: ThreadName,
        tag: u32,
        body: Body,
    ) -> Result<(), SendError> {
        let Some(link) = self.peers.links.get(to.process) else {
            return Err(self.unknown(to.process));
        };
        // ORDER: Relaxed: a hint. Credit that this message misses goes by itself when it is due.
        let owes_credit = link.owes_credit.load(Ordering::Relaxed);
        let (credit, request) = if owes_credit { self.credit(link, from, to.process) } else { (0, 0) };
        let header = Header {
            flags: body.buffer_flags(),
            tag,
            to: to.thread,
            from: from.thread,
            credit,
            request,
            ..self.header(Kind::Message)
        };
        self.transmit_by(to.process, link, Lane::User, header, body)
    }

    /// Takes the credit that the sender's inbox owes that process, as the message's header carries it.
    #[cold]
    fn credit(&self, link: &Link, from: ThreadName, peer: ProcessId) -> (u16, u64) {
        // ORDER: Relaxed: a hint. Credit that another inbox owes goes by itself when it is due.
        link.owes_credit.store(false, Ordering::Relaxed);
        let credit = self.table.find(from.thread).and_then(|inbox| Core::of(inbox).take_credit(peer));
        // Both numbers fit, as they are below the amounts that are due.
        credit.map_or((0, 0), |Credit { messages, bytes }| {
            (messages as u16, u64::from(self.taken(peer)) << 32 | bytes)
        })
    }

    /// Notes that an inbox owes `peer` credit, so that its next message there carries it.
    pub(super) fn owes_credit(&self, peer: ProcessId) {
        if let Some(link) = self.peers.links.get(peer) {
            // ORDER: Relaxed: a hint. Credit that no message carries goes by itself when it is due.
            link.owes_credit.store(true, Ordering::Relaxed);
        }
    }

    pub(super) fn header(&self, kind: Kind) -> Header {
        Header { process: self.me.0, ..Header::new(kind) }
    }

    pub(super) fn control(&self, to: ProcessId, header: Header, body: Body) {
        // A process that has gone needs no answer.
        let _ = self.transmit(to, Lane::Control, header, body);
    }

    /// Sends a control message of a request.
    pub(crate) fn transmit_control(
        &self,
        to: ProcessId,
        lane: Lane,
        control: Control,
        body: Body,
    ) -> Result<(), Why> {
        let header = Header { process: self.me.0, ..control.header() };
        self.transmit(to, lane, header, body).map_err(|error| match error {
            SendError::Lost(_, why) => why,
            // No process has that number.
            _ => Why::Left,
        })
    }

    /// Sends a port message.
    pub(crate) fn transmit_word(
        &self,
        to: ProcessId,
        lane: Lane,
        word: PortMessage,
    ) -> Result<(), SendError> {
        let header = Header { process: self.me.0, ..word.header() };
        self.transmit(to, lane, header, Body::with_capacity(0))
    }

    /// Longest body of a message to `to`, in bytes, if there is such a process.
    pub(crate) fn longest(&self, to: ProcessId) -> Option<u32> {
        self.peers.links.get(to).map(|_| self.engine.longest())
    }

    /// Notifies the server thread. It runs before others, as other processes wait for it.
    pub(crate) fn notify(&self) {
        wake_first(|| self.serving.notifier.notify());
    }

    pub(super) fn transmit(
        &self,
        to: ProcessId,
        lane: Lane,
        header: Header,
        body: Body,
    ) -> Result<(), SendError> {
        let Some(link) = self.peers.links.get(to) else { return Err(self.unknown(to)) };
        self.transmit_by(to, link, lane, header, body)
    }

    // Inlined with its callees, so that the header is written straight into the frame.
    #[inline(always)]
    fn transmit_by(
        &self,
        to: ProcessId,
        link: &Link,
        lane: Lane,
        header: Header,
        mut body: Body,
    ) -> Result<(), SendError> {
        if body.has_transfer() {
            return self.transmit_parcel(to, link, lane, header, body);
        }
        let length = body.len();
        body.set_header(&Header { length: length as u32, ..header });
        self.hand_off(to, link, lane, &header, body, length)
    }

    /// Sends a frame that carries senders of ports.
    #[cold]
    fn transmit_parcel(
        &self,
        to: ProcessId,
        link: &Link,
        lane: Lane,
        header: Header,
        mut body: Body,
    ) -> Result<(), SendError> {
        let length = body.len();
        let transfer = self.pack(to, &mut body);
        let flags = header.flags | if transfer.is_some() { CARRIES } else { 0 };
        body.set_header(&Header { length: body.len() as u32, flags, ..header });
        let sent = self.hand_off(to, link, lane, &header, body, length);
        if let (Err(_), Some(transfer)) = (&sent, transfer) {
            self.unpack_again(to, transfer);
        }
        sent
    }

    /// Gives the engine a frame, or puts it into the backlog. `length`: bytes of its body that belong to the
    /// receiver.
    #[inline(always)]
    fn hand_off(
        &self,
        to: ProcessId,
        link: &Link,
        lane: Lane,
        header: &Header,
        body: Body,
        length: usize,
    ) -> Result<(), SendError> {
        let mut state = link.state.lock();
        if let Some(why) = state.down {
            return Err(SendError::Lost(to, why));
        }
        if state.given_up {
            return Err(SendError::Lost(to, Why::Unreachable));
        }
        state.outstanding.sent(header, length);
        let is_free = state.backlog.is_free(lane);
        let frame = WaitingFrame::from(body);
        let refused = if is_free { frame.give(&*self.engine, to, lane) } else { Some(frame) };
        let is_first = is_free && refused.is_some();
        if let Some(frame) = refused {
            state.backlog.push(lane, frame);
            // ORDER: Release pairs with the Acquire in `flush`. It is stored under the link's lock, which `flush`
            // takes afterwards.
            self.peers.has_backlog.store(true, Ordering::Release);
        }
        if state.backlog.answers > MOST_ANSWERS || state.backlog.answered > MOST_ANSWERED {
            state.given_up = true;
            drop(state);
            self.give_up_on(to);
        } else if is_first {
            drop(state);
            // The engine may have made room since it refused, and the server may have looked in vain before the push.
            // No other notification would come.
            self.notify();
        }
        Ok(())
    }

    /// Gives up a process that does not do its part, and tells it so if it listens.
    pub(crate) fn give_up_on(&self, peer: ProcessId) {
        self.say_given_up(peer);
        if !self.engine.give_up(peer) {
            self.lose(peer, Why::Unreachable);
        }
    }

    /// Tells a process that it was given up. If it does not take this frame, it is told again when a frame comes from
    /// it.
    pub(super) fn say_given_up(&self, peer: ProcessId) {
        let mut body = Body::with_capacity(0);
        body.set_header(&self.header(Kind::GivenUp));
        let _ = self.engine.try_send(peer, Lane::Control, body);
    }

    /// Sends frames that the engine refused before.
    pub(super) fn flush(&self) {
        // ORDER: Acquire pairs with the Release in `hand_off`. A push after this swap sets the flag again. The load
        // is a hint.
        if !self.peers.has_backlog.load(Ordering::Relaxed)
            || !self.peers.has_backlog.swap(false, Ordering::Acquire)
        {
            return;
        }
        for (peer, link) in self.peers.links.iter() {
            let mut state = link.state.lock();
            let is_empty = state.backlog.flush(&*self.engine, peer);
            if !is_empty {
                // ORDER: Release pairs with the Acquire of the next `flush`. It is stored under the link's lock.
                self.peers.has_backlog.store(true, Ordering::Release);
            }
            let emptied = if state.backlog.is_awaited() { None } else { state.emptied.take() };
            drop(state);
            emptied.map(|emptied| emptied.put(()));
        }
    }

    /// Tells `peer` what an inbox of this process has received from it.
    pub(super) fn give_credit(&self, inbox: ThreadName, peer: ProcessId, credit: Credit) {
        let header = Header {
            credit: u16::try_from(credit.messages).unwrap_or(u16::MAX),
            request: credit.bytes,
            from: inbox.thread,
            tag: self.taken(peer),
            ..self.header(Kind::Acknowledge)
        };
        self.control(peer, header, Body::with_capacity(0));
    }

    /// Number of messages that have come from a process, modulo 2^32.
    pub(super) fn taken(&self, peer: ProcessId) -> u32 {
        // ORDER: Relaxed: an older count is also valid.
        self.peers.links.get(peer).map_or(0, |link| link.taken.load(Ordering::Relaxed))
    }
}
