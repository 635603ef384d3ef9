//! When a sequence of loops has settled at a speed.

/// Loops within this share of the target count as arrived. 5 % is well above the work's own variation, and below
/// the step between two P-states.
pub(crate) const CLOSE: f64 = 0.05;
/// This many loops in a row must have arrived: a single quick loop is no arrival.
const IN_A_ROW: usize = 3;

/// The index of the first loop from which [`IN_A_ROW`] loops take at most [`CLOSE`] longer than `target_ns`. If the
/// target is slower than the loops before, they must differ from it by at most that.
pub(crate) fn arrival(durations: &[i64], target_ns: i64, from_faster: bool) -> Option<usize> {
    let (low, high) = ((target_ns as f64) * (1.0 - CLOSE), (target_ns as f64) * (1.0 + CLOSE));
    let there = |&ns: &i64| (ns as f64) <= high && (!from_faster || (ns as f64) >= low);
    let needed = IN_A_ROW.min(durations.len());
    (needed > 0).then(|| durations.windows(needed).position(|row| row.iter().all(there)))?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn six_slow_loops_and_then_full_speed() {
        let mut loops = vec![1797; 6];
        loops.extend([760; 94]);
        assert_eq!(arrival(&loops, 753, false), Some(6));
    }

    #[test]
    fn one_lucky_loop_is_no_arrival() {
        assert_eq!(arrival(&[1800, 760, 1800, 1800, 1800], 753, false), None);
        assert_eq!(arrival(&[1800, 760, 755, 760, 1800], 753, false), Some(1));
    }

    #[test]
    fn slowing_down_passes_through_faster_loops() {
        assert_eq!(arrival(&[750, 750, 750, 1200, 1790, 1800, 1810], 1800, true), Some(4));
        assert_eq!(arrival(&[750, 750, 750], 1800, false), Some(0));
    }

    #[test]
    fn few_loops_and_none() {
        assert_eq!(arrival(&[750], 750, false), Some(0));
        assert_eq!(arrival(&[], 750, false), None);
    }
}
