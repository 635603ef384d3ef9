//! The oracle knows every wake-up in advance. It chooses the fixed margin that spins least for no more late waits.

/// One wake-up of a hybrid sleep.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct WakeUp {
    /// Latency of the wake-up.
    pub(super) latency_ns: i64,
    /// Duration of the spin.
    pub(super) spun_ns: i64,
}

/// CPU time per wait of the oracle, if the waits took `cpu_ns` each: all but the spinning is unchanged.
pub(super) fn cpu_ns(wake_ups: &[WakeUp], cpu_ns: f64, late_ns: i64) -> Option<f64> {
    let n = wake_ups.len();
    if n == 0 {
        return None;
    }
    // A wait is late if no time was left to spin.
    let late = wake_ups.iter().filter(|w| w.spun_ns == 0).count();
    let spun = wake_ups.iter().map(|w| w.spun_ns).sum::<i64>() as f64 / n as f64;
    let mut latencies: Vec<i64> = wake_ups.iter().map(|w| w.latency_ns).collect();
    latencies.sort_unstable();
    let margin = (latencies[(n - 1).saturating_sub(late)] - late_ns).max(0);
    let least = latencies.iter().map(|latency| (margin - latency).max(0)).sum::<i64>() as f64 / n as f64;
    Some((cpu_ns - spun).max(0.0) + least)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_oracle_spins_no_more_than_needed() {
        // Latencies of 10 to 19 us and a margin of 30 us. Every wait spun 11 to 20 us, none was late.
        let wake_ups: Vec<WakeUp> =
            (10..20).map(|us| WakeUp { latency_ns: us * 1_000, spun_ns: 30_000 - us * 1_000 }).collect();
        // The oracle's margin is 18 us: 0, 0, 1, ... 8 us of spinning, 3.6 us on average.
        let least = cpu_ns(&wake_ups, 18_500.0, 1_000).unwrap();
        assert!((least - (3_000.0 + 3_600.0)).abs() < 1.0, "{least}");
        assert_eq!(cpu_ns(&[], 1.0, 1_000), None);
    }
}
