//! Why threads woke up late: the answer, the first screen and the sections of a report.
//!
//! Takes the [`Causes`](punctual_record::Causes) of a run. Times are totals, or means per wake-up, so that parts add up.
//! A remedy is named for its cause; its gain is not measured, so none is claimed. Names come from the kernel or a file,
//! and are neutralised.

use punctual_record::{Notice, Run, Unseen};

mod bars;
mod head;
mod keeper;
mod lost;
mod phrase;
mod pictures;
mod sections;
mod sentence;
mod tally;
mod typical;
mod watching;
mod worst;

pub(crate) use head::{call, figures, trust};
pub(crate) use phrase::{label, part, predicate};
pub(crate) use sections::sections;
pub(crate) use sentence::sentences;
pub(crate) use typical::{Share, typical};

/// Whether the causes are what the command asked for.
pub(crate) fn asked(run: &Run) -> bool {
    run.subcommand == "why"
}

/// The name of the program that was watched; absent where it was this one.
pub(crate) fn program(run: &Run) -> Option<String> {
    run.causes.as_ref()?.program.as_ref().map(|program| phrase::name(&program.name))
}

/// Why a check-up could not watch its wake-ups, and what would allow it.
pub(crate) fn refused(run: &Run) -> Option<&Unseen> {
    let mut all = run.notices.iter().filter(|_| run.is_checkup());
    all.find_map(|notice| match notice {
        Notice::Unseen(unseen) => Some(unseen),
        _ => None,
    })
}
