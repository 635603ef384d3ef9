//! The contents of a message, whether each arrived once, intact and in order ([`Follow`]), and blocks of consecutive
//! messages ([`Blocks`]).
//!
//! A message has its number, its time of sending, and a checksum over all of it. One of 32 bytes or more begins with a header
//! of 24 bytes. Shorter ones (8 to 31 bytes) have all three in their first eight bytes: 16 bits of the number, 40 bits of the
//! time (18 minutes), and 7 bits of checksum. One bit is always set. A mechanism that carries numbers may rely on that bit.

use punctual_record::experiment::ipc::Block;

/// The shortest message: it has room for its time of sending.
pub const SHORTEST: usize = 8;
/// Messages of this size or more have a whole header.
const WHOLE: usize = 32;
/// Bytes of the header.
const HEADER: usize = 24;

const TIME_BITS: u32 = 40;
const CHECK_BITS: u32 = 7;
const TIME_MASK: u64 = (1 << TIME_BITS) - 1;
/// An odd number without a pattern (2^64 divided by the golden ratio).
const MIX: u64 = 0x9E37_79B9_7F4A_7C15;

/// Makes messages of one size.
#[derive(Debug, Clone)]
pub(super) struct Letter {
    buffer: Vec<u8>,
    verify: bool,
    payload_check: u64,
    number: u64,
}

/// The contents of a received message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stamp {
    /// Its number, from 0. For short messages it is derived from 16 bits and the expected number.
    pub number: u64,
    /// When it was sent, on CLOCK_MONOTONIC.
    pub(crate) sent_ns: i64,
    /// Its contents match the checksum.
    pub(crate) intact: bool,
}

impl Letter {
    /// Messages of `size` bytes, at least [`SHORTEST`]. With `verify` each has contents of its own, and the checksum
    /// covers all of them. Otherwise it covers number and time only.
    pub(super) fn new(size: usize, verify: bool) -> Self {
        Self { buffer: vec![0x55; size.max(SHORTEST)], verify, payload_check: 0, number: 0 }
    }

    /// Writes the contents of message `number`. Call it before the clock runs.
    pub(super) fn write(&mut self, number: u64) {
        self.number = number;
        if self.verify {
            let header = header(self.buffer.len());
            let payload = &mut self.buffer[header..];
            fill(payload, number);
            self.payload_check = checksum(payload);
        }
    }

    /// Enters the time of sending. The message is then complete.
    #[inline]
    pub(super) fn stamp(&mut self, sent_ns: i64) -> &[u8] {
        if self.buffer.len() < WHOLE {
            let word = short_word(self.number, sent_ns, self.payload_check);
            self.buffer[..8].copy_from_slice(&word.to_ne_bytes());
        } else {
            let check = check(self.number, sent_ns, self.payload_check);
            self.buffer[..8].copy_from_slice(&self.number.to_ne_bytes());
            self.buffer[8..16].copy_from_slice(&sent_ns.to_ne_bytes());
            self.buffer[16..24].copy_from_slice(&check.to_ne_bytes());
        }
        &self.buffer
    }
}

/// Reads a message of at least [`SHORTEST`] bytes that arrived at `now_ns`. `expected`: the expected number, which
/// completes a short one.
pub(super) fn read(message: &[u8], expected: u64, now_ns: i64, verify: bool) -> Stamp {
    let payload_check = if verify { checksum(&message[header(message.len())..]) } else { 0 };
    let first = word(message, 0);
    if message.len() < WHOLE {
        let number = complete((first >> (TIME_BITS + CHECK_BITS)) & 0xFFFF, expected);
        let gone = (now_ns as u64).wrapping_sub(first >> CHECK_BITS) & TIME_MASK;
        let sent_ns = now_ns.wrapping_sub(gone as i64);
        let intact = first == short_word(number, sent_ns, payload_check);
        return Stamp { number, sent_ns, intact };
    }
    let sent_ns = word(message, 8) as i64;
    let intact = word(message, 16) == check(first, sent_ns, payload_check);
    Stamp { number: first, sent_ns, intact }
}

