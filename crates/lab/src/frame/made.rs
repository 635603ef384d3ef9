//! Made-up results, for tests of a family's records.

use punctual_record::{Recorder, SeriesTally, Usage};

use super::family::Family;
use super::outcome::measured;
use super::report::Report;

/// A tally of one round with these samples.
pub(crate) fn tally(samples: &[i64]) -> SeriesTally {
    let mut recorder = Recorder::new();
    samples.iter().for_each(|&sample| recorder.record(sample));
    let mut tally = SeriesTally::new();
    tally.add_round(0, 0, &recorder, Usage { elapsed_ns: 1_000, ..Usage::default() });
    tally
}

/// A family's record of a cell with these samples, with the same results beside them for all cells.
pub(crate) fn report<F: Family>(family: &F, cell: usize, samples: &[i64], extras: &[F::Extra]) -> Report {
    family.report(cell, &measured(family, cell, &tally(samples), (extras, &[])))
}
