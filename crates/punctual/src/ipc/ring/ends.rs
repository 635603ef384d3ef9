//! The two ends of a ring: [`Sender`] and [`Receiver`].

use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use punctual_linux::ipc::lock::Hold;
use punctual_linux::ipc::{Region, lock};

use crate::ipc::ring::error::{ReceiveError, RingError, SendError};
use crate::ipc::ring::layout::{
    AT_HEAD, AT_RECEIVER, AT_RECEIVER_SLEEPS, AT_SENDER, AT_SENDER_SLEEPS, DATA, LEFT, NEVER, RECEIVER_LOCK,
    SENDER_LOCK, THERE, frame, largest_message, mark, slot,
};
use crate::ipc::ring::memory::Memory;
use crate::ipc::ring::wait_strategy::{Next, Wait, WaitStrategy};
use crate::ipc::ring::writer::Writer;

/// The sending end. Dropping it closes it: the receiver gets the remaining messages, then [`ReceiveError::Closed`].
///
/// It belongs to the process that took it. The copy in a forked child sends nothing ([`SendError::Inherited`]); dropping the copy has no
/// effect.
#[derive(Debug)]
pub struct Sender {
    writer: Writer<Arc<Region>>,
    role: Role,
}

/// The receiving end. Dropping it closes it: a sender that waits for room gets [`SendError::Closed`].
///
/// It belongs to the process that took it. The copy in a forked child receives nothing ([`ReceiveError::Inherited`]); dropping the copy
/// has no effect.
#[derive(Debug)]
pub struct Receiver {
    reader: Reader<Arc<Region>>,
    role: Role,
}

/// A taken side of the ring.
#[derive(Debug)]
struct Role {
    /// The lock of this side, held by this process and not by its children.
    hold: Hold,
    /// To check the lock of the other side.
    file: Arc<OwnedFd>,
    region: Arc<Region>,
    mine: usize,
    others: usize,
    others_lock: u64,
}

/// The state of the other side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Peer {
    /// Not attached yet, or alive.
    Hoped,
    /// It closed its end.
    Left,
    /// Its process died.
    Died,
}

impl Role {
    fn take(file: Arc<OwnedFd>, region: Arc<Region>, sends: bool) -> Result<Self, RingError> {
        let (mine, others) = if sends { (AT_SENDER, AT_RECEIVER) } else { (AT_RECEIVER, AT_SENDER) };
        let (my_lock, others_lock) = if sends { (SENDER_LOCK, RECEIVER_LOCK) } else { (RECEIVER_LOCK, SENDER_LOCK) };
        match Hold::take(file.as_fd(), my_lock)? {
            Some(hold) => Ok(Self { hold, file, region, mine, others, others_lock }),
            None => Err(RingError::Taken(if sends { "sender" } else { "receiver" })),
        }
    }

    /// Marks this side as attached, after everything else succeeded.
    fn announce(&self) {
        self.region.set_flag(self.mine, THERE);
    }

    /// Marks this side as closed. `false`: this is the copy in a forked child, which does nothing.
    fn leave(&self) -> bool {
        let leaves = self.hold.is_here();
        if leaves {
            self.region.set_flag(self.mine, LEFT);
        }
        leaves
    }

    /// Whether the other side closed its end.
    fn is_left(&self) -> bool {
        self.region.flag(self.others) == LEFT
    }

    #[cold]
    fn peer(&self) -> Peer {
        match self.region.flag(self.others) {
            NEVER => Peer::Hoped,
            LEFT => Peer::Left,
            // An error (ENOLCK, EINVAL) does not mean that the peer died.
            _ => match lock::is_locked_elsewhere(self.file.as_fd(), self.others_lock) {
                Ok(false) => match self.region.flag(self.others) {
                    // The peer may have closed its end between the two checks.
                    LEFT => Peer::Left,
                    _ => Peer::Died,
                },
                Ok(true) | Err(_) => Peer::Hoped,
            },
        }
    }
}

impl Sender {
    pub(super) fn take(file: Arc<OwnedFd>, region: Arc<Region>, capacity: u64) -> Result<Self, RingError> {
        let role = Role::take(file, Arc::clone(&region), true)?;
        let damaged = RingError::Damaged("head and tail contradict each other");
        let writer = Writer::attach(region, capacity).ok_or(damaged)?;
        role.announce();
        Ok(Self { writer, role })
    }

    /// Bytes of the largest message: the capacity less 16.
    #[must_use]
    pub fn largest_message(&self) -> u64 {
        self.writer.largest()
    }

