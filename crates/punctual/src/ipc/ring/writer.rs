//! The sender's half of the algorithm.

use super::SendError;
use super::layout::{
    AT_HEAD, AT_RECEIVER_SLEEPS, AT_SENDER_SLEEPS, AT_TAIL, DATA, Memory, frame, largest_message, mark, plausible,
    slot, word,
};

/// Writes frames. One writer per ring at a time.
#[derive(Debug)]
pub(super) struct Writer<M> {
    pub(super) memory: M,
    capacity: u64,
    tail: u64,
    /// The head as last read; the real one may be further on.
    head: u64,
}

impl<M: Memory> Writer<M> {
    /// Continues where the ring's last writer stopped. `None`: the header contradicts itself.
    pub(super) fn attach(memory: M, capacity: u64) -> Option<Self> {
        let (head, mut tail) = (memory.load(AT_HEAD), memory.load(AT_TAIL));
        // A writer killed between publishing a frame and writing the tail leaves frames beyond its tail.
        loop {
            if !plausible(head, tail, capacity) {
                return None;
            }
            let found = memory.load(slot(tail, capacity));
            let len = found & 0xFFFF_FFFF;
            if found == 0 {
                break;
            }
            if found >> 32 != u64::from(mark(tail)) || len > largest_message(capacity) {
                return None;
            }
            tail = tail.wrapping_add(frame(len));
        }
        memory.store(AT_TAIL, tail);
        Some(Self { memory, capacity, tail, head })
    }

    /// Bytes of the largest message.
    pub(super) fn largest(&self) -> u64 {
        largest_message(self.capacity)
    }

    /// Copies the message into the ring if there is room. Wait-free.
    #[inline]
    pub(super) fn try_send(&mut self, message: &[u8]) -> Result<(), SendError> {
        let len = message.len() as u64;
        if len > self.largest() {
            return Err(SendError::TooLarge { len: message.len(), largest: self.largest() });
        }
        let bytes = frame(len);
        if !self.has_room(bytes) {
            self.look_at_head()?;
            if !self.has_room(bytes) {
                return Err(SendError::Full);
            }
        }
        let next = self.tail.wrapping_add(bytes);
        self.copy_in(self.tail.wrapping_add(8), message);
        self.memory.store(slot(next, self.capacity), 0);
        self.memory.publish(slot(self.tail, self.capacity), word(self.tail, len as u32));
        self.tail = next;
        self.memory.store(AT_TAIL, next);
        if self.memory.flag(AT_RECEIVER_SLEEPS) != 0 {
            self.wake_receiver();
        }
        Ok(())
    }

    /// Whether a frame and the cleared word after it fit.
    #[inline]
    fn has_room(&self, bytes: u64) -> bool {
        self.tail.wrapping_sub(self.head) + bytes <= self.capacity - 8
    }

    fn look_at_head(&mut self) -> Result<(), SendError> {
        let head = self.memory.load(AT_HEAD);
        // A valid head neither goes back nor overtakes the tail.
        let back = head.wrapping_sub(self.head) > self.capacity;
        if back || !plausible(head, self.tail, self.capacity) {
            return Err(SendError::Corrupt { head, tail: self.tail });
        }
        self.head = head;
        Ok(())
    }

    #[inline]
    fn copy_in(&self, position: u64, message: &[u8]) {
        let at = slot(position, self.capacity);
        let until_end = DATA + self.capacity as usize - at;
        if message.len() <= until_end {
            self.memory.copy_in(at, message);
        } else {
            let (first, rest) = message.split_at(until_end);
            self.memory.copy_in(at, first);
            self.memory.copy_in(DATA, rest);
        }
    }

    #[cold]
    pub(super) fn wake_receiver(&self) {
        self.memory.set_flag(AT_RECEIVER_SLEEPS, 0);
        self.memory.wake(AT_RECEIVER_SLEEPS);
    }

    /// Sleeps until the receiver makes room or until `until_ns`; returns at once if the message fits.
    pub(super) fn sleep(&mut self, len: usize, until_ns: i64) -> Result<(), SendError> {
        self.memory.set_flag(AT_SENDER_SLEEPS, 1);
        self.look_at_head()?;
        if self.has_room(frame(len as u64)) {
            self.memory.set_flag(AT_SENDER_SLEEPS, 0);
            return Ok(());
        }
        let slept = self.memory.sleep(AT_SENDER_SLEEPS, until_ns).map_err(SendError::Wait);
        self.memory.set_flag(AT_SENDER_SLEEPS, 0);
        slept
    }
}
