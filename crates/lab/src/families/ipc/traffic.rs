//! The kinds of traffic, and the due time of each message.

use std::fmt;
use std::time::Duration;

use punctual::format_duration;
use punctual_linux as linux;
use punctual_linux::clock::{Clock, now_ns};
use punctual_record::experiment::ipc;

/// The traffic of messages.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Mode {
    /// One at a time at a fixed interval, on an absolute clock.
    Sporadic {
        /// Interval of the messages.
        every: Duration,
    },
    /// As fast as the receiver takes them.
    Saturated,
    /// Ping-pong: back and forth, one at a time.
    PingPong,
    /// At a fixed rate, whether the last message was received or not.
    Rate {
        /// Messages per second.
        per_second: f64,
    },
}

impl Mode {
    /// The name of its kind in the record.
    #[must_use]
    pub const fn kind(self) -> ipc::Mode {
        match self {
            Self::Sporadic { .. } => ipc::Mode::Sporadic,
            Self::Saturated => ipc::Mode::Saturated,
            Self::PingPong => ipc::Mode::PingPong,
            Self::Rate { .. } => ipc::Mode::Rate,
        }
    }

    /// The interval of the messages, if it is fixed.
    #[must_use]
    pub fn interval(self) -> Option<Duration> {
        match self {
            Self::Sporadic { every } => Some(every),
            Self::Rate { per_second } => Some(Duration::from_secs_f64(1.0 / per_second)),
            Self::Saturated | Self::PingPong => None,
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sporadic { every } => write!(f, "one every {}", format_duration(*every)),
            Self::Rate { per_second } => write!(f, "{per_second} a second"),
            other => f.write_str(other.kind().name()),
        }
    }
}

/// Interval of the warm-up messages of a sporadic series.
const WARMING_NS: i64 = 1_000_000;
/// A wake-up is rarely later than this. The sender spins for the rest of the time, to send the message when it is
/// due.
const AWAKE_NS: i64 = 200_000;

/// Computes when each message is to be sent, and waits until then.
#[derive(Debug, Clone)]
pub(super) struct Pace {
    interval_ns: Option<f64>,
    /// Latency counts from the due time.
    from_due: bool,
    /// Spins at the end, which would disturb a receiver on the same CPU.
    awake: bool,
    warmup: u64,
    begin_ns: i64,
    late: u64,
}

impl Pace {
    /// Begins now. The first `warmup` messages come quickly and do not count.
    pub(super) fn begin(mode: Mode, warmup: u64, same_cpu: bool) -> Self {
        let interval_ns = mode.interval().map(|d| d.as_nanos() as f64);
        let from_due = matches!(mode, Mode::Rate { .. });
        Self {
            interval_ns,
            from_due,
            awake: from_due && !same_cpu,
            warmup,
            begin_ns: now_ns(Clock::Monotonic),
            late: 0,
        }
    }

    /// The due time of message `number`. None: as soon as possible.
    fn due_ns(&self, number: u64) -> Option<i64> {
        let interval = self.interval_ns?;
        let number = number as f64;
        // The first message that counts comes a whole interval after the last warm-up message, like any other.
        let last_warming = self.warmup.saturating_sub(1) as f64;
        let spacing = interval.min(WARMING_NS as f64);
        let since = number.min(last_warming) * spacing + (number - last_warming).max(0.0) * interval;
        Some(self.begin_ns + since as i64)
    }

    /// Waits until message `number` is due. Returns the time from which its latency counts: the due time, or (none)
    /// now.
    pub(super) fn wait(&mut self, number: u64) -> Option<i64> {
        let due = self.due_ns(number)?;
        let asleep_until = if self.awake { due - AWAKE_NS } else { due };
        while now_ns(Clock::Monotonic) < asleep_until {
            if linux::sleep::clock_nanosleep_until(Clock::Monotonic, asleep_until).is_err() {
                break;
            }
        }
        let mut now = now_ns(Clock::Monotonic);
        while now < due {
            std::hint::spin_loop();
            now = now_ns(Clock::Monotonic);
        }
        let interval = self.interval_ns.unwrap_or(f64::INFINITY);
        if number >= self.warmup && (now - due) as f64 >= interval {
            self.late += 1;
        }
        self.from_due.then_some(due)
    }

    /// Number of messages that counted and were sent at least a whole interval late.
    pub(super) fn late(&self) -> u64 {
        self.late
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_due_at_multiples_of_the_interval() {
        let mut pace = Pace::begin(Mode::Rate { per_second: 1000.0 }, 2, true);
        pace.begin_ns = 0;
        let due: Vec<_> = (0..5).map(|n| pace.due_ns(n).unwrap()).collect();
        assert_eq!(due, [0, 1_000_000, 2_000_000, 3_000_000, 4_000_000]);
        let mut slow = Pace::begin(Mode::Sporadic { every: Duration::from_secs(1) }, 2, false);
        slow.begin_ns = 0;
        assert_eq!(
            (slow.due_ns(1), slow.due_ns(2), slow.due_ns(3)),
            (Some(1_000_000), Some(1_001_000_000), Some(2_001_000_000))
        );
    }

    #[test]
    fn never_early_and_late_ones_are_counted() {
        let mut pace = Pace::begin(Mode::Rate { per_second: 10_000.0 }, 0, false);
        for number in 0..20 {
            let due = pace.wait(number).unwrap();
            assert!(now_ns(Clock::Monotonic) >= due);
        }
        let before = pace.late();
        std::thread::sleep(Duration::from_millis(5));
        pace.wait(20);
        assert_eq!(pace.late(), before + 1);
        assert_eq!(Pace::begin(Mode::Saturated, 0, false).wait(7), None);
    }
}
