//! Figures beside the samples: CPU time and context switches of the measuring thread, read before and after a stretch of
//! operations ([`Meter`]), and statistics that a few disturbed values do not change ([`median_with_interval`]).

use punctual_linux::clock::{Clock, now_ns};
use punctual_linux::usage as kernel;
use punctual_record::statistics::{confidence_ranks, median};
use punctual_record::{Quantile, Usage};

/// Readings at the beginning of a stretch.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Meter {
    wall_ns: i64,
    cpu_ns: i64,
    switches: Option<(u64, u64)>,
}

impl Meter {
    /// Reads the thread's usage so far.
    pub(crate) fn start() -> Self {
        let switches = switches();
        Self { switches, wall_ns: now_ns(Clock::Monotonic), cpu_ns: now_ns(Clock::ThreadCpu) }
    }

    /// The usage since the start.
    pub(crate) fn stop(self) -> Usage {
        let cpu_ns = now_ns(Clock::ThreadCpu);
        let wall_ns = now_ns(Clock::Monotonic);
        let switches = self.switches.zip(switches());
        Usage {
            elapsed_ns: (wall_ns - self.wall_ns).unsigned_abs(),
            cpu_ns: Some((cpu_ns - self.cpu_ns).unsigned_abs()),
            voluntary: switches.map(|(before, after)| after.0 - before.0),
            involuntary: switches.map(|(before, after)| after.1 - before.1),
        }
    }
}

/// Voluntary and involuntary context switches of this thread so far, if the kernel reports them.
fn switches() -> Option<(u64, u64)> {
    kernel::thread_usage().ok().map(|u| (u.voluntary_switches.unsigned_abs(), u.involuntary_switches.unsigned_abs()))
}

/// Longest stretch of operations before others get the CPU: a fifth of the delay that a terminal user notices.
const STRETCH_NS: u64 = 20_000_000;

/// How many operations fit into the next stretch, from those done: at most eight times as many.
pub(crate) fn next_stretch(done: u64, elapsed_ns: u64) -> u64 {
    (STRETCH_NS / (elapsed_ns / done.max(1)).max(1)).clamp(1, done.saturating_mul(8))
}

/// The usage of several stretches together. A figure unknown in one stretch is unknown in the sum.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Sum(Option<Usage>);

impl Sum {
    /// Adds the usage of a stretch.
    pub(crate) fn add(&mut self, used: Usage) {
        self.0 = Some(self.0.map_or(used, |sum| sum.plus(used)));
    }

    /// The sum; all unknown if no stretch was added.
    pub(crate) fn usage(self) -> Usage {
        self.0.unwrap_or_default()
    }
}

/// The quantile, interpolated between the two nearest values; `None` for no values. Reorders the values.
pub(crate) fn quantile(values: &mut [f64], q: f64) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let at = q * values.len().checked_sub(1)? as f64;
    let (low, high) = (at.floor() as usize, at.ceil() as usize);
    Some(values[low] + (values[high] - values[low]) * at.fract())
}

/// The median, and its 95 % confidence interval if there are enough values (6).
pub(crate) fn median_with_interval(values: &[f64]) -> Option<(f64, Option<(f64, f64)>)> {
    let middle = median(values)?;
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let ranks = confidence_ranks(sorted.len() as u64, Quantile::P50);
    Some((middle, ranks.map(|ranks| (sorted[ranks.low as usize - 1], sorted[ranks.high as usize - 1]))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_values_and_none() {
        assert_eq!(quantile(&mut [1.0, 2.0, 4.0], 0.75), Some(3.0));
        assert_eq!(median_with_interval(&[3.0, 1.0, 2.0]), Some((2.0, None)));
        assert_eq!(median_with_interval(&[6.0, 1.0, 2.0, 5.0, 4.0, 3.0]), Some((3.5, Some((1.0, 6.0)))));
    }
}
