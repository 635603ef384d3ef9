//! The verdict in sentences, computed from the figures.
//!
//! A sentence compares two figures only where their 95 % confidence intervals do not touch; otherwise it says that they
//! cannot be told apart. Each sentence holds the numbers it rests on. The functions are pure: [`Figures`] in, text out.

mod figures;
mod levers;
mod ranking;

pub use figures::{Difference, Estimate, Figure, Figures};
pub(crate) use figures::{int, quoted};
pub(crate) use levers::apart;
pub use levers::{Kind, Lever, Tally, levers, policy, slack};
pub(crate) use ranking::best;
pub use ranking::{least_cpu, least_late, least_late_sleeping, trade_off};

use crate::style::Style;

/// The paragraphs on the waits of one duration: which method to use, then what other conditions bring. None is empty.
#[must_use]
pub fn verdict(figures: &Figures<'_>, style: &Style) -> Vec<String> {
    let ranking = [least_late, least_late_sleeping, trade_off, least_cpu];
    let ranking: Vec<String> = ranking.iter().filter_map(|sentence| sentence(figures, style)).collect();
    let mut changes = slack(figures, style);
    changes.extend(policy(figures, style));
    [ranking, changes]
        .into_iter()
        .filter(|sentences| !sentences.is_empty())
        .map(|sentences| sentences.join(" "))
        .collect()
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
