//! The flag that stands for each part of a plan, for what a plan refuses.

use punctual_lab::{Input, PlanError};
use punctual_record::Run;

use crate::refusal::BadUsage;

/// The flag; `None`: it is no flag.
const fn flag(input: Input) -> Option<&'static str> {
    Some(match input {
        Input::Rounds => "--rounds",
        Input::Samples => "--samples",
        Input::Time => "--duration",
        Input::Wait => "--for",
        Input::Cpu => "--cpu",
        Input::SenderCpu => "--sender-cpu",
        Input::Competitors => "--competitors",
        Input::Polls => "--polls",
        Input::Size => "--size",
        Input::Depth => "--depth",
        Input::Places => "--cpus",
        Input::Interval => "--every",
        Input::Target => "--to",
        Input::Sweep => "--sweep",
        Input::Check => "--check",
        Input::Loops => "--loops",
        Input::Work => "--work",
        Input::Period => "--period",
        Input::Periods => "--periods",
        Input::Deadline => "--deadline",
        Input::Switches => "--switches",
        Input::Methods | Input::Datagrams => return None,
    })
}

/// What to type instead, where the reason does not say.
const fn hint(input: Input) -> &'static str {
    match input {
        Input::Samples => " (example: --duration 60s)",
        Input::Datagrams => " (--yes confirms it)",
        _ => "",
    }
}

impl From<PlanError> for BadUsage {
    fn from(PlanError { input, why }: PlanError) -> Self {
        Self(format!("invalid {}: {why}{}", flag(input).unwrap_or(input.noun()), hint(input)))
    }
}

/// What remedies of the experiments ask for, and the flag that does it.
const FLAGS: [(&str, &str); 9] = [
    ("give more time", "--duration"),
    ("ask for a number of samples", "--samples"),
    ("send datagrams to an address", "--to ADDRESS:PORT"),
    ("a smaller size or depth", "--size, --depth"),
    ("a smaller size", "--size"),
    ("a smaller depth", "--depth"),
    ("receive by polling", "--receive poll"),
    ("give the sender another CPU", "--sender-cpu"),
    ("choose another CPU", "--cpu"),
];

/// The remedy with the flags that it takes in this command.
fn with_flags(remedy: &str) -> String {
    let mut named = remedy.to_owned();
    for (words, flag) in FLAGS {
        let with_flag = format!("{words} ({flag})");
        // The longer words come first and hold the shorter ones.
        if named.contains(words) && !named.contains(&with_flag) && !named.contains(&format!("{words} or")) {
            named = named.replacen(words, &with_flag, 1);
        }
    }
    named
}

/// Names the flags in all remedies of what could not be measured.
pub(crate) fn name_flags(run: &mut Run) {
    for remedy in run.not_measured.iter_mut().filter_map(|missing| missing.remedy.as_mut()) {
        *remedy = with_flags(remedy);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_remedy_names_the_flag() {
        let more = "give more time, ask for a number of samples, or name fewer methods";
        let named = "give more time (--duration), ask for a number of samples (--samples), or name fewer methods";
        assert_eq!(with_flags(more), named);
        assert_eq!(
            with_flags("a smaller size or depth, or more memory"),
            "a smaller size or depth (--size, --depth), or more memory"
        );
        assert_eq!(with_flags("a smaller size"), "a smaller size (--size)");
        assert_eq!(with_flags("set it on the host"), "set it on the host");
    }

    #[test]
    fn a_refusal_names_the_flag() {
        let refused = |input| BadUsage::from(PlanError { input, why: "must be at least 1".into() }).to_string();
        assert_eq!(refused(Input::Rounds), "invalid --rounds: must be at least 1");
        assert_eq!(refused(Input::Methods), "invalid method: must be at least 1");
        assert!(refused(Input::Datagrams).ends_with("(--yes confirms it)"));
    }
}
