//! Why threads did not get a remedy: the most frequent reason stands for them.

use std::collections::BTreeMap;

use punctual::Refused;
use punctual_record::TrialRefused;
use punctual_record::remedy::of_refused;

/// A remedy that is not tried, and what would allow it.
pub(super) fn refused(why: impl Into<String>, remedy: Option<&str>) -> TrialRefused {
    TrialRefused { why: why.into(), remedy: remedy.map(str::to_owned) }
}

/// What the kernel refused, and what would allow it.
pub(super) fn refused_by_kernel(refused: &Refused) -> TrialRefused {
    TrialRefused { why: refused.why.clone(), remedy: Some(of_refused(refused).to_string()) }
}

/// Reasons of the threads of one program.
#[derive(Debug, Default)]
pub(super) struct Reasons(BTreeMap<(String, Option<String>), u64>);

impl Reasons {
    pub(super) fn add(&mut self, TrialRefused { why, remedy }: TrialRefused) {
        *self.0.entry((why, remedy)).or_default() += 1;
    }

    /// In words, where `set` threads got it. `None`: there is no reason.
    pub(super) fn refused(&self, set: u64) -> Option<TrialRefused> {
        let ((why, remedy), count) = self.0.iter().max_by_key(|(_, count)| **count)?;
        let why = match set {
            0 => why.clone(),
            _ => format!("not on {count} of {} threads: {why}", set + self.0.values().sum::<u64>()),
        };
        Some(TrialRefused { why, remedy: remedy.clone() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_frequent_one_stands_for_all() {
        let mut reasons = Reasons::default();
        assert_eq!(reasons.refused(0), None);
        reasons.add(refused("rare", Some("none")));
        (0..2).for_each(|_| reasons.add(refused("frequent", None)));
        assert_eq!(reasons.refused(0).unwrap().why, "frequent");
        assert_eq!(reasons.refused(4).unwrap().why, "not on 2 of 7 threads: frequent");
    }
}
