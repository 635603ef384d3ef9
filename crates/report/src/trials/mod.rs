//! What remedies did to a program on which they were tried: advice, and a section with each.
//!
//! Takes the [`Trial`](punctual_record::Trial)s of a run. Three things are different: no difference shown, too few wake-ups to test, and
//! refused. A remedy that was refused is no advice; it is among what could not be tried.

mod acts;
mod judge;
mod quiet;
mod section;

pub(crate) use judge::{advice, untried};
pub(crate) use section::{section, summary};
