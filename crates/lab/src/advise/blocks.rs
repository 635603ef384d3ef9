//! The wake-ups of each block.
//!
//! A wake-up belongs to a block if its whole call does. The timer of a call that began earlier has the earlier setting.

use punctual_record::{Spread, TrialBlock};
use punctual_trace::WakeUp;

use super::thread::Spent;

/// Fewer values do not support a 99th percentile.
const FOR_P99: usize = 100;
/// Most wake-ups of a block that count.
const MOST: usize = 1 << 18;
/// Events of a block are read within as many blocks after it.
const LATER: usize = 2;

/// A block.
#[derive(Debug, Default)]
struct Block {
    from_ns: u64,
    to_ns: u64,
    spent: Spent,
    /// By timers, and by others.
    late_ns: [Vec<u64>; 2],
    spreads: [Option<Spread>; 2],
}

/// All blocks in the order of time.
#[derive(Debug, Default)]
pub(super) struct Blocks(Vec<Block>);

impl Blocks {
    /// A block begins. Returns its number.
    pub(super) fn begin(&mut self, from_ns: u64) -> usize {
        let old = self.0.len().saturating_sub(LATER);
        // Small figures instead of all wake-ups.
        self.0[..old].iter_mut().rev().take_while(|block| block.spreads == [None; 2]).for_each(Block::close);
        self.0.push(Block { from_ns, to_ns: u64::MAX, ..Block::default() });
        self.0.len() - 1
    }

    /// It ends.
    pub(super) fn end(&mut self, to_ns: u64, spent: Spent) {
        if let Some(block) = self.0.last_mut() {
            (block.to_ns, block.spent) = (to_ns, spent);
        }
    }

    /// Takes wake-ups in; those between two blocks are dropped.
    pub(super) fn take(&mut self, wake_ups: &[WakeUp]) {
        for wake_up in wake_ups {
            let holds = |block: &&mut Block| block.from_ns <= wake_up.entered_ns && wake_up.returned_ns <= block.to_ns;
            if let Some(block) = self.0.iter_mut().rev().take(LATER + 1).find(holds) {
                let values = &mut block.late_ns[usize::from(!wake_up.timed)];
                if values.len() < MOST {
                    values.push(wake_up.late_ns);
                }
            }
        }
    }

    /// The results of a block.
    pub(super) fn block(&mut self, number: usize) -> TrialBlock {
        let block = &mut self.0[number];
        block.close();
        let [timer, other] = block.spreads;
        let Spent { cpu_ns, run_delay_ns, stolen_ns } = block.spent;
        TrialBlock { ns: block.to_ns.saturating_sub(block.from_ns), cpu_ns, run_delay_ns, stolen_ns, timer, other }
    }
}

impl Block {
    fn close(&mut self) {
        for (values, spread) in self.late_ns.iter_mut().zip(&mut self.spreads) {
            *spread = spread.take().or_else(|| spread_among(std::mem::take(values)));
        }
    }
}

fn spread_among(mut values: Vec<u64>) -> Option<Spread> {
    values.sort_unstable();
    let count = values.len();
    // The smallest value that this share of them does not exceed.
    let at = |percent: usize| values[(count * percent).div_ceil(100) - 1];
    Some(Spread {
        count: count as u64,
        total_ns: values.iter().fold(0, |sum, ns| u64::saturating_add(sum, *ns)),
        max_ns: *values.last()?,
        p50_ns: at(50),
        p99_ns: (count >= FOR_P99).then(|| at(99)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wake_up(entered_ns: u64, returned_ns: u64, late_ns: u64, timed: bool) -> WakeUp {
        WakeUp { entered_ns, returned_ns, late_ns, timed }
    }

    #[test]
    fn a_call_counts_in_the_block_that_has_all_of_it() {
        let mut blocks = Blocks::default();
        let first = blocks.begin(1000);
        blocks.take(&[wake_up(990, 1100, 9, true), wake_up(1000, 1100, 1, true), wake_up(1010, 1100, 2, false)]);
        blocks.end(2000, Spent { cpu_ns: Some(5), ..Spent::default() });
        let second = blocks.begin(2100);
        // Read later, and across the boundary.
        blocks.take(&[wake_up(1500, 1600, 3, true), wake_up(1900, 2200, 8, true), wake_up(2100, 2200, 4, true)]);
        blocks.end(3000, Spent::default());
        let [one, two] = [first, second].map(|number| blocks.block(number));
        let figures = |block: &TrialBlock| {
            block.timer.map(|spread| (spread.count, spread.total_ns, spread.p50_ns, spread.max_ns))
        };
        assert_eq!(figures(&one), Some((2, 4, 1, 3)));
        assert_eq!(one.other.map(|spread| spread.count), Some(1));
        assert_eq!((figures(&two), two.other, two.ns), (Some((1, 4, 4, 4)), None, 900));
        assert_eq!((one.cpu_ns, two.cpu_ns), (Some(5), None));
    }

    #[test]
    fn percentiles_are_ranks_and_need_their_number() {
        let spread = spread_among((1..=100).rev().collect()).unwrap();
        assert_eq!((spread.p50_ns, spread.p99_ns, spread.max_ns), (50, Some(99), 100));
        assert_eq!(spread_among((1..=99).collect()).unwrap().p99_ns, None);
        assert_eq!(spread_among(Vec::new()), None);
    }

    #[test]
    fn what_is_over_is_kept_as_figures() {
        let mut blocks = Blocks::default();
        for number in 0..10 {
            let from = number * 1000;
            assert_eq!(blocks.begin(from), number as usize);
            blocks.take(&[wake_up(from, from + 10, number + 1, true)]);
            blocks.end(from + 900, Spent::default());
        }
        assert!(blocks.0[..7].iter().all(|block| block.late_ns[0].is_empty()));
        assert!((0..10).all(|number| blocks.block(number).timer.unwrap().max_ns == number as u64 + 1));
    }
}