#[inline]
fn word(message: &[u8], at: usize) -> u64 {
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&message[at..at + 8]);
    u64::from_ne_bytes(bytes)
}

/// Bytes before the payload.
const fn header(len: usize) -> usize {
    if len < WHOLE { 8 } else { HEADER }
}

fn fill(payload: &mut [u8], number: u64) {
    let mut word = number.wrapping_mul(MIX) | 1;
    for chunk in payload.chunks_mut(8) {
        word = word.wrapping_add(MIX);
        chunk.copy_from_slice(&word.to_ne_bytes()[..chunk.len()]);
    }
}

/// A checksum that depends on every byte and its place: each word has another odd factor.
fn checksum(payload: &[u8]) -> u64 {
    let chunks = payload.chunks_exact(8);
    let rest = chunks.remainder();
    let (mut sum, mut factor) = (payload.len() as u64, MIX);
    for chunk in chunks {
        sum = sum.wrapping_add(word(chunk, 0).wrapping_mul(factor));
        factor = factor.wrapping_add(2);
    }
    let mut bytes = [0; 8];
    bytes[..rest.len()].copy_from_slice(rest);
    sum.wrapping_add(u64::from_ne_bytes(bytes).wrapping_mul(factor))
}

fn check(number: u64, sent_ns: i64, payload_check: u64) -> u64 {
    let mixed = number.wrapping_mul(MIX) ^ (sent_ns as u64).rotate_left(32).wrapping_mul(MIX) ^ payload_check;
    (mixed ^ mixed >> 29).wrapping_mul(MIX)
}

fn short_word(number: u64, sent_ns: i64, payload_check: u64) -> u64 {
    let (number, time) = (number & 0xFFFF, sent_ns as u64 & TIME_MASK);
    let check = check(number, time as i64, payload_check) >> (64 - CHECK_BITS);
    1 << 63 | number << (TIME_BITS + CHECK_BITS) | time << CHECK_BITS | check
}

/// The number nearest to `expected` with these lower 16 bits.
fn complete(low: u64, expected: u64) -> u64 {
    let ahead = low.wrapping_sub(expected) as u16 as i16;
    expected.saturating_add_signed(i64::from(ahead))
}

/// Window, in messages, within which a late message is distinguished from a duplicate.
const WINDOW: u64 = 4096;

/// Messages that did not arrive once, intact and in order.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Integrity {
    /// Sent, but never received.
    pub(super) lost: u64,
    /// Received more than once.
    pub(super) duplicates: u64,
    /// Received with contents other than those sent.
    pub(super) torn: u64,
    /// Received after a message that was sent later.
    pub(super) reordered: u64,
}

impl Integrity {
    /// All messages arrived once, intact and in order.
    pub(super) fn is_whole(&self) -> bool {
        *self == Self::default()
    }

    /// The sum of both.
    pub(super) fn plus(self, other: Self) -> Self {
        Self {
            lost: self.lost + other.lost,
            duplicates: self.duplicates + other.duplicates,
            torn: self.torn + other.torn,
            reordered: self.reordered + other.reordered,
        }
    }
}

/// Tracks the numbers of the messages that arrive.
#[derive(Debug, Clone)]
pub(super) struct Follow {
    next: u64,
    /// Which of the last numbers have arrived, by number modulo the window.
    seen: Vec<bool>,
    found: Integrity,
}

impl Default for Follow {
    fn default() -> Self {
        Self { next: 0, seen: vec![false; WINDOW as usize], found: Integrity::default() }
    }
}

impl Follow {
    #[inline]
    pub(super) fn expected(&self) -> u64 {
        self.next
    }

