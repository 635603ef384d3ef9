//! Why a run cannot be merged with those before it.

use crate::distribution;

/// Why a run cannot be merged with those before it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The run is merged already.
    #[error("the run that began at {started} is there already: its samples would count twice; name each run once")]
    Twice {
        /// When it began.
        started: String,
    },
    /// The runs have different clocks.
    #[error("its times were taken by {found}, those before it by {expected}; merge runs of one clock")]
    OtherClock {
        /// Its clock.
        found: String,
        /// The clock of the other runs.
        expected: String,
    },
    /// The runs share no series.
    #[error(
        "it shares no series with the runs before it (same experiment, subject, parameters and conditions as granted); \
         merge runs of the same command"
    )]
    NothingInCommon,
    /// The unit is not nanoseconds.
    #[error("the figures of series {series} are in {unit}, not in ns")]
    Unit {
        /// Subject of the series.
        series: String,
        /// Its unit.
        unit: String,
    },
    /// One run has the same series twice.
    #[error("it has two series of {series} that differ in nothing but their figures; the file was altered")]
    Ambiguous {
        /// Subject of the series.
        series: String,
    },
    /// The figures are damaged.
    #[error(transparent)]
    Figures(#[from] distribution::Error),
    /// The samples are too many to count.
    #[error("the samples of series {series} are more than can be counted; the file was altered")]
    TooMany {
        /// Subject of the series.
        series: String,
    },
    /// The merged figures of altered runs contradict each other.
    #[error(
        "the figures of these runs, added together, contradict each other: {why}; a file was altered or is damaged"
    )]
    Contradictory {
        /// The first contradiction.
        why: String,
    },
}
