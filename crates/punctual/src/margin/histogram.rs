//! A histogram of wake-up latencies with exponential forgetting: forty bins in 84 bytes.

/// Bins: ten octaves of four bins.
const BINS: usize = 40;
/// Upper edge of the first bin as a power of two: 512 ns. No kernel wakes a thread from a timer faster.
const LOWEST_BITS: u32 = 9;
/// The weight of a new latency. A weight of eight lasts for three halvings.
const WEIGHT: u16 = 8;

/// Most latencies remembered: keeps every count below 65536.
pub(super) const LONGEST_MEMORY: u16 = 4_000;

/// The upper edge of the last bin: 512 µs.
pub(crate) const HIGHEST_NS: u32 = lower_edge(BINS);

/// The edges of all bins.
const EDGES: [u32; BINS + 1] = {
    let mut edges = [0; BINS + 1];
    let mut bin = 0;
    while bin <= BINS {
        edges[bin] = lower_edge(bin);
        bin += 1;
    }
    edges
};

/// Latencies by size. A bin is a quarter of an octave wide: its edges differ by 14 to 25 %.
#[derive(Debug, Clone)]
pub(crate) struct Histogram {
    bins: [u16; BINS],
    /// Sum of the bins: at most the weight of 2 × 4000 latencies, plus one.
    total: u16,
    /// Weight of the latencies above the last bin or the cap; not part of `total`.
    beyond: u16,
}

/// Lower edge of a bin; the first bin starts at zero.
const fn lower_edge(bin: usize) -> u32 {
    if bin == 0 { 0 } else { (4 + bin as u32 % 4) << (bin as u32 / 4 + LOWEST_BITS - 2) }
}

fn bin_of(ns: u32) -> usize {
    if ns >> LOWEST_BITS == 0 {
        return 0;
    }
    let octave = ns.ilog2() - LOWEST_BITS;
    let quarter = (ns >> (octave + LOWEST_BITS - 2)) & 3;
    ((octave * 4 + quarter) as usize).min(BINS - 1)
}

impl Histogram {
    pub(crate) const fn new() -> Self {
        Self { bins: [0; BINS], total: 0, beyond: 0 }
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.total == 0
    }

    /// The number of latencies remembered.
    pub(crate) const fn samples(&self) -> u32 {
        (self.total / WEIGHT) as u32
    }

    /// Adds a latency below [`HIGHEST_NS`]. Halves all counts whenever they reach `2 × memory` latencies.
    pub(crate) fn add(&mut self, ns: u32, memory: u16) {
        self.bins[bin_of(ns)] += WEIGHT;
        self.total += WEIGHT;
        // At most 64 000.
        if self.total >= 2 * memory.min(LONGEST_MEMORY) * WEIGHT {
            self.forget_half();
        }
    }

    /// Adds a latency that no margin can make up for.
    pub(super) fn add_beyond(&mut self) {
        self.beyond = (self.beyond + WEIGHT).min(self.total);
    }

    /// The share of latencies that no margin can make up for, 0 to 0.5.
    pub(super) fn beyond(&self) -> f32 {
        f32::from(self.beyond) / (f32::from(self.total) + f32::from(self.beyond)).max(1.0)
    }

    pub(super) fn forget_half(&mut self) {
        self.total = 0;
        self.beyond /= 2;
        for bin in &mut self.bins {
            *bin /= 2;
            self.total += *bin;
        }
    }

    /// The latency in ns exceeded by a share `above` (0 to 1) of the latencies, interpolated within its bin. Zero if empty.
    pub(crate) fn exceeded_by(&self, above: f32) -> u32 {
        let tail = f32::from(self.total) * above;
        let most = tail as u32;
        let mut over = 0;
        for (bin, &count) in self.bins.iter().enumerate().rev() {
            if over + u32::from(count) > most {
                let (low, high) = (EDGES[bin], EDGES[bin + 1]);
                return high - ((tail - over as f32) / f32::from(count) * (high - low) as f32) as u32;
            }
            over += u32::from(count);
        }
        0
    }

