//! `calibrate`: the overhead of a sleep on this machine (TN), and the cost of reading the clock (TS + TE).
//!
//! The model is elapsed = (TS + TE) + X·(TN + T). These are X consecutive sleeps of T, with one clock reading before
//! and one after. Each round measures many X and T, and fits them robustly ([`mod@fit`]). The rounds give the spread
//! and the drift of TN (`fits`). The proof follows (`proof`). It has the errors of plain waits, and of the library's
//! compensated sleep. It also has those of waits shortened by that TN or by one measured just before. Both are
//! families of the frame.
//!
//! The input is a [`Plan`]. The output is series of the experiment `calibrate`, per method and variant of conditions.
//! The parameter `figure` identifies them. `sleep_adds` and `clock_costs` have a sample per round, in order. `plain`,
//! `compensated`, `remeasured` and `compensated_sleeper` have the error of each wait, signed. Only methods that take a duration can
//! be calibrated: the overhead of an absolute deadline does not add up.

pub mod fit;
mod fits;
mod plan;
mod proof;

use punctual_record::Experiment;

use crate::frame::{self, Error, Session};
use fits::Fits;
pub use plan::{Plan, Request, can_be_calibrated};
use proof::Proofs;

/// Name of this experiment in the record.
pub const EXPERIMENT: &str = Experiment::CALIBRATE;

/// Runs the plan and enters its measurements in the session.
pub fn run(plan: Plan, session: &mut Session<'_>) -> Result<(), Error> {
    let fits = frame::run(Fits(plan.clone()), session)?;
    let proofs = Proofs::of(plan, &fits.extras);
    if proofs.is_empty() || session.stopped() {
        return Ok(());
    }
    frame::run(proofs, session).map(drop)
}