    /// Copies the message into the ring and wakes the receiver if it sleeps. Wait-free. An empty message is allowed.
    ///
    /// # Errors
    /// [`SendError::Full`], [`SendError::TooLarge`], [`SendError::Corrupt`], [`SendError::Inherited`]. Never checks whether the receiver
    /// lives.
    #[inline]
    pub fn try_send(&mut self, message: &[u8]) -> Result<(), SendError> {
        if !self.role.hold.is_here() {
            return Err(SendError::Inherited);
        }
        self.writer.try_send(message)
    }

    /// Sends, and waits for room without a time limit.
    ///
    /// # Errors
    /// As [`Sender::try_send`], but of a full ring: [`SendError::Closed`] if the receiver closed its end. [`SendError::PeerDied`] if its
    /// process died, which is noticed within half a second.
    #[inline]
    pub fn send(&mut self, message: &[u8], how: WaitStrategy) -> Result<(), SendError> {
        match self.try_send(message) {
            Err(SendError::Full) => self.send_when_there_is_room(message, how, None),
            done => done,
        }
    }

    /// Sends, and waits for room for at most `at_most`; then [`SendError::Full`].
    #[inline]
    pub fn send_timeout(&mut self, message: &[u8], how: WaitStrategy, at_most: Duration) -> Result<(), SendError> {
        match self.try_send(message) {
            Err(SendError::Full) => self.send_when_there_is_room(message, how, Some(at_most)),
            done => done,
        }
    }

    /// Not inlined, as [`Receiver::wait_and_receive`].
    #[inline(never)]
    fn send_when_there_is_room(
        &mut self,
        message: &[u8],
        how: WaitStrategy,
        at_most: Option<Duration>,
    ) -> Result<(), SendError> {
        let mut wait = Wait::begin(how, at_most);
        loop {
            match wait.next() {
                Next::Poll => {}
                Next::Sleep(until_ns) => {
                    self.writer.sleep(message.len(), until_ns)?;
                    if self.role.is_left() {
                        return Err(SendError::Closed);
                    }
                }
                Next::TimeOver => return self.writer.try_send(message),
                Next::LookAfterPeer => match self.role.peer() {
                    Peer::Hoped => {}
                    Peer::Left => return Err(SendError::Closed),
                    Peer::Died => return Err(SendError::PeerDied),
                },
            }
            match self.writer.try_send(message) {
                Err(SendError::Full) => {}
                done => return done,
            }
        }
    }
}

impl Receiver {
    pub(super) fn take(file: Arc<OwnedFd>, region: Arc<Region>, capacity: u64) -> Result<Self, RingError> {
        let role = Role::take(file, Arc::clone(&region), false)?;
        let damaged = RingError::Damaged("the head is not at a frame");
        let reader = Reader::attach(region, capacity).ok_or(damaged)?;
        role.announce();
        Ok(Self { reader, role })
    }

    /// Bytes of the next message; `None` if there is none.
    pub fn peek(&self) -> Result<Option<usize>, ReceiveError> {
        self.refuse_a_copy()?;
        self.reader.peek()
    }

    /// Copies the next message to the start of `into` and returns its length; `None` if there is none. Wait-free.
    ///
    /// # Errors
    /// [`ReceiveError::TooShort`], [`ReceiveError::Corrupt`], [`ReceiveError::Inherited`]. Never checks whether the sender lives.
    #[inline]
    pub fn try_receive(&mut self, into: &mut [u8]) -> Result<Option<usize>, ReceiveError> {
        self.refuse_a_copy()?;
        self.reader.try_receive(into)
    }

    /// Refuses the copy in a forked child.
    #[inline]
    fn refuse_a_copy(&self) -> Result<(), ReceiveError> {
        if self.role.hold.is_here() { Ok(()) } else { Err(ReceiveError::Inherited) }
    }

    /// Receives, and waits for a message without a time limit. Returns the message's length.
    ///
    /// # Errors
    /// As [`Receiver::try_receive`], but of an empty ring: [`ReceiveError::Closed`] if the sender closed its end.
    /// [`ReceiveError::PeerDied`] if its process died, which is noticed within half a second.
    #[inline]
    pub fn receive(&mut self, into: &mut [u8], how: WaitStrategy) -> Result<usize, ReceiveError> {
        if let Some(len) = self.try_receive(into)? {
            return Ok(len);
        }
        loop {
            if let Some(len) = self.wait_and_receive(into, how, None)? {
                return Ok(len);
            }
        }
    }

    /// Receives, and waits for at most `at_most`; then `None`.
    #[inline]
    pub fn recv_timeout(
        &mut self,
        into: &mut [u8],
        how: WaitStrategy,
        at_most: Duration,
    ) -> Result<Option<usize>, ReceiveError> {
        match self.try_receive(into)? {
            Some(len) => Ok(Some(len)),
            None => self.wait_and_receive(into, how, Some(at_most)),
        }
    }