    /// Enters an intact message, and returns whether it arrived for the first time. Messages before a later one may still arrive.
    /// Allocates nothing.
    #[inline]
    pub(super) fn arrived(&mut self, number: u64) -> bool {
        if number >= self.next {
            let gap = number - self.next;
            self.found.lost += gap;
            // A gap longer than the window clears the window.
            for missing in number.saturating_sub(gap.min(WINDOW - 1))..number {
                self.seen[(missing % WINDOW) as usize] = false;
            }
            self.seen[(number % WINDOW) as usize] = true;
            self.next = number + 1;
            return true;
        }
        let seen = &mut self.seen[(number % WINDOW) as usize];
        if self.next - number <= WINDOW && !*seen {
            *seen = true;
            self.found.lost = self.found.lost.saturating_sub(1);
            self.found.reordered += 1;
            return true;
        }
        self.found.duplicates += 1;
        false
    }

    /// Gives up the expected message.
    pub(super) fn given_up(&mut self) {
        self.found.lost += 1;
        self.seen[(self.next % WINDOW) as usize] = false;
        self.next += 1;
    }

    /// Enters a message that arrived after a later one was expected. One that was given up stays lost: it came too
    /// late to count.
    pub(super) fn stray(&mut self, number: u64) {
        let is_known = number < self.next && self.next - number <= WINDOW;
        self.found.duplicates += u64::from(is_known && self.seen[(number % WINDOW) as usize]);
    }

    /// Enters a message with contents other than those sent.
    pub(super) fn torn(&mut self) {
        self.found.torn += 1;
    }

    /// Ends the traffic: any of the `sent` messages not received is lost.
    pub(super) fn finish(&self, sent: u64) -> Integrity {
        let mut found = self.found;
        // A corrupt message took the place of a missing one.
        found.lost = (found.lost + sent.saturating_sub(self.next)).saturating_sub(found.torn);
        found
    }
}

/// Collects messages into blocks of one length.
#[derive(Debug, Clone)]
pub(super) struct Blocks {
    length: u64,
    in_block: u64,
    min_ns: i64,
    max_ns: i64,
    sum_ns: i64,
    complete: Vec<Block>,
}

/// Most blocks of a batch, and of a series. Further ones are dropped: nothing may be allocated while the clock runs.
pub(super) const MOST_BLOCKS: usize = 4096;

impl Blocks {
    /// Blocks of `length` messages.
    pub(super) fn new(length: u64) -> Self {
        let complete = Vec::with_capacity(MOST_BLOCKS);
        Self { length: length.max(1), in_block: 0, min_ns: i64::MAX, max_ns: i64::MIN, sum_ns: 0, complete }
    }

    /// Adds a message. Allocates nothing.
    #[inline]
    pub(super) fn add(&mut self, ns: i64) {
        self.min_ns = self.min_ns.min(ns);
        self.max_ns = self.max_ns.max(ns);
        self.sum_ns = self.sum_ns.saturating_add(ns);
        self.in_block += 1;
        if self.in_block == self.length {
            if self.complete.len() < MOST_BLOCKS {
                let mean_ns = self.sum_ns as f64 / self.length as f64;
                self.complete.push(Block { min_ns: self.min_ns, mean_ns, max_ns: self.max_ns });
            }
            (self.in_block, self.min_ns, self.max_ns, self.sum_ns) = (0, i64::MAX, i64::MIN, 0);
        }
    }

