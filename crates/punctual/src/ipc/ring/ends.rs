//! The two ends of a ring: [`Sender`] and [`Receiver`]; and how a side waits: [`WaitStrategy`].

use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use punctual_linux::clock::{Clock, now_ns};
use punctual_linux::ipc::lock::Hold;
use punctual_linux::ipc::{Region, lock};

use crate::backoff::{Backoff, Limits, Step};
use crate::ipc::ring::layout::{
    AT_HEAD, AT_RECEIVER, AT_RECEIVER_SLEEPS, AT_SENDER, AT_SENDER_SLEEPS, DATA, LEFT, Memory, NEVER, RECEIVER_LOCK,
    SENDER_LOCK, THERE, frame, largest_message, mark, slot,
};
use crate::ipc::ring::writer::Writer;
use crate::ipc::ring::{ReceiveError, RingError, SendError};

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

/// How to wait for a message or for room.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum WaitStrategy {
    /// Busy-waits: least latency, a whole CPU. Never use it under a real-time policy on the peer's CPU: the peer would never run.
    Spin,
    /// Spins, then yields, then sleeps, within these limits ([`Backoff::tuned`] measures them): for messages that may come soon or much
    /// later.
    Backoff(Limits),
    /// Sleeps (`futex(2)`) until the peer wakes it: no CPU time, the latency of a wake-up.
    #[default]
    Sleep,
}

/// Polls without a pause instruction: several times the transfer time of a cache line from another CPU.
const EAGER: u32 = 256;
/// Polls between two clock readings, each as expensive as several polls.
const POLLS_PER_LOOK: u32 = 64;
/// Longest time between two checks of the peer: short enough to report its death within a second.
const LOOK_AFTER_PEER_NS: i64 = 250_000_000;

/// The next step of the waiting loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    /// Poll again at once.
    Poll,
    /// Sleep, at most until this time.
    Sleep(i64),
    /// Check whether the peer lives, then poll.
    LookAfterPeer,
    /// The time is up.
    TimeOver,
}

/// The state of one wait.
#[derive(Debug)]
pub(super) struct Wait {
    parks: bool,
    backoff: Option<Backoff>,
    polls: u32,
    at_most: Option<Duration>,
    /// Both on CLOCK_MONOTONIC; unset until the first clock reading.
    deadline_ns: Option<i64>,
    look_after_peer_ns: Option<i64>,
}

impl Wait {
    /// Begins a wait, for at most `at_most` or without limit. Reads no clock: most waits end before the first reading.
    #[inline]
    pub(super) fn begin(how: WaitStrategy, at_most: Option<Duration>) -> Self {
        let parks = how == WaitStrategy::Sleep;
        let backoff = match how {
            WaitStrategy::Backoff(limits) => Some(Backoff::new(limits)),
            WaitStrategy::Spin | WaitStrategy::Sleep => None,
        };
        Self { parks, backoff, polls: 0, at_most, deadline_ns: None, look_after_peer_ns: None }
    }

    /// The step after a poll that found nothing.
    #[inline]
    pub(super) fn next(&mut self) -> Next {
        self.polls = self.polls.wrapping_add(1);
        if self.parks {
            return self.look_at_clock();
        }
        match &mut self.backoff {
            Some(backoff) => self.parks = backoff.step() == Step::Park,
            None if self.polls >= EAGER => std::hint::spin_loop(),
            None => {}
        }
        if self.parks {
            return self.look_at_clock();
        }
        if self.polls.is_multiple_of(POLLS_PER_LOOK) { self.look_at_clock() } else { Next::Poll }
    }

    #[cold]
    fn look_at_clock(&mut self) -> Next {
        let now = now_ns(Clock::Monotonic);
        let ns = |d: Duration| i64::try_from(d.as_nanos()).unwrap_or(i64::MAX);
        let at_most = self.at_most;
        let deadline = *self.deadline_ns.get_or_insert_with(|| now.saturating_add(at_most.map_or(i64::MAX, ns)));
        if now >= deadline {
            return Next::TimeOver;
        }
        let look = *self.look_after_peer_ns.get_or_insert(now.saturating_add(LOOK_AFTER_PEER_NS));
        if now >= look {
            self.look_after_peer_ns = None;
            return Next::LookAfterPeer;
        }
        if self.parks { Next::Sleep(look.min(deadline)) } else { Next::Poll }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_of_nothing_is_over_at_once_and_a_long_one_never() {
        assert_eq!(Wait::begin(WaitStrategy::Sleep, Some(Duration::ZERO)).next(), Next::TimeOver);
        let mut wait = Wait::begin(WaitStrategy::Sleep, Some(Duration::MAX));
        assert!(matches!(wait.next(), Next::Sleep(_)));
        let mut wait = Wait::begin(WaitStrategy::Spin, None);
        assert!((0..10_000).all(|_| matches!(wait.next(), Next::Poll | Next::LookAfterPeer)));
    }

    #[test]
    fn it_looks_after_the_peer_while_it_waits() {
        for how in [WaitStrategy::Spin, WaitStrategy::Sleep, WaitStrategy::Backoff(Limits::PARK)] {
            let mut wait = Wait::begin(how, None);
            let looked = std::iter::from_fn(|| {
                if how != WaitStrategy::Spin {
                    std::thread::sleep(Duration::from_millis(50));
                }
                Some(wait.next())
            });
            assert!(looked.take(1 << 28).any(|next| next == Next::LookAfterPeer));
        }
    }
}
