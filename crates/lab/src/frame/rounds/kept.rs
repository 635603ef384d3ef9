//! Enters what a bench measured beside its samples, if the batch counts.

use punctual_record::{Recorder, Usage};

use super::Bench;
use crate::frame::error::Failure;
use crate::frame::ledger::Shared;

/// A bench with the results of its cells beside their samples. The runner uses it, so that it is compiled once for
/// all families.
pub(crate) struct Kept<'a, X> {
    /// The family's part.
    pub(crate) bench: &'a mut dyn Bench<Extra = X>,
    /// The results of cells beside their samples.
    pub(crate) extras: Shared<Vec<X>>,
}

impl<X> Bench for Kept<'_, X> {
    type Extra = ();

    fn doing(&self, cell: usize) -> String {
        self.bench.doing(cell)
    }

    fn detail(&self, cell: usize) -> Option<String> {
        self.bench.detail(cell)
    }

    fn begin(&mut self) {
        self.bench.begin();
    }

    fn nominal_ns(&self, cell: usize) -> Option<u64> {
        self.bench.nominal_ns(cell)
    }

    fn operations(&self, cell: usize, scheduled: u64) -> u64 {
        self.bench.operations(cell, scheduled)
    }

    fn batch(&mut self, cell: usize, operations: u64, into: &mut Recorder) -> Result<Usage, Failure> {
        self.bench.batch(cell, operations, into)
    }

    fn keep(&mut self, cell: usize, round: (u32, u64), (): &mut ()) {
        self.bench.keep(cell, round, &mut self.extras.open()[cell]);
    }

    fn end(&mut self) {
        self.bench.end();
    }
}
