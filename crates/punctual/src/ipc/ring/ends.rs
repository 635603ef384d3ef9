//! The two ends of a ring: [`Sender`] and [`Receiver`].

use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use punctual_linux::ipc::hold::Hold;
use punctual_linux::ipc::{Region, lock};

use super::error::{ReceiveError, RingError, SendError};
use super::layout::{AT_RECEIVER, AT_SENDER, LEFT, NEVER, RECEIVER_LOCK, SENDER_LOCK, THERE};
use super::memory::Memory as _;
use super::reader::Reader;
use super::waiting::{Next, Wait, Waiting};
use super::writer::Writer;

/// The end that sends. Dropping it tells the receiver that nothing more comes.
///
/// It belongs to the process that took it. A forked child has a copy that holds nothing; dropping the copy tells nobody anything.
#[derive(Debug)]
pub struct Sender {
    writer: Writer<Arc<Region>>,
    role: Role,
}

/// The end that receives. Dropping it tells the sender that nobody receives any more.
///
/// It belongs to the process that took it, as a [`Sender`] does.
#[derive(Debug)]
pub struct Receiver {
    reader: Reader<Arc<Region>>,
    role: Role,
}

/// A side of the ring, taken.
#[derive(Debug)]
struct Role {
    /// Says that this side is taken: by this process, and not by those that it forks.
    hold: Hold,
    /// To ask whether the other side is taken.
    file: Arc<OwnedFd>,
    region: Arc<Region>,
    mine: usize,
    others: usize,
    others_lock: u64,
}

/// What is known of the other side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Peer {
    /// It has not come yet, or is there.
    Hoped,
    /// It left in order.
    Left,
    /// It is gone without a word.
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

    /// Says that this side is there, once everything else has succeeded.
    fn announce(&self) {
        self.region.set_flag(self.mine, THERE);
    }

    /// Says that this side leaves in order. `false`: this is the copy in a forked child, which has nothing to say.
    fn leave(&self) -> bool {
        let leaves = self.hold.is_here();
        if leaves {
            self.region.set_flag(self.mine, LEFT);
        }
        leaves
    }

    /// Whether the other side left in order.
    fn is_left(&self) -> bool {
        self.region.flag(self.others) == LEFT
    }

    #[cold]
    fn peer(&self) -> Peer {
        match self.region.flag(self.others) {
            NEVER => Peer::Hoped,
            LEFT => Peer::Left,
            // A kernel that cannot say (ENOLCK, EINVAL) has not said that the peer is gone.
            _ => match lock::is_locked_elsewhere(self.file.as_fd(), self.others_lock) {
                Ok(false) => match self.region.flag(self.others) {
                    // It left, or somebody took its place, between the two looks.
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
        let damaged = RingError::Damaged("head and tail do not belong together");
        let writer = Writer::attach(region, capacity).ok_or(damaged)?;
        role.announce();
        Ok(Self { writer, role })
    }

    /// Bytes of the largest message that the ring carries: its capacity less 16.
    #[must_use]
    pub fn largest_message(&self) -> u64 {
        self.writer.largest()
    }

    /// Copies the message into the ring, and wakes the receiver if it sleeps. Wait-free; a message of no bytes is a message.
    ///
    /// # Errors
    /// [`SendError::Full`], [`SendError::TooLarge`], [`SendError::Corrupt`]. Whether the receiver is there is not looked at.
    #[inline]
    pub fn try_send(&mut self, message: &[u8]) -> Result<(), SendError> {
        self.writer.try_send(message)
    }

    /// Sends, waiting for room as long as it takes.
    ///
    /// # Errors
    /// As [`Sender::try_send`], but when the ring is full: [`SendError::Closed`] if the receiver left, [`SendError::PeerDied`] if it ended
    /// without leaving (noticed within half a second).
    #[inline]
    pub fn send(&mut self, message: &[u8], how: Waiting) -> Result<(), SendError> {
        match self.writer.try_send(message) {
            Err(SendError::Full) => self.send_when_there_is_room(message, how, None),
            done => done,
        }
    }

    /// Sends, waiting for room for so long at most; [`SendError::Full`] afterwards.
    #[inline]
    pub fn send_for(&mut self, message: &[u8], how: Waiting, at_most: Duration) -> Result<(), SendError> {
        match self.writer.try_send(message) {
            Err(SendError::Full) => self.send_when_there_is_room(message, how, Some(at_most)),
            done => done,
        }
    }

    /// Not inlined, as [`Receiver::wait_and_receive`].
    #[inline(never)]
    fn send_when_there_is_room(
        &mut self,
        message: &[u8],
        how: Waiting,
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
        let damaged = RingError::Damaged("its head is at no frame");
        let reader = Reader::attach(region, capacity).ok_or(damaged)?;
        role.announce();
        Ok(Self { reader, role })
    }

    /// Bytes of the message that is next, if one is there.
    pub fn peek(&self) -> Result<Option<usize>, ReceiveError> {
        self.reader.peek()
    }

    /// Copies the next message to the beginning of `into` and tells its length; `None`: there is none. Wait-free.
    ///
    /// # Errors
    /// [`ReceiveError::TooShort`], [`ReceiveError::Corrupt`]. Whether the sender is there is not looked at.
    #[inline]
    pub fn try_receive(&mut self, into: &mut [u8]) -> Result<Option<usize>, ReceiveError> {
        self.reader.try_receive(into)
    }

    /// Receives, waiting for a message as long as it takes.
    ///
    /// # Errors
    /// As [`Receiver::try_receive`], but when there is no message: [`ReceiveError::Closed`] if the sender left,
    /// [`ReceiveError::PeerDied`] if it ended without leaving (noticed within half a second).
    #[inline]
    pub fn receive(&mut self, into: &mut [u8], how: Waiting) -> Result<usize, ReceiveError> {
        if let Some(len) = self.reader.try_receive(into)? {
            return Ok(len);
        }
        loop {
            if let Some(len) = self.wait_and_receive(into, how, None)? {
                return Ok(len);
            }
        }
    }

    /// Receives, waiting for so long at most; `None` afterwards.
    #[inline]
    pub fn receive_for(
        &mut self,
        into: &mut [u8],
        how: Waiting,
        at_most: Duration,
    ) -> Result<Option<usize>, ReceiveError> {
        match self.reader.try_receive(into)? {
            Some(len) => Ok(Some(len)),
            None => self.wait_and_receive(into, how, Some(at_most)),
        }
    }

    /// Not inlined, so that what there is to prepare for a wait is prepared only where there is one.
    #[inline(never)]
    fn wait_and_receive(
        &mut self,
        into: &mut [u8],
        how: Waiting,
        at_most: Option<Duration>,
    ) -> Result<Option<usize>, ReceiveError> {
        let mut wait = Wait::begin(how, at_most);
        loop {
            match wait.next() {
                Next::Poll => {}
                Next::Sleep(until_ns) => {
                    self.reader.sleep(until_ns)?;
                    if self.role.is_left() {
                        // What it sent before it left is still received.
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
                    // What it sent before it went is still received.
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