    /// The margin m that spins for `mean_ns` on average: E[(m − latency)⁺] = `mean_ns`. At most the largest latency, since a longer margin
    /// gains nothing.
    pub(super) fn margin_spinning(&self, mean_ns: f32) -> u32 {
        let (mut below, mut spun, mut margin) = (0.0_f32, 0.0_f32, 0);
        let mut left = self.total;
        for (bin, &count) in self.bins.iter().enumerate() {
            let (low, high) = (EDGES[bin], EDGES[bin + 1]);
            // Latencies lie evenly within a bin, so its own count half.
            let rate = (below + f32::from(count) / 2.0) / f32::from(self.total);
            let width = (high - low) as f32;
            if rate > 0.0 && spun + rate * width >= mean_ns {
                return low + ((mean_ns - spun) / rate) as u32;
            }
            spun += rate * width;
            below += f32::from(count);
            left -= count;
            margin = high;
            if left == 0 {
                break;
            }
        }
        margin
    }
}

impl Histogram {
    /// The margin with the least mean cost of spinning plus `price_ns` per late wait; and that cost in ns.
    pub(super) fn cheapest_margin(&self, price_ns: u32) -> (u32, u32) {
        // All costs are twice the sums over all latencies, until the end: integers below 2^52.
        let price = 2 * u64::from(price_ns);
        let mut left = u64::from(self.total);
        let (mut best, mut best_cost) = (0, price * left);
        let (mut below, mut spun) = (0_u64, 0_u64);
        // A margin below the smallest latency avoids nothing: it costs the same as no margin.
        let first = self.bins.iter().position(|&count| count > 0).unwrap_or(BINS);
        for bin in first..BINS {
            if left == 0 {
                break;
            }
            let (count, high) = (u64::from(self.bins[bin]), EDGES[bin + 1]);
            // Latencies lie evenly within a bin, so its own count half.
            spun += (2 * below + count) * u64::from(high - EDGES[bin]);
            below += count;
            left -= count;
            let cost = spun + price * left;
            if cost < best_cost {
                (best, best_cost) = (high, cost);
            }
        }
        (best, (best_cost / (2 * u64::from(self.total.max(1)))) as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn bins_touch_and_hold_what_they_should() {
        for bin in 0..BINS {
            assert!(lower_edge(bin) < lower_edge(bin + 1));
            assert_eq!(bin_of(lower_edge(bin)), bin);
            assert_eq!(bin_of(lower_edge(bin + 1) - 1), bin);
        }
        assert_eq!(HIGHEST_NS, 1 << 19);
    }

    proptest! {
        /// The quantile lies within a bin's width (25 %) of the exact one.
        #[test]
        fn quantiles_are_near(mut seen in prop::collection::vec(600_u32..500_000, 50..300), above in 0.005_f32..0.5) {
            let mut histogram = Histogram::new();
            for &ns in &seen {
                histogram.add(ns, LONGEST_MEMORY);
            }
            seen.sort_unstable();
            let rank = (seen.len() as f32 * (1.0 - above)).ceil() as usize;
            let exact = seen[rank.clamp(1, seen.len()) - 1] as f32;
            let near = histogram.exceeded_by(above) as f32;
            prop_assert!(near >= exact / 1.26 && near <= exact * 1.26, "{near} for {exact}");
        }

        /// What a margin is said to spin is what it spins, to a bin's width.
        #[test]
        fn spinning_is_as_said(seen in prop::collection::vec(1_000_u32..100_000, 50..300), mean in 100.0_f32..50_000.0) {
            let mut histogram = Histogram::new();
            for &ns in &seen {
                histogram.add(ns, LONGEST_MEMORY);
            }
            let margin = histogram.margin_spinning(mean);
            let spun = seen.iter().map(|&ns| f64::from(margin.saturating_sub(ns))).sum::<f64>() / seen.len() as f64;
            let top = seen.iter().max().copied().unwrap_or(0);
            let capped = margin > top;
            prop_assert!(spun <= f64::from(mean) * 1.3 + 2_000.0, "{spun} for {mean}");
            prop_assert!(capped || spun >= f64::from(mean) * 0.7 - 2_000.0, "{spun} for {mean}");
        }
    }

    #[test]
    fn half_is_forgotten_and_the_rest_stays() {
        let mut histogram = Histogram::new();
        for _ in 0..99 {
            histogram.add(20_000, 100);
        }
        histogram.add(200_000, 100);
        assert!(histogram.exceeded_by(0.005) > 190_000);
        for _ in 0..2_000 {
            histogram.add(20_000, 100);
        }
        assert!(histogram.exceeded_by(0.005) < 25_000, "an outlier is forgotten");
    }
}
