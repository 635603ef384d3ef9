//! Blocks of consecutive messages: the smallest, the mean and the largest latency of each.

use punctual_record::experiment::ipc::Block;

/// Collects messages into blocks of one length.
#[derive(Debug, Clone)]
pub(super) struct Blocks {
    length: u64,
    in_block: u64,
    min_ns: i64,
    max_ns: i64,
    sum_ns: i64,
    complete: Vec<Block>,
}

/// Most blocks of a batch, and of a series. Further ones are dropped: nothing may be allocated while the clock runs.
pub(super) const MOST: usize = 4096;

impl Blocks {
    /// Blocks of `length` messages.
    pub(super) fn of(length: u64) -> Self {
        let complete = Vec::with_capacity(MOST);
        Self { length: length.max(1), in_block: 0, min_ns: i64::MAX, max_ns: i64::MIN, sum_ns: 0, complete }
    }

    /// Adds a message. Allocates nothing.
    #[inline]
    pub(super) fn add(&mut self, ns: i64) {
        self.min_ns = self.min_ns.min(ns);
        self.max_ns = self.max_ns.max(ns);
        self.sum_ns = self.sum_ns.saturating_add(ns);
        self.in_block += 1;
        if self.in_block == self.length {
            if self.complete.len() < MOST {
                let mean_ns = self.sum_ns as f64 / self.length as f64;
                self.complete.push(Block { min_ns: self.min_ns, mean_ns, max_ns: self.max_ns });
            }
            (self.in_block, self.min_ns, self.max_ns, self.sum_ns) = (0, i64::MAX, i64::MIN, 0);
        }
    }

    /// The blocks completed since the last call.
    pub(super) fn take(&mut self) -> Vec<Block> {
        self.complete.drain(..).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_complete_or_left_out() {
        let mut blocks = Blocks::of(3);
        for ns in [5, 1, 3, 10, 20, 30, 7] {
            blocks.add(ns);
        }
        let first = Block { min_ns: 1, mean_ns: 3.0, max_ns: 5 };
        assert_eq!(blocks.take(), [first, Block { min_ns: 10, mean_ns: 20.0, max_ns: 30 }]);
        assert_eq!(blocks.take(), []);
    }
}
