//! The mailbox that sender and receiver share, and the sender's main loop.
//!
//! Only one side writes each cache line. The sender waits for the reply before it sends the next message. So at most
//! one is in flight.

use std::sync::atomic::{AtomicI64, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use punctual::backoff::{Backoff, EventCount, Limits};
use punctual_linux::clock::{Clock, now_ns};
use punctual_linux::futex::{self, Scope};
use punctual_linux::memory::{CacheLine, Shared};
use punctual_record::statistics::Random;

/// Number and time of the newest message; number and round trip of the newest reply that the sender received.
type Sent = (AtomicU64, AtomicI64, AtomicU64, AtomicI64);
/// Number of the newest received message, and the sender's event count.
type Received = (AtomicU64, AtomicU32);
/// The receiver's event count.
type EventWord = AtomicU32;
/// Number of messages to send, and the shortest and longest pause before each in ns. The sender sleeps on the last
/// word.
type Orders = (AtomicU64, AtomicU64, AtomicU64, AtomicU32);

/// All words, on cache lines of their own.
type Words = (CacheLine<Sent>, CacheLine<Received>, CacheLine<EventWord>, CacheLine<Orders>);

/// The mailbox that sender and receiver share.
#[derive(Debug, Clone)]
pub(super) struct Mailbox(Shared<Words>);

/// Sleep of the idle sender between two checks that its parent lives.
const LOOK_NS: i64 = 1_000_000_000;

impl Mailbox {
    pub(super) fn new() -> punctual_linux::Result<Self> {
        Shared::new().map(Self)
    }

    fn sent(&self) -> &Sent {
        &self.0.0.0
    }

    fn received(&self) -> &Received {
        &self.0.1.0
    }

    fn orders(&self) -> &Orders {
        &self.0.3.0
    }

    /// The receiver's event count.
    pub(super) fn event(&self) -> EventCount<'_> {
        EventCount::shared(&self.0.2.0)
    }

    /// Orders `count` more messages, each after a pause between these two. Returns the number of the first.
    pub(super) fn order(&self, count: u64, pause: (Duration, Duration)) -> u64 {
        let orders = self.orders();
        orders.1.store(pause.0.as_nanos() as u64, Ordering::Relaxed);
        orders.2.store(pause.1.as_nanos() as u64, Ordering::Relaxed);
        let first = orders.0.fetch_add(count, Ordering::Release) + 1;
        orders.3.fetch_add(1, Ordering::Release);
        // It fails only for an unmapped address.
        drop(futex::wake(&orders.3, 1, Scope::Shared));
        first
    }

    /// One poll: whether message `number` has arrived.
    #[inline]
    pub(super) fn has(&self, number: u64) -> bool {
        self.sent().0.load(Ordering::Acquire) >= number
    }

    /// The time of the newest message.
    pub(super) fn sent_at(&self) -> i64 {
        self.sent().1.load(Ordering::Relaxed)
    }

    /// Replies to message `number`.
    pub(super) fn answer(&self, number: u64) {
        self.received().0.store(number, Ordering::Release);
        EventCount::shared(&self.received().1).notify();
    }

    /// The round trip of message `number`, if the sender knows it and has not sent the next one.
    pub(super) fn round_trip(&self, number: u64) -> Option<i64> {
        (self.sent().2.load(Ordering::Acquire) == number).then(|| self.sent().3.load(Ordering::Relaxed))
    }

    /// The sender's main loop: sends the ordered messages while the parent lives.
    ///
    /// With a CPU of its own it spins through pauses and replies, to be as punctual as possible. On the receiver's
    /// CPU it sleeps through both.
    pub(super) fn send_all(&self, own_cpu: bool, parent_lives: impl Fn() -> bool) {
        let mut number = 0;
        // Pauses independent of the receiver's rhythm, and the same in every run.
        let mut random = Random::new(0x9e37_79b9_7f4a_7c15);
        let limits = if own_cpu { Limits::SPIN } else { Limits::PARK };
        let mut backoff = Backoff::new(limits);
        while parent_lives() {
            let word = self.orders().3.load(Ordering::Acquire);
            if number == self.orders().0.load(Ordering::Acquire) {
                drop(futex::wait(&self.orders().3, word, Scope::Shared, Some(now_ns(Clock::Monotonic) + LOOK_NS)));
                continue;
            }
            let (least, most) = (self.orders().1.load(Ordering::Relaxed), self.orders().2.load(Ordering::Relaxed));
            pause(random.between(least, most), own_cpu);
            number += 1;
            if !self.send(number, &mut backoff, &parent_lives) {
                return;
            }
        }
    }

    /// Sends one message and waits for its reply. False: the parent is gone.
    fn send(&self, number: u64, backoff: &mut Backoff, parent_lives: &impl Fn() -> bool) -> bool {
        let sent = now_ns(Clock::Monotonic);
        self.sent().1.store(sent, Ordering::Relaxed);
        self.sent().0.store(number, Ordering::Release);
        self.event().notify();
        let received = self.received();
        let reply = || (received.0.load(Ordering::Acquire) >= number).then(|| now_ns(Clock::Monotonic));
        loop {
            if let Some(back) =
                backoff.wait_for_at_most(EventCount::shared(&received.1), Duration::from_millis(100), reply)
            {
                self.sent().3.store(back - sent, Ordering::Relaxed);
                self.sent().2.store(number, Ordering::Release);
                return true;
            }
            if !parent_lives() {
                return false;
            }
        }
    }
}

fn pause(ns: u64, spin: bool) {
    if !spin {
        return std::thread::sleep(Duration::from_nanos(ns));
    }
    let until = now_ns(Clock::Monotonic).saturating_add(ns as i64);
    while now_ns(Clock::Monotonic) < until {
        std::hint::spin_loop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_ordered_is_sent_once_and_answered() {
        let mailbox = Mailbox::new().unwrap();
        let theirs = mailbox.clone();
        let end = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
        let ended = std::sync::Arc::clone(&end);
        let sender = std::thread::spawn(move || theirs.send_all(false, || !ended.load(Ordering::Relaxed)));
        let pause = (Duration::from_micros(1), Duration::from_micros(50));
        for _ in 0..3 {
            let first = mailbox.order(100, pause);
            for number in first..first + 100 {
                while !mailbox.has(number) {
                    std::thread::yield_now();
                }
                assert!(!mailbox.has(number + 1));
                assert!(mailbox.sent_at() <= now_ns(Clock::Monotonic));
                mailbox.answer(number);
            }
            while mailbox.round_trip(first + 99).is_none() {
                std::thread::yield_now();
            }
        }
        assert!(!mailbox.has(301));
        end.store(true, Ordering::Relaxed);
        sender.join().unwrap();
    }
}
