//! What a row of stamped loops says of a switch in their middle.

use crate::governor::settle::{CLOSE, arrival, median};

/// What was seen of a switch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Seen {
    /// A loop's duration before it.
    pub(super) before_ns: Option<i64>,
    /// A loop's duration long after it.
    pub(super) after_ns: Option<i64>,
    /// From the beginning of the write to the beginning of the first loop at the new speed. `None`: the speeds do not differ, or it was not
    /// reached.
    pub(super) settled_ns: Option<i64>,
}

/// `loops`: when each ended and how long it took; `written_ns`: when the write began.
pub(super) fn analyse(loops: &[(i64, i64)], written_ns: i64) -> Seen {
    let begins_after = |&&(end, duration): &&(i64, i64)| end - duration >= written_ns;
    let before: Vec<i64> = loops.iter().filter(|(end, _)| *end <= written_ns).map(|(_, duration)| *duration).collect();
    let after: Vec<(i64, i64)> = loops.iter().filter(begins_after).copied().collect();
    let durations: Vec<i64> = after.iter().map(|(_, duration)| *duration).collect();
    // The last half has settled if anything has: it begins tens of milliseconds after the write.
    let levels = (median(&before), median(&durations[durations.len() / 2..]));
    let (Some(old), Some(new)) = levels else {
        return Seen { before_ns: levels.0, after_ns: levels.1, settled_ns: None };
    };
    let differ = (old - new).abs() as f64 > 2.0 * CLOSE * old.min(new) as f64;
    let at = if differ { arrival(&durations, new, old < new) } else { None };
    let settled_ns = at.map(|index| after[index].0 - after[index].1 - written_ns);
    Seen { before_ns: Some(old), after_ns: Some(new), settled_ns }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Loops of these durations, one after the other, from time 0.
    fn loops(durations: &[i64]) -> Vec<(i64, i64)> {
        let mut end = 0;
        durations.iter().map(|&duration| (end += duration, (end, duration)).1).collect()
    }

    #[test]
    fn speeding_up_three_loops_after_the_write() {
        let mut durations = vec![150; 10];
        durations.extend([150, 150, 150]);
        durations.extend([50; 20]);
        let seen = analyse(&loops(&durations), 1500);
        assert_eq!(seen, Seen { before_ns: Some(150), after_ns: Some(50), settled_ns: Some(450) });
    }

    #[test]
    fn slowing_down_at_once() {
        let mut durations = vec![50; 10];
        durations.extend([150; 20]);
        assert_eq!(analyse(&loops(&durations), 500).settled_ns, Some(0));
    }

    #[test]
    fn a_speed_that_does_not_change_settles_nowhere() {
        let seen = analyse(&loops(&[50; 40]), 1000);
        assert_eq!((seen.before_ns, seen.after_ns, seen.settled_ns), (Some(50), Some(50), None));
        assert_eq!(analyse(&[], 0), Seen::default());
    }
}