    /// Not inlined, so that only a wait pays for its preparation.
    #[inline(never)]
    fn wait_and_receive(
        &mut self,
        into: &mut [u8],
        how: WaitStrategy,
        at_most: Option<Duration>,
    ) -> Result<Option<usize>, ReceiveError> {
        let mut wait = Wait::begin(how, at_most);
        loop {
            match wait.next() {
                Next::Poll => {}
                Next::Sleep(until_ns) => {
                    self.reader.sleep(until_ns)?;
                    if self.role.is_left() {
                        // Messages sent before closing are still received.
                        return self.reader.try_receive(into)?.map(Some).ok_or(ReceiveError::Closed);
                    }
                }
                Next::TimeOver => return self.reader.try_receive(into),
                Next::LookAfterPeer => {
                    let gone = match self.role.peer() {
                        Peer::Hoped => continue,
                        Peer::Left => ReceiveError::Closed,
                        Peer::Died => ReceiveError::PeerDied,
                    };
                    // Messages sent before the end are still received.
                    return self.reader.try_receive(into)?.map(Some).ok_or(gone);
                }
            }
            if let Some(len) = self.reader.try_receive(into)? {
                return Ok(Some(len));
            }
        }
    }
}

impl Drop for Sender {
    fn drop(&mut self) {
        if self.role.leave() {
            self.writer.wake_receiver();
        }
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        if self.role.leave() {
            self.reader.wake_sender();
        }
    }
}

// The receiver's half of the algorithm.

/// Reads frames. One reader per ring at a time.
#[derive(Debug)]
pub(super) struct Reader<M> {
    pub(super) memory: M,
    capacity: u64,
    head: u64,
}

impl<M: Memory> Reader<M> {
    /// Continues where the ring's last reader stopped. `None`: the header contradicts itself.
    pub(super) fn attach(memory: M, capacity: u64) -> Option<Self> {
        let head = memory.load(AT_HEAD);
        head.is_multiple_of(8).then_some(Self { memory, capacity, head })
    }

    /// Bytes of the next message, if there is one.
    #[inline]
    pub(super) fn peek(&self) -> Result<Option<usize>, ReceiveError> {
        let found = self.memory.load(slot(self.head, self.capacity));
        if found == 0 {
            return Ok(None);
        }
        let len = found & 0xFFFF_FFFF;
        if found >> 32 != u64::from(mark(self.head)) || len > largest_message(self.capacity) {
            return Err(ReceiveError::Corrupt { found, position: self.head });
        }
        Ok(Some(len as usize))
    }

    /// Copies the next message, if there is one, to the start of `into`.
    #[inline]
    pub(super) fn try_receive(&mut self, into: &mut [u8]) -> Result<Option<usize>, ReceiveError> {
        let Some(len) = self.peek()? else { return Ok(None) };
        let room = into.len();
        let Some(into) = into.get_mut(..len) else { return Err(ReceiveError::TooShort { len, room }) };
        self.copy_out(self.head.wrapping_add(8), into);
        self.head = self.head.wrapping_add(frame(len as u64));
        self.memory.publish(AT_HEAD, self.head);
        if self.memory.flag(AT_SENDER_SLEEPS) != 0 {
            self.wake_sender();
        }
        Ok(Some(len))
    }

    #[inline]
    fn copy_out(&self, position: u64, into: &mut [u8]) {
        let at = slot(position, self.capacity);
        let until_end = DATA + self.capacity as usize - at;
        if into.len() <= until_end {
            self.memory.copy_out(at, into);
        } else {
            let (first, rest) = into.split_at_mut(until_end);
            self.memory.copy_out(at, first);
            self.memory.copy_out(DATA, rest);
        }
    }

    #[cold]
    pub(super) fn wake_sender(&self) {
        self.memory.set_flag(AT_SENDER_SLEEPS, 0);
        self.memory.wake(AT_SENDER_SLEEPS);
    }

    /// Sleeps until a message arrives or until `until_ns`; returns at once if one is there.
    pub(super) fn sleep(&mut self, until_ns: i64) -> Result<(), ReceiveError> {
        self.memory.set_flag(AT_RECEIVER_SLEEPS, 1);
        let slept = match self.peek() {
            Ok(None) => self.memory.sleep(AT_RECEIVER_SLEEPS, until_ns).map_err(ReceiveError::Wait),
            Ok(Some(_)) => Ok(()),
            Err(error) => Err(error),
        };
        self.memory.set_flag(AT_RECEIVER_SLEEPS, 0);
        slept
    }
}