    /// The blocks completed since the last call.
    pub(super) fn take(&mut self) -> Vec<Block> {
        self.complete.drain(..).collect()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_is_written_is_read(
            size in 8usize..200, number in 0u64..1 << 40, behind in -30_000i64..30_000,
            sent in 0i64..1 << 60, took in 0i64..1_000_000_000_000, verify: bool,
        ) {
            let mut letter = Letter::new(size, verify);
            letter.write(number);
            let expected = number.saturating_add_signed(behind);
            prop_assume!(size >= WHOLE || number.abs_diff(expected) < 32_768);
            let bytes = letter.stamp(sent).to_vec();
            prop_assert_eq!(bytes.len(), size);
            prop_assert_eq!(read(&bytes, expected, sent + took, verify), Stamp { number, sent_ns: sent, intact: true });
        }

        #[test]
        fn damage_is_seen(size in 32usize..300, number: u64, sent: i64, at: prop::sample::Index, flip in 1u8..) {
            let mut letter = Letter::new(size, true);
            letter.write(number);
            let mut bytes = letter.stamp(sent).to_vec();
            let at = at.index(size);
            bytes[at] ^= flip;
            prop_assert!(!read(&bytes, number, sent, true).intact);
        }

        #[test]
        fn half_of_one_and_half_of_another_is_torn(size in 40usize..300, a in 0u64..1000, b in 1000u64..2000) {
            let bytes = |number| {
                let mut letter = Letter::new(size, true);
                letter.write(number);
                letter.stamp(1).to_vec()
            };
            let mixed: Vec<u8> = bytes(a)[..size / 2].iter().chain(&bytes(b)[size / 2..]).copied().collect();
            prop_assert!(!read(&mixed, a, 2, true).intact);
        }
    }

    #[test]
    fn a_short_message_has_its_highest_bit_set() {
        let mut letter = Letter::new(8, true);
        letter.write(0);
        assert_eq!(word(letter.stamp(0), 0) >> 63, 1);
    }

    fn follow(numbers: &[u64], sent: u64) -> Integrity {
        let mut follow = Follow::default();
        for number in numbers {
            follow.arrived(*number);
        }
        follow.finish(sent)
    }

    #[test]
    fn each_fault_is_told_apart() {
        let none = Integrity::default();
        assert_eq!(follow(&[0, 1, 2], 3), none);
        assert_eq!(follow(&[0, 2], 3), Integrity { lost: 1, ..none });
        assert_eq!(follow(&[0, 1], 3), Integrity { lost: 1, ..none });
        assert_eq!(follow(&[0, 2, 1], 3), Integrity { reordered: 1, ..none });
        assert_eq!(follow(&[0, 1, 1, 2], 3), Integrity { duplicates: 1, ..none });
        assert_eq!(follow(&[0, 2, 1, 1], 3), Integrity { reordered: 1, duplicates: 1, ..none });
    }

    #[test]
    fn a_torn_message_is_not_lost_as_well() {
        let mut follow = Follow::default();
        follow.arrived(0);
        follow.torn();
        follow.arrived(2);
        assert_eq!(follow.finish(3), Integrity { torn: 1, ..Integrity::default() });
    }

    #[test]
    fn what_is_given_up_stays_lost_and_a_second_answer_is_a_double() {
        let mut follow = Follow::default();
        follow.arrived(0);
        follow.given_up();
        assert_eq!(follow.expected(), 2);
        follow.stray(1);
        follow.stray(0);
        follow.arrived(2);
        assert_eq!(follow.finish(3), Integrity { lost: 1, duplicates: 1, ..Integrity::default() });
    }

    proptest! {
        #[test]
        fn what_did_not_arrive_is_lost(arrives in prop::collection::vec(any::<bool>(), 0..10_000)) {
            let numbers: Vec<u64> = (0..).zip(&arrives).filter(|(_, a)| **a).map(|(n, _)| n).collect();
            let found = follow(&numbers, arrives.len() as u64);
            prop_assert_eq!(found, Integrity { lost: (arrives.len() - numbers.len()) as u64, ..Integrity::default() });
        }
    }

    #[test]
    fn blocks_are_complete_or_left_out() {
        let mut blocks = Blocks::new(3);
        for ns in [5, 1, 3, 10, 20, 30, 7] {
            blocks.add(ns);
        }
        let first = Block { min_ns: 1, mean_ns: 3.0, max_ns: 5 };
        assert_eq!(blocks.take(), [first, Block { min_ns: 10, mean_ns: 20.0, max_ns: 30 }]);
        assert_eq!(blocks.take(), []);
    }
}
