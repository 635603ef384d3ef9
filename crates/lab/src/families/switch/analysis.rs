//! Analysis of a series of stamped loops with a switch in the middle.

use crate::frame::figures::middle;
use crate::speed::settle::{CLOSE, arrival};

/// The observations of a switch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Seen {
    /// Duration of a loop before the switch.
    pub(super) before_ns: Option<i64>,
    /// Duration of a loop long after the switch.
    pub(super) after_ns: Option<i64>,
    /// Time from the beginning of the write to the beginning of the first loop at the new speed. `None`: the speeds
    /// do not differ, or the new one was not reached.
    pub(super) settled_ns: Option<i64>,
}

/// One switch, as observed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Switch {
    /// Index of the new governor.
    pub(super) to: usize,
    pub(super) round: u32,
    pub(super) write_ns: i64,
    pub(super) seen: Seen,
}

/// All switches that count.
#[derive(Debug, Clone, Default)]
pub(crate) struct Extra {
    pub(super) switches: Vec<Switch>,
    pub(super) rounds: u32,
}

/// `loops`: end and duration of each loop. `written_ns`: the beginning of the write.
pub(super) fn analyse(loops: &[(i64, i64)], written_ns: i64) -> Seen {
    let begins_after = |&&(end, duration): &&(i64, i64)| end - duration >= written_ns;
    let before: Vec<i64> = loops.iter().filter(|(end, _)| *end <= written_ns).map(|(_, duration)| *duration).collect();
    let after: Vec<(i64, i64)> = loops.iter().filter(begins_after).copied().collect();
    let durations: Vec<i64> = after.iter().map(|(_, duration)| *duration).collect();
    // The last half is settled if any part is: it begins tens of milliseconds after the write.
    let levels = (middle(&before), middle(&durations[durations.len() / 2..]));
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

    /// Consecutive loops of these durations, from time 0.
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
