//! The receiver's half of the algorithm.

use super::error::ReceiveError;
use super::layout::{AT_HEAD, AT_RECEIVER_SLEEPS, AT_SENDER_SLEEPS, DATA, frame, largest_message, mark, slot};
use super::memory::Memory;

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
