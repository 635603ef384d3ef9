//! How a real-time thread stays below what the kernel allows: it rests by itself, before RT throttling or the fair server takes its CPU
//! away for longer and looks like a late wake-up.
//!
//! In go the limits of the machine and the CPU time of the thread, out come the rests that it owes. No limit is changed.

use punctual_record::RtLimits;

/// From one look at the CPU time to the next: the kernel counts in periods of a second.
const WINDOW_NS: i64 = 50_000_000;
/// The part of what is allowed that a thread takes.
const PART: f64 = 0.9;
/// What the kernel keeps for other threads by default, by either limit; it is assumed where a limit cannot be read.
const KEPT: f64 = 0.05;

/// The share of its CPU that a real-time thread takes at most.
pub(super) fn share(limits: &RtLimits) -> f64 {
    let throttled = match limits.runtime_us.zip(limits.period_us) {
        Some((runtime, period)) if runtime >= 0 && period > 0 => runtime as f64 / period as f64,
        Some(_) => 1.0,
        None => 1.0 - KEPT,
    };
    let kept = limits.fair_server.map_or(KEPT, |server| server.runtime_ns as f64 / server.period_ns.max(1) as f64);
    PART * throttled.min(1.0 - kept).clamp(0.0, 1.0)
}

/// The account of a thread.
#[derive(Debug)]
pub(super) struct Rest {
    share: f64,
    /// The clock and the CPU time at the last look.
    since_ns: i64,
    used_ns: i64,
}

impl Rest {
    pub(super) fn new(share: f64, now_ns: i64, used_ns: i64) -> Self {
        Self { share, since_ns: now_ns, used_ns }
    }

    /// The rest that the thread owes; `None`: it had less than its share, or it is not yet time to look at its CPU time.
    #[inline]
    pub(super) fn owed(&mut self, now_ns: i64, used_ns: impl FnOnce() -> i64) -> Option<i64> {
        if now_ns - self.since_ns < WINDOW_NS {
            return None;
        }
        let used_ns = used_ns();
        let (lasted, used) = (now_ns - self.since_ns, used_ns - self.used_ns);
        // A share of nothing would be a rest without an end.
        let whole = used as f64 / self.share.max(0.1);
        let owed = whole as i64 - lasted;
        // The rest is for the time before it.
        (self.since_ns, self.used_ns) = (now_ns + owed.max(0), used_ns);
        (owed > 0).then_some(owed)
    }
}

#[cfg(test)]
mod tests {
    use punctual_record::FairServer;

    use super::*;

    #[test]
    fn the_stricter_limit_counts_and_an_unknown_one_as_the_usual() {
        let share_under = |runtime_us: Option<i64>, kept_ms: Option<u64>| {
            let server = |ms: u64| FairServer { runtime_ns: ms * 1_000_000, period_ns: 1_000_000_000 };
            let fair_server = kept_ms.map(server);
            share(&RtLimits { period_us: Some(1_000_000), runtime_us, fair_server, ..RtLimits::default() })
        };
        let is = |share: f64, expected: f64| assert!((share - expected * PART).abs() < 1e-9, "{share} {expected}");
        is(share_under(Some(950_000), None), 0.95);
        is(share_under(Some(500_000), Some(50)), 0.5);
        is(share_under(Some(-1), Some(100)), 0.9);
        is(share_under(Some(1_000_000), Some(0)), 1.0);
        is(share_under(None, None), 0.95);
        is(share_under(Some(-1), None), 0.95);
    }

    #[test]
    fn a_thread_rests_only_above_its_share() {
        let mut rest = Rest::new(0.8, 0, 0);
        assert_eq!(rest.owed(WINDOW_NS - 1, || panic!("not yet")), None);
        assert_eq!(rest.owed(50_000_000, || 40_000_000), None);
        assert_eq!(rest.owed(100_000_000, || 90_000_000), Some(12_500_000));
        assert_eq!(Rest::new(0.0, 0, 0).owed(WINDOW_NS, || WINDOW_NS), Some(9 * WINDOW_NS));
    }
}
