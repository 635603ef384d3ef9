//! Checks that every message arrived once, intact and in order.

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

/// The kind of an arrival.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Arrival {
    /// The expected message, or a later one: those in between may still arrive.
    New,
    /// An earlier message, missing until now.
    Late,
    /// A duplicate.
    Double,
}

impl Default for Follow {
    fn default() -> Self {
        Self { next: 0, seen: vec![false; WINDOW as usize], found: Integrity::default() }
    }
}

impl Follow {
    /// The expected number.
    #[inline]
    pub(super) fn expected(&self) -> u64 {
        self.next
    }

    /// Enters an intact message. Allocates nothing.
    #[inline]
    pub(super) fn arrived(&mut self, number: u64) -> Arrival {
        if number >= self.next {
            let gap = number - self.next;
            self.found.lost += gap;
            // A gap longer than the window clears the window.
            for missing in number.saturating_sub(gap.min(WINDOW - 1))..number {
                self.seen[(missing % WINDOW) as usize] = false;
            }
            self.seen[(number % WINDOW) as usize] = true;
            self.next = number + 1;
            return Arrival::New;
        }
        let seen = &mut self.seen[(number % WINDOW) as usize];
        if self.next - number <= WINDOW && !*seen {
            *seen = true;
            self.found.lost = self.found.lost.saturating_sub(1);
            self.found.reordered += 1;
            return Arrival::Late;
        }
        self.found.duplicates += 1;
        Arrival::Double
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

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
}
