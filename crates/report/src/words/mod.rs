//! The verdict in sentences, computed from the figures.
//!
//! A sentence compares two figures only where their 95 % confidence intervals do not touch; otherwise it says that they
//! cannot be told apart. Each holds the figures it rests on; the intervals are in the tables, and in a sentence only where it is about a
//! difference. The functions are pure: [`Figures`] in, [`Finding`]s out.

mod alone;
mod figures;
mod finding;
mod levers;
mod ranking;
mod timers;

pub use alone::{alone, comparison};
pub use figures::{Difference, Estimate, Figure, Figures};
pub(crate) use figures::{int, running, usual};
pub use finding::{Code, Finding, Group, Place, Sentence, together};
pub use levers::{Kind, Lever, Tally, levers, policy, policy_call, slack, slack_call};
pub use ranking::{answer, best, cpu_time, trade_off};
pub use timers::{without_slack, without_slack_row};

use crate::style::Style;

/// What is to be said on the waits of one duration, in order: which method to use, what spinning buys, CPU time, what slack costs, what
/// a real-time policy gains.
#[must_use]
pub fn verdict(figures: &Figures<'_>, style: &Style) -> Vec<Finding> {
    if let Some(finding) = alone(figures, style) {
        return vec![finding];
    }
    let single = [answer, trade_off, cpu_time, without_slack];
    let mut findings: Vec<Finding> = single.iter().filter_map(|finding| finding(figures, style)).collect();
    findings.extend(slack(figures, style));
    findings.extend(policy(figures, style));
    findings
}

/// `a`, `a and b`, `a, b and c`; more than `most` names end with `and N others`.
pub(crate) fn listed(names: &[String], most: usize) -> String {
    match names {
        [] => String::new(),
        [one] => one.clone(),
        _ if names.len() > most => {
            format!("{} and {} others", names[..most - 1].join(", "), names.len() - most + 1)
        }
        [most @ .., last] => format!("{} and {last}", most.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::listed;

    #[test]
    fn lists_end_with_and() {
        let names: Vec<String> = ["a", "b", "c", "d"].map(String::from).to_vec();
        assert_eq!(listed(&names[..1], 3), "a");
        assert_eq!(listed(&names[..2], 3), "a and b");
        assert_eq!(listed(&names[..3], 3), "a, b and c");
        assert_eq!(listed(&names, 3), "a, b and 2 others");
    }
}
