//! Times in small, growing histograms.

use hdrhistogram::Histogram;
use punctual_record::Spread;

/// Fewer values do not support a 99th percentile.
const FOR_P99: u64 = 100;

/// Percentiles within 0.1 %, and the exact sum.
#[derive(Debug, Clone)]
pub(crate) struct Times {
    histogram: Histogram<u32>,
    total_ns: u64,
}

impl Default for Times {
    fn default() -> Self {
        let mut histogram = Histogram::new(3).expect("three digits are possible");
        histogram.auto(true);
        Self { histogram, total_ns: 0 }
    }
}

impl Times {
    pub(crate) fn add(&mut self, ns: u64) {
        // It grows as needed; an hour is enough for a wake-up, and what is longer counts as one.
        let _ = self.histogram.record(ns.min(3_600_000_000_000));
        self.total_ns = self.total_ns.saturating_add(ns);
    }

    pub(crate) fn spread(&self) -> Spread {
        let count = self.histogram.len();
        Spread {
            count,
            total_ns: self.total_ns,
            p50_ns: self.histogram.value_at_quantile(0.5),
            p99_ns: (count >= FOR_P99).then(|| self.histogram.value_at_quantile(0.99)),
            max_ns: self.histogram.max(),
        }
    }

    /// None if nothing was added.
    pub(crate) fn some(&self) -> Option<Spread> {
        (!self.histogram.is_empty()).then(|| self.spread())
    }
}
