//! The verdict in sentences, computed from the figures.
//!
//! A sentence compares two figures only if their 95 % confidence intervals do not overlap; otherwise it states no
//! difference. Each sentence contains its figures, and an interval only if it is about a difference. The functions are
//! pure: [`Figures`] in, [`Finding`]s out.

mod alone;
mod figures;
mod finding;
mod levers;
mod ranking;
mod timers;

pub use alone::{alone, comparison};
pub use figures::{Difference, Estimate, Figure, Figures, best};
pub(crate) use figures::{SLEEPING_CALLS, by_asked, usual};
pub use finding::{Code, Finding, Group, Place, Sentence, together};
pub(crate) use levers::large_slack;
pub use levers::{Lever, Tally, changes, levers};
pub use ranking::{answer, cpu_time, trade_off};
pub(crate) use timers::without_slack_rows;
pub use timers::{without_slack, without_slack_row};

/// What is to be said on the waits of one duration, in order: which method to use, what spinning buys, CPU time, timers without slack,
/// what each change of conditions brings.
#[must_use]
pub fn verdict(figures: &Figures<'_>) -> Vec<Finding> {
    if let Some(finding) = alone(figures) {
        return vec![finding];
    }
    let single = [answer, trade_off, cpu_time, without_slack];
    let mut findings: Vec<Finding> = single.iter().filter_map(|finding| finding(figures)).collect();
    findings.extend(changes(figures));
    findings
}
