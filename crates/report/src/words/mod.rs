//! Figures of waits in one place: the series of one requested duration, and which of them stand for the others.

mod figures;

pub(crate) use figures::{Estimate, Figure, Figures, SLEEPING_CALLS, best, by_asked, usual};
