//! Blocks of messages: minimum, maximum and mean of each, printed as a line per block during the run.

/// One block, complete.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Block {
    /// Its number, from 1.
    pub number: u64,
    /// Messages in it.
    pub messages: u64,
    /// The minimum latency, ns.
    pub min_ns: i64,
    /// The maximum latency, ns.
    pub max_ns: i64,
    /// The mean latency, ns.
    pub mean_ns: f64,
}

/// Collects messages into blocks of one length.
#[derive(Debug, Clone)]
pub(super) struct Blocks {
    length: u64,
    begun: u64,
    in_block: u64,
    min_ns: i64,
    max_ns: i64,
    sum_ns: i64,
    complete: Vec<Block>,
}

/// Number of blocks kept until they are printed. Further blocks of a batch are dropped, because nothing may be
/// allocated while the clock runs.
const MOST: usize = 4096;

impl Blocks {
    /// Blocks of `length` messages.
    pub(super) fn of(length: u64) -> Self {
        let complete = Vec::with_capacity(MOST);
        Self { length: length.max(1), begun: 0, in_block: 0, min_ns: i64::MAX, max_ns: i64::MIN, sum_ns: 0, complete }
    }

    /// Adds a message. Allocates nothing.
    #[inline]
    pub(super) fn add(&mut self, ns: i64) {
        self.min_ns = self.min_ns.min(ns);
        self.max_ns = self.max_ns.max(ns);
        self.sum_ns = self.sum_ns.saturating_add(ns);
        self.in_block += 1;
        if self.in_block == self.length {
            self.begun += 1;
            if self.complete.len() < MOST {
                let mean_ns = self.sum_ns as f64 / self.length as f64;
                let Self { begun: number, length: messages, min_ns, max_ns, .. } = *self;
                self.complete.push(Block { number, messages, min_ns, max_ns, mean_ns });
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
    fn blocks_are_complete_or_not_told() {
        let mut blocks = Blocks::of(3);
        for ns in [5, 1, 3, 10, 20, 30, 7] {
            blocks.add(ns);
        }
        let first = Block { number: 1, messages: 3, min_ns: 1, max_ns: 5, mean_ns: 3.0 };
        assert_eq!(blocks.take(), [first, Block { number: 2, messages: 3, min_ns: 10, max_ns: 30, mean_ns: 20.0 }]);
        assert_eq!(blocks.take(), []);
    }
}
